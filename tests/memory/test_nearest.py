"""Similarity search in a large store: what FAISS's file beside it finds, and what happens when that is spoiled."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from logdiag.memory.database import SqliteFile
from logdiag.memory.nearest import Nearest
from logdiag.memory.store import Store
from tests.memory_helpers import incident, letters, letters_store, text_of

pytest.importorskip("faiss")
BESIDE = 400
MANY = 900


def nearest_of(store: Store) -> Nearest:
    """The search over a store, which holds at most so many vectors beside the file."""
    file = file_of(store)
    file.most_beside = BESIDE
    return Nearest(file, letters())


def file_of(store: Store) -> SqliteFile:
    """The database of a store in a folder."""
    file = store._database
    assert isinstance(file, SqliteFile)
    return file


def found(store: Store, text: str, k: int = 1) -> list[tuple[float, str]]:
    """The cosines and signatures of the nearest, by a search that is opened anew."""
    nearest = nearest_of(store)
    assert nearest.catch_up(math.inf)
    return [(round(score, 2), item.signature) for score, item in nearest.incidents(letters().embed([text])[0], k)]


def index_files(store: Store) -> list[Path]:
    """The indexes in a store's folder."""
    return sorted(Path(store.place).glob("index-*.faiss"))


@pytest.fixture
def large(tmp_path: Path) -> Store:
    """A store with an index file, all of its incidents in it."""
    store = letters_store(tmp_path / "memory")
    store.add_all([incident(text_of(number)) for number in range(MANY)])
    assert found(store, text_of(5)) == [(1.0, text_of(5))]
    assert len(index_files(store)) == 1
    return store


def test_a_small_store_has_no_index(tmp_path: Path) -> None:
    """It is searched exactly, and nothing lies beside its database."""
    store = letters_store(tmp_path)
    store.add_all([incident(text_of(number)) for number in range(BESIDE)])
    assert found(store, text_of(5)) == [(1.0, text_of(5))]
    assert index_files(store) == []


def test_a_large_store_misses_few(large: Store, tmp_path: Path) -> None:
    """Of the five nearest the file finds at least 95 of 100 that an exact search finds."""
    by_file = nearest_of(large)
    by_file.catch_up(math.inf)
    file_of(large).most_beside = 10 * MANY
    exact = Nearest(file_of(large), letters())
    exact._index, exact._last = None, 0
    exact.catch_up(math.inf)
    queries = letters().embed([f"{text_of(number)} widget" for number in range(0, MANY, 30)])
    shares = [
        len({row for _, row in by_file.search(query, 5)} & {row for _, row in exact.search(query, 5)})
        for query in queries
    ]
    assert sum(shares) / (5 * len(shares)) >= 0.95


def test_as_many_are_found_as_were_asked_for(large: Store) -> None:
    """Also when the cells nearest to the query hold fewer."""
    assert len(found(large, text_of(5), MANY)) == MANY


def test_who_has_little_time_makes_no_index(tmp_path: Path) -> None:
    """A diagnosis searches what is there, and leaves making a file to `logdiag incidents search`."""
    store = letters_store(tmp_path)
    store.add_all([incident(text_of(number)) for number in range(MANY)])
    assert nearest_of(store).catch_up(60)
    assert index_files(store) == []


