"""The directory of a job, from the listings in its log: the rank of each name, and the host of each rank.

A log has many listings; which of them look like that of the processes was learnt on labelled logs (`weights.json`).
If none has hosts, a row of hosts and a number of processes may do: `32 heads in 4 folds (bw-04 bw-05 bw-06 bw-09)`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from logdiag.judge.ranks.hosts import (
    hosts_above,
    hosts_beside,
    hosts_by_another_name,
    hosts_in_a_row,
    hosts_that_start_some,
    numbers_in,
)
from logdiag.judge.ranks.listings import ITEMS, RANGE, Listing, listings_in
from logdiag.judge.ranks.vocabulary import COUNTERS, DEVICES, PROCESSES
from logdiag.judge.ranks.weights import Features, score
from logdiag.judge.ranks.words import TIGHT, Row, counted, joined, singular

_HEAD, _STATED, _OPENING = 8, 14, 24
_LEAST, _SURE, _LEAST_BY_NOUN, _MOST = -1.5, 0.0, -0.5, 7
_SHORT_NUMBER, _LONG_NUMBER = 3, 5
_OFTEN = 2
# The logarithm of the size from which all listings count as equally large; the lines before and after which a listing
# is early or late.
_LOG_OF_MOST, _EARLY, _LATE = 6, 30, 200


class Named(NamedTuple):
    """A process that a word names. `sure` is the log-odds that its listing is one of processes, `heard` the share of
    the listing's names that other lines begin with (0 to 1), `is_host` whether the word is a host's name."""

    rank: int
    sure: float
    heard: float
    is_host: bool


@dataclass(frozen=True)
class Directory:
    """Who is who in a job.

    `names` has the processes by name, `numbered` by noun and number, `on_hosts` by host and a name that only there is
    of one process. `hosts` has the host of each rank, `ranks_on_host` the ranks by host in small letters; `sure` is the
    log-odds of the hosts, and `in_order` says that they stood in a row and ranks were dealt out in its order. `listing`
    is the likeliest listing of the processes, None where none is likely, and `trust` its log-odds. `stated` are
    numbers one of which may be that of all processes.
    """

    names: Mapping[str, Named] = field(default_factory=dict)
    numbered: Mapping[tuple[str, int], Named] = field(default_factory=dict)
    on_hosts: Mapping[tuple[str, str], Named] = field(default_factory=dict)
    hosts: Mapping[int, str] = field(default_factory=dict)
    ranks_on_host: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sure: float = _LEAST
    in_order: bool = False
    listing: Listing | None = None
    trust: float = _LEAST
    listings: Sequence[Listing] = ()
    stated: frozenset[int] = frozenset()

    def named(self, row: Row, index: int) -> Named | None:
        """The process that a word of a line names, by itself or with the next word; None for none."""
        address = self.names.get(joined(row, index)) if self._has_addresses else None
        return address or self.names.get(row.lower[index])

    def named_or_numbered(self, row: Row, index: int) -> Named | None:
        """The process that a word of a line names, or its number after a noun, such as `rank 4`; None for none."""
        return self.named(row, index) or _numbered(self.numbered, row, index)

    @property
    def names_any(self) -> bool:
        """Whether any word may name a process."""
        return bool(self.names or self.numbered)

    @cached_property
    def _has_addresses(self) -> bool:
        """Whether any name may be of two joined words."""
        return any(not TIGHT.isdisjoint(name) for name in self.names)

    @cached_property
    def nouns(self) -> frozenset[str]:
        """The nouns before the numbers of processes: rank, worker, ..."""
        return frozenset(noun for noun, _ in self.numbered)

    @property
    def complete(self) -> bool:
        """Whether each rank from the lowest to the highest has a known host; else a host may have unknown ranks too."""
        return bool(self.hosts) and len(self.hosts) == max(self.hosts) - min(self.hosts) + 1

    @property
    def several_hosts(self) -> bool:
        """Whether the job runs on more than one host."""
        return len(self.ranks_on_host) > 1


def _numbered(numbered: Mapping[tuple[str, int], Named], row: Row, index: int) -> Named | None:
    """The process that a number names after a noun, its own stem or the word before it; None for none."""
    stem, number = counted(row.words[index]) if numbered else ("", -1)
    noun = stem or (row.lower[index - 1] if index else "")
    return numbered.get((singular(noun), number)) if number >= 0 else None


def directory_of(rows: Sequence[Row], opening: Sequence[Row]) -> Directory:
    """The directory of a job; `opening` are the rows in which listings are looked for."""
    heard, stated = heard_in(rows), stated_in(rows)
    listings = listings_in(opening, rows)
    scored = [(score("listing", features_of(listing, heard, stated)), listing) for listing in listings]
    scored.sort(key=lambda scored_listing: scored_listing[0], reverse=True)
    used = _agreeing(scored)
    names: dict[str, Named] = {}
    numbered: dict[tuple[str, int], Named] = {}
    on_hosts: dict[tuple[str, str], Named] = {}
    for sure, listing in used:
        for key, named in _names_in(listing, sure, heard):
            if isinstance(key, str):
                names.setdefault(key, named)
            else:
                numbered.setdefault(key, named)
    sure, hosts, in_order = _hosts_of(used, rows, opening, names, numbered)
    for trust, listing in used:
        for on_host, named in _names_on_hosts(listing, trust, hosts):
            on_hosts.setdefault(on_host, named)
    ranks_on_host: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(hosts):
        ranks_on_host[hosts[rank].partition(".")[0].lower()].append(rank)
    best = used[0] if used and used[0][0] > _SURE else (_LEAST, None)
    return Directory(
        names, numbered, on_hosts, hosts, ranks_on_host, sure, in_order, best[1], best[0], listings, stated
    )


def heard_in(rows: Sequence[Row]) -> Mapping[str, int]:
    """By word and by address, how many lines have it near their start."""
    return Counter(chain.from_iterable({*row.lower[:_HEAD], *_addresses_in(row)} for row in rows))


def _addresses_in(row: Row) -> Iterator[str]:
    return (joined(row, index) for index, signs in enumerate(row.signs[1 : _HEAD + 1]) if signs in TIGHT)


def stated_in(rows: Sequence[Row]) -> frozenset[int]:
    """The numbers of a log's first lines, one of which may be that of all processes."""
    return frozenset(numbers_in(rows[:_STATED]))


