"""Listings of a job's processes: lines, or parts of one line, that count something, each with what belongs to it.

`rank 4 host c1s1n2 pid 87831 chip 0`, `bench-07 holds c04-c07`, `ly-2 0:Sx-2430 1:Sx-4574`, `ship 2 is Corvo, moored at
clin-b`, a table with a header: in one column stands a number that each row has for itself, the columns beside it tell
names and hosts. Which of the listings of a log is that of its processes, `directory.py` decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise, zip_longest
from typing import NamedTuple

from logdiag.judge.ranks.vocabulary import BEFORE_HOSTS, DEVICES, HOST_WORDS, PROCESSES, STEPS
from logdiag.judge.ranks.words import HEAD, Row, counted, joined, members, plain, singular
from logdiag.patterns import pattern_of

Words = tuple[str, ...]
Key = tuple[str | int | Words, ...]
_Entries = Sequence[tuple[Row, Sequence[str]]]

RANGE, ITEMS, ROWS, HEADS = "range", "items", "rows", "heads"
_HOST = pattern_of(r"(?=.*[\d-])[A-Za-z][A-Za-z\d]*(?:-[A-Za-z\d]+)*")
# 0.77315   082002.640   1.35s   (a measure or a clock, and nobody's name)
_FRACTION = pattern_of(r"\d+\.\d+\w*")
# Words between the items of a line; rows of a listing for each number that it counts.
_FARTHEST, _MOST_REPEATED = 8, 3
_LEAST_OF_ONE_LETTER = 10
_FEWEST_ITEMS = 3


class Hosts(NamedTuple):
    """The column of a listing that names hosts, the host of each number, whether a word says that they are hosts, and
    whether neighbours share them."""

    column: int
    of: Mapping[int, str]
    said: bool
    shared: bool


@dataclass(frozen=True)
class Listing:
    """Rows as columns of words; `nouns` has what stands before each column, or above it in a table. `numbers` is the
    column that counts, `at` its place, `first` the place of its first row among the lines; `addresses` are two words
    that a sign joins, where they name one process each: `hod-2/3`."""

    kind: str
    at: int
    numbers: tuple[int, ...]
    columns: tuple[Words, ...]
    nouns: Words
    first: int
    addresses: Mapping[str, int]

    @cached_property
    def stem(self) -> str:
        """What stands before the number in one word, as c in c21."""
        return counted(self.columns[self.at][0])[0]

    @cached_property
    def noun(self) -> str:
        """What it calls those that it counts."""
        return singular(self.stem or self.nouns[self.at])

    @cached_property
    def size(self) -> int:
        """How many it counts."""
        return len(set(self.numbers))

    @cached_property
    def whole(self) -> bool:
        """Whether it counts from 0 or 1 on and leaves none out."""
        return min(self.numbers) <= 1 and self.goes_on

    @cached_property
    def goes_on(self) -> bool:
        """Whether it leaves none out."""
        return self.size == max(self.numbers) - min(self.numbers) + 1

    @cached_property
    def beside_another(self) -> bool:
        """Whether a column before counts the same numbers in another order, as of the neighbours that each has."""
        before = (tuple(counted(word)[1] for word in column) for column in self.columns[: self.at])
        return any(set(numbers) == set(self.numbers) and numbers != self.numbers for numbers in before)

    @cached_property
    def names(self) -> Mapping[int, Mapping[str, int]]:
        """By column, the number of each name, where each has one of its own."""
        found = {}
        for place, column in enumerate(self.columns):
            pairs = set(zip(map(str.lower, column), self.numbers, strict=True))
            own = dict(pairs)
            alone = len(own) == len(pairs) == self.size and (place != self.at or self.stem)
            if alone and not any(map(_FRACTION.fullmatch, own)):
                found[place] = own
        return found

    @cached_property
    def ranges(self) -> int:
        """How many ranges it is made of, 0 where it is made of lines or of items."""
        return self.columns[-1].count("0") if self.kind == RANGE else 0

    @cached_property
    def hosts(self) -> Hosts | None:
        """The hosts of those that it counts, if a column tells them."""
        found = [hosts for place in range(len(self.columns)) if (hosts := self._hosts_in(place))]
        return max(found, key=_likelihood, default=None)

    def _hosts_in(self, place: int) -> Hosts | None:
        of = dict(zip(self.numbers, self.columns[place], strict=True))
        if place == self.at or len(set(zip(self.numbers, self.columns[place], strict=True))) > len(of):
            return None
        named = self.nouns[place] in HOST_WORDS
        said = named or self.nouns[place] in BEFORE_HOSTS
        names = [of[number] for number in sorted(of)]
        distinct = len(set(names))
        plain = named and not any(name[0].isdecimal() for name in names)
        shared = 1 + sum(one != other for one, other in pairwise(names)) == distinct < len(of)
        in_ranges = self.kind == RANGE and shared and distinct > 1 and not names[0][0].isdecimal()
        if not plain and not in_ranges and not all(may_be_a_host(name) for name in set(names)):
            return None
        # learner-0 rank=0   gpu-3 of rank 3
        own_name = distinct > 1 and 2 * sum(counted(name)[1] == number for number, name in of.items()) > len(of)
        device = counted(names[0])[0] in DEVICES or singular(self.nouns[place]) in DEVICES
        if not said and (own_name or device or distinct == 1):
            return None
        return Hosts(place, of, said, shared and distinct > 1)


def _likelihood(hosts: Hosts) -> tuple[bool, ...]:
    return hosts.said, all(map(may_be_a_host, hosts.of.values())), hosts.shared


def may_be_a_host(name: str) -> bool:
    """By its form: elm-7, tg-lon-08, oil1; no c3."""
    if not _HOST.fullmatch(name):
        return False
    stem, number = counted(name)
    return number < 0 or len(stem) > 1 or number >= _LEAST_OF_ONE_LETTER


def listings_in(opening: Sequence[Row], rows: Sequence[Row]) -> list[Listing]:
    """All listings of the first lines of a job's logs, in their order; `rows` are all lines."""
    groups: dict[Key, list[tuple[Row, Sequence[str]]]] = defaultdict(list)
    for row in opening:
        for key, words in _entries(row):
            groups[key].append((row, words))
    found = [
        listing
        for key, group in groups.items()
        if len(group) > 1
        for part in _parts(key, group)
        for listing in _counting(str(key[0]), part, rows)
    ]
    return found + [listing for part in _heads(opening) for listing in _counting(HEADS, part, rows)]


