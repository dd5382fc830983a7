"""Which process failed first, by all lines that may tell: the root's own, those beside it, the last ones of the log,
what is missing from a roll of all, and who ended in another way than the others.

Each is a witness: a rank, and what speaks for it. Their log-odds are weighed together, with weights that were learnt
(`weights.json`), against saying nothing; witnesses of one rank add up.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from logdiag.judge.ranks.listings import Listing, Words
from logdiag.judge.ranks.readings import Book, Reading, Slot, readings_of, told_by
from logdiag.judge.ranks.weights import score
from logdiag.judge.ranks.words import Row, counted, plain, singular
from logdiag.patterns import pattern_of

_NUMBERS = pattern_of(r"\d+")
_LAST, _LONGEST_RECORD = 10, 60
_MOST_NAMED_LAST, _MOST_ABSENT, _FEWEST_PRESENT = 2, 2, 2
_MOST_ODDS = 4.0
_MOST_ENDS, _WORDS_OF_END = 100, 3
_SHARE_ALIKE, _SHARE_FILLED, _SHARE_CLOCKED = 0.6, 0.9, 0.5
_SILENT = "silent"


class Witness(NamedTuple):
    """A rank that something names as the first to fail, and what speaks for it."""

    rank: int
    features: dict[str, float]


class Root(NamedTuple):
    """The root's row; whether its process waited for others, and whether it tells of a machine's end."""

    row: Row
    waited: bool
    machine: bool


def first_to_fail(book: Book, root: Root) -> tuple[int, float] | None:
    """The rank that most speaks for, and the chance that it is the right one; None where nothing names any."""
    weights: dict[int, float] = defaultdict(float)
    for witness in witnesses(book, root):
        weights[witness.rank] += math.exp(score("witness", witness.features))
    if not weights:
        return None
    rank = max(weights, key=weights.__getitem__)
    return rank, weights[rank] / (math.exp(score("witness", {_SILENT: 1})) + sum(weights.values()))


def witnesses(book: Book, root: Root) -> list[Witness]:
    """All that names a rank."""
    alike = _alike(book, root.row)
    own = told_by(own_readings(book, root))
    strength = max((odds for odds, _ in own.values()), default=-_MOST_ODDS)
    found = [_witness(rank, "root", odds, root, {f"root, {reading.means}": 1}) for rank, (odds, reading) in own.items()]
    others = [
        *_beside(book, root),
        *_last(book, root),
        *_missing(book, root, alike),
        *_odd(book, root),
        *_ended_otherwise(book, root),
    ]
    # What others say counts less where the root's own line tells.
    under = max(0.0, min(strength, _MOST_ODDS) + 1)
    for witness in others:
        where = next(name for name in witness.features if name.startswith("from "))
        witness.features.update({"root tells": under, f"root tells, {where}": under})
    return [*found, *others]


def _witness(rank: int, where: str, odds: float, root: Root, features: dict[str, float]) -> Witness:
    odds = max(-_MOST_ODDS, min(odds, _MOST_ODDS))
    told = {f"from {where}": 1.0, f"odds, {where}": odds, **features}
    return Witness(rank, told | ({f"waited, {where}": 1.0} if root.waited else {}))


def _alike(book: Book, row: Row) -> list[Row]:
    """Other lines that say the same as a line, numbers aside."""
    form = _NUMBERS.sub("0", " ".join(row.lower))
    return [
        other for other in book.rows
        if other is not row and len(other.words) == len(row.words) and _NUMBERS.sub("0", " ".join(other.lower)) == form
    ]  # fmt: skip


def own_readings(book: Book, root: Root) -> list[Reading]:
    """The readings of the root's line, with whether all who say the same name the same."""
    readings, alike = readings_of(root.row, book, waited=root.waited, machine=root.machine), _alike(book, root.row)
    for reading in readings if alike else ():
        same = all(other.words[reading.place] == root.row.words[reading.place] for other in alike)
        reading.features.update({"same in all": same, "varies": not same})
        if root.waited:
            reading.features.update({"waited, same in all": same, "waited, varies": not same})
    return readings


def _beside(book: Book, root: Root) -> Iterator[Witness]:
    """Whom the record names of which the root's line is a part, and the lines above and below."""
    rows, row = book.rows, root.row
    clocked = sum(other.clocked for other in rows) > _SHARE_CLOCKED * len(rows)
    part = (clocked and not row.clocked) or row.line.text[:1].isspace()
    near: list[tuple[str, int]] = [("above", row.at - 1), ("below", row.at + 1)]
    if part:
        near.append(("record", _surest_of_record(rows, row, book)))
    for where, at in near:
        if 0 <= at < len(rows) and rows[at].line.stream == row.line.stream:
            extra: dict[str, float] = {f"{where}, root is a part": part}
            if where != "record":
                extra[f"{where}, itself a part"] = clocked and not rows[at].clocked
            for rank, (odds, _) in told_by(readings_of(rows[at], book)).items():
                yield _witness(rank, where, odds, root, dict(extra))


def _surest_of_record(rows: Sequence[Row], row: Row, book: Book) -> int:
    """The place of the line that names someone most surely, of those of a record before one of its lines; -1 where the
    record has no head."""
    head = next((at for at in range(row.at - 1, max(row.at - _LONGEST_RECORD, -1), -1) if rows[at].clocked), -1)

    def odds(at: int) -> float:
        return max((odds for odds, _ in told_by(readings_of(rows[at], book)).values()), default=-math.inf)

    return max(range(head, row.at), key=odds) if head >= 0 else -1


