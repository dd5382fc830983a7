"""Times of several logs held against each other. Not every log prints its year, and not every clock its zone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from logdiag.model import Line, Role
from logdiag.scan.survey import Survey

_A_YEAR = 366 * 86_400.0
# Machines without a clock print years that nobody lives in: from the year 2100 on.
_NO_CLOCK = 4.1e9
# What is older was read without its year.
_SECONDS_OF_1990 = 6.3e8
# Seconds: a fault may come so long before the last step that was logged, and be told so long after the last line.
_SLACK = 900.0
_HALF_AN_HOUR = 1800.0
# No two zones are further apart.
_MOST_HALF_HOURS = 28
# Seconds between a fault and the failure it causes, by clocks of which only the minutes are believed.
_SOON = 300.0


class Window(NamedTuple):
    """When a job failed: from its last step before the first trouble to its last line, in seconds; `trouble` is the
    time of the first trouble."""

    start: float
    end: float
    trouble: float

    def holds(self, time: float) -> bool:
        """Whether a time lies in it."""
        return apart(self.start, time) >= -_SLACK and apart(self.end, time) <= _SLACK

    def zone_of(self, time: float) -> float | None:
        """By how many seconds another clock would be ahead, if it told of the same moment in another zone; None where
        zones cannot make up for the difference."""
        begin, end = apart(self.start, time) + _SOON, apart(self.trouble, time) - _SOON
        # The zones that would put it between the last step and the first trouble, if the two are near.
        fitting = [
            zone
            for half_hours in range(-_MOST_HALF_HOURS, _MOST_HALF_HOURS + 1)
            if half_hours and end <= (zone := half_hours * _HALF_AN_HOUR) <= begin
        ]
        return fitting[0] if len(fitting) == 1 else None


def window_of(job: Survey) -> Window | None:
    """When a job failed, by its own clocks; None where it prints none."""
    dated = [line.time for line in job.lines if line.time is not None and line.time < _NO_CLOCK]
    if not dated:
        return None
    first, last = min(dated, key=_in_one_year), max(dated, key=_in_one_year)
    told = (finding.line for finding in job.findings if finding.role in (Role.CAUSE, Role.SYMPTOM))
    of_stream: dict[int, list[Line]] = defaultdict(list)
    for line in job.lines:
        if line.time is not None:
            of_stream[line.stream].append(line)
    near = (line.time if line.time is not None else _nearest(line, of_stream[line.stream]) for line in told)
    trouble = min((time for time in near if time is not None), key=_in_one_year, default=last)
    steps = {(step.stream, step.position) for step in job.progress}
    stepped = [line.time for line in job.lines if line.time is not None and (line.stream, line.position) in steps]
    before = [time for time in stepped if apart(time, trouble) >= 0]
    return Window(max(before, key=_in_one_year, default=first), last, trouble)


def apart(earlier: float, later: float) -> float:
    """Seconds from one time to another; where one of the two was read without its year, within half a year."""
    if min(earlier, later) > _SECONDS_OF_1990:
        return later - earlier
    seconds = _in_one_year(later) - _in_one_year(earlier)
    return seconds - _A_YEAR if seconds > _A_YEAR / 2 else seconds + _A_YEAR if seconds < -_A_YEAR / 2 else seconds


def _in_one_year(time: float) -> float:
    """The same moment of one leap year."""
    return datetime.fromtimestamp(time, timezone.utc).replace(year=1976).timestamp()


def _nearest(line: Line, dated: Sequence[Line]) -> float | None:
    """The time of the nearest earlier line."""
    before = [other for other in dated if other.position <= line.position]
    return max(before, key=lambda other: other.position).time if before else None
