"""The rule engine: what a rule file may say, which rule wins, and that neither cache nor platform changes an answer."""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdiag import Action, Reason, RuleError, diagnose
from logdiag.judge.verdict import SURE
from logdiag.model import Finding, Role
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook, loading
from logdiag.rules.check import check
from logdiag.rules.files import parse
from logdiag.rules.folders import RuleFiles
from logdiag.rules.literals import scan_form
from tests.helpers import (
    LOGS,
    SAMPLES,
    book_of,
    environment,
    loaded_anew,
    log_of,
    quoted,
    rule_text,
    steps,
    traceback_of,
    write_rule,
)


def fires(book: RuleBook, text: str, frames: str = "") -> Finding | None:
    """What a book says of one line."""
    return book.confirm_all(parse_line(text), frames)


def fired(book: RuleBook, text: str, frames: str = "") -> Finding:
    """As `fires`, of a line on which some rule must fire."""
    finding = fires(book, text, frames)
    assert finding is not None
    return finding


# --- what a file may say ---

BROKEN = {
    "no YAML": ("reason: [unclosed", r"a\.yaml:\d+: not valid YAML"),
    "a key given twice": (
        rule_text() + "title: again\n",
        r"a\.yaml:\d+: not valid YAML: the key 'title' is given twice; keep one",
    ),
    "no mapping": ("- one\n- two\n", r"a\.yaml:?\d*: holds no mapping"),
    "an unknown reason": (rule_text(reason="GremlinError"), r"a\.yaml:1: reason: .*NVLinkError"),
    "an unknown action": (rule_text(action="pray"), r"a\.yaml:\d+: action: .*restart"),
    "an unknown role": (rule_text(role="villain"), r"a\.yaml:\d+: role: "),
    "an unknown key": (rule_text(priority="5"), r"a\.yaml:\d+: priority: "),
    "no match": ("reason: RuntimeError\ntitle: t\nwhy: w\nexamples: {fires: [a]}\n", r"a\.yaml:1: match: "),
    "examples without a line that it is for": (
        rule_text().partition("examples:")[0] + "examples: {quiet: [a widget]}",
        r"a\.yaml:\d+: examples: there is no line that the rule is for",
    ),
    "no examples": ("reason: RuntimeError\ntitle: t\nwhy: w\nmatch: [abcd]\n", r"a\.yaml:1: examples: "),
    "an empty match": (rule_text(match=()).replace("match:", "match: []"), r"a\.yaml:\d+: match: "),
    "no reason": (rule_text(reason=None), r"a\.yaml:\d+: .*reason is missing"),
    "no why": (rule_text(why="''"), r"a\.yaml:\d+: .*why is missing"),
    "a number as pattern": (rule_text().replace("'widget jammed'", "17", 1), r"a\.yaml:\d+: match\.0: "),
    "a context role here": (rule_text(reason=None, role="progress"), r"a\.yaml:3: role: "),
    "a process rule here": (rule_text(reason=None, role="process"), r"a\.yaml:3: role: .* in context/processes/"),
    "an unknown explained reason": (rule_text(explains="[Gremlins]"), r"a\.yaml:\d+: explains\.0: "),
    "an unknown key in a row": (
        rule_text(codes="{group: x, rows: {1: {colour: red}}}"),
        r"a\.yaml:\d+: codes\.rows\.1\.colour: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_file_is_refused_with_its_place_and_a_remedy(tmp_path: Path, text: str, message: str) -> None:
    """The file, the line, the field and what to do stand in one line."""
    write_rule(tmp_path, "framework/a", text)
    with pytest.raises(RuleError, match=message) as caught:
        parse(RuleFiles([tmp_path]))
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_piece_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    """Only in rules of the role process; elsewhere braces are what they are."""
    write_rule(tmp_path, "framework/a", rule_text(match=["widget jammed|{bench}"]))
    assert check(book_of(tmp_path)) == []
    ended = rule_text(None, ["^seat {bench} jammed"], ["seat 3 jammed"], role="process")
    write_rule(tmp_path, "context/processes/ended/a", ended)
    with pytest.raises(
        RuleError, match=r"a\.yaml:5: .*\{bench\} is no piece; use one of rank, pid, .* or write it out"
    ):
        book_of(tmp_path)


def test_the_line_of_a_problem_is_the_fields_own(tmp_path: Path) -> None:
    """An editor can jump there."""
    write_rule(tmp_path, "framework/a", "# a comment\n" + rule_text(action="pray"))
    number = (tmp_path / "framework/a.yaml").read_text(encoding="utf-8").splitlines().index("action: pray") + 1
    with pytest.raises(RuleError, match=rf"a\.yaml:{number}: action"):
        parse(RuleFiles([tmp_path]))


def test_all_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    """Two broken files, one of them with two problems: three lines."""
    write_rule(tmp_path, "framework/a", rule_text(action="pray", role="villain"))
    write_rule(tmp_path, "framework/b", rule_text(reason="GremlinError"))
    write_rule(tmp_path, "framework/c", rule_text())
    with pytest.raises(RuleError) as caught:
        parse(RuleFiles([tmp_path]))
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert sum("a.yaml:" in line for line in lines) == 2
    assert sum("b.yaml:" in line for line in lines) == 1


def test_a_file_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    """With its path and the remedy."""
    path = write_rule(tmp_path, "framework/a", "")
    path.write_bytes(b"title: \xff\xfe\n")
    with pytest.raises(RuleError, match=r"a\.yaml: not UTF-8.*save it as UTF-8"):
        parse(RuleFiles([tmp_path]))


@pytest.mark.parametrize("pattern", ["widget (jammed", "widget [jammed", "widget jammed)", "*widget"])
def test_a_pattern_that_is_no_expression_is_refused(tmp_path: Path, pattern: str) -> None:
    """As a rule error with the file and the pattern, wherever the compiler notices it."""
    write_rule(tmp_path, "framework/a", rule_text(match=[pattern]))
    try:
        said = "\n".join(map(str, check(book_of(tmp_path))))
    except RuleError as error:
        said = str(error)
    assert "a.yaml" in said
    assert pattern in said


def test_a_table_of_reasons_must_hold_each_reason(tmp_path: Path) -> None:
    """A reason that is missing is named, and one that does not exist, with its line."""
    write_rule(tmp_path, "reasons", "KeyError: {action: restart}\nGremlins: {action: restart}\n")
    with pytest.raises(RuleError, match=r"reasons\.yaml:2: Gremlins"):
        parse(RuleFiles([tmp_path]))
    write_rule(tmp_path, "reasons", "KeyError: {action: restart}\n")
    with pytest.raises(RuleError, match=r"reasons\.yaml:1: .*ValueError.* missing; the table holds each reason once"):
        parse(RuleFiles([tmp_path]))


def test_a_folder_is_a_topic_and_the_reason_tells_the_category(tmp_path: Path) -> None:
    """A rule of any reason may stand in any folder; a file beside the folders is refused with a remedy."""
    write_rule(tmp_path, "looms/widget", rule_text(reason="KeyError"))
    answer = diagnose(log_of("widget jammed"), rules=book_of(tmp_path))
    assert answer.root_cause is not None
    assert (answer.root_cause.rule, answer.category.value) == ("looms/widget", "script")
    write_rule(tmp_path, "widget", rule_text())
    with pytest.raises(RuleError, match=r"widget\.yaml:1: widget: stands in no topic's folder; move it to <topic>/"):
        book_of(tmp_path)


def test_a_missing_rule_folder_is_an_error(tmp_path: Path) -> None:
    """Named, with what it should hold."""
    with pytest.raises(RuleError, match=r"gone: no such folder of rules"):
        RuleBook.load([tmp_path / "gone"])


# --- what the check finds ---

READ_WRONG = "  reads:\n    'widget 3 jammed now': {rank: 4}\n"
UNPROVEN = {
    "an example that does not fire": (
        rule_text(fires=["error: widget jammed", "gear broke"]),
        "does not fire on 'gear broke'",
    ),
    "a quiet line that fires": (rule_text(quiet="['no widget jammed']"), "fires on the quiet line 'no widget jammed'"),
    "a pattern without example": (
        rule_text(match=["widget jammed", "gear broke"]),
        "no example is hit by 'gear broke'",
    ),
    "an unless that nothing needs": (
        rule_text(unless="['widget fine']", quiet="['a widget is well']"),
        "no quiet example needs unless 'widget fine'",
    ),
    "an unless that another stands in for": (
        rule_text(unless="['widget jammed: 0', 'jammed: 0']", quiet="['widget jammed: 0']"),
        "no quiet example needs unless 'widget jammed: 0'",
    ),
    "an example of which it reads something else": (
        rule_text(match=["widget (?P<rank>\\d+) jammed"], fires=["widget 3 jammed"]) + READ_WRONG,
        "reads {'rank': '3'} from 'widget 3 jammed now' instead of {'rank': '4'}",
    ),
    "a pattern that runs away": (rule_text(match=["(?:a|aa)+[b-z]$|widget jammed"]), "takes too long"),
    "a class that is not ASCII": (rule_text(match=["widget jammed|z[äö]h"]), "is not ASCII"),
    "a repeat that is not ASCII": (rule_text(match=["widget jammed|zä?h"]), "is not ASCII"),
    "other cases that are not ASCII": (rule_text(match=["(?i)widget jammed|zäh"]), "is not ASCII"),
}


@pytest.mark.parametrize(("text", "what"), UNPROVEN.values(), ids=list(UNPROVEN))
def test_the_check_finds(tmp_path: Path, text: str, what: str) -> None:
    """With the file, the line of the example or pattern, and a remedy."""
    path = write_rule(tmp_path, "framework/a", text)
    problems = [problem for problem in check(book_of(tmp_path)) if what in problem.what]
    assert problems
    assert problems[0].file == str(path)
    assert problems[0].remedy
    lines = text.splitlines()
    assert any(part in lines[problems[0].line - 1] for part in ("widget", "gear"))


def test_the_check_has_nothing_to_say_of_a_good_rule(tmp_path: Path) -> None:
    """No problem without a cause."""
    write_rule(tmp_path, "framework/a", rule_text(quiet="['widget fine']"))
    assert check(book_of(tmp_path)) == []


def test_an_example_keeps_the_role_of_its_rule(tmp_path: Path) -> None:
    """An example that another rule softens to a hint proves nothing of a cause."""
    write_rule(tmp_path, "framework/a", rule_text(fires=["widget jammed, trying later"]))
    later = rule_text(reason=None, role="retry", match=["trying later"], fires=["trying later"])
    write_rule(tmp_path, "context/later", later)
    (problem,) = check(book_of(tmp_path))
    assert (problem.rule, problem.what) == ("framework/a", "'widget jammed, trying later' counts as a hint")


def test_a_quiet_line_may_be_another_rules_harmless_one(tmp_path: Path) -> None:
    """What the engine calls source text or advice need not be excluded by each rule."""
    write_rule(tmp_path, "framework/a", rule_text(quiet="['tip: if you see widget jammed, wait']"))
    tip = rule_text(reason=None, role="harmless", match=["^tip: "], fires=["tip: wait"])
    write_rule(tmp_path, "context/tip", tip)
    assert check(book_of(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "reason"), [("UnboundLocalError", "NameError"), ("OSError", "Others"), ("GremlinError", "RuntimeError")]
)
def test_a_class_of_exceptions_has_its_reason_from_the_table(tmp_path: Path, name: str, reason: str) -> None:
    """A row of the rule says otherwise; a class that neither knows is of the rule's own reason."""
    codes = "{group: exception, exceptions: true, rows: {OSError: {reason: Others}}}"
    widget = rule_text(match=["widget met (?P<exception>[A-Za-z]+)"], fires=["widget met KeyError"], codes=codes)
    write_rule(tmp_path, "ours/widget", widget)
    finding = book_of(tmp_path).confirm_all(parse_line(f"widget met {name}"))
    assert finding is not None
    assert finding.reason.value == reason


def test_two_rules_may_not_claim_the_same_example(tmp_path: Path) -> None:
    """Neither is narrower than the other: one of them loses its own example."""
    write_rule(tmp_path, "framework/a", rule_text(match=["widget jammed"]))
    write_rule(tmp_path, "framework/b", rule_text(match=["error: widget"]))
    assert any("takes 'error: widget jammed'" in problem.what for problem in check(book_of(tmp_path)))


def test_a_filter_that_drops_a_failure_is_a_problem(tmp_path: Path) -> None:
    """As are examples it does not drop, and lines to keep that it drops."""
    write_rule(tmp_path, "framework/a", rule_text())
    write_rule(
        tmp_path,
        "filters/f",
        "title: t\ndrop: ['widget', 'gear']\nexamples: {drops: ['widget jammed', 'x'], keeps: ['a widget']}\n",
    )
    what = "\n".join(problem.what for problem in check(book_of(tmp_path)))
    assert "no example is hit by 'gear'" in what
    assert "does not drop 'x'" in what
    assert "drops 'a widget'" in what
    assert "framework/a fires on" in what


# --- which rule wins ---


@pytest.mark.parametrize("names", [("a-general", "b-narrow"), ("b-general", "a-narrow")])
def test_on_one_line_the_narrower_rule_wins(tmp_path: Path, names: tuple[str, str]) -> None:
    """Whatever the files are called; where only the general one matches, it is used."""
    general, narrow = names
    write_rule(
        tmp_path, f"framework/{general}", rule_text(match=["^RuntimeError: .{1,200}"], fires=["RuntimeError: odd"])
    )
    write_rule(
        tmp_path,
        f"framework/{narrow}",
        rule_text(reason="ValueError", match=["RuntimeError: widget"], fires=["RuntimeError: widget jammed"]),
    )
    book = book_of(tmp_path)
    assert fired(book, "RuntimeError: widget jammed").rule == f"framework/{narrow}"
    assert fired(book, "RuntimeError: something else").rule == f"framework/{general}"
    assert (
        fired(book, "RuntimeError: something else").generality > fired(book, "RuntimeError: widget jammed").generality
    )


def test_a_rule_that_names_nothing_is_a_general_one_for_a_code_that_its_table_lacks(tmp_path: Path) -> None:
    """It knows no more than an exception's class; a rule that names a reason does for any code."""
    table = "{group: exception, rows: {ReelError: {reason: IndexError}}}"
    for reason in ("RuntimeError", "CUDAError"):
        text = rule_text(
            reason, match=[f"{reason}: (?P<exception>[A-Z]\\w+)"], fires=[f"{reason}: ReelError"], codes=table
        )
        write_rule(tmp_path, f"framework/{reason.lower()}", text)
    book = book_of(tmp_path)
    assert [fired(book, f"RuntimeError: {name}").generality for name in ("ReelError", "CurtainError")] == [0, 1]
    assert fired(book, "CUDAError: CurtainError").generality == 0


def test_of_three_rules_the_narrowest_wins(tmp_path: Path) -> None:
    """Narrowness is passed on."""
    for name, pattern, example in (
        ("m", "Error: ", "SomeError: odd"),
        ("z", "Error: widget", "SomeError: widget is odd"),
        ("a", "Error: widget jammed", "SomeError: widget jammed"),
    ):
        write_rule(tmp_path, f"framework/{name}", rule_text(match=[pattern], fires=[example]))
    book = book_of(tmp_path)
    found = [fired(book, f"SomeError: {text}").rule for text in ("x", "widget lost", "widget jammed again")]
    assert found == ["framework/m", "framework/z", "framework/a"]


def test_a_harmless_line_is_no_other_rules(tmp_path: Path) -> None:
    """What looks like a failure and is none cannot be used by any rule, however narrow."""
    write_rule(tmp_path, "framework/a", rule_text(match=["widget jammed for \\d+ s"], fires=["widget jammed for 3 s"]))
    write_rule(
        tmp_path,
        "context/h",
        rule_text(
            reason=None, role="harmless", match=["tip: .{0,80}widget jammed"], fires=["tip: when a widget jammed"]
        ),
    )
    book = book_of(tmp_path)
    assert fired(book, "error: widget jammed for 9 s").role is Role.CAUSE
    line = parse_line("tip: if you see widget jammed for 9 s, wait")
    finding = book.confirm_all(line)
    assert finding is None or finding.role is Role.HARMLESS


def test_unless_silences_a_rule(tmp_path: Path) -> None:
    """On that line only."""
    write_rule(tmp_path, "framework/a", rule_text(unless="['(?i)widgets? jammed: 0']"))
    book = book_of(tmp_path)
    assert fires(book, "error: widget jammed") is not None
    assert fires(book, "statistics, widget jammed: 0") is None


def test_within_asks_for_the_frames(tmp_path: Path) -> None:
    """The rule fires only on exceptions that came through the named place."""
    write_rule(
        tmp_path, "framework/general", rule_text(reason="RuntimeError", match=["^KeyError:"], fires=["KeyError: 'x'"])
    )
    example = "KeyError: 'w'"
    frames = (
        '  - |-\n      Traceback (most recent call last):\n        File "x.py", line 1, in load_widget\n      '
        + example
    )
    text = rule_text(reason="ModelLoadingError", match=["^KeyError:"], within="['in load_widget']")
    text = text.replace("    - 'error: widget jammed'", "  " + frames)
    write_rule(tmp_path, "framework/narrow", text)
    book = book_of(tmp_path)
    assert fired(book, "KeyError: 'a'").rule == "framework/general"
    assert fired(book, "KeyError: 'a'", 'File "x.py", line 4, in load_widget').rule == "framework/narrow"
    assert fired(book, "KeyError: 'a'", 'File "x.py", line 4, in forward').rule == "framework/general"


def test_an_anchor_means_the_start_of_the_message(tmp_path: Path) -> None:
    """After any prefixes, and nowhere else."""
    write_rule(tmp_path, "framework/a", rule_text(match=["^widget jammed"], fires=["widget jammed"]))
    book = book_of(tmp_path)
    assert fires(book, "widget jammed") is not None
    assert fires(book, "2026-11-01 10:00:00,123 ERROR [trainer.py:33] widget jammed") is not None
    assert fires(book, "[rank5]: widget jammed") is not None
    assert fires(book, "he said that the widget jammed") is None


def test_case_counts_unless_the_pattern_says_otherwise(tmp_path: Path) -> None:
    """`(?i)` at its start."""
    write_rule(tmp_path, "framework/a", rule_text(match=["widget jammed"]))
    write_rule(tmp_path, "framework/b", rule_text(match=["(?i)gear stuck"], fires=["gear stuck"]))
    book = book_of(tmp_path)
    assert fires(book, "WIDGET JAMMED") is None
    assert fires(book, "Gear STUCK") is not None


CODES = rule_text(
    reason="CUDAError",
    match=[r"FAULT \((?P<gpu>\d+)\): (?P<code>\d+)"],
    fires=["FAULT (3): 48", "FAULT (3): 63", "FAULT (3): 999"],
    action="restart",
    action_before_progress="fix_and_resubmit",
    codes="{group: code, rows: {48: {title: 'Two bits on {gpu}', reason: ECCError, action: restart_excluding_node},"
    " 63: {title: Fine, role: harmless}, 0x1F: {title: Hex}}}",
)  # fmt: skip


def test_a_code_selects_its_row(tmp_path: Path) -> None:
    """What the row says replaces the rule's own, the rest stays; a value without a row takes the rule's."""
    write_rule(tmp_path, "infrastructure/fault", CODES)
    book = book_of(tmp_path)
    two_bits, fine, unknown = (fired(book, f"FAULT (3): {code}") for code in (48, 63, 999))
    assert (two_bits.reason, two_bits.title) == (Reason.ECC_ERROR, "Two bits on 3")
    assert (two_bits.action, two_bits.action_before_progress) == (Action.RESTART_EXCLUDING_NODE, None)
    assert fine.role is Role.HARMLESS
    assert (unknown.reason, unknown.title, unknown.action) == (Reason.CUDA_ERROR, "A made-up failure", Action.RESTART)
    assert unknown.action_before_progress is Action.FIX_AND_RESUBMIT


def test_a_code_with_leading_zeros_is_the_same_code(tmp_path: Path) -> None:
    """048 is 48."""
    write_rule(tmp_path, "infrastructure/fault", CODES)
    assert fired(book_of(tmp_path), "FAULT (3): 048").reason is Reason.ECC_ERROR


def test_meaningful_numbers_tell_lines_apart(tmp_path: Path) -> None:
    """In a flood of one code, a line with another code is found."""
    write_rule(tmp_path, "infrastructure/fault", CODES)
    lines = [f"[{1000 + i}.123456] FAULT (3): 63" for i in range(6000)]
    lines.insert(4321, "[5321.123456] FAULT (3): 48")
    answer = diagnose(log_of(*lines), rules=book_of(tmp_path))
    assert answer.reason is Reason.ECC_ERROR
    assert answer.root_cause is not None
    assert answer.root_cause.line == 4322


def test_named_groups_are_facts(tmp_path: Path) -> None:
    """They appear in the finding; a rank and a node named by the line are the failing ones."""
    pattern = r"widget jammed on rank (?P<rank>\d+) of (?P<node>[\w-]+)"
    write_rule(
        tmp_path,
        "framework/a",
        rule_text(match=[pattern], fires=["widget jammed on rank 3 of node-7"], title="'Jam on {node}'"),
    )
    finding = fired(book_of(tmp_path), "[rank0]: widget jammed on rank 5 of node-9")
    assert finding.facts == {"rank": "5", "node": "node-9"}
    assert (finding.rank, finding.node, finding.title) == (5, "node-9", "Jam on node-9")


def test_what_prints_a_line_of_goes_on_may_work_on(tmp_path: Path) -> None:
    """Such a line gives way to a plain cause after it, where an ordinary cause would be the first."""
    for goes_on, expected in (("true", "framework/late"), ("false", "framework/early")):
        folder = tmp_path / goes_on
        write_rule(folder, "framework/early", rule_text(match=["cp failed"], fires=["cp failed"], goes_on=goes_on))
        write_rule(folder, "framework/late", rule_text(reason="ValueError", match=["gear broke"], fires=["gear broke"]))
        root = diagnose(log_of("cp failed", "all right so far", "gear broke"), rules=book_of(folder)).root_cause
        assert root is not None
        assert root.rule == expected


def test_what_prints_a_line_of_ends_has_died(tmp_path: Path) -> None:
    """The cause on the line below is its message; a program that only reports the crash comes after it."""
    below = rule_text(reason="IndexError", match=["gear 9 of 8"], fires=["gear 9 of 8"])
    later = traceback_of("ValueError: the widget is gone")
    lines = ["widget jammed at mill.rs:9", "gear 9 of 8", *later]
    for ends, expected in (("true", "script/below"), ("false", "framework/later")):
        folder = tmp_path / ends
        write_rule(
            folder,
            "framework/crash",
            rule_text(role="symptom", match=["widget jammed"], fires=["widget jammed"], ends=ends),
        )
        write_rule(folder, "script/below", below)
        write_rule(folder, "framework/later", rule_text("ValueError", match=["^ValueError"], fires=["ValueError: x"]))
        root = diagnose(log_of(*lines), rules=book_of(folder)).root_cause
        assert root is not None
        assert root.rule == expected
    book = book_of(tmp_path / "true")
    twice = diagnose(log_of(lines[0], *lines), rules=book).root_cause
    assert twice is not None
    assert twice.rule == "script/below"
    apart = diagnose(log_of(lines[0], "all right so far", *lines[1:]), rules=book).root_cause
    assert apart is not None
    assert apart.rule == "framework/later"


def test_a_symptom_is_the_root_only_when_nothing_better_is_there(tmp_path: Path) -> None:
    """And a hint alone makes a job failed only when nothing is reported after it, and never surely."""
    write_rule(tmp_path, "framework/cause", rule_text(reason="ValueError", match=["gear broke"], fires=["gear broke"]))
    write_rule(tmp_path, "framework/symptom", rule_text(role="symptom", match=["peer closed"], fires=["peer closed"]))
    write_rule(tmp_path, "framework/hint", rule_text(role="hint", match=["trying again"], fires=["trying again"]))
    book = book_of(tmp_path)
    assert diagnose(log_of("peer closed", "gear broke"), rules=book).reason is Reason.VALUE_ERROR
    assert diagnose(log_of("trying again", "peer closed"), rules=book).reason is Reason.RUNTIME_ERROR
    assert not diagnose(log_of("trying again", "INFO: on we go", "INFO: fetched"), rules=book).failed
    alone = diagnose(log_of("trying again", "more"), rules=book)
    assert alone.failed
    assert alone.confidence < SURE
    hinted = diagnose(log_of("trying again", "more"), rules=book, exit_code=1)
    assert hinted.root_cause is not None
    assert hinted.root_cause.rule == "framework/hint"


def test_a_hint_that_programs_live_with_never_stands_alone(tmp_path: Path) -> None:
    """`goes_on` says so in its rule."""
    write_rule(
        tmp_path,
        "framework/hint",
        rule_text(role="hint", goes_on="true", match=["trying again"], fires=["trying again"]),
    )
    assert not diagnose(log_of("trying again", "more"), rules=book_of(tmp_path)).failed


def test_a_pattern_that_would_run_away_costs_little(tmp_path: Path) -> None:
    """A pattern with nested repeats that slipped in does not hang a diagnosis."""
    write_rule(tmp_path, "framework/a", rule_text(match=["widget (?:a|aa)+[b-z]$"], fires=["widget aab"]))
    answer = diagnose(
        log_of(*["widget " + "a" * 3000] * 5, *traceback_of("KeyError: 'caption'")), rules=book_of(tmp_path)
    )
    assert answer.stats["seconds"] < 10


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"(?:mkdir|ln): .{0,60}: File exists", "mkdir: cannot create 'a': File exists"),
        (r"widget\s+jammed(?! again)", "the widget   jammed here"),
        (r"(?P<a>gear|cog) (?P=a) broke", "cog cog broke"),
        (r"^(?i)widget (?:a|b){1,40} jammed", "WIDGET abba JAMMED"),
        (r"\berrno (?:5|28)\b", "errno 28"),
        (r"value [^,]{1,200}, twice", "value 1.5, twice"),
        (r"no (?:answer|repl(?:y|ies)) from (?:the )?[Pp]ump", "no replies from Pump"),
    ],
)
def test_what_is_scanned_for_is_in_every_match(tmp_path: Path, pattern: str, line: str) -> None:
    """The cheaper form never misses a line that the pattern itself matches."""
    pattern = pattern.replace("^(?i)", "(?i)^")
    write_rule(tmp_path, "framework/a", rule_text(match=[pattern], fires=[line]))
    book = book_of(tmp_path)
    assert scan_form(pattern, "")
    for text in (line, f"[rank3]: {line}"):
        data = f"before\n{text}\nafter\n".encode()
        spans = [data[start:end].decode() for start, end, _ in book.scan(data)]
        assert spans == [text]
    assert fires(book, line) is not None


