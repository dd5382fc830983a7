"""Finds the host of each process where no listing has it: by lines that name a process and a host, by headings above
processes, by lines that say which host an address, a letter or a number stands for, by what each host says
that it starts, and by hosts in a row.

`boat 2 (the old one) has come up at elm-7`, `quay elm-7` above `  - boat 2`, `boat 2 listens at 10.2.0.4:7102` below
`10.2.0.4 is elm-7`. A word that stands in the same place beside each process, and that several share, is a host too.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from logdiag.judge.ranks.listings import Listing, may_be_a_host, may_be_shared_hosts
from logdiag.judge.ranks.vocabulary import DEVICES, IN_TURN, NO_NOUNS_OF_HOSTS
from logdiag.judge.ranks.words import Row, counted, members, singular
from logdiag.patterns import pattern_of

RankAt = Callable[[Row, int], int | None]
"""The rank that the word of a line with this index names; None for none."""
Placed = tuple[float, Mapping[int, str]]
"""The log-odds of the hosts, and the host of each rank."""

_ADDRESS = pattern_of(r"\d{1,3}(?:\.\d{1,3}){3}")
_MOST_WORDS, _FARTHEST, _NEAREST = 24, 5, 3
# How sure hosts are that stand beside their processes, in one place beside them, and above them.
_NAMED, _ALIKE, _BELOW = 2.0, 1.6, 1.8
_SHARE_ALIKE = 0.9
_COUNTED_HOSTS, _EACH, _TOTAL, _ONE_EACH = 2.0, 0.0, -1.0, -1.4
_LONG_NUMBER, _MOST_ON_A_HOST = 5, 64
_TIMES = pattern_of(r"[x*]?(\d{1,2})x?")


def hosts_beside(rows: Sequence[Row], ranks: frozenset[int], rank_at: RankAt) -> Iterator[Placed]:
    """The hosts that lines name together with their processes: words that look like hosts, anywhere in the line, or
    words as far from the process and behind the same word in all lines."""
    named: dict[int, Counter[str]] = defaultdict(Counter)
    placed: dict[tuple[int, str], dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in rows:
        found = {at: rank for at in range(min(_MOST_WORDS, len(row.words))) if (rank := rank_at(row, at)) is not None}
        if len(set(found.values())) != 1:
            continue
        index, rank = next(iter(found.items()))
        others = [at for at in range(min(_MOST_WORDS, len(row.words))) if at not in found]
        named[rank].update({row.words[at] for at in others if _looks_like_a_host(row.words[at])})
        for at in others:
            if abs(at - index) <= _FARTHEST:
                before = row.lower[at - 1] if at and at - 1 not in found else ""
                placed[at - index, before][rank][row.words[at]] += 1
    shared = {rank: _shared(words, named) for rank, words in named.items()}
    for sure, words_by_rank in [(_NAMED, shared), *((_ALIKE, words) for words in placed.values())]:
        hosts = _one_each(words_by_rank)
        if ranks <= hosts.keys() and may_be_shared_hosts([hosts[rank] for rank in sorted(ranks)]):
            yield sure, hosts


def _looks_like_a_host(word: str) -> bool:
    return may_be_a_host(word) and counted(word)[0] not in DEVICES and not members(word)


def _shared(words: Counter[str], words_by_rank: Mapping[int, Counter[str]]) -> Counter[str]:
    """Those words that some other ranks have too, but not all."""
    often = {word: sum(word in others for others in words_by_rank.values()) for word in words}
    return Counter({word: times for word, times in words.items() if 1 < often[word] < len(words_by_rank)})


def _one_each(words_by_rank: Mapping[int, Counter[str]]) -> dict[int, str]:
    """The word of each rank that has one word alone, or nearly so."""
    first = {rank: words.most_common(1)[0] for rank, words in words_by_rank.items() if words}
    return {rank: word for rank, (word, times) in first.items() if times >= _SHARE_ALIKE * words_by_rank[rank].total()}


def hosts_above(opening: Sequence[Row], ranks: frozenset[int], rank_at: RankAt) -> Iterator[Placed]:
    """The hosts in headings, below which lines that are set in name the processes there."""
    hosts: dict[int, set[str]] = defaultdict(set)
    for heading, row in _under_headings(opening):
        host = _host_of_heading(heading)
        rank = next((rank for index in range(len(row.words)) if (rank := rank_at(row, index)) is not None), None)
        if rank is None and len(row.words) == 1 and row.words[0].isdecimal():
            rank = int(row.words[0])
        if host and rank is not None:
            hosts[rank].add(host)
    one_each = {rank: next(iter(names)) for rank, names in hosts.items() if len(names) == 1}
    if ranks <= one_each.keys() and may_be_shared_hosts([one_each[rank] for rank in sorted(ranks)]):
        yield _BELOW, one_each


def _under_headings(opening: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Each line that is set in further than one above it, with the nearest such line."""
    headings: list[Row] = []
    for row in (each for each in opening if each.words):
        while headings and not _is_set_in(row, headings[-1]):
            headings.pop()
        if headings:
            yield headings[-1], row
        headings.append(row)


