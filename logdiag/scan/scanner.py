"""Scans blocks for rules beside the work on shapes.

Hyperscan lets go of the interpreter while it scans, so that of a long stream the next block is scanned in a thread
while this one's shapes are counted. A hit has to wait for the interpreter: in the worst case the two take turns, which
is what a short stream gets anyway.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

from logdiag.model import Block
from logdiag.rules.book import Hit, RuleBook

__all__ = ["Scanner"]

# A stream that is shorter than this is done before a thread is at work.
_WORTH_A_THREAD = 4 << 20


class Scanner:
    """Scans one block at a time: `begin` starts, `finish` gives the hits. Leaving the context ends the thread."""

    def __init__(self, book: RuleBook) -> None:
        self._book = book
        self._data = b""
        self._scanned = 0
        self._thread: threading.Thread | None = None
        self._asked: SimpleQueue[bytes | None] = SimpleQueue()
        self._answers: SimpleQueue[list[Hit] | BaseException] = SimpleQueue()

    def __enter__(self) -> Scanner:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread:
            self._asked.put(None)
            self._thread.join()

    def begin(self, block: Block | None) -> None:
        """Starts with the next block; None when there is none."""
        self._data = block.data if block else b""
        if self._thread is None and self._scanned >= _WORTH_A_THREAD:
            self._thread = threading.Thread(target=self._serve, name="logdiag-scan", daemon=True)
            self._thread.start()
        self._scanned += len(self._data)
        if self._thread:
            self._asked.put(self._data)

    def finish(self) -> list[Hit]:
        """The hits in the block that was begun."""
        if self._thread is None:
            return self._book.scan(self._data)
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _serve(self) -> None:
        while (data := self._asked.get()) is not None:
            try:
                self._answers.put(self._book.scan(data))
            except BaseException as error:  # raised again where the hits are waited for
                self._answers.put(error)
