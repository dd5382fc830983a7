"""Lines that come again and again: past the first of a kind they are counted, not looked at."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter

from logdiag.model import ALL_NINES, Finding, Line
from logdiag.patterns import pattern_of
from logdiag.scan.lines import KeptLine
from logdiag.scan.looked import Patterns

# From this many hits of the same patterns on, only hits that say something new are confirmed.
_MANY_HITS = 200
_VERY_MANY_HITS = 5000
_MOST_KINDS = 20_000
_MOST_LATEST = 8
_MOST_TEXTS = 4096
# Long numbers, times and addresses; short numbers (Xid, errno, status, signal) tell failures apart and stay.
# Both begin with a digit: to search for that is many times faster than for what must not stand before it.
_LONG_NUMBER = pattern_of(rb"[0-9](?:[\d:.,-]{3,}|(?<=0)x[0-9a-f]+)")
_SHORT_NUMBER = pattern_of(rb"[0-9](?<![\w:.,-][0-9])\d{0,2}(?![\w:.,-]*\d)")

Kind = tuple[Patterns, object]
"""What the lines that one finding stands for have in common: the patterns that hit them, and their words or numbers."""


class Floods:
    """Lines that come again and again. Past the first of a kind they are only counted, and the latest is remembered.

    Two lines are of one kind when the same patterns hit them and they differ only in long numbers: an Xid, an errno
    or a status makes another kind.
    """

    def __init__(self, counts: Counter[str]) -> None:
        # How many lines of each rule were only counted.
        self._counts = counts
        self._hits: Counter[Patterns] = Counter()
        self._rules: dict[Kind, str] = {}
        self._latest: OrderedDict[Kind, KeptLine] = OrderedDict()

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
        if self._hits[patterns] <= _MANY_HITS or (kind := self._kind(patterns, text)) not in self._rules:
            return False
        self._count(kind, 1, at, latest)
        return True

    def _count(self, kind: Kind, count: int, at: int, latest: dict[Kind, int]) -> None:
        if rule := self._rules[kind]:
            self._counts[rule] += count
            latest[kind] = at

    def remember(self, kind: Kind, line: KeptLine) -> None:
        """Remembers the latest line of a kind."""
        self._latest.pop(kind, None)
        self._latest[kind] = line
        if len(self._latest) > _MOST_LATEST:
            self._latest.popitem(last=False)

    def learn(self, patterns: Patterns, text: bytes, finding: Finding | None) -> None:
        """Remembers which rule a frequent kind of line belongs to, or that none fires on it."""
        if self._hits[patterns] > _MANY_HITS and len(self._rules) < _MOST_KINDS:
            self._rules[self._kind(patterns, text)] = finding.rule if finding else ""

    def _kind(self, patterns: Patterns, text: bytes) -> Kind:
        if self._hits[patterns] <= _VERY_MANY_HITS:
            return patterns, (_LONG_NUMBER.sub(b"", text),)
        return patterns, _short_numbers_in(text)

    def latest_lines(self, line_of: Callable[[int, int, bytes], Line]) -> Iterator[tuple[Line, Patterns]]:
        """The last line of each kind that was only counted: what failed in the end may be the last of many."""
        for (patterns, _), kept in self._latest.items():
            yield line_of(*kept), patterns


def _short_numbers_in(text: bytes) -> object:
    """The short numbers of a line, as bytes or a tuple of them."""
    return _short_numbers(text.translate(ALL_NINES))(text)


@lru_cache(maxsize=_MOST_TEXTS)
def _short_numbers(nines: bytes) -> Callable[[bytes], object]:
    """For lines that differ in digits only, of which this is one with nines: what cuts their short numbers out."""
    spans = [slice(*match.span()) for match in _SHORT_NUMBER.finditer(nines)]
    return itemgetter(*spans or [slice(0)])
