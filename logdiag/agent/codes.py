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
    255: "an error outside the usual range, often of ssh",
}
# As sysexits.h names them; not every program means them.
_SYSEXITS = {
    64: ("EX_USAGE", "the command was used wrongly"),
    65: ("EX_DATAERR", "the input data was wrong"),
    66: ("EX_NOINPUT", "an input file is missing or cannot be read"),
    67: ("EX_NOUSER", "a user is not known"),
    68: ("EX_NOHOST", "a host is not known"),
    69: ("EX_UNAVAILABLE", "a service or a needed program is not available"),
    70: ("EX_SOFTWARE", "an internal error of the program"),
    71: ("EX_OSERR", "the operating system refused: no process, no memory, no pipe"),
    72: ("EX_OSFILE", "a file of the system is missing or broken"),
    73: ("EX_CANTCREAT", "an output file cannot be made"),
    74: ("EX_IOERR", "an error of input or output"),
    75: ("EX_TEMPFAIL", "a failure that may pass: try again later"),
    76: ("EX_PROTOCOL", "the other side did not keep to the protocol"),
    77: ("EX_NOPERM", "permission denied"),
    78: ("EX_CONFIG", "the configuration is wrong"),
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
    """An exit code: a shell's 128 + N, a launcher's -N, and 256 - N, which is -N as an unsigned byte."""
    if value is None:
        return ""
    if value in _EXIT:
        return f"exit code {value}: {_EXIT[value]}."
    if value in _SYSEXITS:
        name, meaning = _SYSEXITS[value]
        return f"exit code {value} is {name} in sysexits.h: {meaning}."
    number = -value if value < 0 else value - 128 if value < 193 else 256 - value
    ended_by = _of_signal("", number) if number > 0 and (value < 0 or 128 < value < 256) else ""
    return f"exit code {value}: ended by a signal; {ended_by}" if ended_by else ""


def _of_nccl(name: str, value: int | None) -> str:
    for number, (called, meaning) in _NCCL.items():
        if called == name or (not name and number == value):
            return f"NCCL result {number} is {called}: {meaning}."
    return ""