def test_the_ends_that_a_pattern_lists_are_scanned_for_with_what_stands_before_them() -> None:
    """A common word alone, such as `reply`, would be found on every line of a healthy log."""
    assert scan_form(r"\b(?:gave up|no (?:answer|repl(?:y|ies)))\b \w+", "reply") == (
        r"gave\ up\ ",
        r"no\ answer\ ",
        r"no\ replies\ ",
        r"no\ reply\ ",
    )


# --- a user's own folder ---


def test_a_users_folder_adds_and_replaces(tmp_path: Path) -> None:
    """A new id adds a rule, the same id replaces ours; the last of several folders counts."""
    base, user, later = tmp_path / "base", tmp_path / "user", tmp_path / "later"
    write_rule(base, "framework/a", rule_text(title="ours"))
    write_rule(user, "framework/a", rule_text(title="theirs"))
    write_rule(user, "framework/b", rule_text(match=["gear broke"], fires=["gear broke"], title="added"))
    write_rule(later, "framework/b", rule_text(match=["gear broke"], fires=["gear broke"], title="last"))
    book = RuleBook(*parse(RuleFiles([base, user, later])))
    assert fired(book, "widget jammed").title == "theirs"
    assert fired(book, "gear broke").title == "last"
    assert len(book.rules) == 2


