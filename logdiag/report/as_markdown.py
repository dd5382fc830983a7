"""The report as Markdown, for an issue or a chat; log text stays inside code fences that it cannot close."""

from __future__ import annotations

import re

from logdiag.model import Diagnosis
from logdiag.report.words import action_words, amount, clean, headline, rank_ranges, where

__all__ = ["to_markdown"]

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~&$@-])")


def to_markdown(diagnosis: Diagnosis) -> str:
    """The report as one Markdown document."""
    parts = [f"## {_safe(headline(diagnosis))}", "", _safe(diagnosis.summary), ""]
    if diagnosis.root_cause:
        parts += [f"**Root cause** {_code(where(diagnosis))} ({_code(diagnosis.root_cause.rule)})", ""]
        parts += [
            *_fenced(
                [
                    f"{'>' if e.role == 'root' else ' '} {clean(e.source)}:{e.line} | {clean(e.text)}"
                    for e in diagnosis.evidence
                ]
            ),
            "",
        ]
    if diagnosis.consequences:
        parts += ["| count | consequence | ranks |", "| ---: | --- | --- |"]
        parts += [
            f"| {item.count} | {_safe(item.reason)}: {_safe(item.title)} | {rank_ranges(item.ranks)} |"
            for item in diagnosis.consequences
        ]
        parts.append("")
    if diagnosis.failed:
        parts += [f"**What to do** {_safe(action_words(diagnosis.recovery))}", ""]
        parts += [f"{number}. {_safe(step)}" for number, step in enumerate(diagnosis.recovery.steps, 1)]
        parts += ["", _safe(diagnosis.recovery.why), ""]
    if diagnosis.similar:
        parts += ["Similar failures:", ""]
        parts += [f"- {past.similarity:.0%} {past.reason.value}: {_safe(past.words)}" for past in diagnosis.similar]
        parts.append("")
    if diagnosis.candidates:
        parts += [
            "Also possible: " + ", ".join(f"{c.reason.value} {c.confidence:.0%}" for c in diagnosis.candidates),
            "",
        ]
    parts += [f"> {_safe(note)}" for note in diagnosis.notes]
    return "\n".join([*parts, "", _safe(amount(diagnosis))])


def _safe(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", clean(text))


def _code(text: str) -> str:
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence} {clean(text)} {fence}"


def _fenced(lines: list[str]) -> list[str]:
    fence = "`" * max(3, max((_longest_run(line) for line in lines), default=0) + 1)
    return [f"{fence}text", *lines, fence]


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
