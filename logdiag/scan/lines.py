"""Lines as the read holds them: those of a block by their index, the last ones of a log, and those to keep."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

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

    `count` is the number of lines, where it is known.
    """

    def __init__(self, block: Block | bytes) -> None:
        self.count = 0
        self._data = block.data if isinstance(block, Block) else block
        self._sealed = block.sealed if isinstance(block, Block) else Sealed()
        self._lines: list[bytes] | None = None
        self._first = [0]

    def __getitem__(self, index: int) -> bytes:
        if self._sealed.holds(index):
            return self._sealed.line(index)
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
        if self._sealed.places or not indices:
            return [self[index][:most] for index in indices]
        self._lines = every = self._lines or self._data.split(b"\n")
        return [every[index][:most] for index in indices]


class Tail:
    """The last lines that were read, cut out only when a window or the end of the log needs them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._blocks: list[tuple[Block, int, BlockLines]] = []

    def add(self, block: Block, position: int, lines: BlockLines) -> None:
        """Remembers a block, and as many before it as are needed for the last lines."""
        if len(block.data) > LONGEST_TEXT * lines.count:
            # A block of a few endless lines holds megabytes of which nothing more will be looked at.
            cut = b"\n".join(lines[at][:LONGEST_TEXT] for at in range(lines.count))
            numbers = tuple(block.number_of(at) for at in range(lines.count))
            block, count = block._replace(data=cut, line_numbers=numbers, sealed=Sealed()), lines.count
            lines = BlockLines(cut)
            lines.count = count
        self._blocks.append((block, position, lines))
        while sum(lines.count for _, _, lines in self._blocks[1:]) >= self.most:
            del self._blocks[0]

    def lines(self, most: int) -> list[KeptLine]:
        """(position, number, text) of the last lines, in order."""
        found: list[KeptLine] = []
        for block, position, lines in reversed(self._blocks):
            for at in range(lines.count - 1, -1, -1):
                if len(found) >= most:
                    return found[::-1]
                found.append((position + at, block.number_of(at), lines[at][:LONGEST_TEXT]))
        return found[::-1]


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
        """(position, number, text) in order."""
        return sorted((position, *line) for position, line in (self.early | self.late).items())
