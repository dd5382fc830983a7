"""The incidents of one database, SQLite or PostgreSQL, by SQLAlchemy; loaded only where there is a store.

How each of the two is opened is in `sqlite.py` and `postgres.py`; all else is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql
from sqlalchemy import Column, Connection, Engine, Integer, Select, Table, Text
from sqlalchemy.exc import DBAPIError

from logdiag.errors import MemoryStoreError
from logdiag.memory.documents import LONGEST_DOCUMENT, one_line, read_incident, to_text
from logdiag.memory.incident import Incident

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder
    from logdiag.memory.nearest import Nearest

_PAGE = 1000
# Beside those that are asked for, as many may have been forgotten since the index was made.
_FORGOTTEN = 16


class Tables:
    """What a database holds: incidents, models that made vectors, and the vectors of the incidents' signatures."""

    def __init__(self, prefix: str, embedders: str) -> None:
        self.all = sql.MetaData()
        texts = ("id", "signature", "fingerprint", "reason", "outcome", "node")
        row = sql.BigInteger().with_variant(Integer(), "sqlite")
        # `document` is all there is to know, the other columns are what is searched by.
        self.incidents = Table(
            f"{prefix}incidents",
            self.all,
            Column("row", row, sql.Identity(always=True), primary_key=True),
            *(Column(text, Text, nullable=False, unique=text == "id") for text in texts),
            # Times are compared as text, whatever the server's language.
            Column("seen_at", Text().with_variant(Text(collation="C"), "postgresql"), nullable=False),
            Column("confirmed", sql.Boolean, nullable=False),
            Column("changed_at", Text, nullable=False),
            Column("document", Text, nullable=False),
            sqlite_autoincrement=True,
        )
        for column in ("fingerprint", "reason", "node"):
            sql.Index(f"{prefix}incidents_{column}", self.incidents.c[column], self.incidents.c.seen_at)
        sql.Index(f"{prefix}incidents_seen", self.incidents.c.seen_at)
        self.embedders = Table(
            embedders,
            self.all,
            Column("number", Integer, primary_key=True),
            Column("name", Text, nullable=False, unique=True),
        )
        self.vectors = Table(
            f"{prefix}vectors",
            self.all,
            Column("embedder", Integer, primary_key=True, autoincrement=False),
            Column("row", row, primary_key=True, autoincrement=False),
            Column("vector", sql.LargeBinary, nullable=False),
        )


class Database(ABC):
    """A database of incidents; may be used from several threads in turn, and by many processes at once. What it cannot
    do raises MemoryStoreError with one sentence."""

    version = 1
    """Of the tables; a newer one is refused."""
    most_beside: int
    """So many vectors are searched without an index."""
    meanings: Sequence[tuple[str, str]]
    """What an error's code or words hold, and what that means for people; `{said}` stands for its words."""

    def __init__(self, name: str, index_folder: str, tables: Tables, engine: Engine) -> None:
        """`name` is where it is, without a password; `index_folder` where indexes for the search lie, empty where there
        is no such place."""
        self.name = name
        self.index_folder = index_folder
        self.tables = tables
        self.unreadable: set[str] = set()
        """The ids of the incidents that were left out so far because their rows cannot be read."""
        self._engine = engine
        self._prepared = False
        self._nearest: Nearest | None = None

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        """All of it is in the database afterwards, or nothing of it; one writes at a time."""
        try:
            if not self._prepared:
                with self._engine.begin() as connection:
                    if (version := self._prepare(connection)) > self.version:
                        raise MemoryStoreError(
                            f"{self.name}: written by a newer logdiag (version {version} of the store, this one knows"
                            f" {self.version}): upgrade logdiag, or name another place with --memory"
                        )
                self._prepared = True
            with self._engine.begin() as connection:
                self._begin(connection, write=write)
                yield connection
        except DBAPIError as error:
            said = " ".join(str(error.orig).split()) or type(error.orig).__name__
            code = getattr(error.orig, "sqlstate", said) or "no answer"
            meaning = next((meaning for part, meaning in self.meanings if part in code), "{said}; run it again")
            raise MemoryStoreError(f"{self.name}: {meaning.format(said=said)}") from error.orig
        finally:
            if not self._prepared:
                self.close()

    @contextmanager
    def rows(self, *, write: bool = False) -> Iterator[Rows]:
        """The incidents, for one transaction."""
        with self.transaction(write=write) as connection:
            yield Rows(connection, self)

    def nearest(
        self, query: array[float], k: int, embedder: Embedder, patience: float
    ) -> tuple[list[tuple[float, Incident]], bool]:
        """The `k` incidents most similar to a vector, with their cosine, best first; and whether all were searched.
        Incidents without a vector get theirs first; that takes `patience` seconds at most."""
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
        """Lets go of the database; nothing is lost by not calling it."""
        self._engine.dispose()
        self._prepared = False
        self._nearest = None

    @abstractmethod
    def _prepare(self, connection: Connection) -> int:
        """Makes the tables where there are none; the version of those that are there."""

    @abstractmethod
    def _begin(self, connection: Connection, *, write: bool) -> None:
        """What comes first in a transaction; one that writes waits for those before it."""


