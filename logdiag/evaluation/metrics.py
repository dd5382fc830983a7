"""Rows into shares, their uncertainty, and tables: plain functions, nothing is kept.

The truth of a case is its first reason, or the one that was answered where that is an accepted reading too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist, fmean, quantiles
from typing import Any

from logdiag.evaluation.scoring import Row
from logdiag.judge.verdict import SURE
from logdiag.model import Reason

CONFIDENT = 0.7
_BINS = 10
_NORMAL_95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Metric:
    """How a metric is called and read. `kind` is share, error (a number from 0 to 1), seconds, tokens or cost;
    `of` says of a share whether a row is a hit, None where it is not judged."""

    title: str
    of: Callable[[Row], bool | None] | None = None
    kind: str = "share"
    less_is_better: bool = False


_fewer = partial(Metric, less_is_better=True)

METRICS = {
    "reason_accuracy": Metric("Reason right", lambda row: row.reason_right),
    "category_accuracy": Metric("Category right", lambda row: row.category_right),
    "macro_f1": Metric("Macro F1 over reasons"),
    "root_line_hit": Metric("Root line right", lambda row: row.root_right),
    "suspect_hit": Metric("Root line right, or among the suspects", lambda row: row.root_among_suspects),
    # Where no rank is to be found, naming none is no hit.
    "first_rank_hit": Metric(
        "First failing rank right", lambda row: row.rank_right if row.true_rank is not None else None
    ),
    "node_hit": Metric("Node right", lambda row: row.node_right),
    "action_accuracy": Metric("Action right", lambda row: row.action_right),
    "false_restart_rate": _fewer("False restarts", lambda row: row.false_restart),
    "false_stop_rate": _fewer("False stops", lambda row: None if row.healthy else row.false_stop),
    "false_alarm_rate": _fewer(
        "False alarms on healthy jobs", lambda row: not row.reason_right if row.healthy else None
    ),
    "missed_failure_rate": _fewer("Failures missed", lambda row: None if row.healthy else _missed_failure(row)),
    # An answer that the log does not tell is never this sure.
    "called_healthy_rate": _fewer(
        "Failed jobs called healthy",
        lambda row: None if row.healthy else _missed_failure(row) and (row.confidence or 0) >= SURE,
    ),
    "confident_error_rate": _fewer(
        "Confident errors",
        lambda row: None if row.confidence is None else row.confidence >= CONFIDENT and not row.reason_right,
    ),
    "abstention_rate": _fewer("Abstentions", lambda row: None if row.confidence is None else row.confidence < SURE),
    "ece": _fewer("Expected calibration error", kind="error"),
    "root_line_survival": Metric("Root line kept by the filters", lambda row: row.survived),
    "kept_share": _fewer("Lines kept by the filters"),
    "latency_p50": _fewer("Seconds a diagnosis, median", kind="seconds"),
    "latency_p95": _fewer("Seconds a diagnosis, 95th percentile", kind="seconds"),
    "tokens": _fewer("Tokens", kind="tokens"),
    "cost": _fewer("Cost", kind="cost"),
}
"""Every metric by its name in JSON, in the order in which it is shown."""

_SHARES = {name: metric.of for name, metric in METRICS.items() if metric.of}


def _missed_failure(row: Row) -> bool:
    return row.reason in (None, Reason.NONE.value) and not row.reason_right


# --- one number a metric ---


def measure(rows: Sequence[Row]) -> dict[str, float | None]:
    """Every metric by name; None where the rows hold nothing to measure it by."""
    values: dict[str, float | None] = {name: _mean(of(row) for row in rows) for name, of in _SHARES.items()}
    values["macro_f1"] = _mean(score["f1"] for score in _scores(rows).values())
    # How far the mean confidence of a bin is from the share that is right in it, on average over cases.
    bins = _by_confidence(rows).values()
    off = [abs(sum((row.confidence or 0.0) - row.reason_right for row in group)) for group in bins]
    values["ece"] = sum(off) / sum(map(len, bins)) if off else None
    seconds = [row.seconds for row in rows]
    lines = sum(row.lines or 0 for row in rows)
    values["kept_share"] = sum(row.kept_lines or 0 for row in rows) / lines if lines else None
    values["latency_p50"] = _percentile(seconds, 50)
    values["latency_p95"] = _percentile(seconds, 95)
    for name in ("tokens", "cost"):
        spent = [getattr(row, name) for row in rows if getattr(row, name) is not None]
        values[name] = sum(spent) if spent else None
    return {name: None if values[name] is None else round(float(values[name] or 0), 6) for name in METRICS}


def intervals(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Wilson's 95 % interval of each share. Cases of one fault resemble each other: they count as the fewer,
    independent cases that they are worth."""
    found: dict[str, list[float]] = {}
    for name, of in _SHARES.items():
        judged = [[value for row in fault if (value := of(row)) is not None] for fault in _by_fault(rows)]
        if any(judged):
            found[name] = _share_interval([values for values in judged if values])
    return found


