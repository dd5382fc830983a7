"""An evaluation as one HTML page that needs nothing else: what `page.html` shows of a document and its results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case
from logdiag.evaluation.logs import last_lines
from logdiag.evaluation.metrics import METRICS
from logdiag.evaluation.scoring import Row
from logdiag.evaluation.words import Columns, beside, columns_of, interval_words, measured, value_words
from logdiag.model import Reason
from logdiag.report.pages import page_by

_LONGEST = 1000
# Of a log are shown so many lines on both sides of a root line, and so much of a long one.
_AROUND, _LONGEST_LINE = 5, 600
_TILES = (
    "reason_accuracy", "root_line_hit", "first_rank_hit", "action_accuracy",
    "false_alarm_rate", "confident_error_rate", "ece", "root_line_survival",
)  # fmt: skip


def page(document: Mapping[str, Any], cases: Sequence[Case], rows: Sequence[Row]) -> str:
    """The page of a document, and of the cases and rows that it was made of. Every miss is on it."""
    tables: list[tuple[str, str, Columns]] = [
        ("Beside the baselines", "The same cases, judged in the same way.", beside(document)),
        ("By split", "", document["by_split"]),
    ]
    order = {reason.value: at for at, reason in enumerate(Reason)}
    confusion: Mapping[str, Mapping[str, int]] = document["confusion"]
    truths = sorted(confusion, key=lambda name: order.get(name, len(order)))
    answered = {answer for answers in confusion.values() for answer in answers}
    return page_by(
        Path(__file__).parent,
        _LONGEST,
        document=document,
        healthy=sum(row.healthy for row in rows),
        cases=len(rows),
        metrics=METRICS,
        tiles=_TILES,
        value_words=value_words,
        interval_words=interval_words,
        measured=measured(document),
        tables=[(title, words, ("", *columns), columns_of(columns)) for title, words, columns in tables],
        bins=_bins(document["reliability"]),
        truths=truths,
        answers=sorted({*truths, *answered}, key=lambda name: order.get(name, len(order))),
        depth=lambda count, total: math.ceil(5 * count / total),
        missed=[
            (row, row.missed, row.judged, _log(case, row)) for case, row in zip(cases, rows, strict=True) if row.missed
        ],
    )


def _bins(bins: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The dots of the reliability diagram, with the sizes that depend on how many cases the largest has."""
    most = max((int(item["n"]) for item in bins), default=1)
    return [
        {**item, "radius": round(4 + 5 * math.sqrt(item["n"] / most), 1), "part": item["n"] / most} for item in bins
    ]


def _log(case: Case, row: Row) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """What is shown of a log, by source: of each line its number, its text and whose root line it is, after a gap one
    without. Empty for a log that went away."""
    try:
        lines = shown_lines(case, row)
    except LogdiagError:
        return []
    width = len(str(max((number for _, number, _, _ in lines), default=0)))
    return [
        ("" if source == "<bytes>" else source, list(_with_gaps(group, width)))
        for source, group in groupby(lines, key=itemgetter(0))
    ]


def shown_lines(case: Case, row: Row) -> list[tuple[str, int, str, str]]:
    """The labelled and the answered root line, each with five lines on both sides, without either the end of the log:
    source, number, text, and whose root line it is (`labelled`, `answered`, `both` or nobody's). Raises LogdiagError
    for a log that went away."""
    label = case.roots[0] if case.roots else None
    labelled = next((line[:2] for line in case.lines() if label in line[2]), None) if label else None
    answered = (row.root_source or "", row.root_line) if row.root_line is not None else None
    names = {answered: "answered", labelled: "labelled"} | ({labelled: "both"} if labelled == answered else {})
    places = [place for place in names if place]
    if not places:
        return [(*line[:2], _cut(line[2]), "") for line in last_lines(case.lines(), _AROUND)]
    return [
        (source, number, _cut(text, label if (source, number) == labelled else None), names.get((source, number), ""))
        for source, number, text in case.lines()
        if any(source == near and abs(number - at) <= _AROUND for near, at in places)
    ]


def _with_gaps(lines: Iterator[tuple[str, int, str, str]], width: int) -> Iterator[tuple[str, str, str]]:
    last = None
    for _, number, text, kind in lines:
        if last is not None and number != last + 1:
            yield f"{'':>{width}} \u22ee", "", "gap"
        last = number
        yield f"{number:>{width}}  ", text, kind


def _cut(text: str, around: str | None = None) -> str:
    """A long line reduced to the part that matters."""
    if len(text) <= _LONGEST_LINE:
        return text
    start = max(0, min(text.find(around) - 80, len(text) - _LONGEST_LINE)) if around else 0
    return ("\u2026" if start else "") + text[start : start + _LONGEST_LINE] + "\u2026"
