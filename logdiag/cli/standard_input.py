"""Standard input, copied to standard output on request, never to the job's harm: a job that writes into a closed pipe
dies.

A copy that fails is given up, the reading goes on. The first SIGINT or SIGTERM ends the reading; what was read is
diagnosed, and the rest is taken off the pipe and passed on. A second signal ends the command.
"""

from __future__ import annotations

import os
import select
import signal
from types import FrameType
from typing import Any

_INPUT, _OUTPUT = 0, 1
_PIECE_BYTES = 1 << 16


class StandardInput:
    """An open file over standard input; with `copy` each piece is passed on at once. As a context it takes the two
    signals, and at its end reads on, where it copies or was interrupted, until the job closes its end. `notes` says
    what failed."""

    name = "<stdin>"

    def __init__(self, *, copy: bool) -> None:
        self.notes: list[str] = []
        self._copy = copy
        self._interrupted_by = ""
        self._last_read = False
        self._ended = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> StandardInput:
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._wake_before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            # A shell starts a background command with Ctrl-C ignored: leave it so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        signal.set_wakeup_fd(self._wake_before)
        for number, handler in self._handlers.items() if not self._interrupted_by else ():
            signal.signal(number, handler)
        os.close(self._wake)
        os.close(self._woken)
        ended_by_signal = kind is not None and issubclass(kind, KeyboardInterrupt)
        reads_on = (self._copy or self._interrupted_by) and not ended_by_signal
        while reads_on and not self._ended:
            self._next_piece(_PIECE_BYTES)

    def read(self, size: int = -1) -> bytes:
        """What is there, at most `size` bytes; waits for it. Raises InterruptedError once a signal came."""
        self.poll()
        # Read what the job had printed when the signal came, before the read ends.
        if self._interrupted_by and (self._last_read or not select.select([_INPUT], [], [], 0)[0]):
            raise InterruptedError(f"interrupted by {self._interrupted_by}")
        self._last_read = bool(self._interrupted_by)
        return self._next_piece(size if size >= 0 else _PIECE_BYTES)

    def poll(self, milliseconds: float | None = None) -> bool:
        """Waits, at most so long; True when there is something to read, or a signal has come."""
        seconds = None if milliseconds is None else milliseconds / 1000
        while not self._interrupted_by:
            ready = select.select([_INPUT, self._woken], [], [], seconds)[0]
            if _INPUT in ready or not ready:
                return bool(ready)
            os.read(self._woken, _PIECE_BYTES)
        return True

    def _next_piece(self, size: int) -> bytes:
        chunk = os.read(_INPUT, size)
        self._ended = not chunk
        self._pass_on(chunk)
        return chunk

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        self._interrupted_by = signal.Signals(number).name
        for handled in self._handlers:
            signal.signal(handled, signal.default_int_handler if handled is signal.SIGINT else signal.SIG_DFL)

    def _pass_on(self, chunk: bytes) -> None:
        """Writes all of a piece to standard output, unless an earlier one could not be written."""
        while chunk and self._copy:
            try:
                chunk = chunk[os.write(_OUTPUT, chunk) :]
            except BlockingIOError:
                select.select([], [_OUTPUT], [])
            except OSError as error:
                self._copy = False
                broken = f"the copy to standard output broke off ({error.strerror})"
                self.notes.append(f"{broken}; the log itself was read on")
