"""The index of vectors: what it finds, and what it does with a file that is not its own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from logdiag.errors import MemoryStoreError
from logdiag.memory.index import Ids, Index, Vectors, build, load

DIMENSIONS = 48


def made(count: int, seed: int = 1) -> tuple[Vectors, Ids]:
    """Vectors around some centres, and ids that are no row numbers."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((100, DIMENSIONS))
    rows = centres[random.integers(100, size=count)] + 0.4 * random.standard_normal((count, DIMENSIONS))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), np.arange(count, dtype=np.int64) * 7 + 100


def truth(queries: Vectors, rows: Vectors, ids: Ids, k: int) -> tuple[Vectors, Ids]:
    """The nearest, by sorting all."""
    cosines = queries @ rows.T
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(cosines, order, axis=1), ids[order]


def built(rows: Vectors, ids: Ids) -> Index:
    """An index that consists of cells from some thousand vectors on, as a large one does."""
    pytest.importorskip("faiss")
    return build(rows, ids, "model", exact_below=4000)


@pytest.mark.parametrize("count", [1, 4, 300, 12_000])
def test_a_small_index_is_exact(count: int, tmp_path: Path) -> None:
    """Below 50,000 the nearest are found, all of them, also from the file, with FAISS and without."""
    rows, ids = made(count)
    queries, _ = made(20, seed=2)
    index = build(rows, ids, "model")
    index.save(tmp_path / "index")
    for one in (index, load(tmp_path / "index", "model")):
        scores, found = one.search(queries, 5)
        expected_scores, expected = truth(queries, rows, ids, 5)
        many = min(5, count)
        assert one.exact
        assert len(one) == count
        assert np.allclose(scores[:, :many], expected_scores, atol=1e-5)
        assert np.array_equal(found[:, :many], expected)
        assert (found[:, many:] == -1).all()


def test_a_large_index_misses_few(tmp_path: Path) -> None:
    """An index of cells finds at least 95 of 100 of the five nearest, also from the file."""
    rows, ids = made(8000)
    queries, _ = made(100, seed=2)
    expected = truth(queries, rows, ids, 5)[1]
    built(rows, ids).save(tmp_path / "index")
    index = load(tmp_path / "index", "model")
    found = index.search(queries, 5)[1]
    assert not index.exact
    assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found, expected, strict=True)]) >= 0.95


@pytest.mark.parametrize("count", [0, 500, 8000])
def test_what_is_added_is_found(count: int, tmp_path: Path) -> None:
    """A vector that was added is found at once, and after saving and loading, in a small index and in one of cells."""
    rows, ids = made(count)
    index = built(rows, ids)
    index.save(tmp_path / "index")
    index = load(tmp_path / "index", "model")
    new, _ = made(3, seed=3)
    index.add(new[:2], np.array([5, 6]))
    index.add(new[2:], np.array([7]))
    assert index.search(new, 1)[1].ravel().tolist() == [5, 6, 7]
    index.save(tmp_path / "other")
    (tmp_path / "index").unlink()
    for one in (index, load(tmp_path / "other", "model")):
        assert len(one) == count + 3
        assert one.search(new, 1)[1].ravel().tolist() == [5, 6, 7]


def test_a_mapped_index_is_saved_whole(tmp_path: Path) -> None:
    """Saving what was loaded makes a file of its own, which does not need the first one."""
    rows, ids = made(8000)
    built(rows, ids).save(tmp_path / "first")
    load(tmp_path / "first", "model").save(tmp_path / "second")
    assert (tmp_path / "first").stat().st_size == (tmp_path / "second").stat().st_size
    (tmp_path / "first").unlink()
    assert load(tmp_path / "second", "model").search(rows[:5], 1)[1].ravel().tolist() == ids[:5].tolist()


def test_an_index_says_when_it_is_outgrown() -> None:
    """An exact index that grew large, and one of cells that grew to four times its size, should be built anew."""
    rows, ids = made(3999)
    index = built(rows, ids)
    assert not index.outgrown
    index.add(rows[:1], np.array([1]))
    assert index.outgrown


@pytest.mark.parametrize("count", [200, 5000])
@pytest.mark.parametrize("kept", [0, 10, 0.3, 0.9, -1])
def test_a_torn_file_is_refused(count: int, kept: float, tmp_path: Path) -> None:
    """However much of a file is missing at its end, it is said to be damaged."""
    path = tmp_path / "index"
    built(*made(count)).save(path)
    size = path.stat().st_size
    os.truncate(path, int(kept * size) if isinstance(kept, float) else kept % size)
    with pytest.raises(MemoryStoreError, match="damaged and must be built again"):
        load(path, "model")


@pytest.mark.parametrize("count", [200, 5000])
def test_a_changed_byte_is_noticed(count: int, tmp_path: Path) -> None:
    """A byte that changed anywhere in the file makes it damaged."""
    path = tmp_path / "index"
    built(*made(count)).save(path)
    whole = path.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 25).astype(int).tolist():
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(MemoryStoreError, match="built again"):
            load(path, "model")


def test_the_check_of_a_large_file_looks_at_its_ends_and_between(
    tmp_path: Path,
) -> None:
    """A file that is too large to be read whole at each opening is still refused when its beginning or its end
    changed."""
    path = tmp_path / "index"
    rows, ids = made(40_000)
    wide = (np.tile(rows, 9) / 3).astype(np.float32)
    build(wide, ids, "model").save(path)
    assert len(load(path, "model")) == 40_000
    whole = path.read_bytes()
    assert len(whole) > 64 << 20
    for place in (3, len(whole) - 400):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(MemoryStoreError, match="built again"):
            load(path, "model")


def test_an_index_of_another_model_is_refused(tmp_path: Path) -> None:
    """Vectors of two models are not compared: the index names its own, and that it must be built again."""
    build(*made(10), "model@1").save(tmp_path / "index")
    with pytest.raises(MemoryStoreError, match="made by model@1, not by model@2: it must be built again"):
        load(tmp_path / "index", "model@2")


def test_a_missing_file(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(MemoryStoreError, match="index cannot be read"):
        load(tmp_path / "index", "model")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Where the index cannot be written, the file, the reason and the remedy are named."""
    with pytest.raises(MemoryStoreError, match=r"cannot be written .*: free space there, or name another folder"):
        build(*made(10), "model").save(tmp_path / "none" / "index")


def test_saving_leaves_nothing_beside(tmp_path: Path) -> None:
    """Saving again replaces the file, and leaves no other."""
    index = build(*made(10), "model")
    index.save(tmp_path / "index")
    index.save(tmp_path / "index")
    assert os.listdir(tmp_path) == ["index"]


def test_vectors_of_other_dimensions() -> None:
    """Vectors that do not fit are refused when they are added and when they are asked for."""
    index = build(*made(10), "model")
    with pytest.raises(MemoryStoreError, match="takes vectors"):
        index.add(np.zeros((1, 3), np.float32), np.array([1]))
    with pytest.raises(MemoryStoreError, match="48 dimensions, the query 3"):
        index.search(np.zeros((1, 3), np.float32), 1)