def test_what_shapes_must_hold_is_as_if_all_rules_were_read_together(tmp_path: Path) -> None:
    """For patterns of shipped rules it is taken from what ships; of a user's own it is found anew."""
    match = ["widget [0-9a-f]{4,8} (?:jammed|stuck) in bay [0-9]+"]
    write_rule(tmp_path, "framework/own", rule_text(match=match, fires=["widget 4f9a jammed in bay 3"]))
    book = RuleBook.load(tmp_path)
    joined, together, shipped = (
        [marshal.loads(words) for words in packed]
        for packed in (book.words, loading.words_of(book), RuleBook.load().words)
    )
    assert joined == together
    assert joined != shipped


def test_a_users_rule_works_beside_the_shipped_ones(tmp_path: Path) -> None:
    """A new failure is known, the others stay known, and a shipped rule can be replaced by its id."""
    write_rule(
        tmp_path, "framework/widget", rule_text(match=["widget (?P<name>\\w+) jammed"], fires=["widget a jammed"])
    )
    write_rule(
        tmp_path,
        "python/key-error",
        rule_text(reason="KeyError", match=["^KeyError: "], fires=["KeyError: 'x'"], title="Ours"),
    )
    book = RuleBook.load([tmp_path])
    assert diagnose(log_of(*steps(1, 20), "widget left jammed"), rules=book).root_cause is not None
    answer = diagnose(log_of(*steps(1, 20), *traceback_of("KeyError: 'caption'")), rules=book)
    assert answer.root_cause is not None
    assert answer.root_cause.rule == "python/key-error"
    assert "Ours" in answer.summary


