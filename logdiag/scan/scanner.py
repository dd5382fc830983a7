"""Scans blocks for rules beside the work on shapes.

Hyperscan reports each hit through a Python callback, which has to wait for the interpreter; two threads would take
turns. So of a long stream the blocks go to a forked process, over memory that both share, and only hits come back.
Short streams, platforms without `fork`, and programs that run threads of their own are scanned in this process, with
the same result.
"""

from __future__ import annotations

import contextlib
import marshal
import mmap
import os
import select
import signal
import threading

from logdiag.model import Block
from logdiag.rules.book import Hit, RuleBook

__all__ = ["Scanner"]

# A stream that is shorter than this is done before a second process is at work.
_WORTH_A_PROCESS = 4 << 20
_SHARED_BYTES = 16 << 20
_SIZE = 8


class Scanner:
    """Scans one block at a time: `begin` starts, `finish` gives the hits. Leaving the context ends the process."""

    def __init__(self, book: RuleBook) -> None:
        self._book = book
        self._data = b""
        self._scanned = 0
        self._helper: _Helper | None = None
        self._handed_over = False

    def __enter__(self) -> Scanner:
        return self

    def __exit__(self, *_: object) -> None:
        if self._helper:
            self._helper.close()

    def begin(self, block: Block | None) -> None:
        """Starts with the next block; None when there is none."""
        self._data = block.data if block else b""
        if self._helper is None and self._scanned >= _WORTH_A_PROCESS and _can_fork():
            self._helper = _Helper(self._book)
        self._scanned += len(self._data)
        self._handed_over = self._helper is not None and bool(self._data) and self._helper.send(self._data)

    def finish(self) -> list[Hit]:
        """The hits in the block that was begun."""
        hits = self._helper.receive() if self._helper and self._handed_over else None
        return self._book.scan(self._data) if hits is None else hits


def _can_fork() -> bool:
    """Whether a copy of this process is safe to make and has a core to run on."""
    return hasattr(os, "eventfd") and threading.active_count() == 1 and (os.cpu_count() or 1) > 1


class _Helper:
    """The forked process and the memory shared with it: the length of a block, then the block.

    It is woken through an eventfd: a pipe's wake-up would put it on the core of the process that is busy with shapes.
    """

    def __init__(self, book: RuleBook) -> None:
        self._shared = mmap.mmap(-1, _SHARED_BYTES)
        self._ask = os.eventfd(0)
        self._answers, answer = os.pipe()
        alive, self._alive = os.pipe()  # closes with this process, however it ends
        self._process = os.fork()
        if self._process == 0:
            os.close(self._answers)
            os.close(self._alive)
            _serve(book, self._shared, self._ask, alive, answer)
        os.close(alive)
        os.close(answer)

    def send(self, data: bytes) -> bool:
        """Hands a block over; False when it does not fit."""
        if len(data) + _SIZE > _SHARED_BYTES:
            return False
        self._shared[:_SIZE] = len(data).to_bytes(_SIZE, "big")
        self._shared[_SIZE : _SIZE + len(data)] = data
        os.eventfd_write(self._ask, 1)
        return True

    def receive(self) -> list[Hit] | None:
        """The hits of the block handed over; None when the process is gone."""
        head = _read_exactly(self._answers, _SIZE)
        body = _read_exactly(self._answers, int.from_bytes(head, "big")) if head else None
        hits: list[Hit] | None = marshal.loads(body) if body is not None else None
        return hits

    def close(self) -> None:
        """Ends the process and gives the memory back."""
        # Said, and not only by closing: another process that the caller forked meanwhile may hold the pipe too.
        self._shared[:_SIZE] = bytes(_SIZE)
        os.eventfd_write(self._ask, 1)
        for pipe in (self._alive, self._answers, self._ask):
            os.close(pipe)
        with contextlib.suppress(ChildProcessError):  # a caller that ignores or reaps all its children
            os.waitpid(self._process, 0)
        self._shared.close()


def _serve(book: RuleBook, shared: mmap.mmap, ask: int, alive: int, answer: int) -> None:
    """The forked process: answers until its parent is gone, and leaves without running anything of its parent's."""
    try:
        # The parent's handlers are not for this process; a Ctrl-C in the terminal is the parent's to answer.
        signal.set_wakeup_fd(-1)
        for number, handler in ((signal.SIGINT, signal.SIG_IGN), (signal.SIGTERM, signal.SIG_DFL)):
            signal.signal(number, handler)
        waiting = select.poll()
        waiting.register(ask, select.POLLIN)
        waiting.register(alive, select.POLLIN)
        while alive not in dict(waiting.poll()):
            os.eventfd_read(ask)
            size = int.from_bytes(shared[:_SIZE], "big")
            if not size:
                break
            body = marshal.dumps(book.scan(shared[_SIZE : _SIZE + size]))
            view = memoryview(len(body).to_bytes(_SIZE, "big") + body)
            while view:
                view = view[os.write(answer, view) :]
    finally:
        os._exit(0)


def _read_exactly(pipe: int, size: int) -> bytes | None:
    """So many bytes, or None when the other end closed before."""
    parts = []
    while size:
        part = os.read(pipe, size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
