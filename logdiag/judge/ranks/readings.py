"""Which process a line is of or names, without knowing its words: every word that may tell is weighed.

A word tells a process by the directory (`Sx-4757`, `spinner 13`), by its host and a number there (`qs-r2n07#3`), or
only by its form: a word and a number that come again and again, change from line to line and leave none out, as
steps and sizes do not. What each sign is worth was learnt on labelled logs (`weights.json`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from logdiag.judge.ranks.directory import Directory, Named, directory_of
from logdiag.judge.ranks.vocabulary import COUNTERS, DEVICES, HOST_WORDS, PROCESSES, SOURCES
from logdiag.judge.ranks.weights import score
from logdiag.judge.ranks.words import TIGHT, Row, counted, joined, members, singular

Slot = tuple[str | int, ...]
"""Where numbers stand: behind a stem (c in c21), behind a word (spinner 13), or in a column of the line."""
_STEM, _WORD, _COLUMN = "stem", "word", "column"
_COLUMNS, _MOST_WORDS, _FAR = 4, 40, 6
_OPENED = frozenset("[{(<#")
_FEW, _BIG, _AFTER_MEAN = 4, 1000, 1.5
_COVERING, _HALF = 1.5, 0.5
# A longer word with a number is a name of its own.
_LONGEST_SEAT = 4
_COLUMN_OF_SPEAKER = 6


class Reading(NamedTuple):
    """A process that a word of a line may name: its rank, what speaks for it, by which means it was read, the slot of
    its number if no listing tells it, and the word's place."""

    rank: int
    features: dict[str, float]
    means: str
    slot: Slot | None
    place: int


@dataclass(slots=True)
class Book:
    """The rows of a job's logs, its directory, and the numbers of each slot: the row, the number, the word's place."""

    rows: Sequence[Row]
    directory: Directory
    _slots: dict[Slot, list[tuple[int, int, int]]] = field(default_factory=dict)
    _forms: dict[Slot, dict[str, float]] = field(default_factory=dict)
    _of_row: dict[int, list[tuple[int, Slot, int]]] = field(default_factory=dict)
    _speakers: Mapping[int, tuple[int, int]] | None = None
    _voices: frozenset[tuple[str, ...]] | None = None

    @property
    def slots(self) -> Mapping[Slot, Sequence[tuple[int, int, int]]]:
        """All numbers by their slot, one a line."""
        if not self._slots:
            found: dict[Slot, list[tuple[int, int, int]]] = defaultdict(list)
            for row in self.rows:
                for place, slot, number in self.slots_of(row):
                    if slot not in found or found[slot][-1][0] != row.at:
                        found[slot].append((row.at, number, place))
            self._slots = found
        return self._slots

    def slots_of(self, row: Row) -> Sequence[tuple[int, Slot, int]]:
        """The numbers of a line: the word's place, the slot, the number."""
        if row.at not in self._of_row:
            self._of_row[row.at] = list(_slots_of(row))
        return self._of_row[row.at]

    @property
    def speakers(self) -> Mapping[int, tuple[int, int]]:
        """By line, the rank that printed it and the place of the word that tells it."""
        if self._speakers is None:
            self._speakers = _speakers(self)
        return self._speakers

    def voice_of(self, row: Row) -> int:
        """The place of the word that should tell who printed a line, by others of its form; -1 where none does."""
        if self._voices is None:
            self._voices = _voices(self)
        places = range(min(_COLUMN_OF_SPEAKER, len(row.words)))
        return next((place for place in places if row.shape[: place + 1] in self._voices), -1)

    def form_of(self, slot: Slot) -> dict[str, float]:
        """What the numbers of a slot are like."""
        if slot not in self._forms:
            self._forms[slot] = _form(slot, self.slots[slot], len(self.rows), self.directory)
        return dict(self._forms[slot])


def book_of(rows: Sequence[Row], opening: Sequence[Row]) -> Book:
    """The rows and what they list; `opening` are those in which listings are looked for."""
    return Book(rows, directory_of(rows, opening))


