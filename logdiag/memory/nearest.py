"""Similarity search over a store: exact while it is small, above that by an index file of FAISS (Douze et al. 2024,
arXiv 2401.08281). The vectors are in the database, from which the file can be made again at any time. Incidents added
after the file was made are searched exactly, until they are so many that a new file is made."""

from __future__ import annotations

import hashlib
import math
import os
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, and_, exists, insert, select

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Incident
from logdiag.patterns import pattern_of
from logdiag.settings.cache import UNFINISHED, replace_file

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as error:
    raise MemoryStoreError("The memory needs NumPy and FAISS: pip install 'logdiag[memory]'") from error

if TYPE_CHECKING:
    from logdiag.memory.database import Database
    from logdiag.memory.embedding import Embedder

_Vectors = NDArray[np.float32]
_Ids = NDArray[np.int64]

# A new index is made when more than 1 / _BESIDE_PART of its incidents were added after it.
_BESIDE_PART = 50
# So many incidents are embedded and stored at a time, so that little is lost if the process ends.
_AT_ONCE = 1000
# So many results more are requested, since incidents may have been forgotten after the index was made.
_FORGOTTEN = 16
# Seconds that an old index file is kept, since another process may be about to open it.
_KEEP_SECONDS = 3600.0
# Vectors are kept in half precision: a cosine changes by less than 0.001.
_KEPT = np.dtype("<f2")

# Cells that a query looks into, and how a vector is kept in its cell: measured by `python -m evals.retrieval`.
# With 8 bits a number instead of 16, near neighbours change places (recall@5 of a million 0.87), whatever the cells.
_PROBES = 16
_CODES = "SQfp16"
_SAMPLES_PER_CELL = 40
_ROUNDS = 8

# The last row, and a hash of the embedder and of the incident in that row.
_FILE = pattern_of(r"index-(\d{12})-[0-9a-f]{16}\.faiss")


