"""Finds the rank that failed first in software that no rule knows: by the root's line and those beside it, a rank that
is missing where all others print the same, one whose state in a later table differs, and one that ended differently.

Each of these is a witness: a rank and the features of that guess. Their chances, by weights that were learnt
(`weights.json`), are compared with each other and with naming no rank; witnesses of one rank add up.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from typing import NamedTuple

from logdiag.judge.ranks.entries import Words
from logdiag.judge.ranks.readings import Book, Reading, Slot, best_reading_by_rank, readings_of
from logdiag.judge.ranks.weights import score
from logdiag.judge.ranks.words import Row, counted, head_of, plain, short_name, without_numbers

_FEWEST_ALIKE = 2
_MOST_ABSENT, _FEWEST_PRESENT, _SHARE_FILLED = 2, 2, 0.9
_MOST_ODDS = 4.0
_MOST_ENDS, _WORDS_OF_END = 100, 3
_SHARE_ALIKE, _SHARE_CLOCKED = 0.6, 0.5
_SILENT = "silent"


class Root(NamedTuple):
    """The root's row; whether its process waited for others, and whether the line reports the end of a machine."""

    row: Row
    waited: bool
    machine: bool


class Witness(NamedTuple):
    """A rank that may have failed first, and the features of that guess."""

    rank: int
    features: Mapping[str, float]


class _Claim(NamedTuple):
    """A rank that a source names: `odds` are how surely the source means this rank."""

    rank: int
    source: str
    odds: float
    features: Mapping[str, float]


def first_to_fail(book: Book, root: Root) -> tuple[int, float] | None:
    """The likeliest rank and its chance, 0 to 1; None where no line names a rank."""
    weights: dict[int, float] = defaultdict(float)
    for witness in witnesses(book, root):
        weights[witness.rank] += math.exp(score("witness", witness.features))
    if not weights:
        return None
    rank = max(weights, key=weights.__getitem__)
    return rank, weights[rank] / (math.exp(score("witness", {_SILENT: 1})) + sum(weights.values()))


def witnesses(book: Book, root: Root) -> list[Witness]:
    """All witnesses of a job, those of the root's own line first."""
    by_rank = best_reading_by_rank(root_readings(book, root))
    own = [_Claim(rank, "root", odds, {f"root, {best.means}": 1}) for rank, (odds, best) in by_rank.items()]
    others = (_beside(book, root), _missing(book, root), _differing_in_tables(book, root), _ended_otherwise(book, root))
    # Other lines count less where the root's own line names a rank.
    surest = max((claim.odds for claim in own), default=-_MOST_ODDS)
    root_tells = max(0.0, min(surest, _MOST_ODDS) + 1)
    found = []
    for rank, source, odds, features in chain(own, *others):
        weighed = {f"from {source}": 1.0, f"odds, {source}": max(-_MOST_ODDS, min(odds, _MOST_ODDS)), **features}
        if root.waited:
            weighed[f"waited, {source}"] = 1.0
        if source != "root":
            weighed |= {"root tells": root_tells, f"root tells, from {source}": root_tells}
        found.append(Witness(rank, weighed))
    return found


def root_readings(book: Book, root: Root) -> list[Reading]:
    """The readings of the root's line."""
    return readings_of(root.row, book, waited=root.waited, machine=root.machine)


def _beside(book: Book, root: Root) -> Iterator[_Claim]:
    """The ranks that the lines above and below the root name, or the record of which it is a part."""
    rows, row = book.rows, root.row
    mostly_clocked = sum(each_row.clocked for each_row in rows) > _SHARE_CLOCKED * len(rows)
    mostly_levelled = sum(each_row.line.level is not None for each_row in rows) > _SHARE_CLOCKED * len(rows)
    without_head = mostly_levelled and row.line.level is None and not row.clocked and row.at not in book.speakers
    is_part = (mostly_clocked and not row.clocked) or row.line.text[:1].isspace() or without_head
    near = [("above", row.at - 1), ("below", row.at + 1)]
    head = head_of(rows, row) if is_part else None
    if head is None and without_head:
        head = next((above for above in reversed(rows[: row.at]) if above.at in book.speakers), None)
    if head is not None:
        near.append(("record", max(range(head.at, row.at), key=lambda index: _surest(rows[index], book))))
    for source, index in near:
        if 0 <= index < len(rows) and rows[index].line.stream == row.line.stream:
            for rank, (odds, _) in best_reading_by_rank(readings_of(rows[index], book)).items():
                yield _Claim(rank, source, odds, {f"{source}, root is a part": is_part})


def _surest(row: Row, book: Book) -> float:
    """The log-odds of the likeliest rank that a line names."""
    return max((odds for odds, _ in best_reading_by_rank(readings_of(row, book)).values()), default=-math.inf)