def _heads(opening: Sequence[Row]) -> Iterator[_Entries]:
    """The heads of lines next to each other of one shape, as of a table whose last column is what each process said."""
    long = [row for row in opening if len(row.words) > HEAD]
    for shape, rows in groupby(long, key=lambda row: row.head):
        run = [(row, row.words[: len(shape)]) for row in rows]
        if len(run) > 1:
            yield from _runs(run)


def _entries(row: Row) -> Iterator[tuple[Key, Sequence[str]]]:
    """The entries that a line counts for: one for each member of a range, for each item of a row; else itself."""
    if len(row.words) > 1:
        ranges: dict[int, Words] = {}
        if not "".join(row.words).isalnum():
            ranges = {
                at: named for at, word in enumerate(row.words) if not word.isalnum() and (named := _several(row, at))
            }
        if ranges:
            yield from _continued(row, ranges) or _of_range(row, ranges)
            yield (ROWS, row.shape), row.words
        elif items := _items(row):
            yield from items
        else:
            yield (ROWS, row.shape), row.words


def _several(row: Row, at: int) -> Words:
    """The members of a range or a row of numbers; (2,3) is a place."""
    word = row.words[at]
    return () if row.signs[at].endswith("(") and word.count(",") == 1 else members(word)


def _continued(row: Row, ranges: Mapping[int, Words]) -> list[tuple[Key, Sequence[str]]]:
    """`gy-01 has 0-7, gy-02 has 8-15`, `lanes 0-3 on qs-1, lanes 4-7 on qs-2`: ranges of one line that go on where the
    one before ended, each with as many words behind it as the last has, and the others up to the next before it."""
    places = sorted(ranges)
    apart = {after - before for before, after in pairwise(places)}
    goes_on = all(
        counted(ranges[after][0])[1] == counted(ranges[before][-1])[1] + 1 for before, after in pairwise(places)
    )
    if len(apart) != 1 or not goes_on:
        return []
    width = apart.pop()
    before = max(width - (len(row.words) - places[-1]), 0)
    shift = -before if before <= places[0] else 0
    found: list[tuple[Key, Sequence[str]]] = []
    for at in places:
        words = row.words[at + shift : at + shift + width]
        for k, member in enumerate(ranges[at] if len(words) == width else ()):
            found.append(((RANGE, row.at), [*words[:-shift], member, *words[1 - shift :], str(k)]))
    return found


