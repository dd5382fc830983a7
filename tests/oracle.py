"""A scripted model that knows a case's label: it answers with the right reason, line and rank, once it has seen the
right line.

It sees what a real model sees, and no more: rows of the prompt, and what the tools return.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from logdiag.evaluation.cases import Case
from tests.chat_server import Reply, calls, says

__all__ = ["oracle", "oracle_of"]

_ROW = re.compile(r"s(\d+):(\d+)(?: \(\d+ like this\))? \| (.*)")
_WORD = re.compile(r"[A-Za-z]{3,}")
_ALIKE = 0.6

Script = Callable[[dict[str, Any]], Reply]


def oracle(case: Case) -> Script:
    """The script of an oracle of one case that has a root line."""
    return oracle_of(case.reasons[0].value, case.roots[0])


def oracle_of(reason: str, root_line: str, rank: int | None = None) -> Script:
    """The script of an oracle that knows these; it searches the log for what it was not shown. Without a root line it
    says `none` at once."""
    wanted = set(_WORD.findall(root_line))

    def script(body: dict[str, Any]) -> Reply:
        said: dict[str, Any] = {"cause": "It is so labelled.", "would_prove": ""}
        said |= {"reason": reason, "rank": rank, "evidence": [], "confidence": 0.9}
        if not root_line:
            return calls("answer", root_line=None, **said)
        rows = [(_alike(text, wanted), int(source), int(number), text) for source, number, text in _rows(body)]
        # Of equal lines the first.
        rows.sort(key=lambda row: (-row[0], row[1], row[2]))
        score, source, number, text = rows[0] if rows else (0.0, 0, 0, "")
        if score >= _ALIKE:
            return calls("answer", root_line={"source": source, "number": number, "quote": text}, **said)
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
