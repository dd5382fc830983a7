"""Finds, at a log's end, lines that tell nothing of whether the job got over what came before: what goes on alone when
all else fell silent (a sidecar, an exporter, a watchdog), and the job's next start that did not get any further.

    step 40 loss 2.1                              loom 4 is up, 17 beams
    exporter: scrape 17 ok                        beam 4: warp of 2,400 ends is wound
    the store has gone, leaving                   pass 118: the shed of beam 4 is torn
    exporter: scrape 18 ok                        loom 4 is up, 17 beams
    exporter: scrape 19 ok   (and so on)          beam 4: warp of 2,400 ends is wound
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
MOST_FIRST_LINES = 400
"""So many of a log's first lines tell how it begins."""
# So many lines are a head. Of those of the new start this share must come again, in any order, and at least so many.
_HEAD, _SHARE_OF_HEAD, _FEWEST = 12, 0.5, 3
# Every line of the new start must be among the log's first ones: among so many times as many, and some more.
_REACH, _SPARE = 2, 10
# Each of many processes may print the first line.
_MOST_PROCESSES = 64


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


def begun_again(first: Sequence[bytes], end: Sequence[bytes], total: int) -> int:
    """How many of the last lines are those of a new start; 0 for none. `first` are the shapes of the log's first lines,
    `end` of its last ones, both in its order, of `total` lines."""
    begins = next((shape for shape in first if shape.strip()), b"")
    own = 1 if total <= len(end) else 0  # the log's own start is among the last lines too
    if end.count(begins) == own:
        return 0
    lengths = [len(end) - at for at, shape in enumerate(end) if shape == begins][-_MOST_PROCESSES:]
    tails = ((first[: total - length], end[-length:]) for length in lengths if length <= total - length)
    return next((len(tail) for before, tail in tails if _begins_like(before, tail)), 0)


def _begins_like(before: Sequence[bytes], tail: Sequence[bytes]) -> bool:
    """Whether the last lines begin like those before them, and are nothing but such lines."""
    head, new_head = _head_of(before), _head_of(tail)
    shared = head & new_head
    alike = shared.total() >= max(_FEWEST, _SHARE_OF_HEAD * new_head.total()) and len(shared) > 1
    only_in_heads = tail[0] not in before[_HEAD:]
    return alike and only_in_heads and set(before[: _REACH * len(tail) + _SPARE]).issuperset(tail)


def _head_of(shapes: Sequence[bytes]) -> Counter[bytes]:
    return Counter([shape for shape in shapes if shape.strip()][:_HEAD])
