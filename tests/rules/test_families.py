"""Families: rules that belong together in one file, each with an id as if it had a file of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdiag import RuleError
from logdiag.authoring.scenes import prove
from logdiag.rules import RuleBook
from logdiag.rules.check import check
from logdiag.rules.files import parse
from logdiag.rules.folders import RuleFiles, shipped_folder
from tests.helpers import book_of, rule_text, run_logdiag, write_rule


def family(**rules: str) -> str:
    """A file with these rules."""
    rows = "".join(f"  {name}:\n{_indented(text)}" for name, text in rules.items())
    return f"about: What looms print.\nrules:\n{rows}"


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


JAMMED = rule_text()
TORN = rule_text("KeyError", ["thread torn"], ["error: thread torn"])


def test_each_rule_of_a_family_has_its_folder_and_name_as_id(tmp_path: Path) -> None:
    """As if it were a file of its own, and it is proved so."""
    write_rule(tmp_path, "looms/weaving", family(jammed=JAMMED, torn=TORN))
    book = book_of(tmp_path)
    assert [(rule.id, rule.reason) for rule in book.rules] == [
        ("looms/jammed", "RuntimeError"),
        ("looms/torn", "KeyError"),
    ]
    assert check(book) == []
    assert prove(book) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (family(jammed=JAMMED, torn=rule_text("KeyError", action="pray")), r"weaving\.yaml:17: rules\.torn\.action: "),
        (family(jammed=JAMMED, torn=rule_text(match=["torn ("])), r"weaving\.yaml:18: rules\.torn\.match\.0: torn \("),
        (
            family(jammed=JAMMED, torn=rule_text(None, role="progress")),
            r"weaving\.yaml:16: role: looms/torn is a progress rule",
        ),
        (family(jammed=JAMMED, torn="title: t"), r"weaving\.yaml:13: rules\.torn\.match: "),
        (family(jammed=JAMMED).replace("about", "abuot"), r"weaving\.yaml:1: about: "),
        ("about: none\nrules: {}\n", r"weaving\.yaml:2: rules: "),
    ],
)
def test_a_slip_is_told_with_the_line_of_its_rule(tmp_path: Path, text: str, said: str) -> None:
    """Where two rules have the same keys, the line is that of the wrong one."""
    write_rule(tmp_path, "looms/weaving", text)
    with pytest.raises(RuleError, match=said):
        parse(RuleFiles([tmp_path]))


def test_what_is_unproved_is_told_with_the_line_of_its_rule(tmp_path: Path) -> None:
    """The pattern stands in both rules; the second one has no example for it."""
    torn = rule_text("KeyError", ["thread torn", "widget jammed"], ["error: thread torn"])
    write_rule(tmp_path, "looms/weaving", family(jammed=JAMMED, torn=torn))
    (problem,) = [found for found in check(book_of(tmp_path)) if "no example is hit" in found.what]
    assert (problem.rule, problem.line) == ("looms/torn", 19)


def test_an_id_that_a_folder_has_twice_is_refused(tmp_path: Path) -> None:
    """In a family and in a file of its own: both files are named."""
    file = write_rule(tmp_path, "looms/jammed", JAMMED)
    write_rule(tmp_path, "looms/weaving", family(jammed=JAMMED))
    with pytest.raises(RuleError, match=rf"weaving\.yaml:3: looms/jammed: is in {file} too; keep one"):
        parse(RuleFiles([tmp_path]))


def test_a_later_folders_rule_replaces_one_of_a_family(tmp_path: Path) -> None:
    """The other rules of the family stay; so it is with one's own and with what ships."""
    write_rule(tmp_path / "team", "looms/weaving", family(jammed=JAMMED, torn=TORN))
    write_rule(tmp_path / "mine", "looms/jammed", rule_text("OSError"))
    told = {rule.id: rule.reason for rule in parse(RuleFiles([tmp_path / "team", tmp_path / "mine"])).rules}
    assert told == {"looms/jammed": "OSError", "looms/torn": "KeyError"}
    write_rule(tmp_path / "mine", "collectives/gloo-timeout", rule_text("OSError"))
    book = RuleBook.load([tmp_path / "mine"])
    told = {rule.id: rule.reason for rule in book.rules}
    assert (told["collectives/gloo-timeout"], told["collectives/gloo-peer-closed"]) == ("OSError", "ConnectionError")


def test_a_familys_file_of_the_same_name_replaces_all_of_it(tmp_path: Path) -> None:
    """What the new one leaves out is out of force."""
    write_rule(tmp_path, "collectives/gloo", family(jammed=JAMMED))
    ids = {rule.id for rule in RuleBook.load([tmp_path]).rules}
    assert "collectives/jammed" in ids
    assert not any(identity.startswith("collectives/gloo-") for identity in ids)


def test_a_copy_of_the_shipped_rules_is_proved_as_ones_own(tmp_path: Path) -> None:
    """`rules test` of a folder with families proves each of their rules."""
    (tmp_path / "collectives").mkdir()
    shutil.copy(Path(shipped_folder(), "collectives", "gloo.yaml"), tmp_path / "collectives")
    done = run_logdiag("rules", "test", tmp_path)
    assert done.stdout.decode().startswith("4 rules, 0 filters,"), done.stdout.decode()
