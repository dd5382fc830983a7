"""Compares times of several logs, not all of which print the year and the zone."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timezone

from logdiag.model import Line

_A_YEAR = 366 * 86_400.0
# An older time was read without its year.
_SECONDS_OF_1990 = 6.3e8
# A line without a clock takes the time of an earlier one, at most so many lines above it.
_NEAR = 60


def apart(earlier: float, later: float) -> float:
    """Seconds from one time to another; where one of the two was read without its year, within half a year."""
    if min(earlier, later) > _SECONDS_OF_1990:
        return later - earlier
    seconds = in_one_year(later) - in_one_year(earlier)
    return seconds - _A_YEAR if seconds > _A_YEAR / 2 else seconds + _A_YEAR if seconds < -_A_YEAR / 2 else seconds


def moment(text: str) -> float | None:
    """The time of a text in the form of ISO 8601, without a zone; None for any other."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def in_one_year(time: float) -> float:
    """The same moment of one leap year."""
    return datetime.fromtimestamp(time, timezone.utc).replace(year=1976).timestamp()


class Clocks:
    """The lines with a clock of all logs, to date those without."""

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
        for index in range(bisect_left(clocked, line.position, key=_position) - 1, -1, -1):
            if line.position - clocked[index].position > within:
                return None
            if clocked[index].rank == line.rank or not of_process:
                return clocked[index]
        return None

    def seconds_apart(self, earlier: Line, later: Line) -> float | None:
        """Seconds from one line to another, each by its own clock or the nearest one above it in its log; None where
        these do not tell."""
        first, second = self.near(earlier), self.near(later)
        if first is None or second is None or first.time is None or second.time is None:
            return None
        return apart(first.time, second.time)


def _position(line: Line) -> int:
    return line.position
