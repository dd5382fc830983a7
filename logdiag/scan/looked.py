"""A block with what depends on its bytes alone: the shapes of its lines, and where a rule may fire.

A line's shape is the line without its numbers. Those of base 16 (addresses, identifiers) have letters too. They are
known by what stands before them (`0x`, `request-`), which is learnt from the log: to look for them everywhere would
take longer than all else. Another process may work all this out.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from logdiag.model import HEX, Block
from logdiag.patterns import pattern_of
from logdiag.rules.matcher import Matcher, starts_of_lines
from logdiag.scan.kinds_of_log import KindOfLog
from logdiag.scan.lines import BlockLines

# So many shapes in a block, and one in so many lines, may be lines that differ in numbers of base 16 only.
_MANY_SHAPES, _SHARE = 400, 32
DIGITS = b"0123456789"
# comm 0x55d0   request chatcmpl-1f   container=1f   "trace": "1f
_BEFORE = pattern_of(rb"(\b0x|[A-Za-z]+[^\w\\\n]{1,4})(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{6,}\b")
_LEARNT_BYTES, _OFTEN, _MOST = 1 << 14, 8, 12

Patterns = tuple[int, ...]
"""Numbers of patterns that are scanned for."""
Hits = list[tuple[int, Patterns]]
"""The index of each line of a block on which a rule may fire, and the patterns that were found there."""


class Looked(NamedTuple):
    """A block, the shape of each line, and how often each shape comes. `before` are the words by which numbers of base
    16 were known when the shapes were made. `hits`, and `kind` of a log's first block, are None where they were not
    looked for yet."""

    block: Block
    shapes: list[bytes]
    counts: Mapping[bytes, int]
    before: tuple[bytes, ...] = ()
    hits: Hits | None = None
    kind: KindOfLog | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """For another process: each shape once, and of each line its number."""
        number_of = {shape: at for at, shape in enumerate(self.counts)}
        shapes = array("I", map(number_of.__getitem__, self.shapes))
        return _received, (self.block, dict(self.counts), shapes, self.before, self.hits, self.kind)

    def found(self, lines: BlockLines, matcher: Matcher, settled: set[bytes]) -> Hits:
        """The hits on lines whose shapes are not in `settled`, on which no rule can fire."""
        if settled.issuperset(self.counts):
            return []
        none_settled = settled.isdisjoint(self.counts)
        if self.hits is not None:
            return self.hits if none_settled else [hit for hit in self.hits if self.shapes[hit[0]] not in settled]
        if none_settled:
            return matcher.on_lines(self.block.data, starts_of_lines(self.block.data))
        asked = [index for index, shape in enumerate(self.shapes) if shape not in settled]
        data = b"\n".join(lines.several(asked))
        return [(asked[at], patterns) for at, patterns in matcher.on_lines(data, starts_of_lines(data))]


def _received(block: Block, counts: dict[bytes, int], numbers: Iterable[int], *rest: Any) -> Looked:
    return Looked(block, list(map(list(counts).__getitem__, numbers)), counts, *rest)


def looked_through(blocks: Generator[Block, int | None, None]) -> Iterator[Looked]:
    """Blocks of one log with the shapes of their lines."""
    block = next(blocks, None)
    before: tuple[bytes, ...] = ()
    while block is not None:
        looked = _looked(block, before)
        many = len(looked.counts) > max(_MANY_SHAPES, len(looked.shapes) // _SHARE)
        if many and (new := words_before_numbers(block.data, before)):
            before += new
            looked = _looked(block, before)
        yield looked
        try:
            block = blocks.send(len(looked.shapes))
        except StopIteration:
            return


def _looked(block: Block, before: tuple[bytes, ...]) -> Looked:
    shapes = without_numbers(block.data, before).split(b"\n")
    if not shapes[-1] and block.data.endswith(b"\n"):
        shapes.pop()
    return Looked(block, shapes, Counter(shapes), before)


def without_numbers(data: bytes, before: tuple[bytes, ...]) -> bytes:
    """Lines without digits, and with `HEX` for the numbers of base 16 that stand behind one of these words."""
    for word in before:
        if word in data:
            # A pattern that does not begin with its word is found many times slower.
            number = rb"(?<!\w0x)[0-9a-f]+\b" if word == b"0x" else rb"[0-9a-f]{6,}(?:-[0-9a-f]+)*\b"
            data = re.sub(re.escape(word) + number, word + HEX, data)
    return data.translate(None, DIGITS)


def words_before_numbers(data: bytes, known: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The words behind which numbers of base 16 often stand in the middle of a block, beside those that are known."""
    start = max(len(data) - _LEARNT_BYTES, 0) // 2
    found = Counter(_BEFORE.findall(data, start, start + _LEARNT_BYTES)).most_common(_MOST)
    new = [word for word, count in found if count >= _OFTEN and word not in known]
    return tuple(new[: _MOST - len(known)])
