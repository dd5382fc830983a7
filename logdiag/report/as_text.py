"""The report for a person. It is made of rows of (text, style): a pipe gets plain text without `rich` being loaded; on
a terminal rows are coloured, sentences wrap, and log lines are cut to the width around a word of trouble."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TextIO

from logdiag.model import Change, Consequence, Diagnosis, Digest, Evidence, Reason, RootCause, Similar
from logdiag.report import words
from logdiag.report.words import clean

if TYPE_CHECKING:
    from rich.text import Text

# Rows of a terminal taken by the command before the report and the prompt after it.
_ROWS_OF_THE_SHELL = 2
_NARROWEST = 20
# Only the first lines that are new since a good run are likely to show the failure.
_MOST_CHANGES = 5
# The first rows of a short report: whether it failed, why, what to do, when.
_ROWS_OF_THE_VERDICT = 4


Span = tuple[str, str]
"""A text and its style."""


class Row(NamedTuple):
    """One row: a label, under which further lines are indented, and spans, each with its style. The first span of a row
    `of_log` is a line of a log, which is cut, not wrapped."""

    label: Span
    spans: tuple[Span, ...] = ()
    of_log: bool = False

    def __str__(self) -> str:
        return "".join(text for text, _ in (self.label, *self.spans)).rstrip()


def _row(label: str, style: str, *spans: Span, of_log: bool = False) -> Row:
    return Row((label, style), spans, of_log)


_BLANK = _row("", "")


def document(diagnosis: Diagnosis) -> str:
    """The report without colour, each row on one line."""
    return "\n".join(map(str, report_rows(diagnosis)))


def print_rows(rows: Iterable[Row], out: TextIO, *, colour: bool = True, repeat: str = "", wrap: bool = True) -> None:
    """Writes rows to a terminal; log text is never read as markup. `repeat` is the answer in a sentence,
    printed again where the rest is longer than the screen. Without `wrap` each row takes one line."""
    from rich.console import Console

    console = Console(file=out, highlight=False, soft_wrap=True, color_system="auto" if colour else None)
    printed = 0
    for row in rows:
        for line in _fitted(row, console.width, wrap=wrap):
            console.print(line)
            printed += 1
    if repeat and printed + _ROWS_OF_THE_SHELL > console.height:
        for line in _fitted(_row("", "", (repeat, "bold")), console.width, wrap=True):
            console.print(line)


def _fitted(row: Row, width: int, *, wrap: bool) -> Iterator[Text]:
    """A row in lines of at most `width` cells."""
    from rich.console import Console
    from rich.text import Text

    label, body = Text.assemble(row.label), Text.assemble(*row.spans)
    if row.of_log:
        yield _cut_row(row, label, width)
        return
    room = max(width - label.cell_len, _NARROWEST)
    if not wrap:
        body.truncate(room, overflow="ellipsis")
        yield label + body
        return
    indent = Text(" " * label.cell_len)
    for number, line in enumerate(body.wrap(Console(width=room), room) or [Text()]):
        line.rstrip()
        yield (indent if number else label) + line


def _cut_row(row: Row, label: Text, width: int) -> Text:
    """A row of a log's line, cut to `width` cells; of a long file name the end is kept."""
    from rich.text import Text

    most = width // 2
    if label.cell_len > most:
        label = Text("\u2026", style=row.label[1]) + label[len(label) - most + 1 :]
    rest = Text.assemble(*row.spans[1:])
    (text, style), room = row.spans[0], max(width - label.cell_len - rest.cell_len, _NARROWEST)
    shown = Text(words.cut(text, room), style=style)
    shown.truncate(room, overflow="ellipsis")
    return label + shown + rest