# --- the cache ---


@pytest.mark.parametrize("load", [lambda folder: RuleBook.load([folder]), loaded_anew], ids=["same", "another"])
def test_the_cache_is_never_stale_after_an_edit(
    load: Callable[[Path], RuleBook], tmp_path: Path, shipped_cache: Path
) -> None:
    """Same path, same size, same time stamp: the new text counts at once, in the same process and in another."""
    folder = tmp_path / "rules"
    path = write_rule(folder, "framework/zz-widget", rule_text(match=["widget jammed"], fires=["widget jammed"]))
    stamp = path.stat()
    assert fires(load(folder), "widget jammed") is not None
    path.write_text(path.read_text(encoding="utf-8").replace("widget", "gadget"), encoding="utf-8")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert path.stat().st_size == stamp.st_size
    changed = load(folder)
    assert fires(changed, "widget jammed") is None
    assert fires(changed, "gadget jammed") is not None
    path.unlink()
    assert fires(load(folder), "gadget jammed") is None


def cached_answer(book: RuleBook) -> tuple[str, int]:
    """What must not depend on the cache."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    assert answer.root_cause is not None
    return answer.reason.value, answer.root_cause.line


def signed(body: bytes) -> bytes:
    """A cache file of another make whose check sum is right."""
    return hashlib.sha256(body).digest() + body


def sized(*parts: bytes) -> bytes:
    """Parts with their lengths before them."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    "foreign words": lambda content: signed(sized(json.dumps({"rules": 3}).encode(), b"x", b"y")),
    "foreign database": lambda content: signed(content[32:-2000] + b"\0" * 2000),
}


