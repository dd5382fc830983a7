"""Finds the nearest of many vectors: exact below 50,000, by FAISS's inverted file above, from one memory-mapped file.

    index = build(vectors, ids, embedder.name)     # float32 (n, d) of length 1; int64 (n,), the store's rowids
    index.save(path)                               # whole or not at all
    index = load(path, embedder.name)              # MemoryStoreError when torn, or made by another model
    scores, ids = index.search(queries, 5)         # cosines, best first; (q, 5) each
    index.add(vectors, ids)                        # found at once, in the file with the next `save`

The file is the body (for the exact index the ids, then the vectors; above that what FAISS writes), a line of JSON that
says what it is, and a trailer with that line's length and check sum: a file that was cut short has no trailer.

Sources: FAISS (Douze et al. 2024, arXiv 2401.08281); the number of cells follows its guidelines (4 to 16 times the root
of the number of vectors).
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from logdiag.errors import MemoryStoreError

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as error:
    raise MemoryStoreError("The memory needs NumPy and FAISS: pip install 'logdiag[memory]'") from error

__all__ = ["EXACT_BELOW", "Index", "build", "load"]

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]

EXACT_BELOW = 50_000
# Up to here a product in NumPy takes at most as long as importing FAISS would.
_WITHOUT_FAISS_BELOW = 10_000
_NOBODY = -1

_MAGIC = b"LDIX"
_FORM = 1
_TRAILER = struct.Struct("<4sII")
# Of a larger body the check sum covers the beginning, the end, and pieces between: all of it would take seconds.
_CHECKED_WHOLE = 64 << 20
_PIECES = 64
_PIECE = 64 << 10

# Cells that a query looks into, and how a vector is kept in its cell: measured by `python -m evals.retrieval --bench`.
# With 8 bits a number instead of 16, near neighbours change places (recall@5 of a million 0.87), whatever the cells.
_PROBES = 16
_CODES = "SQfp16"
_SAMPLES_PER_CELL = 40
_ROUNDS = 8
_CHUNK = 50_000


@dataclass(frozen=True, slots=True)
class _Header:
    """What a file says about itself; `kind` is exact or cells."""

    form: int
    embedder: str
    dimensions: int
    count: int
    kind: str
    checksum: int


class Index:
    """Vectors and their ids, searched by inner product.

    Vectors that were added since `build` or `load` are kept beside it in memory and searched exactly, until `save`
    takes them in.
    """

    __slots__ = ("_added", "_added_ids", "_body", "_exact_below", "_ids", "dimensions", "embedder")

    def __init__(
        self, embedder: str, dimensions: int, body: Any, ids: Ids | None, exact_below: int = EXACT_BELOW
    ) -> None:
        """`body` is the matrix whose rows have the `ids`, or FAISS's index, which has its own (`ids` is None)."""
        self._exact_below = exact_below
        self.embedder = embedder
        self.dimensions = dimensions
        self._body = body
        self._ids = ids
        self._added: list[Vectors] = []
        self._added_ids: list[Ids] = []

    def __len__(self) -> int:
        return self._built + sum(map(len, self._added_ids))

    @property
    def exact(self) -> bool:
        """Whether no neighbour can be missed."""
        return self._ids is not None

    @property
    def outgrown(self) -> bool:
        """Whether building it anew from all vectors would make its searches faster or its answers better."""
        built = self._built
        return len(self) >= self._exact_below if self.exact else len(self) > 4 * max(built, 1)

    def add(self, vectors: Vectors, ids: Ids) -> None:
        """Adds vectors (n, dimensions) with their ids (n,)."""
        rows, numbers = _checked(vectors, ids, self.dimensions)
        self._added.append(rows)
        self._added_ids.append(numbers)

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Ids]:
        """The cosines and the ids of the `k` nearest of each query, best first: two arrays (queries, k).

        Where there are fewer than `k`, the rest has the cosine -1 and the id -1.
        """
        asked = np.ascontiguousarray(np.atleast_2d(queries), dtype=np.float32)
        if asked.shape[1] != self.dimensions:
            raise MemoryStoreError(f"The index has {self.dimensions} dimensions, the query {asked.shape[1]}")
        found = [self._search_body(asked, k)]
        if self._added:
            self._added, self._added_ids = [np.concatenate(self._added)], [np.concatenate(self._added_ids)]
            found.append(_nearest(asked, self._added[0], self._added_ids[0], k))
        scores = np.concatenate([score for score, _ in found], axis=1)
        ids = np.concatenate([number for _, number in found], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(ids, order, axis=1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index with what was added: the file appears whole or not at all."""
        target = Path(path)
        try:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            try:
                with os.fdopen(handle, "w+b") as out:
                    self._write(out)
                    out.flush()
                    os.fsync(out.fileno())
                os.replace(name, target)
            except BaseException:
                os.unlink(name)
                raise
            _sync_folder(target.parent)
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise MemoryStoreError(
                f"{target}: the index cannot be written ({reason}): free space there, or name another folder"
            ) from problem

    @property
    def _built(self) -> int:
        return len(self._ids) if self._ids is not None else int(self._body.ntotal)

    def _search_body(self, asked: Vectors, k: int) -> tuple[Vectors, Ids]:
        if self._ids is not None:
            return _nearest(asked, self._body, self._ids, k)
        scores, ids = self._body.search(asked, k)
        return np.where(ids == _NOBODY, np.float32(-1), scores), ids

    def _take_in(self) -> None:
        """Makes what was added a part of the body."""
        if self._ids is not None:
            self._body = np.concatenate([self._body, *self._added])
            self._ids = np.concatenate([self._ids, *self._added_ids])
        else:
            _unmap(self._body)
            for rows, numbers in zip(self._added, self._added_ids, strict=True):
                self._body.add_with_ids(rows, numbers)
        self._added, self._added_ids = [], []

    def _write(self, out: BinaryIO) -> None:
        self._take_in()
        if self._ids is not None:
            out.write(np.ascontiguousarray(self._ids, dtype="<i8").data)
            out.write(np.ascontiguousarray(self._body, dtype="<f4").data)
        else:
            faiss = _faiss()
            faiss.write_index(self._body, faiss.PyCallbackIOWriter(out.write))
        size = out.tell()
        kind = "exact" if self.exact else "cells"
        header = _Header(_FORM, self.embedder, self.dimensions, len(self), kind, _checksum(out, size))
        said = json.dumps(asdict(header)).encode()
        out.seek(size)
        out.write(said + _TRAILER.pack(_MAGIC, len(said), zlib.crc32(said)))


def build(vectors: Vectors, ids: Ids, embedder: str, *, exact_below: int = EXACT_BELOW) -> Index:
    """An index over vectors (n, d) of length 1 with their ids (n,), which says that `embedder` made them.

    It is exact with fewer than `exact_below` vectors.
    """
    rows, numbers = _checked(vectors, ids, None)
    count, dimensions = rows.shape
    if count < exact_below:
        return Index(embedder, dimensions, rows, numbers, exact_below)
    faiss = _faiss()
    cells = 1 << int(np.log2(4 * count**0.5))
    body = faiss.index_factory(dimensions, f"IVF{cells},{_CODES}", faiss.METRIC_INNER_PRODUCT)
    body.cp.niter = _ROUNDS
    body.cp.seed = 1
    drawn = np.random.default_rng(1).permutation(count)[: cells * _SAMPLES_PER_CELL]
    body.train(np.ascontiguousarray(rows[np.sort(drawn)]))
    for start in range(0, count, _CHUNK):
        body.add_with_ids(rows[start : start + _CHUNK], numbers[start : start + _CHUNK])
    body.nprobe = _PROBES
    return Index(embedder, dimensions, body, None)


def load(path: str | os.PathLike[str], embedder: str) -> Index:
    """The index in a file, memory-mapped.

    Raises MemoryStoreError when the file is missing, torn, of another version of the format or made by another
    embedder; the vectors themselves are in the store, so it can be built again.
    """
    place = os.fspath(path)
    try:
        with open(place, "rb") as file:
            header = _header(file, place)
        if header.embedder != embedder:
            raise MemoryStoreError(f"{place}: made by {header.embedder}, not by {embedder}: it must be built again")
        if header.kind == "exact":
            count, dimensions = header.count, header.dimensions
            ids = np.memmap(place, "<i8", "r", 0, (count,)) if count else np.empty(0, np.int64)
            rows = np.memmap(place, "<f4", "r", 8 * count, (count, dimensions)) if count else np.empty((0, dimensions))
            return Index(embedder, dimensions, rows, np.asarray(ids))
        faiss = _faiss()
        body = faiss.read_index(place, faiss.IO_FLAG_MMAP if os.name == "posix" else 0)
    except OSError as problem:
        raise MemoryStoreError(f"{place}: the index cannot be read ({problem.strerror})") from problem
    except RuntimeError as problem:
        raise MemoryStoreError(f"{place}: the index is damaged and must be built again") from problem
    if (body.ntotal, body.d) != (header.count, header.dimensions):
        raise MemoryStoreError(f"{place}: the index is damaged and must be built again")
    body.nprobe = _PROBES
    return Index(embedder, header.dimensions, body, None)


def _unmap(body: Any) -> None:
    """Reads the cells of FAISS's index into memory: mapped ones cannot grow, and would be written as a reference."""
    faiss = _faiss()
    mapped = body.invlists
    cells = faiss.ArrayInvertedLists(body.nlist, body.code_size)
    for cell in range(body.nlist):
        if many := mapped.list_size(cell):
            cells.add_entries(cell, many, mapped.get_ids(cell), mapped.get_codes(cell))
    body.replace_invlists(cells, True)
    cells.this.disown()


def _header(file: BinaryIO, place: str) -> _Header:
    """What the file says it is, checked against its bytes."""
    damaged = MemoryStoreError(f"{place}: the index is damaged and must be built again")
    size = file.seek(0, os.SEEK_END)
    if size < _TRAILER.size:
        raise damaged
    file.seek(size - _TRAILER.size)
    magic, length, check_sum = _TRAILER.unpack(file.read(_TRAILER.size))
    body = size - _TRAILER.size - length
    if magic != _MAGIC or body < 0:
        raise damaged
    file.seek(body)
    said = file.read(length)
    if zlib.crc32(said) != check_sum:
        raise damaged
    document = json.loads(said)
    if document.get("form") != _FORM:
        raise MemoryStoreError(f"{place}: written by another version of logdiag: it must be built again")
    header = _Header(**document)
    if header.kind == "exact" and body != header.count * (8 + 4 * header.dimensions):
        raise damaged
    if _checksum(file, body) != header.checksum:
        raise damaged
    return header


def _checksum(file: BinaryIO, size: int) -> int:
    """The CRC-32 of the first `size` bytes; of a large file, of its first half of `_CHECKED_WHOLE` and of pieces."""
    file.seek(0)
    if size <= _CHECKED_WHOLE:
        return _crc(file, size, 0)
    head = _CHECKED_WHOLE // 2
    value = _crc(file, head, zlib.crc32(str(size).encode()))
    for place in np.linspace(head, size - _PIECE, _PIECES).astype(int):
        file.seek(int(place))
        value = _crc(file, _PIECE, value)
    return value


def _crc(file: BinaryIO, size: int, value: int) -> int:
    while size > 0 and (piece := file.read(min(size, 1 << 20))):
        value = zlib.crc32(piece, value)
        size -= len(piece)
    return value


def _nearest(asked: Vectors, rows: Vectors, ids: Ids, k: int) -> tuple[Vectors, Ids]:
    """The exact nearest, best first, filled up with -1 to `k`."""
    many = min(k, len(rows))
    scores = np.full((len(asked), k), -1, np.float32)
    found = np.full((len(asked), k), _NOBODY, np.int64)
    if not many:
        return scores, found
    if len(rows) >= _WITHOUT_FAISS_BELOW:
        faiss = _faiss()
        scores[:, :many], places = faiss.knn(asked, rows, many, metric=faiss.METRIC_INNER_PRODUCT)
    else:
        products = asked @ rows.T
        places = np.argpartition(-products, many - 1, axis=1)[:, :many]
        order = np.argsort(-np.take_along_axis(products, places, axis=1), axis=1, kind="stable")
        places = np.take_along_axis(places, order, axis=1)
        scores[:, :many] = np.take_along_axis(products, places, axis=1)
    found[:, :many] = ids[places]
    return scores, found


def _checked(vectors: Vectors, ids: Ids, dimensions: int | None) -> tuple[Vectors, Ids]:
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    numbers = np.ascontiguousarray(ids, dtype=np.int64)
    if rows.ndim != 2 or numbers.shape != (len(rows),) or (dimensions is not None and rows.shape[1] != dimensions):
        raise MemoryStoreError(
            f"An index of {dimensions or 'd'} dimensions takes vectors (n, {dimensions or 'd'}) and ids (n,),"
            f" not {rows.shape} and {numbers.shape}"
        )
    return rows, numbers


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _faiss() -> Any:
    """FAISS, which has no types."""
    try:
        import faiss
    except ImportError as problem:
        raise MemoryStoreError("An index of this size needs FAISS: pip install 'logdiag[memory]'") from problem
    return faiss
