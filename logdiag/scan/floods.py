"""What comes again and again. Of lines, past the first of a kind, the others are counted and not looked at; of frames
of tracebacks in the same words the first and the latest are kept."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter

from logdiag.model import ALL_NINES, Finding
from logdiag.patterns import pattern_of
from logdiag.scan.lines import KeptLine, Latest, Patterns

# From this many hits of the same patterns on, only hits that say something new are confirmed; those that say again what
# no rule fired on are left out from fewer on.
_MANY_HITS, _SOME_HITS = 200, 16
_VERY_MANY_HITS = 5000
_MOST_KINDS = 20_000
_MOST_LATEST, _MOST_LATEST_FRAMES = 8, 256
_MOST_TEXTS = 4096
# Of frames in the same words, numbers included, so many are kept. The frames of ranks that print their number differ.
_MOST_ALIKE, _MOST_FRAMES = 20, 20_000
# Lines between two frames of one traceback, or between the last frame and the exception.
_BETWEEN = 3
_LONGEST_TRACEBACK = 200
# Long numbers, times and addresses; short numbers (Xid, errno, status, signal) tell failures apart and stay.
# Both begin with a digit: to search for that is many times faster than for what must not stand before it.
_LONG_NUMBER = pattern_of(rb"[0-9](?:[\d:.,-]{3,}|(?<=0)x[0-9a-f]+)")
_SHORT_NUMBER = pattern_of(rb"[0-9](?<![\w:.,-][0-9])\d{0,2}(?![\w:.,-]*\d)")

Kind = tuple[Patterns, object]
"""What the lines that one finding stands for have in common: the patterns that hit them, and their words or numbers."""


class Floods:
    """Lines that come again and again.

    Two lines are of one kind when the same patterns hit them and they differ only in long numbers: an Xid, an errno
    or a status makes another kind.
    """

    def __init__(self, counts: Counter[str]) -> None:
        # How many lines of each rule were only counted.
        self._counts = counts
        self._hits: Counter[Patterns] = Counter()
        self._rules: dict[Kind, str] = {}
        # The last line of each kind that was only counted: what failed in the end may be the last of many.
        self.latest = Latest[Kind, KeptLine](_MOST_LATEST)

    def count(
        self, patterns: Patterns, indices: list[int], texts: Sequence[bytes], latest: dict[Kind, int]
    ) -> list[int]:
        """Of a block's lines that these patterns hit, the indices of those that are to be looked at. If very many came
        before, the lines of known kinds are only counted, and the index of each kind's latest is put into `latest`."""
        if self._hits[patterns] < _VERY_MANY_HITS:
            return indices
        numbers = list(map(_short_numbers_in, texts))
        last = dict(zip(numbers, indices, strict=True))
        new = {kind for kind in last if (patterns, kind) not in self._rules}
        for kind, count in Counter(numbers).items():
            if kind not in new:
                self._hits[patterns] += count
                self._count((patterns, kind), count, last[kind], latest)
        return [at for at, kind in zip(indices, numbers, strict=True) if kind in new] if new else []

    def count_one(self, patterns: Patterns, at: int, text: bytes, latest: dict[Kind, int]) -> bool:
        """Counts one line of a known kind. Returns False for any other: it is to be looked at."""
        self._hits[patterns] += 1
        hits = self._hits[patterns]
        rule = self._rules.get(kind := self._kind(patterns, text)) if hits > _SOME_HITS else None
        if rule is None or (rule and hits <= _MANY_HITS):
            return False
        self._count(kind, 1, at, latest)
        return True

    def _count(self, kind: Kind, count: int, at: int, latest: dict[Kind, int]) -> None:
        if rule := self._rules[kind]:
            self._counts[rule] += count
            latest[kind] = at

    def learn(self, patterns: Patterns, text: bytes, finding: Finding | None) -> None:
        """Remembers which rule a frequent kind of line belongs to, or that none fires on it."""
        enough = _MANY_HITS if finding else _SOME_HITS
        if self._hits[patterns] > enough and len(self._rules) < _MOST_KINDS:
            self._rules[self._kind(patterns, text)] = finding.rule if finding else ""

    def _kind(self, patterns: Patterns, text: bytes) -> Kind:
        if self._hits[patterns] <= _VERY_MANY_HITS:
            return patterns, (_LONG_NUMBER.sub(b"", text),)
        return patterns, _short_numbers_in(text)


def _short_numbers_in(text: bytes) -> object:
    """The short numbers of a line, as bytes or a tuple of them."""
    return _short_numbers(text.translate(ALL_NINES))(text)


@lru_cache(maxsize=_MOST_TEXTS)
def _short_numbers(nines: bytes) -> Callable[[bytes], object]:
    """For lines that differ in digits only, of which this is one with nines: what cuts their short numbers out."""
    spans = [slice(*match.span()) for match in _SHORT_NUMBER.finditer(nines)]
    return itemgetter(*spans or [slice(0)])


class Frames:
    """The frames of one log, as its blocks come; `latest` has the lines around the latest of each kind."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()
        self.latest = Latest[object, list[KeptLine]](_MOST_LATEST_FRAMES)

    def first_among(self, indices: Sequence[int], texts: Sequence[bytes]) -> list[int]:
        """The indices of those of a block's frames of which not enough in the same words came before."""
        counts = Counter(texts)
        if len(self._seen) > _MOST_FRAMES:
            self._seen.clear()
        left = {text: _MOST_ALIKE - self._seen[text] for text in counts}
        self._seen.update(counts)
        first: list[int] = []
        for index, text in zip(indices, texts, strict=True) if any(count > 0 for count in left.values()) else ():
            if left[text] > 0:
                first.append(index)
                left[text] -= 1
        return first


def above(frames: Sequence[int], end: int) -> list[int]:
    """The indices of those of a block's frames that are in the traceback above the line at `end`, the lowest first."""
    traceback: list[int] = []
    for frame in reversed(frames[: bisect_left(frames, end)]):
        if end - frame > _BETWEEN or len(traceback) >= _LONGEST_TRACEBACK:
            break
        traceback.append(frame)
        end = frame
    return traceback
