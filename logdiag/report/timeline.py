"""The timeline of a job as drawings: the whole run, and its processes around the first failure.

Widths are shares of the place there is, so that one drawing fits a screen and a telephone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from logdiag.model import Mark
from logdiag.report.processes import Process
from logdiag.report.words import clean, rank_ranges

__all__ = ["timeline"]

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


def timeline(processes: Sequence[Process], place: Callable[[Mark], str]) -> str:
    """The drawings with their key, as HTML; empty where no clock tells of any time. `place` gives the name of a line on
    the page, empty where it is not on it."""
    times = [time for one in processes for time in (one.first, one.last) if time is not None]
    if not times or max(times) <= min(times):
        return ""
    whole = _Span(min(times), max(times))
    near = _around_the_failure(whole) if _is_root(processes[0]) else whole
    rows = _rows(processes)
    root = next((item.mark for one in processes for item in one.happenings if item.mark.kind == "root"), None)
    zero = f"0 is the first failure{_at(root)}" if root else "0 is the first line"
    parts = [_key(processes), f'<p class="soft">A bar lasts from the first to the last line. {zero}.</p>']
    if near.end - near.start < _SMALL_PART * (whole.end - whole.start):
        every = _Row("whole run", "", tuple(processes))
        parts += [_drawing([every], whole, place, near), "<h3>Around the first failure</h3>"]
    return "".join([*parts, _drawing(rows, near, place)])


def _at(mark: Mark) -> str:
    return f", {_text(mark.line.clock)}" if mark.line.clock else ""


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


def _key(processes: Sequence[Process]) -> str:
    there = {item.mark.kind for one in processes for item in one.happenings}
    items = (
        f'<li><svg width="14" height="14"><use href="#m-{kind}" x="7" y="7"/></svg>{name}</li>'
        for kind, name in _NAMES.items()
        if kind in there
    )
    return f'<ul class="key">{"".join(items)}</ul>'


def _drawing(rows: Sequence[_Row], span: _Span, place: Callable[[Mark], str], window: _Span | None = None) -> str:
    height = _TOP + len(rows) * _ROW + _BOTTOM
    labels = "".join(
        f'<span{" class=of-root" if row.of_root else ""} title="{_text(f"{row.label} {row.note}")}">'
        f"<b>{_text(row.label, 28)}</b> {_text(row.note, 28)}</span>"
        for row in rows
    )
    tops = [_TOP + at * _ROW for at in range(len(rows))]
    alive = "".join(_alive(row, top, span) for row, top in zip(rows, tops, strict=True))
    marks = "".join(
        symbol
        for row, top in zip(rows, tops, strict=True)
        for kind in reversed(_NAMES)
        for symbol in _marks(kind, row, top + _ROW / 2, span, place)
    )
    shown = ""
    if window is not None:
        start, end = _clipped(span.share(window.start)), _clipped(span.share(window.end))
        shown = (
            f'<rect class="window" x="{start:.2%}" y="{_TOP}" width="{end - start:.2%}" height="{len(rows) * _ROW}"/>'
        )
    return (
        f'<div class="timeline"><div class="labels">{labels}</div>'
        f'<svg class="plot" width="100%" height="{height}" role="img" aria-label="What happened when">'
        f"{alive}{_axis(span, height)}{shown}{marks}</svg></div>"
    )


def _axis(span: _Span, height: int) -> str:
    """Lines of time; 0 is the first failure."""
    length = span.end - span.start
    step = next((tick for tick in _TICKS if length / tick <= _MOST_TICKS), _TICKS[-1])
    parts = []
    at = -(-span.start // step) * step
    while at <= span.end:
        x, kind = span.share(at), "zero" if at == 0 else "tick"
        parts.append(f'<line class="{kind}" x1="{x:.2%}" x2="{x:.2%}" y1="{_TOP - 4}" y2="{height - _BOTTOM}"/>')
        anchor = ' class="end"' if x > 0.93 else ' class="middle"' if x > 0.05 else ""
        parts.append(f'<text x="{x:.2%}" y="12"{anchor}>{_moment(at, step)}</text>')
        at += step
    return "".join(parts)


def _moment(seconds: float, step: int) -> str:
    """`-10 min`, `0`, `+30 s`, as coarse as the lines are apart."""
    if seconds == 0:
        return "0"
    unit, name = (
        (86400, "d") if step >= 86400 else (3600, "h") if step >= 3600 else (60, "min") if step >= 60 else (1, "s")
    )
    return f"{seconds / unit:+.0f} {name}".replace("-", "\u2212")


def _alive(row: _Row, top: int, span: _Span) -> str:
    """When the processes of a row printed anything."""
    drawn = f'<rect class="row" x="0" y="{top + 1}" width="100%" height="{_ROW - 2}"/>'
    known = [(one.first, one.last) for one in row.processes if one.first is not None and one.last is not None]
    if not known:
        return drawn
    start, end = _clipped(span.share(min(at for at, _ in known))), _clipped(span.share(max(at for _, at in known)))
    return f'{drawn}<rect class="alive" x="{start:.2%}" y="{top + 4}" width="{end - start:.2%}" height="{_ROW - 8}"/>'


def _marks(kind: str, row: _Row, middle: float, span: _Span, place: Callable[[Mark], str]) -> Iterator[str]:
    """The marks of one kind, those near each other as one."""
    here = [
        (span.share(item.at), item.mark)
        for one in row.processes
        for item in one.happenings
        if item.mark.kind == kind and item.at is not None and span.start <= item.at <= span.end
    ]
    last = -1.0
    group: list[Mark] = []
    near = _NEAR_STEPS if kind == "step" else _NEAR
    for x, mark in sorted(here, key=lambda found: found[0]):
        if group and x - last > near:
            yield _symbol(kind, last, middle, group, place)
            group = []
        if not group:
            last = x
        group.append(mark)
    if group:
        yield _symbol(kind, last, middle, group, place)


def _symbol(kind: str, x: float, middle: float, marks: Sequence[Mark], place: Callable[[Mark], str]) -> str:
    drawn = f'<use href="#m-{kind}" x="{x:.2%}" y="{middle:g}"'
    if kind == "step":
        return f"{drawn}/>"
    title = f"<title>{_text(_words(marks))}</title>"
    at = place(marks[0])
    return f'<a href="#{at}">{drawn}>{title}</use></a>' if at else f"{drawn}>{title}</use>"


def _words(marks: Iterable[Mark]) -> str:
    """What several marks tell: `12x Time-out, first at 03:02:41 (job.log:18234)`."""
    marks = list(marks)
    first = marks[0]
    count = f"{len(marks)}x " if len(marks) > 1 else ""
    when = f", {'first ' if len(marks) > 1 else ''}at {first.line.clock}" if first.line.clock else ""
    return f"{_NAMES[first.kind]}: {count}{first.words}{when} ({first.line.source}:{first.line.number})"


def _clipped(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def _text(value: str, longest: int = 300) -> str:
    return escape(clean(value, longest))
