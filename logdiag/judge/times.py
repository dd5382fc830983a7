"""When it happened, by the log's own clocks: the last step, the first failure, and how long nothing came after."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from logdiag.merge.clocks import apart
from logdiag.model import Line, Times
from logdiag.scan.survey import Survey

__all__ = ["clock_near", "seconds_apart", "times_of"]

# So many lines before it, a line without a clock is taken to be printed at the time of a line of its process.
_NEAR = 60
# What is logged between two steps may look like progress too: so many lines of it are looked at for a step's number.
_LAST_STEPS = 4
# step: 12 loss ...   iteration  100/  500 |   'global_step': 7   Step [12/500]   45%|####  | 198/500 [00:10<00:12
_STEP = re.compile(
    r"(?i)(?<![a-z0-9])(?:global[_ ]?)?(?:step|iter|iteration|it)s?\b[\"']?\s{0,10}[:=\[(#]?\s{0,10}(\d{1,9})\b"
    r"|\|\s{0,10}(\d{1,9})/\d{1,9} \["
)
# Dates without a year are read as of 1972 where torch's C++ prints them, and as of 1976 in syslog.
_SYSLOG = 1976
# Seconds: more is no time that a job stood still.
_LONGEST = 90 * 86_400


def times_of(survey: Survey, root: Line | None) -> Times | None:
    """The times of a log whose root line is `root`; None where it shows neither a clock nor a step."""
    step = _last_step(survey)
    stepped = _clocked(step, survey.lines, of_process=True) if step else None
    # The lines of a stream come in order, whoever prints them.
    failed = _clocked(root, survey.lines, of_process=False) if root else None
    times = Times(
        first_failure_at=failed.clock if failed else None,
        last_progress_at=stepped.clock if stepped else None,
        last_step=_number(step) if step else None,
        idle_seconds=_idle(stepped or failed, root, survey),
    )
    return times if times != Times() else None


def clock_near(line: Line, lines: Sequence[Line]) -> str | None:
    """The clock's text of a line, or of the nearest earlier line of its process, as it is printed."""
    clocked = _clocked(line, lines, of_process=True)
    return clocked.clock if clocked else None


def seconds_apart(earlier: Line, later: Line, lines: Sequence[Line]) -> float | None:
    """Seconds from one line to another, each by its own clock or the nearest one above it in its log; None where these
    do not tell."""
    one, other = (_clocked(line, lines, of_process=False) for line in (earlier, later))
    if one is None or other is None or one.time is None or other.time is None:
        return None
    return apart(one.time, other.time)


def _clocked(line: Line, lines: Iterable[Line], *, of_process: bool) -> Line | None:
    """The line itself where it has a clock, else the nearest earlier one of its stream, or of its process, that has."""
    if line.clock:
        return line
    near = (
        other
        for other in lines
        if other.clock
        and other.stream == line.stream
        and (other.rank == line.rank or not of_process)
        and 0 < line.position - other.position <= _NEAR
    )
    return max(near, key=lambda other: other.position, default=None)


def _last_steps(survey: Survey) -> list[Line]:
    """The last lines of each stream that tell of a step, where they were kept."""
    places: dict[int, list[int]] = {}
    for step in survey.progress:
        places.setdefault(step.stream, []).append(step.position)
    latest = {(stream, at) for stream, found in places.items() for at in sorted(set(found))[-_LAST_STEPS:]}
    return [line for line in survey.lines if (line.stream, line.position) in latest]


def _last_step(survey: Survey) -> Line | None:
    """The line of the last step of all: by the clock, and by its place where there is none."""
    lines = _last_steps(survey)
    numbered = [line for line in lines if _number(line) is not None] or lines
    return max(numbered, key=lambda line: (line.time or 0.0, _number(line) or 0, line.position), default=None)


def _number(line: Line) -> int | None:
    found = _STEP.search(line.text)
    return int(found[1] or found[2]) if found else None


def _idle(since: Line | None, root: Line | None, survey: Survey) -> float | None:
    """Seconds from a line to the last time in the logs that tell of work or of the root."""
    if since is None or since.time is None:
        return None
    streams = {step.stream for step in survey.progress} | ({root.stream} if root else set())
    later = (line.time for line in survey.lines if line.stream in streams and line.time is not None)
    apart = (_apart(since.time, time) for time in later)
    return round(max((seconds for seconds in apart if 0 <= seconds < _LONGEST), default=0.0), 3)


def _apart(earlier: float, later: float) -> float:
    """Seconds between two times; less than none where their clocks cannot be held against each other."""
    one, other = _year_of(earlier), _year_of(later)
    if one == other or min(one, other) > _SYSLOG:
        return later - earlier
    if _SYSLOG in (one, other):
        return -1.0
    # A program's own clock and that of torch's C++, which prints no year.
    return _in_one_year(later) - _in_one_year(earlier)


def _year_of(time: float) -> int:
    return datetime.fromtimestamp(time, timezone.utc).year


def _in_one_year(time: float) -> float:
    return datetime.fromtimestamp(time, timezone.utc).replace(year=_SYSLOG).timestamp()
