"""The store in PostgreSQL, against a real server: the same as in SQLite, and many writers at once."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from logdiag.errors import MemoryStoreError
from logdiag.memory.documents import Merged
from logdiag.memory.incident import Helped
from logdiag.memory.store import Store, open_store
from logdiag.model import Reason
from tests.helpers import environment, run_logdiag
from tests.memory_helpers import incident, letters, python, text_of

NOBODY = 65534
pytestmark = [
    pytest.mark.skipif(find_spec("pgserver") is None, reason="pgserver has no wheel for this system"),
    pytest.mark.xdist_group("postgres"),
]


def programs(folder: Path) -> Path:
    """The programs of PostgreSQL that the package pgserver carries, where any user may run them."""
    spec = find_spec("pgserver")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    package = Path(spec.submodule_search_locations[0])
    # Its own functions make a user of the system; the programs alone do not. They look for libraries beside them.
    for part in (package / "pginstall", package.with_name("pgserver.libs")):
        if part.is_dir():
            shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
    return folder / "pgserver" / "pginstall" / "bin"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL, reached by a socket in a folder; root starts it as another user."""
    base = Path(tmp_path_factory.mktemp("pg"))
    # A socket's path must be short, and its user must reach it.
    socket = Path("/tmp", f"logdiag-pg-{os.getpid()}")
    socket.mkdir(mode=0o777)
    home = socket / "server"
    home.mkdir()
    user = NOBODY if os.geteuid() == 0 else None
    binaries = programs(socket / "programs")
    if user is not None:
        os.chown(home, user, user)
    more: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if user is not None else {}
    data = home / "data"
    try:
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True, capture_output=True, cwd=home, **more,
        )  # fmt: skip
        with open(base / "server.log", "wb") as log:
            process = subprocess.Popen(
                [binaries / "postgres", "-D", data, "-k", home, "-h", "", "-F", "-c", "max_connections=60"],
                stdout=log, stderr=log, cwd=home, **more,
            )  # fmt: skip
        try:
            address = f"postgresql://tester@/postgres?host={home}"
            wait_for(address, process)
            yield address
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(socket)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Returns when the server answers."""
    import time

    import psycopg

    for _ in range(600):
        assert process.poll() is None, "the server did not start"
        try:
            psycopg.connect(address).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


@pytest.fixture
def address(server: str, request: pytest.FixtureRequest) -> str:
    """A database of this test's own."""
    import psycopg

    name = f"t{abs(hash(request.node.name)):x}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    """An empty store without the shipped incidents."""
    with open_store(address, embedder=letters(), shipped=False) as opened:
        yield opened


def test_it_does_what_sqlite_does(store: Store, address: str, tmp_path: Path) -> None:
    """Add, get, list, confirm, correct, forget, count, stats, export and import."""
    a = store.add(incident("a 7 b", node="n1", seen_at="2026-11-01", window=("x",), job={"name": "j"}))
    b = store.add(incident("c 8 d", Reason.KEY_ERROR, seen_at="2026-11-03"))
    assert store.get(a.id) == a
    assert store.list() == (b, a)
    assert store.list(node="n1") == store.list(reason=Reason.ECC_ERROR) == (a,)
    assert store.list(since="2026-11-02", limit=1) == (b,)
    assert store.by_fingerprint(a.fingerprint) == (a,)
    confirmed = store.correct(a.id, by="mira", outcome=Helped.WORKED)
    assert confirmed == replace(a, confirmed_by="mira", outcome=Helped.WORKED, history=confirmed.history)
    assert [entry.by for entry in confirmed.history] == ["mira"]
    assert store.correct(b.id, by="mira", remedy="r").remedy == "r"
    stats = store.stats()
    assert (stats["incidents"], stats["confirmed"], stats["first_seen"]) == (2, 2, "2026-11-01T00:00:00Z")
    with pytest.raises(MemoryStoreError, match="is there already"):
        store.add(replace(a, remedy="other"))
    text = io.StringIO()
    assert store.export(text) == 2
    local = open_store(tmp_path, embedder=letters(), shipped=False)
    assert local.import_(text.getvalue().splitlines(), own=True) == Merged(added=2)
    assert local.list() == store.list()
    assert store.import_(text.getvalue().splitlines(), own=True) == Merged(kept=2)
    assert local.correct(a.id, by="ada", remedy="better").remedy == "better"
    back = io.StringIO()
    local.export(back)
    assert store.import_(back.getvalue().splitlines(), own=True) == Merged(replaced=1, kept=1)
    assert store.get(a.id).remedy == "better"
    store.forget(a.id)
    assert store.count() == 1
    for refused in (lambda: store.get(a.id), lambda: store.forget(a.id), lambda: store.correct(a.id, by="mira")):
        with pytest.raises(MemoryStoreError, match="no such incident"):
            refused()


def test_one_failure_is_one_incident_and_a_bad_row_spoils_only_itself(store: Store, address: str) -> None:
    """As in SQLite."""
    import psycopg

    first, _ = store.remember(incident("a b", content="abc"))
    again, seen = store.remember(incident("a b", content="abc"))
    assert (seen, again.id, again.times_seen, store.count()) == (True, first.id, 2, 1)
    good = store.add(incident("c d"))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE logdiag_incidents SET document = %s WHERE id = %s", ("[" * 100_000, first.id))
    assert store.list() == (good,)
    assert [item.id for _, item in store.nearest("a b")] == [good.id]
    assert store.unreadable == (first.id,)


def test_similar_incidents_are_found(store: Store, address: str, own_cache: Path) -> None:
    """By FAISS, from a file in the user's cache folder; what others add is found by the next search, and another model
    makes vectors of its own."""
    pytest.importorskip("faiss")
    store.add_all([incident(text_of(number)) for number in range(0, 120_000, 40)])
    score, found = store.nearest(text_of(4000), 3)[0]
    assert (found.signature, round(score, 2)) == (text_of(4000), 1.0)
    (index,) = own_cache.glob("memory-*/index-*.faiss")
    embedded: list[str] = []
    with open_store(address, embedder=letters(embedded=embedded), shipped=False) as again:
        assert again.nearest(text_of(8000), 1)[0][1].signature == text_of(8000)
    assert embedded == [text_of(8000)]
    with open_store(address, embedder=letters("small", 32), shipped=False) as other:
        added = other.add(incident("the widget jammed"))
        assert other.nearest("the widget jammed", 1)[0][1] == added
    assert added in [item for _, item in store.nearest("the widget jammed", 1)]
    assert index.exists()


ADDER = """
import sys
from logdiag.memory.store import open_store
from tests.memory_helpers import incident, letters, text_of
store = open_store(sys.argv[1], embedder=letters(), shipped=False)
base = int(sys.argv[2])
for number in range(base, base + 20):
    added = store.add(incident(text_of(number)))
    store.correct(added.id, by="tester")
    print(added.id, flush=True)
    if number % 10 == 0:
        store.nearest(text_of(number), 3)
