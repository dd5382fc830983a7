"""The tools of the failure agent. They read the logs of this diagnosis and the meanings of codes, nothing else."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING

from logdiag.agent.forms import data_of
from logdiag.agent.outbound import Channel
from logdiag.agent.view import Excerpt, LogView
from logdiag.judge.status_words import status_words
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_KINDS = ("xid", "sxid", "errno", "signal", "exit", "nccl")
# 48   Xid 79   -9   SIGTERM   ENOSPC   ncclRemoteError
_NUMBER = re.compile(r"-?\d{1,6}")
_NAME = re.compile(r"\b(?:E[A-Z0-9]{2,}|SIG[A-Z0-9]{2,}|nccl[A-Z]\w+)\b")


def tools_for(view: LogView, channel: Channel, book: RuleBook) -> list[BaseTool]:
    """The tools for one conversation; their results go through its channel."""
    from langchain_core.tools import StructuredTool

    def rows(excerpt: Excerpt) -> str:
        shown = channel.fenced(channel.rows(excerpt.lines)) if excerpt.lines else "no lines"
        return shown + (f"\n({channel.text(excerpt.note)})" if excerpt.note else "")

    def read_lines(source: int, first: int, last: int) -> str:
        """Lines `first` to `last` of a source (1 for s1), at most 60."""
        return rows(view.lines(source, first, last))

    def grep_log(pattern: str, source: int | None = None) -> str:
        """How many lines a regular expression matches, and the first and last of them, at most 40; case is ignored."""
        return rows(view.grep(channel.redactor.restore(pattern), source))

    def code(kind: str, code: str) -> str:
        return channel.text(explain_code(kind, code, book))

    kinds = f"What a code means; `kind` is one of {', '.join(_KINDS)}."
    explains = StructuredTool.from_function(code, name="explain_code", description=kinds)
    return [StructuredTool.from_function(read_lines), StructuredTool.from_function(grep_log), explains]


def explain_code(kind: str, code: str, book: RuleBook) -> str:
    """What a code means, in a sentence or two: a number, or the name of an errno, a signal or a result of NCCL."""
    if kind not in _KINDS:
        return f"{kind!r} is no kind of code; kinds are {', '.join(_KINDS)}"
    results = {row[0]: number for number, row in data_of("codes.yaml")["nccl"].items()}
    numbers: Mapping[str, int] = {"errno": vars(errno), "signal": vars(signal), "nccl": results}.get(kind, {})
    name, number = _NAME.search(code), _NUMBER.search(code)
    value = numbers.get(name[0]) if numbers and name else int(number[0]) if number else None
    meaning = "" if value is None else _meaning(kind, value, book)
    return meaning or f"no meaning of {kind} {code.strip()[:40]} is known"


def _meaning(kind: str, value: int, book: RuleBook) -> str:
    if kind == "errno":
        return f"errno {value} is {errno.errorcode[value]}: {os.strerror(value)}." if value in errno.errorcode else ""
    if kind == "nccl":
        table = data_of("codes.yaml")["nccl"]
        return "NCCL result {} is {}: {}.".format(value, *table[value]) if value in table else ""
    if kind in ("signal", "exit"):
        return _of_signal(abs(value)) if kind == "signal" else _of_exit(value)
    rows = ((rule, rule.rows.get(str(value))) for rule in book.rules if rule.code_group == kind)
    known = (f"{row.get('title', rule.title)}. {row.get('why', rule.why)}" for rule, row in rows if row is not None)
    return next(known, "")


def _of_signal(number: int) -> str:
    if number not in set(signal.Signals):
        return ""
    meaning = status_words(-number).partition(": ")[2]
    return f"signal {number} is {signal.Signals(number).name}: {meaning or 'see the manual page signal(7)'}."


def _of_exit(value: int) -> str:
    """An exit code: a shell's 128 + N, a launcher's -N, and 256 - N, which is -N as an unsigned byte."""
    if words := data_of("codes.yaml")["exit"].get(value) or status_words(value):
        return f"exit code {value}: {words}."
    number = -value if value < 0 else value - 128 if value < 193 else 256 - value
    ended_by = _of_signal(number) if value < 0 or 128 < value < 256 else ""
    return f"exit code {value}: ended by a signal; {ended_by}" if ended_by else ""