def _slots_of(row: Row) -> Iterator[tuple[int, Slot, int]]:
    """The numbers of a line, with the slots that they are in."""
    before = ""
    for place, word in enumerate(row.words[:_MOST_WORDS]):
        stem, number = counted(word)
        if number < 0:
            before = row.lower[place] if word.replace("_", "").isalpha() else ""
            continue
        if before in SOURCES and row.signs[place].startswith(":"):
            continue
        if stem or before:
            yield place, (_STEM, stem) if stem else (_WORD, before), number
        if place < _COLUMNS:
            after = row.signs[place + 1][:1] if place + 1 < len(row.words) else "$"
            yield place, (_COLUMN, stem, place, row.signs[place][-1:], after), number
        before = stem


def _form(slot: Slot, seen: Sequence[tuple[int, int, int]], lines: int, directory: Directory) -> dict[str, float]:
    numbers = [number for _, number, _ in seen]
    low, high, distinct = min(numbers), max(numbers), len(set(numbers))
    moves = [after - before for before, after in pairwise(numbers) if after != before]
    word = singular(str(slot[1]))
    falling = sum(move < 0 for move in moves) / max(1, len(moves))
    return {
        "distinct": min(math.log2(distinct), _FAR) / _FAR,
        "filled": distinct / (high - low + 1),
        "from 0": low == 0,
        "from 1": low == 1,
        "covers": min(1.0, _COVERING * len(numbers) / lines),
        "changes": len(moves) / max(1, len(numbers) - 1),
        "falls": min(_HALF, falling),
        "only rises": bool(moves) and not falling,
        "again": min(math.log2(len(numbers) / distinct), _FAR) / _FAR,
        "few": len(numbers) < _FEW,
        "called a process": word in PROCESSES,
        "called a device": word in DEVICES,
        "called a counter": word in COUNTERS,
        "stated": distinct > 1 and high + (low == 0) in directory.stated,
        "big": high >= _BIG,
        "of all": slot[0] == _COLUMN and slot[-1] == "/",
        "late in lines": min(_FAR, _mean_place(seen)) / _FAR,
        "stem": slot[0] == _STEM,
        "column": slot[0] == _COLUMN,
        "short for listed": slot[0] == _STEM and _is_short(word, directory),
        "host's stem": slot[0] != _COLUMN and any(counted(host)[0] == slot[1] for host in directory.on),
        **_beside_listing(word, set(numbers), directory),
    }


def _is_short(stem: str, directory: Directory) -> bool:
    """Whether a stem is what the log lists, cut short: sh12 is a shuttle, C19 a cell."""
    return any(noun.startswith(stem) and noun != stem for noun in directory.nouns)


def _mean_place(seen: Sequence[tuple[int, int, int]]) -> float:
    return sum(place for _, _, place in seen) / len(seen)


def _beside_listing(word: str, numbers: set[int], directory: Directory) -> Mapping[str, float]:
    """How the numbers of a slot go with the listing of the processes."""
    listing = directory.listing
    if listing is None:
        return {}
    listed = set(listing.numbers)
    return {
        "listing": 1,
        "only listed": numbers <= listed,
        "share of listed": len(numbers & listed) / listing.size,
        "up to last listed": max(numbers) == max(listed),
        "called otherwise": bool(word) and bool(listing.noun) and word != listing.noun,
        "trust": directory.trust / 5,
        "another column": any(word == singular(noun) for noun in listing.nouns if noun),
    }


def readings_of(row: Row, book: Book, *, waited: bool = False, machine: bool = False) -> list[Reading]:
    """All readings of a line. `waited` says that its process waited for others, `machine` that it tells of a
    machine's end."""
    directory = book.directory
    hosts = [(place, word) for place, word in enumerate(row.lower[:_MOST_WORDS]) if word in directory.on]
    if not hosts and (node := (row.line.node or "").lower()) in directory.on:
        hosts = [(-1, node)]
    there = {rank for _, host in hosts for rank in directory.on[host]} if directory.several_hosts else set()
    listed = list(_listed(row, directory, there, [host for _, host in hosts]))
    taken = {reading.place for reading in listed}
    found = [
        *listed,
        *_by_form(row, book, taken, there),
        *_by_host(row, directory, hosts, taken, machine=machine),
    ]
    several, voice = len({reading.rank for reading in listed}), book.voice_of(row)
    for reading in found:
        features = reading.features
        if voice >= 0 and reading.means in {"listed", "form"}:
            features[f"speaks, {reading.means}" if reading.place == voice else f"another speaks, {reading.means}"] = 1
        if reading.means == "listed":
            features["one of many"] = several > 2
        elif several:
            features["beside a listed one"] = features[f"beside a listed one, {reading.means}"] = 1
        if waited:
            features[f"waited, {reading.means}"] = 1
            if reading.means in {"listed", "form"}:
                features["waited, place"] = min(reading.place, _FAR) / _FAR
                features["waited, second"] = features.get("second", 0)
                features["waited, covers"] = features.get("covers", 0)
                features["waited, after mean"] = features.get("after mean", 0)
    return found


