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
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

from logdiag.judge.ranks.entries import ITEMS, RANGE
from logdiag.judge.ranks.host_names import may_be_a_host
from logdiag.judge.ranks.hosts import Placed, RankAt, hosts_above, hosts_in_a_row, hosts_that_start_some, numbers_in
from logdiag.judge.ranks.listings import Listing, listings_in
from logdiag.judge.ranks.vocabulary import COUNTERS, DEVICES, PROCESSES
from logdiag.judge.ranks.weights import score
from logdiag.judge.ranks.words import TIGHT, Row, counted, joined, members, short_name, singular

_HEAD, _STATED, _OPENING = 8, 14, 24
_LEAST, _SURE, _LEAST_BY_NOUN, _MOST = -1.5, 0.0, -0.5, 7
_SHORT_NUMBER, _LONG_NUMBER = 3, 5
# A longer word with a number is a name of its own.
_LONGEST_SEAT = 4
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

    `names` has the processes by name, or by noun and number (`rank 4`), `on_hosts` by host and a name that only there
    is of one process. `hosts` has the host of each rank, `ranks_on_host` the ranks by host in small letters; `sure` is
    the log-odds of the hosts, and `in_order` says that they stood in a row and ranks were dealt out in its order.
    `listing` is the likeliest listing of the processes, None where none is likely, and `trust` its log-odds. `stated`
    are numbers one of which may be that of all processes.
    """

    names: Mapping[str, Named] = field(default_factory=dict)
    on_hosts: Mapping[tuple[str, str], Named] = field(default_factory=dict)
    hosts: Mapping[int, str] = field(default_factory=dict)
    ranks_on_host: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sure: float = _LEAST
    in_order: bool = False
    listing: Listing | None = None
    trust: float = _LEAST
    listings: Sequence[Listing] = ()
    stated: frozenset[int] = frozenset()

    def look_up(self, row: Row, index: int, hosts: Sequence[str] = ()) -> tuple[Named | None, str]:
        """The process that a word of a line names, None for none, and by what: its name, noun, host or range; `hosts`
        are those of the line. Where the whole word names none, its beginning may (`dev2-read`, `cell-2-fwd`)."""
        if not (self.names or self.on_hosts):
            return None, ""
        word = row.words[index]
        if word.isalpha() and not hosts and not self._has_addresses:  # most words, so they are looked up fast
            named = self.names.get(row.lower[index])
            return named, "name" if named else ""
        before = _noun_before(row, index)
        if self._has_addresses and (address := self.names.get(joined(row, index))) is not None:
            return address, "name"
        # In hod-2/3 the word before the number is a host, not a noun.
        if before in self.ranks_on_host:
            of_host = self.on_hosts.get((before, f" {counted(word)[1]}")) if row.signs[index] in TIGHT else None
            if of_host is not None:
                return of_host, "name"
            before = ""
        beginning = word.rpartition("-")[0]
        for part in (word, beginning) if beginning[-1:].isdecimal() else (word,):
            found = self._named_by(part, before, hosts)
            if found[0] is not None:
                return found
        if not word.isalnum() and (several := members(word)):
            return self.names.get(_numbered(several[0], before)), "range"
        return None, ""

    def _named_by(self, word: str, before: str, hosts: Sequence[str]) -> tuple[Named | None, str]:
        """The process that a word names, None for none, and by what: on a host of its line, by its name, or by its
        number and a noun, its own stem or the word `before` it."""
        numbered = _numbered(word, before)
        # Every host may have a dev2: the one on the line's own host is meant.
        on_host = numbered if numbered and len(word) <= _LONGEST_SEAT else word.lower()
        for host in hosts:
            if (named := self.on_hosts.get((host, on_host))) is not None:
                return named, "host"
        if (named := self.names.get(word.lower())) is not None:
            return named, "name"
        return self.names.get(numbered), "noun"

    def rank_at(self, row: Row, index: int) -> int | None:
        """The rank of the process that a word of a line names; None for none, and for a host's name."""
        named, _ = self.look_up(row, index)
        return None if named is None or named.is_host else named.rank

    @cached_property
    def _has_addresses(self) -> bool:
        """Whether any name may be of two joined words."""
        return any(not TIGHT.isdisjoint(name) for name in self.names)

    @property
    def complete(self) -> bool:
        """Whether each rank from the lowest to the highest has a known host; else a host may have unknown ranks too."""
        return len(self.hosts) == max(self.hosts) - min(self.hosts) + 1

    @property
    def several_hosts(self) -> bool:
        """Whether the job runs on more than one host."""
        return len(self.ranks_on_host) > 1


def _noun_before(row: Row, index: int) -> str:
    """The word before another in small letters; none where it is a unit of what stands before it: `600 s, 15 of 16`."""
    of_a_measure = index > 1 and "," in row.signs[index] and row.words[index - 2].isdecimal()
    return row.lower[index - 1] if index and not of_a_measure else ""


