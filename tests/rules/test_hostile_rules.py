"""Rule folders that are broken or hostile: a sentence with file and line, in little time and memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from logdiag import RuleError, diagnose
from logdiag.model import Reason
from logdiag.rules import RuleBook, folders, searching
from logdiag.rules.files import parse
from logdiag.rules.folders import RuleFiles, shipped_folder
from tests.helpers import log_of, rule_text, steps, traceback_of, write_rule

HEAD = "title: Ours\n"
MALFORMED = {
    "a list as a key": HEAD + "? [a, b]\n: c\n",
    "a mapping as a key": HEAD + "? {a: b}\n: c\n",
    "an alias as a key": "title: &map {a: b}\n? *map\n: c\n",
    "a month of its own": "reason: Others\ntitle: 2024-13-45\n",
    "no number": HEAD + 'why: !!int "abc"\n',
    "no fraction": HEAD + 'why: !!float "abc"\n',
    "no truth": HEAD + 'why: !!bool "abc"\n',
    "no time": HEAD + 'why: !!timestamp "abc"\n',
    "no bytes": HEAD + 'why: !!binary "a"\n',
    "a number of 5,000 digits": HEAD + "why: " + "9" * 5000 + "\n",
    "nested 3,000 deep": HEAD + "why: " + "[" * 3000 + "\n",
    "nested and closed": HEAD + "why: " + "[" * 3000 + "]" * 3000 + "\n",
    "a tag of Python": HEAD + "why: !!python/object/apply:os.system ['true']\n",
    "a key given twice": HEAD + HEAD,
    "a set": "!!set {a, b}\n",
    "another's tag": HEAD + "why: !ours x\n",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_malformed_files_are_a_sentence_with_file_and_line(tmp_path: Path, text: str) -> None:
    """Never an exception of a library."""
    path = write_rule(tmp_path, "script/ours", text)
    with pytest.raises(RuleError, match=rf"^{path}(:[1-9]\d*)?: \S") as caught:
        parse(RuleFiles([tmp_path]))
    assert "\n" not in str(caught.value) or all(line.startswith(str(path)) for line in str(caught.value).split("\n"))
    if text != MALFORMED["a set"]:
        assert f"{path}:" in str(caught.value).replace(f"{path}: ", "")


REFUSED = {
    "repeats of repeats": ("foo(?=((((((a?){90}){90}){90}){90}){90}){90}))", "bound them lower"),
    "one large repeat": ("ab{1,99999}c", "bound them lower"),
    "a repeat of 5,000 digits": ("ab{" + "9" * 3000 + "}c", "bound them lower"),
    "a long pattern": ("widget " * 1000, "write several"),
    "an open group": ("widget (jammed", "is no regular expression"),
    "5,000 groups": ("(" * 1900 + "a" + ")" * 1900, "is no regular expression"),
}


@pytest.mark.parametrize(("pattern", "said"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("key", ["match", "unless", "within"])
def test_patterns_that_cost_too_much_or_are_none_are_refused_before_they_are_compiled(
    tmp_path: Path, pattern: str, said: str, key: str
) -> None:
    """With the line that they stand on, in a second."""
    more = {} if key == "match" else {key: f"['{pattern}']"}
    text = rule_text(match=[pattern] if key == "match" else ["widget jammed"], **more)
    path = write_rule(tmp_path, "script/ours", text)
    number = next(at for at, line in enumerate(text.splitlines(), 1) if pattern in line)
    began = time.thread_time()
    with pytest.raises(RuleError) as caught:
        parse(RuleFiles([tmp_path]))
    assert str(caught.value).startswith(f"{path}:{number}: ")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert time.thread_time() - began < 6


def test_what_ships_stays_far_below_the_limits(book: RuleBook) -> None:
    """So that rules like ours are never refused."""
    patterns = [pattern for rule in book.rules for pattern in (*rule.match, *rule.unless, *rule.within)]
    assert max(map(searching.size, patterns)) < 5_000
    assert sum(map(searching.size, patterns)) < searching.LARGEST * 2 / 3
    assert searching.size("((ab{2}){3}c)+") == 11


def test_a_file_or_a_folder_that_holds_no_rules_is_refused_at_once(tmp_path: Path) -> None:
    """A large file, a pipe, thousands of files."""
    large = write_rule(tmp_path / "large", "script/ours", "match:\n" + "- a\n" * 100_000)
    with pytest.raises(RuleError, match=f"^{large}: is larger than 256 kB"):
        parse(RuleFiles([tmp_path / "large"]))
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "ours.yaml")
    with pytest.raises(RuleError, match=r"ours\.yaml: is no file"):
        parse(RuleFiles([tmp_path / "pipe"]))
    (tmp_path / "many" / "script").mkdir(parents=True)
    for number in range(folders.MOST_FILES + 1):
        (tmp_path / "many" / "script" / f"{number}.yaml").write_bytes(b"")
    with pytest.raises(RuleError, match="many: holds more than 5000 files"):
        parse(RuleFiles([tmp_path / "many"]))


def test_patterns_that_are_too_many_together_are_refused(tmp_path: Path) -> None:
    """Each alone would do."""
    for number in range(240):
        text = rule_text(match=[f"widget {number} .{{0,9000}}jammed"], fires=[f"widget {number} jammed"])
        write_rule(tmp_path, f"framework/ours-{number}", text)
    with pytest.raises(RuleError, match="the 240 patterns of your own stand for more than 2,000,000 characters"):
        parse(RuleFiles([tmp_path]))


RUNAWAY = r"(x*)(x*)(x*)(x*)(x*)\1\2\3\4\5[QR]"


def test_a_within_that_runs_away_costs_a_note_and_not_the_diagnosis(tmp_path: Path) -> None:
    """The rule counts as not firing there; the failure is named by the rules that ship."""
    text = rule_text(
        match=["ValueError: odd widget"], fires=["ValueError: odd widget"], within=f"['{RUNAWAY}', 'File']"
    )
    write_rule(tmp_path, "framework/ours", text)
    frames = traceback_of("ValueError: odd widget")
    frames.insert(2, f"    {'x' * 300}")
    answer = diagnose(log_of(*steps(1, 20), *frames), rules=[tmp_path], memory=False)
    assert answer.failed
    assert answer.root_cause is not None
    assert "ValueError: odd widget" in answer.root_cause.text
    (note,) = [note for note in answer.notes if "framework/ours" in note]
    assert "took longer than 0.2 s" in note


def test_a_pattern_that_runs_away_on_many_lines_is_passed_over_after_some(tmp_path: Path) -> None:
    """The time of a diagnosis does not grow with the lines that it is slow on."""
    text = rule_text(match=[rf"widget {RUNAWAY}"], fires=["widget xxQ"])
    write_rule(tmp_path, "framework/ours", text)
    book = RuleBook.load([tmp_path])
    lines = [f"ERROR widget {'x' * 300} number {number}" for number in range(200)]
    began = time.thread_time()
    answer = diagnose(log_of(*lines), rules=book, memory=False)
    assert time.thread_time() - began < 8
    assert any("rule framework/ours" in note and "lines after these" in note for note in answer.notes)
    again = diagnose(log_of("widget xxQ"), rules=book, memory=False)
    assert again.root_cause is not None
    assert again.root_cause.rule == "framework/ours"
    assert again.notes == tuple(note for note in again.notes if "framework/ours" not in note)


def test_the_whole_file_system_is_no_folder_of_rules() -> None:
    """A slip such as --rules / ends in seconds, not after a minute's walk."""
    began = time.monotonic()
    with pytest.raises(RuleError):
        RuleBook.load(["/"])
    assert time.monotonic() - began < 30


def test_shipped_rules_are_taken_as_proved(book: RuleBook) -> None:
    """All of them come from the shipped folder, none from elsewhere."""
    assert all(rule.file.startswith(shipped_folder()) and rule.shipped for rule in book.rules)
    assert {rule.reason for rule in book.rules} <= {reason.value for reason in Reason}
