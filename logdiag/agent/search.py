"""Finds lines by what they mean: an in-memory index over the lines that the digest kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from logdiag.errors import MemoryStoreError
from logdiag.model import Line

# More than this many different lines take longer to embed than a question may wait.
_MOST_LINES = 2000


class LineSearch:
    """The index over some lines, built with the first question; it may be asked from several threads.

    Of lines that differ only in numbers and names the latest stands for all.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._given = lines
        self._lines: list[Line] = []
        self._vectors: Any = None
        self._embedder: Any = None
        self._lock = threading.Lock()

    def nearest(self, query: str, most: int) -> list[Line]:
        """The lines that are most like a text, best first. Raises MemoryStoreError where NumPy is missing."""
        from logdiag.memory.incident import masked

        with self._lock:
            if self._vectors is None:
                self._build()
        if not self._lines:
            return []
        scores = self._vectors @ self._embedder.embed([masked(query)])[0]
        return [self._lines[at] for at in (-scores).argsort(kind="stable")[:most].tolist()]

    def _build(self) -> None:
        from logdiag.memory.embedding import load_embedder
        from logdiag.memory.incident import masked

        try:
            import numpy as np
        except ImportError as problem:
            raise MemoryStoreError("Search by meaning needs NumPy: pip install 'logdiag[memory]'") from problem

        latest: dict[str, Line] = {}
        for line in reversed(self._given):
            if line.text.strip() and len(latest) < _MOST_LINES:
                latest.setdefault(masked(line), line)
        self._lines = list(latest.values())
        self._embedder = load_embedder()
        self._vectors = np.array(self._embedder.embed(list(latest)), np.float32)
