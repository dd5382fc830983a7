"""The timeline of a job: the whole run, and its processes around the first failure. `timeline.html` draws it. Widths
are shares, so that a drawing fits a screen and a telephone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from logdiag.model import Mark
from logdiag.model.plain import rank_ranges
from logdiag.report.processes import Process

# More rows are folded: ranks that follow each other share one.
_MOST_ROWS = 56
_ROW, _TOP, _BOTTOM = 16, 22, 6
# Of the drawing: what lies nearer together is one mark.
_NEAR, _NEAR_STEPS = 0.004, 0.006
# Before the first failure is shown so much of the time after it, and at least so many seconds.
_BEFORE, _FEWEST_SECONDS = 0.7, 20.0
# The whole run gets a drawing of its own where what is shown of it is less than this.
_SMALL_PART = 0.7
_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800)
_MOST_TICKS = 6
_NAMES = {
    "root": "First failure", "consequence": "Consequence", "apart": "Another fault", "recovered": "Recovered from",
    "checkpoint": "Checkpoint", "end": "Clean exit", "step": "Steps",
}  # fmt: skip

_Place = Callable[[Mark], str]


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

    def share(self, at: float) -> float:
        """Where a time lies, from 0 to 1 within."""
        return (at - self.start) / (self.end - self.start)

    def part(self, start: float, end: float) -> tuple[str, str]:
        """Where a stretch of it begins, and how wide it is."""
        first, last = (min(max(self.share(at), 0.0), 1.0) for at in (start, end))
        return f"{first:.2%}", f"{last - first:.2%}"


def timeline(processes: Sequence[Process], place: _Place) -> dict[str, object]:
    """The drawings, their key, and what 0 means; empty where no clock tells of any time. `place` gives the name of a
    line on the page, empty where it is not on it."""
    times = [time for one in processes for time in (one.first, one.last) if time is not None]
    if not times or max(times) <= min(times):
        return {}
    whole = _Span(min(times), max(times))
    root = next((item.mark for one in processes for item in one.happenings if item.mark.kind == "root"), None)
    near = _around_the_failure(whole) if _is_root(processes[0]) else whole
    drawings = [_drawing(_rows(processes), near, place)]
    if near.end - near.start < _SMALL_PART * (whole.end - whole.start):
        every = _Row("whole run", "", tuple(processes))
        drawings.insert(0, _drawing([every], whole, place) | {"window": whole.part(near.start, near.end)})
    there = {item.mark.kind for one in processes for item in one.happenings}
    at = f", {root.line.clock}" if root and root.line.clock else ""
    return {
        "key": [(kind, name) for kind, name in _NAMES.items() if kind in there],
        "zero": f"0 is the first failure{at}" if root else "0 is the first line",
        "drawings": drawings,
    }


def _around_the_failure(whole: _Span) -> _Span:
    after = max(whole.end, 0.0)
    before = max(after * _BEFORE, _FEWEST_SECONDS)
    return _Span(max(whole.start, -before), max(whole.end, min(1.0, before)))


def _rows(processes: Sequence[Process]) -> list[_Row]:
    if len(processes) <= _MOST_ROWS:
        return [_Row(one.name, one.node or "", (one,), at == 0 and _is_root(one)) for at, one in enumerate(processes)]
    first = processes[:1] if _is_root(processes[0]) else []
    others = processes[len(first) :]
    size = -(-len(others) // _MOST_ROWS)
    rows = [_Row(one.name, one.node or "", (one,), True) for one in first]
    for at in range(0, len(others), size):
        part = tuple(others[at : at + size])
        ranks = [one.rank for one in part if one.rank is not None]
        label = f"ranks {rank_ranges(ranks)}" if len(ranks) == len(part) > 1 else f"{part[0].name} ..."
        nodes = {one.node for one in part if one.node}
        rows.append(_Row(label, nodes.pop() if len(nodes) == 1 else "", part))
    return rows


def _is_root(one: Process) -> bool:
    return any(item.mark.kind == "root" for item in one.happenings)


def _drawing(rows: Sequence[_Row], span: _Span, place: _Place) -> dict[str, object]:
    tops = [_TOP + at * _ROW for at in range(len(rows))]
    marks = [
        mark
        for row, top in zip(rows, tops, strict=True)
        for kind in reversed(_NAMES)
        for mark in _marks(kind, row, top + _ROW / 2, span, place)
    ]
    return {
        "height": _TOP + len(rows) * _ROW + _BOTTOM,
        "rows": rows,
        "alive": [(top, _alive(row, span)) for row, top in zip(rows, tops, strict=True)],
        "ticks": list(_ticks(span)),
        "marks": marks,
        "window": None,
    }


def _ticks(span: _Span) -> Iterator[dict[str, str]]:
    """Lines of time; 0 is the first failure."""
    length = span.end - span.start
    step = next((tick for tick in _TICKS if length / tick <= _MOST_TICKS), _TICKS[-1])
    at = -(-span.start // step) * step
    while at <= span.end:
        x = span.share(at)
        anchor = "end" if x > 0.93 else "middle" if x > 0.05 else ""
        yield {"kind": "tick" if at else "zero", "x": f"{x:.2%}", "anchor": anchor, "words": _moment(at, step)}
        at += step


def _moment(seconds: float, step: int) -> str:
    """`-10 min`, `0`, `+30 s`, as coarse as the lines are apart."""
    if seconds == 0:
        return "0"
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    unit, name = next(found for found in units if step >= found[0])
    return f"{seconds / unit:+.0f} {name}".replace("-", "\u2212")


def _alive(row: _Row, span: _Span) -> tuple[str, str] | None:
    """When the processes of a row printed anything."""
    known = [(one.first, one.last) for one in row.processes if one.first is not None and one.last is not None]
    return span.part(min(at for at, _ in known), max(at for _, at in known)) if known else None


def _marks(kind: str, row: _Row, middle: float, span: _Span, place: _Place) -> Iterator[dict[str, str]]:
    """The marks of one kind, those near each other as one, with what they tell."""
    here = [
        (span.share(item.at), item.mark)
        for one in row.processes
        for item in one.happenings
        if item.mark.kind == kind and item.at is not None and span.start <= item.at <= span.end
    ]
    groups: list[tuple[float, list[Mark]]] = []
    near = _NEAR_STEPS if kind == "step" else _NEAR
    for x, mark in sorted(here, key=lambda found: found[0]):
        if not groups or x - groups[-1][0] > near:
            groups.append((x, []))
        groups[-1][1].append(mark)
    for x, marks in groups:
        yield {
            "kind": kind,
            "x": f"{x:.2%}",
            "y": f"{middle:g}",
            "words": _words_of_marks(marks),
            "place": place(marks[0]),
        }


def _words_of_marks(marks: Sequence[Mark]) -> str:
    """What several marks tell: `12x Time-out, first at 03:02:41 (job.log:18234)`."""
    first = marks[0]
    count = f"{len(marks)}x " if len(marks) > 1 else ""
    when = f", {'first ' if len(marks) > 1 else ''}at {first.line.clock}" if first.line.clock else ""
    return f"{_NAMES[first.kind]}: {count}{first.words}{when} ({first.line.source}:{first.line.number})"
