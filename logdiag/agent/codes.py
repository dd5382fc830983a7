"""What a number in a log means: Xid and SXid from the rules, errno, signals, exit codes, and NCCL's results."""

from __future__ import annotations

import errno
import os
import re
import signal

from logdiag.agent.forms import data_of
from logdiag.rules import RuleBook

KINDS = ("xid", "sxid", "errno", "signal", "exit", "nccl")

# 48   Xid 79   -9   SIGTERM   ENOSPC   ncclRemoteError
_NUMBER = re.compile(r"-?\d{1,6}")
_NAME = re.compile(r"\b(?:E[A-Z0-9]{2,}|SIG[A-Z0-9]{2,}|nccl[A-Z]\w+)\b")


def explain_code(kind: str, code: str, book: RuleBook) -> str:
    """What a code means, in one or two sentences, or that it is not known. `kind` is one of KINDS; `code` is the
    number, or the name of an errno, a signal or a result of NCCL."""
    if kind not in KINDS:
        return f"{kind!r} is no kind of code; kinds are {', '.join(KINDS)}"
    named, numbered = _NAME.search(code), _NUMBER.search(code)
    name = named[0] if named else ""
    value = int(numbered[0]) if numbered else None
    if kind in ("xid", "sxid"):
        said = _of_driver(kind, value, book)
    elif kind == "exit":
        said = _of_exit(value)
    else:
        said = {"errno": _of_errno, "signal": _of_signal, "nccl": _of_nccl}[kind](name, value)
    return said or f"no meaning of {kind} {code.strip()[:40]} is known"


def _of_driver(kind: str, value: int | None, book: RuleBook) -> str:
    for rule in book.rules:
        row = rule.rows.get(str(value)) if rule.code_group == kind else None
        if row is not None:
            return f"{row.get('title', rule.title)}. {row.get('why', rule.why)}"
    return ""


def _of_errno(name: str, value: int | None) -> str:
    number: int = getattr(errno, name, -1) if name else -1 if value is None else value
    if number not in errno.errorcode:
        return ""
    return f"errno {number} is {errno.errorcode[number]}: {os.strerror(number)}."


def _of_signal(name: str, value: int | None) -> str:
    try:
        found = signal.Signals[name] if name else signal.Signals(abs(value or 0))
    except (KeyError, ValueError):
        return ""
    meaning = data_of("codes.yaml")["signals"].get(found.name, "see the manual page signal(7)")
    return f"signal {found.value} is {found.name}: {meaning}."


def _of_exit(value: int | None) -> str:
    """An exit code: a shell's 128 + N, a launcher's -N, and 256 - N, which is -N as an unsigned byte."""
    if value is None:
        return ""
    known = data_of("codes.yaml")
    if value in known["exit"]:
        return f"exit code {value}: {known['exit'][value]}."
    if value in known["sysexits"]:
        name, meaning = known["sysexits"][value]
        return f"exit code {value} is {name} in sysexits.h: {meaning}."
    number = -value if value < 0 else value - 128 if value < 193 else 256 - value
    ended_by = _of_signal("", number) if number > 0 and (value < 0 or 128 < value < 256) else ""
    return f"exit code {value}: ended by a signal; {ended_by}" if ended_by else ""


def _of_nccl(name: str, value: int | None) -> str:
    for number, (called, meaning) in data_of("codes.yaml")["nccl"].items():
        if called == name or (not name and number == value):
            return f"NCCL result {number} is {called}: {meaning}."
    return ""
