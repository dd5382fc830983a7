"""From bytes to blocks of whole, clean lines: envelopes opened, colours, NUL runs and carriage returns gone.

Every line still knows its own number in the file.

In a long log in an envelope nearly all records hold lines on which no rule can fire, whatever their numbers. Once one
such record was taken apart, others that differ from it in digits only hold the same line but for its digits. They are
sealed, and only opened if the line is asked for after all. All other records are taken apart one by one.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, repeat
from typing import BinaryIO

from logdiag.model import Block, CommonPrefix, Sealed
from logdiag.patterns import pattern_of
from logdiag.read.decompression import CHUNK_BYTES
from logdiag.read.envelopes import Envelope, Numbered, end_of_whole, recognise
from logdiag.read.forms import Forms
from logdiag.read.recorder_prefix import common_prefix

# A line longer than this is cut into pieces that share its number; a line must fit into memory more than once.
_LONGEST_LINE = 4 << 20
# The prefix and the colours of a log are learnt from so many of its bytes.
_LEARNT_BYTES = 1 << 18
# A pipe hands over little at a time; that much is gathered before it is scanned.
_LEAST_BYTES = 1 << 17

_COLOUR = pattern_of(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>()][0-9A-Za-z]?)")
# [36m(RayTrainWorker pid=4711)[0m   ^[[31mERROR^[[0m   \u001b[31mERROR   (a page, a pager or a record took the escape)
_PRINTED_COLOUR = pattern_of(rb"(?:\x1b|\^\[|\\u001b|\\x1b|\\033)?\[[0-9;]{1,12}m")
_DIGITS = b"0123456789"
_AS_LETTERS = bytes.maketrans(_DIGITS, b"abcdefghij")
_MOST_KNOWN, _MOST_LEVELS = 20_000, 24
_LONGEST_KNOWN = 4096
# The cursor of a journal's entry varies, and nothing that is read depends on it.
_CURSOR = pattern_of(rb'__CURSOR(?:=|" ?: ?")[^"\n]*')


def blocks_of(
    stream: int, chunks: Iterator[bytes], forms: Forms | None = None, settled: Container[bytes] = ()
) -> Generator[Block, int | None, None]:
    """The blocks of a stream, as `Stream.blocks` gives them. `forms` are the user's own with the shipped ones."""
    chunks = _gathered(chunks)
    first = next(chunks, None)
    if first is None:
        return
    written = Written(first, forms, settled)
    yield from written.blocks(stream, _whole_messages(chain([first], chunks), written.envelope))


class Written:
    """How a log is written. Its first chunk shows the `envelope` around its lines, None for none; its first block the
    pattern of its colours, and what stands before every line. What is learnt of its records is added later."""

    def __init__(self, first: bytes, forms: Forms | None, settled: Container[bytes]) -> None:
        self._forms = forms
        self._head = first[: 1 << 16].splitlines()
        self.envelope = recognise(self._head, forms)
        self._seals = Seals(self.envelope, settled) if self.envelope else None
        self._colours: re.Pattern[bytes] | None = None
        self._prefix: CommonPrefix | None = None
        self._learnt = False

    def blocks(
        self, stream: int, pieces: Iterable[tuple[bytes, bool]], offset: int = 0
    ) -> Generator[Block, int | None, None]:
        """The lines in pieces of the log as blocks, the first line numbered 1; see `blocks_of`. A piece holds whole
        messages, or with False a part of a line too long to be held."""
        if self._seals is not None:
            yield from self._unwrapped(stream, (data for data, _ in pieces), self._seals, offset)
            return
        number = 1
        for data, whole in pieces:
            block = self._clean(Block(stream, number, offset, data))
            counted = (yield block) if block.data else None
            if whole:
                regular = counted is not None and block.line_numbers is None
                number += counted if regular and counted else data.count(b"\n")
            offset += len(data)

    def _unwrapped(self, stream: int, pieces: Iterator[bytes], seals: Seals, offset: int) -> Iterator[Block]:
        """Unwrapped lines as blocks."""
        head: tuple[bytes, ...] = ()
        if not offset:
            head, pieces = tuple(self._head), chain(_parts_of(next(pieces, b""), seals.envelope), pieces)
        for found in unwrapped(pieces, seals):
            if found.lines:
                yield self._clean(found.block(stream, offset, head, seals.envelope))
                head = ()
            offset += found.size

    def _clean(self, block: Block) -> Block:
        if not self._learnt:
            # To look for colours without their escape in every block would take as long as all other cleaning.
            # The search from behind takes half as long where there are many brackets.
            colours = block.data.rfind(b"[0m", 0, _LEARNT_BYTES) >= 0
            self._colours = _PRINTED_COLOUR if colours else None
            plain = _without_colours(block.data[:_LEARNT_BYTES], self._colours)
            self._prefix = common_prefix(plain.split(b"\n"), self._forms)
            self._learnt = True
        data, numbers = _without_colours(block.data, self._colours), block.line_numbers
        if b"\x00" in data:
            data = data.replace(b"\x00", b"")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
            if b"\r" in data:
                data, numbers = _split_carriage_returns(data, block.first_line, numbers)
        return block._replace(data=data, line_numbers=numbers, prefix=self._prefix)


