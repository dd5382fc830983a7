"""What an exit status of a shell, a launcher or a container means, in words."""

from __future__ import annotations

from logdiag.model import number_in

# Shells add this to a signal's number.
_SHELLS = 128
_SIGNALS = {
    1: "ended with SIGHUP: often its session or terminal closed",
    2: "interrupted with SIGINT: Ctrl-C, or a launcher that ends its workers",
    4: "crashed with SIGILL: often a program built for another processor",
    6: "ended itself with SIGABRT: a check in native code failed, or a watchdog gave up",
    7: "crashed with SIGBUS: often the shared memory of /dev/shm is full, or a mapped file was cut",
    8: "crashed with SIGFPE: a whole number divided by zero in native code",
    9: "killed with SIGKILL: often out of memory, a time limit or scancel",
    10: "ended with SIGUSR1: often a scheduler's warning before a time limit or preemption",
    11: "crashed with SIGSEGV: a fault in native code",
    12: "ended with SIGUSR2: often a scheduler's warning before a time limit or preemption",
    13: "ended with SIGPIPE: what read its output had gone",
    15: "told to end with SIGTERM: often a time limit, preemption, scancel or another rank's failure",
    24: "ended with SIGXCPU: its limit of processor time was reached",
    25: "ended with SIGXFSZ: its limit of file size was reached",
}
_OTHERS = {
    124: "ended by timeout at its time limit",
    126: "not started, for what was called cannot be executed",
    127: "not started, for the program was not found",
}


def status_words(status: int | str | None) -> str:
    """What an exit status means beyond that the process failed: 128 + N and -N stand for signal N. Empty where it means
    no more, as a program's own 1 or 2."""
    code = _number(status)
    if code is None:
        return ""
    signal = -code if code < 0 else code - _SHELLS
    return _OTHERS.get(code) or _SIGNALS.get(signal, "")


def _number(status: int | str | None) -> int | None:
    if not isinstance(status, str):
        return status
    size = number_in(status.removeprefix("-"))
    return size if size is None or not status.startswith("-") else -size