"""


def test_ten_writers_at_once_lose_nothing(address: str) -> None:
    """They start on a database without tables, and search while they write."""
    processes = [python(ADDER, address, str(base * 1000)) for base in range(10)]
    printed = []
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        printed += out.split()
    assert len(set(printed)) == 200
    with open_store(address, embedder=letters(), shipped=False) as store:
        found = store.list()
        assert {item.id for item in found} == set(printed)
        assert all(item.confirmed_by == "tester" for item in found)
        assert len(store.nearest(text_of(1), 150)) == 150


def test_changes_of_one_incident_at_once_all_count(address: str) -> None:
    """One sets the remedy, the other the cause: neither overwrites the other's."""
    with open_store(address, shipped=False) as store:
        identity = store.add(incident("widget")).id
        code = (
            "import sys\nfrom logdiag.memory.store import open_store\nstore = open_store(sys.argv[1], shipped=False)\n"
            "for number in range(30):\n    store.correct(sys.argv[2], by='x', **{sys.argv[3]: f'{number}'})"
        )
        processes = [python(code, address, identity, name) for name in ("remedy", "cause")]
        for process in processes:
            _, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
        assert (store.get(identity).remedy, store.get(identity).cause) == ("29", "29")


def test_the_command_takes_an_address(address: str) -> None:
    """`--memory postgresql://...`."""
    added = run_logdiag("incidents", "add", "--signature", "a b", "--reason", "KeyError", "--memory", address)
    assert added.returncode == 0, added.stderr.decode()
    listed = run_logdiag("incidents", "list", "--memory", address)
    assert b"KeyError" in listed.stdout


def test_who_may_only_read_may_search(store: Store, address: str) -> None:
    """What has no vector yet included; adding is refused with one sentence."""
    import psycopg

    store.add(incident("the widget jammed"))
    store.nearest("x")
    store.add(incident("not yet embedded"))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(b"CREATE ROLE reader LOGIN")
        connection.execute(b"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    with open_store(address.replace("tester@", "reader@"), embedder=letters(), shipped=False) as reader:
        assert reader.count() == 2
        assert [item.signature for _, item in reader.nearest("not yet embedded", 1)] == ["not yet embedded"]
        with pytest.raises(MemoryStoreError, match=r"not allowed .*: ask the database's owner for the right"):
            reader.add(incident("widget"))


def test_a_newer_store_is_refused(store: Store, address: str) -> None:
    """With the remedy."""
    import psycopg

    store.count()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(b"UPDATE logdiag_store SET version = 99")
    with pytest.raises(MemoryStoreError, match=r"newer logdiag \(version 99.*upgrade logdiag"):
        open_store(address, shipped=False).count()


def test_a_connection_that_broke_is_made_anew(store: Store, address: str) -> None:
    """The call that met it fails with one sentence, the next works."""
    import psycopg

    store.add(incident("widget"))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'logdiag'")
    with pytest.raises(MemoryStoreError):
        store.count()
    assert store.count() == 1


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    """Without the password."""
    place = "postgresql://mira:secret@127.0.0.1:9/incidents?password=other&x=y"
    with pytest.raises(MemoryStoreError) as caught:
        open_store("postgresql://mira:secret@127.0.0.1:9/incidents", shipped=False).count()
    text = str(caught.value)
    assert text.startswith("postgresql://mira:...@127.0.0.1:9/incidents: cannot be reached (")
    assert "check the address, and that the server runs" in text
    assert "secret" not in text
    assert len(text.splitlines()) == 1
    assert "secret" not in open_store(place, shipped=False).place
    assert "other" not in open_store(place, shipped=False).place


def test_a_missing_driver_is_one_sentence() -> None:
    """With the line that installs it."""
    code = "import sys\nsys.modules['psycopg'] = None\nfrom logdiag.cli.main import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, "incidents", "list", "--memory", "postgresql://localhost/x"],
        capture_output=True,
        env=environment(),
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "logdiag: A store in PostgreSQL needs psycopg: pip install 'logdiag[team]'\n"