def _numbered(word: str, before: str) -> str:
    """`rank 4` for `rank4`, and for `4` behind `rank`; empty for a word without a number."""
    stem, number = counted(word)
    return f"{singular(stem or before)} {number}" if number >= 0 else ""


def directory_of(rows: Sequence[Row], opening: Sequence[Row]) -> Directory:
    """The directory of a job; `opening` are the rows in which listings are looked for."""
    heard, stated = heard_in(rows), stated_in(rows)
    listings = listings_in(opening, rows)
    counting = _without_devices_of_speakers(listings, heard)
    scored = [(score("listing", features_of(listing, heard, stated)), listing) for listing in counting]
    scored.sort(key=lambda scored_listing: scored_listing[0], reverse=True)
    used = _agreeing(scored)
    # The surest listing that has a name counts.
    names = dict(chain.from_iterable(_names_in(listing, sure, heard) for sure, listing in reversed(used)))
    placed = _hosts_of(used, rows, opening, Directory(names).rank_at)
    hosts = placed.hosts
    on_hosts = dict(chain.from_iterable(_names_on_hosts(listing, sure, hosts) for sure, listing in reversed(used)))
    ranks_on_host: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(hosts):
        ranks_on_host[short_name(hosts[rank])].append(rank)
    trust, best = used[0] if used and used[0][0] > _SURE else (_LEAST, None)
    return Directory(names, on_hosts, hosts, ranks_on_host, placed.sure, placed.in_order, best, trust, listings, stated)


def heard_in(rows: Sequence[Row]) -> Mapping[str, int]:
    """By word, by address, and by noun and number (`rank 4`), how many lines have it near their start."""
    return Counter(word for row in rows for word in _heads_of(row))


def _heads_of(row: Row) -> set[str]:
    near = range(min(_HEAD, len(row.words)))
    numbered = {_numbered(row.words[at], _noun_before(row, at)) for at in near}
    return {*row.lower[:_HEAD], *(joined(row, at) for at in near), *numbered}


def _without_devices_of_speakers(listings: Sequence[Listing], heard: Mapping[str, int]) -> list[Listing]:
    """The listings without those that count devices in rows of processes with other numbers, of which many lines speak:
    `c2 boot: device 1` is of c2."""

    def speaks(listing: Listing) -> bool:
        return all(heard.get(f"{listing.noun} {number}", 0) > _OFTEN for number in listing.numbers)

    spoken = {one.first: one.numbers for one in listings if one.whole and one.noun not in DEVICES and speaks(one)}
    return [
        listing
        for listing in listings
        if listing.noun not in DEVICES or spoken.get(listing.first, listing.numbers) == listing.numbers
    ]


def stated_in(rows: Sequence[Row]) -> frozenset[int]:
    """The numbers of a log's first lines, one of which may be that of all processes."""
    return frozenset(numbers_in(rows[:_STATED]))


def features_of(listing: Listing, heard: Mapping[str, int], stated: frozenset[int]) -> Mapping[str, float]:
    """The features by which the listing of a job's processes is told from other listings."""
    hosts, noun, low = listing.hosts, listing.noun, min(listing.numbers)
    names = [
        share
        for words in (*listing.names.values(), listing.addresses)
        if (share := _share_heard(words, heard)) is not None
    ]
    return {
        "any": 1,
        "from 0": low == 0,
        "beside another": listing.beside_another,
        "range": listing.kind == RANGE,
        "items": listing.kind == ITEMS,
        "size": min(_LOG_OF_MOST, math.log2(listing.size)) / _LOG_OF_MOST,
        "only two": listing.size == _OFTEN,
        "called a process": noun in PROCESSES,
        "called rank": noun == "rank",
        "called a counter": noun in COUNTERS,
        "whole": listing.whole,
        "from 1": low == 1,
        "called a device": noun in DEVICES,
        "in one word": bool(listing.stem),
        "hosts said": hosts is not None and hosts.called_hosts,
        "a host each": hosts is not None and len(set(hosts.of.values())) == listing.size,
        "late": listing.first > _LATE,
        "repeated": min(1.0, len(listing.numbers) / listing.size - 1),
        "called nothing": not noun,
        "hosts": hosts is not None and len(set(hosts.of.values())) > 1,
        "hosts shared": hosts is not None and hosts.shared,
        "early": listing.first < _EARLY,
        "size stated": max(listing.numbers) + (low == 0) in stated,
        "names": bool(names),
        "names heard": max(names, default=0),
    }


def _share_heard(names: Mapping[str, int], heard: Mapping[str, int]) -> float | None:
    """The share of the names that several lines begin with, 0 to 1; None where all are small numbers."""
    if all(name.isdecimal() and len(name) < _SHORT_NUMBER for name in names):
        return None
    return sum(heard.get(name, 0) >= _OFTEN for name in names) / len(names)


