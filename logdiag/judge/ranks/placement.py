"""Which process and which host a rank is, as a launcher lists it.

`rank 4 host c1s1n2 pid 87831 chip 0`, `task=37 node=hd-a04-02 pid=52067`, `2     46403   ltr-b04-021   2`,
`ranks: 0=wa@dlm-70 1=wb@dlm-71`, `ship 2 is Corvo, moored at clin-b`, `worker 4 up, group 2` said by process 13370: a
listing is lines of one form. In one column of them stands a number that each line has for itself, which counts the
ranks. The columns beside it tell by which word a rank speaks later (its name, its process, its unit), and on which host
it is.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from typing import TypeVar

from logdiag.judge.ranks.speakers import NO_NODES, PROCESSES
from logdiag.model import Line

# ltr-b04-021   t-6e69   r-04   46403   hd-a04-02.local   (2,3)
_WORD = re.compile(r"[^\W_][\w.]*(?:-[\w.]+)*|\(\d{1,4},\d{1,4}\)")
_HOST = re.compile(r"(?=.*[\d-])(?P<stem>[A-Za-z]{2,}|[A-Za-z](?=\d+[A-Za-z]))[A-Za-z\d.]*(?:-[A-Za-z\d.]+)*")
_COUNTED = re.compile(r"(?P<stem>[A-Za-z]{0,12})[-_.]?(?P<number>\d{1,5})")
# ranks: 0=wa@dlm-70 1=wb@dlm-71   hosts: shard0=nbx50 shard1=nbx51   {"0": ["nbx50", 1, 3918], "1": ["nbx51", ...
_ITEM = re.compile(r"(?<![\w.=:-])(?=[a-z]{0,12}\d{1,5}(?:=|: ?|\": ?\[?\")[A-Za-z])")
# Argo (0), Kon-Tiki (1), Fram (2)
_NUMBERED_NAME = re.compile(r"(?P<name>[A-Za-z][\w.-]*) ?\((?P<number>\d{1,5})\)")
# qs-r2n07#3 I1121 16:52:22.131192  45545 stone.cc:88] card 3   (the fourth process there)
_ONE_OF_HOST = re.compile(r"^\W{0,2}(?P<host>[A-Za-z][\w.-]*)[#/](?P<number>\d{1,2})(?![\w.])")
_HOMES = frozenset(["on", "host", "node", "machine"])
_HOSTS = _HOMES | frozenset(["at", "to", "hostname"])
_COUNTERS = ["step", "epoch", "iter", "iteration", "round", "batch", "attempt", "try"]
_PARTS = ["line", "chunk", "part", "layer", "block", "pid"]
_DEVICES = ["dev", "device", "gpu", "card", "chip", "npu", "cuda", "accelerator"]
_NO_RANKS = frozenset([*_COUNTERS, *_PARTS, *_DEVICES])
_SHORT = {"r": "rank", "w": "worker"}
_SEATS = frozenset([*_DEVICES, "slot"])
# map 0..7=mc1-node00   bw0273   procs    4 -    7   cores c00..c03   Ranks 8 to 15: node-2   PEs 4,5,6,7
# lanes 6 through 11
_SPAN = re.compile(
    r"(?<![\w.-])(?P<stem>[a-z]{0,3})(?P<first>\d{1,6}) ?(?:\.\.|-|to|through) {0,6}[a-z]{0,3}(?P<last>\d{1,6})"
    r"(?![\w.]|-\d)"
    r"|(?<![\w.-])(?!(?<=\()\d+,\d+\))(?P<each>\d{1,9}(?:,\d{1,9}){1,4096})(?![\w.])"
)
# 18h12m49s   00:14
_CLOCK = re.compile(r"\d\d?[hH.:]\d\d")
# .000   ,123456   (what a clock leaves)
_FRACTION = re.compile(r"^[.,]\d+")
_HOLE, _SEVERAL, _OF_ROW = "several1", "several", "of its row"
_MOST_LINES, _MOST_SPANS, _MOST_IN_A_ROW = 4000, 64, 4096
_HEAD_OF_PAIRS, _HEAD, _LONGEST, _MOST_WORDS = 6, 24, 1000, 8192
_SHORTEST_WORD, _SHORT_STEM = 3, 2
_FEWEST = 2  # rows
_MOST_NAMES = 2  # in a row
_FIRST_OF_JULIA = 2
_MOST_LEFT_OUT = 256  # of so many ranks one is listed; sparser numbers are those of processes
# Of a column's words so many must be heard of elsewhere, each on so many lines.
_SHARE_HEARD, _HEARD = 0.5, 2

Words = tuple[str, ...]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Listing:
    """Lines of one form, as columns of words; `nouns` has what stands before each column, or above it in a table.
    `ranks` is the column of the numbers that count the ranks, `at` its place, `size` how many ranks it lists, and
    `hosts` the place of the column that names the host of each."""

    form: Words
    nouns: Words
    columns: tuple[Words, ...]
    at: int
    ranks: tuple[int, ...]
    size: int
    hosts: int | None = None

    @property
    def noun(self) -> str:
        """What it calls them."""
        noun = _stem(self.columns[self.at][0]) or self.nouns[self.at]
        return _SHORT.get(noun, noun)

    @property
    def names_hosts(self) -> bool:
        """Whether a word says that a column is one of hosts."""
        return self.hosts is not None and self.nouns[self.hosts] in _HOSTS

    @property
    def weight(self) -> tuple[int, int]:
        """How much it counts among several, and then its size. Two rows may be alike by chance."""
        many = self.size > _FEWEST
        alone = not _stem(self.columns[self.at][0])
        says_rank, says_host = self.nouns[self.at] == "rank", many and self.names_hosts
        marks = 4 * says_rank + 3 * says_host + 2 * (many and self.whole) + (self.noun in PROCESSES) + alone
        return marks, self.size

    @property
    def whole(self) -> bool:
        """Whether it lists all ranks from the first on."""
        return min(self.ranks) <= 1 and self.size == max(self.ranks) - min(self.ranks) + 1

    def covers(self, other: _Listing) -> bool:
        """Whether another lists some of the same ranks, and others only under the same name."""
        more = set(other.ranks).difference(self.ranks)
        return 2 * other.size >= self.size and (not more or other.noun == self.noun)

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
    """`ranks` by a word that only one rank has, `seats` by a host and a device or number on it, `hosts` by rank;
    `counting` is the place of the rank's number by the form of lines that count them, `listed` are those numbers."""

    ranks: Mapping[str, int] = field(default_factory=dict)
    seats: Mapping[tuple[str, str], int] = field(default_factory=dict)
    hosts: Mapping[int, str] = field(default_factory=dict)
    counting: Mapping[Words, int] = field(default_factory=dict)
    listed: frozenset[int] = frozenset()

    def rank_of(self, line: Line) -> int | None:
        """The rank of which a line is, by its place in a listing, else by the first of its words that were listed; None
        where nothing tells."""
        words = _row(line).words
        if (at := self.counting.get(_form(words))) is not None and _number(words[at]) in self.listed:
            return _number(words[at])
        for word, after in pairwise((*words, "")):
            name, _, part = word.partition(".")  # actor5.boot: of actor5   tc0405.0: on seat 0 there
            known = (
                self.seats.get((word, after)),
                self.ranks.get(word),
                self.seats.get((name, part)),
                self.ranks.get(name),
            )
            if (rank := next((rank for rank in known if rank is not None), None)) is not None:
                return rank
        return self._seated(words)

    def named_in(self, line: Line) -> set[int]:
        """The ranks that a line's words name, by what was listed of them."""
        return {self.ranks[word] for word in _row(line).words if word in self.ranks}

    def _seated(self, words: Words) -> int | None:
        """The only rank at a device that a line names beside its host: `node=elm-7 ev=poll dev=3`, `elm-7 [gpu 3]`."""
        named = {word for word in words if not word.isdigit()}
        for word, after in pairwise((*words, "")):
            stem = word.lower().rstrip("0123456789")
            if stem in _SEATS:
                named.add(word[len(stem) :] or after)
        found = {self.seats[place, seat] for place in words for seat in named if (place, seat) in self.seats}
        return found.pop() if len(found) == 1 else None