@pytest.mark.parametrize("harm", ["missing", "torn", "empty", "no index", "other dimensions"])
def test_a_broken_index_is_made_anew(large: Store, harm: str) -> None:
    """Nobody notices but by the time it takes."""
    import faiss

    (file,) = index_files(large)
    content = file.read_bytes()
    if harm == "missing":
        file.unlink()
    elif harm == "other dimensions":
        faiss.write_index(faiss.index_factory(7, "Flat"), str(file))
    else:
        file.write_bytes({"torn": content[: len(content) // 2], "empty": b"", "no index": b"x" * 9000}[harm])
    for number in (5, 700, MANY - 1):
        assert found(large, text_of(number)) == [(1.0, text_of(number))]
    assert len(found(large, text_of(5), 50)) == 50
    index: Any = faiss.read_index(str(file))
    assert index.ntotal == MANY


def test_what_is_added_is_found_and_taken_in(large: Store) -> None:
    """At once beside the file; a new file takes it in when it is much, and holds what the old one held."""
    (first,) = index_files(large)
    large.add(incident("the widget jammed"))
    assert found(large, "the widget jammed") == [(1.0, "the widget jammed")]
    assert index_files(large) == [first]
    large.add_all([incident(f"{text_of(number)} gear") for number in range(BESIDE)])
    found(large, "x")
    (second,) = set(index_files(large)) - {first}
    first.unlink()
    for text in ("the widget jammed", text_of(5), f"{text_of(399)} gear"):
        assert found(large, text) == [(1.0, text)]
    assert second.stat().st_size > 0


def test_two_processes_that_take_in_the_same_find_it_once(large: Store) -> None:
    """Who makes a file goes on from the one it opened, not from what another put in force meanwhile."""
    one, other = nearest_of(large), nearest_of(large)
    large.add_all([incident(f"{text_of(number)} gear") for number in range(BESIDE + 1)])
    assert one.catch_up(math.inf)
    assert other.catch_up(math.inf)
    rows = [row for _, row in other.search(letters().embed([text_of(1)])[0], 100)]
    assert len(rows) == len(set(rows)) == 100


def test_cells_are_laid_out_anew_when_there_are_too_few(large: Store) -> None:
    """A store that grew manifold is not searched in the few cells of its youth."""
    import faiss

    first: Any = faiss.read_index(str(index_files(large)[0]))
    large.add_all([incident(f"{text_of(number)} gear") for number in range(16 * MANY)])
    found(large, "x")
    newest = max(index_files(large), key=lambda path: path.stat().st_mtime_ns)
    index: Any = faiss.read_index(str(newest))
    assert (index.nlist, index.ntotal) == (4 * first.nlist, 17 * MANY)


def test_nobody_else_may_read_the_index(large: Store) -> None:
    """As the database."""
    assert oct(index_files(large)[0].stat().st_mode & 0o777) == "0o600"


def test_an_index_that_is_no_longer_in_force_is_removed(large: Store) -> None:
    """Once nobody can be about to open it, those of earlier versions too; one that another process may be making
    stays."""
    old, older, young = (
        Path(large.place, name) for name in ("index-aa.faiss", "index-aa.ldix", "logdiag-unfinished-bb")
    )
    for path in (old, older, young):
        path.write_bytes(b"x")
    for path in (old, older):
        os.utime(path, (0, 0))
    large.add_all([incident(f"{text_of(number)} gear") for number in range(BESIDE + 1)])
    found(large, "x")
    assert not old.exists()
    assert not older.exists()
    assert young.exists()
    assert len(index_files(large)) == 2


def test_an_index_of_a_store_that_is_gone_is_left_aside(large: Store) -> None:
    """A new database in the same folder has other incidents in the same rows."""
    large.close()
    Path(large.place, "incidents.db").unlink()
    large.add_all([incident(f"{text_of(number)} gear") for number in range(MANY)])
    assert found(large, f"{text_of(3)} gear") == [(1.0, f"{text_of(3)} gear")]
    assert len(index_files(large)) == 2


def test_forgotten_incidents_do_not_crowd_the_search(large: Store) -> None:
    """As many are found as were asked for, although the index still holds what is gone."""
    for item in large.list(limit=100):
        large.forget(item.id)
    assert len(large.nearest(text_of(MANY - 50), 60)) == 60


def test_adding_stays_cheap_with_an_index(large: Store) -> None:
    """An incident is one row: the index is not touched."""
    before = index_files(large)[0].stat()
    large.add(incident("widget"))
    assert index_files(large)[0].stat() == before
