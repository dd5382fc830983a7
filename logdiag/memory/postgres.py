"""Incidents in PostgreSQL, shared by a team: the same as in SQLite, with the index for similarity search in the user's
cache folder. The tables `logdiag_...` are made in the first schema of the search path."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import Any

from sqlalchemy import Column, Connection, Integer, Table, create_engine, select, text

from logdiag.errors import MemoryStoreError
from logdiag.memory.database import Database, Tables
from logdiag.settings.cache import usable_folders
from logdiag.settings.places import make_private, without_password

try:
    import psycopg
except ImportError as error:
    raise MemoryStoreError("A store in PostgreSQL needs psycopg: pip install 'logdiag[team]'") from error

# One number for all programs that make or change these tables.
_LOCK = text("SELECT pg_advisory_xact_lock(7303014137)")
_CONNECT_SECONDS = 5
_STATEMENT_SECONDS = 30


class PostgresDatabase(Database):
    """The incidents of one database, by whatever address PostgreSQL's own programs take."""

    most_beside = 2_000
    meanings = (
        ("42501", "not allowed ({said}): ask the database's owner for the right"),
        ("25006", "this server only reads: name the one that takes changes"),
        ("53100", "the server's disk is full: free space there"),
        ("57014", f"the server needed more than {_STATEMENT_SECONDS} s: try again"),
        ("no answer", "cannot be reached ({said}): check the address, and that the server runs"),
    )

    def __init__(self, address: str) -> None:
        def connected() -> psycopg.Connection[tuple[Any, ...]]:
            told = psycopg.conninfo.conninfo_to_dict(address).get("connect_timeout")
            patience = int(told or _CONNECT_SECONDS)
            return psycopg.connect(address, connect_timeout=patience, fallback_application_name="logdiag")

        engine = create_engine(
            "postgresql+psycopg://", creator=connected, pool_size=1, max_overflow=0, use_native_hstore=False
        )
        tables = Tables("logdiag_", "logdiag_models")
        super().__init__(without_password(address), _index_folder(address), tables, engine)
        self._store = Table("logdiag_store", tables.all, Column("version", Integer, nullable=False))

    def _prepare(self, connection: Connection) -> int:
        def is_there(table: Table) -> bool:
            return bool(connection.scalar(text(f"SELECT to_regclass('{table.name}') IS NOT NULL")))

        if not is_there(self._store):
            connection.execute(_LOCK)
            if not is_there(self._store):
                self.tables.all.create_all(connection)
                connection.execute(self._store.insert().values(version=self.version))
        return int(connection.scalar(select(self._store.c.version)) or 0)

    def _begin(self, connection: Connection, *, write: bool) -> None:
        connection.execute(text(f"SET LOCAL statement_timeout = '{_STATEMENT_SECONDS}s'"))
        if write:
            connection.execute(_LOCK)


def _index_folder(address: str) -> str:
    """A folder of the user's own for the indexes of a database."""
    for folder in usable_folders():
        path = os.path.join(folder, f"memory-{hashlib.sha256(address.encode()).hexdigest()[:16]}")
        with suppress(OSError):
            make_private(path)
            return path
    return ""
