"""Similarity search over a SQLite store: what its index holds, and beside it what was added since."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from logdiag.errors import MemoryStoreError
from logdiag.memory.index import Ids, Index, Vectors, build, load

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder
    from logdiag.memory.sqlite import SqliteRows

__all__ = ["Neighbours"]

# So many are searched beside the index before it takes them in; of a large index also a fiftieth.
_BESIDE = 1000
_BESIDE_PART = 50
# So many are embedded and stored at a time: what is done stays done when the process ends.
_AT_ONCE = 1000
# An index that is no longer in force may still be about to be opened by others.
_KEEP_SECONDS = 3600.0
# Vectors are kept in half precision: a cosine changes by less than 0.001.
_KEPT = np.dtype("<f2")


class Neighbours:
    """The vectors of one store by one embedder.

    Rows are embedded in their order and a row's signature never changes, so those without a vector are always those
    above the last that has one. What cannot be written (a read-only folder, a full disk) is searched all the same.
    """

    def __init__(self, rows: SqliteRows, embedder: Embedder) -> None:
        self.embedder = embedder
        self._rows = rows
        self._index: Index | None = None
        self._last = 0
        self._beside = 0

    def search(self, queries: Vectors, k: int) -> list[tuple[float, int]]:
        """The cosine and the row of the `k` nearest to any of the queries (n, d), best first. Rows of incidents that
        were forgotten may be among them; those added since the last `catch_up` are not."""
        index = self._index
        if index is None or not len(index):
            return []
        scores, ids = index.search(queries, min(k, len(index)))
        best: dict[int, float] = {}
        for score, row in zip(scores.ravel().tolist(), ids.ravel().tolist(), strict=True):
            if row >= 0 and score > best.get(row, -2.0):
                best[row] = score
        return sorted(((score, row) for row, score in best.items()), key=lambda item: (-item[0], -item[1]))[:k]

    def catch_up(self, patience: float) -> bool:
        """Takes in what was added to the store by now, for so many seconds; whether that was all."""
        until = time.monotonic() + patience
        index = self._index
        if index is None:
            index, self._last = self._stored_index()
            self._index, self._beside = index, 0
        for more in (self._stored, self._embedded):
            for ids, vectors in more(self._last):
                index.add(vectors, ids)
                self._last = int(ids[-1])
                self._beside += len(ids)
                if time.monotonic() > until:
                    return False
        if self._beside > max(_BESIDE, len(index) // _BESIDE_PART):
            self._index = self._folded(index)
            self._beside = 0
        return True

    def _stored_index(self) -> tuple[Index, int]:
        """The index in force and the last row in it; an empty one when it is missing, torn or of another model."""
        found = self._rows.read(
            "SELECT index_file, indexed_to FROM embedders WHERE name = ? AND index_file != ''", (self.embedder.name,)
        )
        if found:
            try:
                return load(os.path.join(self._rows.name, found[0][0]), self.embedder.name), found[0][1]
            except MemoryStoreError:
                pass
        nothing = np.empty((0, self.embedder.dimensions), np.float32)
        return build(nothing, np.empty(0, np.int64), self.embedder.name), 0

    def _stored(self, after: int) -> Iterator[tuple[Ids, Vectors]]:
        """Rows with their vectors, in order, a thousand at a time."""
        while True:
            found = self._rows.read(
                "SELECT row, vector FROM vectors WHERE embedder = (SELECT number FROM embedders WHERE name = ?)"
                " AND row > ? ORDER BY row LIMIT ?",
                (self.embedder.name, after, _AT_ONCE),
            )
            if not found:
                return
            yield _unpacked(found, self.embedder.dimensions)
            after = found[-1][0]

    def _embedded(self, after: int) -> Iterator[tuple[Ids, Vectors]]:
        """The rows that have no vector yet, with the vectors that they get now."""
        while True:
            found = self._rows.read(
                "SELECT row, signature FROM incidents WHERE row > ? ORDER BY row LIMIT ?", (after, _AT_ONCE)
            )
            if not found:
                return
            ids = np.array([row for row, _ in found], np.int64)
            vectors = self.embedder.embed([text if isinstance(text, str) else "" for _, text in found])
            self._keep(ids, vectors)
            yield ids, vectors
            after = found[-1][0]

    def _keep(self, ids: Ids, vectors: Vectors) -> None:
        """Stores vectors where that is possible without leaving a gap below them; an incident that was forgotten
        meanwhile gets none."""
        kept = vectors.astype(_KEPT)
        try:
            with self._rows.writing() as connection:
                if self._gap(int(ids[0]) - 1):
                    return
                connection.execute("INSERT OR IGNORE INTO embedders (name) VALUES (?)", (self.embedder.name,))
                connection.executemany(
                    "INSERT OR IGNORE INTO vectors (embedder, row, vector)"
                    " SELECT (SELECT number FROM embedders WHERE name = ?), row, ? FROM incidents WHERE row = ?",
                    [(self.embedder.name, kept[at].tobytes(), int(ids[at])) for at in range(len(ids))],
                )
        except MemoryStoreError:
            pass

    def _gap(self, last: int) -> bool:
        """Whether a row up to `last` has no vector in the store."""
        return bool(
            self._rows.read(
                "SELECT 1 FROM incidents WHERE row <= ? AND row > coalesce((SELECT max(row) FROM vectors WHERE"
                " embedder = (SELECT number FROM embedders WHERE name = ?)), 0) LIMIT 1",
                (last, self.embedder.name),
            )
        )

    def _folded(self, index: Index) -> Index:
        """An index that holds all, in a file of its own; the one given where it cannot be written."""
        name = f"index-{os.urandom(8).hex()}.ldix"
        path = os.path.join(self._rows.name, name)
        try:
            if self._gap(self._last):
                return index
            if index.outgrown:
                index = self._built_anew()
            index.save(path)
            with self._rows.writing() as connection:
                connection.execute("INSERT OR IGNORE INTO embedders (name) VALUES (?)", (self.embedder.name,))
                connection.execute(
                    "UPDATE embedders SET index_file = ?, indexed_to = ? WHERE name = ?",
                    (name, self._last, self.embedder.name),
                )
            self._sweep()
            return load(path, self.embedder.name)
        except MemoryStoreError:
            return index

    def _built_anew(self) -> Index:
        """From every vector in the store up to the last row seen."""
        parts = list(self._stored(0))
        ids, vectors = np.concatenate([ids for ids, _ in parts]), np.concatenate([rows for _, rows in parts])
        seen = ids <= self._last
        return build(vectors[seen], ids[seen], self.embedder.name)

    def _sweep(self) -> None:
        """Removes indexes that are not in force and that nobody can be about to open or to put in force."""
        current = {name for (name,) in self._rows.read("SELECT index_file FROM embedders")}
        try:
            for name in os.listdir(self._rows.name):
                path = os.path.join(self._rows.name, name)
                old = name.lstrip(".").startswith("index-") and name not in current
                if old and time.time() - os.path.getmtime(path) > _KEEP_SECONDS:
                    os.unlink(path)
        except OSError:
            return


def _unpacked(found: list[tuple[int, object]], dimensions: int) -> tuple[Ids, Vectors]:
    """Rows and their vectors; one that was spoiled is of zeros, and like nothing."""
    ids = np.array([row for row, _ in found], np.int64)
    size, nothing = dimensions * _KEPT.itemsize, bytes(dimensions * _KEPT.itemsize)
    whole = [vector if isinstance(vector, bytes) and len(vector) == size else nothing for _, vector in found]
    vectors = np.nan_to_num(np.frombuffer(b"".join(whole), _KEPT).reshape(len(found), -1).astype(np.float32))
    return ids, vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
