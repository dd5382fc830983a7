"""The form of a model's answer: closed, the same for a tool call and for JSON in words. There is no action in it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from logdiag.agent.ask import objects_in
from logdiag.model import Reason

_MOST_EVIDENCE = 8
_PROBLEMS = 5


def _number(value: object) -> object:
    """s1   s1:123   123   "123" """
    found = re.fullmatch(r"(?:s\d+:)?s?(\d{1,12})", value.strip()) if isinstance(value, str) else None
    return int(found[1]) if found else value


def _rank(value: object) -> object:
    """3   "3"   "rank 3"   "w03"   null   "unknown" """
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\D{0,12}(\d{1,7})", value.strip())
    return int(found[1]) if found else None


class _Closed(BaseModel):
    """What is not asked for, an action above all, is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Citation(_Closed):
    """A line by source and number, and what it says there."""

    source: Annotated[int, BeforeValidator(_number)]
    number: Annotated[int, BeforeValidator(_number)]
    quote: str = Field(min_length=1)


class Answer(_Closed):
    """What broke first, where, on which evidence, and in which words."""

    reason: Reason
    root_line: Citation | None = None
    rank: Annotated[int | None, BeforeValidator(_rank)] = None
    evidence: list[Citation] = []
    cause: str
    who_must_act: Literal["user", "infrastructure"]
    would_prove: str = ""
    confidence: float = Field(ge=0, le=1)


_LINE_SCHEMA = {
    "type": "object",
    "properties": {
        "source": {"type": "integer", "description": "1 for s1"},
        "number": {"type": "integer", "description": "the line's number in that source"},
        "quote": {"type": "string", "description": "words of that line, copied exactly"},
    },
    "required": ["source", "number", "quote"],
    "additionalProperties": False,
}
# Written out, for not every server follows references within a schema.
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "enum": [reason.value for reason in Reason]},
        "root_line": {**_LINE_SCHEMA, "description": "the line that names what broke first"},
        "rank": {
            "type": ["integer", "null"],
            "description": "the rank (worker, replica, seat) that failed first, as a line that you cite names it; "
            "null where none does",
        },
        "evidence": {"type": "array", "items": _LINE_SCHEMA, "maxItems": _MOST_EVIDENCE},
        "cause": {"type": "string", "description": "what broke first and why, in one or two sentences"},
        "who_must_act": {"type": "string", "enum": ["user", "infrastructure"]},
        "would_prove": {"type": "string", "description": "what to look at that would prove it"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["reason", "root_line", "rank", "evidence", "cause", "who_must_act", "would_prove", "confidence"],
    "additionalProperties": False,
}


def read_answer(given: object) -> Answer | str:
    """The answer in a tool call's arguments, or what is wrong with it, in words for the model."""
    try:
        return Answer.model_validate(given)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in item['loc']) or 'answer'}: {item['msg']}" for item in error.errors()
        ]
        return "the answer does not have the form asked for: " + "; ".join(problems[:_PROBLEMS])


def read_text(text: str) -> Answer | str:
    """The answer in words: the last JSON object that has a reason, in a fence or not, or what is wrong."""
    candidates = objects_in(text, "reason")
    if not candidates:
        return "there is no answer: call the tool `answer`, or write one JSON object with its fields"
    return read_answer(candidates[-1])
