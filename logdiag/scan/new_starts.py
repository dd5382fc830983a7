"""Finds where a log begins again as it began and then ends: the job's next start, that did not get any further.

    loom 4 is up, 17 beams
    beam 4: warp of 2,400 ends is wound
    pass 118: the shed of beam 4 is torn
    loom 4 is up, 17 beams
    beam 4: warp of 2,400 ends is wound

Such lines say nothing of whether the job got over what came before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

# So many of a log's first lines tell how it begins.
MOST_FIRST_LINES = 400
# So many lines are a head. Of those of the new start this share must come again, in any order, and at least so many.
_HEAD, _SHARE, _FEWEST = 12, 0.5, 3
# Every line of the new start must be among the log's first ones: among so many times as many, and some more.
_REACH, _SPARE = 2, 10
# Each of many processes may print the first line.
_MOST_PROCESSES = 64


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
    alike = shared.total() >= max(_FEWEST, _SHARE * new_head.total()) and len(shared) > 1
    only_in_heads = tail[0] not in before[_HEAD:]
    return alike and only_in_heads and set(before[: _REACH * len(tail) + _SPARE]).issuperset(tail)


def _head_of(shapes: Sequence[bytes]) -> Counter[bytes]:
    return Counter([shape for shape in shapes if shape.strip()][:_HEAD])
