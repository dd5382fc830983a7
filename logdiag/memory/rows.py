"""The incidents of one database, SQLite or PostgreSQL, by SQLAlchemy; loaded only where there is a store.

What the two have in common is here. How each is opened, what its errors mean and how it finds similar incidents is in
`sqlite.py` and `postgres.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Identity,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    case,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from logdiag.errors import MemoryStoreError
from logdiag.memory.documents import LONGEST_DOCUMENT, Entry, Merged, from_text, now, one_line, to_text
from logdiag.memory.incident import Incident
from logdiag.model import Reason

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder

__all__ = ["Rows", "check_version", "incidents_table", "statements"]

_PAGE = 1000


def incidents_table(name: str) -> Table:
    """The table of incidents: `document` is all there is to know, the other columns are what is searched by."""
    texts = ("id", "signature", "fingerprint", "reason", "outcome", "node")
    table = Table(
        name,
        MetaData(),
        Column("row", BigInteger().with_variant(Integer(), "sqlite"), Identity(always=True), primary_key=True),
        *(Column(text, Text, nullable=False, unique=text == "id") for text in texts),
        # Times are compared as text, whatever the server's language.
        Column("seen_at", Text().with_variant(Text(collation="C"), "postgresql"), nullable=False),
        Column("confirmed", Boolean, nullable=False),
        Column("changed_at", Text, nullable=False),
        Column("document", Text, nullable=False),
        sqlite_autoincrement=True,
    )
    for column in ("fingerprint", "reason", "node"):
        Index(f"{name}_{column}", table.c[column], table.c.seen_at)
    Index(f"{name}_seen", table.c.seen_at)
    return table


def statements(tables: Sequence[Table], dialect: Dialect) -> list[str]:
    """What makes these tables and their indexes where they are not there."""
    made: list[str] = []
    for table in tables:
        made.append(str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        made += [str(CreateIndex(index, if_not_exists=True).compile(dialect=dialect)) for index in indexes]
    return made


def check_version(name: str, version: int, known: int) -> None:
    """Raises MemoryStoreError for a store that a newer logdiag wrote."""
    if version > known:
        raise MemoryStoreError(
            f"{name}: written by a newer logdiag (version {version} of the store, this one knows {known}):"
            " upgrade logdiag, or name another place with --memory"
        )


class Rows(ABC):
    """A database of incidents; may be used from several threads in turn, and by many processes at once. What it cannot
    do raises MemoryStoreError with one sentence."""

    def __init__(self, name: str, table: Table, insert: Callable[[Table], Any]) -> None:
        """`name` is where it is, without a password; `insert` is the dialect's own."""
        self.name = name
        self.unreadable: set[str] = set()
        """The ids of the incidents that were left out so far because their rows cannot be read."""
        self.table = table
        # Without `inline` the database would be asked for the new row's number instead of how many there are.
        self._insert = (
            insert(table)
            .on_conflict_do_nothing(index_elements=["id"])
            .inline()
            .execution_options(preserve_rowcount=True)
        )
        # A row that is too long is not read at all.
        short = func.length(table.c.document) <= LONGEST_DOCUMENT
        self.document = case((short, table.c.document)).label("document")

    @abstractmethod
    def transaction(self, *, write: bool = False) -> AbstractContextManager[Connection]:
        """One transaction: all of it is in the database afterwards, or nothing of it."""

    @abstractmethod
    def nearest(
        self, query: array[float], k: int, embedder: Embedder, patience: float
    ) -> tuple[list[tuple[float, Incident]], bool]:
        """The `k` incidents most similar to a vector, with their cosine, best first; and whether all were
        searched. Incidents without a vector get theirs first, for `patience` seconds at most."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of the database; nothing is lost by not calling it."""

    def insert(self, entries: Sequence[Entry]) -> frozenset[str]:
        """Adds all whose id is not taken; the ids that it added."""
        with self.transaction(write=True) as connection:
            return frozenset(entry.incident.id for entry in entries if self._added(connection, entry))

    def merge(self, entries: Iterable[Entry], better: Callable[[Entry, Entry], bool]) -> Merged:
        """Adds what is not there, and replaces an old entry where `better(old, new)`, all at once or nothing."""
        added = replaced = kept = 0
        with self.transaction(write=True) as connection:
            for entry in entries:
                if self._added(connection, entry):
                    added += 1
                    continue
                row, old = self._locked(connection, entry.incident.id)
                if old is not None and not better(old, entry):
                    kept += 1
                    continue
                replaced += 1
                if old is not None and old.incident.signature == entry.incident.signature:
                    connection.execute(update(self.table).where(self.table.c.row == row), _values(entry))
                else:
                    # A vector belongs to its row for good.
                    self._remove(connection, row)
                    self._added(connection, entry)
        return Merged(added, replaced, kept)

    def change(self, identity: str, change: Callable[[Incident], Incident]) -> Incident | None:
        """Replaces one incident by what `change` makes of it; None when there is none. No other change comes between.

        The signature stays.
        """
        with self.transaction(write=True) as connection:
            row, old = self._locked(connection, identity)
            if old is None:
                if row is None:
                    return None
                raise MemoryStoreError(f"{identity}: cannot be read; remove it with logdiag incidents forget")
            changed = change(old.incident)
            connection.execute(update(self.table).where(self.table.c.row == row), _values(Entry(changed, now())))
        return changed

    def delete(self, identity: str) -> bool:
        """Whether there was such an incident."""
        with self.transaction(write=True) as connection:
            row, _ = self._locked(connection, identity)
            if row is not None:
                self._remove(connection, row)
        return row is not None

    def get(self, identity: str) -> Incident | None:
        """One incident by its id."""
        found = self.read(select(self.document).where(self.table.c.id == identity))
        return from_text(found[0].document, self.name) if found else None

    def find(
        self,
        *,
        reason: Reason | None = None,
        node: str = "",
        since: str = "",
        fingerprints: Sequence[str] = (),
        confirmed: bool = False,
        limit: int | None = None,
    ) -> list[Incident]:
        """Those that are wanted, the latest first; what is left out does not narrow. `since` is compared as text, and
        one of the `fingerprints` is enough."""
        columns = self.table.c
        query = select(columns.id, self.document).order_by(columns.seen_at.desc(), columns.row.desc()).limit(limit)
        if reason:
            query = query.where(columns.reason == reason.value)
        if node:
            query = query.where(columns.node == node)
        if since:
            query = query.where(columns.seen_at >= since)
        if fingerprints:
            query = query.where(columns.fingerprint.in_(fingerprints))
        if confirmed:
            query = query.where(columns.confirmed)
        read = [self.readable(found.id, found.document) for found in self.read(query)]
        return [item for item in read if item is not None]

    def by_rows(self, rows: Sequence[int]) -> dict[int, Incident]:
        """The incidents of these rows that are still there and can be read."""
        columns = self.table.c
        found = self.read(select(columns.row, columns.id, self.document).where(columns.row.in_(rows)))
        read = {item.row: self.readable(item.id, item.document) for item in found}
        return {row: item for row, item in read.items() if item is not None}

    def entries(self) -> Iterator[Entry]:
        """All, in the order in which they were added."""
        columns, last = self.table.c, 0
        page = select(columns.row, columns.id, columns.changed_at, self.document).order_by(columns.row).limit(_PAGE)
        while found := self.read(page.where(columns.row > last)):
            for item in found:
                if (incident := self.readable(item.id, item.document)) is not None:
                    yield Entry(incident, str(item.changed_at))
            last = found[-1].row

    def count(self) -> int:
        """How many there are."""
        return int(self.read(select(func.count()).select_from(self.table))[0][0])

    def tallies(self) -> list[tuple[str, str, bool, int, str, str]]:
        """How many incidents there are of each reason, outcome, and whether they are confirmed; with the earliest and
        the latest `seen_at`."""
        columns = self.table.c
        of = (columns.reason, columns.outcome, columns.confirmed)
        query = select(*of, func.count(), func.min(columns.seen_at), func.max(columns.seen_at)).group_by(*of)
        return [(reason, outcome, bool(sure), many, *span) for reason, outcome, sure, many, *span in self.read(query)]

    def read(self, query: Select[Any]) -> Sequence[Any]:
        """The rows that a query finds."""
        with self.transaction() as connection:
            return connection.execute(query).all()

    def readable(self, identity: object, text: object) -> Incident | None:
        """The incident of a row; None, and its id among the `unreadable`, where it cannot be read."""
        try:
            return from_text(text, "")
        except MemoryStoreError:
            self.unreadable.add(one_line(str(identity), 40))
            return None

    def _added(self, connection: Connection, entry: Entry) -> bool:
        return connection.execute(self._insert, _values(entry)).rowcount == 1

    def _locked(self, connection: Connection, identity: str) -> tuple[int | None, Entry | None]:
        """The row of an incident and its entry, which nobody else changes until the transaction ends; no row where
        there is none, and no entry where it cannot be read."""
        columns = self.table.c
        query = select(columns.row, self.document, columns.changed_at).where(columns.id == identity).with_for_update()
        found = connection.execute(query).first()
        if found is None:
            return None, None
        item = self.readable(identity, found.document)
        return found.row, None if item is None else Entry(item, str(found.changed_at))

    def _remove(self, connection: Connection, row: int | None) -> None:
        connection.execute(delete(self.table).where(self.table.c.row == row))


def _values(entry: Entry) -> dict[str, object]:
    incident = entry.incident
    return {
        "id": incident.id,
        "signature": incident.signature,
        "fingerprint": incident.fingerprint,
        "reason": incident.reason.value,
        "outcome": incident.outcome.value,
        "node": incident.node,
        "seen_at": incident.seen_at,
        "confirmed": bool(incident.confirmed_by),
        "changed_at": entry.changed_at,
        "document": to_text(incident),
    }
