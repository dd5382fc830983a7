"""The report as one page by Jinja2: it needs nothing else, asks for nothing, runs no script but its own, and shows of a
log only text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from logdiag._version import __version__
from logdiag.model import Diagnosis, Line, LineInFile, Place
from logdiag.report import words
from logdiag.report.processes import processes_of, timeline

# Lines of all logs together on the page: a browser opens it at once, and a mail takes it.
_MOST_LINES = 12_000
_NEAR_A_MARK = 3
_FOLDER = Path(__file__).parent


def document(diagnosis: Diagnosis) -> str:
    """The report as one HTML page, whose size does not depend on that of the log. Values are escaped and cut; its
    policy allows only its own style and script."""
    linked = _linked_lines(diagnosis)
    lines = _shown_lines(diagnosis, linked)
    kept = sum(map(len, lines.values()))
    targets = dict.fromkeys(line.in_file for shown in lines.values() for line in shown if line.in_file in linked)
    ids = {target: f"l{index}" for index, target in enumerate(targets)}
    processes = processes_of(diagnosis)
    table = diagnosis.collectives
    style, script = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    parts = {"style": style, "script": script, "style_hash": _hash(style), "script_hash": _hash(script)}
    return (
        _environment()
        .get_template("page.html")
        .render(
            {name: Markup(part) for name, part in parts.items()},  # the package's own files
            answer=diagnosis,
            words=words,
            verdict=_verdict(diagnosis),
            timeline=timeline(processes, lambda mark: ids.get(mark.line.in_file, "")),
            evidence=[(name, list(items)) for name, items in groupby(diagnosis.evidence, key=lambda item: item.source)],
            in_group=sorted(table.rows, key=lambda row: (row.rank not in table.ranks, row.rank)) if table else (),
            processes=processes,
            lines=lines,
            ids=ids,
            kinds={mark.line.in_file: mark.kind for mark in reversed(diagnosis.marks)},
            kept=kept,
            left_out=len(diagnosis.digest.lines) - kept,
            version=__version__,
        )
    )


def _verdict(diagnosis: Diagnosis) -> dict[str, object]:
    """The heading of the page: whether the job failed, of what, and the facts that a reader wants first."""
    state, pill, unnamed = {
        True: ("failed", "Failed", ""),
        False: ("healthy", "No failure", "The log shows no failure"),
        None: ("unknown", "Not known", "The log does not tell"),
    }[diagnosis.failed]
    heading = unnamed if unnamed and not diagnosis.root_cause else diagnosis.reason.value
    classes = [word for word in (diagnosis.category.value, diagnosis.kind) if word and word != "none"]
    return {"state": state, "pill": pill, "heading": heading, "classes": classes, "facts": list(_facts(diagnosis))}


def _facts(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    root = diagnosis.root_cause
    yield "What to do", words.action_words(diagnosis.recovery) if diagnosis.failed else words.advice(diagnosis)
    if root and root.rank is not None:
        yield "First failing rank", f"{root.rank}{' (a guess)' if root.rank_guessed else ''}"
    if root and root.node:
        yield "Node", root.node
    for name, text in (("When", words.times_words(diagnosis)), ("Lost", words.lost_words(diagnosis))):
        yield name, text[:1].upper() + text[1:]
    yield "Log", diagnosis.source


def _linked_lines(diagnosis: Diagnosis) -> set[LineInFile]:
    """Returns the lines that the page links to, by source and number."""
    marked = {mark.line.in_file for mark in diagnosis.marks if mark.kind != "step"}
    listed: list[Place] = [*diagnosis.evidence, *diagnosis.suspects, *diagnosis.changes]
    return marked | {item.in_file for item in listed}


def _shown_lines(diagnosis: Diagnosis, linked: set[LineInFile]) -> dict[str, Sequence[Line]]:
    """The lines of each log on the page, the root's log first: its last ones, and those around a linked line."""
    by_source: dict[str, list[Line]] = {}
    for line in diagnosis.digest.lines:
        by_source.setdefault(line.source, []).append(line)
    root = diagnosis.root_cause.source if diagnosis.root_cause else ""
    most = _MOST_LINES // max(len(by_source), 1)
    shown: dict[str, Sequence[Line]] = {}
    for source in sorted(by_source, key=lambda source: source != root):
        lines = by_source[source]
        targets = [index for index, line in enumerate(lines) if line.in_file in linked]
        near = {index for target in targets for index in range(target - _NEAR_A_MARK, target + _NEAR_A_MARK + 1)}
        shown[source] = [line for index, line in enumerate(lines) if index in near or index >= len(lines) - most]
    return shown


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=lambda value: value or "" if value is None or isinstance(value, Markup) else words.clean(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "cut": lambda text, most: Markup(escape(words.clean(text, most))),
        "figure": lambda number: "" if number is None else f"{number:,}",
        "percent": lambda share: f"{share:.0%}",
    }
    return environment


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
