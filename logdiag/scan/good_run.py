"""What a good run of a job printed, and what is new since: lines that never came in it, or come far more often now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

from logdiag.model import Change, Line
from logdiag.read.sources import Source, limits_of, open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes, words_of
from logdiag.scan.survey import surveys

# A line that comes so often, and so many times as often as in the good run, has changed.
_FEWEST, _TIMES = 5, 4.0
HASH_BYTES = 6


@dataclass(frozen=True, slots=True)
class GoodRun:
    """How often each line occurred in good runs, by a hash of its words, and how many lines there were."""

    counts: Mapping[bytes, int]
    total: int

    def knows(self, line: Line) -> bool:
        """Whether such a line occurred in it."""
        return _hash(words_of(line.message)) in self.counts


def good_run_of(baseline: Source | Sequence[Source], book: RuleBook, notes: list[str]) -> GoodRun:
    """What the logs of good runs tell; what could not be read of them is a note."""
    several = isinstance(baseline, Sequence) and not isinstance(baseline, (str, bytes, bytearray))
    logs = tuple(cast(Sequence[Source], baseline)) if several else (baseline,)
    streams = open_sources(logs, limits_of(None, None), book.forms)
    parts = surveys(streams, book, Shapes(book, ()))
    notes += [f"baseline: {note}" for stream in streams for note in stream.notes]
    shapes = {id(part.shapes): part.shapes for part in parts if part.shapes is not None}
    return good_run(shapes.values(), sum(part.total_lines for part in parts))


def good_run(shapes: Iterable[Shapes], total: int) -> GoodRun:
    """What the shapes of good runs tell, of so many lines in total."""
    counts: Counter[bytes] = Counter()
    for part in shapes:
        for line, count, _ in part.counted():
            counts[_hash(words_of(line.message))] += count
    return GoodRun(counts, total)


def changes_since(good: GoodRun, shapes: Shapes, lines: Iterable[Line], total: int) -> list[Change]:
    """The lines of a log of `total` lines that are new or come far more often, in the order of the log; of each kind
    the first one that was kept."""
    counts: Counter[bytes] = Counter()
    for sample, count, _ in shapes.counted():
        counts[words_of(sample.message)] += count
    found: dict[bytes, Change] = {}
    for line in lines:
        words = words_of(line.message)
        if not words or words in found:
            continue
        count, before = max(counts[words], 1), good.counts.get(_hash(words), 0)
        if not before:
            found[words] = Change(line.source, line.number, line.text, count)
        elif (more := _times_more(count, total, before, good.total)) is not None:
            found[words] = Change(line.source, line.number, line.text, count, more)
    return list(found.values())


def _hash(words: bytes) -> bytes:
    """What stands for words that need not be kept."""
    return blake2b(words, digest_size=HASH_BYTES).digest()


def _times_more(count: int, total: int, before: int, total_before: int) -> float | None:
    """How many times as often a line comes, of all lines and in number; None for what is no change."""
    more = min(count / before, (count / max(total, 1)) / (before / max(total_before, 1)))
    return round(more, 1) if count >= _FEWEST and more >= _TIMES else None
