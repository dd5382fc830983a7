"""Finds what goes on alone when all else in a log fell silent: the regular line of a sidecar, an exporter, a watchdog.

    step 40 loss 2.1
    exporter: scrape 17 ok
    the store has gone, leaving
    exporter: scrape 18 ok
    exporter: scrape 19 ok   (and so on)

Such lines are no work of the job, and say nothing of whether it got over what came before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby

LONGEST_END = 4000
"""So many lines at the end of a log are looked at."""
# At most so many shapes go on, in a run of so many lines; before, they came so often between other lines, hardly ever
# on end, and from their first line on most lines were others'.
_MOST_SHAPES, _FEWEST_ALONE, _FEWEST_BEFORE, _LONGEST_BEFORE, _SHARE = 2, 6, 3, 2, 0.4
# Among so many lines before the run stands a new one, said so seldom: it may tell what made the others fall silent.
_LAST_WORDS, _SELDOM = 12, 2


def alone_at_the_end(shapes: Sequence[bytes], work: AbstractSet[bytes]) -> int:
    """How many of the last lines, whose shapes these are, are a heartbeat's that goes on alone; 0 for none. The shapes
    in `work` are those of steps."""
    going_on = set(shapes[-_FEWEST_ALONE:])
    if len(going_on) > _MOST_SHAPES or not going_on.isdisjoint(work):
        return 0
    alone = next((at for at, shape in enumerate(reversed(shapes)) if shape not in going_on), 0)
    before = shapes[: len(shapes) - alone]
    runs = [len(list(run)) for goes_on, run in groupby(before, going_on.__contains__) if goes_on]
    between = len(runs) >= _FEWEST_BEFORE and max(runs) <= _LONGEST_BEFORE * len(going_on)
    first = next((at for at, shape in enumerate(before) if shape in going_on), 0)
    few = sum(runs) <= _SHARE * (len(before) - first)
    times = Counter(before)
    new = any(times[shape] <= _SELDOM for shape in before[-_LAST_WORDS:])
    return alone if alone >= _FEWEST_ALONE and between and few and new else 0
