"""A fault is got over only where the log goes on well after it."""

from __future__ import annotations

from logdiag.rules import RuleBook
from tests.helpers import diagnosed, steps

HUNG = "[  812.100412] tarn 0000:3b:00.0: tarn1: queue 2 head stuck at 0x1c0 for 5000 ms"
HOURS = [
    f"[{second:5d}.114417] tarn 0000:3b:00.0: tarn1: counters of the hour: {40000 + second % 977} requests, 0 kept"
    for second in range(1590, 33000, 3600)
]
WORK = [f"worker {number % 13} opened shard {number}" for number in range(2000)]


def test_a_machine_that_works_on_for_hours_got_over_a_fault(book: RuleBook) -> None:
    """No rule knows that the queue runs again; that nothing else happens for hours tells it."""
    answer = diagnosed(book, HUNG, *HOURS)
    assert (answer.failed, answer.root_cause) == (None, None)
    assert "got_over" in [made.name for made in answer.decisions]


def test_a_fault_that_is_the_last_word_was_not_got_over(book: RuleBook) -> None:
    """The same fault behind the same hours: nothing shows that anything went on."""
    root = diagnosed(book, *HOURS, HUNG.replace("  812", "33812")).root_cause
    assert root is not None
    assert root.line == len(HOURS) + 1


def test_no_program_gets_over_a_fault_of_its_accelerator(book: RuleBook) -> None:
    """Its memory is lost, whatever other processes print on; where a caller says that the job failed, nothing was got
    over at all."""
    lost = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
    assert diagnosed(book, *WORK[:900], lost, *WORK[900:]).reason.value == "ECCError"
    assert diagnosed(book, HUNG, *HOURS, exit_code=1).reason.value == "CUDAError"
    assert diagnosed(book, *steps(1, 20), lost).reason.value == "ECCError"
