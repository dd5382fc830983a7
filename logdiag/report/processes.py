"""What each process of the job did: the rows of a timeline and of a table of ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from logdiag.judge.merge.clocks import Clocks, apart
from logdiag.judge.ranks.readings import book_of
from logdiag.judge.ranks.words import rows_of
from logdiag.model import Diagnosis, Line, Mark
from logdiag.scan.steps import step_number

_KINDS_IN_TABLE = ("root", "consequence", "apart", "recovered", "end")  # of marks, the weightiest first

_ANY = sys.maxsize


@dataclass(slots=True)
class Process:
    """A rank, or a log that names none: its `name`, number, node, the marks of it, and the times of its first and last
    line, of those that are worth reading; `clock` is the text of the last. Times, also those of `marks`, are in seconds
    from the first failure (or from the first line), None where no clock is known."""

    name: str
    rank: int | None
    node: str | None = None
    marks: list[tuple[Mark, float | None]] = field(default_factory=list)
    first: float | None = None
    last: float | None = None
    clock: str | None = None
    last_step: int | None = None

    @property
    def main_mark(self) -> Mark | None:
        """The first mark of the weightiest kind; None for a process that only worked."""
        kinds = _KINDS_IN_TABLE
        weighty = [(kinds.index(mark.kind), at or 0.0, mark) for mark, at in self.marks if mark.kind in kinds]
        return min(weighty, key=itemgetter(0, 1))[2] if weighty else None

    def saw(self, line: Line, at: float | None) -> None:
        """Updates the node and the times by a line of this process."""
        self.node = self.node or line.node
        if at is not None:
            self.first = at if self.first is None else min(self.first, at)
            if self.last is None or at >= self.last:
                self.last, self.clock = at, line.clock or self.clock


def processes_of(diagnosis: Diagnosis) -> list[Process]:
    """Returns the processes of a job: first the root's, then the ranks in order, then logs that name no rank."""
    lines, marks = diagnosis.digest.lines, diagnosis.marks
    at_time = _times(lines, marks)
    rows = rows_of(lines)
    speakers = book_of(rows, rows).speakers
    rank_of_line = {row.line.place: speakers[row.at][0] for row in rows if row.at in speakers}
    processes: dict[int | str, Process] = {}

    def process_of(line: Line, rank: int | None, node: str | None) -> Process:
        rank = rank if rank is not None else rank_of_line.get(line.place, line.rank)
        name = f"rank {rank}" if rank is not None else line.source
        process = processes.setdefault(rank if rank is not None else line.source, Process(name, rank))
        process.node = process.node or node
        return process

    for mark in marks:
        process, seconds = process_of(mark.line, mark.rank, mark.node), at_time(mark.line)
        process.marks.append((mark, seconds))
        process.saw(mark.line, seconds)
    for line in lines:
        process_of(line, None, None).saw(line, at_time(line))
    for line, number in _last_steps(lines, marks):
        process_of(line, None, None).last_step = number
    root = process_of(marks[0].line, marks[0].rank, None) if marks and marks[0].kind == "root" else None
    return sorted(processes.values(), key=lambda item: (item is not root, item.rank is None, item.rank or 0, item.name))


def _last_steps(lines: Sequence[Line], marks: Sequence[Mark]) -> Iterator[tuple[Line, int]]:
    """Yields steps with their numbers, in order. Where several ranks share a log, not every step of each rank is known:
    there only the last step of all counts."""
    steps = [(mark.line, number) for mark in marks if mark.kind == "step" and (number := step_number(mark.line))]
    speakers: dict[int, set[int | None]] = {}
    for line in (*lines, *(line for line, _ in steps)):
        speakers.setdefault(line.stream, set()).add(line.rank)
    furthest: dict[int, int] = {}
    for line, number in steps:
        furthest[line.stream] = max(number, furthest.get(line.stream, 0))
    for line, number in sorted(steps, key=lambda step: step[1]):
        if len(speakers[line.stream]) == 1 or number == furthest[line.stream]:
            yield line, number


def _times(lines: Sequence[Line], marks: Sequence[Mark]) -> Callable[[Line], float | None]:
    """The function for a line's time in seconds from the root or the first clock; None where no clock is near."""
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
