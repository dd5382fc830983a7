"""The incidents of one database, SQLite or PostgreSQL, by SQLAlchemy Core; loaded only where there is a store.

    FOLDER/incidents.db       the incidents and their vectors, in SQLite, whose rollback journal works on network file
                              systems too; nothing is written before the first incident is added
    FOLDER/index-*.faiss      made from the database if that is large; made again if missing or torn

In PostgreSQL the tables are called `logdiag_...`, in the first schema of the search path; their index lies in the
user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import RLock
from typing import Any
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy import Column, Connection, Engine, Integer, Select, Table, Text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from logdiag.errors import MemoryStoreError
from logdiag.memory.documents import LONGEST_DOCUMENT, one_line, read_incident, to_text
from logdiag.memory.incident import Incident
from logdiag.settings.cache import usable_folders
from logdiag.settings.places import make_private, without_password

_PAGE = 1000
_APPLICATION = 0x6C6F6769
_LOCKED_SECONDS = 30.0
# One number for all programs that make or change these tables.
_LOCK = sql.text("SELECT pg_advisory_xact_lock(7303014137)")
_CONNECT_SECONDS = 5
_STATEMENT_SECONDS = 30


class Tables:
    """What a database holds: incidents, models that made vectors, and the vectors of the incidents' signatures."""

    def __init__(self, prefix: str, embedders: str) -> None:
        self.all = sql.MetaData()
        row = sql.BigInteger().with_variant(Integer(), "sqlite")
        # Times are compared as text, whatever the server's language.
        time = Text().with_variant(Text(collation="C"), "postgresql")
        texts = ("id", "signature", "fingerprint", "reason", "outcome", "node", "changed_at", "document")
        # `document` holds the whole incident, the other columns only what is searched by.
        self.incidents = Table(
            f"{prefix}incidents",
            self.all,
            Column("row", row, sql.Identity(always=True), primary_key=True),
            *(Column(text, Text, nullable=False, unique=text == "id") for text in texts),
            Column("seen_at", time, nullable=False),
            Column("confirmed", sql.Boolean, nullable=False),
            sqlite_autoincrement=True,
        )
        for column in ("fingerprint", "reason", "node"):
            sql.Index(f"{prefix}incidents_{column}", self.incidents.c[column], self.incidents.c.seen_at)
        sql.Index(f"{prefix}incidents_seen", self.incidents.c.seen_at)
        number = Column("number", Integer, primary_key=True)
        self.embedders = Table(embedders, self.all, number, Column("name", Text, nullable=False, unique=True))
        self.vectors = Table(
            f"{prefix}vectors",
            self.all,
            Column("embedder", Integer, primary_key=True, autoincrement=False),
            Column("row", row, primary_key=True, autoincrement=False),
            Column("vector", sql.LargeBinary, nullable=False),
        )


