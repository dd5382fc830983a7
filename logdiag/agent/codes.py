"""What a number in a log means: Xid and SXid from the rules, errno, signals, exit codes, and NCCL's results."""

from __future__ import annotations

import errno
import os
import re
import signal

from logdiag.rules import RuleBook

__all__ = ["KINDS", "explain_code"]

KINDS = ("xid", "sxid", "errno", "signal", "exit", "nccl")

_NCCL = {
    0: ("ncclSuccess", "it worked"),
    1: ("ncclUnhandledCudaError", "a call to CUDA failed; the GPU's own fault, if any, is the cause"),
    2: ("ncclSystemError", "a call to the system failed: a socket, shared memory, or a network device"),
    3: ("ncclInternalError", "an error inside NCCL, or memory corruption"),
    4: ("ncclInvalidArgument", "an argument was wrong: a bug of the caller"),
    5: ("ncclInvalidUsage", "NCCL was called wrongly, for instance two ranks on one GPU: a bug of the caller"),
    6: ("ncclRemoteError", "another process failed or cannot be reached: the cause is on another rank"),
    7: ("ncclInProgress", "the call has not ended yet"),
}
_EXIT = {
    0: "it worked",
    1: "a general error: in Python, an exception that nothing handled",
    2: "wrong usage: arguments that the program did not accept",
    120: "Python could not flush its output at the end",
    124: "the command `timeout` ended it",
    125: "the container runtime itself failed",
    126: "found, but not executable",
    127: "command not found",
    250: "-6 as an unsigned byte: ended by SIGABRT",
    247: "-9 as an unsigned byte: ended by SIGKILL",
    245: "-11 as an unsigned byte: ended by SIGSEGV",
    255: "an error outside the usual range, often of ssh",
}
_SIGNALS = {
    "SIGHUP": "the terminal or launcher went away",
    "SIGINT": "interrupted by a person or by the scheduler",
    "SIGILL": "an instruction that this processor does not know",
    "SIGABRT": "the process ended itself: a failed assertion, an uncaught C++ exception, or a watchdog",
    "SIGBUS": "memory that cannot be accessed: often shared memory that is full, or a file that was cut",
    "SIGFPE": "an arithmetic error",
    "SIGKILL": "killed from outside: the kernel for want of memory, the scheduler, or a launcher after another failure",
    "SIGSEGV": "memory that does not belong to the process",
    "SIGPIPE": "who read its output went away",
    "SIGTERM": "asked to end: by a launcher after another process failed, or by the scheduler",
    "SIGUSR1": "a warning of the scheduler, often before the time limit",
}
# 48   Xid 79   -9   SIGTERM   ENOSPC   ncclRemoteError
_NUMBER = re.compile(r"-?\d{1,6}")
_NAME = re.compile(r"\b(?:E[A-Z0-9]{2,}|SIG[A-Z0-9]{2,}|nccl[A-Z]\w+)\b")


def explain_code(kind: str, code: str, book: RuleBook) -> str:
    """What a code says, in one or two sentences; for one that nobody knows, that it is unknown.

    `kind` is one of KINDS. `code` is the number, or the name of an errno, a signal or a result of NCCL.
    """
    if kind not in KINDS:
        return f"{kind!r} is no kind of code; kinds are {', '.join(KINDS)}"
    name = _NAME.search(code)
    number = _NUMBER.search(code)
    value = int(number[0]) if number else None
    if kind in ("xid", "sxid"):
        said = _of_driver(kind, value, book)
    elif kind == "errno":
        said = _of_errno(name[0] if name else "", value)
    elif kind == "signal":
        said = _of_signal(name[0] if name else "", value)
    elif kind == "exit":
        said = _of_exit(value)
    else:
        said = _of_nccl(name[0] if name else "", value)
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
    return f"signal {found.value} is {found.name}: {_SIGNALS.get(found.name, 'see the manual page signal(7)')}."


def _of_exit(value: int | None) -> str:
    if value is None:
        return ""
    if value in _EXIT:
        return f"exit code {value}: {_EXIT[value]}."
    ended_by = _of_signal("", value if value < 0 else value - 128) if value < 0 or 128 < value < 193 else ""
    return f"exit code {value}: ended by a signal; {ended_by}" if ended_by else ""


def _of_nccl(name: str, value: int | None) -> str:
    for number, (called, meaning) in _NCCL.items():
        if called == name or (not name and number == value):
            return f"NCCL result {number} is {called}: {meaning}."
    return ""
