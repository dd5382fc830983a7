"""Who is who in a job: which process each name is, and on which host, by what its log lists.

A log has many listings; how much each looks like that of the processes was learnt on labelled logs (`weights.json`).
Where none tells hosts, a row of hosts and a number of processes may: `32 heads in 4 folds (bw-04 bw-05 bw-06 bw-09)`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

from logdiag.judge.ranks.listings import ITEMS, RANGE, Listing, listings_in, may_be_a_host
from logdiag.judge.ranks.vocabulary import COUNTERS, DEVICES, PROCESSES
from logdiag.judge.ranks.weights import Features, score
from logdiag.judge.ranks.words import Row, counted, joined, singular

_HEAD, _STATED, _OPENING = 8, 14, 24
_LEAST, _SURE, _LEAST_BY_NOUN, _MOST = -1.5, 0.0, -0.5, 7
_SHORT_NUMBER, _LONG_NUMBER = 3, 5
_OFTEN = 2
# Up to so many are told apart by size; a listing is early or late in a log from such lines on.
_LOG_OF_MOST, _EARLY, _LATE = 6, 30, 200
_MOST_ON_A_HOST = 64
# Where no more than twice as many pairs of a name and a process speak for a column of names as against it, it is none.
_DISPUTED = 2


class Named(NamedTuple):
    """A process that a word names: its rank, how sure its listing is, of how many of its names the log tells
    elsewhere, and whether the word is a host."""

    rank: int
    sure: float
    heard: float
    is_host: bool


@dataclass(frozen=True)
class Directory:
    """`names` and `numbered` (by what processes are called, and a number) tell processes, `hosts` the host of each
    rank, `on` the ranks of each host in small letters; `sure` says how sure the hosts are, and `in_order` that they
    were only named in a row. `listing` is the best one, if any looks like that of the processes."""

    names: Mapping[str, Named] = field(default_factory=dict)
    numbered: Mapping[tuple[str, int], Named] = field(default_factory=dict)
    on_hosts: Mapping[tuple[str, str], Named] = field(default_factory=dict)
    hosts: Mapping[int, str] = field(default_factory=dict)
    on: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sure: float = _LEAST
    in_order: bool = False
    listing: Listing | None = None
    trust: float = _LEAST
    listings: Sequence[Listing] = ()
    stated: frozenset[int] = frozenset()

    def named(self, row: Row, place: int) -> Named | None:
        """The process of which a word of a line is a name, alone or with the next one."""
        return self.names.get(joined(row, place)) or self.names.get(row.lower[place])

    @cached_property
    def nouns(self) -> frozenset[str]:
        """What processes are called where they are numbered."""
        return frozenset(noun for noun, _ in self.numbered)

    @property
    def complete(self) -> bool:
        """Whether the host of every rank is known, as far as ranks are: of others it is not known who is there."""
        return bool(self.hosts) and len(self.hosts) == max(self.hosts) - min(self.hosts) + 1

    @property
    def several_hosts(self) -> bool:
        """Whether the job runs on more than one host."""
        return len(self.on) > 1


def directory_of(rows: Sequence[Row], opening: Sequence[Row]) -> Directory:
    """The directory of a job; `opening` are those of the rows in which listings are looked for."""
    heard, stated = heard_in(rows), stated_in(rows)
    listings = listings_in(opening, rows)
    scored = [(score("listing", features_of(listing, heard, stated)), listing) for listing in listings]
    scored.sort(key=lambda found: found[0], reverse=True)
    used = _agreeing(scored)
    names: dict[str, Named] = {}
    numbered: dict[tuple[str, int], Named] = {}
    on_hosts: dict[tuple[str, str], Named] = {}
    for sure, listing in used:
        for key, named in _named_by(listing, sure, heard, rows):
            if isinstance(key, str):
                names.setdefault(key, named)
            else:
                numbered.setdefault(key, named)
    sure, hosts, in_order = _hosts_of(used, rows)
    for trust, listing in used:
        for place, named in _named_on_hosts(listing, trust, hosts):
            on_hosts.setdefault(place, named)
    on: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(hosts):
        on[hosts[rank].partition(".")[0].lower()].append(rank)
    best = used[0] if used and used[0][0] > _SURE else (_LEAST, None)
    return Directory(names, numbered, on_hosts, hosts, on, sure, in_order, best[1], best[0], listings, stated)


def heard_in(rows: Sequence[Row]) -> Mapping[str, int]:
    """How many lines have each word, and each address, near their start."""
    return Counter(chain.from_iterable({*row.lower[:_HEAD], *_addresses_in(row)} for row in rows))


def _addresses_in(row: Row) -> Iterator[str]:
    return filter(None, (joined(row, place) for place in range(min(_HEAD, len(row.words)))))


def stated_in(rows: Sequence[Row]) -> frozenset[int]:
    """The numbers of a log's first lines, one of which may be that of all processes."""
    return frozenset(_numbers_in(rows[:_STATED]))