def placement_in(lines: Sequence[Line], first: Sequence[Line] = ()) -> Placement:
    """What the first lines of the logs and the kept ones list. Of several listings that counts which says rank, or else
    names hosts, and of those the longest; others add what they say of the same ranks."""
    read = {(line.stream, line.position) for line in first}
    looked_at = [*first, *(line for line in lines if (line.stream, line.position) not in read)][:_MOST_LINES]
    rows = [_row(line) for line in looked_at]
    if (counted := _host_by_host(rows)).seats:
        return counted
    heard = _heard_in(rows)
    heads = {pair for row in rows for pair in pairwise(row.words[:_HEAD_OF_PAIRS])}
    forms = _forms(rows)
    found = [(listing, _own_words(listing, heard)) for listing in (*_blocks(rows), *_listings(forms))]
    telling = [(listing, own) for listing, own in found if _tells(listing, own)]
    telling.sort(key=lambda told: told[0].weight, reverse=True)
    ranks: dict[str, int] = {}
    seats: dict[tuple[str, str], int] = {}
    hosts: dict[int, str] = {}
    counting: dict[Words, int] = {}
    for listing, own in telling:
        if not telling[0][0].covers(listing):
            continue
        counting.setdefault(listing.form, listing.at)
        for column in own:
            _add(ranks, column, listing.ranks)
        if listing.hosts is not None:
            _add(hosts, listing.ranks, listing.columns[listing.hosts])
        for pairs in _seats_of(listing, heads):
            _add(seats, pairs, listing.ranks)
    for listing, _ in found if not hosts else ():
        if only := _only_host(listing):
            _add(hosts, listing.ranks, only)
    homes = _homes(forms)
    hosts = {rank: homes.get(host, host) for rank, host in hosts.items()}
    for word, rank in ranks.items():
        if word in homes:
            hosts.setdefault(rank, homes[word])
    return Placement(ranks, seats, hosts, counting, frozenset(telling[0][0].ranks if telling else ()))


