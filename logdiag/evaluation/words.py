"""Numbers and misses as a reader wants them, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logdiag.evaluation.metrics import METRICS
from logdiag.evaluation.scoring import Row

Columns = Mapping[str, Mapping[str, float | None]]
"""Metrics of several systems or splits, by their names."""

_NOTHING = "\u2013"


def value_words(name: str, value: float | None) -> str:
    """A metric's value with its unit; a dash for what was not measured."""
    if value is None:
        return _NOTHING
    kind = METRICS[name].kind
    if kind == "share":
        return f"{value:.1%}"
    if kind == "seconds":
        return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms" if value >= 0.0001 else "< 0.1 ms"
    return f"{value:,.0f}" if kind == "tokens" else f"{value:.3f}"


def interval_words(name: str, interval: Sequence[float] | None) -> str:
    """From where to where, in the metric's unit."""
    return "" if interval is None else " to ".join(value_words(name, end) for end in interval)


def measured(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Each metric that was measured: its title, its value and its interval."""
    values, intervals = document["metrics"], document["intervals"]
    return [
        (metric.title, value_words(name, values[name]), interval_words(name, intervals.get(name)))
        for name, metric in METRICS.items()
        if values[name] is not None
    ]


def beside(document: Mapping[str, Any]) -> Columns:
    """The metrics of logdiag and of all that was measured beside it; empty where nothing was."""
    others = document.get("baselines")
    return {"logdiag": document["metrics"], **others} if others else {}


def columns_of(columns: Columns) -> list[tuple[str, ...]]:
    """The rows of a table with a column of metrics for each name, the numbers of cases first."""
    rows = [
        (metric.title, *(value_words(name, values.get(name)) for values in columns.values()))
        for name, metric in METRICS.items()
        if any(values.get(name) is not None for values in columns.values())
    ]
    if any("n" in values for values in columns.values()):
        rows.insert(0, ("Cases", *(str(values.get("n", "")) for values in columns.values())))
    return rows


def miss_words(row: Row) -> list[str]:
    """What was expected and what was answered, for each respect in which a case was missed."""
    if row.error:
        return [f"crash: {row.error}"]
    sure = f" ({row.confidence:.2f})" if row.confidence is not None else ""
    told = {one.what: f"{one.truth}, answered {one.answer}" for one in row.judged}
    told["reason"] += sure
    told["false alarm"] = f"{row.reason}{sure} on a healthy job"
    told["root line"] = f"answered line {row.root_line}" if row.root_line is not None else "not found"
    return [f"{what}: {told[what]}" for what in row.missed]
