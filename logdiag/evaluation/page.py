"""An evaluation as one HTML page that needs nothing else: its tables, and each miss with the lines of its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from itertools import groupby
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case, last_lines
from logdiag.evaluation.scoring import Row
from logdiag.evaluation.table import WIDTH, tables_of
from logdiag.report.words import clean

# Of a log are shown so many lines on both sides of a root line, and so much of a long one.
_AROUND, _LONGEST_LINE = 5, 600
_STYLES = {"labelled": "green", "answered": "red", "both": "bold green"}
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>logdiag evaluation</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; form-action 'none'">
<style>{stylesheet} body {{ color: {foreground}; background: {background}; }} pre {{ white-space: pre-wrap; }}</style>
</head><body><pre>{code}</pre></body></html>
"""


def page(document: Mapping[str, Any], cases: Sequence[Case], rows: Sequence[Row]) -> str:
    """The page of a document, and of the cases and rows that it was made of. Every miss is on it."""
    console = Console(record=True, file=StringIO(), width=WIDTH, highlight=False, markup=False, soft_wrap=True)
    for part in tables_of(document, rows):
        console.print(part)
    missed = [(case, row) for case, row in zip(cases, rows, strict=True) if row.missed]
    console.print(Text(f"\nMisses: {len(missed)} cases", style="bold"))
    for case, row in missed:
        for part in _miss(case, row):
            console.print(part)
    return console.export_html(code_format=_PAGE, inline_styles=False)


def _miss(case: Case, row: Row) -> Iterator[RenderableType]:
    """What was missed of a case, and whose root line stands where; only the first for a log that went away."""
    yield Text(f"\n{clean(row.id)}  {clean(', '.join(row.tags))}", style="bold")
    for words in row.missed.values():
        yield Text(f"  {clean(words)}", style="yellow")
    try:
        lines = shown_lines(case, row)
    except LogdiagError:
        return
    for source, group in groupby(lines, key=lambda line: line[0]):
        yield Text(f"  {clean(source)}", style="dim")
        last = None
        for _, number, text, kind in group:
            if last is not None and number != last + 1:
                yield Text(f"  {'':>9} \u22ee", style="dim")
            last = number
            yield Text(f"  {kind:<9}{number:>7} | {clean(text, _LONGEST_LINE + 2)}", style=_STYLES.get(kind, ""))


def shown_lines(case: Case, row: Row) -> list[tuple[str, int, str, str]]:
    """The labelled and the answered root line, each with five lines on both sides, without either the end of the log:
    source, number, text, and whose root line it is (`labelled`, `answered`, `both` or nobody's). Raises LogdiagError
    for a log that went away."""
    label = case.roots[0] if case.roots else None
    labelled = next((line[:2] for line in case.lines() if label in line[2]), None) if label else None
    answered = (row.root_source or "", row.root_line) if row.root_line is not None else None
    names = {answered: "answered", labelled: "labelled"} | ({labelled: "both"} if labelled == answered else {})
    near_lines = [line for line in names if line]
    if not near_lines:
        return [(*line[:2], _cut(line[2]), "") for line in last_lines(case.lines(), _AROUND)]
    return [
        (source, number, _cut(text, label if (source, number) == labelled else None), names.get((source, number), ""))
        for source, number, text in case.lines()
        if any(source == near[0] and abs(number - near[1]) <= _AROUND for near in near_lines)
    ]


def _cut(text: str, around: str | None = None) -> str:
    """A long line reduced to the part that matters."""
    if len(text) <= _LONGEST_LINE:
        return text
    start = max(0, min(text.find(around) - 80, len(text) - _LONGEST_LINE)) if around else 0
    return ("\u2026" if start else "") + text[start : start + _LONGEST_LINE] + "\u2026"