def _of_range(row: Row, ranges: Mapping[int, Words]) -> Iterator[tuple[Key, Sequence[str]]]:
    """`places 4-6 bz-11: stoker-0 stoker-1 stoker-2` is three entries, and the last word of each its place there."""
    size = max(map(len, ranges.values()))
    ranges = {at: named for at, named in ranges.items() if len(named) == size}
    words = row.words
    behind = len(words) - 1 - max(ranges)
    names = words[-size:] if behind >= size > 1 and len(set(words[-size:])) == size else []
    rest = words[: -size or None] if names else words
    for place in range(size):
        own = [ranges[at][place] if at in ranges else word for at, word in enumerate(rest)]
        yield (RANGE, len(rest) + bool(names), tuple(map(str, ranges))), [*own, *names[place : place + 1], str(place)]


def _items(row: Row) -> list[tuple[Key, Sequence[str]]]:
    """`0=wa@dlm-70 1=wb@dlm-71`, `Argo (0), Kon-Tiki (1)`: numbers that count on at one distance, each with the words
    between, behind what stands before them all."""
    words = row.words
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    numbered = [(at, stem, number) for at, (stem, number) in enumerate(map(counted, words)) if number >= 0]
    if len(numbered) < len("01"):
        return []
    for at, stem, number in numbered:
        places[stem, number].append(at)
    best: tuple[list[int], int] = ([], 0)
    for at, stem, number in numbered:
        for after in places.get((stem, number + 1), ()):
            apart = after - at
            if 0 < apart <= _FARTHEST:
                chain = [at]
                while (then := chain[-1] + apart) in places.get((stem, number + len(chain)), ()):
                    chain.append(then)
                best = max(best, (chain, apart), key=lambda found: len(found[0]))
    chain, apart = best
    before = 0 if not chain or chain[-1] + apart <= len(words) else apart - 1
    if len(chain) < 2 or chain[0] < before or not _alike(row, chain, apart, before):
        return []
    key: Key = (ITEMS, chain[0] - before, apart, before)
    head = words[: chain[0] - before]
    return [(key, [*head, *words[at - before : at - before + apart], str(k)]) for k, at in enumerate(chain)]


def _alike(row: Row, chain: Sequence[int], apart: int, before: int) -> bool:
    """Whether the same signs stand within each of the items; two alone may be so by chance, and end the line."""
    one, other = (at - before for at in chain[-2:])
    within = range(1, min(apart, len(row.words) - other))
    signs = all(row.signs[one + k].strip() == row.signs[other + k].strip() for k in within)
    return signs and (len(chain) > 2 or len(row.words) - chain[-1] <= apart)


def _parts(key: Key, group: _Entries) -> Iterator[_Entries]:
    """A group of entries, those of it that share all plain words, of them those that share all stems, and those that
    follow each other."""
    yield group
    by_words, by_stems = _alike_in(group, plain), _alike_in(group, _stem)
    if len(by_words) > 1:
        yield from (part for part in by_words if len(part) > 1)
    if len(by_stems) > len(by_words):
        yield from (part for part in by_stems if len(part) > 1)
    if key[0] == ROWS and len(by_words) > 1:
        yield from _runs(group)


def _alike_in(group: _Entries, form: Callable[[str], str]) -> Sequence[_Entries]:
    """The entries of a group apart by the forms of their words."""
    found: dict[Words, list[tuple[Row, Sequence[str]]]] = defaultdict(list)
    for entry in group:
        found[tuple(map(form, entry[1]))].append(entry)
    return list(found.values())