def _last(book: Book, root: Root) -> Iterator[Witness]:
    """Whom the last lines name, where they name few by the same means."""
    by_means: dict[tuple[str, Slot | None], dict[int, list[tuple[float, Reading]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in book.rows[max(root.row.at + 1, len(book.rows) - _LAST) :]:
        of_row: dict[tuple[str, Slot | None, int], tuple[float, Reading]] = {}
        for reading in readings_of(row, book):
            key = (reading.means, reading.slot, reading.rank)
            told = score("word", reading.features), reading
            of_row[key] = max(of_row.get(key, told), told, key=_odds)
        for (means, slot, rank), best in of_row.items():
            by_means[means, slot][rank].append(best)
    for (means, _), named in by_means.items():
        for rank, all_told in named.items() if len(named) <= _MOST_NAMED_LAST else ():
            odds, reading = max(all_told, key=_odds)
            features = {
                "the only one named last": len(named) == 1,
                "how often named last": min(math.log2(len(all_told)), 5) / 5,
                f"last, {means}": 1,
                "last, place": min(reading.place, 6) / 6,
            }
            yield _witness(rank, "last", odds, root, features)


def _odds(told: tuple[float, Reading]) -> float:
    return told[0]


def _missing(book: Book, root: Root, alike: Sequence[Row]) -> Iterator[Witness]:
    """Who alone does not say what all others say."""
    if len(alike) < _FEWEST_PRESENT:
        return
    present: dict[Slot, set[int]] = defaultdict(set)
    listed: set[int] = set()
    for row in (root.row, *alike):
        for _, slot, number in book.slots_of(row):
            present[slot].add(number)
        listed.update(named.rank for word in row.lower if (named := book.directory.names.get(word)))
    every: list[tuple[float, set[int], set[int]]] = []
    if book.directory.listing and listed:
        every.append((0.0, set(book.directory.listing.numbers), listed))
    for slot, numbers in present.items():
        odds = score("word", {**book.form_of(slot), "form": 1, "covers": 1})
        every.append((odds, {number for _, number, _ in book.slots[slot]}, numbers))
    for odds, everyone, said in every:
        absent = everyone - said
        filled = len(everyone) >= _SHARE_FILLED * (max(everyone) - min(everyone) + 1)
        if len(said) >= _FEWEST_PRESENT and 1 <= len(absent) <= _MOST_ABSENT and len(everyone) > 2 and filled:
            for rank in absent:
                features = {"the only one missing": len(absent) == 1, "present": min(math.log2(len(said)), 5) / 5}
                yield _witness(rank, "missing", odds, root, features)


def _odd(book: Book, root: Root) -> Iterator[Witness]:
    """Who alone has another word in a column of a table below the root."""
    for listing in book.directory.listings:
        if listing.first > root.row.at and listing.size > 2:
            yield from _odd_in(listing, root)


def _ended_otherwise(book: Book, root: Root) -> Iterator[Witness]:
    """Who alone ended in another way than most, by the last lines of one form: `wa:ended-by-ctl wb:7 wc:ended-by-ctl`,
    `44 sv-east-5 signal 7` among lines with `stop 17`."""
    forms: dict[Words, dict[int, str]] = defaultdict(dict)
    for row in book.rows[max(root.row.at + 1, len(book.rows) - _MOST_ENDS) :]:
        for form, rank, way in _ends_in(row, book):
            forms[form][rank] = way
    for ways in forms.values():
        often = Counter(ways.values())
        alone = [rank for rank, way in ways.items() if often[way] == 1]
        if len(ways) > _FEWEST_PRESENT and len(alone) == 1 and max(often.values()) >= _SHARE_ALIKE * len(ways):
            features = {
                "end, all others alike": len(often) == 2,
                "end, of many": min(6.0, math.log2(len(ways))) / 6,
                "end, of all": book.directory.listing is not None and len(ways) == book.directory.listing.size,
            }
            yield _witness(alone[0], "end", 0.0, root, features)


def _ends_in(row: Row, book: Book) -> Iterator[tuple[Words, int, str]]:
    """The processes that a line names, each with what stands before the first, and the words behind it."""
    named = list(_named_in(row, book))
    form = (*map(plain, row.lower[: named[0][0]]), *row.shape[: named[0][0] + 1]) if named else ()
    for (place, rank), (after, _) in pairwise([*named, (len(row.words), -1)]):
        host = book.directory.hosts.get(rank, "").partition(".")[0].lower()
        words = [word for word in row.lower[place + 1 : after] if word != host]
        if words:
            yield form, rank, " ".join(words[:_WORDS_OF_END])


def _named_in(row: Row, book: Book) -> Iterator[tuple[int, int]]:
    """The places of a line's words that name a process, and its rank; of several next to each other the last."""
    directory, last = book.directory, (-1, -1)
    for place, word in enumerate(row.lower):
        stem, number = counted(word)
        named = directory.named(row, place)
        if named is None and number >= 0:
            named = directory.numbered.get((singular(stem or row.lower[place - 1] if place else stem), number))
        rank = named.rank if named and not named.is_host else -1
        if rank < 0 and not stem and number >= 0 and directory.hosts.get(number, "").lower() in row.lower:
            rank = number
        if rank >= 0:
            if last[1] >= 0 and last[1] != rank:
                yield last
            last = place, rank
    if last[1] >= 0:
        yield last


def _odd_in(listing: Listing, root: Root) -> Iterator[Witness]:
    for place, column in enumerate(listing.columns):
        words = dict(zip(listing.numbers, column, strict=True))
        often = Counter(words.values())
        alone = [rank for rank, word in words.items() if often[word] == 1]
        if place != listing.at and len(alone) == 1 and often.most_common(1)[0][1] >= _SHARE_ALIKE * len(words):
            size = min(6.0, math.log2(listing.size)) / 6
            features = {"odd, all others alike": len(often) == 2, "odd, whole": listing.whole, "odd, of many": size}
            yield _witness(alone[0], "odd", 0.0, root, features)
