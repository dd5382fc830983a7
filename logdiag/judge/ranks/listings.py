"""Finds listings: lines, or parts of one line, that number something, such as a job's processes.

`rank 4 host c1s1n2 pid 87831 chip 0`, `bench-07 holds c04-c07`, `ly-2 0:Sx-2430 1:Sx-4574`, `ship 2 is Corvo, moored at
clin-b`, a table with a header, a matrix, blocks of lines alike. One column has the number of each row, the columns
beside it names and hosts. Which listing of a log is that of its processes, `directory.py` decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, zip_longest
from typing import NamedTuple

from logdiag.judge.ranks.drawings import drawn
from logdiag.judge.ranks.entries import ITEMS, RANGE, ROWS, Key, Words, blocks_of, entries_of
from logdiag.judge.ranks.host_names import may_be_a_host, may_be_a_place, may_be_shared_hosts, neighbours_share
from logdiag.judge.ranks.vocabulary import (
    BEFORE_HOSTS,
    DEVICES,
    HOST_WORDS,
    LEAST_PID,
    NO_NOUNS_OF_HOSTS,
    PROCESSES,
    STEPS,
)
from logdiag.judge.ranks.words import Row, counted, joined, members, plain, singular
from logdiag.patterns import pattern_of

_Entries = Sequence[tuple[Row, Sequence[str]]]

# 0.77315   082002.640   1.35s   (a measure or a clock, no name)
_FRACTION = pattern_of(r"\d+\.\d+\w*")
# So many rows of a listing for each of its numbers.
_MOST_REPEATED = 3
_FEWEST_ITEMS = 3


class Hosts(NamedTuple):
    """The hosts in a listing: their column, the host of each number, whether a word before or above them calls them
    hosts, and whether numbers next to each other share them."""

    column: int
    of: Mapping[int, str]
    called_hosts: bool
    shared: bool


@dataclass(frozen=True)
class Listing:
    """Rows as columns of words. `nouns` has the word before each column, or above it in a table. `numbers` are those of
    the rows, `number_column` the index of their column, `first` the index of the first row among all lines."""

    kind: str
    number_column: int
    numbers: tuple[int, ...]
    columns: tuple[Words, ...]
    nouns: Words
    first: int
    addresses: Mapping[str, int]

    @cached_property
    def stem(self) -> str:
        """The letters before the number in one word, as c in c21; empty for none."""
        return counted(self.columns[self.number_column][0])[0]

    @cached_property
    def noun(self) -> str:
        """The noun of what it counts, as rank in `rank 4`; empty for none."""
        return singular(self.stem or self.nouns[self.number_column])

    @cached_property
    def size(self) -> int:
        """How many different numbers it has."""
        return len(set(self.numbers))

    @cached_property
    def whole(self) -> bool:
        """Whether it counts from 0 or 1 and leaves no number out."""
        return min(self.numbers) <= 1 and self.has_no_gaps

    @cached_property
    def has_no_gaps(self) -> bool:
        """Whether it leaves no number out between its least and its greatest."""
        return self.size == max(self.numbers) - min(self.numbers) + 1

    @cached_property
    def counts_hosts(self) -> bool:
        """Whether it numbers hosts, and processes stand beside them: `node-2: [rank4]: ready`."""
        stems = {counted(column[0])[0] for column in self.columns}
        return self.noun in HOST_WORDS and not stems.isdisjoint(PROCESSES)

    @cached_property
    def places_some(self) -> bool:
        """Whether its numbers leave some out, and beside each stands a noun and a host, called so: `unit 2 of 40,
        machine elm-7`. It may place some of what another listing counts."""
        counts = self.whole or self.noun in PROCESSES or self.noun in DEVICES
        hosts = self.hosts if self.noun and not counts else None
        if hosts is None or not hosts.called_hosts or max(self.numbers) >= LEAST_PID:
            return False
        names = set(hosts.of.values())
        return len(names) > 1 and all(map(may_be_a_place, names))

    @cached_property
    def beside_another(self) -> bool:
        """Whether an earlier column has the same numbers in another order, as a column of neighbours does."""
        before = (tuple(counted(word)[1] for word in column) for column in self.columns[: self.number_column])
        return any(set(numbers) == set(self.numbers) and numbers != self.numbers for numbers in before)

    @cached_property
    def names(self) -> Mapping[int, Mapping[str, int]]:
        """By column, the number of each of its words, for columns whose words are of one number each."""
        names = {}
        for index, column in enumerate(self.columns):
            pairs = set(zip(map(str.lower, column), self.numbers, strict=True))
            numbers_by_name = dict(pairs)
            one_each = len(numbers_by_name) == len(pairs) == self.size and (index != self.number_column or self.stem)
            if one_each and not any(map(_FRACTION.fullmatch, numbers_by_name)):
                names[index] = numbers_by_name
        return names

    @cached_property
    def counts_devices(self) -> bool:
        """Whether it numbers devices that each process of a host got: several ranges for a host."""
        ranges = self.columns[-1].count("0") if self.kind == RANGE else 0
        return self.hosts is not None and ranges > len(set(self.hosts.of.values()))

    @cached_property
    def hosts(self) -> Hosts | None:
        """The host of each number, by the column that most looks like hosts; None for none."""
        found = [hosts for column in range(len(self.columns)) if (hosts := self._hosts_in(column))]
        seats = [one for one in found if any(_begin_anew_on_each_host(one, hosts) for hosts in found)]
        return max((one for one in found if one.called_hosts or one not in seats), key=_likelihood, default=None)

    def _hosts_in(self, column: int) -> Hosts | None:
        host_of = dict(zip(self.numbers, self.columns[column], strict=True))
        pairs = set(zip(self.numbers, self.columns[column], strict=True))
        if column == self.number_column or len(pairs) > len(host_of) or any(map(members, self.columns[column])):
            return None
        noun = self.nouns[column].rpartition("_")[2]  # LOOM_HOST=elm-7
        named = noun in HOST_WORDS
        called_hosts = named or noun in BEFORE_HOSTS
        names = [host_of[number] for number in sorted(host_of)]
        distinct = len(set(names))
        plain = (named and not any(name[0].isdecimal() for name in names)) or (
            self.nouns[column] not in NO_NOUNS_OF_HOSTS and may_be_shared_hosts(names, called_hosts=called_hosts)
        )
        shared = distinct > 1 and neighbours_share(names)
        in_ranges = self.kind == RANGE and (shared or (self.whole and 1 < distinct < len(names)))
        if not plain and not (in_ranges and all(map(may_be_a_place, names))) and not all(map(may_be_a_host, names)):
            return None
        # learner-0 rank=0   gpu-3 of rank 3
        same_number = sum(counted(name)[1] == number for number, name in host_of.items())
        names_themselves = 2 * same_number > len(host_of)
        device = counted(names[0])[0] in DEVICES or singular(self.nouns[column]) in DEVICES
        if not called_hosts and (names_themselves or device or distinct == 1):
            return None
        return Hosts(column, host_of, called_hosts, shared)


def _likelihood(hosts: Hosts) -> tuple[bool, ...]:
    distinct = len(set(hosts.of.values()))
    several_each = distinct < len(hosts.of)
    return hosts.called_hosts and distinct > 1, all(map(may_be_a_host, hosts.of.values())), hosts.shared, several_each


def _begin_anew_on_each_host(seats: Hosts, hosts: Hosts) -> bool:
    """Whether seats count anew on each host that neighbours share: gate0 and gate1 on mira, gate0 and gate1 on vega."""
    pairs = {(host, counted(seats.of[number])[1]) for number, host in hosts.of.items()}
    most = max(Counter(hosts.of.values()).values())
    return hosts.shared and len(pairs) == len(hosts.of) and len({seat for _, seat in pairs}) == most


def listings_in(opening: Sequence[Row], rows: Sequence[Row]) -> list[Listing]:
    """All listings in `opening`, the first lines of a job's logs, in their order; `rows` are all lines."""
    groups: dict[Key, dict[Words, Row]] = defaultdict(dict)
    for row in (*opening, *blocks_of(opening), *drawn(opening)):
        for key, words in entries_of(row):
            if any(counted(word)[1] >= 0 for word in words):  # a header may look like its table's rows
                groups[key].setdefault(tuple(words), row)
    return [
        listing
        for key, rows_by_words in groups.items()
        if len(rows_by_words) > 1
        for part in _parts(key, [(row, words) for words, row in rows_by_words.items()])
        for listing in _counting(str(key[0]), part, rows)
    ]


