"""Which process and which host a rank is, as a launcher lists it.

`rank 4 host c1s1n2 pid 87831 chip 0`, `task=37 node=hd-a04-02 pid=52067`, `2     46403   ltr-b04-021   2`,
`ranks: 0=wa@dlm-70 1=wb@dlm-71`, `worker 4 up, group 2` said by process 13370: a listing is lines of one form. In one
column of them stands a number that each line has for itself, which counts the ranks. The columns beside it tell by
which word a rank speaks later (its process, its unit), and on which host it is.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TypeVar

from logdiag.judge.speakers import NO_NODES
from logdiag.model import Line
from logdiag.scan.survey import Opening

__all__ = ["Placement", "placement_in"]

# ltr-b04-021   t-6e69   r-04   46403   hd-a04-02.local
_WORD = re.compile(r"[^\W_][\w.]*(?:-[\w.]+)*")
_HOST = re.compile(r"(?=.*[\d-])(?P<stem>[A-Za-z]{2,}|[A-Za-z](?=\d+[A-Za-z]))[A-Za-z\d.]*(?:-[A-Za-z\d.]+)*")
_COUNTED = re.compile(r"(?P<stem>[A-Za-z]{0,12})[-_.]?(?P<number>\d{1,5})")
# ranks: 0=wa@dlm-70 1=wb@dlm-71   hosts: shard0=nbx50 shard1=nbx51
_ITEM = re.compile(r"(?<!\S)(?=[a-z]{0,12}\d{1,5}[=:][A-Za-z])")
_PROCESSES = frozenset(["rank", "task", "worker", "replica", "proc", "process", "member", "lane", "r", "w"])
_HOSTS = frozenset(["on", "at", "to", "host", "node", "hostname", "machine"])
_COUNTERS = ["step", "epoch", "iter", "iteration", "round", "batch", "attempt", "try"]
_PARTS = ["line", "chunk", "part", "layer", "block", "pid"]
_NO_RANKS = frozenset([*_COUNTERS, *_PARTS])
# map 0..7=mc1-node00   bw0273   procs    4 -    7   cores c00..c03   Ranks 8 to 15: node-2
_RANGE = re.compile(r"(?<![\w.])[a-z]{0,3}(\d{1,6}) ?(?:\.\.|-|to) {0,6}[a-z]{0,3}(\d{1,6})(?![\w.])")
_MOST_LINES, _MOST_RANKS = 4000, 100_000
_HEAD, _LONGEST = 100, 400
_SHORTEST_WORD, _SHORT_STEM = 3, 2
_FEWEST = 2  # rows
# Of a column's words so many must be heard of elsewhere, each on so many lines.
_SHARE_HEARD, _HEARD = 0.5, 2

Words = tuple[str, ...]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Listing:
    """Lines of one form, as columns of words; `form` has the words that all rows share. `ranks` is the column of the
    numbers that count the ranks, `at` its place, and `size` how many ranks it lists."""

    form: Words
    columns: tuple[Words, ...]
    at: int
    ranks: tuple[int, ...]
    size: int

    @property
    def says_rank(self) -> bool:
        """Whether it calls them so."""
        return self.at > 0 and self.form[self.at - 1] == "rank"

    @property
    def whole(self) -> bool:
        """Whether it lists all ranks from the first on."""
        return min(self.ranks) <= 1 and self.size == max(self.ranks) - min(self.ranks) + 1

    @property
    def others(self) -> list[int]:
        """The places of the columns beside that of the ranks."""
        return [at for at in range(len(self.columns)) if at != self.at]

    def one_each(self, column: Words) -> bool:
        """Whether each rank has one word in a column."""
        return len(set(zip(self.ranks, column, strict=True))) == self.size

    def tells_apart(self, column: Words) -> bool:
        """Whether each rank has a word of its own in a column."""
        return len(set(column)) == self.size and self.one_each(column)


@dataclass(frozen=True, slots=True)
class Placement:
    """`ranks` by a word that only one rank has, `seats` by a host and a number on it, `hosts` by rank; `counting` is
    the place of the rank's number by the form of lines that count them, `listed` are those numbers."""

    ranks: Mapping[str, int] = field(default_factory=dict)
    seats: Mapping[tuple[str, str], int] = field(default_factory=dict)
    hosts: Mapping[int, str] = field(default_factory=dict)
    counting: Mapping[Words, int] = field(default_factory=dict)
    listed: frozenset[int] = frozenset()

    def rank_of(self, line: Line) -> int | None:
        """The rank of which a line is, by its place in a listing, else by the first of its words that were listed; None
        where nothing tells."""
        words = _row(line)
        if (at := self.counting.get(_form(words))) is not None and _number(words[at]) in self.listed:
            return _number(words[at])
        for word, after in pairwise((*words, "")):
            rank = self.seats.get((word, after), self.ranks.get(word))
            rank = self.ranks.get(word.partition(".")[0]) if rank is None else rank  # actor5.boot: of actor5
            if rank is not None:
                return rank
        return None