def features_of(listing: Listing, heard: Mapping[str, int], stated: frozenset[int]) -> Features:
    """The features by which the listing of a job's processes is told from other listings."""
    hosts, noun, low = listing.hosts, listing.noun, min(listing.numbers)
    all_names = (*listing.names.values(), listing.addresses)
    names = [share for column_names in all_names if (share := _share_heard(column_names, heard)) is not None]
    several = hosts is not None and len(set(hosts.of.values())) > 1
    return {
        "any": 1,
        "whole": listing.whole,
        "from 0": low == 0,
        "from 1": low == 1,
        "beside another": listing.beside_another,
        "range": listing.kind == RANGE,
        "items": listing.kind == ITEMS,
        "size": _size(listing.size),
        "only two": listing.size == _OFTEN,
        "called a process": noun in PROCESSES,
        "called rank": noun == "rank",
        "called a device": noun in DEVICES,
        "called a counter": noun in COUNTERS,
        "called nothing": not noun,
        "in one word": bool(listing.stem),
        "hosts": several,
        "hosts said": hosts is not None and hosts.called_hosts,
        "hosts shared": hosts is not None and hosts.shared,
        "a host each": hosts is not None and len(set(hosts.of.values())) == listing.size,
        "early": listing.first < _EARLY,
        "late": listing.first > _LATE,
        "size stated": max(listing.numbers) + (low == 0) in stated,
        "names": bool(names),
        "names heard": max(names, default=0),
        "repeated": min(1.0, len(listing.numbers) / listing.size - 1),
    }


def _size(number: int) -> float:
    return min(_LOG_OF_MOST, math.log2(number)) / _LOG_OF_MOST


def _share_heard(names: Mapping[str, int], heard: Mapping[str, int]) -> float | None:
    """The share of the names that several lines begin with, 0 to 1; None where all are small numbers."""
    if all(name.isdecimal() and len(name) < _SHORT_NUMBER for name in names):
        return None
    return sum(heard.get(name, 0) >= _OFTEN for name in names) / len(names)


def _agreeing(scored: Sequence[tuple[float, Listing]]) -> list[tuple[float, Listing]]:
    """The likeliest listing, and those that have more about the same processes, with their log-odds."""
    used: list[tuple[float, Listing]] = []
    best = scored[0][1] if scored else None
    for sure, listing in scored:
        if best is None or sure < _LEAST:
            break
        # Each line that all processes print makes a listing; those behind the first few tell nothing but hosts.
        several = listing.hosts is not None and len(set(listing.hosts.of.values())) > 1
        if len(used) >= _MOST and (not several or any(other.hosts for _, other in used)):
            continue
        numbers, others = set(listing.numbers), set(listing.numbers).difference(best.numbers)
        tells_more = numbers.issuperset(best.numbers) and listing.hosts is not None
        if 2 * listing.size >= best.size and (not others or tells_more or listing.noun == best.noun):
            used.append((sure, listing))
    return used