def report_rows(diagnosis: Diagnosis, *, verbose: bool = False) -> Iterator[Row]:
    """The report, row by row; `verbose` folds nothing and says what the answer rests on."""
    yield from _verdict_rows(diagnosis)
    if root := diagnosis.root_cause:
        yield _BLANK
        yield _row("Root cause  ", "bold", (words.where(root), "cyan"), (f"  {root.rule}", "dim"))
        yield from _evidence_rows(root, diagnosis.evidence)
    changes = diagnosis.changes[: None if verbose else _MOST_CHANGES]
    yield from _section("New since the good run", map(_change_row, changes))
    yield from _section("Most suspicious lines", _suspect_rows(diagnosis))
    standings = words.standing_words(diagnosis) if verbose or diagnosis.kind else []
    group = f"  group {clean(diagnosis.collectives.group)}" if diagnosis.collectives else ""
    yield from _section("Collective", (_row("  ", "", (standing, "")) for standing in standings), group)
    consequences = diagnosis.consequences if verbose else _folded(diagnosis.consequences)
    yield from _section("Consequences", map(_consequence_row, consequences))
    steps = enumerate(diagnosis.recovery.steps, 1)
    yield from _section("Steps", (_row(f"  {number}. ", "", (clean(step), "")) for number, step in steps))
    if diagnosis.failed:
        yield _dim("  Why: ", clean(diagnosis.recovery.why))
    yield from _section("Similar failures", map(_similar_row, diagnosis.similar))
    if others := words.likely(diagnosis):
        yield _BLANK
        yield _dim("Also possible: ", ", ".join(item.reason.value for item in others))
    yield from _remarks(diagnosis, verbose=verbose)
    yield _BLANK
    yield _dim("", words.amount(diagnosis))


def brief_rows(diagnosis: Diagnosis) -> Iterator[Row]:
    """The report in six rows at most: the verdict, what to do, where, the line itself or the suspicious ones."""
    verdict = list(_verdict_rows(diagnosis))[:_ROWS_OF_THE_VERDICT]
    if root := diagnosis.root_cause:
        verdict.append(_row("Root cause  ", "bold", (words.where(root), "cyan")))
        verdict.append(_row("          > ", "dim", (clean(root.text), ""), of_log=True))
    else:
        verdict += _suspect_rows(diagnosis)
    yield from verdict[:6]


def _section(title: str, rows: Iterable[Row], more: str = "") -> Iterator[Row]:
    """Rows under their title, after an empty one; nothing where there are none."""
    for index, row in enumerate(rows):
        if index == 0:
            yield _BLANK
            yield _row(title, "bold", (more, "dim"))
        yield row


def _dim(label: str, text: str) -> Row:
    return _row(label, "dim", (text, "dim"))


def _suspect_rows(diagnosis: Diagnosis) -> Iterator[Row]:
    for item in words.suspects_of(diagnosis):
        yield _row(f"  {words.where(item)}  ", "cyan", (clean(item.text), ""), of_log=True)


def _change_row(item: Change) -> Row:
    change = f"  [{words.change_words(item)}]"
    return _row(f"  {words.where(item)}  ", "cyan", (clean(item.text), ""), (change, "yellow"), of_log=True)


def _verdict_rows(diagnosis: Diagnosis) -> Iterator[Row]:
    """Whether it failed, why, what to do and when, what is lost, in five rows at most."""
    style = {True: "bold red", False: "bold green", None: "bold yellow"}[diagnosis.failed]
    advice = words.advice(diagnosis)
    yield _row("", "", (words.headline(diagnosis), style))
    yield _row("", "", (clean(diagnosis.summary), "bold"))
    if diagnosis.failed:
        yield _row("What to do  ", "bold", (words.action_words(diagnosis.recovery), "yellow"))
    elif advice:
        yield _row("", "", (advice, ""))
    if (diagnosis.failed or advice) and (when := words.times_words(diagnosis)):
        yield _row("When        ", "bold", (when, ""))
    if lost := words.lost_words(diagnosis):
        yield _row("Lost        ", "bold", (lost, ""))


def _consequence_row(item: Consequence) -> Row:
    ranks = f"  {words.rank_words(item.ranks)}" if item.ranks else ""
    text = f"{clean(item.reason)}  {clean(item.title)}"
    return _row(f"  {item.count:>5}x  ", "dim", (text, ""), (ranks, "dim"))