def _missing(book: Book, root: Root) -> Iterator[_Claim]:
    """The one or two ranks that lack a line which all others printed, the same but for its numbers."""
    words, form = len(root.row.words), without_numbers(" ".join(root.row.words))
    with_form = [row for row in book.rows if len(row.words) == words and without_numbers(" ".join(row.words)) == form]
    if len(with_form) <= _FEWEST_PRESENT:
        return
    present: dict[Slot, set[int]] = defaultdict(set)
    listed: set[int] = set()
    for row in with_form:
        for _, slot, number in book.numbers[row.at]:
            present[slot].add(number)
        listed.update(named.rank for word in row.lower if (named := book.directory.names.get(word)))
    rolls: list[tuple[float, set[int], set[int]]] = []
    if book.directory.listing and listed:
        rolls.append((0.0, set(book.directory.listing.numbers), listed))
    for slot, numbers in present.items():
        odds = score("word", {**book.slot_features(slot), "covers": 1})
        rolls.append((odds, {number for number, _ in book.slots[slot]}, numbers))
    for odds, everyone, with_line in rolls:
        absent = everyone - with_line
        filled = len(everyone) >= _SHARE_FILLED * (max(everyone) - min(everyone) + 1)
        if len(with_line) >= _FEWEST_PRESENT and 1 <= len(absent) <= _MOST_ABSENT and filled:
            for rank in absent:
                features = {"the only one missing": len(absent) == 1, "present": min(math.log2(len(with_line)), 5) / 5}
                yield _Claim(rank, "missing", odds, features)


def _differing_in_tables(book: Book, root: Root) -> Iterator[_Claim]:
    """The rank whose word in a column of a table below the root differs, where most others agree."""
    for listing in book.directory.listings:
        columns = listing.columns if listing.first > root.row.at and listing.size > 2 else ()
        for index, column in enumerate(columns):
            rank, others_alike = _odd_one(dict(zip(listing.numbers, column, strict=True)))
            if rank is not None and index != listing.number_column:
                features = {
                    "odd, all others alike": others_alike,
                    "odd, whole": listing.whole,
                    "odd, of many": min(6.0, math.log2(listing.size)) / 6,
                }
                yield _Claim(rank, "odd", 0.0, features)


def _odd_one(words: Mapping[int, str]) -> tuple[int | None, bool]:
    """The rank that alone has its word, where most have the same one, None for none or several; and whether all others
    are alike."""
    often = Counter(words.values())
    alone = [rank for rank, word in words.items() if often[word] == 1]
    most_agree = max(often.values()) >= _SHARE_ALIKE * len(words)
    return alone[0] if len(alone) == 1 and most_agree else None, len(often) == 2


def _ended_otherwise(book: Book, root: Root) -> Iterator[_Claim]:
    """The one rank that ended in another way than most, by the last lines of one form: `wa:ended-by-ctl wb:7
    wc:ended-by-ctl`, `44 sv-east-5 signal 7` among lines with `stop 17`."""
    forms: dict[Words, dict[int, str]] = defaultdict(dict)
    for row in book.rows[max(root.row.at + 1, len(book.rows) - _MOST_ENDS) :]:
        for form, rank, way in _ends_in(row, book):
            forms[form][rank] = way
    for ways in forms.values():
        odd, others_alike = _odd_one(ways)
        if odd is not None and len(ways) > _FEWEST_ALIKE:
            features = {
                "end, all others alike": others_alike,
                "end, of many": min(6.0, math.log2(len(ways))) / 6,
                "end, of all": book.directory.listing is not None and len(ways) == book.directory.listing.size,
            }
            yield _Claim(odd, "end", 0.0, features)


def _ends_in(row: Row, book: Book) -> Iterator[tuple[Words, int, str]]:
    """The ranks that a line names: the form of what stands before the first, the rank, and the words after it."""
    named = list(_ranks_named_in(row, book))
    form = (*map(plain, row.lower[: named[0][0]]), *row.shape[: named[0][0] + 1]) if named else ()
    for (index, rank), (next_index, _) in pairwise([*named, (len(row.words), -1)]):
        host = short_name(book.directory.hosts.get(rank, ""))
        words = [word for word in row.lower[index + 1 : next_index] if word != host]
        if words:
            yield form, rank, " ".join(words[:_WORDS_OF_END])


def _ranks_named_in(row: Row, book: Book) -> Iterator[tuple[int, int]]:
    """The ranks that a line names, each with the index of its word; of adjacent words for one rank the last."""
    directory, last = book.directory, (-1, -1)
    for index, word in enumerate(row.lower):
        stem, number = counted(word)
        named = directory.rank_at(row, index)
        rank = -1 if named is None else named
        if rank < 0 and not stem and directory.hosts.get(number, "").lower() in row.lower:
            rank = number
        if rank >= 0:
            if last[1] >= 0 and last[1] != rank:
                yield last
            last = index, rank
    if last[1] >= 0:
        yield last
