"""Reads what launchers draw over several lines, boxes and JSON texts, as lines of their own: one for each process of a
box behind the box's name, one for each object of a JSON text.

    +---- elm-7 -----+  +---- oak-3 -----+        elm-7 seat 0
    | seat 0 | seat 1 |  | seat 2 | seat 3 |        elm-7 seat 1  ...
    +----------------+  +----------------+
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from logdiag.judge.ranks.words import Row, row_of
from logdiag.patterns import pattern_of

# +---- elm-7 ----+   ┌─ elm-7 ─┐   +==[ elm-7 ]==+   +--------+   (but not the top of a table of several columns)
_TOP = pattern_of(
    r"(?<![-=─═])[+┌╔╭][-=─═]{1,}(?:[\[( ]{1,2}(?P<name>[^\W_][\w. :#-]*?)[\]) ]{1,2}[-=─═]{1,})?[+┐╗╮](?![-=─═])"
)
_SIDES = frozenset("|│║")
_CELLS = pattern_of("[|│║;,]| {3,}")
_OPENS_A_TEXT = pattern_of(r"[\[{]\s*$")
_MOST_LINES = 400


def drawn(opening: Sequence[Row]) -> Iterator[Row]:
    """The lines that the boxes and JSON texts among some lines stand for."""
    at = 0
    while at < len(opening):
        text = opening[at].line.text
        used, lines = 1, list[str]()
        if boxes := list(_TOP.finditer(text)):
            used, lines = _boxes([box.span() for box in boxes], [box["name"] for box in boxes], opening, at)
        elif _OPENS_A_TEXT.search(text):
            used, lines = _objects(opening, at)
        row = opening[at]
        yield from (row_of(row.line._replace(text=line, clock=None), row.at) for line in lines)
        at += used


def _boxes(
    spans: Sequence[tuple[int, int]], names: Sequence[str | None], opening: Sequence[Row], at: int
) -> tuple[int, list[str]]:
    """Of boxes side by side, whose tops stand in one line: how many lines they have, and a line for each cell, with the
    name in the top or else in the first cell before it."""
    cells: list[list[str]] = [[] for _ in spans]
    for size, row in enumerate(opening[at + 1 : at + _MOST_LINES], 1):
        text = row.line.text
        if not any(text[start : start + 1] in _SIDES for start, _ in spans):
            break
        for box, (start, end) in zip(cells, spans, strict=True):
            if text[start : start + 1] in _SIDES:
                box += filter(None, map(str.strip, _CELLS.split(text[start + 1 : end - 1])))
    else:
        return 1, []
    lines = []
    for name, box in zip(names, cells, strict=True):
        title, *inside = [name.strip(), *box] if name else box or [""]
        lines += [f"{title} {cell}" for cell in inside]
    return size, lines


def _objects(opening: Sequence[Row], at: int) -> tuple[int, list[str]]:
    """Of a JSON text that begins at the end of a line: how many lines it has, and a line for each object in it that
    holds no other."""
    first, *others = (row.line.text for row in opening[at : at + _MOST_LINES])
    text = "\n".join([first.rstrip()[-1:], *others])
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return 1, []
    lines = text.count("\n", 0, end) + 1
    return (lines, list(_innermost("", value))) if lines > 1 else (1, [])


def _innermost(key: str, value: Any) -> Iterator[str]:
    """A line for each object that holds no other, and for each list of a table of lists, behind its key."""
    inside = list(value.items()) if isinstance(value, dict) else [("", item) for item in value]
    holders = [(name, item) for name, item in inside if isinstance(item, (dict, list))]
    if any(isinstance(item, dict) or any(isinstance(one, dict) for one in item) for _, item in holders):
        for name, item in holders:
            yield from _innermost(name, item)
    elif len(holders) > 1 and len(holders) == len(inside):
        yield from (f"{name} {json.dumps(item)}" for name, item in inside)
    else:
        yield f"{key} {json.dumps(value)}"
