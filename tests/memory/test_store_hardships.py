"""The incident store whoever else uses it and whatever breaks: many at once, kills, full disks, foreign files."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from logdiag.errors import MemoryStoreError
from logdiag.memory.store import Store
from tests.helpers import environment
from tests.memory_helpers import incident, letters_store, python, text_of, without_root_powers

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="uses what only Linux has")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store without the shipped incidents."""
    return letters_store(tmp_path / "memory")


ADDER = """
import math, sys
from logdiag.memory.nearest import Nearest
from tests.memory_helpers import incident, letters, letters_store, text_of
store = letters_store(sys.argv[1])
store._database.most_beside = 50
nearest = Nearest(store._database, letters())
base, count = int(sys.argv[2]), int(sys.argv[3])
for number in range(base, base + count):
    added = store.add(incident(text_of(number), node=f"n{base}"))
    store.correct(added.id, by="tester")
    print(added.id, flush=True)
    if number % 4 == 0:
        assert nearest.catch_up(math.inf)
        assert nearest.search(letters().embed([text_of(number)])[0], 3)[0][0] > 0.99
"""


def test_ten_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    """They start on a store that does not exist yet, and make indexes while others add."""
    processes = [python(ADDER, tmp_path / "memory", str(base * 1000), "20") for base in range(10)]
    printed = []
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        printed += out.split()
    assert len(set(printed)) == 200
    store = letters_store(tmp_path / "memory")
    found = store.list()
    assert {item.id for item in found} == set(printed)
    assert all(item.confirmed_by == "tester" for item in found)
    assert len(store.nearest(text_of(1), 300)) == 200
    assert len(list(Path(store.place).glob("index-*.faiss"))) >= 1


KILLED = """
import math, sys
from logdiag.memory.nearest import Nearest
from tests.memory_helpers import incident, letters, letters_store, text_of
store = letters_store(sys.argv[1])
store._database.most_beside = 50
nearest = Nearest(store._database, letters())
base = int(sys.argv[2])
for number in range(base, base + 200):
    added = store.add(incident(text_of(number)))
    store.correct(added.id, by="tester")
    print(added.id, flush=True)
    nearest.catch_up(math.inf)
"""


@pytest.mark.slow
def test_killing_at_random_loses_no_confirmed_incident(tmp_path: Path) -> None:
    """200 adds, each followed by a search that folds into the index now and then, killed at random points: everything
    that was confirmed is there, and is found."""
    place, confirmed, random_ = tmp_path / "memory", set[str](), random.Random(7)
    for _ in range(12):
        if len(confirmed) >= 200:
            break
        process = python(KILLED, place, str(len(confirmed)))
        assert process.stdout is not None
        for _ in range(random_.randint(1, 40)):
            confirmed.add(process.stdout.readline().strip())
        time.sleep(random_.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        rest, err = process.communicate(timeout=60)
        assert not err, err
        # The last line may be torn.
        confirmed.update(line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n"))
        store = letters_store(place)
        found = {item.id: item for item in store.list()}
        assert confirmed <= set(found)
        assert all(found[identity].confirmed_by == "tester" for identity in confirmed)
        for item in random_.sample(sorted(found), 3):
            score, nearest = store.nearest(found[item].signature, 1)[0]
            assert (nearest.signature, round(score, 2)) == (found[item].signature, 1.0)
        store.close()
    assert len(confirmed) >= 100


def test_a_store_of_a_newer_version_is_refused(store: Store) -> None:
    """With the file and the remedy."""
    store.add(incident("widget"))
    store.close()
    with sqlite3.connect(Path(store.place, "incidents.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(MemoryStoreError, match=r"incidents\.db: written by a newer logdiag \(version 99.*upgrade"):
        store.list()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"this is no database, " * 100, "no incident store, or it is damaged: move it away"),
        ("cut", "damaged: move it away"),
        ("other", "a database of another program; name another place"),
    ],
)
def test_a_database_that_is_none_of_ours_is_refused(store: Store, content: bytes | str, said: str) -> None:
    """Damaged, or another program's: nothing in it is changed."""
    file = Path(store.place, "incidents.db")
    store.add_all([incident(text_of(number)) for number in range(300)])
    store.close()
    if content == "cut":
        file.write_bytes(file.read_bytes()[:20000])
    elif content == "other":
        file.unlink()
        other = sqlite3.connect(file)
        other.execute("CREATE TABLE recipes (name)")
        other.close()
    else:
        assert isinstance(content, bytes)
        file.write_bytes(content)
    before = file.read_bytes()
    with pytest.raises(MemoryStoreError, match=said) as caught:
        store.list()
    assert str(file) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(MemoryStoreError):
        store.add(incident("widget"))
    assert file.read_bytes() == before


def test_a_place_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """With what to give instead."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(MemoryStoreError, match="not a folder; give the folder of an incident store"):
        letters_store(tmp_path / "file").add(incident("widget"))


READ_ONLY = """
import sys
from logdiag.errors import MemoryStoreError
from tests.memory_helpers import incident, letters_store, text_of
store = letters_store(sys.argv[1])
print(store.count(), store.nearest(text_of(5), 1)[0][1].signature == text_of(5))
try:
    store.add(incident("widget"))
except MemoryStoreError as error:
    print(error)
"""


@LINUX
def test_a_store_that_may_not_be_written_is_searched(store: Store) -> None:
    """What has no vector yet included; adding is refused with one sentence."""
    store.add_all([incident(text_of(number)) for number in range(100)])
    store.nearest(text_of(5), 1)
    store.add(incident("widget"))
    store.close()
    folder = Path(store.place)
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder)],
            env=environment(),
            capture_output=True,
            text=True,
            preexec_fn=without_root_powers,
            check=True,
            timeout=60,
        )
    finally:
        folder.chmod(0o755)
    count, found, said = done.stdout.split(None, 2)
    assert (int(count), found) == (101, "True")
    assert "incidents.db: it may not be written: change its permissions" in said
    assert len(said.splitlines()) == 1


FULL = """
import sys
from logdiag.errors import MemoryStoreError
from tests.memory_helpers import incident, letters_store, text_of
store = letters_store(sys.argv[1])
done = 0
try:
    for done in range(100000):
        store.add(incident(text_of(done), cause="x" * 5000))
except MemoryStoreError as error:
    print(error)
print(done, store.count(), store.nearest(text_of(3), 1)[0][1].signature == text_of(3))
"""


@LINUX
def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    """Everything that was added before is there, and can be searched."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system of a fixed size can be made here")
    try:
        out, err = python(FULL, tmp_path / "memory").communicate(timeout=120)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    said, numbers = out.splitlines()
    assert "incidents.db: the disk is full: free space there" in said, err
    added, count, found = numbers.split()
    assert int(added) > 50
    assert (int(count), found) == (int(added), "True")