def _tells(listing: _Listing, own: Sequence[Words]) -> bool:
    """Whether it is a listing of processes, and tells something of them. One that leaves some out calls them so, or by
    words that are heard, and says where they are."""
    if listing.whole or listing.noun == "rank":
        return bool(own) or listing.hosts is not None or any(listing.nouns[at] in PROCESSES for at in listing.others)
    return listing.hosts is not None and (listing.noun in PROCESSES or (bool(own) and listing.names_hosts))


def _host_by_host(rows: Sequence[_Row]) -> Placement:
    """The ranks by host and number there, and their hosts, where lines begin with both, and what stands above the first
    of them lists the hosts and says how many there are, of how many each: `4 hosts of 8 stones`."""
    found = [_ONE_OF_HOST.match(row.text) for row in rows]
    spoken = {(own["host"], int(own["number"])) for own in found if own and may_be_a_host(own["host"])}
    above = [row.words for row, _ in zip(rows, takewhile(lambda own: own is None, found), strict=False)]
    spoke = {host for host, _ in spoken}
    listed = list(dict.fromkeys(word for words in above for word in words if word in spoke))
    each = 1 + max((number for _, number in spoken), default=0)
    stated = any({str(len(listed)), str(each)}.issubset(words) for words in above)
    if not stated or len(listed) < max(_FEWEST, len(spoke)):
        return Placement()
    seats = {(host, str(number)): at * each + number for at, host in enumerate(listed) for number in range(each)}
    return Placement(seats=seats, hosts={rank: host for (host, _), rank in seats.items()})


def _add(to: dict[Key, Value], keys: Iterable[Key], values: Iterable[Value]) -> None:
    for key, value in zip(keys, values, strict=True):
        to.setdefault(key, value)


def _own_words(listing: _Listing, heard: Mapping[str, int]) -> list[Words]:
    """The columns of the words by which each rank speaks."""
    own = listing.columns[listing.at]
    found: list[Words] = []
    for place in [listing.at, *listing.others]:
        column = listing.columns[place]
        # Ranks that are not listed may run on a host too; `ring closed, left c01, right c03` names others.
        shared = (place == listing.hosts and not listing.whole) or (
            place != listing.at and not set(column).isdisjoint(own)
        )
        # cards g8..g15 are in nest hx-41: nothing else is called so
        lettered = place == listing.at and listing.form[0] == _SEVERAL and listing.whole and bool(_stem(column[0]))
        known = lettered or _is_heard(column, heard)
        if listing.tells_apart(column) and known and not shared:
            found.append(column)
    return found


