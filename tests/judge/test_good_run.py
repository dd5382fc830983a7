"""What is new since a good run of the same job leads, and weighs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from logdiag import Diagnosis, diagnose
from logdiag.report import render, schema_text
from logdiag.report.as_text import digest_rows
from logdiag.rules import RuleBook
from tests.helpers import log_of, run_logdiag

# An in-house program whose words no rule knows; it always complains of its lanterns.
SCARY = "[keeper] ERROR the lantern of bay 3 failed its check, lit by hand"
ROOT = "[keeper] the tide ledger holds 7 pages of 9 and nobody has the rest"
AFTER = "[keeper] loom put down at page 7"


def job(hour: int, *end: str, steps: int = 60, warned: int = 2) -> list[str]:
    """A run that starts at an hour, complains of what it always complains of, makes its steps, and ends."""
    return [
        f"2026-02-03 {hour:02}:00:00 [keeper] reading the ledger of harbour {hour}",
        f"2026-02-03 {hour:02}:00:01 {SCARY}",
        *(f"2026-02-03 {hour:02}:00:02 [keeper] bay {at} answers late" for at in range(warned)),
        *(f"2026-02-03 {hour:02}:{1 + at // 60:02}:{at % 60:02} [loom] step {at} of 900" for at in range(1, steps)),
        *(f"2026-02-03 {hour:02}:30:{at:02} {line}" for at, line in enumerate(end)),
    ]


GOOD = log_of(*job(1, "[keeper] harbour closed, all pages in"))


def since(book: RuleBook, *lines: str) -> Diagnosis:
    """The answer for a failed run, beside the good one."""
    return diagnose(log_of(*lines), rules=book, baseline=GOOD, exit_code=1)


def test_new_lines_lead(book: RuleBook) -> None:
    """The first new one before what follows from it; what the good run printed too is not among them, whatever its
    numbers and its hour."""
    answer = since(book, *job(2, ROOT, AFTER))
    assert [change.text[20:] for change in answer.changes] == [ROOT, AFTER]
    assert all(change.times_more is None for change in answer.changes)
    rows = list(map(str, digest_rows(answer.digest, answer.changes)))
    assert rows[0] == "New since the good run"
    assert ROOT in rows[1]
    for form in ("text", "markdown", "html"):
        assert "New since the good run" in render(answer, form)


def test_what_the_good_run_printed_too_is_no_suspect(book: RuleBook) -> None:
    """A line that looks worse than the root, but that every run prints, loses to it."""
    lines = job(2, ROOT, AFTER)
    alone = diagnose(log_of(*lines), rules=book, exit_code=1)
    answer = since(book, *lines)
    assert SCARY in " ".join([suspect.text for suspect in alone.suspects] + [str(alone.root_cause)])
    assert answer.root_cause is not None
    assert ROOT in answer.root_cause.text
    assert not any(SCARY in suspect.text for suspect in answer.suspects[:2])


def test_a_line_that_comes_far_more_often_has_changed(book: RuleBook) -> None:
    """By number and by share; a shorter run that prints its first lines as ever has not."""
    answer = since(book, *job(2, AFTER, warned=30))
    (more,) = (change for change in answer.changes if change.times_more is not None)
    assert "answers late" in more.text
    assert more.count == 30
    assert 9 < (more.times_more or 0) < 15
    assert not any(change.times_more for change in since(book, *job(2, AFTER, steps=10)).changes)


def test_without_a_good_run_nothing_is_new(book: RuleBook) -> None:
    """The key is not there, and neither is the section."""
    answer = diagnose(log_of(*job(2, ROOT)), rules=book, exit_code=1)
    assert "changes" not in answer.to_dict()
    assert "New since" not in render(answer, "text")


def test_the_key_is_in_the_schema(book: RuleBook) -> None:
    """And an answer with it is read again as it was."""
    answer = since(book, *job(2, ROOT, AFTER))
    document = json.loads(render(answer, "json"))
    jsonschema.validate(document, json.loads(schema_text()))
    assert Diagnosis.from_dict(document).changes == answer.changes


@pytest.mark.parametrize("count", [1, 2])
def test_the_command_takes_good_logs(count: int, tmp_path: Path) -> None:
    """One or several; one that is not there is refused."""
    (tmp_path / "good.log").write_bytes(GOOD)
    (tmp_path / "job.log").write_bytes(log_of(*job(2, ROOT, AFTER)))
    given = ["--baseline", str(tmp_path / "good.log")] * count
    done = run_logdiag(tmp_path / "job.log", *given, "--exit-code-of-job", "1")
    assert b"New since the good run" in done.stdout
    missing = run_logdiag(tmp_path / "job.log", "--baseline", tmp_path / "none.log")
    assert missing.returncode == 2
    assert b"none.log" in missing.stderr


DONE = "[keeper] exiting with status 0"
NAMED = {"name": "tides"}


def test_a_jobs_own_good_run_is_the_baseline_where_it_was_kept(tmp_path: Path, book: RuleBook) -> None:
    """Kept with `remember` when it came to its end, by the job's name: the same lines are new as with `baseline`."""
    good, failed = log_of(*job(1, DONE)), log_of(*job(2, ROOT, AFTER))
    kept = diagnose(good, rules=book, memory=tmp_path, remember=True, job=NAMED, exit_code=0)
    assert "kept as the latest good run of tides" in kept.notes
    answer = diagnose(failed, rules=book, memory=tmp_path, job=NAMED, exit_code=1)
    given = diagnose(failed, rules=book, memory=False, baseline=good, exit_code=1)
    assert answer.changes == given.changes != ()
    assert any(note.startswith("held against the good run of tides that was kept on ") for note in answer.notes)
    assert ROOT in str(answer.root_cause or answer.suspects[0])