def _names_in(listing: Listing, sure: float, heard: Mapping[str, int]) -> Iterator[tuple[str | tuple[str, int], Named]]:
    for column, column_names in listing.names.items():
        share = _share_heard(column_names, heard) or 0.0
        is_host = listing.hosts is not None and listing.hosts.column == column
        if is_host and not listing.whole:
            continue  # Others may run there too.
        for name, rank in column_names.items():
            named = Named(rank, sure, share, is_host)
            if not name.isdecimal() or len(name) >= _SHORT_NUMBER:
                yield name, named
            elif column != listing.number_column and listing.nouns[column]:
                yield (singular(listing.nouns[column]), int(name)), named
    share = _share_heard(listing.addresses, heard) or 0.0
    for name, rank in listing.addresses.items():
        yield name, Named(rank, sure, share, is_host=False)
    if listing.noun and sure >= _LEAST_BY_NOUN:
        for rank in set(listing.numbers):
            yield (listing.noun, rank), Named(rank, sure, 1.0, is_host=False)


def _names_on_hosts(listing: Listing, sure: float, hosts: Mapping[int, str]) -> Iterator[tuple[tuple[str, str], Named]]:
    """Names that are of one process on each host, and of others elsewhere: the host, and a name, or a noun with a
    number such as `card 2`."""
    for index, column in enumerate(listing.columns):
        pairs = set(zip(map(str.lower, column), listing.numbers, strict=True))
        placed = {(hosts[rank].partition(".")[0].lower(), name): rank for name, rank in pairs if rank in hosts}
        known = index == listing.number_column or index in listing.names or len(set(column)) == 1
        if known or not len(placed) == len(pairs) == listing.size:
            continue
        for (host, name), rank in placed.items():
            stem, number = counted(name)
            noun = singular(stem or listing.nouns[index])
            named = Named(rank, sure, 1.0, is_host=False)
            if number < 0 or len(name) >= _LONG_NUMBER:
                yield (host, name), named
            else:
                # `tray a2 carries dies 8-15 in slots 0-7` is of a2/5 too.
                yield from (((host, f"{called} {number}"), named) for called in (noun, ""))


def _hosts_of(
    used: Sequence[tuple[float, Listing]],
    rows: Sequence[Row],
    opening: Sequence[Row],
    names: Mapping[str, Named],
    numbered: Mapping[tuple[str, int], Named],
) -> tuple[float, Mapping[int, str], bool]:
    """The log-odds of the hosts, the host of each rank, and whether ranks were dealt out to a row of hosts in order."""
    listings = [listing for _, listing in used]

    def rank_at(row: Row, index: int) -> int | None:
        named = names.get(row.lower[index]) or _numbered(numbered, row, index)
        return None if named is None or named.is_host else named.rank

    ranks = frozenset(listings[0].numbers) if listings else frozenset()
    listed = [(sure, listing.hosts) for sure, listing in used if listing.hosts is not None]
    every = [placed for placed in listed if ranks <= placed[1].of.keys()]
    whole = max(every, key=lambda placed: placed[1].look_like_hosts, default=None)
    if whole is None and ranks:
        found = [*hosts_by_another_name(listings, opening), *hosts_above(opening, ranks, rank_at)]
        found += hosts_beside(rows, ranks, rank_at)
        found += hosts_that_start_some(opening, ranks, rank_at)
        if found:
            return *max(found, key=lambda placed: placed[0]), False
    if listed:
        sure, hosts = whole or listed[0]
        # Of a listing of all processes, the rows of those with names alike make one too.
        of = max((other.of for _, other in every if other.of.items() >= hosts.of.items()), key=len, default=hosts.of)
        return sure, of, False
    dealt = list(hosts_in_a_row(rows[:_OPENING], ranks))
    return max(dealt, key=lambda each: each[0], default=(_LEAST, {}, False))


def in_full(host: str, rows: Sequence[Row]) -> str:
    """A host's name with its domain, as the first line that has it prints it: trn-12.fra."""
    text = next((row.line.text for row in rows if host in row.words), "")
    found = re.search(rf"(?<![\w.-]){re.escape(host)}((?:\.[A-Za-z][\w-]*)*)(?![\w/])", text)
    return host + (found[1] if found else "")
