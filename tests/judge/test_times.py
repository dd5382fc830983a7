"""When it happened, by the log's own clocks."""

from __future__ import annotations

import pytest

from logdiag import Times
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, traceback_of


def stamped(first: int, count: int, minute: int = 0) -> list[str]:
    """Steps with a clock, one a second."""
    return [
        f"2026-11-20 03:{minute:02}:{second:02} INFO step: {first + second} loss: {3 - second / 100:.4f} lr: 1e-04"
        for second in range(count)
    ]


def test_a_log_without_clocks_has_only_its_last_step(book: RuleBook) -> None:
    """No time is made up."""
    answer = diagnosed(book, *(f"step: {at} loss: {3 - at / 1000:.4f} lr: 1e-04" for at in range(1, 41)))
    assert answer.times == Times(last_step=40)


def test_a_log_without_clocks_and_steps_has_no_times(book: RuleBook) -> None:
    """Not even an empty one."""
    assert diagnosed(book, *traceback_of("KeyError: 'caption'")).times is None


def test_the_last_step_the_failure_and_the_time_that_nothing_came_are_told(book: RuleBook) -> None:
    """Ten minutes in which all stood idle are the story of a time-out."""
    late = "2026-11-20 03:11:00 ERROR trainer: giving up"
    answer = diagnosed(book, *stamped(100, 40), *traceback_of("KeyError: 'caption'"), late)
    assert answer.times == Times("2026-11-20 03:00:39", "2026-11-20 03:00:39", 139, 621.0)


def test_a_root_line_without_a_clock_has_that_of_its_process(book: RuleBook) -> None:
    """The nearest earlier line of the same rank; another rank's does not count."""
    lines = [
        *(f"[rank{rank}]: {line}" for at, line in enumerate(stamped(1, 20)) for rank in (0, 1) if rank == 0 or at < 15),
        *traceback_of("KeyError: 'caption'", prefix="[rank1]: "),
    ]
    answer = diagnosed(book, *lines)
    assert answer.root_cause is not None
    assert (answer.root_cause.rank, answer.root_cause.time) == (1, "2026-11-20 03:00:14")


def test_a_clock_far_above_is_not_taken(book: RuleBook) -> None:
    """What was printed an hour ago says nothing of when it broke."""
    lines = [
        "2026-11-20 03:00:00 INFO started",
        *(f"plain words, number {at}" for at in range(100)),
        *traceback_of("KeyError: 'caption'"),
    ]
    answer = diagnosed(book, *lines)
    assert answer.root_cause is not None
    assert answer.root_cause.time is None
    assert answer.times is None


def test_times_of_day_alone_are_not_subtracted(book: RuleBook) -> None:
    """They may be of two days; what is printed is told."""
    steps = [f"03:00:{at:02} INFO step: {at} loss: {3 - at / 100:.4f}" for at in range(40)]
    answer = diagnosed(book, *steps, *traceback_of("KeyError: 'caption'"))
    assert answer.times == Times("03:00:39", "03:00:39", 39, None)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("step: {} loss: 2.1", 39),
        (" iteration {:8d}/     500 | consumed samples: 12 | lm loss: 2.1E+00 |", 39),
        ("{{'loss': 2.1, 'global_step': {}}}", 39),
        ("Step [{}/500] loss 2.1", 39),
        ("Epoch 1: 45%|####5     | {}/500 [00:10<00:12, 2.30it/s, loss=2.1]", 39),
    ],
)
def test_the_number_of_a_step_is_read_as_frameworks_print_it(line: str, number: int, book: RuleBook) -> None:
    """Not the number of all steps, an epoch or a speed."""
    answer = diagnosed(book, *(line.format(at) for at in range(1, number + 1)))
    assert answer.times == Times(last_step=number)