def _agreeing(scored: Sequence[tuple[float, Listing]]) -> list[tuple[float, Listing]]:
    """The likeliest listing, and those that have more about the same processes, with their log-odds."""
    used: list[tuple[float, Listing]] = []
    # What leaves some out may be what a job prints as it starts, or a few lines of any kind.
    counting = (one for one in scored if not one[1].places_some or one[1].first < _EARLY)
    best_sure, best = next(counting, (_LEAST, None))
    if best is not None and not best.whole:
        # `peer 27 busy` tells of some of those that another listing has.
        best_sure, best = next(filter(partial(_is_whole_of, best), scored), (best_sure, best))
    for sure, listing in scored:
        if best is None or sure < _LEAST:
            break
        # Each line that all processes print makes a listing; those behind the first few tell nothing but hosts.
        several = listing.hosts is not None and len(set(listing.hosts.of.values())) > 1
        if len(used) >= _MOST and (not several or any(other.hosts for _, other in used)):
            continue
        numbers, others = set(listing.numbers), set(listing.numbers).difference(best.numbers)
        tells_more = numbers.issuperset(best.numbers) and listing.hosts is not None
        places_some = listing.places_some and listing.noun == best.noun
        if listing.places_some and not places_some:
            continue
        if (places_some or 2 * listing.size >= best.size) and (not others or tells_more or listing.noun == best.noun):
            used.append((best_sure if places_some else sure, listing))
    return used


def _is_whole_of(part: Listing, one: tuple[float, Listing]) -> bool:
    """Whether a listing leaves no number out, has all those of another, and is likely."""
    sure, listing = one
    return sure > _SURE and listing.whole and listing.size > part.size and set(listing.numbers) >= set(part.numbers)


def _names_in(listing: Listing, sure: float, heard: Mapping[str, int]) -> Iterator[tuple[str, Named]]:
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
                yield _numbered(name, listing.nouns[column]), named
    share = _share_heard(listing.addresses, heard) or 0.0
    for name, rank in listing.addresses.items():
        yield name, Named(rank, sure, share, is_host=False)
    if listing.noun and sure >= _LEAST_BY_NOUN:
        for rank in set(listing.numbers):
            yield f"{listing.noun} {rank}", Named(rank, sure, 1.0, is_host=False)


def _names_on_hosts(listing: Listing, sure: float, hosts: Mapping[int, str]) -> Iterator[tuple[tuple[str, str], Named]]:
    """Names that are of one process on each host, and of others elsewhere: the host, and a name, or a noun with a
    number such as `card 2`."""
    for index, column in enumerate(listing.columns):
        pairs = set(zip(map(str.lower, column), listing.numbers, strict=True))
        placed = {(short_name(hosts[rank]), name): rank for name, rank in pairs if rank in hosts}
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
    used: Sequence[tuple[float, Listing]], rows: Sequence[Row], opening: Sequence[Row], rank_at: RankAt
) -> Placed:
    """The hosts of the job: those of a listing of all processes, else those above them, else those that say how many
    they start, else those of any listing, else those that stand in a row."""
    ranks, noun = (frozenset(used[0][1].numbers), used[0][1].noun) if used else (frozenset[int](), "")
    hosts = ((sure, listing.hosts.of) for sure, listing in used if listing.hosts is not None)
    # bee-07 is no host where bees are the processes.
    listed = [Placed(sure, of) for sure, of in hosts if not any("" != noun == counted(name)[0] for name in of.values())]
    every = [placed for placed in listed if ranks <= placed.hosts.keys()]
    ways = (hosts_above, hosts_that_start_some) if ranks and not every else ()
    if placed := next(filter(None, (way(opening, ranks, rank_at) for way in ways)), None):
        return placed
    if not listed:
        return max([Placed(_LEAST), *hosts_in_a_row(rows[:_OPENING], ranks, rank_at)], key=lambda placed: placed.sure)
    best = max(every, key=lambda placed: all(map(may_be_a_host, placed.hosts.values())), default=listed[0])
    # Of a listing of all processes, the rows of those with names alike make one too.
    larger = (other.hosts for other in every if other.hosts.items() >= best.hosts.items())
    return Placed(best.sure, max(larger, key=len, default=best.hosts))


def in_full(host: str, rows: Sequence[Row]) -> str:
    """A host's name with its domain, as the first line that has it prints it: trn-12.fra."""
    text = next((row.line.text for row in rows if host in row.words), "")
    found = re.search(rf"(?<![\w.-]){re.escape(host)}((?:\.[A-Za-z][\w-]*)*)(?![\w/])", text)
    return host + (found[1] if found else "")
