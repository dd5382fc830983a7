"""Hangs and slow jobs are reported as what they are: silence, a straggler, a loss that jumped or is no number."""

from __future__ import annotations

import random

import pytest

from logdiag.rules import RuleBook
from tests.helpers import diagnosed

LIMIT = "slurmstepd: error: *** JOB 4711 ON node-004 CANCELLED AT 2026-11-04T{} DUE TO TIME LIMIT ***"


def steps(count: int = 40, loss: float = 2.0) -> list[str]:
    """A step every ten seconds from three o'clock on."""
    return [
        f"2026-11-04 03:{at // 6:02}:{at % 6 * 10:02} INFO step {at} loss {loss - at / 1000:.3f}" for at in range(count)
    ]


def test_a_job_that_its_limit_found_silent_hung(book: RuleBook) -> None:
    """The last of 40 steps is of 03:06:30, and the scheduler ended the job 54 minutes later."""
    answer = diagnosed(book, *steps(), LIMIT.format("04:00:30"))
    assert (answer.failed, answer.reason.value, answer.kind) == (True, "Others", "hang")
    assert any(note.startswith("it hung: nothing was logged for 54 min") for note in answer.notes)


def test_a_job_that_its_limit_found_at_work_did_not_hang(book: RuleBook) -> None:
    """Ten seconds after its last step."""
    answer = diagnosed(book, *steps(), LIMIT.format("03:06:40"))
    assert (answer.failed, answer.kind) == (True, "")


def test_steps_that_take_long_are_no_silence(book: RuleBook) -> None:
    """Twenty minutes between two steps, and fifteen after the last."""
    slow = [f"2026-11-04 {3 + at // 3:02}:{at % 3 * 20:02}:00 INFO step {at} loss 2.0" for at in range(10)]
    answer = diagnosed(book, *slow, LIMIT.format("06:15:00"))
    assert (answer.failed, answer.kind) == (True, "")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Loss is nan, stopping training", "not-finite"),
        ("RuntimeError: loss spike of 8.2 at step 8123", "loss-spike"),
        ("[ERROR] no progress for 7200s, dumping stacks", "hang"),
        ("Did not get subsequent heartbeat. Waited 600.00 seconds.", "hang"),
        ("KeyError: 'text'", ""),
    ],
)
def test_rules_say_what_kind_of_trouble_it_was(line: str, kind: str, book: RuleBook) -> None:
    """Where the taxonomy has no word for it."""
    trace = ["Traceback (most recent call last):", '  File "t.py", line 3, in <module>'] if "Error: " in line else []
    answer = diagnosed(book, *steps(), *trace, line)
    assert (answer.failed, answer.kind) == (True, kind)


def of_ranks(late: float, ranks: int = 8, seed: int = 1) -> list[str]:
    """Twenty steps of twelve seconds, which rank 5 ends `late` seconds after the others."""
    rng = random.Random(seed)
    told = []
    for step in range(20):
        for rank in range(ranks):
            seconds = step * 12 + rng.random() / 10 + (late if rank == 5 else 0)
            clock = f"03:{int(seconds) // 60:02}:{int(seconds) % 60:02},{int(seconds % 1 * 1000):03}"
            told.append((seconds, f"[rank{rank}]: 2026-11-04 {clock} INFO step {step} loss 2.1"))
    return [line for _, line in sorted(told)]


def test_a_straggler_is_named(book: RuleBook) -> None:
    """Rank 5 ends each step three seconds after the others."""
    answer = diagnosed(book, *of_ranks(3.0))
    assert (answer.failed, answer.kind) == (False, "straggler")
    assert any(note.startswith("rank 5 is a straggler: it ends its steps 3") for note in answer.notes)


@pytest.mark.parametrize("seed", range(5))
def test_ranks_that_differ_by_a_little_are_none(seed: int, book: RuleBook) -> None:
    """A tenth of a second, by chance."""
    assert not diagnosed(book, *of_ranks(0.0, seed=seed)).kind


def test_a_loss_that_jumps_and_stays_is_told(book: RuleBook) -> None:
    """Nothing stopped the job, so it is no failure; the line of the jump is named."""
    jumped = [line.replace("loss ", "loss 1") for line in steps()[30:]]
    answer = diagnosed(book, *steps()[:30], *jumped)
    assert (answer.failed, answer.kind) == (False, "loss-spike")
    assert any(
        note.startswith("loss rose from 1.9") and "at step 30" in note and ":31)" in note for note in answer.notes
    )


@pytest.mark.parametrize("at", [10, 20, 30])
def test_a_loss_that_comes_back_is_no_jump(at: int, book: RuleBook) -> None:
    """Three steps of a high loss, and the old one again."""
    lines = steps()
    lines[at : at + 3] = [line.replace("loss ", "loss 1") for line in lines[at : at + 3]]
    assert not diagnosed(book, *lines).kind
