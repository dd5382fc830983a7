"""The lines of a block, with what depends on its bytes alone, and the lines that are kept of a log.

A line's shape is the line without its numbers. Those of base 16 (addresses, identifiers) have letters too. They are
known by what stands before them (`0x`, `request-`), which is learnt from the log: to look for them everywhere would
take longer than all else. Another process may work this out.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from logdiag.model import HEX, Block, Sealed
from logdiag.patterns import pattern_of
from logdiag.scan.kinds_of_log import KindOfLog

LONGEST_TEXT = 8192
"""So many bytes of a line are looked at."""
# So many lines from either end of a block are found faster one by one.
_NEAR = 256
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
KeptLine = tuple[int, int, bytes]
"""A line that is not read yet: its position in the stream, its number in the file, and its text."""

_Kind = TypeVar("_Kind")
_Kept = TypeVar("_Kept")


class ShapedBlock(NamedTuple):
    """A block, the shape of each line, and how often each shape comes. `before` are the words by which numbers of base
    16 were known. `hits`, and `kind` of a log's first block, are None where they were not looked for yet."""

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


def _received(block: Block, counts: dict[bytes, int], numbers: Iterable[int], *rest: Any) -> ShapedBlock:
    return ShapedBlock(block, list(map(list(counts).__getitem__, numbers)), counts, *rest)


def shaped(blocks: Generator[Block, int | None, None]) -> Iterator[ShapedBlock]:
    """Blocks of one log with the shapes of their lines."""
    block = next(blocks, None)
    before: tuple[bytes, ...] = ()
    while block is not None:
        found = _shaped(block, before)
        many = len(found.counts) > max(_MANY_SHAPES, len(found.shapes) // _SHARE)
        if many and (new := words_before_numbers(block.data, before)):
            before += new
            found = _shaped(block, before)
        yield found
        try:
            block = blocks.send(len(found.shapes))
        except StopIteration:
            return


def _shaped(block: Block, before: tuple[bytes, ...]) -> ShapedBlock:
    shapes = without_numbers(block.data, before).split(b"\n")
    if not shapes[-1] and block.data.endswith(b"\n"):
        shapes.pop()
    return ShapedBlock(block, shapes, Counter(shapes), before)


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


class BlockLines:
    """The lines of a block by index, split only when one is asked for that is not near an end. The first one stands at
    `position` in its stream."""

    def __init__(self, shaped_block: ShapedBlock, position: int = 0) -> None:
        self.shaped, self.position = shaped_block, position
        self.block, self.shapes, self.counts = shaped_block[:3]
        self.count = len(self.shapes)

    @cached_property
    def _every(self) -> list[bytes]:
        return self.block.data.split(b"\n")

    @cached_property
    def _first(self) -> list[bytes]:
        return self.block.data.split(b"\n", _NEAR)[:_NEAR]

    @cached_property
    def _last(self) -> list[bytes]:
        return self.block.data.removesuffix(b"\n").rsplit(b"\n", _NEAR)[-_NEAR:]

    def __getitem__(self, index: int) -> bytes:
        if self.block.sealed.holds(index):
            return self.block.sealed.line(index)
        if index < _NEAR:
            return self._first[index]
        behind = index - self.count
        return self._last[behind] if -_NEAR <= behind < 0 else self._every[index]

    def several(self, indices: Sequence[int], most: int | None = None) -> list[bytes]:
        """Some of the lines, of each all or at most so many bytes."""
        if self.block.sealed.places or not indices:
            return [self[index][:most] for index in indices]
        return [self._every[index][:most] for index in indices]

    def of_shapes(self, shapes: AbstractSet[bytes]) -> list[int]:
        """The indices of the lines that have one of these shapes."""
        return [] if shapes.isdisjoint(self.counts) else [at for at, shape in enumerate(self.shapes) if shape in shapes]

    def kept(self, index: int, most: int = LONGEST_TEXT) -> KeptLine:
        """A line as it is kept, with so many bytes of its text."""
        return self.position + index, self.block.number_of(index), self[index][:most]


class Tail:
    """The last lines that were read, cut out only when a window or the end of the log needs them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._blocks: list[BlockLines] = []

    def add(self, lines: BlockLines) -> None:
        """Remembers a block, and as many before it as are needed for the last lines."""
        if len(lines.block.data) > LONGEST_TEXT * lines.count:
            # A block of a few endless lines holds megabytes of which nothing more will be looked at.
            indices = range(lines.count)
            cut, numbers = b"\n".join(lines.several(indices, LONGEST_TEXT)), tuple(lines.block.numbers_of(indices))
            block = lines.block._replace(data=cut, line_numbers=numbers, sealed=Sealed())
            lines = BlockLines(ShapedBlock(block, [b""] * lines.count, {}), lines.position)
        self._blocks.append(lines)
        while sum(lines.count for lines in self._blocks[1:]) >= self.most:
            del self._blocks[0]

    def lines(self, most: int) -> list[KeptLine]:
        """The last lines, in order."""
        latest = (lines.kept(at) for lines in reversed(self._blocks) for at in range(lines.count - 1, -1, -1))
        return [*islice(latest, most)][::-1]


class Latest(OrderedDict[_Kind, _Kept]):
    """The latest of each kind, of the kinds that came latest. Of a plain dict the oldest entry is found ever more
    slowly, the more were taken out before it."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.complete = True

    def remember(self, kind: _Kind, kept: _Kept) -> None:
        """Remembers the latest of a kind, in place of the one before it."""
        self[kind] = kept
        self.move_to_end(kind)
        if len(self) > self._most:
            self.popitem(last=False)
            self.complete = False


class KeptLines:
    """The lines of one stream that are worth keeping, by position: the earliest ones, and the latest when there are
    too many."""

    def __init__(self, most: int = 12_000) -> None:
        self._most = most
        self._early: dict[int, KeptLine] = {}
        self._late = Latest[int, KeptLine](most)

    @property
    def complete(self) -> bool:
        """Whether none was dropped."""
        return self._late.complete

    def keep(self, line: KeptLine) -> None:
        """Remembers a line."""
        if len(self._early) < self._most:
            self._early[line[0]] = line
        elif line[0] not in self._early and line[0] not in self._late:
            self._late.remember(line[0], line)

    def lines(self) -> list[KeptLine]:
        """The lines in order."""
        return sorted((*self._early.values(), *self._late.values()))