def _parts(key: Key, group: _Entries) -> Iterator[_Entries]:
    """The parts of a group that may be one listing: all entries; those that share all plain words; those that share all
    stems; those of lines next to each other."""
    yield group
    by_words, by_stems = _alike_in(group, plain), _alike_in(group, _stem)
    if len(by_words) > 1:
        yield from (part for part in by_words if len(part) > 1)
    if len(by_stems) > len(by_words):
        yield from (part for part in by_stems if len(part) > 1)
    if key[0] == ROWS and len(by_words) > 1:
        yield from _runs(group)


def _alike_in(group: _Entries, form: Callable[[str], str]) -> Sequence[_Entries]:
    """The entries of a group, sorted apart by the forms of their words."""
    found: dict[Words, list[tuple[Row, Sequence[str]]]] = defaultdict(list)
    for entry in group:
        found[tuple(map(form, entry[1]))].append(entry)
    return list(found.values())


def _stem(word: str) -> str:
    return counted(word)[0] or plain(word)


def _runs(group: _Entries) -> Iterator[_Entries]:
    """The entries of a group that are of lines next to each other."""
    for _, numbered in groupby(enumerate(group), key=lambda pair: pair[1][0].at - pair[0]):
        run = [entry for _, entry in numbered]
        if len(run) > 1:
            yield run


