"""Finds which process printed a line, or which one the line names, in software that no rule knows.

A word names a process if the directory lists it (`Sx-4757`, `spinner 13`), or by its host and a number on that host
(`qs-r2n07#3`), or by its form alone: numbers of ranks repeat, change from line to line and leave none out; numbers
of steps and sizes do not. The weight of each sign was learnt on labelled logs (`weights.json`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from logdiag.judge.ranks.directory import Directory, directory_of
from logdiag.judge.ranks.vocabulary import COUNTERS, DEVICES, HOST_WORDS, PROCESSES, SOURCES, STEPS
from logdiag.judge.ranks.weights import score
from logdiag.judge.ranks.words import Row, counted, singular

Slot = tuple[str | int, ...]
"""Where a number stands: after a stem (c in c21), after a word (spinner 13), or in a column of the line."""
_STEM, _WORD, _COLUMN = "stem", "word", "column"
_COLUMNS, _MOST_WORDS, _FAR = 4, 40, 6
_OPENED = frozenset("[{(<#")
_FEW, _BIG, _AFTER_MEAN = 4, 1000, 1.5
_COVERING = 1.5
_COLUMN_OF_SPEAKER = 6
# So many words may stand between `DataLoader` and the number of its worker.
_BETWEEN = 3


class Reading(NamedTuple):
    """A rank that a word of a line may name, with the features of that guess.

    `means` says how it was read: listed, form, alone, first or seat. `word_index` is the word's index in the line, -1
    for the node in the line's prefix.
    """

    rank: int
    features: dict[str, float]
    means: str
    word_index: int


@dataclass(frozen=True)
class Book:
    """The rows of a job's logs, its directory, and, each made when first asked for, what follows from both."""

    rows: Sequence[Row]
    directory: Directory
    _slot_features: dict[Slot, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def numbers(self) -> Sequence[Sequence[tuple[int, Slot, int]]]:
        """By index of the row, its numbers: index of the word, slot, number."""
        return [list(_numbers_of(row)) for row in self.rows]

    @cached_property
    def slots(self) -> Mapping[Slot, Sequence[tuple[int, int]]]:
        """The numbers of each slot, one a line, each with the index of its word."""
        found: dict[Slot, dict[int, tuple[int, int]]] = defaultdict(dict)
        for row_index, numbers in enumerate(self.numbers):
            for index, slot, number in numbers:
                found[slot].setdefault(row_index, (number, index))
        return {slot: list(of_lines.values()) for slot, of_lines in found.items()}

    @cached_property
    def speakers(self) -> Mapping[int, tuple[int, int]]:
        """By index of the row, the rank that printed it and the index of the word that names that rank. A listed name
        comes first, then a number in the slot that looks most like the rank of the printing process."""
        odds = {slot: score("word", self.slot_features(slot)) for slot, seen in self.slots.items() if _repeats(seen)}
        best = max(odds, key=odds.__getitem__, default=None)
        slot_of_ranks = best if best is not None and odds[best] > 0 else None
        speakers: dict[int, tuple[int, int]] = {}
        for row in self.rows:
            indices = range(min(_COLUMN_OF_SPEAKER, len(row.words)) if self.directory.names else 0)
            looked_up = ((*self.directory.look_up(row, index), index) for index in indices)
            listed = [(named, index) for named, means, index in looked_up if named is not None and means == "name"]
            named = [(named.rank, index) for named, index in listed if named.heard and not named.is_host]
            named += [(number, index) for index, slot, number in self.numbers[row.at] if slot == slot_of_ranks]
            if named:
                speakers[row.at] = named[0]
        return speakers

    @cached_property
    def _shapes_of_speakers(self) -> frozenset[tuple[str, ...]]:
        """The shapes of line heads, up to the word that names the printing rank, that lines of several ranks have."""
        ranks: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for row_index, (rank, index) in self.speakers.items():
            if index < _COLUMN_OF_SPEAKER:
                ranks[self.rows[row_index].shape[: index + 1]].append(rank)
        return frozenset(shape for shape, named in ranks.items() if len(named) >= _FEW and len(set(named)) > 1)

    def speaker_index(self, row: Row) -> int:
        """The index of the word that should name the rank that printed a line, as in lines of its form; -1 for none."""
        indices = range(min(_COLUMN_OF_SPEAKER, len(row.words)))
        return next((index for index in indices if row.shape[: index + 1] in self._shapes_of_speakers), -1)

    def slot_features(self, slot: Slot) -> Mapping[str, float]:
        """The features of a number in a slot: what the numbers there are like."""
        if slot not in self._slot_features:
            self._slot_features[slot] = _features_of_slot(slot, self.slots[slot], len(self.rows), self.directory)
        return self._slot_features[slot]


def book_of(rows: Sequence[Row], opening: Sequence[Row]) -> Book:
    """The book of a job; `opening` are the rows in which listings are looked for."""
    return Book(rows, directory_of(rows, opening))


def _repeats(seen: Sequence[tuple[int, int]]) -> bool:
    """Whether a slot has several different numbers, and some of them more than once."""
    return 1 < len({number for number, _ in seen}) < len(seen)


def _numbers_of(row: Row) -> Iterator[tuple[int, Slot, int]]:
    """The numbers of a line: index of the word, slot, number. A number may be in two slots."""
    before = ""
    for index, word in enumerate(row.words[:_MOST_WORDS]):
        stem, number = counted(word)
        if number < 0:
            before = row.lower[index] if word.replace("_", "").isalpha() else ""
            continue
        of_a_bar = row.signs[index].rstrip().endswith("|") and row.signs[index + 1 : index + 2] == ["/"]
        if of_a_bar or (before in SOURCES and row.signs[index].startswith(":")):
            continue  #  1%|#  | 164/11206 [8:26:46   loader.py:41
        if stem or before:
            yield index, (_STEM, stem) if stem else (_WORD, before), number
        if index < _COLUMNS:
            after = row.signs[index + 1][:1] if index + 1 < len(row.words) else "$"
            yield index, (_COLUMN, stem, index, row.signs[index][-1:], after), number
        before = stem


def _features_of_slot(
    slot: Slot, seen: Sequence[tuple[int, int]], lines: int, directory: Directory
) -> Mapping[str, float]:
    numbers, indices = zip(*seen, strict=True)
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
        "only rises": bool(moves) and not falling,
        "again": min(math.log2(len(numbers) / distinct), _FAR) / _FAR,
        "few": len(numbers) < _FEW,
        "called a process": word in PROCESSES,
        "called a device": word in DEVICES,
        "called a counter": word in COUNTERS,
        "stated": distinct > 1 and high + (low == 0) in directory.stated,
        "big": high >= _BIG,
        "of all": slot[-1] == "/",
        "late in lines": min(_FAR, sum(indices) / len(indices)) / _FAR,
        "stem": slot[0] == _STEM,
        "column": slot[0] == _COLUMN,
        "host's stem": slot[0] != _COLUMN and any(counted(host)[0] == slot[1] for host in directory.ranks_on_host),
        **_beside_listing(word, set(numbers), directory),
        "form": 1,
    }


