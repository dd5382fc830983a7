"""Which frames of tracebacks are worth the lines around them: of those that read alike the first and the latest."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

from logdiag.scan.lines import KeptLine

# Of frames in the same words, numbers included, so many are kept. Other ranks that name themselves say other words.
_MOST_ALIKE = 20
_MOST_TEXTS, _MOST_LATEST = 20_000, 256
# Lines between two frames of one traceback, or between the last frame and the exception.
_BETWEEN = 3
_LONGEST_TRACEBACK = 200


class Frames:
    """The frames of one log, as its blocks come."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()
        self._latest: OrderedDict[object, list[KeptLine]] = OrderedDict()

    def first_among(self, places: Sequence[int], texts: Sequence[bytes]) -> list[int]:
        """Those of a block's frames, given by their places and texts, of which not enough in the same words came
        before."""
        counts = Counter(texts)
        if len(self._seen) > _MOST_TEXTS:
            self._seen.clear()
        left = {text: _MOST_ALIKE - seen for text in counts if (seen := self._seen[text]) < _MOST_ALIKE}
        self._seen.update(counts)
        first: list[int] = []
        for place, text in zip(places, texts, strict=True) if left else ():
            if text in left:
                first.append(place)
                left[text] -= 1
                if not left[text]:
                    del left[text]
                    if not left:
                        break
        return first

    def remember(self, key: object, around: list[KeptLine]) -> None:
        """Remembers lines of the latest traceback of its kind, in place of the one before it."""
        self._latest.pop(key, None)
        self._latest[key] = around
        if len(self._latest) > _MOST_LATEST:
            self._latest.popitem(last=False)

    def latest(self) -> Iterable[KeptLine]:
        """What is remembered."""
        return (line for around in self._latest.values() for line in around)


def above(places: Sequence[int], place: int) -> list[int]:
    """Those of a block's frames that stand in the traceback which ends at a place."""
    found: list[int] = []
    for frame in reversed(places[: bisect_left(places, place)]):
        if place - frame > _BETWEEN or len(found) >= _LONGEST_TRACEBACK:
            break
        found.append(frame)
        place = frame
    return found
