"""Holds an answer against the log: every line that it cites was shown, and says what is quoted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from logdiag.agent.answer import Answer, Citation
from logdiag.agent.opinion import Opinion
from logdiag.agent.outbound import Channel
from logdiag.agent.prompts import TOLD
from logdiag.model import Line, Reason
from logdiag.report.words import clean

__all__ = ["Refusal", "ground"]

_SHORTEST_QUOTE = 8
_LONGEST_WORDS = 600
_MOST_EVIDENCE = 8
# s1:123 (40 like this) | text
_ROW = re.compile(r"^\s*s\d+:\d+[^|\n]{0,30}\| ?")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an answer cannot be taken, in words for the model."""

    why: str


def ground(answer: Answer, channel: Channel, *, none_allowed: bool) -> Opinion | Refusal:
    """The opinion that an answer amounts to, its lines being the log's own, or why it is refused.

    `none_allowed` says that no rule found a failure, so that the reason `none` may be given.
    """
    if answer.reason is Reason.NONE and not none_allowed:
        return Refusal("the reason `none` cannot be given: a failure was found in this log")
    if answer.root_line is None and answer.reason is not Reason.NONE:
        return Refusal("root_line is missing: cite the line that names what broke first")
    root: Line | None = None
    evidence: list[Line] = []
    for citation in ([answer.root_line] if answer.root_line else []) + answer.evidence[:_MOST_EVIDENCE]:
        line = _cited(citation, channel)
        if isinstance(line, Refusal):
            return line
        if citation is answer.root_line:
            root = line
        elif line is not root and line not in evidence:
            evidence.append(line)
    return Opinion(
        reason=answer.reason,
        root=root,
        evidence=tuple(evidence),
        cause=_words(answer.cause, channel),
        who_must_act=answer.who_must_act,
        would_prove=_words(answer.would_prove, channel),
        confidence=answer.confidence,
    )


def _cited(citation: Citation, channel: Channel) -> Line | Refusal:
    place = f"s{citation.source}:{citation.number}"
    shown = channel.shown(citation.source, citation.number)
    if not shown:
        return Refusal(f"line {place} was not shown to you: cite only lines that you have read")
    quote = _squashed(_ROW.sub("", citation.quote)).strip("\u2026 ").removesuffix("...").removeprefix("...").strip()
    for item in shown:
        text = _squashed(item.text)
        if quote in text and len(quote) >= min(_SHORTEST_QUOTE, len(text.strip("\u2026 "))):
            return item.line
    return Refusal(f"line {place} does not say {citation.quote[:120]!r}: copy its words exactly")


def _squashed(text: str) -> str:
    return " ".join(text.split())


def _words(text: str, channel: Channel) -> str:
    """A model's words as plain text: no controls, no line breaks, real names; none where they repeat what it was
    told."""
    plain = _squashed(text)
    if channel.nonce in plain or any(told in plain for told in TOLD):
        return ""
    return clean(channel.back(plain[: _LONGEST_WORDS * 2]), _LONGEST_WORDS)
