"""Several runs in one log, one after the other: the last that tells is answered for, any can be asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdiag import Diagnosis, SourceError, diagnose
from logdiag.rules import RuleBook
from tests.helpers import log_of, run_logdiag, traceback_of


def run(hour: int, steps: int, final: str = "", *, first: int = 1, rate: str = "1e-4", who: str = "") -> list[str]:
    """One run that starts at an hour: its head, a step every second, and its end: an exception, or a clean exit."""
    return [
        f"W1123 {hour:02}:02:30.162000 {hour * 977} torch/distributed/run.py:793] Setting OMP_NUM_THREADS to be 1",
        f"{who}2026-11-23 {hour:02}:02:31,100 INFO model has 14656 parameters",
        f"{who}2026-11-23 {hour:02}:02:31,400 INFO learning rate {rate}",
        *(
            f"{who}2026-11-23 {hour:02}:{3 + at // 60:02}:{at % 60:02},000 INFO step {at}/500 loss=1.2"
            for at in range(first, first + steps)
        ),
        *(traceback_of(final) if final else [f"2026-11-23 {hour:02}:40:00,000 INFO training finished"]),
    ]


def told_of_runs(answer: Diagnosis) -> str:
    """The note on other runs, empty where there is none."""
    return next((note for note in answer.notes if "one after the other" in note), "")


THREE = [
    *run(1, 50, "KeyError: 'labels'"),
    *run(2, 40, "ValueError: too many values to unpack", first=20),
    *run(3, 50, "KeyError: 'labels'"),
]


@pytest.mark.parametrize(
    ("number", "reason", "line"),
    [(None, "KeyError", 167), (1, "KeyError", 59), (2, "ValueError", 108), (3, "KeyError", 167)],
)
def test_one_of_several_runs_is_answered_for(number: int | None, reason: str, line: int, book: RuleBook) -> None:
    """The last where none is named; its note says what became of the others."""
    answer = diagnose(log_of(*THREE), rules=book, run=number)
    assert answer.root_cause is not None
    assert (answer.reason.value, answer.root_cause.line) == (reason, line)
    assert "this log holds 3 runs" in told_of_runs(answer)
    assert f"run {2 if number != 2 else 1} failed of" in told_of_runs(answer)


def test_a_run_that_died_at_the_same_step_is_named(book: RuleBook) -> None:
    """Of the same reason, at the same step: the data or the state of that step is worth a look."""
    assert "run 1 failed of the same at the same step, 50" in told_of_runs(diagnose(log_of(*THREE), rules=book))
    assert "at the same step" not in told_of_runs(diagnose(log_of(*THREE), rules=book, run=2))


def test_a_run_that_works_after_one_that_failed_is_healthy(book: RuleBook) -> None:
    """The failure is of another run, and said."""
    answer = diagnose(log_of(*run(1, 50, "KeyError: 'x'"), *run(2, 60)), rules=book)
    assert answer.failed is False
    assert "run 1 failed of KeyError" in told_of_runs(answer)


def test_a_next_start_that_gets_no_further_does_not_hide_the_failure(book: RuleBook) -> None:
    """Its log does not tell how it ended; the run that failed is answered for, and both can be asked for."""
    log = log_of(*run(1, 50, "KeyError: 'x'"), *run(2, 50)[:3])
    answer = diagnose(log, rules=book)
    assert (answer.failed, answer.reason.value) == (True, "KeyError")
    assert "this is the answer for run 1 (run 2 does not tell)" in told_of_runs(answer)
    assert diagnose(log, rules=book, run=2).failed is None


def test_a_next_start_that_only_repeats_part_of_the_run_before_it_does_not_tell(book: RuleBook) -> None:
    """Not even within its steps or a traceback; one that gets further than the run before tells."""
    failed = run(1, 50, "KeyError: 'x'")
    for begun in (run(2, 50)[:9], run(2, 50, "KeyError: 'x'")[:-1]):
        answer = diagnose(log_of(*failed, *begun), rules=book)
        assert (answer.failed, answer.reason.value) == (True, "KeyError")
        assert "this is the answer for run 1" in told_of_runs(answer)
    assert diagnose(log_of(*failed, *run(2, 30, first=40)[:-1]), rules=book).failed is False


def test_what_a_good_run_complained_of_is_no_failure_of_one_that_only_begins(book: RuleBook) -> None:
    """It got over it then."""
    complaint = traceback_of("sqlite3.OperationalError: database is locked")
    good, begun = run(1, 50), run(2, 50)
    good[2:2], begun[2:2] = complaint, complaint
    answer = diagnose(log_of(*good, *begun[: 2 + len(complaint)]), rules=book)
    assert answer.failed is False
    assert "run 1 (run 2 failed of" in told_of_runs(answer)


LOOM = [
    "weaving house 4 opens, 3 looms",
    *(f"loom {n} has its warp of 2400 ends" for n in range(3)),
    "pattern book lies at page 17",
    "no draught in the hall",
    "the shuttles are counted",
]
WOVEN = [f"loom {n % 3} wove {40 * n} rows, tension {2.1 - n / 100:.2f}" for n in range(60)]
TORN = ["the shed of loom 2 is torn and cannot be lifted", "no answer from loom 2, looms stand", "house closes with 7"]


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("lines", [len(LOOM), len(LOOM) + 4])
def test_a_next_start_is_seen_in_software_that_no_rule_knows(lines: int, restarts: int, book: RuleBook) -> None:
    """By its lines, which are those of the start before it, whatever its processes print first."""
    begun = [LOOM[0], *LOOM[3:0:-1], *LOOM[4:], *WOVEN][:lines]
    answer = diagnose(log_of(*LOOM, *WOVEN, *TORN, *(begun * restarts)), rules=book)
    assert answer.root_cause is not None
    assert TORN[0] in answer.root_cause.text
    assert "one after the other; this is the answer for run 1" in told_of_runs(answer)


@pytest.mark.parametrize(
    "lines",
    [
        # What a loop prints in each turn.
        [line for n in range(9) for line in (*LOOM, f"cloth {n} is done")] + LOOM,
        # Another process begins, and gets further.
        [*LOOM, *WOVEN, *LOOM, "the hall is lit"],
        # The start is of three lines at most.
        [*LOOM[4:], *WOVEN, *LOOM[4:6]],
        # A failure that is told twice, the second time in part.
        [*traceback_of("KeyError: 'x'"), *traceback_of("KeyError: 'x'")[:3]],
    ],
)
def test_a_turn_of_a_loop_is_no_next_start(lines: list[str], book: RuleBook) -> None:
    """Nor is a start with anything new, or one too short to tell."""
    assert told_of_runs(diagnose(log_of(*lines), rules=book)) == ""


@pytest.mark.parametrize(
    "lines",
    [
        # A sweep: the same program with another argument is another part of one job.
        [*run(1, 20, rate="1e-4"), *run(2, 20, rate="3e-4", final="KeyError: 'x'")],
        # Two ranks that print the same head, one of them late.
        [*run(1, 1, who="[rank0]: ")[:4], *run(1, 40, "KeyError: 'x'", who="[rank1]: ")],
        # Steps go on: a launcher started its workers again, after the last checkpoint, at once.
        [*run(1, 50, "KeyError: 'x'"), *run(1, 50, "KeyError: 'x'", first=51)[3:]],
    ],
)
def test_what_is_one_job_stays_one(lines: list[str], book: RuleBook) -> None:
    """No note, and the failure in it counts."""
    answer = diagnose(log_of(*lines), rules=book)
    assert told_of_runs(answer) == ""
    assert answer.reason.value == "KeyError"


def test_what_follows_a_cancelled_job_is_another_one_whatever_its_arguments(book: RuleBook) -> None:
    """A scheduler's last words end a job, and so the sweep that one job may be."""
    cancelled = "slurmstepd: error: *** JOB {job} ON node-7 CANCELLED AT 2026-11-23T0{hour}:39:00 ***"
    lines = [
        *run(1, 20, "KeyError: 'x'"),
        cancelled.format(job=811, hour=1),
        *run(2, 20, rate="3e-4")[:-1],
        cancelled.format(job=812, hour=2),
    ]
    answer = diagnose(log_of(*lines), rules=book)
    assert answer.root_cause is not None
    assert (answer.reason.value, answer.root_cause.line) == ("Others", len(lines))
    assert "run 1 failed of KeyError" in told_of_runs(answer)