def _beside_listing(word: str, numbers: set[int], directory: Directory) -> Mapping[str, float]:
    """The features of a slot beside the listing of the processes; empty without a listing."""
    listing = directory.listing
    if listing is None:
        return {}
    listed = set(listing.numbers)
    return {
        "listing": 1,
        "only listed": numbers <= listed,
        "up to last listed": max(numbers) == max(listed),
        "share of listed": len(numbers & listed) / listing.size,
        "trust": directory.trust / 5,
        "another column": any(word == singular(noun) for noun in listing.nouns if noun),
    }


def readings_of(row: Row, book: Book, *, waited: bool = False, machine: bool = False) -> list[Reading]:
    """All ranks that a line may name. `waited` says that its process waited for others, `machine` that the line reports
    the end of a machine."""
    directory = book.directory
    hosts = [(index, word) for index, word in enumerate(row.lower[:_MOST_WORDS]) if word in directory.ranks_on_host]
    if not hosts and (node := (row.line.node or "").lower()) in directory.ranks_on_host:
        hosts = [(-1, node)]
    ranks_on, several = directory.ranks_on_host, directory.several_hosts
    on_hosts = {rank for _, host in hosts for rank in ranks_on[host]} if several else set()
    listed = list(_listed_readings(row, directory, on_hosts, [host for _, host in hosts]))
    taken = {reading.word_index for reading in listed}
    readings = [
        *listed,
        *_readings_by_form(row, book, taken, on_hosts),
        *_readings_by_host(row, directory, hosts, taken, machine=machine),
    ]
    ranks_listed, speaker_index = len({reading.rank for reading in listed}), book.speaker_index(row)
    for reading in readings:
        features = reading.features
        if speaker_index >= 0 and reading.means in {"listed", "form"}:
            speaks = "speaks" if reading.word_index == speaker_index else "another speaks"
            features[f"{speaks}, {reading.means}"] = 1
        if reading.means == "listed":
            features["one of many"] = ranks_listed > 2
        elif ranks_listed:
            features["beside a listed one"] = features[f"beside a listed one, {reading.means}"] = 1
        if waited:
            features[f"waited, {reading.means}"] = 1
            if reading.means in {"listed", "form"}:
                features["waited, place"] = min(reading.word_index, _FAR) / _FAR
                features["waited, second"] = features.get("second", 0)
                features["waited, covers"] = features.get("covers", 0)
                features["waited, after mean"] = features.get("after mean", 0)
    return readings