def features_of(listing: Listing, heard: Mapping[str, int], stated: frozenset[int]) -> Features:
    """What tells the listing of a job's processes from others."""
    hosts, noun, low = listing.hosts, listing.noun, min(listing.numbers)
    all_names = (*listing.names.values(), listing.addresses)
    names = [share for own in all_names if (share := _share_heard(own, heard)) is not None]
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
        "hosts said": hosts is not None and hosts.said,
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
    """How many of the names lines begin with; None where they are small numbers."""
    if all(name.isdecimal() and len(name) < _SHORT_NUMBER for name in names):
        return None
    return sum(heard.get(name, 0) >= _OFTEN for name in names) / len(names)


def _agreeing(scored: Sequence[tuple[float, Listing]]) -> list[tuple[float, Listing]]:
    """The best listing, and those that tell more of the same processes."""
    used: list[tuple[float, Listing]] = []
    best = scored[0][1] if scored else None
    for sure, listing in scored:
        if best is None or sure < _LEAST or len(used) == _MOST:
            break
        numbers, others = set(listing.numbers), set(listing.numbers).difference(best.numbers)
        tells_more = numbers.issuperset(best.numbers) and listing.hosts is not None
        if 2 * listing.size >= best.size and (not others or tells_more or listing.noun == best.noun):
            used.append((sure, listing))
    return used


def _named_by(
    listing: Listing, sure: float, heard: Mapping[str, int], rows: Sequence[Row]
) -> Iterator[tuple[str | tuple[str, int], Named]]:
    disputed = _disputed(listing, rows)
    for place, own in listing.names.items():
        if place in disputed:
            continue
        share = _share_heard(own, heard) or 0.0
        is_host = listing.hosts is not None and listing.hosts.column == place
        if is_host and not listing.whole:
            continue  # Others may run there too.
        for name, rank in own.items():
            named = Named(rank, sure, share, is_host)
            if not name.isdecimal() or len(name) >= _SHORT_NUMBER:
                yield name, named
            elif place != listing.at and listing.nouns[place]:
                yield (singular(listing.nouns[place]), int(name)), named
    share = _share_heard(listing.addresses, heard) or 0.0
    for name, rank in listing.addresses.items():
        yield name, Named(rank, sure, share, is_host=False)
    if listing.noun and sure >= _LEAST_BY_NOUN:
        for rank in set(listing.numbers):
            yield (listing.noun, rank), Named(rank, sure, 1.0, is_host=False)


def _disputed(listing: Listing, rows: Sequence[Row]) -> frozenset[int]:
    """The columns whose words stand on lines of others too, as levels and topics do in lines that are next to each
    other by chance: `DBG W00`, `WARN W01`."""
    columns = {place: own for place, own in listing.names.items() if place != listing.at}
    pairs: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for row in rows if columns and listing.noun else ():
        for at, number in _counted_in(row, listing.noun):
            for place, own in columns.items():
                beside = at + place - listing.at
                if 0 <= beside < len(row.words) and row.lower[beside] in own:
                    pairs[place].add((own[row.lower[beside]], number))
    right = {place: sum(one == of for one, of in found) for place, found in pairs.items()}
    return frozenset(place for place, found in pairs.items() if right[place] <= _DISPUTED * (len(found) - right[place]))


def _counted_in(row: Row, noun: str) -> Iterator[tuple[int, int]]:
    """The places and numbers of the words of a line's head that count such."""
    before = ""
    for at, word in enumerate(row.lower[:_HEAD]):
        stem, number = counted(word)
        if number >= 0 and singular(stem or before) == noun:
            yield at, number
        before = word


def _named_on_hosts(listing: Listing, sure: float, hosts: Mapping[int, str]) -> Iterator[tuple[tuple[str, str], Named]]:
    """What each process of a host alone is called, as others elsewhere are: the host, and a name, or a noun with its
    number, as `card 2`."""
    for place, column in enumerate(listing.columns):
        pairs = set(zip(map(str.lower, column), listing.numbers, strict=True))
        placed = {(hosts[rank].partition(".")[0].lower(), name): rank for name, rank in pairs if rank in hosts}
        told = place == listing.at or place in listing.names or len(set(column)) == 1
        if told or not len(placed) == len(pairs) == listing.size:
            continue
        for (host, name), rank in placed.items():
            stem, number = counted(name)
            noun = singular(stem or listing.nouns[place])
            named = Named(rank, sure, 1.0, is_host=False)
            if number < 0 or len(name) >= _LONG_NUMBER:
                yield (host, name), named
            else:
                # `tray a2 carries dies 8-15 in slots 0-7` is of a2/5 too.
                yield from (((host, f"{called} {number}"), named) for called in (noun, ""))


