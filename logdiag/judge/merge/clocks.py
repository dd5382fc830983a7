"""Times of several logs held against each other. Not every log prints its year, and not every clock its zone."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from itertools import pairwise
from typing import NamedTuple

from logdiag.model import Line, median
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
# So many lines before it, a line without a clock is taken to be printed at the time of a line of its process.
_NEAR = 60
# Who always comes so many seconds after the others, so many times what they differ by, is late; so many times tell.
_LATE, _MUCH_LATER, _FEWEST = 0.5, 4.0, 3


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
    clocks = Clocks(job.lines)
    told = (finding.line for finding in job.findings if finding.role.is_failure)
    near = [clocked.time for line in told if (clocked := clocks.near(line)) and clocked.time is not None]
    trouble = min(near, key=_in_one_year, default=last)
    steps = {step.place for step in job.progress}
    stepped = [line.time for line in job.lines if line.time is not None and line.place in steps]
    before = [time for time in stepped if apart(time, trouble) >= 0]
    return Window(max(before, key=_in_one_year, default=first), last, trouble)


def apart(earlier: float, later: float) -> float:
    """Seconds from one time to another; where one of the two was read without its year, within half a year."""
    if min(earlier, later) > _SECONDS_OF_1990:
        return later - earlier
    seconds = _in_one_year(later) - _in_one_year(earlier)
    return seconds - _A_YEAR if seconds > _A_YEAR / 2 else seconds + _A_YEAR if seconds < -_A_YEAR / 2 else seconds


def moment(text: str) -> float | None:
    """The time of a text in the form of ISO 8601, without a zone; None for any other."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def _in_one_year(time: float) -> float:
    """The same moment of one leap year."""
    return datetime.fromtimestamp(time, timezone.utc).replace(year=1976).timestamp()


class Clocks:
    """The lines of all logs that have a clock, for those that have none."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._of: dict[int, list[Line]] = defaultdict(list)
        for line in sorted((line for line in lines if line.clock), key=_position):
            self._of[line.stream].append(line)

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


def usually_late(moments: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """By how many seconds each rank usually came after the middle one, of the ranks that came to enough `moments`: the
    times of one are by rank."""
    late: dict[int, list[float]] = defaultdict(list)
    for times in moments:
        middle = median(times.values())
        for rank, time in times.items():
            late[rank].append(time - middle)
    return {rank: median(seconds) for rank, seconds in late.items() if len(seconds) >= _FEWEST}


def are_late(ranks: Iterable[int], usually: Mapping[int, float]) -> bool:
    """Whether some ranks all came much later than the others, which differ by far less."""
    named = set(ranks)
    others = max((abs(seconds) for rank, seconds in usually.items() if rank not in named), default=0.0)
    return all(usually.get(rank, 0.0) > max(_LATE, _MUCH_LATER * others) for rank in named)


def usual_step(processes: Iterable[Iterable[tuple[int, float]]]) -> float | None:
    """Seconds from one step to the next, by the numbers and times of each process's steps; None where they do not
    tell."""
    spans = [
        (time - before) / (step - last)
        for steps in processes
        for (last, before), (step, time) in pairwise(sorted(set(steps)))
        if step > last and time >= before
    ]
    return median(spans) if spans else None
