"""Finds lines by what they mean: an in-memory index over the lines that the digest kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from logdiag.model import Line

__all__ = ["LineSearch"]

# More than this many different lines take longer to embed than a question may wait.
_MOST_LINES = 2000


class LineSearch:
    """The index over some lines, built with the first question; it may be asked from several threads.

    Of lines that differ only in numbers and names the latest stands for all.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._given = lines
        self._lines: list[Line] = []
        self._index: Any = None
        self._embedder: Any = None
        self._lock = threading.Lock()

    def nearest(self, query: str, most: int) -> list[Line]:
        """The lines that are most like a text, best first. Raises MemoryStoreError where NumPy or FAISS is missing."""
        from logdiag.memory.incident import masked

        with self._lock:
            if self._index is None:
                self._build()
        if not self._lines:
            return []
        _, ids = self._index.search(self._embedder.embed([masked(query)]), min(most, len(self._lines)))
        return [self._lines[at] for at in ids[0].tolist() if at >= 0]

    def _build(self) -> None:
        from logdiag.memory.embedding import load_embedder
        from logdiag.memory.incident import masked
        from logdiag.memory.index import build

        # Where NumPy is missing, the memory's modules have said what to install.
        self._embedder = load_embedder("static")
        import numpy as np

        latest: dict[str, Line] = {}
        for line in reversed(self._given):
            if line.text.strip() and len(latest) < _MOST_LINES:
                latest.setdefault(masked(line), line)
        self._lines = list(latest.values())
        vectors = self._embedder.embed(list(latest))
        self._index = build(vectors, np.arange(len(latest), dtype=np.int64), self._embedder.name)
