"""What each process of the job did: the rows of a table of ranks, and the timeline of the whole run and of the time
around the first failure. `timeline.html` draws it. Widths are shares, so that a drawing fits a screen and a telephone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from logdiag.judge.merge.clocks import Clocks, apart
from logdiag.judge.ranks.readings import book_of
from logdiag.judge.ranks.words import rows_of
from logdiag.model import Diagnosis, Line, Mark
from logdiag.model.plain import rank_ranges
from logdiag.scan.steps import step_number

_KINDS_IN_TABLE = ("root", "consequence", "apart", "recovered", "end")  # of marks, the weightiest first
# With more processes, neighbouring ranks share a row.
_MOST_ROWS = 56
# Marks that are nearer than this share of the drawing's width are drawn as one.
_NEAR, _NEAR_STEPS = 0.004, 0.006
# The time shown before the first failure: this share of the time after it, and at least so many seconds.
_BEFORE, _FEWEST_SECONDS = 0.7, 20.0
# The whole run gets a second drawing where the first one shows less than this share of it.
_SMALL_PART = 0.7
_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800)
_MOST_TICKS = 6
_NAMES = {
    "root": "First failure", "consequence": "Consequence", "apart": "Another fault", "recovered": "Recovered from",
    "checkpoint": "Checkpoint", "end": "Clean exit", "step": "Steps",
}  # fmt: skip


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
        near = clocks.near(line, within=sys.maxsize)
        return near.time if near else None

    rooted = time(marks[0].line) if marks and marks[0].kind == "root" else None
    zero = next((line.time for line in every if line.time is not None), None) if rooted is None else rooted

    def at(line: Line) -> float | None:
        seconds = time(line)
        return None if seconds is None or zero is None else apart(zero, seconds)

    return at


# --- the timeline ---

_AnchorOf = Callable[[Mark], str]


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a drawing: a process, or several that follow each other."""

    label: str
    note: str
    processes: tuple[Process, ...]
    of_root: bool = False


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of time, in seconds from the first failure, drawn over the whole width."""

    start: float
    end: float

    def share(self, seconds: float) -> float:
        """Where a time lies in the span, 0 at its start and 1 at its end."""
        return (seconds - self.start) / (self.end - self.start)

    def part(self, start: float, end: float) -> tuple[str, str]:
        """Where a part of the span begins and how wide it is, as percentages of the width."""
        first, last = (min(max(self.share(edge), 0.0), 1.0) for edge in (start, end))
        return f"{first:.2%}", f"{last - first:.2%}"


def timeline(processes: Sequence[Process], anchor_of: _AnchorOf) -> dict[str, object]:
    """Returns the drawings, their key, and what 0 means; empty where no line has a time. `anchor_of` gives the anchor
    of a mark's line on the page, empty where the line is not shown."""
    times = _times_of(processes)
    if not times or max(times) <= min(times):
        return {}
    whole = _Span(min(times), max(times))
    marks = [mark for process in processes for mark, _ in process.marks]
    root = next((mark for mark in marks if mark.kind == "root"), None)
    before = max(whole.end * _BEFORE, _FEWEST_SECONDS)
    around = _Span(max(whole.start, -before), max(whole.end, min(1.0, before)))
    near = around if _is_root(processes[0]) else whole
    drawings = [_drawing(_rows(processes), near, anchor_of)]
    if near.end - near.start < _SMALL_PART * (whole.end - whole.start):
        every = _Row("whole run", "", tuple(processes))
        drawings.insert(0, _drawing([every], whole, anchor_of, whole.part(near.start, near.end)))
    kinds = {mark.kind for mark in marks}
    clock = f", {root.line.clock}" if root and root.line.clock else ""
    return {
        "key": [(kind, name) for kind, name in _NAMES.items() if kind in kinds],
        "zero": f"0 is the first failure{clock}" if root else "0 is the first line",
        "drawings": drawings,
    }