class Database(ABC):
    """A database of incidents. Many processes may use it at once, threads take turns. It raises MemoryStoreError."""

    version = 1
    """The version of the tables; a database with a newer one is refused."""
    most_beside: int
    """Up to so many vectors are searched without an index."""
    meanings: Sequence[tuple[str, str]]
    """Pairs: a part of an error's code or message, and a sentence for people, in which `{message}` is the message."""

    def __init__(self, name: str, index_folder: str, tables: Tables, engine: Engine) -> None:
        """`name` is its path or address, without a password; `index_folder` is empty if no folder can be written."""
        self.name = name
        self.index_folder = index_folder
        self.tables = tables
        self.unreadable: set[str] = set()
        """The ids of the incidents that were left out so far because their rows cannot be read."""
        self._engine = engine
        self._prepared = False
        self._turn = RLock()
        self._open: Connection | None = None
        columns = tables.incidents.c
        # A row that is too long is not read at all.
        document = sql.case((sql.func.length(columns.document) <= LONGEST_DOCUMENT, columns.document)).label("document")
        self._all = sql.select(columns.row, columns.id, columns.changed_at, document)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        """A transaction, committed as a whole or not at all. One process writes at a time; one within another joins."""
        with self._turn:
            if self._open is not None:
                yield self._open
                return
            try:
                if not self._prepared:
                    self._prepare()
                with self._engine.begin() as self._open:
                    self._begin(self._open, write=write)
                    yield self._open
            except DBAPIError as error:
                message = " ".join(str(error.orig).split()) or type(error.orig).__name__
                code = getattr(error.orig, "sqlstate", message) or "no answer"
                meaning = next((meaning for part, meaning in self.meanings if part in code), "{message}; run it again")
                raise MemoryStoreError(f"{self.name}: {meaning.format(message=message)}") from error.orig
            finally:
                self._open = None
                if not self._prepared:
                    self.close()

    def close(self) -> None:
        """Closes the connections; nothing is lost without it."""
        self._engine.dispose()
        self._prepared = False

    def find(self, *, since: str = "", limit: int | None = None, **wanted: object) -> tuple[Incident, ...]:
        """The readable incidents whose columns have the `wanted` values (a tuple: one of them), the latest first."""
        columns = self.tables.incidents.c
        query = self._all.order_by(columns.seen_at.desc(), columns.row.desc()).limit(limit)
        if since:
            query = query.where(columns.seen_at >= since)
        for name, value in wanted.items():
            query = query.where(columns[name].in_(value) if isinstance(value, tuple) else columns[name] == value)
        return tuple(self._read(query).values())

    def by_rows(self, rows: Sequence[int]) -> dict[int, Incident]:
        """The incidents in these rows, by row; rows that are gone or cannot be read are left out."""
        return self._read(self._all.where(self.tables.incidents.c.row.in_(rows)))

    def pages(self) -> Iterator[list[Incident]]:
        """All incidents in the order in which they were added, a page for each transaction."""
        number, last = self.tables.incidents.c.row, 0
        while True:
            page = sql.select(number).where(number > last).order_by(number).limit(_PAGE)
            with self.transaction() as connection:
                rows = connection.scalars(page).all()
                found = self._read(self._all.where(number.in_(rows)).order_by(number)) if rows else {}
            if not rows:
                return
            last = rows[-1]
            yield list(found.values())

    def count(self) -> int:
        """How many incidents there are."""
        with self.transaction() as connection:
            return int(connection.scalar(sql.select(sql.func.count()).select_from(self.tables.incidents)) or 0)

    def facts(self) -> Sequence[Any]:
        """`reason`, `outcome`, `confirmed` and `seen_at` of each incident, also of unreadable ones."""
        columns = self.tables.incidents.c
        facts = sql.select(columns.reason, columns.outcome, columns.confirmed, columns.seen_at)
        with self.transaction() as connection:
            return connection.execute(facts).all()

    def add(self, incidents: Iterable[Incident]) -> None:
        """Adds incidents whose ids are not taken."""
        if values := [_values(item) for item in incidents]:
            with self.transaction(write=True) as connection:
                connection.execute(sql.insert(self.tables.incidents), values)

    def put(self, incident: Incident) -> Incident:
        """Adds an incident, or replaces the one with its id; returns it."""
        table = self.tables.incidents
        same_id = table.c.id == incident.id
        with self.transaction(write=True) as connection:
            if connection.scalar(sql.select(table.c.signature).where(same_id)) == incident.signature:
                connection.execute(sql.update(table).where(same_id), _values(incident))
            else:
                self.delete(incident.id)  # a vector belongs to its row for good
                self.add([incident])
        return incident

    def delete(self, identity: str) -> bool:
        """Removes an incident and its vectors; False if there was none with this id."""
        incidents = self.tables.incidents
        with self.transaction(write=True) as connection:
            row = connection.scalar(sql.select(incidents.c.row).where(incidents.c.id == identity))
            for table in (self.tables.vectors, incidents):
                connection.execute(sql.delete(table).where(table.c.row == row))
        return row is not None

    def _read(self, query: Select[Any]) -> dict[int, Incident]:
        found: dict[int, Incident] = {}
        with self.transaction() as connection:
            rows = connection.execute(query).all()
        for item in rows:
            incident, _ = read_incident(item.document)
            if incident is None:
                self.unreadable.add(one_line(str(item.id), 40))
            else:
                found[item.row] = replace(incident, changed_at=str(item.changed_at))
        return found

    def _prepare(self) -> None:
        """Makes the tables if there are none. Raises MemoryStoreError for a database of a newer logdiag."""
        with self._engine.begin() as connection:
            if (version := self._made(connection)) > self.version:
                versions = f"version {version} of the store, this one knows {self.version}"
                remedy = "upgrade logdiag, or name another place with --memory"
                raise MemoryStoreError(f"{self.name}: written by a newer logdiag ({versions}): {remedy}")
        self._prepared = True

    @abstractmethod
    def _made(self, connection: Connection) -> int:
        """Makes the tables if there are none, and returns their version. Several processes may do so at once."""

    @abstractmethod
    def _begin(self, connection: Connection, *, write: bool) -> None:
        """Runs the first statements of a transaction; one that writes waits for other writers."""


