"""When a job failed, to compare with faults of machines whose clocks may be in another time zone."""

from __future__ import annotations

from typing import NamedTuple

from logdiag.judge.merge.clocks import Clocks, apart, in_one_year
from logdiag.scan.survey import Survey

# Machines without a clock print impossible years: from the year 2100 on.
_NO_CLOCK = 4.1e9
# Seconds: a fault may come so long before the last logged step, and be logged so long after the job's last line.
_SLACK = 900.0
_HALF_AN_HOUR = 1800.0
# No two zones are further apart.
_MOST_HALF_HOURS = 28
# Seconds between a fault and the failure that it causes, by clocks whose hours may be wrong.
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
        """By how many seconds another clock is ahead if it is in another time zone; None if no zone explains the
        difference, or several do."""
        begin, end = apart(self.start, time) + _SOON, apart(self.trouble, time) - _SOON
        # The zones in which it lies between the last step and the first trouble.
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
    trouble_lines = (finding.line for finding in job.findings if finding.role.is_failure)
    near = [clocked.time for line in trouble_lines if (clocked := clocks.near(line)) and clocked.time is not None]
    trouble = min(near, key=in_one_year, default=last)
    steps = {step.place for step in job.progress}
    stepped = [line.time for line in job.lines if line.time is not None and line.place in steps]
    before = [time for time in stepped if apart(time, trouble) >= 0]
    return Window(max(before, key=in_one_year, default=first), last, trouble)
