"""When it happened, by the log's own clocks: the last step, the first failure, and how long nothing came after."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from logdiag.judge.merge.clocks import apart
from logdiag.model import Line, Times
from logdiag.scan.steps import step_number
from logdiag.scan.survey import Survey

# So many lines before it, a line without a clock is taken to be printed at the time of a line of its process.
_NEAR = 60
# What is logged between two steps may look like progress too: so many lines of it are looked at for a step's number.
_LAST_STEPS = 4
# Dates without a year are read as of 1972 where torch's C++ prints them, and as of 1976 in syslog.
_SYSLOG = 1976
# Seconds: more is no time that a job stood still.
_LONGEST = 90 * 86_400


def times_of(survey: Survey, root: Line | None) -> Times | None:
    """The times of a log whose root line is `root`; None where it shows neither a clock nor a step."""
    step = _last_step(survey)
    clocks = Clocks(survey.lines)
    stepped = clocks.near(step, of_process=True) if step else None
    # The lines of a stream come in order, whoever prints them.
    failed = clocks.near(root) if root else None
    times = Times(
        first_failure_at=failed.clock if failed else None,
        last_progress_at=stepped.clock if stepped else None,
        last_step=step_number(step) if step else None,
        idle_seconds=seconds_to_end(stepped or failed, root, survey),
    )
    return times if times != Times() else None


class Clocks:
    """The lines of all logs that have a clock, for those that have none."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._of: dict[int, list[Line]] = {}
        for line in lines:
            if line.clock:
                self._of.setdefault(line.stream, []).append(line)
        for clocked in self._of.values():
            clocked.sort(key=_position)

    def near(self, line: Line, *, of_process: bool = False, within: int = _NEAR) -> Line | None:
        """The line itself where it has a clock, else the nearest earlier one of its stream, or of its process, that
        has, `within` so many lines."""
        if line.clock:
            return line
        clocked = self._of.get(line.stream, [])
        for at in range(bisect_left(clocked, line.position, key=_position) - 1, -1, -1):
            if line.position - clocked[at].position > within:
                return None
            if clocked[at].rank == line.rank or not of_process:
                return clocked[at]
        return None

    def seconds_apart(self, earlier: Line, later: Line) -> float | None:
        """Seconds from one line to another, each by its own clock or the nearest one above it in its log; None where
        these do not tell."""
        one, other = self.near(earlier), self.near(later)
        if one is None or other is None or one.time is None or other.time is None:
            return None
        return apart(one.time, other.time)


def _position(line: Line) -> int:
    return line.position


def clock_near(line: Line, lines: Sequence[Line]) -> str | None:
    """The clock's text of a line, or of the nearest earlier line of its process, as it is printed."""
    clocked = Clocks(lines).near(line, of_process=True)
    return clocked.clock if clocked else None


def last_step(survey: Survey) -> int | None:
    """The number of the last step of all, None where the log tells none."""
    line = _last_step(survey)
    return step_number(line) if line else None


def _last_step(survey: Survey) -> Line | None:
    """The line of the last step of all: by the clock, and by its place where there is none."""
    steps: dict[int, list[Line]] = {}
    for step in survey.progress:
        steps.setdefault(step.stream, []).append(step)
    lines = [step for of_stream in steps.values() for step in of_stream[-_LAST_STEPS:]]
    numbered = [line for line in lines if step_number(line) is not None] or lines
    return max(numbered, key=lambda line: (line.time or 0.0, step_number(line) or 0, line.position), default=None)


def seconds_to_end(since: Line | None, root: Line | None, survey: Survey) -> float | None:
    """Seconds from a line, or the clock above it, to the last time in the logs that tell of work or of the root."""
    clocked = Clocks(survey.lines).near(since) if since else None
    if clocked is None or clocked.time is None:
        return None
    streams = {step.stream for step in survey.progress} | ({root.stream} if root else set())
    later = (line.time for line in survey.lines if line.stream in streams and line.time is not None)
    apart = (_apart(clocked.time, time) for time in later)
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
