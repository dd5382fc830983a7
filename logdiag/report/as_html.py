"""The report as one page that needs nothing else: no request, nothing from a log but text, its script named by hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import groupby, pairwise
from pathlib import Path

from logdiag._version import __version__
from logdiag.model import Diagnosis, Line, Mark
from logdiag.report.processes import Process, processes_of
from logdiag.report.timeline import timeline
from logdiag.report.words import (
    action_words,
    advice,
    amount,
    change_words,
    clean,
    likely,
    logs_words,
    lost_words,
    rank_ranges,
    standing_words,
    suspects_of,
    times_words,
    where,
)

__all__ = ["to_html"]

# Characters of the log on the page: a browser opens it at once, and a mail takes it. Of each log the last part counts
# most.
_MOST_OF_THE_LOG = 3_000_000
_A_LINE = 24
_SHARE_OF_START = 0.25
_NEAR_A_MARK = 3
_STATE = {True: "failed", False: "healthy", None: "unknown"}
_SYMBOLS = (
    '<svg width="0" height="0" class="symbols"><defs>'
    '<path id="m-root" d="M0-7 7 0 0 7-7 0Z"/><path id="m-consequence" d="M-1.5-6h3v12h-3Z"/>'
    '<path id="m-apart" d="M0-5 5 4h-10Z"/><circle id="m-recovered" r="4"/>'
    '<path id="m-checkpoint" d="M-4-4h8v8h-8Z"/><path id="m-end" d="M-5 0-1.5 4 5-4"/><path id="m-step" d="M0-3V3"/>'
    "</defs></svg>"
)


@dataclass(frozen=True, slots=True)
class _Page:
    """An answer and where each line of its log stands on the page, by source and number."""

    answer: Diagnosis
    lines: Mapping[str, Sequence[Line]]
    ids: Mapping[tuple[str, int], str]
    left_out: int

    def place(self, mark: Mark) -> str:
        """The name of a mark's line on the page, empty where it is not on it."""
        return self.ids.get((mark.line.source, mark.line.number), "")


def to_html(diagnosis: Diagnosis) -> str:
    """The report as one HTML page, whose size does not depend on that of the log."""
    page = _page_of(diagnosis)
    processes = processes_of(diagnosis)
    folder = Path(__file__).parent
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    body = [
        _SYMBOLS,
        _verdict(diagnosis),
        _section("When", timeline(processes, page.place)),
        _section("What broke first", _evidence(page)),
        _section("Suspicious lines", _suspects(page)),
        _section("Where each rank stood", _collectives(diagnosis)),
        _section("New since the good run", _changes(page)),
        _section("What to do", _steps(diagnosis)),
        _section("What followed", _consequences(diagnosis)),
        _section("Ranks", _ranks(page, processes)),
        _section("Similar failures", _similar(diagnosis)),
        _section("Notes", _list(diagnosis.notes)),
        _section("The log, compressed", _log(page)),
        _footer(diagnosis),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(_title(diagnosis), 120)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + f"\n</main>\n<script>{script}</script>\n</body>\n</html>"
    )


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _text(value: object, longest: int = 400) -> str:
    """A value as text of the page: escaped, its controls made visible."""
    return escape(clean(str(value), longest))


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>" if content else ""


def _list(items: Iterable[str], kind: str = "ul") -> str:
    rows = "".join(f"<li>{_text(item)}</li>" for item in items)
    return f"<{kind}>{rows}</{kind}>" if rows else ""


def _title(diagnosis: Diagnosis) -> str:
    said = diagnosis.reason.value if diagnosis.failed else {False: "no failure", None: "not known"}[diagnosis.failed]
    return f"{said}: {diagnosis.source}"