def placement_in(lines: Sequence[Line], openings: Iterable[Opening] = ()) -> Placement:
    """What the first lines of the logs and the kept ones list; of several listings that which says rank
    counts, then that of the most, and of those the first."""
    first = list(islice((line for opening in openings for line in opening.lines()), _MOST_LINES))
    read = {(line.stream, line.position) for line in first}
    looked_at = [*first, *(line for line in lines if (line.stream, line.position) not in read)][:_MOST_LINES]
    heard = _heard_in(looked_at)
    listings = sorted(_listings(looked_at), key=lambda listing: (not listing.says_rank, -listing.size))
    ranks: dict[str, int] = {}
    seats: dict[tuple[str, str], int] = {}
    hosts: dict[int, str] = {}
    counting: dict[Words, int] = {}
    listed: set[int] = set()
    for listing in listings:
        if 2 * listing.size < listings[0].size:
            break
        own = listing.columns[listing.at]
        counting.setdefault(listing.form, listing.at)
        listed.update(listing.ranks)
        at = _hosts_of(listing)
        for place in [listing.at, *listing.others]:
            column = listing.columns[place]
            # Ranks that are not listed may run on a host too; `ring closed, left c01, right c03` names others.
            shared = (place == at and not listing.whole) or (place != listing.at and not set(column).isdisjoint(own))
            if listing.tells_apart(column) and _is_heard(column, heard) and not shared:
                _add(ranks, column, listing.ranks)
        if at is not None:
            _add(hosts, listing.ranks, listing.columns[at])
            seated = (tuple(zip(listing.columns[at], listing.columns[other], strict=True)) for other in listing.others)
            for pairs in seated:
                if all(seat.isdigit() for _, seat in pairs) and len(set(pairs)) == listing.size:
                    _add(seats, pairs, listing.ranks)
                    break
    return Placement(ranks, seats, _in_ranges(looked_at) or hosts, counting, frozenset(listed))


def _add(to: dict[Key, Value], keys: Iterable[Key], values: Iterable[Value]) -> None:
    for key, value in zip(keys, values, strict=True):
        to.setdefault(key, value)


def _heard_in(lines: Iterable[Line]) -> Counter[str]:
    """How many lines begin with each word, or with a name that a dot joins to more."""
    heard: Counter[str] = Counter()
    for line in lines:
        words = set(_words(line.text[:_HEAD]))
        heard.update(words | {word.partition(".")[0] for word in words})
    return heard


def _listings(lines: Iterable[Line]) -> Iterator[_Listing]:
    """The listings among all lines that share a form."""
    found: dict[Words, list[Words]] = defaultdict(list)
    headers: dict[Words, Words] = {}
    for above, form, row in _rows(lines):
        headers.setdefault(form, above)
        found[form].append(row)
    for form, rows in found.items():
        columns = tuple(zip(*rows, strict=True))
        header = [word.lower() for word in headers[form]]
        place = next((at for at, word in enumerate(header) if word in _PROCESSES), -1)
        is_table = len(header) == len(form) and not any(form) and place >= 0
        counting = place if is_table else _counting(form, columns)
        ranks = tuple(map(_number, columns[counting])) if counting is not None and len(rows) >= _FEWEST else (-1,)
        if counting is not None and -1 not in ranks:
            yield _Listing(form, columns, counting, ranks, len(set(ranks)))


def _rows(lines: Iterable[Line]) -> Iterator[tuple[Words, Words, Words]]:
    """The row above, the form and the words of each line; a line of many items counts as so many rows, and one has
    several forms where a host may have a plain word for a name: `slot 0  rowan  pid 28329`."""
    above: Words = ()
    for line in lines:
        items = _ITEM.split(line.message[:_LONGEST])
        if len(items) > _FEWEST:
            for row in map(_words, items[1:]):
                yield above, ("",) * len(row), row
        else:
            row = _row(line)
            form = _form(row)
            yield above, form, row
            for at in range(1, len(form)):
                if form[at] and not form[at - 1]:
                    named = (*form[:at], "", *form[at + 1 :])
                    yield above, named, row
        above = row


