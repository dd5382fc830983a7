"""One attempt of a job as a process: its output goes through unchanged and live and into a log, signals reach it, and
what it leaves behind is ended.

Where our own output is a terminal the job gets one too, so that colours and progress bars stay.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from logdiag.errors import LogdiagError

_PIECE = 1 << 16
_INPUT, _OUTPUT, _ERRORS = 0, 1, 2
MARK = "LOGDIAG_RUN"
# Seconds to read on after a process has ended, and to wait after it was asked to end.
_LAST_WORDS, _GRACE = 1.0, 10.0


class Child:
    """A running command. `read` passes output on and gives it, `status` is its exit status once it has ended."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: str) -> None:
        """Starts it, its log first. Raises LogdiagError where the log or the command cannot be used."""
        try:
            self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise LogdiagError(f"{log}: cannot be written ({error.strerror}); give another --state") from error
        self.notes: list[str] = []
        self._routes: dict[int, int] = {}  # from the descriptor we read to the one we write to
        ends = self._make_ends()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=_input(),
                stdout=ends[_OUTPUT],
                stderr=ends[_ERRORS],
                env=dict(environ),
                start_new_session=True,
            )
        except OSError as error:
            raise LogdiagError(f"{command[0]}: cannot be started ({error.strerror}); check the command") from error
        finally:
            for end in set(ends.values()):
                os.close(end)

    @property
    def status(self) -> int | None:
        """What the process ended with, minus the signal's number where one ended it; None while it runs."""
        return self._process.poll()

    def read(self, seconds: float) -> bytes:
        """What the job prints next, passed on and logged; waits so long at most."""
        if not self._routes:
            time.sleep(min(seconds, 0.05))
        ready, _, _ = select.select(list(self._routes), [], [], seconds if self._routes else 0)
        pieces = []
        for end in ready:
            piece = b""
            with contextlib.suppress(OSError):  # a terminal whose other side is closed
                piece = os.read(end, _PIECE)
            if piece:
                self._pass_on(piece, self._routes[end])
            else:
                self._routes.pop(end)
                os.close(end)
            pieces.append(piece)
        return b"".join(pieces)

    def last_words(self) -> Iterator[bytes]:
        """Yields what an ended job left in its pipes, for a second at most: a child of it may hold them open."""
        until = time.monotonic() + _LAST_WORDS
        while self._routes and time.monotonic() < until:
            yield self.read(0.05)

    def signal(self, number: int, *, to_all: bool = False) -> None:
        """Passes a signal on: what a terminal sends to all goes to all, else the job's first process decides."""
        with contextlib.suppress(ProcessLookupError):
            if to_all or number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)

    def resize(self) -> None:
        """Gives the job's terminal the size of ours."""
        import fcntl
        import termios

        for end, out in self._routes.items():
            with contextlib.suppress(OSError):
                fcntl.ioctl(end, termios.TIOCSWINSZ, fcntl.ioctl(out, termios.TIOCGWINSZ, bytes(8)))

    def close(self) -> None:
        """Closes the job's output and the log, and waits for its process."""
        for end in (*self._routes, self._log):
            os.close(end)
        self._routes.clear()
        self._process.wait()

    def _make_ends(self) -> dict[int, int]:
        """The job's side of standard output and error: one for both where ours are one."""
        ends: dict[int, int] = {}
        for out in (_OUTPUT, _ERRORS):
            if out == _ERRORS and os.path.sameopenfile(_OUTPUT, _ERRORS):
                ends[out] = ends[_OUTPUT]
                continue
            ours, ends[out] = _terminal() if os.isatty(out) else os.pipe()
            self._routes[ours] = out
        self.resize()
        return ends

    def _pass_on(self, piece: bytes, out: int) -> None:
        """Writes a piece into the log and to our output. If nobody reads that any more, the job works on."""
        lost = "the log could not be written ({}); a part of it is missing"
        unread = "the copy to standard output broke off ({}); the log has all of it"
        for to, note in ((self._log, lost), (out, unread)):
            try:
                _write(to, piece)
            except OSError as error:
                if (said := note.format(error.strerror)) not in self.notes:
                    self.notes.append(said)


def _input() -> int | None:
    """Standard input for the job: ours (None), or DEVNULL where another program owns that terminal."""
    with contextlib.suppress(OSError):  # no terminal, or not ours
        if os.tcgetpgrp(_INPUT) != os.getpgrp():
            return subprocess.DEVNULL
    return None


def _terminal() -> tuple[int, int]:
    """A terminal's two sides; it changes nothing of what is written."""
    import pty
    import termios

    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    return ours, theirs


def _write(out: int, piece: bytes) -> None:
    while piece:
        try:
            piece = piece[os.write(out, piece) :]
        except BlockingIOError:
            select.select([], [out], [])


def marked(mark: str) -> list[int]:
    """Returns the ids of an attempt's processes, by the mark in their environment; only the user's own are seen."""
    wanted = f"{MARK}={mark}".encode()
    processes = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    processes.append(int(name))
    return processes


def end_all(mark: str, child: Child | None = None) -> int:
    """Ends what an attempt left running, with SIGTERM and then SIGKILL. Returns how many processes there were. One that
    cannot be killed, as it waits for a device, is left."""
    left = len(marked(mark))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for sent in (number, signal.SIGCONT):
            if child is not None and child.status is None:
                child.signal(sent, to_all=True)
            for process in marked(mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, sent)
        until = time.monotonic() + _GRACE
        while time.monotonic() < until and (marked(mark) or (child is not None and child.status is None)):
            if child is not None:
                child.read(0.05)
            else:
                time.sleep(0.05)
    return left
