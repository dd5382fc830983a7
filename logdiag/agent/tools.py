"""The tools of the failure agent. They read the logs of this diagnosis and the meanings of codes, nothing else."""

from __future__ import annotations

import errno
import os
import re
import signal
from typing import TYPE_CHECKING

from logdiag.agent.forms import data_of
from logdiag.agent.outbound import Channel
from logdiag.agent.view import Excerpt, LogView
from logdiag.judge.status_words import status_words
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_MOST_LINES = 60
_MOST_MATCHES = 40
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
        return rows(view.lines(source, first, last, _MOST_LINES))

    def grep_log(pattern: str, source: int | None = None) -> str:
        return rows(view.grep(channel.back(pattern), source, _MOST_MATCHES))

    def code(kind: str, code: str) -> str:
        return channel.text(explain_code(kind, code, book))

    described = (
        (read_lines, "read_lines", f"Lines `first` to `last` of a source (1 for s1), at most {_MOST_LINES}."),
        (
            grep_log,
            "grep_log",
            f"How many lines a regular expression matches, and the first and last of them, at most {_MOST_MATCHES}; "
            "case is ignored.",
        ),
        (code, "explain_code", f"What a code means; `kind` is one of {', '.join(_KINDS)}."),
    )
    return [StructuredTool.from_function(does, name=name, description=words) for does, name, words in described]


def explain_code(kind: str, code: str, book: RuleBook) -> str:
    """What a code means, in one or two sentences, or that it is not known. `kind` is one of `_KINDS`; `code` is the
    number, or the name of an errno, a signal or a result of NCCL."""
    if kind not in _KINDS:
        return f"{kind!r} is no kind of code; kinds are {', '.join(_KINDS)}"
    name_match, number_match = _NAME.search(code), _NUMBER.search(code)
    name = name_match[0] if name_match else ""
    value = int(number_match[0]) if number_match else None
    if kind in ("xid", "sxid"):
        meaning = _of_xid(kind, value, book)
    else:
        meaning = {"errno": _of_errno, "nccl": _of_nccl, "exit": _of_exit, "signal": _of_signal}[kind](name, value)
    return meaning or f"no meaning of {kind} {code.strip()[:40]} is known"


def _of_xid(kind: str, value: int | None, book: RuleBook) -> str:
    rows = ((rule, rule.rows.get(str(value))) for rule in book.rules if rule.code_group == kind)
    known = (f"{row.get('title', rule.title)}. {row.get('why', rule.why)}" for rule, row in rows if row is not None)
    return next(known, "")


def _of_errno(name: str, value: int | None) -> str:
    number: int = getattr(errno, name, -1) if name else -1 if value is None else value
    called = errno.errorcode.get(number)
    return f"errno {number} is {called}: {os.strerror(number)}." if called else ""


def _of_nccl(name: str, value: int | None) -> str:
    table = data_of("codes.yaml")["nccl"]
    number = next((code for code in table if table[code][0] == name or (not name and code == value)), -1)
    return "NCCL result {} is {}: {}.".format(number, *table[number]) if number in table else ""


def _of_signal(name: str, value: int | None) -> str:
    try:
        number = signal.Signals[name] if name else signal.Signals(abs(value or 0))
    except (KeyError, ValueError):
        return ""
    meaning = status_words(-number.value).partition(": ")[2]
    return f"signal {number.value} is {number.name}: {meaning or 'see the manual page signal(7)'}."


def _of_exit(_name: str, value: int | None) -> str:
    """An exit code: a shell's 128 + N, a launcher's -N, and 256 - N, which is -N as an unsigned byte."""
    if value is None:
        return ""
    known = data_of("codes.yaml")
    if value in known["exit"]:
        return f"exit code {value}: {known['exit'][value]}."
    if value in known["sysexits"]:
        name, meaning = known["sysexits"][value]
        return f"exit code {value} is {name} in sysexits.h: {meaning}."
    if words := status_words(value):
        return f"exit code {value}: {words}."
    number = -value if value < 0 else value - 128 if value < 193 else 256 - value
    ended_by = _of_signal("", number) if number > 0 and (value < 0 or 128 < value < 256) else ""
    return f"exit code {value}: ended by a signal; {ended_by}" if ended_by else ""
