"""What goes on alone after all else fell silent says nothing of whether the job got over what came before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.rules import RuleBook
from logdiag.scan.log_ends import alone_at_the_end
from tests.helpers import log_of

WORK = [f"pass {n} over the warp done, tension {2.1 - n / 100:.2f}, beam 4 at 17 turns" for n in range(60)]
TORN = "the shed of beam four is torn and cannot be lifted"
FAILED = [*WORK, TORN, *["no answer from beam four, leaving the loom"] * 3, "weaving broken off with 7"]


def scrape(n: int) -> str:
    return f"exporter: scrape {n} ok, {1200 + n % 7} series in 0.{200 + n % 90} s"


def beat(n: int) -> str:
    return f'{{"level": "info", "ts": {1764000000 + 15 * n}, "msg": "heartbeat", "seq": {n}}}'


def with_heartbeat(lines: Sequence[str], form: object, after: int) -> Iterator[str]:
    """The lines, one of a sidecar behind every third, and then these alone."""
    say = beat if form == "beat" else scrape
    for n, line in enumerate(lines):
        yield line
        if n % 3 == 0:
            yield say(n)
    yield from (say(len(lines) + n) for n in range(after))


def answer_to(book: RuleBook, *lines: str) -> Diagnosis:
    return diagnose(log_of(*lines), rules=book, memory=False)


@pytest.mark.parametrize("after", [8, 60, 1500])
@pytest.mark.parametrize("form", ["scrape", "beat"])
def test_a_sidecar_that_goes_on_does_not_hide_the_failure(book: RuleBook, form: str, after: int) -> None:
    """The root is the one of the same log without the sidecar, and a note tells where all else fell silent."""
    lines = [*with_heartbeat(FAILED, form, after)]
    answer = answer_to(book, *lines)
    assert answer.failed
    assert answer.root_cause is not None
    assert TORN in answer.root_cause.text
    assert any(f"from line {len(lines) - after + 1} on only regular lines go on" in note for note in answer.notes)


def test_a_known_failure_is_not_got_over_by_a_sidecar(book: RuleBook) -> None:
    """As by the collector of a node, whose lines stand in the same log."""
    lines = [
        *WORK,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 17.25 GiB on loom 3",
        "loom 3 is gone",
    ]
    assert answer_to(book, *with_heartbeat(lines, "scrape", 40)).failed


def test_work_that_goes_on_is_no_heartbeat(book: RuleBook) -> None:
    """A round that is made again after a seat was lost, and then many more, is what the job is for."""
    rounds = [
        f"coord  14:{10 + n // 2}:{n % 2 * 30:02}  round {881 + n} ok   seats 32/32  loss 2.{771 - n}"
        for n in range(30)
    ]
    lost = [
        "seat19 14:11:10  FATAL device 3 lost: engine stopped answering",
        "coord  14:11:20  spare admitted as seat 19",
    ]
    answer = answer_to(book, *rounds[:2], *lost, *rounds[2:])
    assert not any("regular lines go on" in note for note in answer.notes)


A, B, NEW = b"exporter: scrape", b"pass over the warp", b"torn"


@pytest.mark.parametrize(
    ("shapes", "alone"),
    [
        ([*[B, B, A] * 4, NEW, *[A] * 6], 6),
        ([*[B, B, A] * 4, NEW, b"", *[A, b""] * 6], 12),  # blank lines say nothing
        ([*[B, B, A] * 4, NEW, *[A] * 5], 0),  # too few to tell
        ([*[B, B, A] * 4, *[A] * 9], 0),  # nothing new was said
        ([*[B, A] * 8, NEW, *[A] * 9], 0),  # half of the log is no sidecar's
        ([*[B, B, B, A, A, A] * 4, NEW, *[A] * 9], 0),  # it came on end before
        ([*[B] * 9, NEW, *[A] * 9], 0),  # it never came before
        ([*[b"L", b"L", b" L "] * 4, NEW, *[b" L "] * 9], 0),  # their numbers say what they are
        ([B, A, NEW], 0),
        ([], 0),
    ],
)
def test_a_heartbeat_came_between_other_lines_and_then_alone(shapes: Sequence[bytes], alone: int) -> None:
    """So many of the last lines are a heartbeat's."""
    assert alone_at_the_end(shapes, frozenset()) == alone
    assert alone_at_the_end(shapes, {A}) == 0  # steps are work


def test_what_a_script_prints_last_is_no_clean_end_of_a_program_that_failed(book: RuleBook) -> None:
    """A job's script says that the job finished, whatever became of its program; after good work it is believed."""
    last = "Job finished at Sun Nov 22 06:33:08 UTC 2026"
    assert answer_to(book, *FAILED, last).failed
    assert answer_to(book, *WORK, "cloth rolled up, loom at rest", last).failed is False
