"""What comes a thousand times is not taken apart each time, and nothing that differs among it is missed."""

from __future__ import annotations

import random
from collections import deque

import pytest

from logdiag.model import Line
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.rules.matcher import starts_of_lines
from logdiag.rules.searching import Match
from logdiag.scan.calls import Calls
from logdiag.scan.floods import Frames, above
from logdiag.scan.shapes import Shapes
from logdiag.scan.survey import Survey, survey
from tests.helpers import log_of
from tests.rules.test_digitless import Unsettled, times


def survived(number: int, said: str = "ValueError: bad header in part-{}.tar") -> list[str]:
    """A traceback that a loader survives, and steps after it."""
    return [
        "Traceback (most recent call last):",
        '  File "/workspace/loader.py", line 71, in fetch',
        "    return self.decode(raw)",
        f'  File "/workspace/loader.py", line {90 + number % 7}, in decode',
        '    raise ValueError(f"bad header in {name}")',
        said.format(10_000 + number),
        *(f"2026-03-02 08:00:{number % 60:02d} INFO step {number * 5 + at} loss 2.{number}{at}" for at in range(5)),
    ]


TELLING = (
    "OSError: [Errno 28] No space left on device",
    "ValueError: bad header in part-{}.tar after 3 tries of 8",
    "ValueError: coordinator_address should be defined",
    "RuntimeError: CUDA error: misaligned address",
)


@pytest.fixture(scope="module")
def found_and_expected(book: RuleBook) -> tuple[Survey, Survey, list[int]]:
    """What is found among 3,000 survived tracebacks of which some end otherwise, what is found where every line is
    looked for by itself, and where the others end, the first of each kind first."""
    lines: list[str] = []
    others: list[int] = []
    for number in range(3000):
        told = TELLING[number // 200 % len(TELLING)] if number % 200 == 150 else ""
        lines += survived(number, *([told] if told else ()))
        if told:
            others.append(len(lines) - 5)
    data = log_of(*lines) * 2
    both = [survey(open_sources((data,)), book.fresh(), kind(book, ())) for kind in (Shapes, Unsettled)]
    return both[0], both[1], others


def test_the_rules_find_in_a_flood_what_they_find_on_each_line(
    found_and_expected: tuple[Survey, Survey, list[int]],
) -> None:
    """Whether shapes tell which lines are frames and what is found on others, or every line is scanned."""
    found, expected, others = found_and_expected
    assert [(one.rule, one.line) for one in found.findings] == [(one.rule, one.line) for one in expected.findings]
    assert times(found) == times(expected)
    assert found.lines == expected.lines
    assert {finding.line.number for finding in found.findings} >= set(others[: len(TELLING)])


def test_a_traceback_that_ends_otherwise_is_kept_whole(found_and_expected: tuple[Survey, Survey, list[int]]) -> None:
    """Though its frames came thousands of times, and so is the last one of all."""
    found, _, others = found_and_expected
    kept = {line.number for line in found.lines}
    assert all(kept >= set(range(end - 5, end + 1)) for end in others[: len(TELLING)])
    last = max(line.number for line in found.lines if "ValueError: bad" in line.text)
    assert kept >= set(range(last - 5, last + 1))
    assert len(found.lines) < 6000


def test_frames_in_the_same_words_are_kept_twenty_times() -> None:
    """Those of another rank, or at another line, are others."""
    frames = Frames()
    first = frames.first_among(range(60), [b"[rank%d]: File" % (at % 2) for at in range(60)])
    assert first == list(range(40))
    assert frames.first_among([0, 1], [b"[rank0]: File", b"[rank2]: File"]) == [1]


def test_the_frames_above_an_exception_are_those_of_its_traceback() -> None:
    """What stands further apart is another's."""
    assert above([2, 10, 11, 13, 20], 15) == [13, 11, 10]
    assert above([2], 15) == []


def collective(source: random.Random, at: int) -> str:
    """What NCCL logs of a call; now and then a line that is none."""
    rank, length = source.randrange(6), source.randrange(1, 9)
    pid = f"41{rank:02d}" if source.random() > 0.02 else "41ab"
    address = "".join(source.choices("0123456789abcdef", k=12))
    operation = source.choice(("AllReduce", "Broadcast"))
    return (
        f"node-{rank % 2}:{pid}:52{rank:02d} [{rank}] NCCL INFO {operation}: opCount {at:x} sendbuff 0x{address} "
        f"recvbuff 0x{address} count {source.randrange(10**length)} datatype 9 op 0 root 0 comm 0x55d0{rank % 3}8a10 "
        f"[nranks=6] stream 0x{address}"
    )


def test_the_latest_calls_are_those_of_taking_every_line_apart(book: RuleBook) -> None:
    """The lines of one form are told apart by who speaks without being matched again."""
    source = random.Random(5)
    lines = [collective(source, at) for at in range(4000)]
    lines[2000:2000] = ["[PG ID 0 PG GUID 0(default_pg) Rank 3] PG status: last enqueued work: 85, "
                        "last completed work: 80"] * 3  # fmt: skip
    data = log_of(*lines)
    calls = Calls(book.calls_on, lambda position, number, text: Line("", number, text.decode(), position=position))
    expected: dict[tuple[object, ...], deque[tuple[int, dict[str, str]]]] = {}
    for at, patterns in book.matcher.on_lines(data, starts_of_lines(data)):
        if not (patterns := book.marks_of(patterns).calls):
            continue
        calls.add([(at, at + 1, lines[at].encode(), patterns)])
        matches = book.calls_on(patterns, lines[at])
        facts = {name: value for match in matches for name, value in match.groupdict().items() if value}
        if facts:
            who = tuple(map(facts.get, ("node", "pid", "comm", "rank", "group", "pg", "group_rank")))
            expected.setdefault((who, *facts), deque(maxlen=64)).append((at, facts))
    latest = sorted((call for kept in expected.values() for call in kept), key=lambda call: call[0])
    assert [(call.line.position, call.facts) for call in calls] == latest
    assert len(latest) > 300


class Counting(RuleBook):
    """A rule book that counts how often it is asked about a rank's collectives."""

    asked = 0

    def calls_on(self, patterns: tuple[int, ...], text: str) -> list[Match]:
        self.asked += 1
        return super().calls_on(patterns, text)


def test_lines_of_a_shape_that_tells_of_no_call_are_not_taken_apart_again(book: RuleBook) -> None:
    """NCCL names a communicator in words that a call has too; of so many such lines, only the call is looked at."""
    ready = [
        f"node-{n % 8}:41{n % 16:02}:52{n % 16:02} [{n % 16}] NCCL INFO comm 0x55d0{n % 16:02}8a10 rank {n % 16} "
        f"nranks 512 cudaDev {n % 16} busId {n % 99999} - Init COMPLETE"
        for n in range(60_000)
    ]
    counting = Counting(*book.parts)
    survey(open_sources((log_of(*ready, collective(random.Random(5), 7)),)), counting, Shapes(counting, ()))
    assert 0 < counting.asked < 1000