def test_a_damaged_or_foreign_cache_costs_speed_not_correctness(some_rules: Path, own_cache: Path) -> None:
    """Torn, flipped, or another's with a right check sum: the answer is the same, and the cache is mended. Nothing that
    lies where the cache should be is an error."""

    def answered() -> tuple[str, int]:
        return cached_answer(loading._shipped_book(RuleFiles([some_rules])))

    expected = answered()
    (file,) = own_cache.glob("rules-*")
    whole = file.read_bytes()
    for name, damage in DAMAGE.items():
        file.write_bytes(damage(whole))
        assert answered() == expected, name
        assert [path.name for path in own_cache.glob("rules-*")] == [file.name]
        file.write_bytes(whole)
    assert answered() == expected
    file.unlink()
    (file / "inside").mkdir(parents=True)
    assert answered() == expected


def test_the_cache_of_other_rules_is_never_served(tmp_path: Path, shipped_cache: Path) -> None:
    """A whole and valid cache under the wrong name, as a collision of names would leave it, is compiled again."""
    write_rule(tmp_path / "own", "framework/widget", rule_text())
    loaded_anew()
    (plain,) = shipped_cache.glob("rules-*")
    loaded_anew(tmp_path / "own")
    (with_own,) = set(shipped_cache.glob("rules-*")) - {plain}
    with_own.write_bytes(plain.read_bytes())
    assert "framework/widget" in {rule.id for rule in loaded_anew(tmp_path / "own").rules}


