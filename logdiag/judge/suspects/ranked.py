"""What the ranking of suspects gives; how it is made, in ranking.py, is loaded only where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from logdiag.model import Line, LinePlace

# Of 857 failed logs that taught nothing 1 had a smaller chance, of 172 good ones 143.
_READS_WELL = 0.1


class RankedLine(NamedTuple):
    """A suspect; `score` is the chance, 0 to 1, that it is the line that names what broke first."""

    line: Line
    score: float


class Ranking(NamedTuple):
    """The suspects of a log, best first, one line of each shape; `failure` is the chance that the log shows one at
    all. `scores` are those of all lines that were looked at, by stream and position."""

    lines: tuple[RankedLine, ...] = ()
    failure: float = 0.0
    scores: Mapping[LinePlace, float] = {}

    @property
    def reads_well(self) -> bool:
        """Whether the log reads like a good run's."""
        return bool(self.lines) and self.failure < _READS_WELL
