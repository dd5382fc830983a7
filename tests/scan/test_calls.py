"""The latest lines about collectives of each rank, while a log is read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from logdiag.model import Line
from logdiag.rules.searching import Match
from logdiag.scan.calls import Calls
from logdiag.scan.lines import Patterns

CALL = re.compile(r"rank (?P<rank>\d+) (?P<call>AllReduce)")


def calls_of(lines: Sequence[str]) -> tuple[list[tuple[int, str]], int]:
    """Position and rank of the calls on these lines, and how often a pattern was tried while the log was read."""
    tried = 0

    def matched(patterns: Patterns, text: str) -> list[Match]:
        nonlocal tried
        tried += 1
        return [match for match in [CALL.search(text)] if match]

    calls = Calls(matched, lambda position, number, text: Line("", number, text.decode(), position=position))
    calls.add([(at, at + 1, text.encode(), (7,)) for at, text in enumerate(lines)])
    while_read = tried
    return [(call.line.position, call.facts["rank"]) for call in calls], while_read


def test_a_form_of_line_is_tried_once() -> None:
    """Whether it has a call or none: of millions of lines that differ in numbers only the first is matched."""
    lines = [text for rank in range(50) for text in (f"rank {rank} AllReduce", f"rank {rank} nranks {rank} joins")]
    found, tried = calls_of(lines)
    # rank 0 and rank 10
    assert tried == 4
    assert found == [(2 * rank, str(rank)) for rank in range(50)]


def test_lines_beyond_ascii_are_tried_each() -> None:
    """A byte is no character there: where the rank stands is found anew."""
    found, tried = calls_of([f"\N{GEAR} rank {rank} AllReduce" for rank in range(3)])
    assert tried == 3
    assert found == [(0, "0"), (1, "1"), (2, "2")]
