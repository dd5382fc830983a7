"""An evaluation for a terminal: metrics with their intervals, reasons, baselines, the misses in a line each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from logdiag.evaluation.compare import Change, Comparison
from logdiag.evaluation.metrics import METRICS
from logdiag.evaluation.scoring import Row
from logdiag.evaluation.words import Columns, beside, columns_of, measured, miss_words, value_words
from logdiag.report.words import clean

_MISSES_SHOWN = 20
_CHANGES_SHOWN = 200
_WIDTH_OF_A_PIPE = 120


def print_document(document: dict[str, Any], rows: Sequence[Row]) -> None:
    """Writes the tables. Log text and labels are never read as markup."""
    console = _console()
    made_by = document["made_by"]
    failed = sum(not row.healthy for row in rows)
    console.print(
        Text(f"{len(rows)} cases: {failed} failed, {len(rows) - failed} healthy", style="bold"),
        Text(f"logdiag {made_by['logdiag']}, rules {made_by['rules'][:12]}", style="dim"),
        sep="\n",
    )
    console.print(_metrics_table(document))
    for title, columns in (("Beside the baselines", beside(document)), ("By split", document["by_split"])):
        if columns:
            console.print(_columns_table(title, columns))
    console.print(_reasons_table(document["by_reason"]))
    console.print(_misses(rows))
    for note in document["notes"]:
        console.print(Text(f"Note: {clean(note)}", style="dim"))


def print_comparison(comparison: Comparison) -> None:
    """Writes what changed against an older evaluation, regressions first."""
    console = _console()
    count = len(comparison.regressions)
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
            table.add_row(METRICS[name].title, *(value_words(name, value) for value in pair))
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
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if index else "left", overflow="fold")
    return table


def _metrics_table(document: dict[str, Any]) -> Table:
    table = _table("Metrics", "", "value", "95 % interval")
    for row in measured(document):
        table.add_row(*row)
    unmeasured = [METRICS[name].title.lower() for name, value in document["metrics"].items() if value is None]
    if unmeasured:
        table.caption = f"no case to measure by: {', '.join(unmeasured)}"
        table.caption_justify = "left"
    return table


def _columns_table(title: str, columns: Columns) -> Table:
    """The metrics of several systems or splits, one a column."""
    table = _table(title, "", *(clean(name) for name in columns))
    for row in columns_of(columns):
        table.add_row(*row)
    return table


def _reasons_table(by_reason: dict[str, dict[str, Any]]) -> Table:
    table = _table("By reason", "", "cases", "right", "precision", "recall", "F1", "root line", "action")
    for name, row in by_reason.items():
        shares = (row[key] for key in ("precision", "recall", "f1", "root_line_hit", "action_accuracy"))
        style = "" if row["right"] == row["n"] else "yellow"
        table.add_row(
            name,
            str(row["n"]),
            str(row["right"]),
            *(value_words("reason_accuracy", share) for share in shares),
            style=style,
        )
    return table


def _misses(rows: Sequence[Row]) -> RenderableType:
    missed = [row for row in rows if row.missed]
    if not missed:
        return Text("No misses.", style="bold green")
    table = _table(f"Misses: {len(missed)} cases", "case", "what is wrong")
    table.columns[1].justify = "left"
    for row in missed[:_MISSES_SHOWN]:
        table.add_row(Text(clean(row.id, 60)), Text("; ".join(clean(words, 160) for words in miss_words(row))))
    more = len(missed) - _MISSES_SHOWN
    return (
        Group(table, Text(f"and {more} more: --html FILE shows each with its log", style="dim")) if more > 0 else table
    )


def _change(change: Change) -> Text:
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
