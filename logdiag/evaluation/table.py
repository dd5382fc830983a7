"""An evaluation in tables: metrics with their intervals, reasons, calibration, baselines, and the misses."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from logdiag.evaluation.compare import CaseChange, Comparison
from logdiag.evaluation.metrics import METRICS
from logdiag.evaluation.scoring import Row
from logdiag.report.words import clean

_MISSES_SHOWN = 20
_CHANGES_SHOWN = 200
WIDTH = 120
"""How wide the tables are where no terminal says so."""


def print_document(document: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Writes the tables and the first misses. Log text and labels are never read as markup."""
    console = _console()
    for part in tables_of(document, rows):
        console.print(part)
    _print_misses(console, [row for row in rows if row.missed])


def tables_of(document: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[RenderableType]:
    """What is shown of an evaluation before its misses."""
    made_by, failed = document["made_by"], sum(not row.healthy for row in rows)
    yield Text(f"{len(rows)} cases: {failed} failed, {len(rows) - failed} healthy", style="bold")
    yield Text(f"logdiag {made_by['logdiag']}, rules {made_by['rules'][:12]}", style="dim")
    for note in document["notes"]:
        yield Text(f"Note: {clean(note)}", style="dim")
    yield _metrics_table(document)
    if "baselines" in document:
        yield _columns_table("Beside the baselines", {"logdiag": document["metrics"], **document["baselines"]})
    if document["by_split"]:
        yield _columns_table("By split", document["by_split"])
    yield _reasons_table(document["by_reason"])
    yield _reliability_table(document["reliability"])


def _print_misses(console: Console, missed: Sequence[Row]) -> None:
    if not missed:
        console.print(Text("No misses.", style="bold green"))
        return
    table = _table(f"Misses: {len(missed)} cases", "case", "what is wrong")
    table.columns[1].justify = "left"
    for row in missed[:_MISSES_SHOWN]:
        table.add_row(clean(row.id, 60), "; ".join(clean(words, 160) for words in row.missed.values()))
    console.print(table)
    if len(missed) > _MISSES_SHOWN:
        console.print(Text(f"and {len(missed) - _MISSES_SHOWN} more: --html FILE shows each with its log", style="dim"))


def print_comparison(comparison: Comparison) -> None:
    """Writes what changed against an older evaluation, regressions first."""
    console = _console()
    count = comparison.regressions
    console.print(
        Text(
            f"Compared over {comparison.common} common cases: {len(comparison.changes)} judgements changed, "
            f"{count} regression{'s' if count != 1 else ''}",
            style="bold red" if count else "bold",
        )
    )
    if comparison.metrics:
        table = _table("Metrics that moved", "", "was", "is")
        for name, pair in comparison.metrics.items():
            table.add_row(METRICS[name].title, *(_value(name, value) for value in pair))
        console.print(table)
    ordered = sorted(comparison.changes, key=lambda change: not change.regression)
    for change in ordered[:_CHANGES_SHOWN]:
        console.print(_change(change))
    if len(ordered) > _CHANGES_SHOWN:
        console.print(Text(f"and {len(ordered) - _CHANGES_SHOWN} more: --json FILE has all", style="dim"))
    for title, names in (("only in the older evaluation", comparison.only_old), ("new", comparison.only_new)):
        if names:
            shown = ", ".join(clean(name) for name in names[:_MISSES_SHOWN])
            more = f" and {len(names) - _MISSES_SHOWN} more" if len(names) > _MISSES_SHOWN else ""
            console.print(Text(f"{len(names)} cases {title}: {shown}{more}", style="dim"))


def _console() -> Console:
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDTH)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=Text(title, style="bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if index else "left", overflow="fold")
    return table


def _value(name: str, value: float | None) -> str:
    """A metric's value with its unit; a dash for what was not measured."""
    if value is None:
        return "\u2013"
    kind = METRICS[name].kind
    if kind == "share":
        return f"{value:.1%}"
    if kind == "seconds":
        return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms" if value >= 0.0001 else "< 0.1 ms"
    return f"{value:,.0f}" if kind == "tokens" else f"{value:.3f}"


def _metrics_table(document: Mapping[str, Any]) -> Table:
    table = _table("Metrics", "", "value", "95 % interval")
    values, intervals = document["metrics"], document["intervals"]
    for name, metric in METRICS.items():
        if values[name] is not None:
            interval = " to ".join(_value(name, end) for end in intervals.get(name, ()))
            table.add_row(metric.title, _value(name, values[name]), interval)
    unmeasured = [METRICS[name].title.lower() for name, value in values.items() if value is None]
    if unmeasured:
        table.caption = f"no case to measure by: {', '.join(unmeasured)}"
        table.caption_justify = "left"
    return table


def _columns_table(title: str, columns: Mapping[str, Mapping[str, float | None]]) -> Table:
    """The metrics of several systems or splits, one a column."""
    table = _table(title, "", *(clean(name) for name in columns))
    if any("n" in values for values in columns.values()):
        table.add_row("Cases", *(str(values.get("n", "")) for values in columns.values()))
    for name, metric in METRICS.items():
        if any(values.get(name) is not None for values in columns.values()):
            table.add_row(metric.title, *(_value(name, values.get(name)) for values in columns.values()))
    return table


def _reasons_table(by_reason: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table("By reason", "", "cases", "right", "precision", "recall", "F1", "root line", "action")
    for name, row in by_reason.items():
        shares = (row[key] for key in ("precision", "recall", "f1", "root_line_hit", "action_accuracy"))
        words = (_value("reason_accuracy", share) for share in shares)
        table.add_row(
            name, str(row["n"]), str(row["right"]), *words, style="" if row["right"] == row["n"] else "yellow"
        )
    return table


def _reliability_table(bins: Sequence[Mapping[str, Any]]) -> Table:
    """How often answers of each confidence are right."""
    table = _table("By confidence", "", "cases", "mean confidence", "right", "95 % interval")
    for item in bins:
        low, high = item["interval"]
        shares = (f"{item['confidence']:.1%}", f"{item['right']:.1%}", f"{low:.1%} to {high:.1%}")
        table.add_row(f"{item['from']:.1f} to {item['to']:.1f}", str(item["n"]), *shares)
    return table


def _change(change: CaseChange) -> Text:
    mark, style = (
        ("REGRESSION", "bold red")
        if change.regression
        else ("fixed", "green")
        if change.now_right
        else ("changed", "yellow")
    )
    was, now = (clean(str(value) if value is not None else "none", 90) for value in (change.was, change.now))
    label = "  (its label changed too)" if change.relabelled else ""
    return Text.assemble(
        (f"{mark:<12}", style), (clean(change.id, 80), "bold"), f"  {change.what}: was {was}, is {now}{label}"
    )
