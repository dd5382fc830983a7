"""When a job failed, for faults of machines whose clocks may be of another zone."""

from __future__ import annotations

from typing import NamedTuple

from logdiag.judge.merge.clocks import Clocks, apart, in_one_year
from logdiag.scan.survey import Survey

# Machines without a clock print years that nobody lives in: from the year 2100 on.
_NO_CLOCK = 4.1e9
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
    first, last = min(dated, key=in_one_year), max(dated, key=in_one_year)
    clocks = Clocks(job.lines)
    told = (finding.line for finding in job.findings if finding.role.is_failure)
    near = [clocked.time for line in told if (clocked := clocks.near(line)) and clocked.time is not None]
    trouble = min(near, key=in_one_year, default=last)
    steps = {step.place for step in job.progress}
    stepped = [line.time for line in job.lines if line.time is not None and line.place in steps]
    before = [time for time in stepped if apart(time, trouble) >= 0]
    return Window(max(before, key=in_one_year, default=first), last, trouble)
