"""A model's answer: its form, which has no action in it, and the checks against the log: each cited line was shown to
the model, and holds the quoted words."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from logdiag.agent.ask import objects_in
from logdiag.agent.evidence import INSTRUCTION_SENTENCES
from logdiag.agent.forms import data_of
from logdiag.agent.opinion import Opinion
from logdiag.agent.outbound import Channel
from logdiag.model import Line, Reason
from logdiag.report.words import clean

_MOST_EVIDENCE = 8
_PROBLEMS = 5
_SHORTEST_QUOTE = 8
_LONGEST_WORDS = 600
# rank 44   worker=3   w19   m07   [seat 3]   17/48   [3]   but not 02:16:49 and not op 52830
_RANK = re.compile(
    r"(?i)(?<![a-z])(?:rank|worker|replica|seat|trainer|process|proc|peer|member|cell)[ _:=#-]{0,2}(\d{1,7})"
    r"(?![\d.]|:\d\d)|(?<![^\s|\[(])(?:[a-z]{1,2}(\d{1,7})(?![\w.-])|(\d{1,7})(?=/\d|\]))"
)
# s1:123 (40 like this) | text
_ROW = re.compile(r"^\s*s\d+:\d+[^|\n]{0,30}\| ?")


class AnswerError(Exception):
    """An answer that is refused; the message tells the model why."""


def _as_number(value: object) -> object:
    """s1   s1:123   123   "123" """
    found = re.fullmatch(r"(?:s\d+:)?s?(\d{1,12})", value.strip()) if isinstance(value, str) else None
    return int(found[1]) if found else value


def _as_rank(value: object) -> object:
    """3   "3"   "rank 3"   "w03"   null   "unknown" """
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\D{0,12}(\d{1,7})", value.strip())
    return int(found[1]) if found else None


class Citation(BaseModel):
    """A cited line: its source and number, and words quoted from it."""

    source: Annotated[int, BeforeValidator(_as_number)]
    number: Annotated[int, BeforeValidator(_as_number)]
    quote: str = Field(min_length=1)


class Answer(BaseModel):
    """A model's answer. Other fields, above all an action, are ignored."""

    reason: Reason
    root_line: Citation | None = None
    rank: Annotated[int | None, BeforeValidator(_as_rank)] = None
    evidence: list[Citation] = []
    cause: str
    would_prove: str = ""
    confidence: float = Field(ge=0, le=1)


ANSWER_SCHEMA = data_of("answer.yaml")
ANSWER_SCHEMA["properties"]["reason"]["enum"] = [reason.value for reason in Reason]


def read_answer(arguments: object) -> Answer:
    """The answer in a tool call's arguments. Raises AnswerError."""
    try:
        return Answer.model_validate(arguments)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, item['loc'])) or 'answer'}: {item['msg']}" for item in error.errors()]
        listed = "; ".join(problems[:_PROBLEMS])
        raise AnswerError(f"the answer does not have the form asked for: {listed}") from error


def read_text(text: str) -> Answer:
    """The answer in a text: the last JSON object with a `reason`, in a fence or not. Raises AnswerError."""
    if candidates := objects_in(text, "reason"):
        return read_answer(candidates[-1])
    raise AnswerError("there is no answer: call the tool `answer`, or write one JSON object with its fields")


def ground(answer: Answer, channel: Channel, *, none_allowed: bool) -> Opinion:
    """The opinion of an answer that holds against the log. Raises AnswerError, also for `none` unless it is allowed."""
    if answer.reason is Reason.NONE and not none_allowed:
        raise AnswerError("the reason `none` cannot be given: the cause of a failure is known in this log")
    if answer.root_line is None and answer.reason is not Reason.NONE:
        raise AnswerError("root_line is missing: cite the line that names what broke first")
    root = _cited(answer.root_line, channel) if answer.root_line else None
    cited = dict.fromkeys(_cited(citation, channel) for citation in answer.evidence[:_MOST_EVIDENCE])
    evidence = tuple(line for line in cited if line is not root)
    if answer.rank is not None and not any(_names_rank(line, answer.rank) for line in (root, *evidence) if line):
        raise AnswerError(f"no line that you cite names rank {answer.rank}: cite one that does, or leave the rank out")
    return Opinion(
        reason=answer.reason,
        root=root,
        evidence=evidence,
        cause=_as_plain_text(answer.cause, channel),
        would_prove=_as_plain_text(answer.would_prove, channel),
        confidence=answer.confidence,
        rank=answer.rank,
    )


def _names_rank(line: Line, rank: int) -> bool:
    named_ranks = (match[1] or match[2] or match[3] for match in _RANK.finditer(line.text))
    return line.rank == rank or rank in map(int, named_ranks)


def _cited(citation: Citation, channel: Channel) -> Line:
    """The cited line. Raises AnswerError if it was not shown or does not hold the quote. A quote of fewer than 8
    characters must be the whole line or its whole message."""
    label = f"s{citation.source}:{citation.number}"
    shown = channel.shown(citation.source, citation.number)
    if not shown:
        raise AnswerError(f"line {label} was not shown to you: cite only lines that you have read")
    quote = _squashed(_ROW.sub("", citation.quote)).strip("\u2026 ").removesuffix("...").removeprefix("...").strip()
    quoted = [item for item in shown if quote and quote in _squashed(item.text)]
    if not quoted:
        raise AnswerError(f"line {label} does not say {citation.quote[:120]!r}: copy its words exactly")
    for item in quoted:
        whole = (_squashed(item.text).strip("\u2026 "), _squashed(channel.redactor.hide(item.line.message)))
        if len(quote) >= _SHORTEST_QUOTE or quote in whole:
            return item.line
    raise AnswerError(f"{quote!r} is too short to tell line {label} from others: copy more of its words")


def _squashed(text: str) -> str:
    return " ".join(text.split())


def _as_plain_text(text: str, channel: Channel) -> str:
    """A model's words as plain text in one line, with the real names; empty if they repeat the model's instructions."""
    plain = _squashed(text)
    if channel.nonce in plain or any(sentence in plain for sentence in INSTRUCTION_SENTENCES):
        return ""
    return clean(channel.redactor.restore(plain[: _LONGEST_WORDS * 2]), _LONGEST_WORDS)
