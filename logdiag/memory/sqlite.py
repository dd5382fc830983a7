"""Incidents in a SQLite file, with an index for similarity search beside it.

    PLACE/incidents.db        the incidents and their vectors: all there is to know
    PLACE/index-*.faiss       made from it where it is large, and made anew when missing or torn

The database is in WAL mode: readers never wait, writers queue up, and what was committed is on the disk. Nothing is
written before the first incident is added.
"""

from __future__ import annotations

import os
import sqlite3
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sqlalchemy import Column, Connection, Engine, Integer, LargeBinary, Table, Text, create_engine, delete
from sqlalchemy.dialects.sqlite import dialect, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Incident
from logdiag.memory.rows import Rows, check_version, incidents_table, statements

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder
    from logdiag.memory.nearest import Nearest

__all__ = ["EMBEDDERS", "FILE", "INCIDENTS", "VECTORS", "SqliteRows"]

FILE = "incidents.db"
_APPLICATION = 0x6C6F6769
_VERSION = 1
_PATIENCE_SECONDS = 30.0
# Beside those that are asked for, as many may have been forgotten since the index was made.
_FORGOTTEN = 16

INCIDENTS = incidents_table("incidents")
EMBEDDERS = Table(
    "embedders",
    INCIDENTS.metadata,
    Column("number", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    # The index in force, and the last row in it.
    Column("index_file", Text, nullable=False, server_default=""),
    Column("indexed_to", Integer, nullable=False, server_default="0"),
)
VECTORS = Table(
    "vectors",
    INCIDENTS.metadata,
    Column("embedder", Integer, primary_key=True),
    Column("row", Integer, primary_key=True),
    Column("vector", LargeBinary, nullable=False),
)
# What SQLite says, and what that means for people.
_SAYINGS = (
    ("disk is full", "the disk is full: free space there, or name another place with --memory"),
    ("readonly", "it may not be written: change its permissions, or name another place with --memory"),
    ("unable to open", "it cannot be opened: check the permissions of its folder, or name another place with --memory"),
    ("locked", f"other processes kept it locked for {_PATIENCE_SECONDS:.0f} seconds: try again"),
    ("not a database", "this is no incident store, or it is damaged: move it away, then import what was exported"),
    ("malformed", "it is damaged: move it away, then import what was exported"),
    ("disk I/O", "the disk reports errors: check it, or name another place with --memory"),
)


class SqliteRows(Rows):
    """The incidents of one folder, which is made where it is not there."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, INCIDENTS, insert)
        self._file = os.path.join(folder, FILE)
        self._engine: Engine | None = None
        # What the file looked like when it was opened as if nobody could change it; None otherwise.
        self._unchanged: object = None
        self._nearest: Nearest | None = None

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        """As `Rows.transaction`."""
        if self._unchanged and self._unchanged != _look(self._file):
            self.close()
        if self._engine is None:
            # The one connection keeps what was made ready for it.
            self._engine = create_engine("sqlite://", creator=self._connected, poolclass=StaticPool)
        try:
            with self._engine.begin() as connection:
                if write:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
        except (DBAPIError, sqlite3.Error) as error:
            said = str(error.orig if isinstance(error, DBAPIError) else error)
            meaning = next((meaning for part, meaning in _SAYINGS if part in said), f"{said}; run it again")
            raise MemoryStoreError(f"{self._file}: {meaning}") from error

    def nearest(
        self, query: array[float], k: int, embedder: Embedder, patience: float
    ) -> tuple[list[tuple[float, Incident]], bool]:
        """As `Rows.nearest`: exact in a small store."""
        from logdiag.memory.nearest import Nearest

        if self._nearest is None or self._nearest.embedder.name != embedder.name:
            self._nearest = Nearest(self, embedder)
        searched_all = self._nearest.catch_up(patience)
        asked = k + _FORGOTTEN
        while True:
            scored = self._nearest.search(query, asked)
            incidents = self.by_rows([row for _, row in scored])
            found = [(score, incidents[row]) for score, row in scored if row in incidents]
            if len(found) >= k or len(scored) < asked:
                return found[:k], searched_all
            asked *= 4

    def close(self) -> None:
        """As `Rows.close`."""
        self._nearest = self._unchanged = None
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _remove(self, connection: Connection, row: int | None) -> None:
        connection.execute(delete(VECTORS).where(VECTORS.c.row == row))
        super()._remove(connection, row)

    def _connected(self) -> sqlite3.Connection:
        """A connection to a store of this version, which is made where there is none."""
        self._make_file()
        look = _look(self._file)
        connection, frozen = _opened(self._file)
        self._unchanged = look if frozen else None
        return connection

    def _make_file(self) -> None:
        try:
            os.makedirs(self.name, mode=0o700, exist_ok=True)
            # Commands and names of jobs are nobody else's: SQLite gives the files beside it the same permissions.
            with suppress(FileExistsError):
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except (FileExistsError, NotADirectoryError) as error:
            raise MemoryStoreError(f"{self.name}: not a folder; give the folder of an incident store") from error
        except OSError as error:
            raise MemoryStoreError(
                f"{self.name}: cannot be made ({error.strerror}); name another place with --memory"
            ) from error


def _opened(file: str) -> tuple[sqlite3.Connection, bool]:
    """A connection to a store of this version, and whether it takes the file for one that nobody changes."""
    frozen = False
    connection = _connection(f"{_uri(file)}?mode=rw")
    try:
        try:
            version, application = _version(connection)
        except sqlite3.OperationalError:
            # WAL needs a second file, which a read-only folder does not take; without changes under way, none is due.
            waiting = f"{file}-wal"
            if os.access(os.path.dirname(file), os.W_OK) or (os.path.exists(waiting) and os.path.getsize(waiting)):
                raise
            connection.close()
            connection, frozen = _connection(f"{_uri(file)}?immutable=1"), True
            version, application = _version(connection)
        if application == _APPLICATION:
            check_version(file, version, _VERSION)
        if application != _APPLICATION and (version or _holds_tables(connection)):
            raise MemoryStoreError(f"{file}: a database of another program; name another place with --memory")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        if version < _VERSION:
            _make(connection)
    except BaseException:
        connection.close()
        raise
    return connection, frozen


def _look(file: str) -> object:
    """What changes when someone writes to the file."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size, os.path.exists(f"{file}-wal")


def _connection(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
    )
    # A text that is not UTF-8 spoils its own row only.
    connection.text_factory = lambda text: text.decode(errors="replace")
    return connection


def _uri(file: str) -> str:
    path = os.path.abspath(file)
    for sign in "%?#":
        path = path.replace(sign, f"%{ord(sign):02x}")
    return f"file:{path}"


def _version(connection: sqlite3.Connection) -> tuple[int, int]:
    return (
        connection.execute("PRAGMA user_version").fetchone()[0],
        connection.execute("PRAGMA application_id").fetchone()[0],
    )


def _holds_tables(connection: sqlite3.Connection) -> bool:
    """Whether there is something in it that `_make` has not put there."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return bool(names - {"incidents", "embedders", "vectors", "sqlite_sequence"})


def _make(connection: sqlite3.Connection) -> None:
    """Makes the tables. Several processes may do so at once: changing to WAL needs the file for oneself, and SQLite
    does not wait for that."""
    made = [
        "BEGIN IMMEDIATE",
        *statements((INCIDENTS, EMBEDDERS, VECTORS), dialect()),
        f"PRAGMA application_id = {_APPLICATION}",
        f"PRAGMA user_version = {_VERSION}",
        "COMMIT",
    ]
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            for statement in made:
                connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
