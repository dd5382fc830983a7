"""The report as Markdown, for an issue or a chat; log text stays inside code fences that it cannot close."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from logdiag.model import Diagnosis
from logdiag.model.plain import rank_ranges
from logdiag.patterns import pattern_of
from logdiag.report import words
from logdiag.report.words import clean

_SPECIAL = pattern_of(r"([\\`*_{}\[\]()<>#+!|~&$@-])")
# https://token.example/x   www.example.org   mira@example.org   which would be made links
_LINK = pattern_of(r"(?i)(?:\b[a-z][a-z0-9+.-]{0,30}://|\bwww\.|\b(?:mailto|xmpp):)[^\s|`]+|[^\s|`]+@[^\s|`]+")


def to_markdown(diagnosis: Diagnosis) -> str:
    """The report as one Markdown document."""
    blocks = [f"## {_safe(words.headline(diagnosis))}", _safe(diagnosis.summary)]
    blocks += [*_verdict(diagnosis), *_lines_of_the_log(diagnosis), *_what_else(diagnosis)]
    notes = "\n".join(f"> {_safe(note)}" for note in diagnosis.notes)
    return "\n\n".join([*blocks, *([notes] if notes else []), _safe(words.amount(diagnosis))])


def _verdict(diagnosis: Diagnosis) -> Iterator[str]:
    """What to do, when it happened, and what is lost."""
    if diagnosis.failed:
        yield f"**What to do** {_safe(words.action_words(diagnosis.recovery))}"
    elif said := words.advice(diagnosis):
        yield _safe(said)
    if when := words.times_words(diagnosis):
        yield f"**When** {_safe(when)}"
    if lost := words.lost_words(diagnosis):
        yield f"**Lost** {_safe(lost)}"


def _lines_of_the_log(diagnosis: Diagnosis) -> Iterator[str]:
    if root := diagnosis.root_cause:
        yield f"**Root cause** {_code(words.where(root))} ({_code(root.rule)})"
        yield _fenced(
            f"{'>' if item.role == 'root' else ' '} {clean(item.source)}:{item.line} | {clean(item.text)}"
            for item in diagnosis.evidence
        )
    if diagnosis.changes:
        yield "New since the good run:"
        yield _fenced(
            f"{words.where(item)} [{words.change_words(item)}] | {clean(item.text)}" for item in diagnosis.changes
        )
    if suspects := words.suspects_of(diagnosis):
        yield "Most suspicious lines:"
        yield _fenced(f"{words.where(item)} | {clean(item.text)}" for item in suspects)


def _what_else(diagnosis: Diagnosis) -> Iterator[str]:
    """Consequences, steps, past failures and other readings."""
    if diagnosis.consequences:
        rows = [
            f"| {item.count} | {_safe(item.reason)}: {_safe(item.title)} | {rank_ranges(item.ranks)} |"
            for item in diagnosis.consequences
        ]
        yield "\n".join(["| count | consequence | ranks |", "| ---: | --- | --- |", *rows])
    if diagnosis.recovery.steps:
        yield "**Steps**"
        yield "\n".join(f"{number}. {_safe(step)}" for number, step in enumerate(diagnosis.recovery.steps, 1))
    if diagnosis.failed:
        yield _safe(diagnosis.recovery.why)
    if diagnosis.similar:
        yield "Similar failures:"
        yield "\n".join(
            f"- {past.similarity:.0%} {past.reason.value}: {_safe(past.words)}" for past in diagnosis.similar
        )
    if others := words.likely(diagnosis):
        yield "Also possible: " + ", ".join(item.reason.value for item in others)


def _safe(text: str) -> str:
    """Words without markup; what would be made a link is shown as code."""
    plain, parts, after = clean(text), [], 0
    for link in _LINK.finditer(plain):
        parts += [_SPECIAL.sub(r"\\\1", plain[after : link.start()]), f"`{link[0]}`"]
        after = link.end()
    return "".join([*parts, _SPECIAL.sub(r"\\\1", plain[after:])])


def _code(text: str) -> str:
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence} {clean(text)} {fence}"


def _fenced(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