def _listed_readings(row: Row, directory: Directory, on_hosts: set[int], hosts: Sequence[str]) -> Iterator[Reading]:
    """The words of a line that the directory lists."""
    order: list[int] = []
    for index, word in enumerate(row.words):
        named, means = directory.look_up(row, index, hosts)
        if named is None:
            continue
        if named.rank not in order:
            order.append(named.rank)
        order_of_rank = order.index(named.rank)
        noun = means == "noun"
        features: dict[str, float] = {
            "listed": 1,
            "trust of listed": max(-1.0, min(named.sure, 5.0)) / 5,
            "heard": named.heard,
            "a host": named.is_host,
            "place of listed": min(index, _FAR) / _FAR,
            "second": order_of_rank == 1,
            "further": order_of_rank > 1,
            "begins": index == 0,
            "long number": means == "name" and word.isdecimal(),
            "number": noun and word.isdecimal(),
            "by noun": noun,
            "range": means == "range",
            "named on its host": means == "host",
        }
        if on_hosts and not named.is_host:
            features["on its host"] = named.rank in on_hosts
            features["not on its host"] = named.rank not in on_hosts
        yield Reading(named.rank, features, "listed", index)


def _readings_by_form(row: Row, book: Book, taken: set[int], on_hosts: set[int]) -> Iterator[Reading]:
    """The numbers of a line that no listing names, each in the first of its slots."""
    directory = book.directory
    for index, slot, number in book.numbers[row.at]:
        if index in taken or (directory.several_hosts and row.lower[index] in directory.ranks_on_host):
            continue
        taken = taken | {index}
        if slot[0] == _STEM and str(slot[1]).rpartition("-")[2] in HOST_WORDS:
            continue  # gpu-node-3 is the third of the hosts.
        if index and row.lower[index - 1] in STEPS:
            continue  # step 8/100 is of every process.
        if "dataloader" in row.lower[max(0, index - _BETWEEN) : index]:
            continue  # KeyError: Caught KeyError in DataLoader worker process 0.
        of_slot = book.slot_features(slot)
        mean_index = of_slot["late in lines"] * _FAR
        features = {
            **of_slot,
            "place": min(index, _FAR) / _FAR,
            "begins line": index == 0,
            "after mean": index > mean_index + _AFTER_MEAN,
            "in brackets": row.signs[index][-1:] in _OPENED,
        }
        if on_hosts:
            features |= {"number of its host": number in on_hosts, "not of its host": number not in on_hosts}
        yield Reading(number, features, "form", index)


def _readings_by_host(
    row: Row, directory: Directory, hosts: Sequence[tuple[int, str]], taken: set[int], *, machine: bool
) -> Iterator[Reading]:
    """The processes of the first two hosts that a line names: the only one; or the first of several, and each whose
    number on its host stands in the line."""
    common: dict[str, float] = {
        "by host": 1,
        "trust of hosts": max(-2.0, min(directory.sure, 5.0)) / 5,
        "hosts in order": directory.in_order,
    }
    for host_index, host in hosts[:2]:
        ranks = directory.ranks_on_host[host]
        if len(ranks) == 1 and directory.complete:
            yield Reading(ranks[0], {**common, "alone": 1}, "alone", host_index)
        elif len(ranks) > 1 and directory.several_hosts:
            first: dict[str, float] = {"first there": 1, "first, machine": machine, "first, begins": host_index < 1}
            yield Reading(ranks[0], common | first, "first", host_index)
            for index, word in enumerate(row.words[:_MOST_WORDS]):
                number = counted(word)[1]
                unread = index not in taken and row.lower[index] not in directory.ranks_on_host
                if unread and 0 <= number < len(ranks):
                    yield Reading(ranks[number], common | _seat_features(row, index), "seat", index)


def _seat_features(row: Row, index: int) -> dict[str, float]:
    stem = counted(row.words[index])[0] or (row.lower[index - 1] if index else "")
    return {
        "seat": 1,
        "seat called a device": singular(stem) in DEVICES,
        "seat called a process": stem in PROCESSES,
        "seat's place": min(index, _FAR) / _FAR,
    }


def best_reading_by_rank(readings: Sequence[Reading]) -> dict[int, tuple[float, Reading]]:
    """By rank, its likeliest reading and the log-odds of that."""
    best: dict[int, tuple[float, Reading]] = {}
    for reading in readings:
        odds = score("word", reading.features)
        if reading.rank not in best or odds > best[reading.rank][0]:
            best[reading.rank] = odds, reading
    return best