def test_the_cached_rules_are_those_of_the_files(some_rules: Path, own_cache: Path) -> None:
    """A book from the cache holds what one from the files does, with its proof."""
    files = RuleFiles([some_rules])
    from_files = loading._shipped_book(files)
    cached = loading._shipped_book(files)
    assert list(own_cache.glob("rules-*"))
    assert (cached.rules, cached.filters) == (from_files.rules, from_files.filters)
    assert (cached.narrower, cached.words) == (from_files.narrower, from_files.words)
    assert cached.rules[0].fires


# --- without hyperscan ---

ANSWERS = """
import json, sys
from logdiag import diagnose
json.dump([diagnose(path, memory=False).to_dict() for path in sys.argv[1:]], sys.stdout)
"""


def test_without_hyperscan_the_answers_are_the_same(tmp_path: Path, site: Path) -> None:
    """On a platform without its wheel every sample log gets the same answer, word for word."""
    (tmp_path / "hyperscan.py").write_text("raise ImportError('no wheel for this platform')\n", encoding="utf-8")
    paths = [str(path) for path in [*SAMPLES, LOGS / "torchelastic"]]

    def answers(name: str, *modules: Path) -> list[dict[str, Any]]:
        env = environment({"PYTHONPATH": os.pathsep.join(map(str, modules)), "LOGDIAG_CACHE": str(tmp_path / name)})
        command = [sys.executable, "-c", ANSWERS, *paths]
        done = subprocess.run(command, env=env, cwd=site, capture_output=True, check=True, timeout=300)
        answered: list[dict[str, Any]] = json.loads(done.stdout)
        assert {answer.pop("stats")["matcher"] for answer in answered} == {name}
        return answered

    expected = answers("hyperscan", site)
    assert sum(answer["failed"] is True for answer in expected) > len(paths) / 2
    assert answers("regex", tmp_path, site) == expected


def test_quoting_for_yaml_keeps_quotes() -> None:
    """The helper that writes rule files for these tests can be trusted."""
    assert quoted("it's") == "'it''s'"