def _folded(consequences: tuple[Consequence, ...]) -> Iterator[Consequence]:
    """Yields the consequences; those without a reason, the launcher's last lines, are joined in one."""
    unnamed = [item for item in consequences if item.reason == Reason.OTHERS.value]
    yield from (item for item in consequences if item not in unnamed)
    if unnamed:
        more = f", and {len(unnamed) - 1} kinds more (-v shows them)" if len(unnamed) > 1 else ""
        ranks = tuple(sorted(set(chain.from_iterable(item.ranks for item in unnamed))))
        yield Consequence(Reason.OTHERS.value, unnamed[0].title + more, sum(item.count for item in unnamed), ranks)


def _similar_row(past: Similar) -> Row:
    text = f"{past.reason.value}  {clean(past.words)}."
    return _row(f"  {past.similarity:>4.0%}  ", "dim", (text, ""), (f"  {clean(past.incident)}", "dim"))


def _remarks(diagnosis: Diagnosis, *, verbose: bool) -> Iterator[Row]:
    """What else a reader should know."""
    kinds_of_log = words.logs_words(diagnosis)
    if diagnosis.notes or diagnosis.incident or kinds_of_log or verbose:
        yield _BLANK
    if kinds_of_log:
        yield _dim("Read: ", kinds_of_log)
    if diagnosis.job:
        facts = (f"{name.replace('_', ' ')} {value}" for name, value in diagnosis.job.items())
        yield _dim("Job:  ", clean(", ".join(facts)))
    for note in diagnosis.notes:
        yield _dim("Note: ", clean(note))
    if diagnosis.incident:
        yield _dim("", f"Remembered as {diagnosis.incident}; logdiag incidents confirm or correct it.")
    if verbose:
        supports = ", ".join(item.value for item in diagnosis.supports) or "nothing"
        yield _dim("Decided by: ", f"{diagnosis.decided_by}; rests on {supports}")


def _evidence_rows(root: RootCause, evidence: Sequence[Evidence]) -> Iterator[Row]:
    """The lines of the root's log with their numbers, then those of other logs."""
    near = [item for item in evidence if item.source == root.source]
    width = max((len(str(item.line)) for item in near), default=1)
    before: Evidence | None = None
    for item in near:
        if before and item.role != "consequence" and item.line - before.line > 1:
            yield _row(f"    {'':>{width}} \u22ee", "dim", ("", ""), of_log=True)
        mark, style = (">", "bold red") if item.role == "root" else (" ", "dim")
        text = (clean(item.text), style if item.role == "root" else "")
        yield _row(f"  {mark} {item.line:>{width}} | ", style, text, of_log=True)
        before = item
    for item in evidence:
        if item.source != root.source:
            address = f"    {clean(item.source)}:{item.line}  "
            yield _row(address, "cyan", (clean(item.text), "dim"), of_log=True)


def digest_rows(digest: Digest, changes: Sequence[Change] = ()) -> Iterator[Row]:
    """Yields the rows of a digest: first what changed since a good run, then the lines worth reading, each with how
    many lines like it there are, then the receipt."""
    if changes:
        yield _row("New since the good run", "bold")
        yield from map(_change_row, changes)
    width = len(str(max((line.number for line in digest.lines), default=1)))
    source, last = None, 0
    for line in digest.lines:
        if line.source != source:
            yield _row("", "", (clean(line.source), "bold cyan"))
            source, last = line.source, line.number - 1
        if line.number > last + 1:
            yield _row(f"{'':>{width}} \u22ee", "dim")
        count = digest.counts.get(line.in_file)
        stands = f"  [{count:,} lines like this]" if count else ""
        yield _row(f"{line.number:>{width}} | ", "dim", (clean(line.text), ""), (stands, "yellow"), of_log=True)
        last = line.number
    kept = len(digest.lines)
    receipt = f"{digest.total_lines:,} lines in, {kept:,} kept, {digest.total_lines - kept:,} left out:"
    yield _row("", "", (receipt, "bold"))
    for name, count in sorted(digest.dropped_by.items(), key=lambda item: -item[1]):
        yield _row(f"  {count:>12,}  ", "", (name, ""))
