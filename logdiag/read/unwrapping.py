"""Takes the lines out of an envelope, a piece of the file at a time.

Of a long log nearly all records are lines on which no rule can fire, whatever their numbers. Those are not taken apart:
once a record like them was, their words tell which line they hold, and they are sealed, to be opened when somebody asks
for that line after all. All others are taken apart one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat

from logdiag.model import Sealed
from logdiag.patterns import pattern_of
from logdiag.read.envelopes import Envelope, Numbered

_DIGITS = b"0123456789"
_AS_LETTERS = bytes.maketrans(_DIGITS, b"abcdefghij")
_MOST_KNOWN, _MOST_LEVELS = 20_000, 24
_LONGEST_KNOWN = 4096
# Where an entry of a journal stands is told by nothing that is read of it.
_CURSOR = pattern_of(rb'__CURSOR(?:=|" ?: ?")[^"\n]*')


@dataclass
class Unwrapped:
    """The lines of a piece and their numbers in the file; of those that are sealed `places` tells which of its records
    each stands in, -1 of others. `size` is that of the piece."""

    records: Sequence[bytes]
    size: int
    numbers: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    places: array[int] = field(default_factory=partial(array, "i"))

    @property
    def own_numbers(self) -> tuple[int, ...] | None:
        """The lines' numbers, None where they follow each other."""
        first, numbers = self.numbers[0], self.numbers
        return None if numbers == [*range(first, first + len(numbers))] else tuple(numbers)

    def sealed(self, envelope: Envelope) -> Sealed:
        """The sealed lines, if there are any."""
        some = max(self.places) >= 0
        return Sealed(self.places, self.records, envelope.between, envelope.opened) if some else Sealed()

    def add(self, found: Sequence[Numbered]) -> None:
        """Adds lines with their numbers."""
        for number, line in found:
            self.numbers.append(number)
            self.lines.append(line)
        self.places.extend(repeat(-1, len(found)))

    def seal(self, numbers: Sequence[int], lines: Sequence[bytes], first: int) -> None:
        """Adds settled lines, each of which stands in a record, from the `first` on."""
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
            # Where none is sealed, all are taken apart at once.
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


class Seals:
    """Which line each record of a log held, by the record without its digits: one that differs in digits only holds the
    same but for digits. A number that says how bad something is becomes a word. Lines may be sealed that are `settled`
    without their digits."""

    def __init__(self, envelope: Envelope, settled: Container[bytes]) -> None:
        self.envelope, self._settled = envelope, settled
        self._known: dict[bytes, bytes] = {}
        # `"level": 50,` and what stands for it. To look for all levels in each record takes longer than all else.
        self._levels: dict[bytes, bytes] = {}

    def keys_of(self, data: bytes, records: list[bytes]) -> list[bytes]:
        """What the records of a piece are known by."""
        if not self.envelope.alike:
            return records
        keys = _split(self._key(data), self.envelope)
        return keys if len(keys) == len(records) else [self._key(record) for record in records]

    def lines_of(self, keys: Iterable[bytes]) -> list[bytes]:
        """The settled lines that records stand for, empty where none is known."""
        return [line if line in self._settled else b"" for line in map(self._known.get, keys, repeat(b""))]

    def learn(self, key: bytes, record: bytes, line: bytes) -> None:
        """Remembers the line of a record."""
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
