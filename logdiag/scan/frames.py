"""Chooses the frames of tracebacks around which lines are kept: of frames in the same words the first and latest."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

from logdiag.scan.lines import KeptLine

# Of frames in the same words, numbers included, so many are kept. The frames of ranks that print their number differ.
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

    def first_among(self, indices: Sequence[int], texts: Sequence[bytes]) -> list[int]:
        """The indices of those of a block's frames of which not enough in the same words came before."""
        counts = Counter(texts)
        if len(self._seen) > _MOST_TEXTS:
            self._seen.clear()
        left = {text: _MOST_ALIKE - self._seen[text] for text in counts}
        self._seen.update(counts)
        first: list[int] = []
        for index, text in zip(indices, texts, strict=True) if any(count > 0 for count in left.values()) else ():
            if left[text] > 0:
                first.append(index)
                left[text] -= 1
        return first

    def remember(self, key: object, around: list[KeptLine]) -> None:
        """Remembers lines of the latest traceback of its kind, in place of the one before it."""
        self._latest.pop(key, None)
        self._latest[key] = around
        if len(self._latest) > _MOST_LATEST:
            self._latest.popitem(last=False)

    def latest(self) -> Iterable[KeptLine]:
        """The lines that are remembered."""
        return (line for around in self._latest.values() for line in around)


def above(frames: Sequence[int], end: int) -> list[int]:
    """The indices of those of a block's frames that are in the traceback above the line at `end`, the lowest first."""
    traceback: list[int] = []
    for frame in reversed(frames[: bisect_left(frames, end)]):
        if end - frame > _BETWEEN or len(traceback) >= _LONGEST_TRACEBACK:
            break
        traceback.append(frame)
        end = frame
    return traceback
