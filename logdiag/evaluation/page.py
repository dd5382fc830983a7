"""An evaluation as one HTML page that needs nothing else: what `page.html` shows of a document and its results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from logdiag.evaluation.excerpts import Excerpt
from logdiag.evaluation.metrics import METRICS
from logdiag.evaluation.run import Result
from logdiag.evaluation.scoring import Row
from logdiag.evaluation.words import (
    Columns,
    beside,
    columns_of,
    interval_words,
    kinds_of_miss,
    measured,
    shown,
    value_words,
)
from logdiag.model import Reason
from logdiag.report.pages import page_by

_LONGEST = 1000
_TILES = (
    "reason_accuracy", "root_line_hit", "first_rank_hit", "action_accuracy",
    "false_alarm_rate", "confident_error_rate", "ece", "root_line_survival",
)  # fmt: skip


def page(document: Mapping[str, Any], results: Sequence[Result]) -> str:
    """The page of a document and the results that it was made of. Every miss of the results is on it."""
    tables: list[tuple[str, str, Columns]] = [
        ("Beside the baselines", "The same cases, judged in the same way.", beside(document)),
        ("By split", "", document["by_split"]),
    ]
    order = {reason.value: at for at, reason in enumerate(Reason)}
    confusion: Mapping[str, Mapping[str, int]] = document["confusion"]
    truths = sorted(confusion, key=lambda name: order.get(name, len(order)))
    answered = {answer for answers in confusion.values() for answer in answers}
    missed = [result for result in results if result.row.missed]
    return page_by(
        Path(__file__).parent,
        _LONGEST,
        document=document,
        healthy=sum(result.row.healthy for result in results),
        cases=len(results),
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
            (result.row, kinds_of_miss(result.row), _judged(result.row), _log(result.excerpt)) for result in missed
        ],
    )


def _bins(bins: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The dots of the reliability diagram, with the sizes that depend on how many cases the largest has."""
    most = max((int(item["n"]) for item in bins), default=1)
    return [
        {**item, "radius": round(4 + 5 * math.sqrt(item["n"] / most), 1), "part": item["n"] / most} for item in bins
    ]


def _judged(row: Row) -> list[tuple[str, str, str, bool]]:
    """Truth and answer in each respect that is judged, and whether it is right."""
    sure = "" if row.confidence is None or row.error else f" (confidence {row.confidence:.2f})"
    root = "none" if row.root_line is None else f"line {row.root_line}: {row.root_text}"
    judged = (
        ("Reason", " or ".join(row.accepted_reasons), f"{shown(row.reason)}{sure}", row.reason_right),
        ("Root line", shown(row.true_root), root, row.root_right),
        ("Rank", shown(row.true_rank), shown(row.rank), row.rank_right),
        ("Node", shown(row.true_node), shown(row.node), row.node_right),
        ("Action", " or ".join(row.accepted_actions), shown(row.action), row.action_right),
    )
    return [(name, truth, answer, right) for name, truth, answer, right in judged if right is not None]


def _log(lines: Sequence[Excerpt]) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """The excerpt by source; each line as its number, its text and whose root line it is, after a gap one without."""
    width = len(str(max((line.number for line in lines), default=0)))
    return [
        ("" if source == "<bytes>" else source, list(_rows(list(group), width)))
        for source, group in groupby(lines, key=lambda line: line.source)
    ]


def _rows(lines: Sequence[Excerpt], width: int) -> Iterator[tuple[str, str, str]]:
    last = lines[0].number - 1
    for line in lines:
        if line.number != last + 1:
            yield f"{'':>{width}} \u22ee", "", "gap"
        last = line.number
        marks = [name for name, there in (("labelled", line.labelled), ("answered", line.answered)) if there]
        yield f"{line.number:>{width}}  ", line.text, "both" if len(marks) == 2 else "".join(marks)
