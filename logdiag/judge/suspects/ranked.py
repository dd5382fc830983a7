"""What the ranking of suspects gives; how it is made, in ranking.py, is loaded only where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from logdiag.model import Line, LinePlace

# Of 1,586 failed in-house jobs 7 had a smaller chance, of 436 good ones 326, by what other authors' logs had taught.
_READS_WELL = 0.03


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
