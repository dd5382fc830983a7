"""What each process of the job did: the rows of a timeline and of a table of ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from logdiag.judge.merge.clocks import Clocks, apart
from logdiag.judge.ranks.readings import book_of
from logdiag.judge.ranks.words import rows_of
from logdiag.model import Diagnosis, Line, Mark
from logdiag.scan.steps import step_number

TOLD = ("root", "consequence", "apart", "recovered", "end")
"""The kinds of marks that a table tells of, the weightiest first."""


_ANY = sys.maxsize


@dataclass(frozen=True, slots=True)
class Happening:
    """A mark at its time, in seconds from the first failure (or from the first line); None where no clock tells."""

    mark: Mark
    at: float | None


@dataclass(slots=True)
class Process:
    """A rank, or a log that names none: its `name`, number, node, what happened in it, and the times (as above) of its
    first and last line, of those that are worth reading; `clock` is the text of the last."""

    name: str
    rank: int | None
    node: str | None = None
    happenings: list[Happening] = field(default_factory=list)
    first: float | None = None
    last: float | None = None
    clock: str | None = None
    last_step: int | None = None

    @property
    def told(self) -> Happening | None:
        """The weightiest of what happened in it, the first of its kind; None where nothing did but work."""
        found = [item for item in self.happenings if item.mark.kind in TOLD]
        return min(found, key=lambda item: (TOLD.index(item.mark.kind), item.at or 0.0), default=None)

    def saw(self, line: Line, at: float | None) -> None:
        """Takes note of a line of this process."""
        self.node = self.node or line.node
        if at is not None:
            self.first = at if self.first is None else min(self.first, at)
            if self.last is None or at >= self.last:
                self.last, self.clock = at, line.clock or self.clock


def processes_of(diagnosis: Diagnosis) -> list[Process]:
    """The processes of a job, that of the root first, then ranks in order, then logs of none."""
    lines, marks = diagnosis.digest.lines, diagnosis.marks
    at_time = _times(lines, marks)
    rows = rows_of(lines)
    told = book_of(rows, rows).speakers
    spoke = {row.line.place: told[row.at][0] for row in rows if row.at in told}
    found: dict[int | str, Process] = {}

    def process(line: Line, rank: int | None, node: str | None) -> Process:
        own = rank if rank is not None else spoke.get(line.place, line.rank)
        name = f"rank {own}" if own is not None else line.source
        one = found.setdefault(own if own is not None else line.source, Process(name, own))
        one.node = one.node or node
        return one

    for mark in marks:
        one, at = process(mark.line, mark.rank, mark.node), at_time(mark.line)
        one.happenings.append(Happening(mark, at))
        one.saw(mark.line, at)
    for line in lines:
        process(line, None, None).saw(line, at_time(line))
    for line, number in _last_steps(lines, marks):
        process(line, None, None).last_step = number
    root = process(marks[0].line, marks[0].rank, None) if marks and marks[0].kind == "root" else None
    return sorted(found.values(), key=lambda one: (one is not root, one.rank is None, one.rank or 0, one.name))


def _last_steps(lines: Sequence[Line], marks: Sequence[Mark]) -> Iterator[tuple[Line, int]]:
    """Steps with their numbers, in order. Where several ranks share a log not every step of each is known: there only
    the last step of all counts."""
    steps = [(mark.line, number) for mark in marks if mark.kind == "step" and (number := step_number(mark.line))]
    speakers: dict[int, set[int | None]] = {}
    for line in (*lines, *(line for line, _ in steps)):
        speakers.setdefault(line.stream, set()).add(line.rank)
    furthest: dict[int, int] = {}
    for line, number in steps:
        furthest[line.stream] = max(number, furthest.get(line.stream, 0))
    for line, number in sorted(steps, key=lambda found: found[1]):
        if len(speakers[line.stream]) == 1 or number == furthest[line.stream]:
            yield line, number


def _times(lines: Sequence[Line], marks: Sequence[Mark]) -> Callable[[Line], float | None]:
    """Tells when a line was printed, in seconds from the root or else the first line that has a clock."""
    every = [*lines, *(mark.line for mark in marks)]
    clocks = Clocks(every)

    def time(line: Line) -> float | None:
        near = clocks.near(line, within=_ANY)
        return near.time if near else None

    rooted = time(marks[0].line) if marks and marks[0].kind == "root" else None
    zero = next((line.time for line in every if line.time is not None), None) if rooted is None else rooted

    def at(line: Line) -> float | None:
        seconds = time(line)
        return None if seconds is None or zero is None else apart(zero, seconds)

    return at