def _listed(row: Row, directory: Directory, there: set[int], hosts: Sequence[str]) -> Iterator[Reading]:
    """What the directory names."""
    order: list[int] = []
    for place, word in enumerate(row.words):
        named, how = _look_up(row, place, directory, hosts)
        if named is None:
            continue
        if named.rank not in order:
            order.append(named.rank)
        at = order.index(named.rank)
        noun = how == "noun"
        features: dict[str, float] = {
            "listed": 1,
            "trust of listed": max(-1.0, min(named.sure, 5.0)) / 5,
            "heard": named.heard,
            "a host": named.is_host,
            "place of listed": min(place, _FAR) / _FAR,
            "second": at == 1,
            "further": at > 1,
            "begins": place == 0,
            "long number": how == "name" and word.isdecimal(),
            "number": noun and word.isdecimal(),
            "by noun": noun,
            "range": how == "range",
            "named on its host": how == "host",
        }
        if there and not named.is_host:
            features["on its host"] = named.rank in there
            features["not on its host"] = named.rank not in there
        yield Reading(named.rank, features, "listed", None, place)


def _look_up(row: Row, place: int, directory: Directory, hosts: Sequence[str]) -> tuple[Named | None, str]:
    """The process that a word names, and how: by itself, or by its beginning (`dev2-read`, `cell-2-fwd`)."""
    word, before = row.words[place], row.lower[place - 1] if place else ""
    # hod-2/3: what stands there is no noun.
    before = before if before not in directory.on else ""
    if (named := directory.names.get(joined(row, place))) is not None:
        return named, "name"
    beginning = word.rpartition("-")[0]
    for part in (word, beginning) if beginning[-1:].isdecimal() else (word,):
        found = _named_by(part, before, directory, hosts)
        if found[0] is not None:
            return found
    if not word.isalnum() and (several := members(word)):
        stem, number = counted(several[0])
        return directory.numbered.get((singular(stem or before), number)), "range"
    return None, ""


def _named_by(word: str, before: str, directory: Directory, hosts: Sequence[str]) -> tuple[Named | None, str]:
    """The process that a word names behind another, on one of the hosts that its line names or alone, and how."""
    stem, number = counted(word)
    noun = singular(stem or before)
    # Each host has a dev2: what names one on the line's host says more than a name alone.
    on_host = word.lower() if number < 0 or len(word) > _LONGEST_SEAT else f"{noun} {number}"
    for host in hosts:
        if (named := directory.on_hosts.get((host, on_host))) is not None:
            return named, "host"
    if (named := directory.names.get(word.lower())) is not None:
        return named, "name"
    return (directory.numbered.get((noun, number)), "noun") if number >= 0 and noun else (None, "")


def _by_form(row: Row, book: Book, taken: set[int], there: set[int]) -> Iterator[Reading]:
    """Numbers that no listing names; each by its best slot."""
    directory = book.directory
    for place, slot, number in book.slots_of(row):
        if place in taken or (directory.several_hosts and row.lower[place] in directory.on):
            continue
        taken = taken | {place}
        if slot[0] == _STEM and str(slot[1]).rpartition("-")[2] in HOST_WORDS:
            continue  # gpu-node-3 is the third of the hosts.
        features = book.form_of(slot)
        mean = features["late in lines"] * _FAR
        features |= {
            "form": 1,
            "place": min(place, _FAR) / _FAR,
            "begins line": place == 0,
            "after mean": place > mean + _AFTER_MEAN,
            "in brackets": row.signs[place][-1:] in _OPENED,
            "behind a host": directory.several_hosts and place > 0 and row.lower[place - 1] in directory.on,
        }
        if there:
            features |= {"number of its host": number in there, "not of its host": number not in there}
        yield Reading(number, features, "form", slot, place)


