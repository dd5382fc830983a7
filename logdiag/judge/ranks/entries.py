"""Takes lines apart into entries, each of which may be a row of a listing: a whole line, one member of its ranges, one
item of several in it, or a block of lines.

`gate-a carries 0-3` has an entry for each of 0 to 3, `0=wa@dlm-70 1=wb@dlm-71` one for each of its items. Entries with
one key may belong to one listing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from logdiag.judge.ranks.host_names import looks_like_a_host, may_be_a_host
from logdiag.judge.ranks.vocabulary import BEFORE_HOSTS
from logdiag.judge.ranks.words import LABEL, Row, counted, members

Words = tuple[str, ...]
Key = tuple[str | int | Words, ...]

RANGE, ITEMS, ROWS = "range", "items", "rows"
"""The kinds of entries, with which their keys begin; entries of ranges and of items end with their index."""
# At most so many words from one item of a line to the next.
_FARTHEST = 8
_LONGEST_BLOCK = 12
_OPENS, _CLOSES = frozenset("([{<"), frozenset(")]}>")


def _as_one(rows: Sequence[Row]) -> Row:
    """Several lines as one with the words of all."""
    words = [word for row in rows for word in row.words]
    signs = [sign for row in rows for sign in row.signs]
    return Row(rows[-1].line, rows[0].at, words, signs, [word.lower() for word in words], rows[0].clocked)


def blocks_of(opening: Sequence[Row]) -> Iterator[Row]:
    """Each of several blocks as one line: what each process has in its environment, the objects of a JSON text, or
    `- host: elm-7` above `  ranks: [0, 1]`. The lines of a block begin with different words, as in the other blocks;
    those that have another number of words in each (`reason: no pulse`) are left out. The whole blocks come too, for
    those of one writer may be alike (`Writer: cell 4`), where other writers' are not."""
    firsts = [_beginning(row) for row in opening]
    forms = [
        first if LABEL.match(row.line.text) else f"{len(row.words)} {first}"
        for row, first in zip(opening, firsts, strict=True)
    ]
    start = 0
    while start < len(opening):
        size, times = _repeated(forms, start)
        block = opening[start : start + size]
        if times > 1 and len(set(firsts[start : start + size])) == size and not any(row.clocked for row in block[1:]):
            blocks = [opening[at : at + size] for at in range(start, start + times * size, size)]
            even = [k for k in range(size) if len({len(rows[k].words) for rows in blocks}) == 1]
            yield from (_as_one([rows[k] for k in even]) for rows in blocks if even)
            if 0 < len(even) < size:
                yield from map(_as_one, blocks)
            start += times * size
        else:
            start += 1


def _beginning(row: Row) -> str:
    """The first word of a line, or its signs where it has none; of a number, or what looks like a host, only that it
    is one: blocks begin with `[2]`, or `elm-7`."""
    if not row.words:
        return row.line.text.strip(" ,")
    return "#" if row.words[0].isdecimal() or looks_like_a_host(row.words[0]) else row.lower[0]


def _repeated(forms: Sequence[object], start: int) -> tuple[int, int]:
    """Of how many lines a block is that is repeated from here on, and how often it is there; 1 where none is."""
    for size in range(2, _LONGEST_BLOCK + 1):
        times = 1
        while forms[start + times * size : start + (times + 1) * size] == forms[start : start + size]:
            times += 1
        if times > 1:
            return size, times
    return 1, 1


def entries_of(row: Row) -> Iterator[tuple[Key, Sequence[str]]]:
    """The entries of a line: one for each member of its ranges, or each item of its row; else the line itself."""
    if len(row.words) > 1:
        ranges: dict[int, Words] = {}
        if not "".join(row.words).isalnum():
            ranges = {
                index: names
                for index, word in enumerate(row.words)
                if not word.isalnum() and (names := _members(row, index))
            }
        if ranges:
            yield from _continued(row, ranges) or _of_range(row, ranges)
            yield (ROWS, row.shape), row.words
        else:
            items = _items(row)
            yield from items
            # 3 elm-1 9310 0 1   NO=3, HOST="elm-1", CARD=0, LANE=1   (two columns of numbers look like two items)
            if not items or len(items) == 2:
                yield (ROWS, row.shape), row.words


def _members(row: Row, index: int) -> Words:
    """The members of a range or a row of numbers; none of a coordinate such as (2,3)."""
    word = row.words[index]
    return () if row.signs[index].endswith("(") and word.count(",") == 1 else members(word)


def _continued(row: Row, ranges: Mapping[int, Words]) -> list[tuple[Key, Sequence[str]]]:
    """The entries of a line whose ranges each go on where the one before ended: `gy-01 has 0-7, gy-02 has 8-15`, `lanes
    0-3 on qs-1, lanes 4-7 on qs-2`. Empty for any other line."""
    indices = _chain(ranges)
    apart = {after - before for before, after in pairwise(indices)}
    parts = _evenly(row, indices, apart.pop()) if len(apart) == 1 else []
    columns = zip(*(words for words, _ in parts), strict=False)
    if not any(all(map(looks_like_a_host, column)) for column in columns):
        parts = _with_the_hosts_behind(row, indices) or parts
    entries: list[tuple[Key, Sequence[str]]] = []
    for index, (words, place) in zip(indices, parts, strict=False):
        size = len(ranges[index])
        alike = {k: names for k in range(len(words)) if len(names := ranges.get(index - place + k, ())) == size}
        for member in range(size):
            entry = [alike[k][member] if k in alike else word for k, word in enumerate(words)]
            entries.append(((RANGE, row.at), [*entry, str(member)]))
    return entries