def test_the_next_clock_tells_when_a_run_began(book: RuleBook) -> None:
    """The first lines of many launchers have none."""

    def from_launcher(hour: int, final: str) -> list[str]:
        head = ["*" * 40, "Setting OMP_NUM_THREADS to be 1 for each process", "UserWarning: the plugin is an old one"]
        return [*head, *run(hour, 1, final)[1:4], *(f"row {row} of the table is read" for row in range(9)), final]

    lines = [*from_launcher(1, "KeyError: 'old'"), *from_launcher(2, "IndexError: list index out of range")]
    assert diagnose(log_of(*lines), rules=book).reason.value == "IndexError"
    assert diagnose(log_of(*lines), rules=book, run=1).reason.value == "KeyError"


def test_the_logs_of_all_ranks_are_cut_alike(tmp_path: Path, book: RuleBook) -> None:
    """Of a folder whose files were all written twice, the last halves make the answer."""
    for rank in range(2):
        lines = [*run(1, 30, "KeyError: 'old'"), *run(2, 30, "" if rank else "IndexError: list index out of range")]
        (tmp_path / f"rank_{rank}.log").write_bytes(log_of(*lines))
    answer = diagnose(tmp_path, rules=book)
    assert answer.reason.value == "IndexError"
    assert diagnose(tmp_path, rules=book, run=1).reason.value == "KeyError"


def test_a_run_that_is_not_there_is_refused(tmp_path: Path, book: RuleBook) -> None:
    """With the runs that are."""
    with pytest.raises(SourceError, match="--run 4: the log holds runs 1 to 3"):
        diagnose(log_of(*THREE), rules=book, run=4)
    with pytest.raises(SourceError, match="--run 2: the log holds one run"):
        diagnose(log_of(*run(1, 9)), rules=book, run=2)
    (tmp_path / "job.log").write_bytes(log_of(*THREE))
    assert b"ValueError" in run_logdiag(tmp_path / "job.log", "--run", "2").stdout
    assert run_logdiag(tmp_path / "job.log", "--run", "9").returncode == 2