class Nearest:
    """The vectors of one store by one embedder. It works also where nothing can be written."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self.embedder = embedder
        self._database = database
        self._folder = database.index_folder
        self._index, self._last = self._stored_index()
        self._ids = np.empty(0, np.int64)
        self._vectors = np.empty((0, embedder.dimensions), np.float32)

    def incidents(self, query: array[float], k: int) -> list[tuple[float, Incident]]:
        """The `k` incidents most like a vector, with their cosine, best first; forgotten ones are left out."""
        asked = k + _FORGOTTEN
        while True:
            scored = self.search(query, asked)
            incidents = self._database.by_rows([row for _, row in scored])
            found = [(score, incidents[row]) for score, row in scored if row in incidents]
            if len(found) >= k or len(scored) < asked:
                return found[:k]
            asked *= 4

    def search(self, query: array[float], k: int) -> list[tuple[float, int]]:
        """The cosine and the row of the `k` nearest as of the last `catch_up`, best first, also of forgotten ones."""
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
            indices = np.argpartition(-products, many - 1)[:many]
            found += zip(products[indices].tolist(), self._ids[indices].tolist(), strict=True)
        # FAISS fills up with a row of -1; the latest of equals comes first.
        return sorted((item for item in found if item[1] >= 0), reverse=True)[:k]

    def catch_up(self, patience: float) -> bool:
        """Loads the incidents added to the store so far, for at most `patience` seconds; False if time ran out. A new
        index file is made only with infinite patience."""
        until = time.monotonic() + patience
        chunks, searched_all = [(self._ids, self._vectors)], True
        for ids, vectors in self._chunks(self._last):
            chunks.append((ids, vectors))
            self._last = int(ids[-1])
            if time.monotonic() > until:
                searched_all = False
                break
        if len(chunks) > 1:
            self._ids, self._vectors = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        many = 0 if self._index is None else int(self._index.ntotal)
        much = len(self._ids) > max(self._database.most_beside, many // _BESIDE_PART)
        if much and patience == math.inf and self._folder:
            with suppress(MemoryStoreError, ImportError, OSError, RuntimeError):
                self._make_index()
        return searched_all

    def _chunks(self, after: int) -> Iterator[tuple[_Ids, _Vectors]]:
        """Rows after a row with their vectors, in order, a thousand at a time; missing vectors are made and stored."""
        incidents, vectors = self._database.tables.incidents, self._database.tables.vectors
        with_vectors = incidents.outerjoin(
            vectors, and_(vectors.c.row == incidents.c.row, vectors.c.embedder == self._number().scalar_subquery())
        )
        page = select(incidents.c.row, incidents.c.signature, vectors.c.vector).select_from(with_vectors)
        page = page.order_by(incidents.c.row).limit(_AT_ONCE)
        while True:
            with self._database.transaction() as connection:
                found = connection.execute(page.where(incidents.c.row > after)).all()
            if not found:
                return
            kept = {item.row: item.vector for item in found}
            missing = {item.row: str(item.signature) for item in found if item.vector is None}
            if missing:
                made = np.array(self.embedder.embed(list(missing.values())), _KEPT)
                fresh = {row: vector.tobytes() for row, vector in zip(missing, made, strict=True)}
                self._keep(fresh)
                kept.update(fresh)
            yield np.array(list(kept), np.int64), _unpacked(list(kept.values()), self.embedder.dimensions)
            after = found[-1].row

    def _number(self) -> Select[tuple[int]]:
        embedders = self._database.tables.embedders
        return select(embedders.c.number).where(embedders.c.name == self.embedder.name)

    def _keep(self, made: dict[int, bytes]) -> None:
        """Stores vectors by row, if the database can be written, of rows that are still there and have none."""
        tables = self._database.tables
        with suppress(MemoryStoreError), self._database.transaction(write=True) as connection:
            embedder = connection.scalar(self._number())
            if embedder is None:
                connection.execute(insert(tables.embedders).values(name=self.embedder.name))
                embedder = connection.scalar(self._number())
            row, vectors = tables.incidents.c.row, tables.vectors.c
            has_one = exists().where(vectors.row == row, vectors.embedder == embedder)
            waiting = connection.scalars(select(row).where(row.in_(list(made)), ~has_one)).all()
            if kept := [{"embedder": embedder, "row": number, "vector": made[number]} for number in waiting]:
                connection.execute(insert(tables.vectors), kept)

    def _stored_index(self) -> tuple[Any, int]:
        """The index of this store and the last row in it; None and 0 where it is missing, torn or another store's."""
        with suppress(ImportError, OSError, RuntimeError):
            for name in sorted(os.listdir(self._folder), reverse=True):
                if (match := _FILE.fullmatch(name)) and self._name(int(match[1])) == (name, int(match[1])):
                    return self._opened(name), int(match[1])
        return None, 0

    def _name(self, last: int) -> tuple[str, int]:
        """The file name of an index of the rows up to `last`, and the last existing row among them. The name holds a
        hash of the embedder and of the incident in that row, so that no other store's index is taken."""
        columns = self._database.tables.incidents.c
        query = select(columns.row, columns.id).where(columns.row <= last).order_by(columns.row.desc()).limit(1)
        with self._database.transaction() as connection:
            row, identity = connection.execute(query).one_or_none() or (0, "")
        mark = hashlib.sha256(f"{self.embedder.name} {identity}".encode()).hexdigest()[:16]
        return f"index-{row:012}-{mark}.faiss", row

    def _opened(self, name: str) -> Any:
        """Opens the index in a file. Raises RuntimeError if its vectors have another length than the embedder's."""
        import faiss

        path = os.path.join(self._folder, name)
        index: Any = faiss.read_index(path, faiss.IO_FLAG_MMAP if os.name == "posix" else 0)
        if index.d != self.embedder.dimensions:
            raise RuntimeError(path)
        index.nprobe = _PROBES
        return index

    def _make_index(self) -> None:
        """Makes an index file of all vectors, which is used from now on."""
        import faiss

        total = len(self._ids) + (0 if self._index is None else self._index.ntotal)
        # The cells are laid out by a sample.
        step = max(1, total // (_cells(total) * _SAMPLES_PER_CELL))
        cells = f"IVF{_cells(total)},{_CODES}"
        index: Any = faiss.index_factory(self.embedder.dimensions, cells, faiss.METRIC_INNER_PRODUCT)
        index.cp.niter = _ROUNDS
        index.cp.seed = 1
        index.cp.min_points_per_centroid = 1  # of a smaller sample it would warn on stderr
        index.train(np.concatenate([vectors[ids % step == 0] for ids, vectors in self._chunks(0)]))
        for ids, vectors in self._chunks(0):
            seen = ids <= self._last
            index.add_with_ids(vectors[seen], ids[seen])
        name, self._last = self._name(self._last)
        replace_file(os.path.join(self._folder, name), faiss.serialize_index(index).data)
        self._index = self._opened(name)
        self._ids, self._vectors = self._ids[:0], self._vectors[:0]
        for old in set(os.listdir(self._folder)) - {name}:
            path = os.path.join(self._folder, old)
            if old.startswith(("index-", UNFINISHED)) and time.time() - os.path.getmtime(path) > _KEEP_SECONDS:
                os.unlink(path)


def _cells(total: int) -> int:
    return 1 << int(np.log2(4 * max(total, 1) ** 0.5))


def _unpacked(kept: Sequence[object], dimensions: int) -> _Vectors:
    """Stored vectors as an array (n, dimensions) of length 1 each; a damaged one is all zeros, similar to nothing."""
    nothing = bytes(dimensions * _KEPT.itemsize)
    whole = [vector if isinstance(vector, bytes) and len(vector) == len(nothing) else nothing for vector in kept]
    vectors = np.nan_to_num(np.frombuffer(b"".join(whole), _KEPT).reshape(len(kept), -1).astype(np.float32))
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6), np.float32)
