"""Incidents in PostgreSQL, shared by a team: the same as in SQLite, with pgvector's index for similarity search.

The tables `logdiag_incidents` and `logdiag_embedders` are made in the first schema of the search path. Each embedder
has a column of vectors of its own, with an HNSW index (Malkov and Yashunin 2018, arXiv 1603.09320).
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Identity, Integer, Table, Text, create_engine, select, text
from sqlalchemy.exc import DBAPIError

from logdiag.errors import MemoryStoreError
from logdiag.memory.database import Database, incidents_table
from logdiag.memory.incident import Incident
from logdiag.places import without_password

try:
    import psycopg
except ImportError as error:
    raise MemoryStoreError("A store in PostgreSQL needs psycopg: pip install 'logdiag[team]'") from error

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder

__all__ = ["PostgresDatabase"]

# One number for all programs that make or change these tables.
_LOCK = text("SELECT pg_advisory_xact_lock(7303014137)")
_CONNECT_SECONDS = 5
_STATEMENT_SECONDS = 30
_AT_ONCE = 1000
# How many neighbours HNSW keeps in view: more finds more of the nearest, and takes longer.
_IN_VIEW = 200
_INCIDENTS = incidents_table("logdiag_incidents")
_EMBEDDERS = Table(
    "logdiag_embedders",
    _INCIDENTS.metadata,
    Column("number", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("dimensions", Integer, nullable=False),
)
_STORE = Table("logdiag_store", _INCIDENTS.metadata, Column("version", Integer, nullable=False))


class PostgresDatabase(Database):
    """The incidents of one database, by whatever address PostgreSQL's own programs take."""

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
        super().__init__(without_password(address), _INCIDENTS, engine)
        self._columns: dict[str, str] = {}

    def nearest(
        self, query: array[float], k: int, embedder: Embedder, patience: float
    ) -> tuple[list[tuple[float, Incident]], bool]:
        """As `Database.nearest`. Incidents of all writers are embedded by whoever searches first."""
        column = self._vector_column(embedder)
        searched_all = self._embed_missing(column, embedder, time.monotonic() + patience)
        near = text(
            f"SELECT 1 - ({column} <=> CAST(:query AS vector)) AS score, row FROM logdiag_incidents"
            f" WHERE {column} IS NOT NULL ORDER BY {column} <=> CAST(:query AS vector) LIMIT :k"
        )
        with self.transaction() as connection:
            connection.execute(text(f"SET LOCAL hnsw.ef_search = {max(_IN_VIEW, k):d}"))
            scored = connection.execute(near, {"query": _spelled(query), "k": k}).all()
        with self.rows() as rows:
            incidents = rows.by_rows([item.row for item in scored])
        # A text without a letter has no direction: its cosine is no number.
        scored = [item for item in scored if item.row in incidents and item.score == item.score]
        return [(float(item.score), incidents[item.row]) for item in scored], searched_all

    def _prepare(self, connection: Connection) -> int:
        there = text("SELECT to_regclass('logdiag_store') IS NOT NULL")
        if not connection.scalar(there):
            connection.execute(_LOCK)
            if not connection.scalar(there):
                _INCIDENTS.metadata.create_all(connection)
                connection.execute(_STORE.insert().values(version=self.version))
        return int(connection.scalar(select(_STORE.c.version)) or 0)

    def _begin(self, connection: Connection, *, write: bool) -> None:
        connection.execute(text(f"SET LOCAL statement_timeout = '{_STATEMENT_SECONDS}s'"))
        if write:
            connection.execute(_LOCK)

    def _vector_column(self, embedder: Embedder) -> str:
        """The column that holds this embedder's vectors, made when it is new."""
        if embedder.name not in self._columns:
            known = select(_EMBEDDERS.c.number).where(_EMBEDDERS.c.name == embedder.name)
            with self.transaction() as connection:
                number = connection.scalar(known)
            if number is None:
                with self.transaction(write=True) as connection:
                    number = connection.scalar(known) or self._new_column(connection, embedder)
            self._columns[embedder.name] = f"vector_{number:d}"
        return self._columns[embedder.name]

    def _new_column(self, connection: Connection, embedder: Embedder) -> int:
        """A column for an embedder's vectors, an index over it, and one of the incidents without; its number."""
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        try:
            connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        except DBAPIError as error:
            raise MemoryStoreError(
                f"{self.name}: similarity search needs the extension pgvector: install it on the server, and let an"
                " administrator run CREATE EXTENSION vector in this database"
            ) from error
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

    def _embed_missing(self, column: str, embedder: Embedder, until: float) -> bool:
        """Gives each incident that has none its vector, up to a time; whether all have one. Who may only read searches
        those that have one."""
        missing = text(
            f"SELECT row, signature FROM logdiag_incidents WHERE {column} IS NULL ORDER BY row LIMIT {_AT_ONCE}"
        )
        filled = text(f"UPDATE logdiag_incidents SET {column} = CAST(:vector AS vector) WHERE row = :row")
        while True:
            with self.transaction() as connection:
                found = connection.execute(missing).all()
            if not found or time.monotonic() > until:
                return not found
            vectors = embedder.embed([item.signature for item in found])
            given = [{"row": item.row, "vector": _spelled(own)} for item, own in zip(found, vectors, strict=True)]
            try:
                with self.transaction(write=True) as connection:
                    connection.execute(filled, given)
            except MemoryStoreError:
                return False


def _spelled(vector: Sequence[float]) -> str:
    """A vector as pgvector reads it."""
    return f"[{','.join(map(str, vector))}]"