def _stem(word: str) -> str:
    return counted(word)[0] or plain(word)


def _runs(group: _Entries) -> Iterator[_Entries]:
    """The entries of a group that are of lines next to each other."""
    start = 0
    for at in range(1, len(group) + 1):
        if at == len(group) or group[at][0].at != group[at - 1][0].at + 1:
            if at - start > 1:
                yield group[start:at]
            start = at


def _counting(kind: str, part: _Entries, rows: Sequence[Row]) -> list[Listing]:
    """The listings that entries are, one for each column that counts them; a whole one before all others."""
    columns = tuple(zip(*(words for _, words in part), strict=True))
    nouns: Words = ()
    found = []
    for at, column in enumerate(columns):
        if counted(column[0])[1] < 0 or (kind in {RANGE, ITEMS} and at == len(columns) - 1):
            continue
        stems, numbers = zip(*map(counted, column), strict=True)
        distinct = len(set(numbers))
        if min(numbers) < 0 or distinct < 2 or len(set(stems)) > 1 or len(part) > _MOST_REPEATED * distinct:
            continue
        if len(part) > distinct and _is_one_of_host(column, columns):
            continue
        nouns = nouns or _nouns(kind, part, columns, rows)
        listing = Listing(kind, at, numbers, columns, nouns, part[0][0].at, _addresses(kind, part, at, numbers))
        given = listing.hosts is not None and listing.ranges > len(set(listing.hosts.of.values()))
        if given or listing.noun in STEPS:
            continue  # What each process of a host was given, or what goes on in time.
        if (
            listing.whole
            or listing.noun in PROCESSES
            or (kind == ITEMS and listing.goes_on and distinct > _FEWEST_ITEMS)
        ):
            found.append(listing)
    most = max((listing.size for listing in found), default=0)
    return [listing for listing in found if listing.whole and listing.size == most] or found


def _addresses(kind: str, part: _Entries, at: int, numbers: Sequence[int]) -> Mapping[str, int]:
    """The number of each address, of the first two joined words that are another in each row."""
    row = part[0][0]
    places = [place for place in range(len(row.words) - 1) if at not in (place, place + 1) and joined(row, place)]
    for place in places if kind == ROWS else ():
        found = {joined(row, place): number for (row, _), number in zip(part, numbers, strict=True)}
        columns = [{row.lower[one] for row, _ in part} for one in (place, place + 1)]
        if len(found) == len(set(numbers)) > max(map(len, columns)):
            return found
    return {}


def _is_one_of_host(column: Words, columns: Sequence[Words]) -> bool:
    """Whether numbers begin anew on each host: `host=bn-12 slot=5`."""
    rows = len(set(zip(*columns, strict=True)))
    hosts = (other for other in columns if other is not column and len(set(other)) > 1)
    return any(len(set(zip(column, host, strict=True))) == rows and all(map(may_be_a_host, host)) for host in hosts)


def _nouns(kind: str, part: _Entries, columns: Sequence[Words], rows: Sequence[Row]) -> Words:
    """What stands above each column in a header, else the one word before it."""
    before = [column[0].lower() if len(set(column)) == 1 else "" for column in columns]
    nouns = ["", *(counted(word)[0] or word for word in before[:-1])]
    header = _header(part[0][0], rows)
    wanted = len(columns) - (kind in {RANGE, ITEMS})
    if len(header) == wanted or (kind == HEADS and wanted < len(header)):
        nouns[:wanted] = header[:wanted]
    return tuple(nouns)


def _header(first: Row, rows: Sequence[Row]) -> Sequence[str]:
    """The words above a table's first row, where they are its header; a line without words may stand between."""
    above = (rows[at] for at in range(first.at - 1, first.at - 3, -1) if at >= 0)
    header = next((row.lower for row in above if row.words), [])
    # What the row itself begins with names no column: `roster: shard, pid, host` above `roster: 0 81533 gno-09`.
    own = [word for word, below in zip_longest(header, first.lower[: len(header)]) if word != below]
    return header if sum(map(str.isalpha, own)) >= len(own) - 1 else []
