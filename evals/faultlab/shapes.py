"""The sizes at which a scenario is run: how many ranks, when it strikes, what comes before and after, how long."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass

from evals.faultlab.scenario import Scenario

__all__ = ["Shape", "shapes_of"]

STYLES = ("plain", "megatron", "json", "bare")
RECOVERED = ("tracker", "sample")
SECOND = ("summary", "notify")
HOSTS = ("node-03", "gpu017", "worker-2", "cn-0441", "ip-10-3-0-8", "h7")
# Two steps are seen before it, so that a log can be made longer.
_EARLY_STEP = 3
_BEFORE_THE_END = 5
# Of so many scenarios that work with four ranks, one is run with eight.
_LARGE_RANKS, _MOST_RANKS, _EVERY_SO_MANY = 4, 8, 7
# Of the wide runs, so many have torchrun's line prefixes, or a folder of logs for each rank.
_TEED, _IN_FOLDERS = 0.35, 0.5
# Of the long logs, most have some megabytes; one in so many is larger, one in so many very large.
_MEGABYTES, _LARGER, _VERY_LARGE = (1, 6), 10, 40
_LARGER_MEGABYTES, _VERY_LARGE_MEGABYTES = 40, 300


@dataclass(frozen=True, slots=True)
class Shape:
    """One run of a scenario. `step` is where the fault strikes, `megabytes` how long its log is made (0: as it is)."""

    index: int
    ranks: int
    culprit: int
    step: int
    host: str
    style: str
    tee: bool
    folder: bool
    unbuffered: bool
    recovered: str
    second: str
    megabytes: int

    @property
    def tags(self) -> list[str]:
        """What a reader of the case may want to select by."""
        said = {
            "multi-rank": self.ranks > 1,
            "recovered-before": bool(self.recovered),
            "second-error": bool(self.second),
            "long": self.megabytes > 0,
            "late": self.step > _EARLY_STEP,
        }
        return [name for name, holds in said.items() if holds]


def shapes_of(scenario: Scenario, seed: int) -> list[Shape]:
    """The runs of a scenario, always the same for a seed: small and early; wide and late after a recovered fault; and
    for faults that strike at a step, with a second error behind it and a long healthy part before it.

    What strikes at the start, and a healthy job, have two runs, the second with what the third would have had.
    They depend on nothing but the seed and the scenario's name, so that a new scenario leaves the others' runs alone.
    """
    source = random.Random(f"{seed}/{scenario.name}")
    lot = zlib.crc32(scenario.name.encode())
    ranks = sorted(scenario.ranks)
    wide, other = source.choice(ranks[1:] or ranks), source.choice(ranks)
    late = scenario.steps - _BEFORE_THE_END
    ours = scenario.job == "train" and not scenario.launch
    if ours and ranks[-1] >= _LARGE_RANKS and lot % _EVERY_SO_MANY == 0:
        wide = _MOST_RANKS
    at_step = scenario.phase != "start"
    layout = source.random() if ours and scenario.layouts and wide > 1 else 1.0
    second = source.choice(SECOND) if scenario.second and scenario.root else ""
    megabytes = _megabytes(lot, source) if scenario.long and at_step else 0
    three = bool(scenario.root) and at_step
    shapes = [
        _shape(scenario, 0, ranks[0], _EARLY_STEP, source),
        _shape(
            scenario,
            1,
            wide,
            late,
            source,
            tee=layout < _TEED,
            folder=_TEED <= layout < _IN_FOLDERS,
            recovered=source.choice(RECOVERED) if ours and scenario.recovered and at_step else "",
            second="" if three else second,
            megabytes=0 if three or layout < _IN_FOLDERS else megabytes,
        ),
    ]
    if three:
        step = late if source.random() < 0.6 else _EARLY_STEP
        shapes.append(_shape(scenario, 2, other, step, source, second=second, megabytes=megabytes))
    return shapes


def _shape(
    scenario: Scenario,
    index: int,
    ranks: int,
    step: int,
    source: random.Random,
    *,
    tee: bool = False,
    folder: bool = False,
    recovered: str = "",
    second: str = "",
    megabytes: int = 0,
) -> Shape:
    return Shape(
        index=index,
        ranks=ranks,
        culprit=source.randrange(ranks) if scenario.culprit is None else min(scenario.culprit, ranks - 1),
        step=step if scenario.phase != "start" else 0,
        host=source.choice(HOSTS),
        style=source.choice(STYLES),
        tee=tee,
        folder=folder,
        unbuffered=megabytes > 0 or source.random() < 0.5,
        recovered=recovered,
        second=second,
        megabytes=megabytes,
    )


def _megabytes(lot: int, source: random.Random) -> int:
    if lot % _VERY_LARGE == _VERY_LARGE - 1:
        return _VERY_LARGE_MEGABYTES
    if lot % _LARGER == _LARGER - 1:
        return _LARGER_MEGABYTES
    return source.randint(*_MEGABYTES)