def _in_ranges(lines: Iterable[Line]) -> dict[int, str]:
    """The host of each rank, where rows give each host a range of them that goes on where the one before ended."""
    found: dict[Words, list[tuple[str, int, int]]] = defaultdict(list)
    for line in lines:
        told = _RANGE.search(line.message)
        rest = line.message[: told.start()] + line.message[told.end() :] if told else ""
        hosts = [word for word in _words(rest) if _may_be_a_host(word)]
        if told and len(hosts) == 1:
            found[_form(_words(rest))].append((hosts[0], int(told[1]), int(told[2])))
    for rows in found.values():
        follow = all(one[2] + 1 == other[1] for one, other in pairwise(rows))
        if len(rows) >= _FEWEST and follow and rows[0][1] <= 1 and rows[-1][2] < _MOST_RANKS:
            return {rank: host for host, low, high in rows for rank in range(low, high + 1)}
    return {}


def _words(text: str) -> Words:
    return tuple(_WORD.findall(text, 0, _LONGEST))


def _row(line: Line) -> Words:
    """The words of a line without its clock, whose numbers count too."""
    return _words(line.text.replace(line.clock, "", 1) if line.clock else line.text)


def _form(words: Words) -> Words:
    """The words that lines of one form share."""
    return tuple("" if _varies(word) else word.lower() for word in words)


def _varies(word: str) -> bool:
    return not word.isalpha() and ("-" in word or any(sign.isdigit() for sign in word))


def _number(word: str) -> int:
    counted = _COUNTED.fullmatch(word)
    return int(counted["number"]) if counted else -1


def _counting(form: Words, columns: Sequence[Words]) -> int | None:
    """The column that counts ranks, one a row: behind a word for a process, else the first of bare numbers, else the
    first of numbered names that counts from 0 or 1 without a gap, else any numbers in rows that name hosts."""
    rows = len(set(zip(*columns, strict=True)))
    hosted = any(form[at] in _HOSTS and not form[at + 1] for at in range(len(form) - 1))
    found: list[tuple[int, int]] = []
    for at, column in enumerate(columns):
        words = set(column) if not form[at] and rows >= _FEWEST else set()
        # Most columns have too few words, or begin with one that is no number.
        if len(words) < rows or _number(column[0]) < 0:
            continue
        numbers = set(map(_number, words))
        if -1 in numbers or len(numbers) != rows:
            continue
        stem = (_COUNTED.fullmatch(column[0]) or {"stem": ""})["stem"].lower()
        before = stem or (form[at - 1] if at else "")
        first = 1 if len(stem) <= _SHORT_STEM else 0  # VEGA01 and VEGA02 are hosts
        whole = min(numbers) <= first and rows == max(numbers) - min(numbers) + 1
        if before in _PROCESSES:
            found.append((0, at))
        elif whole and before not in _NO_RANKS:
            found.append((2 if stem else 1, at))
        elif before and not stem and hosted and before not in _NO_RANKS | NO_NODES:
            found.append((3, at))
    return min(found)[1] if found else None


def _is_heard(column: Words, heard: Mapping[str, int]) -> bool:
    """Whether most of a column's words begin other lines, and none is a small number."""
    words = Counter(column)
    elsewhere = sum(heard.get(word, 0) - count >= _HEARD for word, count in words.items())
    return all(len(word) >= _SHORTEST_WORD or not word.isdigit() for word in words) and (
        elsewhere >= _SHARE_HEARD * len(words)
    )


def _hosts_of(listing: _Listing) -> int | None:
    """The column that names the host of each rank: those on one host follow each other. The only host of all stands
    behind a word for one."""
    for behind_a_word in (True, False):
        for at in listing.others:
            column = listing.columns[at]
            said = at > 0 and listing.form[at - 1] in _HOSTS
            if said is not behind_a_word or not listing.one_each(column):
                continue
            if not all(_may_be_a_host(word, said=said) for word in column):
                continue
            if not said and tuple(map(_number, column)) == listing.ranks:
                continue  # learner-0 rank=0: its own name
            hosts = [host for _, host in sorted(zip(listing.ranks, column, strict=True))]
            changes = 1 + sum(one != other for one, other in pairwise(hosts))
            if changes == len(set(hosts)) and (said or changes > 1):
                return at
    return None


def _may_be_a_host(word: str, *, said: bool = False) -> bool:
    """By its form; what is called like a device, as gpu-04, only where the word before it has said so."""
    found = _HOST.fullmatch(word)
    return found is not None and (found["stem"].lower() not in NO_NODES or (said and "-" in word))
