"""Lines as the read holds them: those of a block by their index, the last ones of a log, and those to keep."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from logdiag.model import Block, Sealed

LONGEST_TEXT = 8192
"""So many bytes of a line are looked at."""
# So many lines from either end of a block are found faster one by one.
_NEAR = 256
# Of a block of so few bytes all lines are split at once.
_SMALL = 1 << 17

KeptLine = tuple[int, int, bytes]
"""A line that is not read yet: its position in the stream, its number in the file, and its text."""


class BlockLines:
    """The lines of a block by index. They are split only when one is asked for that is not near an end of the block.

    `position` is that of the first line in its stream, `count` how many lines there are, where it is known.
    """

    def __init__(self, block: Block, position: int = 0, count: int = 0) -> None:
        self.block, self.position, self.count = block, position, count
        self._data = block.data
        self._lines: list[bytes] | None = None
        self._first = [0]

    def __getitem__(self, index: int) -> bytes:
        if self.block.sealed.holds(index):
            return self.block.sealed.line(index)
        if self._lines is None and len(self._data) > _SMALL:
            if index < _NEAR:
                return self._from_start(index)
            if 0 < self.count - index < _NEAR:
                return self._from_end(self.count - index)
        self._lines = self._lines or self._data.split(b"\n")
        return self._lines[index]

    def _from_start(self, index: int) -> bytes:
        while len(self._first) <= index + 1:
            end = self._data.find(b"\n", self._first[-1])
            self._first.append(end + 1 if end >= 0 else len(self._data) + 1)
        return self._data[self._first[index] : self._first[index + 1] - 1]

    def _from_end(self, behind: int) -> bytes:
        end = start = len(self._data) + (not self._data.endswith(b"\n"))
        for _ in range(behind):
            end, start = start - 1, self._data.rfind(b"\n", 0, max(start - 1, 0)) + 1
        return self._data[start:end]

    def several(self, indices: Sequence[int], most: int | None = None) -> list[bytes]:
        """Some of the lines, of each all or at most so many bytes."""
        if self.block.sealed.places or not indices:
            return [self[index][:most] for index in indices]
        self._lines = every = self._lines or self._data.split(b"\n")
        return [every[index][:most] for index in indices]

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
            cut = b"\n".join(lines.several(indices, LONGEST_TEXT))
            numbers = tuple(lines.block.numbers_of(indices))
            block = lines.block._replace(data=cut, line_numbers=numbers, sealed=Sealed())
            lines = BlockLines(block, lines.position, lines.count)
        self._blocks.append(lines)
        while sum(lines.count for lines in self._blocks[1:]) >= self.most:
            del self._blocks[0]

    def lines(self, most: int) -> list[KeptLine]:
        """The last lines, in order."""
        latest = (lines.kept(at) for lines in reversed(self._blocks) for at in range(lines.count - 1, -1, -1))
        return [*islice(latest, most)][::-1]


@dataclass
class KeptLines:
    """The lines of one stream that are worth keeping, by position: the earliest ones, and the latest when there are
    too many."""

    most: int = 12_000
    early: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    # Of a plain dict the oldest entry is found ever more slowly, the more were taken out before it.
    late: OrderedDict[int, tuple[int, bytes]] = field(default_factory=OrderedDict)
    complete: bool = True

    def keep(self, position: int, number: int, text: bytes) -> None:
        """Remembers a line; `number` is its own in the file."""
        if position in self.early:
            return
        if len(self.early) < self.most:
            self.early[position] = (number, text)
            return
        self.late[position] = (number, text)
        if len(self.late) > self.most:
            self.late.popitem(last=False)
            self.complete = False

    def lines(self) -> list[KeptLine]:
        """The lines in order."""
        return sorted((position, *line) for position, line in (self.early | self.late).items())