def _is_set_in(row: Row, heading: Row) -> bool:
    return row.clocked == heading.clocked and len(row.signs[0]) > len(heading.signs[0])


def _host_of_heading(row: Row) -> str | None:
    """The host of a heading such as `quay elm-7 (2 boats):`, or of one or two plain words: `mira:`, `quay mira`."""
    hosts = [word for word in row.words if _looks_like_a_host(word)]
    return hosts[0] if len(hosts) == 1 else row.words[-1] if 1 <= len(row.words) <= 2 else None


def hosts_by_another_name(used: Iterable[Listing], opening: Sequence[Row]) -> Iterator[Placed]:
    """The hosts that a column of a listing names by an address, a letter or a number, where other lines say which host
    each is: `10.2.0.4 is elm-7`, `quay A = elm-7`, `node 1: oak-3`."""
    for listing in used:
        entries = set(zip(*listing.columns, strict=True))
        elsewhere = [row for row in opening if tuple(row.words[: len(listing.columns)]) not in entries]
        for index, column in enumerate(listing.columns):
            name_of = dict(zip(listing.numbers, map(str.lower, column), strict=True))
            if index == listing.number_column or len(set(zip(listing.numbers, column, strict=True))) != listing.size:
                continue
            if _may_stand_for_hosts([name_of[number] for number in sorted(name_of)], listing.nouns[index]):
                host_of = _told_elsewhere(set(name_of.values()), singular(listing.nouns[index]), elsewhere)
                if host_of and set(host_of.values()).isdisjoint(word for words in listing.columns for word in words):
                    yield _NAMED, {number: host_of[name] for number, name in name_of.items()}


def _may_stand_for_hosts(names: Sequence[str], noun: str) -> bool:
    """Whether the words beside processes, in the order of their ranks, may stand for hosts: they are addresses, or
    neighbours share them."""
    distinct = len(set(names))
    shared = 1 + sum(before != after for before, after in pairwise(names)) == distinct < len(names)
    called = noun.isalpha() and singular(noun) not in DEVICES and noun not in NO_NOUNS_OF_HOSTS
    return distinct > 1 and (all(map(_ADDRESS.fullmatch, names)) or (shared and called))


def _told_elsewhere(names: set[str], noun: str, rows: Sequence[Row]) -> Mapping[str, str]:
    """The host of each name, by what stands as far from it in all lines that tell of it; empty where some have none."""
    found: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for index, word in enumerate(row.lower):
            called = index > 0 and singular(row.lower[index - 1]) == noun
            # nodes a=elm-7 b=oak-3
            stands_for = index + 1 < len(row.words) and row.signs[index + 1].strip() in {"=", "=>", "->"}
            known = called or stands_for or _ADDRESS.fullmatch(word) or _in_list(row, index, noun)
            if word not in names or not known:
                continue
            for apart in range(-_NEAREST, _NEAREST + 1):
                if 0 <= index + apart < len(row.words) and _looks_like_a_host(host := row.words[index + apart]):
                    found[apart][word].add(host)
    for hosts in found.values():
        of = {name: next(iter(told)) for name, told in hosts.items() if len(told) == 1}
        if of.keys() == names and len(set(of.values())) == len(of):
            return of
    return {}


def _in_list(row: Row, index: int, noun: str) -> bool:
    """Whether a line begins with the noun of its list: `quays: 0=elm-7 1=oak-3`."""
    return bool(noun) and noun in map(singular, row.lower[: min(index, _NEAREST)])


def hosts_in_a_row(rows: Sequence[Row], ranks: frozenset[int]) -> Iterator[tuple[float, Mapping[int, str], bool]]:
    """The host of each rank where a line names the hosts and how many run on them: `rk0812=4 rk0813=4`, `4 hosts of 8`,
    `24 on tow-0 tow-1 tow-2`, `tow01..tow08 carry 4 each`; or names one for each rank, or only the hosts, where the log
    has `ranks`. Ranks are dealt out in order, or in turn where the line says so. The surer of them first."""
    for row in rows:
        if ranks and (each := _one_for_each(row, len(ranks))):
            yield _NAMED, dict(zip(sorted(ranks), each, strict=True)), False
        in_turn = not IN_TURN.isdisjoint(row.lower)
        for hosts in map(members, row.words):
            if hosts and all(map(may_be_a_host, hosts)):
                yield from _dealt_out(hosts, numbers_in([row]), ranks, in_turn=in_turn)
        mixed = _hosts_joined_alike(row)
        share_ranks = bool(mixed) and len(ranks) > len(mixed) and len(ranks) % len(mixed) == 0
        for indices in [*_rows_of_hosts(row), *([mixed] if share_ranks else [])]:
            counts = [_times(word) for index in indices for word in row.words[index + 1 : index + 2]]
            apart = {after - before for before, after in pairwise(indices)}
            names = [row.words[index] for index in indices]
            if apart == {2} and len(counts) == len(indices) and all(counts):
                each = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
                yield _COUNTED_HOSTS, dict(enumerate(each)), True
            else:
                yield from _dealt_out(names, numbers_in([row]), ranks, in_turn=in_turn)


