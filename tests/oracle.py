"""A scripted model that knows a case's label: it answers with the right reason, once it has seen the right line.

It sees what a real model sees, and no more: rows of the prompt, and what the tools return.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from logdiag.evaluation.cases import Case
from tests.chat_server import Reply, calls, says

__all__ = ["oracle"]

_ROW = re.compile(r"s(\d+):(\d+)(?: \(\d+ like this\))? \| (.*)")
_WORD = re.compile(r"[A-Za-z]{3,}")
_ALIKE = 0.6


def oracle(case: Case) -> Callable[[dict[str, Any]], Reply]:
    """The script of an oracle of one case that has a root line; it searches the log for what it was not shown."""
    wanted = set(_WORD.findall(case.roots[0]))

    def script(body: dict[str, Any]) -> Reply:
        rows = [(_alike(text, wanted), int(source), int(number), text) for source, number, text in _rows(body)]
        score, source, number, text = max(rows, default=(0.0, 0, 0, ""))
        if score >= _ALIKE:
            return calls(
                "answer",
                reason=case.reasons[0].value,
                root_line={"source": source, "number": number, "quote": text},
                evidence=[],
                cause="It is so labelled.",
                who_must_act="user",
                would_prove="",
                confidence=0.9,
            )
        turns = sum(message["role"] == "assistant" for message in body["messages"])
        words = sorted(wanted, key=len, reverse=True)[turns : turns + 1]
        return calls("grep_log", pattern=words[0]) if words else says("It is not in this log.")

    return script


def _rows(body: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for message in body["messages"]:
        for line in str(message.get("content") or "").split("\n"):
            if row := _ROW.fullmatch(line):
                yield row[1], row[2], row[3]


def _alike(text: str, wanted: set[str]) -> float:
    """How many of the wanted words a row has; some are hidden in it, and a label may be a part of its line."""
    return len(wanted & set(_WORD.findall(text))) / max(len(wanted), 1)
