"""Incidents in PostgreSQL, shared by a team: the same as in SQLite, with pgvector's index for similarity search.

The tables `logdiag_incidents` and `logdiag_embedders` are made in the first schema of the search path. Each embedder
has a column of vectors of its own, with an HNSW index (Malkov and Yashunin 2018, arXiv 1603.09320).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Incident, Outcome
from logdiag.memory.rows import LONGEST_DOCUMENT, Entry, Merged, Tally, Wanted, from_text, now, readable, to_text
from logdiag.model import Reason

try:
    import psycopg
    from psycopg import sql
except ImportError as error:
    raise MemoryStoreError("A store in PostgreSQL needs psycopg: pip install 'logdiag[team]'") from error

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder
    from logdiag.memory.index import Vectors

__all__ = ["PostgresRows"]

_VERSION = 1
# One number for all programs that make or change these tables.
_LOCK = 7_303_014_137
_CONNECT_SECONDS = 5
_STATEMENT_MILLISECONDS = 30_000
_AT_ONCE = 1000
# How many neighbours HNSW keeps in view: more finds more of the nearest, and takes longer.
_IN_VIEW = 200
_SCHEMA = """
CREATE TABLE IF NOT EXISTS logdiag_store (version integer NOT NULL);
INSERT INTO logdiag_store SELECT %s WHERE NOT EXISTS (SELECT 1 FROM logdiag_store);
CREATE TABLE IF NOT EXISTS logdiag_incidents (
    row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    signature text NOT NULL,
    fingerprint text NOT NULL,
    reason text NOT NULL,
    outcome text NOT NULL,
    node text NOT NULL,
    seen_at text NOT NULL COLLATE "C",
    confirmed boolean NOT NULL,
    changed_at text NOT NULL,
    document text NOT NULL
);
CREATE INDEX IF NOT EXISTS logdiag_incidents_fingerprint ON logdiag_incidents (fingerprint, seen_at);
CREATE INDEX IF NOT EXISTS logdiag_incidents_reason ON logdiag_incidents (reason, seen_at);
CREATE INDEX IF NOT EXISTS logdiag_incidents_node ON logdiag_incidents (node, seen_at);
CREATE INDEX IF NOT EXISTS logdiag_incidents_seen ON logdiag_incidents (seen_at);
CREATE TABLE IF NOT EXISTS logdiag_embedders (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    dimensions integer NOT NULL
);
"""
_NAMES = (
    "id",
    "signature",
    "fingerprint",
    "reason",
    "outcome",
    "node",
    "seen_at",
    "confirmed",
    "changed_at",
    "document",
)
_COLUMNS = ", ".join(_NAMES)
_INSERT = (
    f"INSERT INTO logdiag_incidents ({_COLUMNS}) VALUES ({', '.join(['%s'] * len(_NAMES))}) ON CONFLICT (id) DO NOTHING"
)
# A row that is too long is not read at all.
_DOCUMENT = f"CASE WHEN length(document) <= {LONGEST_DOCUMENT} THEN document END"
_SET = ", ".join(f"{name} = %s" for name in _NAMES[1:])
_READ_ONLY = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
_PASSWORD = re.compile(r"(?<=://)([^@/]*?):[^@/]*@|([?&]password=)[^&]*")


class PostgresRows:
    """The incidents of one database; may be used from several threads in turn, and by many machines at once."""

    def __init__(self, address: str) -> None:
        self.name = _PASSWORD.sub(lambda match: f"{match[1]}@" if match[2] is None else f"{match[2]}...", address)
        self.unreadable: set[str] = set()
        self._address = address
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._columns: dict[str, str] = {}

    def insert(self, entries: Sequence[Entry]) -> frozenset[str]:
        """As `Rows.insert`."""
        with self._writing() as connection:
            return frozenset(
                entry.incident.id for entry in entries if connection.execute(_INSERT, _values(entry)).rowcount
            )

    def merge(self, entries: Iterable[Entry], better: Callable[[Entry, Entry], bool]) -> Merged:
        """As `Rows.merge`."""
        added = replaced = kept = 0
        with self._writing() as connection:
            for entry in entries:
                if connection.execute(_INSERT, _values(entry)).rowcount:
                    added += 1
                    continue
                found = self._locked(connection, entry.incident.id)
                if found is not None and not better(found, entry):
                    kept += 1
                    continue
                replaced += 1
                if found is not None and found.incident.signature == entry.incident.signature:
                    self._update(connection, entry)
                else:
                    # A vector belongs to its row for good.
                    connection.execute("DELETE FROM logdiag_incidents WHERE id = %s", (entry.incident.id,))
                    connection.execute(_INSERT, _values(entry))
        return Merged(added, replaced, kept)

    def change(self, identity: str, change: Callable[[Incident], Incident]) -> Incident | None:
        """As `Rows.change`."""
        with self._writing() as connection:
            found = self._locked(connection, identity)
            if found is None:
                return None
            changed = change(found.incident)
            self._update(connection, Entry(changed, now()))
        return changed

    def delete(self, identity: str) -> bool:
        """As `Rows.delete`."""
        with self._writing() as connection:
            return bool(connection.execute("DELETE FROM logdiag_incidents WHERE id = %s", (identity,)).rowcount)

    def get(self, identity: str) -> Incident | None:
        """As `Rows.get`."""
        found = self._read(f"SELECT {_DOCUMENT} FROM logdiag_incidents WHERE id = %s", (identity,))
        return from_text(found[0][0], self.name) if found else None

    def find(self, wanted: Wanted) -> list[Incident]:
        """As `Rows.find`."""
        conditions = {
            "fingerprint = ANY(%s)": list(wanted.fingerprints),
            "confirmed = %s": wanted.confirmed,
            "reason = %s": wanted.reason.value if wanted.reason else "",
            "node = %s": wanted.node,
            "seen_at >= %s": wanted.since,
        }
        given = {condition: value for condition, value in conditions.items() if value}
        where = f" WHERE {' AND '.join(given)}" if given else ""
        query = f"SELECT id, {_DOCUMENT} FROM logdiag_incidents{where} ORDER BY seen_at DESC, row DESC LIMIT %s"
        found = self._read(query, (*given.values(), wanted.limit))
        read = [readable(identity, text, self.unreadable) for identity, text in found]
        return [item for item in read if item is not None]

    def entries(self) -> Iterator[Entry]:
        """As `Rows.entries`."""
        last = 0
        while found := self._read(
            f"SELECT row, id, {_DOCUMENT}, changed_at FROM logdiag_incidents WHERE row > %s ORDER BY row LIMIT 1000",
            (last,),
        ):
            for _, identity, text, changed_at in found:
                if (item := readable(identity, text, self.unreadable)) is not None:
                    yield Entry(item, changed_at)
            last = found[-1][0]

    def exists(self) -> bool:
        """As `Rows.exists`."""
        return True

    def count(self) -> int:
        """As `Rows.count`."""
        return int(self._read("SELECT count(*) FROM logdiag_incidents")[0][0])

    def tallies(self) -> list[Tally]:
        """As `Rows.tallies`."""
        found = self._read(
            "SELECT reason, outcome, confirmed, count(*), min(seen_at), max(seen_at)"
            " FROM logdiag_incidents GROUP BY 1, 2, 3"
        )
        reasons, outcomes = {item.value for item in Reason}, {item.value for item in Outcome}
        return [
            Tally(Reason(reason), Outcome(outcome), confirmed, count, first, last)
            for reason, outcome, confirmed, count, first, last in found
            if reason in reasons and outcome in outcomes
        ]

    def nearest(
        self, queries: Vectors, k: int, embedder: Embedder, patience: float
    ) -> tuple[list[tuple[float, Incident]], bool]:
        """As `Rows.nearest`. Incidents of all writers are embedded by whoever searches first."""
        column = self._vector_column(embedder)
        searched_all = self._embed_missing(column, embedder, patience)
        best: dict[str, tuple[float, Incident]] = {}
        with self._writing() as connection:
            connection.execute(sql.SQL("SET LOCAL hnsw.ef_search = {}").format(sql.Literal(max(_IN_VIEW, k))))
            query = sql.SQL(
                "SELECT 1 - ({column} <=> %(query)s::vector), id, {document} FROM logdiag_incidents"
                " WHERE {column} IS NOT NULL ORDER BY {column} <=> %(query)s::vector LIMIT %(k)s"
            ).format(column=sql.Identifier(column), document=sql.SQL(_DOCUMENT))
            for vector in queries.tolist():
                for score, identity, text in connection.execute(query, {"query": json.dumps(vector), "k": k}):
                    # A text without a letter has no direction: its cosine is no number.
                    if score == score and (identity not in best or best[identity][0] < score):
                        item = readable(identity, text, self.unreadable)
                        if item is not None:
                            best[identity] = (float(score), item)
        return sorted(best.values(), key=lambda item: -item[0])[:k], searched_all

    def close(self) -> None:
        """Lets go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _vector_column(self, embedder: Embedder) -> str:
        """The column that holds this embedder's vectors, made when it is new."""
        if embedder.name not in self._columns:
            known = "SELECT number FROM logdiag_embedders WHERE name = %s"
            with self._writing() as connection:
                found = connection.execute(known, (embedder.name,)).fetchone()
                if found is None:
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                    self._check_extension(connection)
                    found = connection.execute(known, (embedder.name,)).fetchone() or _new_column(connection, embedder)
            self._columns[embedder.name] = f"vector_{found[0]}"
        return self._columns[embedder.name]

    def _check_extension(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
            return
        try:
            connection.execute("CREATE EXTENSION vector")
        except psycopg.Error as error:
            raise MemoryStoreError(
                f"{self.name}: similarity search needs the extension pgvector: install it on the server, and let an"
                " administrator run CREATE EXTENSION vector in this database"
            ) from error

    def _embed_missing(self, column: str, embedder: Embedder, patience: float) -> bool:
        """Gives each incident that has none its vector, for so many seconds; whether all have one. Two who do so at
        once share the work; who may only read searches those that have one."""
        try:
            return self._fill(column, embedder, time.monotonic() + patience)
        except MemoryStoreError as error:
            if not isinstance(error.__cause__, _READ_ONLY):
                raise
            return True

    def _fill(self, column: str, embedder: Embedder, until: float) -> bool:
        name = sql.Identifier(column)
        any_missing = sql.SQL("SELECT 1 FROM logdiag_incidents WHERE {} IS NULL LIMIT 1").format(name)
        missing = sql.SQL(
            "SELECT row, signature FROM logdiag_incidents WHERE {} IS NULL ORDER BY row LIMIT %s FOR UPDATE SKIP LOCKED"
        ).format(name)
        filled = sql.SQL("UPDATE logdiag_incidents SET {} = %s::vector WHERE row = %s").format(name)
        found: list[tuple[Any, ...]] = [()]
        while found:
            if time.monotonic() > until:
                return False
            with self._writing() as connection:
                if connection.execute(any_missing).fetchone() is None:
                    return True
                found = connection.execute(missing, (_AT_ONCE,)).fetchall()
                if found:
                    vectors = embedder.embed([signature for _, signature in found]).tolist()
                    with connection.cursor() as cursor:
                        cursor.executemany(
                            filled,
                            [(json.dumps(vector), row) for vector, (row, _) in zip(vectors, found, strict=True)],
                        )
        return True

    def _read(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._writing() as connection:
            return connection.execute(query, values).fetchall()

    def _locked(self, connection: psycopg.Connection[tuple[Any, ...]], identity: str) -> Entry | None:
        """An entry that nobody else changes until the transaction ends."""
        found = connection.execute(
            f"SELECT {_DOCUMENT}, changed_at FROM logdiag_incidents WHERE id = %s FOR UPDATE", (identity,)
        ).fetchone()
        item = readable(identity, found[0], self.unreadable) if found else None
        return Entry(item, found[1]) if found and item is not None else None

    def _update(self, connection: psycopg.Connection[tuple[Any, ...]], entry: Entry) -> None:
        values = _values(entry)
        connection.execute(f"UPDATE logdiag_incidents SET {_SET} WHERE id = %s", (*values[1:], values[0]))

    @contextmanager
    def _writing(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """One transaction; a connection that broke is made anew by the next."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._connected()
            with self._connection.transaction():
                yield self._connection
        except psycopg.Error as error:
            if self._connection is not None and self._connection.broken:
                self.close()
            raise MemoryStoreError(f"{self.name}: {_meaning(error)}") from error

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        given = psycopg.conninfo.conninfo_to_dict(self._address)
        patience = int(given.get("connect_timeout") or _CONNECT_SECONDS)
        connection = psycopg.connect(
            self._address, autocommit=True, connect_timeout=patience, fallback_application_name="logdiag"
        )
        try:
            connection.execute(f"SET statement_timeout = {_STATEMENT_MILLISECONDS}")
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
                for statement in _SCHEMA.split(";\n"):
                    if statement.strip():
                        connection.execute(statement.replace("%s", str(_VERSION)))
        version = _one(connection, "SELECT version FROM logdiag_store")
        if version > _VERSION:
            raise MemoryStoreError(
                f"{self.name}: written by a newer logdiag (version {version} of the store, this one knows {_VERSION}):"
                " upgrade logdiag, or name another place with --memory"
            )


def _one(connection: psycopg.Connection[tuple[Any, ...]], query: str) -> Any:
    """The first value of the first row."""
    found = connection.execute(query).fetchone()
    return found[0] if found else None


def _new_column(connection: psycopg.Connection[tuple[Any, ...]], embedder: Embedder) -> tuple[Any, ...]:
    """A column for an embedder's vectors, an index over it, and an index of those that have none yet."""
    connection.execute("SET LOCAL statement_timeout = 0")
    found = connection.execute(
        "INSERT INTO logdiag_embedders (name, dimensions) VALUES (%s, %s) RETURNING number",
        (embedder.name, embedder.dimensions),
    ).fetchone()
    assert found is not None
    column = f"vector_{found[0]}"
    for statement in (
        "ALTER TABLE logdiag_incidents ADD COLUMN {column} vector({dimensions})",
        "CREATE INDEX {near} ON logdiag_incidents USING hnsw ({column} vector_cosine_ops)",
        "CREATE INDEX {missing} ON logdiag_incidents (row) WHERE {column} IS NULL",
    ):
        connection.execute(
            sql.SQL(statement).format(
                column=sql.Identifier(column),
                dimensions=sql.Literal(embedder.dimensions),
                near=sql.Identifier(f"logdiag_incidents_{column}"),
                missing=sql.Identifier(f"logdiag_incidents_without_{column}"),
            )
        )
    return found


def _meaning(error: psycopg.Error) -> str:
    """What the server said, and what that means for people, in one sentence."""
    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return f"not allowed ({said}): ask the database's owner for the right"
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return "this server only reads: name the one that takes changes"
    if isinstance(error, psycopg.errors.DiskFull):
        return "the server's disk is full: free space there"
    if isinstance(error, psycopg.errors.QueryCanceled):
        return f"the server needed more than {_STATEMENT_MILLISECONDS // 1000} seconds: try again"
    if isinstance(error, psycopg.OperationalError):
        return f"cannot be reached ({said}): check the address, and that the server runs"
    return f"{said}; check the address and the database"


def _values(entry: Entry) -> tuple[object, ...]:
    incident = entry.incident
    return (
        incident.id,
        incident.signature,
        incident.fingerprint,
        incident.reason.value,
        incident.outcome.value,
        incident.node,
        incident.seen_at,
        bool(incident.confirmed_by),
        entry.changed_at,
        to_text(incident),
    )
