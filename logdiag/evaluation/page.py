"""An evaluation as one HTML page that needs nothing else: no script, no request, nothing from a log but text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from logdiag.evaluation.charts import confusion_table, reason_bars, reliability_diagram
from logdiag.evaluation.excerpts import Excerpt
from logdiag.evaluation.metrics import METRICS
from logdiag.evaluation.run import Result
from logdiag.evaluation.scoring import Row
from logdiag.evaluation.words import interval_words, kinds_of_miss, value_words
from logdiag.report.words import clean

__all__ = ["page"]

_LONGEST = 1000
_TILES = (
    "reason_accuracy", "root_line_hit", "first_rank_hit", "action_accuracy",
    "false_alarm_rate", "confident_error_rate", "ece", "root_line_survival",
)  # fmt: skip


def page(document: Mapping[str, Any], results: Sequence[Result]) -> str:
    """The page of a document and the results that it was made of. Every miss of the results is on it."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    missed = [result for result in results if result.row.missed]
    body = [
        _header(document, [result.row for result in results]),
        _tiles(document),
        '<div class="pair">',
        _section(
            "Metrics",
            "With 95 % intervals, Wilson's or bootstrapped; cases of one fault count as what they are worth together.",
            _metrics(document),
        ),
        _section(
            "Reliability",
            "How often answers of this confidence are right. On the dashed line, as often as they claim.",
            reliability_diagram(document["reliability"]),
        ),
        "</div>",
        _columns("Beside the baselines", "The same cases, judged in the same way.", _with_us(document)),
        _columns("By split", "", document["by_split"]),
        _section("By reason", "Blue where every case was right.", reason_bars(document["by_reason"])),
        _section(
            "Confusion",
            "Rows are the truth, columns the answers; an accepted second reading stands on the diagonal.",
            confusion_table(document["confusion"]),
        ),
        _misses(missed),
        _footer(document),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>logdiag evaluation</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _text(value: object, longest: int = _LONGEST) -> str:
    """A value as text of the page: escaped, its controls made visible."""
    return escape(clean("none" if value is None else str(value), longest))


def _section(title: str, words: str, content: str) -> str:
    lead = f"<p>{words}</p>" if words else ""
    return f"<section>\n<h2>{title}</h2>\n{lead}\n{content}\n</section>"


def _header(document: Mapping[str, Any], rows: Sequence[Row]) -> str:
    healthy = sum(row.healthy for row in rows)
    files = ", ".join(_text(file["name"]) for file in document["made_by"]["files"])
    return (
        "<header><h1>How right logdiag is</h1>"
        f"<p>{len(rows)} labelled cases, {len(rows) - healthy} failed and {healthy} healthy, from {files}</p></header>"
    )


def _tiles(document: Mapping[str, Any]) -> str:
    tiles = []
    for name in _TILES:
        value = document["metrics"][name]
        below = interval_words(name, document["intervals"].get(name)) or ("not labelled" if value is None else "")
        tiles.append(
            f'<div class="tile"><span>{METRICS[name].title}</span><b>{value_words(name, value)}</b>'
            f"<span>{below}</span></div>"
        )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _metrics(document: Mapping[str, Any]) -> str:
    rows = [
        (
            metric.title,
            value_words(name, document["metrics"][name]),
            interval_words(name, document["intervals"].get(name)),
        )
        for name, metric in METRICS.items()
        if document["metrics"][name] is not None
    ]
    return _table(("", "value", "95 % interval"), rows)


def _with_us(document: Mapping[str, Any]) -> dict[str, Mapping[str, float | None]]:
    others: dict[str, Mapping[str, float | None]] = document.get("baselines", {})
    return {"logdiag": document["metrics"], **others} if others else {}


def _columns(title: str, words: str, columns: Mapping[str, Mapping[str, float | None]]) -> str:
    """A section with a column of metrics for each name; nothing without names."""
    if not columns:
        return ""
    rows = [
        (metric.title, *(value_words(name, values.get(name)) for values in columns.values()))
        for name, metric in METRICS.items()
        if any(values.get(name) is not None for values in columns.values())
    ]
    if any("n" in values for values in columns.values()):
        rows.insert(0, ("Cases", *(str(values.get("n", "")) for values in columns.values())))
    return _section(title, words, _table(("", *(_text(name) for name in columns)), rows))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of finished cells: words in the first column, numbers in the others."""
    first, *others = head
    top = f'<th scope="col">{first}</th>' + "".join(f'<th scope="col" class="n">{name}</th>' for name in others)
    body = "".join(
        f'<tr><th scope="row">{name}</th>' + "".join(f'<td class="n">{cell}</td>' for cell in cells) + "</tr>"
        for name, *cells in rows
    )
    return (
        f'<div class="scroll"><table class="plain wide"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


# --- misses ---


def _misses(missed: Sequence[Result]) -> str:
    if not missed:
        return _section("Misses", "None: every judged answer is right.", "")
    key = (
        'Marked lines: <span class="key-line labelled">labelled root line</span> '
        '<span class="key-line answered">answered root line</span> <span class="key-line both">both</span>'
    )
    return _section(f"Misses: {len(missed)}", key, "".join(_miss(result) for result in missed))


def _miss(result: Result) -> str:
    row = result.row
    badges = "".join(f'<span class="badge">{kind}</span>' for kind in kinds_of_miss(row))
    note = f'<p class="wrong">{_text(row.error)}</p>' if row.error else ""
    tags = f'<p class="note">{_text(", ".join(row.tags))}</p>' if row.tags else ""
    return (
        f'<details><summary><b>{_text(row.id)}</b>{badges}</summary><div class="body">{tags}{note}'
        f"{_answers(row)}{_log(result.excerpt)}</div></details>"
    )


def _answers(row: Row) -> str:
    """Truth and answer, a line for each respect that is judged."""
    sure = "" if row.confidence is None or row.error else f" (confidence {row.confidence:.2f})"
    judged: list[tuple[str, str, str, bool | None]] = [
        ("Reason", " or ".join(row.accepted_reasons), f"{_none(row.reason)}{sure}", row.reason_right),
        ("Root line", _none(row.true_root), _root(row), row.root_right),
        ("Rank", _none(row.true_rank), _none(row.rank), row.rank_right),
        ("Node", _none(row.true_node), _none(row.node), row.node_right),
        ("Action", " or ".join(row.accepted_actions), _none(row.action), row.action_right),
    ]
    rows = "".join(
        f'<tr><th scope="row">{name}</th><td>{_text(truth)}</td>'
        f'<td class="{"right" if right else "wrong"}">{_text(answer)}</td></tr>'
        for name, truth, answer, right in judged
        if right is not None
    )
    return (
        '<table class="plain"><colgroup><col class="key"><col><col></colgroup><thead><tr><th></th>'
        f'<th scope="col">label</th><th scope="col">answer</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _none(value: object) -> str:
    return "none" if value is None else str(value)


def _root(row: Row) -> str:
    return "none" if row.root_line is None else f"line {row.root_line}: {row.root_text}"


def _log(lines: Sequence[Excerpt]) -> str:
    """The excerpt with its line numbers; where lines are left out, a gap says so."""
    if not lines:
        return ""
    width = len(str(max(line.number for line in lines)))
    parts: list[str] = []
    source, last = "", 0
    for line in lines:
        if line.source != source and (source or line.source != "<bytes>"):
            parts.append(f'<span class="gap">{_text(line.source)}</span>')
        elif parts and line.number != last + 1:
            parts.append(f'<span class="gap">{"":>{width}} \u22ee</span>')
        source, last = line.source, line.number
        kind = (
            "both"
            if line.labelled and line.answered
            else "labelled"
            if line.labelled
            else "answered"
            if line.answered
            else ""
        )
        mark = f' class="{kind}"' if kind else ""
        parts.append(f"<span{mark}><i>{line.number:>{width}}  </i>{_text(line.text)}</span>")
    return f"<pre>{''.join(parts)}</pre>"


def _footer(document: Mapping[str, Any]) -> str:
    made_by = document["made_by"]
    sums = ", ".join(f"{_text(file['name'])} {file['sha256'][:16]}" for file in made_by["files"])
    notes = "".join(f"<p>{_text(note)}</p>" for note in document["notes"])
    return (
        f"<footer>{notes}<p>Made by logdiag {_text(made_by['logdiag'])} on Python {_text(made_by['python'])}, "
        f"rules {made_by['rules'][:16]}; cases: {sums}</p></footer>"
    )