def hosts_that_start_some(opening: Sequence[Row], ranks: frozenset[int], rank_at: RankAt) -> Iterator[Placed]:
    """The host of each rank where lines next to each other say how many each host starts: `elm-7: starting 2 boats` and
    `oak-3: starting 4 boats`. Ranks are dealt out in the order of the lines."""
    for form, group in groupby(opening, key=_form_with_a_host):
        rows = list(group) if form else []
        if any(rank_at(row, form[0]) is not None for row in rows):
            continue  # loom3 is a process
        names = [row.words[index] for row in rows for index in form[:1]]
        numbers = [numbers_in([row])[0] for row in rows]
        dealt = [name for name, number in zip(names, numbers, strict=True) for _ in range(min(number, _MOST_ON_A_HOST))]
        if len(names) == len(set(names)) > 1 and len(dealt) == len(ranks) > len(names):
            yield _COUNTED_HOSTS, dict(zip(sorted(ranks), dealt, strict=True))


def _form_with_a_host(row: Row) -> tuple[Any, ...]:
    """The index of the only host of a line that has a number too, and its plain words; empty for any other line."""
    hosts = [index for index, word in enumerate(row.words) if _looks_like_a_host(word)]
    is_one = len(hosts) == 1 and bool(numbers_in([row]))
    return (hosts[0], *(word if word.isalpha() else "" for word in row.lower)) if is_one else ()


def _one_for_each(row: Row, count: int) -> list[str]:
    """As many hosts next to each other as there are ranks, of which neighbours share some: `berth_of = [elm-7, elm-7,
    oak-3, oak-3]`. Empty for any other line."""
    for are_hosts, group in groupby(row.words, may_be_a_host):
        hosts = list(group)
        if are_hosts and len(hosts) == count and may_be_shared_hosts(hosts):
            return hosts
    return []


def _times(word: str) -> int:
    """The number in `4`, `x4` or `4x`; 0 of any other word."""
    found = _TIMES.fullmatch(word)
    return int(found[1]) if found else 0


def _rows_of_hosts(row: Row) -> Iterator[list[int]]:
    """The indices of several hosts of one form in a line."""
    alike: dict[str, list[int]] = defaultdict(list)
    for index, word in enumerate(row.words):
        if may_be_a_host(word) and counted(word)[0] not in DEVICES:
            stem = counted(word)[0] or re.split(r"[\d-]", word, maxsplit=1)[0]
            alike[stem].append(index)
    for indices in alike.values():
        # host=bn-00 ... order=bn-03,bn-07,bn-12
        next_to = [index for index in indices if index - 1 in indices or index + 1 in indices]
        row_of = next_to if len(next_to) > 1 else indices
        if len({row.words[index] for index in row_of}) == len(row_of) > 1:
            yield row_of


def _hosts_joined_alike(row: Row) -> list[int]:
    """The indices of different hosts next to each other with the same signs between them: `quays: elm-7, oak-3`."""
    indices = [index for index, word in enumerate(row.words) if may_be_a_host(word)]
    between = {row.signs[index].strip() for index in indices[1:]}
    apart = {after - before for before, after in pairwise(indices)}
    different = len({row.words[index] for index in indices}) == len(indices)
    return indices if apart == {1} and len(between) == 1 and "" not in between and different else []


def numbers_in(rows: Iterable[Row]) -> list[int]:
    """The short numbers of some lines."""
    return [int(word) for row in rows for word in row.words if word.isdecimal() and len(word) < _LONG_NUMBER]


def _dealt_out(
    names: Sequence[str], stated: Sequence[int], ranks: frozenset[int], *, in_turn: bool
) -> Iterator[tuple[float, Mapping[int, str], bool]]:
    """The host of each rank where each host has as many, in order or in turn: by a number of ranks on each or of all in
    `stated`, else by the ranks that the log has."""
    count = len(names)
    some = [n for n in stated if 1 < n <= _MOST_ON_A_HOST and (n != count or stated.count(n) > 1)]
    total = next((n for n in stated if n % count == 0 and 1 < n // count <= _MOST_ON_A_HOST), 0)
    each = next((n for n in some if n * count == total), next(iter(some), 0))
    heard = len(ranks) if max(ranks, default=-1) - min(ranks, default=0) + 1 == len(ranks) else 0
    if heard > count and heard % count == 0 and (in_turn or total in {0, heard}):
        per = heard // count
        sure = _COUNTED_HOSTS if in_turn or total or per in stated else _EACH
        dealt = [names[at % count if in_turn else at // per] for at in range(heard)]
        yield sure, dict(zip(sorted(ranks), dealt, strict=True)), not in_turn
    if each and ((count in stated and not total) or total == each * count):
        sure = _COUNTED_HOSTS if total else _EACH
        yield sure, {rank: names[rank // each] for rank in range(count * each)}, True
    if total:
        yield _TOTAL, {rank: names[rank * count // total] for rank in range(total)}, True
    elif count in stated:
        yield _ONE_EACH, dict(enumerate(names)), True
