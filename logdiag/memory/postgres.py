"""Incidents in PostgreSQL, shared by a team: the same as in SQLite, with pgvector's index for similarity search.

The tables `logdiag_incidents` and `logdiag_embedders` are made in the first schema of the search path. Each embedder
has a column of vectors of its own, with an HNSW index (Malkov and Yashunin 2018, arXiv 1603.09320).
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Identity, Integer, MetaData, Table, Text, create_engine, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Incident
from logdiag.memory.rows import Rows, check_version, incidents_table, statements
from logdiag.places import without_password

try:
    import psycopg
except ImportError as error:
    raise MemoryStoreError("A store in PostgreSQL needs psycopg: pip install 'logdiag[team]'") from error

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder

__all__ = ["PostgresRows"]

_VERSION = 1
# One number for all programs that make or change these tables.
_LOCK = 7_303_014_137
_CONNECT_SECONDS = 5
_STATEMENT_MILLISECONDS = 30_000
_AT_ONCE = 1000
# How many neighbours HNSW keeps in view: more finds more of the nearest, and takes longer.
_IN_VIEW = 200
_INCIDENTS = incidents_table("logdiag_incidents")
_EMBEDDERS = Table(
    "logdiag_embedders",
    MetaData(),
    Column("number", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("dimensions", Integer, nullable=False),
)
_STORE = Table("logdiag_store", MetaData(), Column("version", Integer, nullable=False))
_READ_ONLY = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)


class PostgresRows(Rows):
    """The incidents of one database, by whatever address PostgreSQL's own programs take."""

    def __init__(self, address: str) -> None:
        super().__init__(without_password(address), _INCIDENTS, insert)
        self._address = address
        self._columns: dict[str, str] = {}
        self._engine = create_engine(
            "postgresql+psycopg://", creator=self._connected, pool_size=1, max_overflow=0, use_native_hstore=False
        )

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        """As `Rows.transaction`."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except (DBAPIError, psycopg.Error) as error:
            said = error.orig if isinstance(error, DBAPIError) else error
            raise MemoryStoreError(f"{self.name}: {_meaning(said)}") from said

    def nearest(
        self, query: array[float], k: int, embedder: Embedder, patience: float
    ) -> tuple[list[tuple[float, Incident]], bool]:
        """As `Rows.nearest`. Incidents of all writers are embedded by whoever searches first."""
        column = self._vector_column(embedder)
        searched_all = self._embed_missing(column, embedder, time.monotonic() + patience)
        near = text(
            f"SELECT 1 - ({column} <=> CAST(:query AS vector)) AS score, row FROM logdiag_incidents"
            f" WHERE {column} IS NOT NULL ORDER BY {column} <=> CAST(:query AS vector) LIMIT :k"
        )
        with self.transaction() as connection:
            connection.execute(text(f"SET LOCAL hnsw.ef_search = {max(_IN_VIEW, k):d}"))
            scored = connection.execute(near, {"query": _spelled(query), "k": k}).all()
        incidents = self.by_rows([item.row for item in scored])
        # A text without a letter has no direction: its cosine is no number.
        scored = [item for item in scored if item.row in incidents and item.score == item.score]
        return [(float(item.score), incidents[item.row]) for item in scored], searched_all

    def close(self) -> None:
        """As `Rows.close`."""
        self._engine.dispose()

    def _vector_column(self, embedder: Embedder) -> str:
        """The column that holds this embedder's vectors, made when it is new."""
        if embedder.name not in self._columns:
            known = select(_EMBEDDERS.c.number).where(_EMBEDDERS.c.name == embedder.name)
            with self.transaction(write=True) as connection:
                number = connection.scalar(known)
                if number is None:
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
                    self._check_extension(connection)
                    number = connection.scalar(known) or _new_column(connection, embedder)
            self._columns[embedder.name] = f"vector_{number:d}"
        return self._columns[embedder.name]

    def _check_extension(self, connection: Connection) -> None:
        if connection.scalar(text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")):
            return
        try:
            connection.execute(text("CREATE EXTENSION vector"))
        except DBAPIError as error:
            raise MemoryStoreError(
                f"{self.name}: similarity search needs the extension pgvector: install it on the server, and let an"
                " administrator run CREATE EXTENSION vector in this database"
            ) from error

    def _embed_missing(self, column: str, embedder: Embedder, until: float) -> bool:
        """Gives each incident that has none its vector, up to a time; whether all have one. Two who do so at once
        share the work; who may only read searches those that have one."""
        missing = text(
            f"SELECT row, signature FROM logdiag_incidents WHERE {column} IS NULL ORDER BY row LIMIT {_AT_ONCE}"
            " FOR UPDATE SKIP LOCKED"
        )
        filled = text(f"UPDATE logdiag_incidents SET {column} = CAST(:vector AS vector) WHERE row = :row")
        any_missing = text(f"SELECT 1 FROM logdiag_incidents WHERE {column} IS NULL LIMIT 1")
        try:
            while True:
                with self.transaction(write=True) as connection:
                    if connection.scalar(any_missing) is None:
                        return True
                    if time.monotonic() > until:
                        return False
                    found = connection.execute(missing).all()
                    if not found:
                        return True
                    vectors = embedder.embed([item.signature for item in found])
                    given = zip(found, vectors, strict=True)
                    connection.execute(filled, [{"row": item.row, "vector": _spelled(own)} for item, own in given])
        except MemoryStoreError as error:
            if not isinstance(error.__cause__, _READ_ONLY):
                raise
            return True

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        given = psycopg.conninfo.conninfo_to_dict(self._address)
        patience = int(given.get("connect_timeout") or _CONNECT_SECONDS)
        connection = psycopg.connect(self._address, connect_timeout=patience, fallback_application_name="logdiag")
        try:
            connection.execute(f"SET statement_timeout = {_STATEMENT_MILLISECONDS}")
            connection.commit()
            with connection.transaction():
                self._check_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_version(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Makes the tables where there are none."""
        there = "SELECT to_regclass('logdiag_store') IS NOT NULL"
        if not _one(connection, there):
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if not _one(connection, there):
                for statement in statements((_STORE, _INCIDENTS, _EMBEDDERS), self._engine.dialect):
                    connection.execute(statement.encode())
                connection.execute("INSERT INTO logdiag_store VALUES (%s)", (_VERSION,))
        check_version(self.name, _one(connection, "SELECT version FROM logdiag_store"), _VERSION)


def _one(connection: psycopg.Connection[tuple[Any, ...]], query: str) -> Any:
    """The first value of the first row."""
    found = connection.execute(query.encode()).fetchone()
    return found[0] if found else None


def _new_column(connection: Connection, embedder: Embedder) -> int:
    """A column for an embedder's vectors, an index over it, and an index of those that have none yet; its number."""
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    new = _EMBEDDERS.insert().values(name=embedder.name, dimensions=embedder.dimensions)
    number: int = connection.execute(new.returning(_EMBEDDERS.c.number)).scalar_one()
    column, table = f"vector_{number:d}", "logdiag_incidents"
    for statement in (
        f"ALTER TABLE {table} ADD COLUMN {column} vector({embedder.dimensions:d})",
        f"CREATE INDEX {table}_{column} ON {table} USING hnsw ({column} vector_cosine_ops)",
        f"CREATE INDEX {table}_without_{column} ON {table} (row) WHERE {column} IS NULL",
    ):
        connection.execute(text(statement))
    return number


def _spelled(vector: Sequence[float]) -> str:
    """A vector as pgvector reads it."""
    return f"[{','.join(map(str, vector))}]"


def _meaning(error: BaseException | None) -> str:
    """What the server said, and what that means for people, in one sentence."""
    said = " ".join(str(error).split()) or type(error).__name__
    meanings: tuple[tuple[type[psycopg.Error], str], ...] = (
        (psycopg.errors.InsufficientPrivilege, f"not allowed ({said}): ask the database's owner for the right"),
        (psycopg.errors.ReadOnlySqlTransaction, "this server only reads: name the one that takes changes"),
        (psycopg.errors.DiskFull, "the server's disk is full: free space there"),
        (psycopg.errors.QueryCanceled, f"the server needed more than {_STATEMENT_MILLISECONDS // 1000} s: try again"),
        (psycopg.OperationalError, f"cannot be reached ({said}): check the address, and that the server runs"),
    )
    return next(
        (meaning for kind, meaning in meanings if isinstance(error, kind)),
        f"{said}; check the address and the database",
    )