def _verdict(diagnosis: Diagnosis) -> str:
    """Whether it failed, of what, how sure, and the facts that a reader wants first."""
    state = _STATE[diagnosis.failed]
    pill = {"failed": "Failed", "healthy": "No failure", "unknown": "Not known"}[state]
    reason = {"healthy": "The log shows no failure", "unknown": "The log does not tell"}.get(state)
    named = reason if reason and not diagnosis.root_cause else diagnosis.reason.value
    told = (diagnosis.category.value, _text(diagnosis.kind))
    category = ", ".join(word for word in told if word and word != "none")
    sure = f'<meter min="0" max="1" value="{diagnosis.confidence:.3f}"></meter> {diagnosis.confidence:.0%} sure'
    facts = "".join(f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in _facts(diagnosis) if value)
    return (
        f'<header class="{state}"><p class="head"><span class="pill">{pill}</span> <span>{category}</span>'
        f'<span class="sure">{sure}</span></p>\n<h1>{_text(named)}</h1>\n'
        f'<p class="lead">{_text(diagnosis.summary)}</p>\n<dl>{facts}</dl></header>'
    )


def _facts(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    root = diagnosis.root_cause
    if diagnosis.failed:
        yield "What to do", action_words(diagnosis.recovery)
    else:
        yield "What to do", advice(diagnosis)
    if root and root.rank is not None:
        yield "First failing rank", f"{root.rank}{' (a guess)' if root.rank_guessed else ''}"
    if root and root.node:
        yield "Node", root.node
    said = times_words(diagnosis)
    yield "When", said[:1].upper() + said[1:]
    said = lost_words(diagnosis)
    yield "Lost", said[:1].upper() + said[1:]
    yield "Log", diagnosis.source


# --- lines of the log ---


def _page_of(diagnosis: Diagnosis) -> _Page:
    """Which lines of the log the page shows, and the name of each that something points to."""
    by_source: dict[str, list[Line]] = {}
    for line in diagnosis.digest.lines:
        by_source.setdefault(line.source, []).append(line)
    root = diagnosis.root_cause.source if diagnosis.root_cause else ""
    order = sorted(by_source, key=lambda source: source != root)
    told = {(mark.line.source, mark.line.number) for mark in diagnosis.marks if mark.kind != "step"}
    told |= {(item.source, item.line) for item in diagnosis.evidence}
    told |= {(item.source, item.line) for item in diagnosis.suspects}
    told |= {(item.source, item.line) for item in diagnosis.changes}
    shown, left = {}, _MOST_OF_THE_LOG
    for at, source in enumerate(order):
        shown[source] = _within(by_source[source], left // (len(order) - at), told)
        left -= sum(map(_size, shown[source]))
    every = (line for lines in shown.values() for line in lines)
    ids = {(line.source, line.number): "" for line in every if (line.source, line.number) in told}
    names = {place: f"l{at}" for at, place in enumerate(ids)}
    return _Page(diagnosis, shown, names, len(diagnosis.digest.lines) - sum(map(len, shown.values())))


def _size(line: Line) -> int:
    return min(len(line.text), 400) + _A_LINE


def _within(lines: Sequence[Line], most: int, told: set[tuple[str, int]]) -> Sequence[Line]:
    """The lines of a log that fit: those around what is pointed to, then the last and the first."""
    if sum(map(_size, lines)) <= most:
        return lines
    pointed = [at for at, line in enumerate(lines) if (line.source, line.number) in told]
    near = (by for at in pointed for by in range(max(at - _NEAR_A_MARK, 0), min(at + _NEAR_A_MARK + 1, len(lines))))
    cut = round(len(lines) * _SHARE_OF_START)
    kept: set[int] = set()
    for room, order in ((most // 2, near), (most * 3 // 4, range(len(lines) - 1, cut, -1)), (most, range(cut))):
        used = sum(_size(lines[at]) for at in kept)
        for at in order:
            if at not in kept:
                used += _size(lines[at])
                if used > room:
                    break
                kept.add(at)
    return [lines[at] for at in sorted(kept)]


def _log(page: _Page) -> str:
    """Every log that was read, folded, with what is worth reading of it; the script searches it."""
    if not page.lines:
        return ""
    kinds = {(mark.line.source, mark.line.number): mark.kind for mark in reversed(page.answer.marks)}
    counts = page.answer.digest.counts
    logs = "".join(
        f"<details{' open' if at == 0 else ''}><summary>{_text(source)} <small>{len(lines):,} lines</small></summary>"
        f"<ol>{_rows(lines, page, kinds, counts)}</ol></details>"
        for at, (source, lines) in enumerate(page.lines.items())
    )
    receipt = page.answer.digest
    kept = sum(map(len, page.lines.values()))
    also = f"; {page.left_out:,} more that are worth reading do not fit on a page" if page.left_out else ""
    return (
        f'<p class="soft">{kept:,} of {receipt.total_lines:,} lines; what repeats is counted, not shown{also}.</p>'
        '<form class="search"><input type="search" id="search" placeholder="Search the log" '
        f'aria-label="Search the log" autocomplete="off"><output id="found"></output></form><div id="log">{logs}</div>'
    )


def _rows(
    lines: Sequence[Line],
    page: _Page,
    kinds: Mapping[tuple[str, int], str],
    counts: Mapping[tuple[str, int], int],
) -> str:
    parts = []
    above = -1
    for line in lines:
        if gap := line.position - above - 1:
            parts.append(f'<li class="gap">{gap:,} line{"s" if gap > 1 else ""} left out')
        above, place = line.position, (line.source, line.number)
        name = f' id="{page.ids[place]}"' if place in page.ids else ""
        kind = f' class="k-{kinds[place]}"' if kinds.get(place, "step") != "step" else ""
        times = f" <small>{counts[place]:,}x</small>" if counts.get(place, 0) > 1 else ""
        parts.append(f'<li value="{line.number}"{name}{kind}>{_text(line.text)}{times}')
    return "\n".join(parts)


# --- the parts of the answer ---


def _evidence(page: _Page) -> str:
    """The root line in its context and what it made others say, file by file; each stands in the log too."""
    root = page.answer.root_cause
    if root is None:
        return ""
    why = f" {root.rank_from}." if root.rank_from else ""
    known = f"{_link(where(root), root.source, root.line, page)}, known by {_text(root.rule)}.{_text(why)}"
    blocks = [f'<p class="soft">{known}</p>']
    for source, items in groupby(page.answer.evidence, key=lambda item: item.source):
        found = list(items)
        gaps = {later.line for earlier, later in pairwise(found) if later.line - earlier.line > 1}
        lines = "".join(
            f"{'<li class=gap>' if item.line in gaps else ''}"
            f'<li value="{item.line}" class="k-{item.role}">{_link(item.text, item.source, item.line, page)}'
            for item in found
        )
        blocks.append(f'<h3 class="file">{_text(source)}</h3><ol class="quote">{lines}</ol>')
    return "".join(blocks)


def _link(words: str, source: str, line: int, page: _Page) -> str:
    name = page.ids.get((source, line))
    return f'<a href="#{name}">{_text(words)}</a>' if name else _text(words)


def _suspects(page: _Page) -> str:
    """The suspicious lines of an answer that is not sure, with how suspicious each is."""
    rows = "".join(
        f'<tr><td class="n">{item.score:.0%}</td><td class="n">{_link(where(item), item.source, item.line, page)}</td>'
        f"<td><code>{_text(item.text)}</code></td></tr>"
        for item in suspects_of(page.answer)
    )
    lead = "<p class=soft>They stand out by structure and meaning, whatever their words.</p>"
    return f"{lead}<div class=scroll><table>{rows}</table></div>" if rows else ""


def _changes(page: _Page) -> str:
    """The lines that never occurred in the good run, or come far more often now, the most suspicious first."""
    rows = "".join(
        f'<tr><td class="n">{_text(change_words(item))}</td><td>{_link(where(item), item.source, item.line, page)}</td>'
        f"<td><code>{_text(item.text)}</code></td></tr>"
        for item in page.answer.changes
    )
    return f"<div class=scroll><table>{rows}</table></div>" if rows else ""


def _steps(diagnosis: Diagnosis) -> str:
    why = f"<p class=soft>{_text(diagnosis.recovery.why)}</p>" if diagnosis.failed else ""
    others = ", ".join(item.reason.value for item in likely(diagnosis))
    return (
        _list(diagnosis.recovery.steps, "ol") + why + (f"<p class=soft>Also possible: {others}.</p>" if others else "")
    )


def _consequences(diagnosis: Diagnosis) -> str:
    rows = "".join(
        f'<tr><td class="n">{item.count:,}</td><td>{_text(item.reason)}</td><td>{_text(item.title)}</td>'
        f"<td>{_text(rank_ranges(item.ranks))}</td></tr>"
        for item in diagnosis.consequences
    )
    head = '<tr><th class="n">count</th><th>reason</th><th>what it says</th><th>ranks</th></tr>'
    return f"<div class=scroll><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>" if rows else ""


def _collectives(diagnosis: Diagnosis) -> str:
    """Where each rank stood in the collective that hung: what stands alike in a line each, then every rank."""
    table = diagnosis.collectives
    if table is None:
        return ""
    order = sorted(table.rows, key=lambda row: (row.rank not in table.ranks, row.rank))
    rows = "".join(
        f"<tr><td class=n>{row.rank}</td><td>{_text(row.standing)}</td><td>{_text(row.operation)}</td>"
        + "".join(f"<td class=n>{_number(at)}</td>" for at in (row.sequence, row.enqueued, row.started, row.completed))
        + "".join(f"<td>{_text(said)}</td>" for said in (row.sizes, row.last_at or "", " < ".join(row.stack[:3])))
        + "</tr>"
        for row in order
    )
    names = ("<th class=n>rank", "<th>stands", "<th>collective", "<th class=n>number", "<th class=n>enqueued")
    more = ("<th class=n>started", "<th class=n>completed", "<th>sizes", "<th>last line", "<th>last call")
    head = "".join(f"{name}</th>" for name in (*names, *more))
    lead = f'<p class="soft">{_text(table.summary.rstrip("."))}. Process group {_text(table.group)}.</p>'
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'{lead}{_list(standing_words(diagnosis))}<div class="scroll tall">{body}</div>'


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _ranks(page: _Page, processes: Sequence[Process]) -> str:
    """A row for each rank: where it ran, how far it came, what it said of the failure and when it fell silent."""
    ranked = [one for one in processes if one.rank is not None]
    if not ranked:
        return ""
    rows = "".join(map(partial(_rank_row, page=page), ranked))
    head = (
        "<tr><th class=n>rank</th><th>node</th><th class=n>last step</th><th>last line</th><th>what it said</th>"
        "<th>where</th></tr>"
    )
    return f'<div class="scroll tall"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _rank_row(one: Process, page: _Page) -> str:
    told = one.told
    mark = told.mark if told else None
    said = f'<span class="dot k-{mark.kind}"></span>{_text(mark.words, 120)}' if mark else ""
    link = _link(f"{mark.line.source}:{mark.line.number}", mark.line.source, mark.line.number, page) if mark else ""
    return (
        f"<tr><td class=n>{one.rank}</td><td>{_text(one.node or '')}</td><td class=n>{_number(one.last_step)}</td>"
        f"<td>{_text(one.clock or '')}</td><td>{said}</td><td>{link}</td></tr>"
    )


def _similar(diagnosis: Diagnosis) -> str:
    return _list(f"{past.similarity:.0%} {past.reason.value}: {past.words}" for past in diagnosis.similar)


def _footer(diagnosis: Diagnosis) -> str:
    logs = logs_words(diagnosis)
    told = f"{amount(diagnosis)}; {logs}" if logs else amount(diagnosis)
    return f"<footer><p>{_text(told, 2000)}</p><p>logdiag {__version__}</p></footer>"
