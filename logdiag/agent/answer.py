"""The form of a model's answer: closed, the same for a tool call and for JSON in words. There is no action in it."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from logdiag.model import Reason

__all__ = ["ANSWER_SCHEMA", "Answer", "Citation", "read_answer", "read_text"]

_LONGEST_TEXT = 40_000
_MOST_EVIDENCE = 8
_PROBLEMS = 5
_MOST_TRIES = 200


def _number(value: object) -> object:
    """s1   s1:123   123   "123" """
    found = re.fullmatch(r"(?:s\d+:)?s?(\d{1,12})", value.strip()) if isinstance(value, str) else None
    return int(found[1]) if found else value


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
        "evidence": {"type": "array", "items": _LINE_SCHEMA, "maxItems": _MOST_EVIDENCE},
        "cause": {"type": "string", "description": "what broke first and why, in one or two sentences"},
        "who_must_act": {"type": "string", "enum": ["user", "infrastructure"]},
        "would_prove": {"type": "string", "description": "what to look at that would prove it"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["reason", "root_line", "evidence", "cause", "who_must_act", "would_prove", "confidence"],
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
    candidates = [item for item in _objects(text[:_LONGEST_TEXT]) if "reason" in item]
    if not candidates:
        return "there is no answer: call the tool `answer`, or write one JSON object with its fields"
    return read_answer(candidates[-1])


def _objects(text: str) -> list[dict[str, Any]]:
    """The outermost JSON objects in a text; of a tool call written out, its arguments."""
    found: list[dict[str, Any]] = []
    decoder = json.JSONDecoder()
    start, tries = text.find("{"), 0
    while start >= 0 and tries < _MOST_TRIES:
        tries += 1
        try:
            item, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            for key in ("arguments", "parameters", "answer"):
                if "reason" not in item and isinstance(item.get(key), dict):
                    item = item[key]
            found.append(item)
        start = text.find("{", end)
    return found