def _counting(kind: str, part: _Entries, rows: Sequence[Row]) -> list[Listing]:
    """The listings that entries make, one for each column that may number them; of whole ones only the largest."""
    columns = tuple(zip(*(words for _, words in part), strict=True))
    nouns: Words = ()
    found = []
    for index, column in enumerate(columns):
        if counted(column[0])[1] < 0 or (kind in {RANGE, ITEMS} and index == len(columns) - 1):
            continue
        stems, numbers = zip(*map(counted, column), strict=True)
        distinct = len(set(numbers))
        if min(numbers) < 0 or distinct < 2 or len(set(stems)) > 1 or len(part) > _MOST_REPEATED * distinct:
            continue
        if len(part) > distinct and _is_one_of_host(column, columns):
            continue
        nouns = nouns or _nouns(kind, part, columns, rows)
        listing = Listing(kind, index, numbers, columns, nouns, part[0][0].at, _addresses(kind, part, index, numbers))
        in_order = kind == ITEMS and listing.has_no_gaps and distinct > _FEWEST_ITEMS
        known = listing.noun in PROCESSES or in_order or listing.places_some
        if listing.noun in STEPS or not (listing.whole or known):
            continue
        if not listing.counts_devices and not listing.counts_hosts:
            found.append(listing)
    most = max((listing.size for listing in found), default=0)
    whole = [listing for listing in found if listing.whole and listing.size == most]
    return [*whole, *(listing for listing in found if listing.places_some)] if whole else found


def _addresses(kind: str, part: _Entries, number_column: int, numbers: Sequence[int]) -> Mapping[str, int]:
    """The number of each address: of the first pair of joined words that differs from row to row. Empty for none."""
    row = part[0][0]
    indices = [k for k in range(len(row.words) - 1) if number_column not in (k, k + 1) and joined(row, k)]
    for index in indices if kind == ROWS else ():
        numbers_by_address = {joined(row, index): number for (row, _), number in zip(part, numbers, strict=True)}
        columns = [{row.lower[column] for row, _ in part} for column in (index, index + 1)]
        if len(numbers_by_address) == len(set(numbers)) > max(map(len, columns)):
            return numbers_by_address
    return {}


def _is_one_of_host(column: Words, columns: Sequence[Words]) -> bool:
    """Whether a column counts anew on each host: `host=bn-12 slot=5`."""
    rows = len(set(zip(*columns, strict=True)))
    hosts = (beside for beside in columns if beside is not column and len(set(beside)) > 1)
    return any(len(set(zip(column, host, strict=True))) == rows and all(map(may_be_a_host, host)) for host in hosts)


def _nouns(kind: str, part: _Entries, columns: Sequence[Words], rows: Sequence[Row]) -> Words:
    """The noun of each column: its word in a header, else the one word that stands before it in all rows; what stands
    behind an @ is a host: `sing1@aare`."""
    row, words = part[0]
    before = [column[0].lower() if len(set(column)) == 1 else "" for column in columns]
    nouns = ["", *(counted(word)[0] or word for word in before[:-1])]
    for index, (word, signs) in enumerate(zip(row.words[: len(words)], row.signs, strict=False)):
        if signs == "@" and word == words[index]:
            nouns[index] = "host"
    wanted = len(columns) - (kind in {RANGE, ITEMS})
    for header in _headers(row, rows, columns):
        if len(header) == wanted:
            nouns[:wanted] = header[:wanted]
            break
    return tuple(nouns)


def _headers(first: Row, rows: Sequence[Row], columns: Sequence[Words]) -> Iterator[Sequence[str]]:
    """The words of the line above a table's first row if they are its header; a ruler may stand
    between. Of what is the same in all records of a table, their header says half or more."""
    above = (rows[index] for index in range(first.at - 1, first.at - 3, -1) if index >= 0)
    header = next((row for row in above if row.words), None)
    varying = [index for index, column in enumerate(columns) if len(set(column)) > 1]
    same = [index for index in range(min(max(varying, default=0), len(first.lower))) if index not in varying]
    if header is None or (header.clocked and 2 * _agreeing(header, first, same) < len(same)):
        return
    # Words with which the row itself begins name no column: `roster: shard, pid, host` above `roster: 0 81533 gno-09`.
    different = [word for word, below in zip_longest(header.lower, first.lower[: len(header.lower)]) if word != below]
    # output /survey/out   address: 10.61.4.20
    if any(" /" in signs for signs in header.signs) or any(word[0].isdecimal() for word in different):
        return
    if sum(map(str.isalpha, different)) >= len(different) - 1:
        yield header.lower
    # rank  machine   bus address   process   (blanks within a column's name are narrow)
    names = [word for word, signs in zip(header.lower, header.signs, strict=True) if signs != " "]
    if not header.clocked:
        yield names


def _agreeing(row: Row, other: Row, indices: Sequence[int]) -> int:
    """At how many indices two rows have the same word."""
    shared = min(len(row.lower), len(other.lower))
    return sum(row.lower[index] == other.lower[index] for index in indices if index < shared)