def written_as_it_stands(chunks: Iterator[bytes], raw: BinaryIO, settled: Container[bytes]) -> Written | None:
    """How a file is written, by its first block; None if its bytes are not those of its log, as in a compressed one."""
    first = next(chunks, b"")
    if not first or raw.read(len(first)) != first:
        return None
    written = Written(first, None, settled)
    whole = first[: end_of_whole(first, written.envelope)]
    return written if any(islice(written.blocks(0, [(whole, True)]), 1)) else None


def pieces_between(raw: BinaryIO, start: int, end: int | None, envelope: Envelope | None) -> tuple[int, list[bytes]]:
    """The offset of the first piece of a file that begins in the chunks between two offsets, and these pieces; they are
    the same as when the file is read from its start. `end` is None for the file's end.

    Raises ValueError for a chunk without the end of a message: then the file must be read from its start.
    """
    offset = max(start - CHUNK_BYTES, 0)
    raw.seek(offset)
    pieces, rest = list[bytes](), b""
    while (end is None or raw.tell() < end) and (chunk := raw.read(CHUNK_BYTES)):
        if cut := end_of_whole(chunk, envelope):
            pieces.append(rest + chunk[:cut])
            rest = chunk[cut:]
        elif end is None and len(chunk) < CHUNK_BYTES:
            rest += chunk
        else:
            raise ValueError("no message ends here")
    pieces += [rest] if rest and end is None else []
    before = pieces[:1] if start else []
    return offset + sum(map(len, before)), pieces[len(before) :]


def _parts_of(piece: bytes, envelope: Envelope) -> Iterator[bytes]:
    """The first piece of a log in smaller ones: the sooner lines are settled, the fewer records are taken apart."""
    start = 0
    while cut := end_of_whole(piece[start : start + _LEARNT_BYTES], envelope):
        yield piece[start : start + cut]
        start += cut
    if start < len(piece):
        yield piece[start:]


