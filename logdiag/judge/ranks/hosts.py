"""Finds the host of each process where no listing has it: by headings above processes, by how many each host says that
it starts, or by hosts in a row."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from logdiag.judge.ranks.host_names import looks_like_a_host, may_be_a_host, may_be_a_place, may_be_shared_hosts
from logdiag.judge.ranks.vocabulary import BEFORE_HOSTS
from logdiag.judge.ranks.words import Row, counted, joined, members
from logdiag.patterns import pattern_of

RankAt = Callable[[Row, int], int | None]
"""The rank that the word of a line with this index names; None for none."""


class Placed(NamedTuple):
    """The log-odds of hosts, the host of each rank, and whether they stood in a row and ranks were dealt out in its
    order."""

    sure: float
    hosts: Mapping[int, str] = {}
    in_order: bool = False


# How sure hosts are that stand above their processes, and by the numbers beside them.
_BELOW = 1.8
_COUNTED_HOSTS, _EACH, _TOTAL, _ONE_EACH = 2.0, 0.0, -1.0, -1.4
_LONG_NUMBER, _MOST_ON_A_HOST = 5, 64
_ADDRESS = pattern_of(r"\d{1,3}(?:\.\d{1,3}){3}")
_TIMES = pattern_of(r"[x*]?(\d{1,2})x?")
# 16 slots are dealt one at a time round that list   ranks are placed round-robin
_IN_TURN = pattern_of(r"(?i)\bround[- ]?robin\b|\bone (?:at a time|by one)\b|\bin turns?\b|\bcyclic(?:ally)?\b")


def hosts_above(opening: Sequence[Row], ranks: frozenset[int], rank_at: RankAt) -> Placed | None:
    """The hosts in headings, below which lines that are set in name the processes there: a tree of hosts."""
    hosts: dict[int, set[str]] = defaultdict(set)
    headings: list[Row] = []
    for row in (each for each in opening if each.words):
        while headings and not _is_set_in(row, headings[-1]):
            headings.pop()
        rank = next((rank for index in range(len(row.words)) if (rank := rank_at(row, index)) is not None), None)
        host = _host_of_heading(headings[-1]) if headings else None
        if host and rank is not None:
            hosts[rank].add(host)
        headings.append(row)
    one_each = {rank: next(iter(names)) for rank, names in hosts.items() if len(names) == 1}
    every = ranks <= one_each.keys() and may_be_shared_hosts([one_each[rank] for rank in sorted(one_each)])
    return Placed(_BELOW, one_each) if every else None


def with_names(rows: Sequence[Row], opening: Sequence[Row]) -> Sequence[Row]:
    """The lines with each address replaced by its host's name, where lines of one form in `opening` name several:
    `mira is 10.4.2.31`, `vega is 10.4.2.12`."""
    pairs: dict[tuple[Any, ...], set[tuple[str, str]]] = defaultdict(set)
    for row in opening:
        for index, word in enumerate(row.words):
            if _ADDRESS.fullmatch(word) and not joined(row, index):
                for back in (1, 2):
                    # In `10.4.2.31 is mira, 10.4.2.12 is vega` a comma parts mira from the next address.
                    if "," not in "".join(row.signs[index - back + 1 : index + 1]):
                        pairs[row.shape, back].add((word, row.words[max(0, index - back)]))
    for named in pairs.values():
        of = dict(named)
        names = {*of.values()} - BEFORE_HOSTS
        one_name_each = len(named) == len(of) == len(names) > 1
        if one_name_each and all(map(may_be_a_place, names)):
            rows = [_renamed(row, of) for row in rows]
    return rows


def _renamed(row: Row, name_of: Mapping[str, str]) -> Row:
    if name_of.keys().isdisjoint(row.words):
        return row
    words = [name_of.get(word, word) for word in row.words]
    return replace(row, words=words, lower=[word.lower() for word in words])


def _is_set_in(row: Row, heading: Row) -> bool:
    return row.clocked == heading.clocked and len(row.signs[0]) > len(heading.signs[0])


def _host_of_heading(row: Row) -> str | None:
    """The host of a heading such as `quay elm-7 (2 boats):`, or of one or two plain words: `mira:`, `quay mira`."""
    hosts = list(filter(looks_like_a_host, row.words))
    return hosts[0] if len(hosts) == 1 else row.words[-1] if 1 <= len(row.words) <= 2 else None


def hosts_that_start_some(opening: Sequence[Row], ranks: frozenset[int], rank_at: RankAt) -> Placed | None:
    """The host of each rank where lines next to each other say how many each host starts: `elm-7: starting 2 boats` and
    `oak-3: starting 4 boats`. Ranks are dealt out in the order of a line that names just these hosts, else of the lines
    themselves."""
    for form, group in groupby(opening, key=_form_with_a_host):
        rows = list(group) if form else []
        if any(rank_at(row, form[0]) is not None for row in rows):
            continue  # loom3 is a process
        names = [row.words[form[0]] for row in rows]
        counts = {row.words[form[0]]: min(numbers_in([row])[0], _MOST_ON_A_HOST) for row in rows}
        in_a_row = ([word for word in row.words if word in counts] for row in opening)
        order = next((hosts for hosts in in_a_row if sorted(hosts) == sorted(names)), names) if len(names) > 1 else []
        dealt = [name for name in order for _ in range(counts[name])]
        if len(names) == len(set(names)) > 1 and len(dealt) == len(ranks) > len(names):
            return Placed(_COUNTED_HOSTS, dict(zip(sorted(ranks), dealt, strict=True)))
    return None


def _form_with_a_host(row: Row) -> tuple[Any, ...]:
    """The index of the only host of a line that has a number too, and its plain words; empty for any other line."""
    hosts = [index for index, word in enumerate(row.words) if looks_like_a_host(word)]
    is_one = len(hosts) == 1 and bool(numbers_in([row]))
    return (hosts[0], *(word if word.isalpha() else "" for word in row.lower)) if is_one else ()


def hosts_in_a_row(rows: Sequence[Row], ranks: frozenset[int], rank_at: RankAt) -> Iterator[Placed]:
    """The host of each rank where a line names the hosts and how many run on them: `rk0812=4 rk0813=4`, `4 hosts of 8`,
    `24 on tow-0 tow-1 tow-2`, `tow01..tow08 carry 4 each`; or names only the hosts, where the log has `ranks`. Ranks
    are dealt out in order, or in turn where this line or the next says so."""
    for at, row in enumerate(rows):
        named = (rank_at(row, index) for index, word in enumerate(row.words) if counted(word)[1] >= 0)
        if len({rank for rank in named if rank is not None}) == 1:
            continue  # felt=hx0,hx1 is its own
        dealt = _run_lengths(row)
        if len(set(dealt)) > 1 and (len(dealt) == len(ranks) or len({counted(name)[0] or name for name in dealt}) == 1):
            yield Placed(_COUNTED_HOSTS, dict(enumerate(dealt, min(ranks, default=0))), in_order=True)
        else:
            in_turn = any(_IN_TURN.search(each.line.text) for each in rows[at : at + 2])
            for names in _rows_of_hosts(row):
                if in_turn and len(ranks) > len(names):
                    of = {rank: names[place % len(names)] for place, rank in enumerate(sorted(ranks))}
                    yield Placed(_COUNTED_HOSTS, of, in_order=True)
                else:
                    yield from _dealt_out(names, numbers_in([row]), ranks)


def _run_lengths(row: Row) -> list[str]:
    """Each name as often as it is multiplied, hosts also as the number behind them: `mira*4 vega*2`, `elm-7=4`."""
    names: list[str] = []
    for name, word, sign in zip(row.words, row.words[1:], row.signs[1:], strict=False):
        times = _TIMES.fullmatch(word)
        if times and ("*" in sign or word[0] == "x" or looks_like_a_host(name)):
            names += [name] * int(times[1])
    return names


def _rows_of_hosts(row: Row) -> Iterator[Sequence[str]]:
    """Several hosts of one form in a line, or in a range."""
    yield from (hosts for hosts in map(members, row.words) if hosts and all(map(may_be_a_host, hosts)))
    alike: dict[str, list[int]] = defaultdict(list)
    for index, word in enumerate(row.words):
        if looks_like_a_host(word):
            stem = counted(word)[0] or re.split(r"[\d-]", word, maxsplit=1)[0]
            alike[stem].append(index)
    for indices in alike.values():
        # host=bn-00 ... order=bn-03,bn-07,bn-12
        next_to = [index for index in indices if index - 1 in indices or index + 1 in indices]
        row_of = next_to if len(next_to) > 1 else indices
        if len({row.words[index] for index in row_of}) == len(row_of) > 1:
            yield [row.words[index] for index in row_of]


def numbers_in(rows: Iterable[Row]) -> list[int]:
    """The short numbers of some lines."""
    return [int(word) for row in rows for word in row.words if word.isdecimal() and len(word) < _LONG_NUMBER]


def _dealt_out(names: Sequence[str], stated: Sequence[int], ranks: frozenset[int]) -> Iterator[Placed]:
    """The host of each rank where each host has as many, in order: by a number of ranks on each or of all in
    `stated`, else by the ranks that the log has."""
    count = len(names)
    some = [n for n in stated if 1 < n <= _MOST_ON_A_HOST and (n != count or stated.count(n) > 1)]
    total = next((n for n in stated if n % count == 0 and 1 < n // count <= _MOST_ON_A_HOST), 0)
    each = next((n for n in some if n * count == total), next(iter(some), 0))
    heard = len(ranks) if max(ranks, default=-1) - min(ranks, default=0) + 1 == len(ranks) else 0
    if heard > count and heard % count == 0 and total in {0, heard}:
        per = heard // count
        sure = _COUNTED_HOSTS if total or per in stated else _EACH
        dealt = (names[at // per] for at in range(heard))
        yield Placed(sure, dict(zip(sorted(ranks), dealt, strict=True)), in_order=True)
    if each and ((count in stated and not total) or total == each * count):
        sure = _COUNTED_HOSTS if total else _EACH
        yield Placed(sure, {rank: names[rank // each] for rank in range(count * each)}, in_order=True)
    if total:
        yield Placed(_TOTAL, {rank: names[rank * count // total] for rank in range(total)}, in_order=True)
    elif count in stated:
        yield Placed(_ONE_EACH, dict(enumerate(names)), in_order=True)