def _seats_of(listing: _Listing, heads: Collection[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """What tells a rank in two words: a device and its number, or a host and a device or number on it; its place among
    those of a host only where `heads` has most such pairs, with which lines begin."""
    for place in listing.others:
        names = listing.columns[place]
        if listing.nouns[place] in _SEATS | PROCESSES and names[0].isdigit() and listing.tells_apart(names):
            yield [(listing.nouns[place], name) for name in names]
        if not all(map(may_be_a_host, names)) or (place != listing.hosts and listing.tells_apart(names)):
            continue
        for seat in sorted(listing.others, key=lambda at: listing.nouns[at] not in _SEATS):
            pairs = list(zip(names, listing.columns[seat], strict=True))
            if listing.nouns[seat] == _OF_ROW:
                counted = 2 * sum(pair in heads for pair in pairs) >= len(pairs)
            else:
                counted = seat == place + 1 or listing.nouns[seat] in _SEATS
            if counted and all(_number(number) >= 0 for _, number in pairs) and len(set(pairs)) == listing.size:
                yield pairs
                break


def _homes(forms: Mapping[Words, _Rows]) -> dict[str, str]:
    """The host of each name that a row says to be on one: `mt-6t4 placed on elm-7`."""
    homes: dict[str, str] = {}
    for form, rows in forms.items():
        columns = tuple(zip(*rows.words, strict=True))
        for at in range(2, len(form)):
            hosts = columns[at]
            if form[at - 1] not in _HOMES or form[at] or not all(may_be_a_host(word, said=True) for word in hosts):
                continue
            for names in columns[at - 1 :: -1]:
                pairs = set(zip(names, hosts, strict=True))
                if len(pairs) == len(set(names)) >= _FEWEST and all(may_be_a_host(name) for name in names):
                    _add(homes, names, hosts)
                    break
    return homes


def _heard_in(rows: Iterable[_Row]) -> Counter[str]:
    """How many lines begin with each word, or with a name that a dot joins to more."""
    heard: Counter[str] = Counter()
    for row in rows:
        words = set(row.words[:_HEAD])
        heard.update(words.union(word.partition(".")[0] for word in words if "." in word))
    return heard


@dataclass(slots=True)
class _Rows:
    """The rows of one form, and the row above the first of them."""

    above: Words
    words: list[Words] = field(default_factory=list)


def _forms(rows: Sequence[_Row]) -> dict[Words, _Rows]:
    """All rows by their form; a line of many items counts as so many rows. Rows of forms that differ in one word have a
    form too, where a host may have a plain word for a name: `slot 0  rowan  pid 28329`."""
    found: dict[Words, _Rows] = {}
    above: Words = ()
    for row in rows:
        items = _ITEM.split(row.text)
        if len(items) > _FEWEST:
            for words in map(_words, items[1:]):
                found.setdefault(("",) * len(words), _Rows(above)).words.append(words)
        else:
            found.setdefault(_form(row.words), _Rows(above)).words.append(row.words)
        above = row.words
    alike: dict[Words, list[_Rows]] = defaultdict(list)
    for form, of_form in found.items():
        for at in range(1, len(form)):
            if form[at] and not form[at - 1]:
                opened = (*form[:at], "", *form[at + 1 :])
                alike[opened].append(of_form)
    for form, run in _runs(rows):
        found.setdefault(form, _Rows(())).words.extend(run)
    for form, several in alike.items():
        if len(several) >= _FEWEST:
            of_form = found.setdefault(form, _Rows(several[0].above))
            of_form.words.extend(words for other in several for words in other.words)
    return found


def _runs(rows: Sequence[_Row]) -> Iterator[tuple[Words, list[Words]]]:
    """Rows that follow each other, are numbered in order, and differ in one or two plain words: the names of processes.
    `ship 0 is Alma, moored at ward-a1`, `start amber no 0 at pool-04 tray 0 pid 6621`."""
    run: list[Words] = []
    for row in (*(row.words for row in rows), ()):
        if run and len(row) == len(run[-1]) and _differ(row, run[-1]):
            run.append(row)
            continue
        columns = tuple(zip(*run, strict=True)) if len(run) > _FEWEST else ()
        if any(_number(column[0]) in {0, 1} and _follow([column]) for column in columns):
            yield tuple(_fixed(column[0]) if len(set(map(_fixed, column))) == 1 else "" for column in columns), run
        run = [row]


def _differ(row: Words, above: Words) -> bool:
    """Whether two rows are of one form but for one or two plain words, and not of the very same."""
    pairs = [(one, other) for one, other in zip(map(_fixed, row), map(_fixed, above), strict=True) if one != other]
    return 0 < len(pairs) <= _MOST_NAMES and all(one and other for one, other in pairs)


def _listings(forms: Mapping[Words, _Rows]) -> Iterator[_Listing]:
    """The listings among all lines that share a form."""
    for form, rows in forms.items():
        if len(rows.words) < _FEWEST:
            continue
        columns = tuple(zip(*rows.words, strict=True))
        header = tuple(word.lower() for word in rows.above)
        place = next((at for at, word in enumerate(header) if word in PROCESSES), -1)
        is_table = len(header) == len(form) and place >= 0 and all(map(_fits_header, form, header))
        counting = place if is_table else _counting(form, columns)
        if counting is None:
            columns = _of_one_stem(rows.words)
            counting = _counting(form, columns) if columns else None
        ranks = tuple(map(_number, columns[counting])) if counting is not None else (-1,)
        if counting is not None and -1 not in ranks:
            nouns = header if is_table else ("", *form[:-1])
            yield _with_hosts(_Listing(form, nouns, columns, counting, ranks, len(set(ranks))))


def _of_one_stem(rows: Sequence[Words]) -> tuple[Words, ...]:
    """The columns of the most rows whose first numbered name is of one stem: trainers t0 to t3, not feeders f0 to
    f5."""
    at = next((at for at, word in enumerate(rows[0]) if _stem(word) and _number(word) >= 0), None)
    if at is None:
        return ()
    (stem, _), *others = Counter(_stem(row[at]) for row in set(rows)).most_common()
    return tuple(zip(*(row for row in rows if _stem(row[at]) == stem), strict=True)) if others and stem else ()


def _fits_header(word: str, header: str) -> bool:
    return not word or word == header


def _with_hosts(listing: _Listing) -> _Listing:
    return replace(listing, hosts=_hosts_of(listing))


def _hosts_of(listing: _Listing) -> int | None:
    """The column that names the host of each rank: those on one host follow each other, or a word has said so."""
    for behind_a_word in (True, False):
        for at in listing.others:
            column = listing.columns[at]
            said = listing.nouns[at] in _HOSTS
            if (
                said is not behind_a_word
                or listing.nouns[at] in _SEATS
                or not all(may_be_a_host(word, said=said) for word in column)
            ):
                continue
            own_name = not said and tuple(map(_number, column)) == listing.ranks  # learner-0 rank=0
            if own_name or not listing.one_each(column):
                continue
            hosts = [host for _, host in sorted(zip(listing.ranks, column, strict=True))]
            changes = 1 + sum(one != other for one, other in pairwise(hosts))
            if said or (changes == len(set(hosts)) and changes > 1):
                return at
    return None


def _only_host(listing: _Listing) -> Words:
    """The host that all ranks are on, where the number of a device or what stands behind the host counts as they do:
    `0=oil1:0 1=oil1:1`, `slab 0  sg01  gpu 0`."""
    for place in listing.others if listing.whole else ():
        names = listing.columns[place]
        seats = (at for at in listing.others if at == place + 1 or listing.nouns[at] in _SEATS)
        host = names[0] if len(set(names)) == 1 and listing.nouns[place] not in _SEATS else ""
        is_host = may_be_a_host(host) and host.islower()  # BW-2 is a kind of card
        if is_host and any(tuple(map(_number, listing.columns[at])) == listing.ranks for at in seats):
            return names
    return ()


def _blocks(lines: Iterable[_Row]) -> Iterator[_Listing]:
    """The listings whose rows each name several ranks, by a range or one by one."""
    found: dict[Words, list[tuple[Words, tuple[Words, ...]]]] = defaultdict(list)
    for line in lines:
        spans = [span for span in islice(_SPAN.finditer(line.text), _MOST_SPANS) if _members(span)]
        members = tuple(map(_members, spans))
        row = _words(_SPAN.sub(_HOLE, line.text)) if spans else line.words
        if (hosts := _hosts_between(line.text, spans)) and _follow(members):
            found[line.text,] = [((host, _HOLE), (each,)) for host, each in zip(hosts, members, strict=True)]
        elif spans and row.count(_HOLE) == len(spans):
            row, names = _names_behind(row, {len(numbers) for numbers in members})
            found[_form(row)].append((row, (*members, names) if names else members))
        elif len(named := _NUMBERED_NAME.findall(line.text)) >= _FEWEST:
            before = _words(line.text[: line.text.index(named[0][0])])
            found[_form(before)].append(((*before, _HOLE, _HOLE), tuple(zip(*named, strict=True))))
    yield from filter(None, map(_expanded, found.values()))


def _names_behind(row: Words, sizes: Collection[int]) -> tuple[Words, Words]:
    """The names at a row's end, where they are as many as a range of it has numbers, and the row with a hole for them:
    `places 4-6 bz-11: stoker-0 stoker-1 stoker-2`."""
    for size in sizes:
        names = row[-size:]
        if _FEWEST <= size < len(row) and _HOLE not in names and not any(map(_fixed, names)):
            return (*row[:-size], _HOLE), names
    return row, ()


def _members(span: re.Match[str]) -> Words:
    """The numbers that a range or a row of them names, as names where letters stand before them."""
    if span["each"]:
        return tuple(span["each"].split(","))
    first, last = int(span["first"]), int(span["last"])
    many = range(first, last + 1) if 0 <= last - first < _MOST_IN_A_ROW else ()
    return tuple(f"{span['stem']}{number}" for number in many)


def _follow(rows: Sequence[Words]) -> bool:
    """Whether the numbers of the rows go on where those of the row before ended, from the first on."""
    numbers = [_number(number) for row in rows for number in row]
    if not all(rows) or -1 in numbers:
        return False
    return numbers[0] <= 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _hosts_between(text: str, spans: Sequence[re.Match[str]]) -> list[str]:
    """The host behind each range of a line, or else before each; none where some range has none of its own."""
    if len(spans) < _FEWEST:
        return []
    ends = [0, *(span.end() for span in spans)]
    starts = [*(span.start() for span in spans), len(text)]
    between = [_words(text[end:start]) for end, start in zip(ends, starts, strict=True)]
    behind = [[word for word in words[:2] if may_be_a_host(word)][:1] for words in between[1:]]
    before = [[word for word in words if may_be_a_host(word)][-1:] for words in between[:-1]]
    hosts = behind if all(behind) else before
    return [host for (host,) in hosts] if all(hosts) else []


def _expanded(rows: Sequence[tuple[Words, tuple[Words, ...]]]) -> _Listing | None:
    """Rows of several ranks as one of each; ranges of as many numbers are columns too. None where no range goes on from
    row to row."""
    nouns = tuple(noun.removesuffix("s") for noun in ("", *_form(rows[0][0])[:-1]))
    holes = [at for at, word in enumerate(rows[0][0]) if word == _HOLE]
    named = [hole for hole in range(len(holes)) if nouns[holes[hole]] in PROCESSES]
    fits = (hole for hole in (*named, *range(len(holes))) if _follow(_in_order(rows, hole)))
    hole = next(fits, None)
    if hole is None or len(rows) < _FEWEST:
        return None
    lines: list[Words] = []
    for row, members in rows:
        for k in range(len(members[hole])):
            each = iter(numbers[k] if len(numbers) == len(members[hole]) else "" for numbers in members)
            lines.append((*(next(each) if word == _HOLE else word for word in row), str(k)))
    columns = tuple(zip(*lines, strict=True))
    ranks = tuple(map(_number, columns[holes[hole]]))
    nouns = (*nouns, _OF_ROW)
    return _with_hosts(_Listing((_SEVERAL, *_form(rows[0][0])), nouns, columns, holes[hole], ranks, len(set(ranks))))


def _in_order(rows: Sequence[tuple[Words, tuple[Words, ...]]], hole: int) -> list[Words]:
    """The numbers in one hole of each row, by the first of them: who starts processes may list them as they come."""
    numbers = [members[hole] for _, members in rows]
    return sorted(numbers, key=lambda row: _number(row[0])) if all(numbers) else numbers


def _words(text: str) -> Words:
    return tuple(_WORD.findall(text))


@dataclass(frozen=True, slots=True)
class _Row:
    """The text of a line without its clock, whose numbers count too, and its words."""

    text: str
    words: Words


def _row(line: Line) -> _Row:
    return _row_of(line.text[:_LONGEST], line.clock)


@lru_cache(_MOST_LINES)
def _row_of(text: str, clock: str | None) -> _Row:
    if clock:
        before, _, after = text.partition(clock)
        text = before + _FRACTION.sub("", after, 1)
    return _Row(text, _words(text))


def _form(words: Words) -> Words:
    """The words that lines of one form share."""
    return tuple(map(_fixed, words))


@lru_cache(_MOST_WORDS)
def _fixed(word: str) -> str:
    """A word in small letters; empty for one in which rows of one form may differ: a name with a number, one
    capital."""
    varies = not word.isalpha() and ("-" in word or any(sign.isdigit() for sign in word))
    return "" if varies or (len(word) == 1 and word.isupper()) else word.lower()


@lru_cache(_MOST_WORDS)
def _counted(word: str) -> tuple[str, int]:
    """The stem and the number of a numbered word; of any other "" and -1."""
    counted = _COUNTED.fullmatch(word)
    return (counted["stem"].lower(), int(counted["number"])) if counted else ("", -1)


def _stem(word: str) -> str:
    """A numbered word without its number."""
    return _counted(word)[0]


def _number(word: str) -> int:
    return _counted(word)[1]


def _counting(form: Words, columns: Sequence[Words]) -> int | None:
    """The column that counts ranks, one a row: behind a word for a process, else the first of bare numbers, else the
    first of numbered names that counts from 0 or 1 without a gap, else any numbers in rows that name hosts."""
    rows = len(set(zip(*columns, strict=True)))
    hosted = any(form[at] in _HOSTS and not form[at + 1] for at in range(len(form) - 1))
    found: list[tuple[int, bool, int]] = []
    for at, column in enumerate(columns):
        words = set(column) if not form[at] and rows >= _FEWEST else set()
        # Most columns have too few words, or begin with one that is no number.
        if len(words) < rows or _number(column[0]) < 0:
            continue
        numbers = set(map(_number, words))
        if -1 in numbers or len(numbers) != rows:
            continue
        stem = _stem(column[0])
        before = stem or (form[at - 1] if at else "")
        first = 1 if len(stem) <= _SHORT_STEM else 0  # VEGA01 and VEGA02 are hosts
        whole = min(numbers) <= first and rows == max(numbers) - min(numbers) + 1
        if before in PROCESSES and max(numbers) < _MOST_LEFT_OUT * rows:
            # worker  2 = slab  0   (Julia's own process is worker 1)
            behind_julia = min(numbers) == _FIRST_OF_JULIA and rows == max(numbers) - 1
            found.append((0 if before == "rank" else 3 if behind_julia else 1, not whole, at))
        elif whole and before not in _NO_RANKS:
            found.append((3 if stem else 2, False, at))
        elif before and not stem and hosted and before not in _NO_RANKS | NO_NODES:
            found.append((4, True, at))
    return min(found)[2] if found else None


def _is_heard(column: Words, heard: Mapping[str, int]) -> bool:
    """Whether most of a column's words begin other lines, and none is a small number."""
    words = Counter(column)
    if any(map(_CLOCK.match, words)):
        return False
    elsewhere = sum(heard.get(word, 0) - count >= _HEARD for word, count in words.items())
    return all(len(word) >= _SHORTEST_WORD or not word.isdigit() for word in words) and (
        elsewhere >= _SHARE_HEARD * len(words)
    )


def may_be_a_host(word: str, *, said: bool = False) -> bool:
    """By its form; what is called like a device, as gpu-04, only where the word before it has said so."""
    found = _HOST.fullmatch(word)
    return found is not None and (found["stem"].lower() not in NO_NODES or (said and "-" in word))


def words_of(line: Line) -> Words:
    """The words of a line without its clock."""
    return _row(line).words
