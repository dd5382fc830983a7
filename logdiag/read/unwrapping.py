"""Takes the lines out of an envelope, a piece of the file at a time.

Of a long log nearly all records are lines on which no rule can fire, whatever their numbers. Those are not taken apart:
once a record like them was, their words tell which line they hold, and they are sealed, to be opened when somebody asks
for that line after all. All others are taken apart one by one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from logdiag.patterns import pattern_of
from logdiag.read.envelopes import Envelope, Numbered

LONGEST_LINE = 4 << 20
"""A line longer than this is cut into pieces that share its number; a line must fit into memory more than once."""

_DIGITS = b"0123456789"
_AS_LETTERS = bytes.maketrans(_DIGITS, b"abcdefghij")
_MOST_KNOWN, _MOST_LEVELS = 20_000, 24
_LONGEST_KNOWN = 4096
# Where an entry of a journal stands is told by nothing that is read of it.
_CURSOR = pattern_of(rb'__CURSOR(?:=|" ?: ?")[^"\n]*')


@dataclass
class Unwrapped:
    """The lines of a piece and their numbers in the file. `sealed` has the records of those lacking their digits,
    by index."""

    numbers: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    sealed: dict[int, bytes] = field(default_factory=dict)

    def add(self, found: Iterable[Numbered]) -> None:
        for number, line in found:
            self.numbers.append(number)
            self.lines.append(line)

    def seal(self, numbers: Sequence[int], lines: Sequence[bytes], records: Sequence[bytes]) -> None:
        """Adds settled lines and the records that they stand in."""
        start = len(self.lines)
        self.sealed.update(zip(range(start, start + len(lines)), records, strict=True))
        self.numbers.extend(numbers)
        self.lines.extend(lines)


def unwrapped(pieces: Iterable[bytes], envelope: Envelope, settled: Container[bytes]) -> Iterator[Unwrapped]:
    """The lines of each piece of a file; a message that goes on in the next piece is a line of that. Lines that are
    `settled` without their digits may be sealed."""
    seals = _Seals(envelope, settled)
    held: list[Numbered] = []
    for numbers, records, keys in _records_in(pieces, seals, envelope.entries):
        found, done = Unwrapped(), 0
        known = seals.lines_of(keys)
        for at in [at for at, line in enumerate(known) if not line or (held and not at)]:
            if at < done:
                continue
            found.seal(numbers[done:at], known[done:at], records[done:at])
            # Where none is sealed, all are taken apart at once.
            done = at + 1 if envelope.alike else len(records)
            while done < len(records) and envelope.goes_on(records[done - 1]):
                done += 1
            message = [*held, *zip(numbers[at:done], records[at:done], strict=True)]
            held = []
            if envelope.goes_on(records[done - 1]) and sum(len(record) for _, record in message) <= LONGEST_LINE:
                held = message
                break
            lines = list(envelope.unwrap(message))
            found.add(lines)
            if len(message) == len(lines) == 1:
                seals.learn(keys[at], records[at], lines[0][1])
        found.seal(numbers[done:], known[done:], records[done:])
        if found.lines:
            yield found
    found = Unwrapped()
    found.add(envelope.unwrap(held))
    if found.lines:
        yield found


def _records_in(
    pieces: Iterable[bytes], seals: _Seals, entries: bool
) -> Iterator[tuple[Sequence[int], list[bytes], list[bytes]]]:
    """The records of each piece, with the numbers of the lines that their messages begin on, and what they are known
    by."""
    number = 1
    for data in _cut_at_entries(pieces) if entries else pieces:
        records = _split(data, entries)
        keys = seals.keys_of(data, records)
        yield _numbers_of_messages(keys, number) if entries else range(number, number + len(keys)), records, keys
        number += data.count(b"\n")


def _cut_at_entries(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces that end where an entry of a journal does."""
    rest = b""
    for data in pieces:
        rest += data
        cut = rest.rfind(b"\n\n") + 2 if len(rest) <= LONGEST_LINE else len(rest)
        if cut > 1:
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def _split(data: bytes, entries: bool) -> list[bytes]:
    return data.rstrip(b"\n").split(b"\n\n") if entries else data.removesuffix(b"\n").split(b"\n")


def _numbers_of_messages(entries: Sequence[bytes], number: int) -> list[int]:
    """Which lines the messages of a journal's entries begin on, the first entry on line `number`."""
    numbers: list[int] = []
    places = {entry: _place_of_message(entry) for entry in set(entries)}
    for entry in entries:
        before, height = places[entry]
        numbers.append(number + before)
        number += height
    return numbers


def _place_of_message(entry: bytes) -> tuple[int, int]:
    """How many lines of an entry stand before its message, and how many lines are up to the next entry."""
    start = max(entry.find(b"\nMESSAGE="), entry.find(b"\nMESSAGE\n")) + 1
    return entry.count(b"\n", 0, start), entry.count(b"\n") + 2


class _Seals:
    """Which line each record held, by the record without its digits: one that differs in digits only holds the same but
    for digits. A number that says how bad something is becomes a word."""

    def __init__(self, envelope: Envelope, settled: Container[bytes]) -> None:
        self._envelope, self._settled = envelope, settled
        self._known: dict[bytes, bytes] = {}
        # `"level": 50,` and what stands for it. To look for all levels in each record takes longer than all else.
        self._levels: dict[bytes, bytes] = {}

    def keys_of(self, data: bytes, records: list[bytes]) -> list[bytes]:
        """What the records of a piece are known by."""
        if not self._envelope.alike:
            return records
        keys = _split(self._key(data), self._envelope.entries)
        return keys if len(keys) == len(records) else [self._key(record) for record in records]

    def lines_of(self, keys: Iterable[bytes]) -> list[bytes]:
        """The settled lines that records stand for, empty where none is known."""
        return [line if line in self._settled else b"" for line in map(self._known.get, keys, repeat(b""))]

    def learn(self, key: bytes, record: bytes, line: bytes) -> None:
        """Remembers the line of a record."""
        alike = self._envelope.alike
        if not alike or key in self._known or len(self._known) >= _MOST_KNOWN or len(record) > _LONGEST_KNOWN:
            return
        levels = self._envelope.levels.findall(record) if self._envelope.levels else []
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
