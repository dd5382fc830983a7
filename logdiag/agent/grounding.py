"""Holds an answer against the log: every line that it cites was shown, and says what is quoted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from logdiag.agent.answer import Answer, Citation
from logdiag.agent.opinion import Opinion
from logdiag.agent.outbound import Channel, Shown
from logdiag.agent.prompts import TOLD
from logdiag.model import Line, Reason
from logdiag.report.words import clean

_SHORTEST_QUOTE = 8
_LONGEST_WORDS = 600
_MOST_EVIDENCE = 8
# rank 44   worker=3   w19   m07   [seat 3]   17/48   [3]   but not 02:16:49 and not op 52830
_RANK = re.compile(
    r"(?i)(?<![a-z])(?:rank|worker|replica|seat|trainer|process|proc|peer|member|cell)[ _:=#-]{0,2}(\d{1,7})"
    r"(?![\d.]|:\d\d)|(?<![^\s|\[(])(?:[a-z]{1,2}(\d{1,7})(?![\w.-])|(\d{1,7})(?=/\d|\]))"
)
# s1:123 (40 like this) | text
_ROW = re.compile(r"^\s*s\d+:\d+[^|\n]{0,30}\| ?")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an answer cannot be taken, in words for the model."""

    why: str


def ground(answer: Answer, channel: Channel, *, none_allowed: bool) -> Opinion | Refusal:
    """An answer as an opinion with lines of the log, or why it is refused. The reason `none` is refused unless
    `none_allowed`: then no cause of a failure is known."""
    if answer.reason is Reason.NONE and not none_allowed:
        return Refusal("the reason `none` cannot be given: the cause of a failure is known in this log")
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
    if answer.rank is not None and not any(_names_rank(line, answer.rank) for line in (root, *evidence) if line):
        return Refusal(f"no line that you cite names rank {answer.rank}: cite one that does, or leave the rank out")
    return Opinion(
        reason=answer.reason,
        root=root,
        evidence=tuple(evidence),
        cause=_words(answer.cause, channel),
        who_must_act=answer.who_must_act,
        would_prove=_words(answer.would_prove, channel),
        confidence=answer.confidence,
        rank=answer.rank,
    )


def _names_rank(line: Line, rank: int) -> bool:
    """Whether a line is of a rank by its prefix or its process, or names it."""
    named = (found[1] or found[2] or found[3] for found in _RANK.finditer(line.text))
    return line.rank == rank or rank in map(int, named)


def _cited(citation: Citation, channel: Channel) -> Line | Refusal:
    place = f"s{citation.source}:{citation.number}"
    shown = channel.shown(citation.source, citation.number)
    if not shown:
        return Refusal(f"line {place} was not shown to you: cite only lines that you have read")
    quote = _squashed(_ROW.sub("", citation.quote)).strip("\u2026 ").removesuffix("...").removeprefix("...").strip()
    said = [item for item in shown if quote and quote in _squashed(item.text)]
    if not said:
        return Refusal(f"line {place} does not say {citation.quote[:120]!r}: copy its words exactly")
    for item in said:
        if len(quote) >= _SHORTEST_QUOTE or _is_whole(quote, item, channel):
            return item.line
    return Refusal(f"{quote!r} is too short to tell line {place} from others: copy more of its words")


def _is_whole(quote: str, item: Shown, channel: Channel) -> bool:
    """Whether a quote is all of a line, or all but its prefixes."""
    message = _squashed(channel.leaving(item.line.message))
    return quote in (_squashed(item.text).strip("\u2026 "), message)


def _squashed(text: str) -> str:
    return " ".join(text.split())


def _words(text: str, channel: Channel) -> str:
    """A model's words as plain text: no controls, no line breaks, real names; none where they repeat what it was
    told."""
    plain = _squashed(text)
    if channel.nonce in plain or any(told in plain for told in TOLD):
        return ""
    return clean(channel.back(plain[: _LONGEST_WORDS * 2]), _LONGEST_WORDS)
