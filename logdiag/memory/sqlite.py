"""Incidents in a SQLite file, with an index for similarity search beside it.

    PLACE/incidents.db        the incidents and their vectors
    PLACE/index-*.faiss       made from it where it is large, and made anew when missing or torn

The rollback journal works on network file systems too. Nothing is written before the first incident is added.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, inspect
from sqlalchemy.pool import StaticPool

from logdiag.errors import MemoryStoreError
from logdiag.memory.database import Database, Tables

_APPLICATION = 0x6C6F6769
_PATIENCE_SECONDS = 30.0


class SqliteFile(Database):
    """The incidents of one folder, which is made where it is not there."""

    most_beside = 20_000
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
        # The one connection keeps what was made ready for it.
        engine = create_engine("sqlite://", creator=self._connected, poolclass=StaticPool)
        super().__init__(os.path.join(folder, "incidents.db"), folder, Tables("", "embedders"), engine)

    def _connected(self) -> sqlite3.Connection:
        """A connection to the file, which is made where there is none."""
        try:
            os.makedirs(self.index_folder, mode=0o700, exist_ok=True)
            # Commands and names of jobs are nobody else's: SQLite gives the files beside it the same permissions.
            with suppress(FileExistsError):
                os.close(os.open(self.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise MemoryStoreError(
                f"{self.index_folder}: cannot be made ({error.strerror}); name another place with --memory"
            ) from error
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(os.path.abspath(self.name)))}?mode=rw",
            uri=True,
            timeout=_PATIENCE_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA secure_delete = ON")
        # A text that is not UTF-8 spoils its own row only.
        connection.text_factory = lambda text: text.decode(errors="replace")
        return connection

    def _prepare(self, connection: Connection) -> int:
        def number(name: str) -> int:
            return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())

        if number("application_id") != _APPLICATION:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            # Several processes may make the tables at once: who comes second finds them.
            if not inspect(connection).get_table_names():
                self.tables.all.create_all(connection)
                connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION}")
                connection.exec_driver_sql(f"PRAGMA user_version = {self.version}")
            if number("application_id") != _APPLICATION:
                raise MemoryStoreError(f"{self.name}: a database of another program; name another place with --memory")
        return number("user_version")

    def _begin(self, connection: Connection, *, write: bool) -> None:
        if write:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
