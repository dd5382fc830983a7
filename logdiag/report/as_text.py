"""The report for a person: the verdict, the root line in its context, consequences folded, what to do.

The layout is made of spans of (text, style), so a pipe gets plain text without `rich` being loaded, and a terminal
the same in colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from logdiag.model import Diagnosis, Digest, Evidence
from logdiag.report.words import action_words, amount, clean, headline, rank_ranges, where

__all__ = ["digest_rows", "print_rows", "report_rows", "to_plain"]

Row = list[tuple[str, str]]


def to_plain(diagnosis: Diagnosis) -> str:
    """The report without colour."""
    return "\n".join("".join(text for text, _ in row).rstrip() for row in report_rows(diagnosis))


def print_rows(rows: Iterator[Row], out: TextIO) -> None:
    """Writes rows in colour to a terminal; log text is never read as markup."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=True)
    for row in rows:
        console.print(Text.assemble(*row))


def report_rows(diagnosis: Diagnosis) -> Iterator[Row]:
    """The report, row by row."""
    yield [(headline(diagnosis), "bold red" if diagnosis.failed else "bold green")]
    yield [(clean(diagnosis.summary), "bold")]
    if diagnosis.root_cause:
        yield []
        yield [("Root cause  ", "bold"), (where(diagnosis), "cyan"), (f"  {diagnosis.root_cause.rule}", "dim")]
        yield from _evidence_rows(diagnosis)
    if diagnosis.consequences:
        yield []
        yield [("Consequences", "bold")]
        for item in diagnosis.consequences:
            ranks = f"  ranks {rank_ranges(item.ranks)}" if item.ranks else ""
            yield [(f"  {item.count:>5}x  ", "dim"), (f"{clean(item.reason)}  {clean(item.title)}", ""), (ranks, "dim")]
    if diagnosis.failed:
        yield []
        yield [("What to do  ", "bold"), (action_words(diagnosis.recovery), "yellow")]
        for number, step in enumerate(diagnosis.recovery.steps, 1):
            yield [(f"  {number}. {clean(step)}", "")]
        yield [(f"  Why: {clean(diagnosis.recovery.why)}", "dim")]
    if diagnosis.similar:
        yield []
        yield [("Similar failures", "bold")]
        for past in diagnosis.similar:
            said = f"{past.reason.value}  {clean(past.words)}."
            yield [(f"  {past.similarity:>4.0%}  ", "dim"), (said, ""), (f"  {clean(past.incident)}", "dim")]
    if diagnosis.candidates:
        others = ", ".join(f"{item.reason.value} {item.confidence:.0%}" for item in diagnosis.candidates)
        yield []
        yield [(f"Also possible: {others}", "dim")]
    if diagnosis.notes:
        yield []
        for note in diagnosis.notes:
            yield [(f"Note: {clean(note)}", "dim")]
    if diagnosis.incident:
        yield [(f"Remembered as {diagnosis.incident}; logdiag incidents confirm or correct it.", "dim")]
    yield []
    yield [(amount(diagnosis), "dim")]


def _evidence_rows(diagnosis: Diagnosis) -> Iterator[Row]:
    root = diagnosis.root_cause
    near = [item for item in diagnosis.evidence if root and item.source == root.source and item.role != "consequence"]
    elsewhere = [item for item in diagnosis.evidence if item not in near]
    width = max((len(str(item.line)) for item in near), default=1)
    before: Evidence | None = None
    for item in near:
        if before and item.line - before.line > 1:
            yield [(f"    {'':>{width}} \u22ee", "dim")]
        mark, style = (">", "bold red") if item.role == "root" else (" ", "dim")
        yield [(f"  {mark} {item.line:>{width}} | ", style), (clean(item.text), style if item.role == "root" else "")]
        before = item
    for item in elsewhere:
        yield [(f"    {clean(item.source)}:{item.line}  ", "cyan"), (clean(item.text), "dim")]


def digest_rows(digest: Digest) -> Iterator[Row]:
    """What is worth reading of a log, with what each line stands for, and the receipt."""
    width = len(str(max((line.number for line in digest.lines), default=1)))
    source, last = None, 0
    for line in digest.lines:
        if line.source != source:
            yield [(clean(line.source), "bold cyan")]
            source, last = line.source, line.number - 1
        if line.number > last + 1:
            yield [(f"{'':>{width}} \u22ee", "dim")]
        count = digest.counts.get((line.source, line.number))
        stands = f"  [{count:,} lines like this]" if count else ""
        yield [(f"{line.number:>{width}} | ", "dim"), (clean(line.text), ""), (stands, "yellow")]
        last = line.number
    kept = len(digest.lines)
    yield [(f"{digest.total_lines:,} lines in, {kept:,} kept, {digest.total_lines - kept:,} left out:", "bold")]
    for name, count in sorted(digest.dropped_by.items(), key=lambda item: -item[1]):
        yield [(f"  {count:>12,}  {name}", "")]