class SqliteFile(Database):
    """The incidents of one folder, which is made if it does not exist."""

    most_beside = 20_000
    meanings = (
        ("disk is full", "the disk is full: free space there, or name another place with --memory"),
        ("readonly", "it may not be written: change its permissions, or name another place with --memory"),
        ("unable to open", "it cannot be opened: check the permissions of its folder, or name another place"),
        ("locked", f"other processes kept it locked for {_LOCKED_SECONDS:.0f} seconds: try again"),
        ("not a database", "this is no incident store, or it is damaged: move it away, then import what was exported"),
        ("malformed", "it is damaged: move it away, then import what was exported"),
        ("disk I/O", "the disk reports errors: check it, or name another place with --memory"),
    )

    def __init__(self, folder: str) -> None:
        # One connection is kept open, with its settings.
        engine = sql.create_engine("sqlite://", creator=self._connected, poolclass=StaticPool)
        super().__init__(os.path.join(folder, "incidents.db"), folder, Tables("", "embedders"), engine)

    def _connected(self) -> Any:
        import sqlite3

        try:
            os.makedirs(self.index_folder, mode=0o700, exist_ok=True)
            # Commands and names of jobs are private: SQLite gives its journal the same permissions.
            with suppress(FileExistsError):
                os.close(os.open(self.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise MemoryStoreError(
                f"{self.index_folder}: cannot be made ({error.strerror}); name another place with --memory"
            ) from error
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(os.path.abspath(self.name)))}?mode=rw",
            uri=True,
            timeout=_LOCKED_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA secure_delete = ON")
        # A text that is not UTF-8 spoils its own row only.
        connection.text_factory = lambda text: text.decode(errors="replace")
        return connection

    def _made(self, connection: Connection) -> int:
        def number(name: str) -> int:
            return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())

        if number("application_id") != _APPLICATION:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            # Another process may have made the tables meanwhile.
            if not sql.inspect(connection).get_table_names():
                self.tables.all.create_all(connection)
                connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION}")
                connection.exec_driver_sql(f"PRAGMA user_version = {self.version}")
            if number("application_id") != _APPLICATION:
                raise MemoryStoreError(f"{self.name}: a database of another program; name another place with --memory")
        return number("user_version")

    def _begin(self, connection: Connection, *, write: bool) -> None:
        if write:
            connection.exec_driver_sql("BEGIN IMMEDIATE")


class PostgresDatabase(Database):
    """The incidents of a team in PostgreSQL; the address is any that PostgreSQL's own programs take."""

    most_beside = 2_000
    meanings = (
        ("42501", "not allowed ({message}): ask the database's owner for the right"),
        ("25006", "this server only reads: name the one that takes changes"),
        ("53100", "the server's disk is full: free space there"),
        ("57014", f"the server needed more than {_STATEMENT_SECONDS} s: try again"),
        ("no answer", "cannot be reached ({message}): check the address, and that the server runs"),
    )

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise MemoryStoreError("A store in PostgreSQL needs psycopg: pip install 'logdiag[team]'") from error

        def connected() -> Any:
            own_timeout = psycopg.conninfo.conninfo_to_dict(address).get("connect_timeout")
            patience = int(own_timeout or _CONNECT_SECONDS)
            return psycopg.connect(address, connect_timeout=patience, fallback_application_name="logdiag")

        engine = sql.create_engine(
            "postgresql+psycopg://", creator=connected, pool_size=1, max_overflow=0, use_native_hstore=False
        )
        tables = Tables("logdiag_", "logdiag_models")
        super().__init__(without_password(address), _index_folder(address), tables, engine)
        self._store = Table("logdiag_store", tables.all, Column("version", Integer, nullable=False))

    def _made(self, connection: Connection) -> int:
        if not sql.inspect(connection).has_table(self._store.name):
            connection.execute(_LOCK)
            if not sql.inspect(connection).has_table(self._store.name):
                self.tables.all.create_all(connection)
                connection.execute(self._store.insert().values(version=self.version))
        return int(connection.scalar(sql.select(self._store.c.version)) or 0)

    def _begin(self, connection: Connection, *, write: bool) -> None:
        connection.execute(sql.text(f"SET LOCAL statement_timeout = '{_STATEMENT_SECONDS}s'"))
        if write:
            connection.execute(_LOCK)


def _values(incident: Incident) -> dict[str, object]:
    texts = ("id", "signature", "fingerprint", "node", "seen_at", "changed_at")
    return {
        **{name: getattr(incident, name) for name in texts},
        "reason": incident.reason.value,
        "outcome": incident.outcome.value,
        "confirmed": bool(incident.confirmed_by),
        "document": to_text(incident),
    }


def _index_folder(address: str) -> str:
    for folder in usable_folders():
        path = os.path.join(folder, f"memory-{hashlib.sha256(address.encode()).hexdigest()[:16]}")
        with suppress(OSError):
            make_private(path)
            return path
    return ""