def _times_of(processes: Sequence[Process]) -> list[float]:
    return [time for process in processes for time in (process.first, process.last) if time is not None]


def _rows(processes: Sequence[Process]) -> list[_Row]:
    first = processes[0]
    rows = [_Row(first.name, first.node or "", (first,), of_root=True)] if _is_root(first) else []
    others = processes[len(rows) :]
    size = -(-len(others) // _MOST_ROWS) or 1
    for start in range(0, len(others), size):
        part = tuple(others[start : start + size])
        ranks = [process.rank for process in part if process.rank is not None]
        several = f"ranks {rank_ranges(ranks)}" if len(ranks) == len(part) else f"{part[0].name} ..."
        label = several if len(part) > 1 else part[0].name
        nodes = {process.node for process in part if process.node}
        rows.append(_Row(label, nodes.pop() if len(nodes) == 1 else "", part))
    return rows


def _is_root(process: Process) -> bool:
    return any(mark.kind == "root" for mark, _ in process.marks)


def _drawing(rows: Sequence[_Row], span: _Span, anchor_of: _AnchorOf, window: object = None) -> dict[str, object]:
    """What one drawing shows: rows, each with its bar and its marks, the weightiest last, and the ticks of the axis."""
    marks = [[mark for kind in reversed(_NAMES) for mark in _marks(kind, row, span, anchor_of)] for row in rows]
    times = [_times_of(row.processes) for row in rows]
    alive = [span.part(min(known), max(known)) if known else None for known in times]
    return {"rows": list(zip(rows, alive, marks, strict=True)), "ticks": list(_ticks(span)), "window": window}


def _ticks(span: _Span) -> Iterator[dict[str, str]]:
    """Yields the vertical lines of the time axis; 0 is the first failure."""
    length = span.end - span.start
    step = next((tick for tick in _TICKS if length / tick <= _MOST_TICKS), _TICKS[-1])
    time = -(-span.start // step) * step
    while time <= span.end:
        x = span.share(time)
        anchor = "end" if x > 0.93 else "middle" if x > 0.05 else ""
        yield {"kind": "tick" if time else "zero", "x": f"{x:.2%}", "anchor": anchor, "words": _moment(time, step)}
        time += step


def _moment(seconds: float, step: int) -> str:
    """`-10 min`, `0`, `+30 s`, in the largest unit that the distance of the lines allows."""
    if seconds == 0:
        return "0"
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    unit, name = next(entry for entry in units if step >= entry[0])
    return f"{seconds / unit:+.0f} {name}".replace("-", "\u2212")


def _marks(kind: str, row: _Row, span: _Span, anchor_of: _AnchorOf) -> Iterator[dict[str, str]]:
    """Yields the marks of one kind, those near each other as one, with their text."""
    here = [
        (span.share(at), mark)
        for process in row.processes
        for mark, at in process.marks
        if mark.kind == kind and at is not None and span.start <= at <= span.end
    ]
    groups: list[tuple[float, list[Mark]]] = []
    near = _NEAR_STEPS if kind == "step" else _NEAR
    for x, mark in sorted(here, key=lambda entry: entry[0]):
        if not groups or x - groups[-1][0] > near:
            groups.append((x, []))
        groups[-1][1].append(mark)
    for x, marks in groups:
        yield {"kind": kind, "x": f"{x:.2%}", "words": _words_of_marks(marks), "place": anchor_of(marks[0])}


def _words_of_marks(marks: Sequence[Mark]) -> str:
    """The text of several marks: `12x Time-out, first at 03:02:41 (job.log:18234)`."""
    first = marks[0]
    count = f"{len(marks)}x " if len(marks) > 1 else ""
    when = f", {'first ' if len(marks) > 1 else ''}at {first.line.clock}" if first.line.clock else ""
    return f"{_NAMES[first.kind]}: {count}{first.words}{when} ({first.line.source}:{first.line.number})"
