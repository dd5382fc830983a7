"""Takes the lines out of an envelope, a piece of the file at a time.

In a long log nearly all records hold lines on which no rule can fire, whatever their numbers. Once one such record was
taken apart, others that differ from it in digits only hold the same line but for its digits. They are sealed, and only
opened if the line is asked for after all. All other records are taken apart one by one.
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
# The cursor of a journal's entry varies, and nothing that is read depends on it.
_CURSOR = pattern_of(rb'__CURSOR(?:=|" ?: ?")[^"\n]*')


@dataclass
class Unwrapped:
    """The lines of a piece and their numbers in the file. `places` has the index of its record for each sealed line,
    and -1 for the others. `size` is that of the piece in bytes."""

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
        """The sealed lines; an empty `Sealed` if there are none."""
        some = max(self.places) >= 0
        return Sealed(self.places, self.records, envelope.between, envelope.opened) if some else Sealed()

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