def wilson(hits: float, count: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    share, square = hits / count, _NORMAL_95**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    reach = _NORMAL_95 * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _grouped(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _by_fault(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each fault; a row that names none is alone."""
    alone = [[row] for row in rows if row.fault is None]
    return [*alone, *_grouped([row for row in rows if row.fault is not None], lambda row: row.fault).values()]


def _share_interval(judged: Sequence[Sequence[bool]]) -> list[float]:
    """Of a share over the judgements of each fault."""
    count, hits = sum(map(len, judged)), sum(map(sum, judged))
    alone = count / _design_effect(judged)
    return [round(end, 6) for end in wilson(hits / count * alone, alone)]


def _design_effect(judged: Sequence[Sequence[bool]]) -> float:
    """How many cases are worth one independent case, at least 1: the variance of the share over faults to that over
    cases (Rao and Scott, "A simple method for the analysis of clustered binary data", 1992). Where all are judged
    alike, a fault counts as one case."""
    count, faults = sum(map(len, judged)), len(judged)
    share = sum(map(sum, judged)) / count
    if faults == 1 or share in (0.0, 1.0):
        return count / faults
    between = sum((sum(values) - share * len(values)) ** 2 for values in judged) * faults / (faults - 1)
    return max(1.0, between / (count * share * (1 - share))) if faults < count else 1.0


def _truth(row: Row) -> str:
    return (row.reason if row.reason_right else None) or row.true_reason


def _scores(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of each reason that occurs as truth; precision is 0 for one never answered."""
    truths, answers = Counter(map(_truth, rows)), Counter(row.reason for row in rows)
    right = Counter(row.reason for row in rows if row.reason_right)
    return {
        name: {
            "precision": right[name] / answers[name] if answers[name] else 0.0,
            "recall": right[name] / count,
            "f1": 2 * right[name] / (count + answers[name]),
        }
        for name, count in truths.items()
    }


def _by_confidence(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """The rows of each tenth of confidence that occurs, from below."""
    sure = [row for row in rows if row.confidence is not None]
    return dict(sorted(_grouped(sure, lambda row: min(int((row.confidence or 0) * _BINS + 1e-9), _BINS - 1)).items()))


def _mean(values: Iterable[float | None]) -> float | None:
    judged = [value for value in values if value is not None]
    return fmean(judged) if judged else None


def _percentile(values: Sequence[float], percent: int) -> float | None:
    """The value below which so many of a hundred lie, between two where it falls between them."""
    if len(values) < 2:
        return values[0] if values else None
    return quantiles(values, n=100, method="inclusive")[percent - 1]


# --- tables ---


def by_reason(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """For each labelled reason, in the taxonomy's order: cases, how many right, precision, recall, F1, and the shares
    of right root lines and actions."""
    scores = _scores(rows)
    groups = _grouped(rows, lambda row: row.true_reason)
    return {name: _table_row(groups[name], scores.get(name, {})) for name in map(str, Reason) if name in groups}


def by_split(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """Every metric for each split, with the number of cases `n`; empty where no case has a split."""
    groups = _grouped([row for row in rows if row.split is not None], lambda row: row.split)
    return {name: {"n": len(group), **measure(group)} for name, group in sorted(groups.items())}


def reliability(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For each tenth of confidence that occurs: its bounds, cases, mean confidence, share right and its interval."""
    return [
        {
            "from": number / _BINS,
            "to": (number + 1) / _BINS,
            "n": len(group),
            "confidence": round(sum(row.confidence or 0.0 for row in group) / len(group), 6),
            "right": round(sum(row.reason_right for row in group) / len(group), 6),
            "interval": _share_interval([[row.reason_right for row in fault] for fault in _by_fault(group)]),
        }
        for number, group in _by_confidence(rows).items()
    ]


def _table_row(group: Sequence[Row], scores: dict[str, float]) -> dict[str, float | None]:
    return {
        "n": len(group),
        "right": sum(row.reason_right for row in group),
        **{name: None if name not in scores else round(scores[name], 6) for name in ("precision", "recall", "f1")},
        "root_line_hit": _mean(row.root_right for row in group),
        "action_accuracy": _mean(row.action_right for row in group),
    }
