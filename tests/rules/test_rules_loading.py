"""How the rules in force come about: from a wheel, from the files, and with one's own joined to the shipped ones."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from logdiag.rules import RuleBook, loading
from logdiag.rules.book import example_line
from logdiag.rules.check import check
from logdiag.rules.files import parse
from logdiag.rules.folders import RuleFiles
from tests.helpers import LOGS, environment, rule_text, write_rule

OWN = {
    # Broader than the shipped rules of exceptions, narrower than one of them, one in a shipped one's place.
    "ours/broad": rule_text(match=["^[A-Za-z.]{1,80}Error: "], fires=["SeamError: seam open"]),
    "ours/narrow": rule_text(match=["^KeyError: 'widget"], fires=["KeyError: 'widget_7'"]),
    "nvidia/ecc-uncorrectable": rule_text(match=["memory is worn out"], fires=["gpu memory is worn out"]),
}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with rules of one's own."""
    for identity, text in OWN.items():
        write_rule(tmp_path / "own", identity, text)
    write_rule(
        tmp_path / "own", "filters/ours", "title: t\ndrop: ['spool turns']\nexamples: {drops: [the spool turns]}\n"
    )
    return tmp_path / "own"


def test_rules_joined_are_those_that_are_read_together(own: Path, some_rules: Path, own_cache: Path) -> None:
    """The same winner on every example of every rule, the same rules narrower than others, the same filters."""
    together = RuleBook(*parse(RuleFiles([some_rules, own])))
    joined = loading._with_own(RuleFiles([some_rules]), RuleFiles([own]), [own])
    assert {rule.id for rule in joined.rules} == {rule.id for rule in together.rules}

    def narrower(book: RuleBook) -> dict[str, set[str]]:
        return {book.rules[at].id: {book.rules[i].id for i in narrow} for at, narrow in book.narrower.items() if narrow}

    assert narrower(joined) == narrower(together)
    assert narrower(joined)["ours/broad"] >= {"python/key-error", "ours/narrow"}
    for rule in together.rules:
        for example in rule.fires:
            line, frames = example_line(example)
            assert joined.confirm_all(line, frames) == together.confirm_all(line, frames)
            assert joined.filters_of(line) == together.filters_of(line)
            assert joined.is_progress(line) == together.is_progress(line)


def test_what_is_kept_between_calls_is_what_the_files_say(own: Path) -> None:
    """The shipped rules are read once in a process; an edited rule of one's own counts at the next call."""
    assert RuleBook.load().rules is RuleBook.load().rules
    first = RuleBook.load([own])
    assert RuleBook.load(own).rules is first.rules
    write_rule(own, "ours/narrow", OWN["ours/narrow"].replace("widget", "gadget"))
    patterns = {pattern for rule in RuleBook.load(own).rules for pattern in rule.match}
    assert "^KeyError: 'gadget" in patterns
    assert "^KeyError: 'widget" not in patterns


def test_what_was_too_slow_is_forgotten_with_its_diagnosis() -> None:
    """Of two books that are kept as one, none knows what the other passed over."""
    first, second = RuleBook.load(), RuleBook.load()
    first._searcher._slow["a pattern"] += 1
    assert not second._searcher._slow


def test_only_ones_own_are_proved_and_what_they_take(own: Path) -> None:
    """A rule that wins a shipped rule's example is named, with the example's owner; shipped rules are not proved."""
    taken = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
    write_rule(own, "ours/taker", rule_text(match=[taken], fires=[taken]))
    (own / "nvidia" / "ecc-uncorrectable.yaml").unlink()
    book = RuleBook.load([own])
    problems = check(book, {"ours/narrow", "ours/taker", "filters/ours"})
    assert {problem.rule for problem in problems} == {"ours/taker"}
    assert any("an example of nvidia/ecc-uncorrectable" in problem.what for problem in problems)


def test_a_rule_that_takes_a_filters_example_is_told(own: Path) -> None:
    """What healthy jobs print all day is no failure; a rule of one's own that only calls it harmless takes nothing."""
    shown = RuleBook.load().filters[0].drops[0]
    write_rule(own, "ours/taker", rule_text(match=[re.escape(shown)], fires=[shown]))
    taken = [found for found in check(RuleBook.load([own]), {"ours/taker"}) if "takes" in found.what]
    assert [found.rule for found in taken if "an example of filters/" in found.what]
    (own / "ours" / "taker.yaml").unlink()
    write_rule(own, "context/taker", rule_text(None, [re.escape(shown)], [shown], role="harmless"))
    problems = check(RuleBook.load([own]), {"context/taker"})
    assert not any("an example of filters/" in problem.what for problem in problems)


COMPILE = """
from logdiag.read.forms import shipped_forms
from logdiag.rules import RuleBook
RuleBook.load()
shipped_forms()
"""


@pytest.fixture
def installed(site: Path, tmp_path: Path) -> Path:
    """The package as a wheel installs it, with its rules compiled."""
    shutil.copytree(site, tmp_path / "site")
    folder = tmp_path / "site" / "logdiag" / "data" / "compiled"
    env = environment({"LOGDIAG_CACHE": str(folder), "PYTHONPATH": str(tmp_path / "site")})
    subprocess.run([sys.executable, "-c", COMPILE], env=env, check=True, cwd=tmp_path)
    return tmp_path / "site"


ASKED = """
import sys
from logdiag import diagnose
answer = diagnose(sys.argv[1], memory=False)
print(answer.root_cause.rule, "yaml" in sys.modules)
"""


def asked(site: Path, cache: Path) -> list[str]:
    """The rule of the root cause, and whether a rule file was parsed, in a process of its own without a cache."""
    env = environment({"LOGDIAG_CACHE": str(cache), "PYTHONPATH": str(site)})
    command = [sys.executable, "-c", ASKED, str(LOGS / "demo.log")]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=True, cwd=site).stdout.split()


def test_a_wheels_first_run_compiles_nothing(installed: Path, tmp_path: Path) -> None:
    """No rule file is parsed, and nothing is written to the cache; an edited rule counts at once all the same."""
    assert asked(installed, tmp_path / "cache") == ["nvidia/ecc-uncorrectable", "False"]
    assert list(tmp_path.glob("cache/*-*")) == []
    rule = installed / "logdiag" / "data" / "rules" / "nvidia" / "ecc-uncorrectable.yaml"
    rule.rename(rule.with_name("renamed.yaml"))
    assert asked(installed, tmp_path / "cache") == ["nvidia/renamed", "True"]


def test_a_wheel_of_another_machine_saves_the_parsing(installed: Path, tmp_path: Path) -> None:
    """What is scanned for is compiled anew from the rules that the wheel holds, once."""
    (file,) = (installed / "logdiag" / "data" / "compiled").glob("matchers-*")
    file.unlink()
    assert asked(installed, tmp_path / "cache") == ["nvidia/ecc-uncorrectable", "False"]
    assert [path.name for path in tmp_path.glob("cache/*-*")] == [file.name]