def _by_host(
    row: Row, directory: Directory, hosts: Sequence[tuple[int, str]], taken: set[int], *, machine: bool
) -> Iterator[Reading]:
    """The only process of a host that the line names; of several the first, as a machine's end is told; or that with a
    number of the line, counted there."""
    common: dict[str, float] = {
        "by host": 1,
        "trust of hosts": max(-2.0, min(directory.sure, 5.0)) / 5,
        "hosts in order": directory.in_order,
        "one host named": len({host for _, host in hosts}) == 1,
    }
    for at, host in hosts[:2]:
        ranks = directory.on[host]
        if len(ranks) == 1 and directory.complete:
            alone: dict[str, float] = {"alone": 1, "alone, several": directory.several_hosts, "alone, machine": machine}
            yield Reading(ranks[0], {**common, **alone, "alone, early": at < 2}, "alone", None, at)
        elif len(ranks) > 1 and directory.several_hosts:
            first: dict[str, float] = {"first there": 1, "first, machine": machine, "first, begins": at < 1}
            yield Reading(ranks[0], common | first, "first", None, at)
            for place, word in enumerate(row.words[:_MOST_WORDS]):
                number = counted(word)[1]
                free = place not in taken and row.lower[place] not in directory.on
                if free and 0 <= number < len(ranks):
                    yield Reading(ranks[number], common | _seat(row, at, place, directory), "seat", None, place)


def _seat(row: Row, at: int, place: int, directory: Directory) -> dict[str, float]:
    stem = counted(row.words[place])[0] or (row.lower[place - 1] if place else "")
    next_to = place == at + 1
    return {
        "seat": 1,
        "next to host": next_to,
        "joined to host": next_to and row.signs[place] in TIGHT,
        "seat called a device": singular(stem) in DEVICES,
        "seat called a process": stem in PROCESSES,
        "seat called a counter": stem in COUNTERS,
        "seat's column": directory.listing is not None and stem in filter(None, directory.listing.nouns),
        "seat's place": min(place, _FAR) / _FAR,
    }


def told_by(readings: Sequence[Reading]) -> dict[int, tuple[float, Reading]]:
    """The best reading of each rank, with its log-odds."""
    best: dict[int, tuple[float, Reading]] = {}
    for reading in readings:
        odds = score("word", reading.features)
        if reading.rank not in best or odds > best[reading.rank][0]:
            best[reading.rank] = odds, reading
    return best


def _speakers(book: Book) -> dict[int, tuple[int, int]]:
    """The rank that printed each line, and the place of the word that tells it: those that the log lists, else the
    numbers of the one slot that looks most like who prints."""
    odds = {slot: score("word", {**book.form_of(slot), "form": 1}) for slot, seen in book.slots.items() if _often(seen)}
    best = max(odds, key=odds.__getitem__, default=None)
    told = best if best is not None and odds[best] > 0 else None
    found: dict[int, tuple[int, int]] = {}
    for row in book.rows:
        places = range(min(_COLUMN_OF_SPEAKER, len(row.words)))
        listed = ((book.directory.named(row, at), at) for at in places)
        named = [(named.rank, at) for named, at in listed if named and named.heard and not named.is_host]
        named += [(number, at) for at, slot, number in book.slots_of(row) if slot == told]
        if named:
            found[row.at] = named[0]
    return found


def _voices(book: Book) -> frozenset[tuple[str, ...]]:
    """The signs of lines up to the word that tells who printed them, where several do."""
    ranks: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for at, (rank, place) in book.speakers.items():
        if place < _COLUMN_OF_SPEAKER:
            ranks[book.rows[at].shape[: place + 1]].append(rank)
    return frozenset(signs for signs, told in ranks.items() if len(told) >= _FEW and len(set(told)) > 1)


def _often(seen: Sequence[tuple[int, int, int]]) -> bool:
    """Whether several numbers come again and again in a slot."""
    return 1 < len({number for _, number, _ in seen}) < len(seen)
