"""Reads what launchers draw over several lines, matrices, boxes and JSON texts, as lines of their own: one for each row
or column of numbers, for each cell of a box behind the box's name, for each object of a JSON text.

    +----- elm-7 -----+  +----- oak-3 -----+      elm-7 seat 0
    | seat 0 | seat 1 |  | seat 2 | seat 3 |      elm-7 seat 1
    +-----------------+  +-----------------+      oak-3 seat 2 ...
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise, takewhile
from typing import Any

from logdiag.judge.ranks.words import Row, counted, row_of
from logdiag.patterns import pattern_of

# +---- elm-7 ----+   ┌─ elm-7 ─┐   +==[ elm-7 ]==+   +--------+   (but not the top of a table of several columns)
_TOP = pattern_of(
    r"(?<![-=─═])[+┌╔╭][-=─═]{1,}(?:[\[( ]{1,2}(?P<name>[^\W_][\w. :#-]*?)[\]) ]{1,2}[-=─═]{1,})?[+┐╗╮](?![-=─═])"
)
_SIDES = frozenset("|│║")
_CELLS = pattern_of("[|│║;,]| {3,}")
_OPENS_A_TEXT = pattern_of(r"[\[{]\s*$")
_MOST_LINES = 400
_FEWEST_HOSTS = 2


def drawn(opening: Sequence[Row]) -> Iterator[Row]:
    """The lines that the drawings among some lines stand for."""
    yield from _rows_of_numbers(opening)
    yield from _without_headings(opening)
    at = 0
    while at < len(opening):
        row = opening[at]
        used, lines = 1, list[str]()
        if tops := list(_TOP.finditer(row.line.text)):
            used, lines = _boxes(tops, opening, at)
        elif _OPENS_A_TEXT.search(row.line.text):
            used, lines = _objects(opening, at)
        elif names := _columns(opening, at):
            lines = names
        yield from (_as_drawn(row, line) for line in lines)
        at += used


def _as_drawn(row: Row, text: str) -> Row:
    """A line that stands for a part of the drawing that begins at a row."""
    return row_of(row.line._replace(text=text, clock=None), row.at)


def _without_headings(opening: Sequence[Row]) -> Iterator[Row]:
    """Lines from where the next is set in to, if they then are alike: `hosts: elm-7 0-3` above `       oak-3 4-7`."""
    for row, below in pairwise(opening):
        text, indent = row.line.text, len(below.line.text) - len(below.line.text.lstrip(" "))
        if indent < len(text) and text[:indent].strip() and text[indent - 1] in " ([{":
            rest = _as_drawn(row, text[indent:])
            if len(rest.words) > 1 and rest.shape[1:] == below.shape[1:]:
                yield rest


def _rows_of_numbers(opening: Sequence[Row]) -> Iterator[Row]:
    """The rows of a table that has a name and then the numbers of its processes, each number once: `elm-7  0 2 4` and
    `oak-3  1 3 5`, or `elm-7 | loom-0 | loom-2`; as lines with these numbers in one word."""
    for width, group in groupby(opening, key=_width_of_matrix):
        rows = list(group) if width else []
        if len(rows) > 1 and _count_all([row.words[1:] for row in rows]):
            yield from (_as_drawn(row, _numbered(*row.words)) for row in rows)


def _width_of_matrix(row: Row) -> int:
    """How many numbers stand behind the name with which a line begins; 0 where anything else does."""
    size = len(row.words) - 1
    return size if size > 1 and not row.words[0].isdecimal() and _are_numbers(size, row.words[1:]) else 0


def _numbered(name: str, *cells: str) -> str:
    """A name and what is numbered there, as a line: `elm-7 0,2,4`, `elm-7 loom 0,2,4`."""
    return f"{name} {counted(cells[0])[0]} {','.join(str(counted(cell)[1]) for cell in cells)}"


def _columns(opening: Sequence[Row], at: int) -> list[str]:
    """A line for each column of a matrix whose header is at this place: names above the numbers of their processes,
    each number once, maybe behind a label: `berth 0   0 1 2`, `0 | loom-0 | loom-1`. A ruler may stand between."""
    header = opening[at].words
    for names in (header, header[1:]):
        size = len(names)
        if size < _FEWEST_HOSTS or len(set(names)) < size or any(map(str.isdecimal, names)):
            continue
        following = (row.words[-size:] for row in opening[at + 1 : at + _MOST_LINES] if row.words)
        cells = list(takewhile(partial(_are_numbers, size), following))
        if len(cells) > 1 and _count_all(cells):
            return [_numbered(name, *column) for name, column in zip(names, zip(*cells, strict=True), strict=True)]
    return []


def _are_numbers(size: int, words: Sequence[str]) -> bool:
    """Whether these are so many numbers, or words with a number behind the same letters."""
    return (
        len(words) == size
        and all(words)
        and len({counted(word)[0] for word in words}) == 1
        and all(counted(word)[1] >= 0 for word in words)
    )


def _count_all(rows: Sequence[Sequence[str]]) -> bool:
    """Whether numbers in rows count from 0 on, each once, all behind the same letters."""
    stems, numbers = zip(*(counted(word) for row in rows for word in row), strict=True)
    return len(set(stems)) == 1 and sorted(numbers) == list(range(len(numbers)))


def _boxes(tops: Sequence[re.Match[str]], opening: Sequence[Row], at: int) -> tuple[int, list[str]]:
    """Of boxes side by side, whose tops stand in one line: how many lines they have, and a line for each cell, with the
    name in the top or else in the first cell before it."""
    cells: list[list[str]] = [[] for _ in tops]
    size = 1
    for row in opening[at + 1 : at + _MOST_LINES]:
        text = row.line.text
        inside = [
            text[top.start() + 1 : top.end() - 1] if text[top.start() : top.start() + 1] in _SIDES else ""
            for top in tops
        ]
        if not any(inside):
            break
        size += 1
        for box, part in zip(cells, inside, strict=True):
            box += filter(None, map(str.strip, _CELLS.split(part)))
    lines = []
    for top, box in zip(tops, cells, strict=True):
        title, *others = [top["name"], *box] if top["name"] else box or [""]
        lines += [f"{title} {cell}" for cell in others]
    return size, lines


def _objects(opening: Sequence[Row], at: int) -> tuple[int, list[str]]:
    """Of a JSON text that begins at the end of a line: how many lines it has, and a line for each object in it that
    holds no other."""
    first, *others = (row.line.text for row in opening[at : at + _MOST_LINES])
    text = "\n".join([first.rstrip()[-1:], *others])
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:  # up to there it was read, and is not read again
        return max(text.count("\n", 0, error.pos), 1), []
    except RecursionError:
        return 1 + len(others), []
    lines = text.count("\n", 0, end) + 1
    return (lines, list(_innermost("", value))) if lines > 1 else (1, [])


def _innermost(key: str, value: Any, beside: str = "") -> Iterator[str]:
    """A line for each object that holds no other, and for each list of a table of lists, behind its key and what is
    `beside` it in the objects that hold it: `{"host": "elm-7", "looms": {"first": 0, "last": 3}}`."""
    inside = list(value.items()) if isinstance(value, dict) else [("", item) for item in value]
    holders = [(name, item) for name, item in inside if isinstance(item, (dict, list))]
    if any(isinstance(item, dict) or any(isinstance(one, dict) for one in item) for _, item in holders):
        beside += "".join(f"{name} {item} " for name, item in inside if name and isinstance(item, str))
        for name, item in holders:
            yield from _innermost(name, item, beside)
    elif len(holders) > 1 and len(holders) == len(inside):
        yield from (f"{beside}{name} {json.dumps(item)}" for name, item in inside)
    else:
        yield f"{beside}{key} {json.dumps(value)}"