def _hosts_of(used: Sequence[tuple[float, Listing]], rows: Sequence[Row]) -> tuple[float, Mapping[int, str], bool]:
    """How sure the hosts are, the host of each rank, and whether they were only named in a row."""
    for sure, listing in used:
        if listing.hosts is not None:
            return sure, listing.hosts.of, False
    found = list(_in_a_row(rows[:_OPENING], _places_on_hosts(rows)))
    return max(found, key=lambda one: one[0], default=(_LEAST, {}, False))


def in_full(host: str, rows: Sequence[Row]) -> str:
    """A host as it is printed first: trn-12.fra."""
    text = next((row.line.text for row in rows if host in row.words), "")
    found = re.search(rf"(?<![\w.-]){re.escape(host)}((?:\.[A-Za-z][\w-]*)*)(?![\w/])", text)
    return host + (found[1] if found else "")


def _places_on_hosts(rows: Sequence[Row]) -> Mapping[str, int]:
    """The greatest number that stands behind each name, as in qs-r2n07#3."""
    most: dict[str, int] = {}
    for row in rows:
        for name, number in pairwise(row.lower[:_HEAD]):
            if number.isdecimal() and len(number) < _SHORT_NUMBER and not name.isdecimal():
                most[name] = max(most.get(name, 0), int(number))
    return most


_COUNTED_HOSTS, _EACH, _TOTAL, _ONE_EACH = 2.0, 0.0, -1.0, -1.4


def _in_a_row(rows: Sequence[Row], most: Mapping[str, int]) -> Iterator[tuple[float, Mapping[int, str], bool]]:
    """The host of each rank where a line, or a column of several, names the hosts and how many run on them:
    `rk0812=4 rk0813=4`, `4 hosts of 8`, `24 on tow-0 tow-1 tow-2`. The surer of them first."""
    for row in rows:
        for places in _rows_of_hosts(row):
            counts = [word for place in places for word in row.words[place + 1 : place + 2]]
            apart = {after - before for before, after in pairwise(places)}
            names = [row.words[place] for place in places]
            short = all(len(count) < _SHORT_NUMBER and count.isdecimal() for count in counts)
            if apart == {2} and len(counts) == len(places) and short:
                each = [name for name, count in zip(names, counts, strict=True) for _ in range(int(count))]
                yield _COUNTED_HOSTS, dict(enumerate(each)), True
            else:
                yield from _shared_out(names, _numbers_in([row]), most)
    for names, above in _columns_of_hosts(rows):
        yield from _shared_out(names, _numbers_in(above), most)


def _rows_of_hosts(row: Row) -> Iterator[list[int]]:
    """The places of several hosts of one form in a line."""
    alike: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(row.words):
        if may_be_a_host(word) and counted(word)[0] not in DEVICES:
            stem = counted(word)[0] or re.split(r"[\d-]", word, maxsplit=1)[0]
            alike[stem].append(place)
    for places in alike.values():
        # host=bn-00 ... order=bn-03,bn-07,bn-12
        next_to = [at for at in places if at - 1 in places or at + 1 in places]
        row_of = next_to if len(next_to) > 1 else places
        if len({row.words[at] for at in row_of}) == len(row_of) > 1:
            yield row_of


def _columns_of_hosts(rows: Sequence[Row]) -> Iterator[tuple[list[str], Sequence[Row]]]:
    """Hosts that stand below each other in lines that have nothing else of their own, and the lines up to the last."""
    groups: dict[tuple[tuple[str, ...], int], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.shape, len(row.words)].append(row)
    for (_, width), group in groups.items():
        for place in range(width if len(group) > 1 else 0):
            names = [row.words[place] for row in group]
            alone = len({(*row.lower[:place], *row.lower[place + 1 :]) for row in group}) == 1
            if (
                alone
                and len(set(names)) == len(names)
                and all(map(may_be_a_host, names))
                and counted(names[0])[0] not in DEVICES
            ):
                yield names, [row for row in rows if row.at <= group[-1].at]


def _numbers_in(rows: Sequence[Row]) -> list[int]:
    return [int(word) for row in rows for word in row.words if word.isdecimal() and len(word) < _LONG_NUMBER]


def _shared_out(
    names: Sequence[str], stated: Sequence[int], most: Mapping[str, int]
) -> Iterator[tuple[float, Mapping[int, str], bool]]:
    """As many ranks on each host, in order: by a stated number on each, or of all; no fewer than spoke there."""
    count = len(names)
    least = max(most.get(name.lower(), 0) for name in names)
    some = (n for n in stated if max(least, 1) < n <= _MOST_ON_A_HOST and (n != count or stated.count(n) > 1))
    each = next(some, 0)
    total = next((n for n in stated if n % count == 0 and max(least, 1) < n // count <= _MOST_ON_A_HOST), 0)
    if each and ((count in stated and not total) or total == each * count):
        yield _EACH, {rank: names[rank // each] for rank in range(count * each)}, True
    if total:
        yield _TOTAL, {rank: names[rank * count // total] for rank in range(total)}, True
    elif count in stated and not least:
        yield _ONE_EACH, dict(enumerate(names)), True