@pytest.mark.parametrize(
    ("memory", "named", "exit_code"),
    [(True, {"name": "waves"}, 1), (True, None, 1), (False, NAMED, 1), (True, NAMED, 0)],
    ids=["another job", "no name", "no memory", "a good end"],
)
def test_no_other_run_is_held_against_it(
    memory: bool, named: dict[str, str] | None, exit_code: int, tmp_path: Path, book: RuleBook
) -> None:
    diagnose(log_of(*job(1, DONE)), rules=book, memory=tmp_path, remember=True, job=NAMED, exit_code=0)
    failed = log_of(*job(2, ROOT))
    answer = diagnose(failed, rules=book, memory=tmp_path if memory else False, job=named, exit_code=exit_code)
    assert answer.changes == ()


def test_only_clean_ends_are_kept_and_only_as_hashes(tmp_path: Path, book: RuleBook) -> None:
    """A failure leaves the good run as it is; of a good run no word is kept, and at most 16 kB."""
    for log, status in ((log_of(*job(1, DONE)), 0), (log_of(*job(2, ROOT)), 1)):
        diagnose(log, rules=book, memory=tmp_path, remember=True, job=NAMED, exit_code=status)
    (kept,) = (tmp_path / "good-runs").iterdir()
    data = kept.read_bytes()
    assert 0 < len(data) <= 16_384
    assert b"keeper" not in data
    assert "tides" not in kept.name
    many = [f"{''.join(chr(97 + at // 26**power % 26) for power in range(4))} is set" for at in range(2000)]
    answer = diagnose(log_of(*many, DONE), rules=book, memory=tmp_path, remember=True, job=NAMED, exit_code=0)
    assert any("kinds of lines and at most 1,638 are kept" in note for note in answer.notes)
    assert kept.read_bytes() == data


@pytest.mark.parametrize("damage", [b"", b"torn", b"x" * 20_000])
def test_a_damaged_good_run_is_none(damage: bytes, tmp_path: Path, book: RuleBook) -> None:
    diagnose(log_of(*job(1, DONE)), rules=book, memory=tmp_path, remember=True, job=NAMED, exit_code=0)
    (kept,) = (tmp_path / "good-runs").iterdir()
    kept.write_bytes(damage)
    assert diagnose(log_of(*job(2, ROOT)), rules=book, memory=tmp_path, job=NAMED, exit_code=1).changes == ()


def test_a_clean_run_of_logdiag_run_is_kept(tmp_path: Path) -> None:
    """With --remember and a name; the failure after it is held against it, without a flag."""
    program = tmp_path / "job.py"
    place = ("--memory", str(tmp_path / "memory"), "--job", "name=tides", "--state", str(tmp_path / "state"))
    program.write_text("print('lamp lit')\nprint('exiting with status 0')\n")
    assert run_logdiag("run", *place, "--remember", "--", sys.executable, str(program)).returncode == 0
    log = tmp_path / "failed.log"
    log.write_text("lamp lit\nthe wick of the lamp is gone\n")
    answer = run_logdiag("--format", "json", *place[:4], "--exit-code-of-job", "1", str(log))
    assert [change["text"] for change in json.loads(answer.stdout)["changes"]] == ["the wick of the lamp is gone"]
