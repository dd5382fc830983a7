"""Similarity search over a SQLite store: exact while it is small, above that from a file of FAISS beside it.

The vectors are in the database; the file can be made from them at any time. What came after the file was made is held
in memory and searched exactly, until there is so much of it that a new file takes it in.

Sources: FAISS (Douze et al. 2024, arXiv 2401.08281); the number of cells follows its guidelines (4 to 16 times the root
of the number of vectors).
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, and_, select, update
from sqlalchemy.dialects.sqlite import insert

from logdiag.errors import MemoryStoreError
from logdiag.memory.sqlite import EMBEDDERS, INCIDENTS, VECTORS

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as error:
    raise MemoryStoreError("The memory needs NumPy and FAISS: pip install 'logdiag[memory]'") from error

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder
    from logdiag.memory.sqlite import SqliteFile

__all__ = ["Nearest"]

_Vectors = NDArray[np.float32]
_Ids = NDArray[np.int64]

# So many are searched exactly, beside the file or without one; of a large file also a fiftieth.
_MOST_BESIDE = 20_000
_BESIDE_PART = 50
# So many are read, embedded and stored at a time: what is done stays done when the process ends.
_AT_ONCE = 1000
# A file that is no longer in force may still be about to be opened by others.
_KEEP_SECONDS = 3600.0
# _Vectors are kept in half precision: a cosine changes by less than 0.001.
_KEPT = np.dtype("<f2")

# Cells that a query looks into, and how a vector is kept in its cell: measured by `python -m evals.retrieval --bench`.
# With 8 bits a number instead of 16, near neighbours change places (recall@5 of a million 0.87), whatever the cells.
_PROBES = 16
_CODES = "SQfp16"
_SAMPLES_PER_CELL = 40
_ROUNDS = 8


class Nearest:
    """The vectors of one store by one embedder. What cannot be written (a read-only folder, a full disk) is searched
    all the same."""

    def __init__(self, file: SqliteFile, embedder: Embedder, most_beside: int = _MOST_BESIDE) -> None:
        self.embedder = embedder
        self._most_beside = most_beside
        self._file = file
        self._path = ""
        self._index, self._last = self._stored_index()
        self._ids = np.empty(0, np.int64)
        self._vectors = np.empty((0, embedder.dimensions), np.float32)

    def search(self, query: array[float], k: int) -> list[tuple[float, int]]:
        """The cosine and the row of the `k` nearest, best first. Rows of incidents that were forgotten may be among
        them; those added since the last `catch_up` are not."""
        asked = np.array([query], np.float32)
        found: list[tuple[float, int]] = []
        if self._index is not None:
            import faiss

            scores, ids = self._index.search(asked, k)
            if (ids < 0).any():
                # The cells that were looked into hold fewer than so many: the others are looked into as well.
                every: Any = faiss.SearchParametersIVF()
                every.nprobe = self._index.nlist
                scores, ids = self._index.search(asked, k, params=every)
            found += zip(scores[0].tolist(), ids[0].tolist(), strict=True)
        if many := min(k, len(self._ids)):
            products = (asked @ self._vectors.T)[0]
            places = np.argpartition(-products, many - 1)[:many]
            found += zip(products[places].tolist(), self._ids[places].tolist(), strict=True)
        # FAISS fills up with a row of -1; the latest of equals comes first.
        return sorted((item for item in found if item[1] >= 0), key=lambda item: (-item[0], -item[1]))[:k]

    def catch_up(self, patience: float) -> bool:
        """Takes in what was added to the store by now, for so many seconds; whether that was all. A new file is made
        only by who has all the time."""
        until = time.monotonic() + patience
        taken, searched_all = [(self._ids, self._vectors)], True
        for ids, vectors in self._chunks(self._last):
            taken.append((ids, vectors))
            self._last = int(ids[-1])
            if time.monotonic() > until:
                searched_all = False
                break
        if len(taken) > 1:
            self._ids, self._vectors = (np.concatenate(parts) for parts in zip(*taken, strict=True))
        many = 0 if self._index is None else int(self._index.ntotal)
        if patience == math.inf and len(self._ids) > max(self._most_beside, many // _BESIDE_PART):
            with suppress(MemoryStoreError, ImportError, OSError, RuntimeError):
                self._make_index()
        return searched_all

    def _chunks(self, after: int) -> Iterator[tuple[_Ids, _Vectors]]:
        """Rows with their vectors, in order, a thousand at a time; those that have none get theirs."""
        own = select(EMBEDDERS.c.number).where(EMBEDDERS.c.name == self.embedder.name).scalar_subquery()
        has_vector = and_(VECTORS.c.row == INCIDENTS.c.row, VECTORS.c.embedder == own)
        page = (
            select(INCIDENTS.c.row, INCIDENTS.c.signature, VECTORS.c.vector)
            .select_from(INCIDENTS.outerjoin(VECTORS, has_vector))
            .order_by(INCIDENTS.c.row)
            .limit(_AT_ONCE)
        )
        while found := self._read(page.where(INCIDENTS.c.row > after)):
            vectors = {item.row: item.vector for item in found}
            missing = {item.row: str(item.signature) for item in found if item.vector is None}
            if missing:
                made = np.array(self.embedder.embed(list(missing.values())), _KEPT)
                fresh = {row: vector.tobytes() for row, vector in zip(missing, made, strict=True)}
                self._keep(fresh)
                vectors.update(fresh)
            yield np.array(list(vectors), np.int64), _unpacked(list(vectors.values()), self.embedder.dimensions)
            after = found[-1].row

    def _keep(self, vectors: dict[int, bytes]) -> None:
        """Stores vectors where that is possible; an incident that was forgotten meanwhile gets none."""
        there = select(INCIDENTS.c.row).where(INCIDENTS.c.row.in_(list(vectors)))
        with suppress(MemoryStoreError), self._file.transaction(write=True) as connection:
            connection.execute(insert(EMBEDDERS).values(name=self.embedder.name).on_conflict_do_nothing())
            own = connection.scalar(select(EMBEDDERS.c.number).where(EMBEDDERS.c.name == self.embedder.name))
            kept = [{"embedder": own, "row": row, "vector": vectors[row]} for row in connection.scalars(there)]
            if kept:
                connection.execute(insert(VECTORS).on_conflict_do_nothing(), kept)

    def _stored_index(self) -> tuple[Any, int]:
        """The index in force and the last row in it; None and 0 where it is missing, torn or of another model."""
        columns = (EMBEDDERS.c.index_file, EMBEDDERS.c.indexed_to)
        named = select(*columns).where(EMBEDDERS.c.name == self.embedder.name, EMBEDDERS.c.index_file != "")
        for name, last in self._read(named):
            with suppress(ImportError, OSError, RuntimeError):
                return self._opened(os.path.join(self._file.folder, name)), last
        return None, 0

    def _opened(self, path: str, *, mapped: bool = True) -> Any:
        """The index in a file. Raises RuntimeError where it is none of this embedder's."""
        import faiss

        index: Any = faiss.read_index(path, faiss.IO_FLAG_MMAP if mapped and os.name == "posix" else 0)
        if index.d != self.embedder.dimensions:
            raise RuntimeError(path)
        index.nprobe = _PROBES
        self._path = path
        return index

    def _make_index(self) -> None:
        """Puts all vectors into a new file, and that in force."""
        index = self._index
        total = len(self._ids) + (0 if index is None else index.ntotal)
        if index is None or _cells(total) > 2 * index.nlist:
            step = max(1, total // (_cells(total) * _SAMPLES_PER_CELL))
            index = _trained(np.concatenate([vectors[ids % step == 0] for ids, vectors in self._chunks(0)]), total)
            parts = self._chunks(0)
        else:
            # What is mapped cannot grow. The file in force may be another by now, with rows that are beside this one.
            index = self._opened(self._path, mapped=False)
            parts = iter([(self._ids, self._vectors)])
        for ids, vectors in parts:
            seen = ids <= self._last
            index.add_with_ids(vectors[seen], ids[seen])
        self._put_in_force(index)

    def _put_in_force(self, index: Any) -> None:
        """Writes a new file, names it in the database, and searches it from now on."""
        import faiss

        path = os.path.join(self._file.folder, f"index-{os.urandom(8).hex()}.faiss")
        handle, unfinished = tempfile.mkstemp(prefix=".index-", dir=self._file.folder)
        try:
            faiss.write_index(index, unfinished)
            os.fsync(handle)
            os.replace(unfinished, path)
        except BaseException:
            os.unlink(unfinished)
            raise
        finally:
            os.close(handle)
        with self._file.transaction(write=True) as connection:
            named = update(EMBEDDERS).where(EMBEDDERS.c.name == self.embedder.name)
            connection.execute(named.values(index_file=os.path.basename(path), indexed_to=self._last))
        self._index = self._opened(path)
        self._ids, self._vectors = self._ids[:0], self._vectors[:0]
        self._sweep()

    def _sweep(self) -> None:
        """Removes indexes that are not in force and that nobody can be about to open or to put in force."""
        current = {item.index_file for item in self._read(select(EMBEDDERS.c.index_file))}
        for name in os.listdir(self._file.folder):
            path = os.path.join(self._file.folder, name)
            old = name.lstrip(".").startswith("index-") and name not in current
            if old and time.time() - os.path.getmtime(path) > _KEEP_SECONDS:
                os.unlink(path)

    def _read(self, query: Select[Any]) -> Sequence[Any]:
        with self._file.transaction() as connection:
            return connection.execute(query).all()


def _trained(sample: _Vectors, total: int) -> Any:
    """An empty index of FAISS for so many vectors, its cells laid out by a sample (n, d) of them."""
    import faiss

    index: Any = faiss.index_factory(sample.shape[1], f"IVF{_cells(total)},{_CODES}", faiss.METRIC_INNER_PRODUCT)
    index.cp.niter = _ROUNDS
    index.cp.seed = 1
    index.cp.min_points_per_centroid = 1  # of a smaller sample it would warn on stderr
    index.train(sample)
    index.nprobe = _PROBES
    return index


def _cells(total: int) -> int:
    return 1 << int(np.log2(4 * max(total, 1) ** 0.5))


def _unpacked(kept: Sequence[object], dimensions: int) -> _Vectors:
    """Vectors as they were kept; one that was spoiled is of zeros, and like nothing."""
    nothing = bytes(dimensions * _KEPT.itemsize)
    whole = [vector if isinstance(vector, bytes) and len(vector) == len(nothing) else nothing for vector in kept]
    vectors = np.nan_to_num(np.frombuffer(b"".join(whole), _KEPT).reshape(len(kept), -1).astype(np.float32))
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6), np.float32)