def _chain(ranges: Mapping[int, Words]) -> list[int]:
    """The indices of the ranges that go on from the first, each where the one before ended. Where there are others too,
    of as many each, as in `host=a ranks=0,1 pids=41,47 host=b ranks=2,3 pids=43,44`, or of more than two; else none."""
    indices = sorted(ranges)
    places = [0]
    for place, index in enumerate(indices):
        if counted(ranges[index][0])[1] == counted(ranges[indices[places[-1]]][-1])[1] + 1:
            places.append(place)
    apart = {after - before for before, after in pairwise(places)}
    evenly = len(apart) == 1 and places[-1] + min(apart) == len(indices)
    return [indices[place] for place in places] if len(places) > 2 or evenly else []


def _evenly(row: Row, indices: Sequence[int], width: int) -> list[tuple[list[str], int]]:
    """The `width` words around each range, and its place among them. As many stand after a range as follow the last
    one of the line; the other words between two ranges stand before it."""
    before = max(width - (len(row.words) - indices[-1]), 0)
    before = before if before <= indices[0] else 0
    parts = [(row.words[index - before : index - before + width], before) for index in indices]
    return [part for part in parts if len(part[0]) == width]


def _with_the_hosts_behind(row: Row, indices: Sequence[int]) -> list[tuple[list[str], int]]:
    """The noun of all ranges, each range, and the only host before the next one: `gates 0 to 5 sit on elm-7, 6 to 11 on
    oak-3`; and the range's place among them. Empty where any has none or several."""
    noun = row.words[indices[0] - 1] if indices and indices[0] else ""
    behind = [row.words[index + 1 : after] for index, after in pairwise([*indices, len(row.words)])]
    hosts = [list(filter(looks_like_a_host, words)) for words in behind]
    if not all(len(names) == 1 for names in hosts):
        return []
    return [([noun, row.words[index], names[0]], 1) for index, names in zip(indices, hosts, strict=True)]


def _of_range(row: Row, ranges: Mapping[int, Words]) -> Iterator[tuple[Key, Sequence[str]]]:
    """An entry for each member of the longest ranges of a line, its index as its last word: three entries of `places
    4-6 bz-11: stoker-0 stoker-1 stoker-2`."""
    size = max(map(len, ranges.values()))
    ranges = {index: names for index, names in ranges.items() if len(names) == size}
    words = row.words
    behind = len(words) - 1 - max(ranges)
    # A remark is no name: `gates 0 and 1 are set on weir-a (Keeper)`.
    in_a_row = all(_OPENS.isdisjoint(signs) or not _CLOSES.isdisjoint(signs) for signs in row.signs[1 - size :])
    names = words[-size:] if behind >= size > 1 and in_a_row and _may_be_names(words[-size:]) else []
    rest = words[: -size or None] if names else words
    for k in range(size):
        entry = [ranges[index][k] if index in ranges else word for index, word in enumerate(rest)]
        yield (RANGE, len(rest) + bool(names), tuple(map(str, ranges))), [*entry, *names[k : k + 1], str(k)]


def _may_be_names(words: Sequence[str]) -> bool:
    """Whether words may be the names of several processes: all are different, and all or none look like hosts; not so
    `on elm-7` behind two numbers."""
    no_names = any(word.lower() in BEFORE_HOSTS for word in words)
    return len(set(words)) == len(words) and not no_names and len(set(map(may_be_a_host, words))) == 1


def _items(row: Row) -> list[tuple[Key, Sequence[str]]]:
    """The entries of a line whose numbers count up at one distance: `0=wa@dlm-70 1=wb@dlm-71`, `Argo (0), Kon-Tiki
    (1)`. An entry has the words before the first item, then its own words, then its index. Empty for any other line."""
    words = row.words
    indices: dict[tuple[str, int], list[int]] = defaultdict(list)
    numbered = [(index, stem, number) for index, (stem, number) in enumerate(map(counted, words)) if number >= 0]
    if len(numbered) < 2:
        return []
    for index, stem, number in numbered:
        indices[stem, number].append(index)
    best: tuple[list[int], int] = ([], 0)
    for index, stem, number in numbered:
        for after in indices.get((stem, number + 1), ()):
            apart = after - index
            if 0 < apart <= _FARTHEST:
                chain = [index]
                while (then := chain[-1] + apart) in indices.get((stem, number + len(chain)), ()):
                    chain.append(then)
                best = max(best, (chain, apart), key=lambda candidate: len(candidate[0]))
    chain, apart = best
    before = max(0, apart - (len(words) - chain[-1])) if chain else 0
    if len(chain) < 2 or chain[0] < before or not _alike(row, chain, apart, before):
        return []
    key: Key = (ITEMS, chain[0] - before, apart, before)
    head = words[: chain[0] - before]
    return [(key, [*head, *words[index - before : index - before + apart], str(k)]) for k, index in enumerate(chain)]


def _alike(row: Row, chain: Sequence[int], apart: int, before: int) -> bool:
    """Whether the last two items have the same signs within; if there are only two, they must also end the line."""
    last_but_one, last = (index - before for index in chain[-2:])
    within = range(1, min(apart, len(row.words) - last))
    signs = all(row.signs[last_but_one + k].strip() == row.signs[last + k].strip() for k in within)
    return signs and (len(chain) > 2 or len(row.words) - chain[-1] <= apart)
