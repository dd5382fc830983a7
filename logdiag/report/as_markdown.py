"""The report as Markdown, for an issue or a chat; log text stays inside code fences that it cannot close."""

from __future__ import annotations

import re

from logdiag.model import Diagnosis
from logdiag.report.words import (
    action_words,
    advice,
    amount,
    change_words,
    clean,
    headline,
    likely,
    lost_words,
    rank_ranges,
    suspects_of,
    times_words,
    where,
)

__all__ = ["to_markdown"]

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~&$@-])")
# https://token.example/x   www.example.org   mira@example.org   which would be made links
_LINK = re.compile(r"(?i)(?:\b[a-z][a-z0-9+.-]{0,30}://|\bwww\.|\b(?:mailto|xmpp):)[^\s|`]+|[^\s|`]+@[^\s|`]+")


def to_markdown(diagnosis: Diagnosis) -> str:
    """The report as one Markdown document."""
    parts = [f"## {_safe(headline(diagnosis))}", "", _safe(diagnosis.summary), ""]
    if diagnosis.failed:
        parts += [f"**What to do** {_safe(action_words(diagnosis.recovery))}", ""]
    elif said := advice(diagnosis):
        parts += [_safe(said), ""]
    if when := times_words(diagnosis):
        parts += [f"**When** {_safe(when)}", ""]
    if lost := lost_words(diagnosis):
        parts += [f"**Lost** {_safe(lost)}", ""]
    if diagnosis.root_cause:
        parts += [f"**Root cause** {_code(where(diagnosis.root_cause))} ({_code(diagnosis.root_cause.rule)})", ""]
        parts += [
            *_fenced(
                [
                    f"{'>' if e.role == 'root' else ' '} {clean(e.source)}:{e.line} | {clean(e.text)}"
                    for e in diagnosis.evidence
                ]
            ),
            "",
        ]
    new = [f"{where(item)} [{change_words(item)}] | {clean(item.text)}" for item in diagnosis.changes]
    parts += ["New since the good run:", "", *_fenced(new), ""] if new else []
    suspects = [f"{where(item)} | {clean(item.text)}" for item in suspects_of(diagnosis)]
    parts += ["Most suspicious lines:", "", *_fenced(suspects), ""] if suspects else []
    if diagnosis.consequences:
        parts += ["| count | consequence | ranks |", "| ---: | --- | --- |"]
        parts += [
            f"| {item.count} | {_safe(item.reason)}: {_safe(item.title)} | {rank_ranges(item.ranks)} |"
            for item in diagnosis.consequences
        ]
        parts.append("")
    if diagnosis.recovery.steps:
        parts += ["**Steps**", ""]
        parts += [f"{number}. {_safe(step)}" for number, step in enumerate(diagnosis.recovery.steps, 1)]
        parts.append("")
    if diagnosis.failed:
        parts += [_safe(diagnosis.recovery.why), ""]
    if diagnosis.similar:
        parts += ["Similar failures:", ""]
        parts += [f"- {past.similarity:.0%} {past.reason.value}: {_safe(past.words)}" for past in diagnosis.similar]
        parts.append("")
    if others := likely(diagnosis):
        parts += ["Also possible: " + ", ".join(item.reason.value for item in others), ""]
    parts += [f"> {_safe(note)}" for note in diagnosis.notes]
    return "\n".join([*parts, "", _safe(amount(diagnosis))])


def _safe(text: str) -> str:
    """Words without markup; what would be made a link is shown as code."""
    words, parts, after = clean(text), [], 0
    for link in _LINK.finditer(words):
        parts += [_SPECIAL.sub(r"\\\1", words[after : link.start()]), f"`{link[0]}`"]
        after = link.end()
    return "".join([*parts, _SPECIAL.sub(r"\\\1", words[after:])])


def _code(text: str) -> str:
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence} {clean(text)} {fence}"


def _fenced(lines: list[str]) -> list[str]:
    fence = "`" * max(3, max((_longest_run(line) for line in lines), default=0) + 1)
    return [f"{fence}text", *lines, fence]


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
