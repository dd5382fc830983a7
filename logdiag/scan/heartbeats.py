"""Finds what goes on alone when all else in a log fell silent: the regular line of a sidecar, an exporter, a watchdog.

    step 40 loss 2.1
    exporter: scrape 17 ok
    the store has gone, leaving
    exporter: scrape 18 ok
    exporter: scrape 19 ok   (and so on)

Such lines are no work of the job, and say nothing of whether it got over what came before.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby, islice

_LETTERS = string.ascii_letters.encode()
# So many lines at the end of a log are looked at, and so many bytes of each.
_MOST_LINES, _LONGEST = 4000, 512
# At most so many shapes go on, in a run of so many lines; before, they came so often between other lines, hardly ever
# on end, and from their first line on most lines were others'.
_MOST_SHAPES, _FEWEST_ALONE, _FEWEST_BEFORE, _LONGEST_BEFORE, _SHARE = 2, 6, 3, 2, 0.4
# Among so many lines before the run stands a new one, said so seldom: it may tell what made the others fall silent.
_LAST_WORDS, _SELDOM = 12, 2
# A shape of fewer letters is many things that differ in their numbers: 0000032731 14 L0201 50
_FEWEST_LETTERS = 6


def end_with(end: Sequence[bytes], shapes: Sequence[bytes]) -> list[bytes]:
    """The shapes of the last lines of a log, whose next lines have these."""
    return [*end, *(shape[:_LONGEST] for shape in shapes[-_MOST_LINES:])][-_MOST_LINES:]


def alone_at_the_end(shapes: Sequence[bytes], work: AbstractSet[bytes]) -> int:
    """How many of the last lines, whose shapes these are, are a heartbeat's that goes on alone, blank ones between
    them included; 0 for none. The shapes in `work` are those of steps."""
    going_on = set(islice(filter(bytes.strip, reversed(shapes)), _FEWEST_ALONE))
    says_little = any(len(shape) - len(shape.translate(None, _LETTERS)) < _FEWEST_LETTERS for shape in going_on)
    if len(going_on) > _MOST_SHAPES or says_little or not going_on.isdisjoint(work):
        return 0
    places = [at for at, shape in enumerate(shapes) if shape.strip()]
    said = [shapes[at] for at in places]
    alone = next((at for at, shape in enumerate(reversed(said)) if shape not in going_on), 0)
    before = said[: len(said) - alone]
    runs = [len(list(run)) for goes_on, run in groupby(before, going_on.__contains__) if goes_on]
    between = len(runs) >= _FEWEST_BEFORE and max(runs) <= _LONGEST_BEFORE * len(going_on)
    first = next((at for at, shape in enumerate(before) if shape in going_on), 0)
    few = sum(runs) <= _SHARE * (len(before) - first)
    times = Counter(before)
    new = any(times[shape] <= _SELDOM for shape in before[-_LAST_WORDS:])
    return len(shapes) - places[-alone] if alone >= _FEWEST_ALONE and between and few and new else 0