def _gathered(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Chunks gathered to a useful size."""
    parts, held = list[bytes](), 0
    for chunk in chunks:
        parts.append(chunk)
        held += len(chunk)
        if held >= _LEAST_BYTES:
            yield b"".join(parts)
            parts, held = [], 0
    if held:
        yield b"".join(parts)


def _whole_messages(chunks: Iterable[bytes], envelope: Envelope | None) -> Iterator[tuple[bytes, bool]]:
    """Chunks cut behind a whole message; False with a piece of a line too long to be held."""
    rest = b""
    for chunk in chunks:
        cut = end_of_whole(chunk, envelope)
        if cut:
            yield rest + chunk[:cut], True
            rest = chunk[cut:]
        else:
            rest += chunk
            if len(rest) > _LONGEST_LINE:
                cut = rest.rfind(b"\n") + 1
                yield rest[:cut] or rest, bool(cut)
                rest = rest[cut:] if cut else b""
    if rest:
        yield rest, True


def _without_colours(data: bytes, printed: re.Pattern[bytes] | None) -> bytes:
    if printed is not None:
        data = printed.sub(b"", data)
    return _COLOUR.sub(b"", data) if b"\x1b" in data else data


def _split_carriage_returns(data: bytes, number: int, numbers: tuple[int, ...] | None) -> tuple[bytes, tuple[int, ...]]:
    """Each part of a line that carriage returns wrote over becomes a line of its own, with the line's number."""
    split: list[bytes] = []
    split_numbers: list[int] = []
    for index, line in enumerate(data.removesuffix(b"\n").split(b"\n")):
        own_number = numbers[index] if numbers else number + index
        for part in line.split(b"\r"):
            if part or b"\r" not in line:
                split.append(part)
                split_numbers.append(own_number)
    return b"\n".join(split), tuple(split_numbers)


@dataclass
class Unwrapped:
    """The lines of a piece and their numbers in the file. `places` has the index of its record for each sealed line,
    and -1 for the others. `size` is that of the piece in bytes."""

    records: Sequence[bytes]
    size: int
    numbers: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    places: array[int] = field(default_factory=partial(array, "i"))

    def block(self, stream: int, offset: int, head: tuple[bytes, ...], envelope: Envelope) -> Block:
        """The lines as a block."""
        some = max(self.places) >= 0
        sealed = Sealed(self.places, self.records, envelope.between, envelope.opened) if some else Sealed()
        data = b"\n".join(self.lines)
        if b"\r" in data:  # lines will be split
            data = b"\n".join(sealed.line(at) if sealed.holds(at) else line for at, line in enumerate(self.lines))
            sealed = Sealed()
        first = self.numbers[0]
        numbers = None if self.numbers == [*range(first, first + len(self.numbers))] else tuple(self.numbers)
        return Block(stream, first, offset, data, numbers, None, head, sealed)

    def add(self, found: Sequence[Numbered]) -> None:
        """Adds lines with their numbers."""
        for number, line in found:
            self.numbers.append(number)
            self.lines.append(line)
        self.places.extend(repeat(-1, len(found)))

    def seal(self, numbers: Sequence[int], lines: Sequence[bytes], first: int) -> None:
        """Adds settled lines, one for each record from the index `first` on."""
        self.numbers.extend(numbers)
        self.lines.extend(lines)
        self.places.extend(range(first, first + len(lines)))


def unwrapped(pieces: Iterable[bytes], seals: Seals) -> Iterator[Unwrapped]:
    """The lines of each piece of a file; a piece holds whole messages. Lines that are settled without their digits may
    be sealed."""
    envelope = seals.envelope
    number = 1
    for data in pieces:
        records = _split(data, envelope)
        keys = seals.keys_of(data, records)
        numbers: Sequence[int] = range(number, number + len(records))
        if envelope.entries:
            numbers, number = _numbers_of_messages(keys, number), number + data.count(b"\n")
        else:
            number += len(records) - (not data.endswith(b"\n"))
        found, done = Unwrapped(records, len(data)), 0
        known = seals.lines_of(keys)
        for at in [at for at, line in enumerate(known) if not line]:
            if at < done:
                continue
            found.seal(numbers[done:at], known[done:at], done)
            # If the envelope seals no records, all are taken apart at once.
            done = at + 1 if envelope.alike else len(records)
            while done < len(records) and envelope.goes_on(records[done - 1]):
                done += 1
            lines = list(envelope.unwrap(zip(numbers[at:done], records[at:done], strict=True)))
            found.add(lines)
            if done - at == len(lines) == 1:
                seals.learn(keys[at], records[at], lines[0][1])
        found.seal(numbers[done:], known[done:], done)
        yield found


def _split(data: bytes, envelope: Envelope) -> list[bytes]:
    ended = data.rstrip(b"\n") if envelope.entries else data.removesuffix(b"\n")
    return ended.split(envelope.between)


def _numbers_of_messages(entries: Sequence[bytes], number: int) -> list[int]:
    """The line numbers on which the messages of a journal's entries begin; the first entry begins on line `number`."""
    numbers: list[int] = []
    lines_around: dict[bytes, tuple[int, int]] = {}
    for entry in set(entries):
        start = max(entry.find(b"\nMESSAGE="), entry.find(b"\nMESSAGE\n")) + 1
        lines_around[entry] = entry.count(b"\n", 0, start), entry.count(b"\n") + 2
    for entry in entries:
        before, height = lines_around[entry]
        numbers.append(number + before)
        number += height
    return numbers


class Seals:
    """The line that each record of a log holds, without digits, by the record without digits: a record that differs in
    digits only holds the same line but for its digits. A number that is a level becomes a word first. Lines may be
    sealed whose text without digits is in `settled`."""

    def __init__(self, envelope: Envelope, settled: Container[bytes]) -> None:
        self.envelope, self._settled = envelope, settled
        self._known: dict[bytes, bytes] = {}
        # `"level": 50,` and the word for it. To search each record for all levels takes longer than all else.
        self._levels: dict[bytes, bytes] = {}

    def keys_of(self, data: bytes, records: list[bytes]) -> list[bytes]:
        """The keys of a piece's records: each record without digits, with words for its levels."""
        if not self.envelope.alike:
            return records
        keys = _split(self._key(data), self.envelope)
        return keys if len(keys) == len(records) else [self._key(record) for record in records]

    def lines_of(self, keys: Iterable[bytes]) -> list[bytes]:
        """The settled line of each record by its key, without digits; empty where none is known."""
        return [line if line in self._settled else b"" for line in map(self._known.get, keys, repeat(b""))]

    def learn(self, key: bytes, record: bytes, line: bytes) -> None:
        """Remembers the line of a record, empty where its digits decide what it holds."""
        alike = self.envelope.alike
        if not alike or key in self._known or len(self._known) >= _MOST_KNOWN or len(record) > _LONGEST_KNOWN:
            return
        levels = self.envelope.levels.findall(record) if self.envelope.levels else []
        if len(self._levels) < _MOST_LEVELS:
            self._levels.update((level, level.translate(_AS_LETTERS)) for level in levels)
        if self._levels.keys() >= {*levels}:
            # The key was made before this level was met.
            self._known[self._key(record)] = line.translate(None, _DIGITS) if alike(record) else b""

    def _key(self, data: bytes) -> bytes:
        data = _CURSOR.sub(b"", data) if b"__CURSOR" in data else data
        for level, word in self._levels.items():
            data = data.replace(level, word)
        return data.translate(None, _DIGITS)