class Rows:
    """The incidents as one transaction sees and changes them."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database
        self._table = database.tables.incidents
        columns = self._table.c
        # A row that is too long is not read at all.
        document = sql.case((sql.func.length(columns.document) <= LONGEST_DOCUMENT, columns.document)).label("document")
        self._all = sql.select(columns.row, columns.id, columns.changed_at, document)

    def find(self, *, since: str = "", limit: int | None = None, **wanted: object) -> list[Incident]:
        """Those whose columns have these values, the latest first; of a tuple of values one is enough. `since` is
        compared with `seen_at` as text. A row that cannot be read is left out."""
        columns = self._table.c
        query = self._all.order_by(columns.seen_at.desc(), columns.row.desc()).limit(limit)
        if since:
            query = query.where(columns.seen_at >= since)
        for name, value in wanted.items():
            query = query.where(columns[name].in_(value) if isinstance(value, tuple) else columns[name] == value)
        return list(self._read(query).values())

    def by_rows(self, rows: Sequence[int]) -> dict[int, Incident]:
        """The incidents of these rows that are still there and can be read."""
        return self._read(self._all.where(self._table.c.row.in_(rows)))

    def after(self, row: int) -> tuple[int | None, list[Incident]]:
        """The next incidents in the order in which they were added, and the last row of them; None after the last."""
        number = self._table.c.row
        last = self._connection.scalars(sql.select(number).where(number > row).order_by(number).limit(_PAGE)).all()
        found = self._read(self._all.where(number > row, number <= last[-1]).order_by(number)) if last else {}
        return last[-1] if last else None, list(found.values())

    def count(self) -> int:
        """How many there are."""
        return int(self._connection.scalar(sql.select(sql.func.count()).select_from(self._table)) or 0)

    def facts(self) -> Sequence[Any]:
        """Of each incident `reason`, `outcome`, `confirmed` and `seen_at`, whether it can be read or not."""
        columns = self._table.c
        query = sql.select(columns.reason, columns.outcome, columns.confirmed, columns.seen_at)
        return self._connection.execute(query).all()

    def add(self, incidents: Iterable[Incident]) -> None:
        """Adds incidents whose ids are not taken."""
        if values := [_values(item) for item in incidents]:
            self._connection.execute(sql.insert(self._table), values)

    def put(self, incident: Incident) -> Incident:
        """Adds an incident, or replaces the one of its id; gives it back."""
        own = self._table.c.id == incident.id
        if self._connection.scalar(sql.select(self._table.c.signature).where(own)) == incident.signature:
            self._connection.execute(sql.update(self._table).where(own), _values(incident))
        else:
            self.delete(incident.id)  # a vector belongs to its row for good
            self.add([incident])
        return incident

    def delete(self, identity: str) -> bool:
        """Whether there was such an incident."""
        row = self._connection.scalar(sql.select(self._table.c.row).where(self._table.c.id == identity))
        for table in (self._database.tables.vectors, self._table):
            self._connection.execute(sql.delete(table).where(table.c.row == row))
        return row is not None

    def _read(self, query: Select[Any]) -> dict[int, Incident]:
        """The incidents that a query finds, by their rows, in its order."""
        found: dict[int, Incident] = {}
        for item in self._connection.execute(query):
            incident, _ = read_incident(item.document)
            if incident is None:
                self._database.unreadable.add(one_line(str(item.id), 40))
            else:
                found[item.row] = replace(incident, changed_at=str(item.changed_at))
        return found


def _values(incident: Incident) -> dict[str, object]:
    texts = ("id", "signature", "fingerprint", "node", "seen_at", "changed_at")
    return {
        **{name: getattr(incident, name) for name in texts},
        "reason": incident.reason.value,
        "outcome": incident.outcome.value,
        "confirmed": bool(incident.confirmed_by),
        "document": to_text(incident),
    }
