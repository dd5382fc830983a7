"""Incidents in a SQLite file, with an index for similarity search beside it.

    PLACE/incidents.db        the incidents and their vectors: all there is to know
    PLACE/index-*.faiss       made from it where it is large, and made anew when missing or torn

What was committed is on the disk. The file keeps a rollback journal, which works on network file systems too. Nothing
is written before the first incident is added.
"""

from __future__ import annotations

import os
import sqlite3
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import Column, Connection, Integer, LargeBinary, Table, Text, create_engine, inspect
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import StaticPool

from logdiag.errors import MemoryStoreError
from logdiag.memory.database import Database, incidents_table
from logdiag.memory.incident import Incident

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder
    from logdiag.memory.nearest import Nearest

__all__ = ["EMBEDDERS", "FILE", "INCIDENTS", "VECTORS", "SqliteFile"]

FILE = "incidents.db"
_APPLICATION = 0x6C6F6769
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


class SqliteFile(Database):
    """The incidents of one folder, which is made where it is not there."""

    beside = (VECTORS,)
    meanings = (
        ("disk is full", "the disk is full: free space there, or name another place with --memory"),
        ("readonly", "it may not be written: change its permissions, or name another place with --memory"),
        ("unable to open", "it cannot be opened: check the permissions of its folder, or name another place"),
        ("locked", f"other processes kept it locked for {_PATIENCE_SECONDS:.0f} seconds: try again"),
        ("not a database", "this is no incident store, or it is damaged: move it away, then import what was exported"),
        ("malformed", "it is damaged: move it away, then import what was exported"),
        ("disk I/O", "the disk reports errors: check it, or name another place with --memory"),
    )

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._nearest: Nearest | None = None
        # The one connection keeps what was made ready for it.
        engine = create_engine("sqlite://", creator=self._connected, poolclass=StaticPool)
        super().__init__(os.path.join(folder, FILE), INCIDENTS, engine)

    def nearest(
        self, query: array[float], k: int, embedder: Embedder, patience: float
    ) -> tuple[list[tuple[float, Incident]], bool]:
        """As `Database.nearest`: exact in a small store."""
        from logdiag.memory.nearest import Nearest

        if self._nearest is None or self._nearest.embedder.name != embedder.name:
            self._nearest = Nearest(self, embedder)
        searched_all = self._nearest.catch_up(patience)
        asked = k + _FORGOTTEN
        while True:
            scored = self._nearest.search(query, asked)
            with self.rows() as rows:
                incidents = rows.by_rows([row for _, row in scored])
            found = [(score, incidents[row]) for score, row in scored if row in incidents]
            if len(found) >= k or len(scored) < asked:
                return found[:k], searched_all
            asked *= 4

    def close(self) -> None:
        """As `Database.close`."""
        self._nearest = None
        super().close()

    def _connected(self) -> sqlite3.Connection:
        """A connection to the file, which is made where there is none."""
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            # Commands and names of jobs are nobody else's: SQLite gives the files beside it the same permissions.
            with suppress(FileExistsError):
                os.close(os.open(self.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise MemoryStoreError(
                f"{self.folder}: cannot be made ({error.strerror}); name another place with --memory"
            ) from error
        connection = _connection(self.name, "mode=rw")
        try:
            connection.execute("PRAGMA user_version")
        except sqlite3.OperationalError:
            # Stores were in WAL mode once. Where nothing may be written, SQLite opens such a file only as one that
            # does not change.
            connection.close()
            if os.access(self.folder, os.W_OK) or os.path.exists(f"{self.name}-wal"):
                raise
            connection = _connection(self.name, "immutable=1")
        connection.execute("PRAGMA secure_delete = ON")
        # A text that is not UTF-8 spoils its own row only.
        connection.text_factory = lambda text: text.decode(errors="replace")
        return connection

    def _prepare(self, connection: Connection) -> int:
        if _number(connection, "application_id") == _APPLICATION:
            # That waits for nobody: while others have the file open, it stays as it is.
            with suppress(OperationalError):
                connection.exec_driver_sql("PRAGMA journal_mode = DELETE")
            return _number(connection, "user_version")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        # Several processes may make the tables at once: who comes second finds them.
        if not inspect(connection).get_table_names():
            INCIDENTS.metadata.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION}")
            connection.exec_driver_sql(f"PRAGMA user_version = {self.version}")
        if _number(connection, "application_id") != _APPLICATION:
            raise MemoryStoreError(f"{self.name}: a database of another program; name another place with --memory")
        return _number(connection, "user_version")

    def _begin(self, connection: Connection, *, write: bool) -> None:
        if write:
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def _connection(file: str, mode: str) -> sqlite3.Connection:
    path = os.path.abspath(file)
    for sign in "%?#":
        path = path.replace(sign, f"%{ord(sign):02x}")
    return sqlite3.connect(
        f"file:{path}?{mode}", uri=True, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
    )


def _number(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
