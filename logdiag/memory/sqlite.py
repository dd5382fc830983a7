"""Incidents in a SQLite file, with an index for similarity search beside it.

    PLACE/incidents.db        the incidents and their vectors: all there is to know
    PLACE/index-*.ldix        made from it, and made anew when missing or torn; the database names the one in force

The database is in WAL mode: readers never wait, writers queue up, and what was committed is on the disk. Nothing is
written before the first incident is added.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Incident, Outcome
from logdiag.memory.rows import LONGEST_DOCUMENT, Entry, Merged, Tally, Wanted, from_text, now, readable, to_text
from logdiag.model import Reason

if TYPE_CHECKING:
    import sqlite3

    from logdiag.memory.embedding import Embedder
    from logdiag.memory.index import Vectors
    from logdiag.memory.neighbours import Neighbours

__all__ = ["SqliteRows"]

_FILE = "incidents.db"
_APPLICATION = 0x6C6F6769
_VERSION = 1
_PATIENCE_SECONDS = 30.0
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS incidents (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    signature TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    reason TEXT NOT NULL,
    outcome TEXT NOT NULL,
    node TEXT NOT NULL,
    seen_at TEXT NOT NULL,
    confirmed INTEGER NOT NULL,
    changed_at TEXT NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS incidents_fingerprint ON incidents (fingerprint, seen_at);
CREATE INDEX IF NOT EXISTS incidents_reason ON incidents (reason, seen_at);
CREATE INDEX IF NOT EXISTS incidents_node ON incidents (node, seen_at);
CREATE INDEX IF NOT EXISTS incidents_seen ON incidents (seen_at);
CREATE TABLE IF NOT EXISTS embedders (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    index_file TEXT NOT NULL DEFAULT '',
    indexed_to INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS vectors (
    embedder INTEGER NOT NULL,
    row INTEGER NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (embedder, row)
);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_COLUMNS = "id, signature, fingerprint, reason, outcome, node, seen_at, confirmed, changed_at, document"
_INSERT = f"INSERT OR IGNORE INTO incidents ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# A row that is too long is not read at all.
_DOCUMENT = f"CASE WHEN length(document) <= {LONGEST_DOCUMENT} THEN document END"
_SET = ", ".join(f"{name.strip()} = ?" for name in _COLUMNS.split(",")[1:])
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


class SqliteRows:
    """The incidents of one folder; may be used from several threads in turn, and by many processes at once."""

    def __init__(self, folder: str) -> None:
        self.name = folder
        self.unreadable: set[str] = set()
        self._file = os.path.join(folder, _FILE)
        self._connection: sqlite3.Connection | None = None
        # What the files looked like when they were opened as if nobody could change them; None otherwise.
        self._unchanged: object = None
        self._neighbours: Neighbours | None = None

    def insert(self, entries: Sequence[Entry]) -> frozenset[str]:
        """As `Rows.insert`."""
        added = set()
        with self.writing() as connection:
            for entry in entries:
                if connection.execute(_INSERT, _values(entry)).rowcount:
                    added.add(entry.incident.id)
        return frozenset(added)

    def merge(self, entries: Iterable[Entry], better: Callable[[Entry, Entry], bool]) -> Merged:
        """As `Rows.merge`."""
        added = replaced = kept = 0
        with self.writing() as connection:
            for entry in entries:
                if connection.execute(_INSERT, _values(entry)).rowcount:
                    added += 1
                    continue
                row, old = self._entry(connection, entry.incident.id)
                if old is not None and not better(old, entry):
                    kept += 1
                    continue
                replaced += 1
                if old is not None and old.incident.signature == entry.incident.signature:
                    connection.execute(f"UPDATE incidents SET {_SET} WHERE row = ?", (*_values(entry)[1:], row))
                else:
                    # A vector belongs to its row for good.
                    _delete(connection, row)
                    connection.execute(_INSERT, _values(entry))
        return Merged(added, replaced, kept)

    def change(self, identity: str, change: Callable[[Incident], Incident]) -> Incident | None:
        """As `Rows.change`."""
        if self.get(identity) is None:
            return None
        with self.writing() as connection:
            row, old = self._entry(connection, identity)
            if old is None:
                raise MemoryStoreError(f"{identity}: cannot be read or was forgotten; see logdiag incidents list")
            changed = change(old.incident)
            connection.execute(f"UPDATE incidents SET {_SET} WHERE row = ?", (*_values(Entry(changed, now()))[1:], row))
        return changed

    def delete(self, identity: str) -> bool:
        """As `Rows.delete`."""
        if not self.read("SELECT 1 FROM incidents WHERE id = ?", (identity,)):
            return False
        with self.writing() as connection:
            found = connection.execute("SELECT row FROM incidents WHERE id = ?", (identity,)).fetchone()
            if found:
                _delete(connection, found[0])
        return bool(found)

    def get(self, identity: str) -> Incident | None:
        """As `Rows.get`."""
        found = self.read(f"SELECT {_DOCUMENT} FROM incidents WHERE id = ?", (identity,))
        return from_text(found[0][0], self._file) if found else None

    def find(self, wanted: Wanted) -> list[Incident]:
        """As `Rows.find`."""
        conditions = {
            "fingerprint IN (SELECT value FROM json_each(?))": json.dumps(wanted.fingerprints)
            * bool(wanted.fingerprints),
            "confirmed = ?": int(wanted.confirmed),
            "reason = ?": wanted.reason.value if wanted.reason else "",
            "node = ?": wanted.node,
            "seen_at >= ?": wanted.since,
        }
        given = {condition: value for condition, value in conditions.items() if value}
        where = f" WHERE {' AND '.join(given)}" if given else ""
        query = f"SELECT id, {_DOCUMENT} FROM incidents{where} ORDER BY seen_at DESC, row DESC LIMIT ?"
        found = self.read(query, (*given.values(), -1 if wanted.limit is None else wanted.limit))
        read = [readable(identity, text, self.unreadable) for identity, text in found]
        return [item for item in read if item is not None]

    def entries(self) -> Iterator[Entry]:
        """As `Rows.entries`."""
        last = 0
        while found := self.read(
            f"SELECT row, id, {_DOCUMENT}, changed_at FROM incidents WHERE row > ? ORDER BY row LIMIT 1000", (last,)
        ):
            for _, identity, text, changed_at in found:
                if (item := readable(identity, text, self.unreadable)) is not None:
                    yield Entry(item, str(changed_at))
            last = found[-1][0]

    def exists(self) -> bool:
        """As `Rows.exists`."""
        return self._connect() is not None

    def count(self) -> int:
        """As `Rows.count`."""
        found = self.read("SELECT count(*) FROM incidents")
        return int(found[0][0]) if found else 0

    def tallies(self) -> list[Tally]:
        """As `Rows.tallies`."""
        found = self.read(
            "SELECT reason, outcome, confirmed, count(*), min(seen_at), max(seen_at) FROM incidents GROUP BY 1, 2, 3"
        )
        reasons, outcomes = {item.value for item in Reason}, {item.value for item in Outcome}
        return [
            Tally(Reason(reason), Outcome(outcome), bool(confirmed), count, str(first), str(last))
            for reason, outcome, confirmed, count, first, last in found
            if reason in reasons and outcome in outcomes
        ]

    def nearest(
        self, queries: Vectors, k: int, embedder: Embedder, patience: float
    ) -> tuple[list[tuple[float, Incident]], bool]:
        """As `Rows.nearest`: exact below 50,000 incidents."""
        if self._connect() is None:
            return [], True
        from logdiag.memory.neighbours import Neighbours

        if self._neighbours is None or self._neighbours.embedder.name != embedder.name:
            self._neighbours = Neighbours(self, embedder)
        asked = k + 16
        searched_all = self._neighbours.catch_up(patience)
        while True:
            scored = self._neighbours.search(queries, asked)
            incidents = self._by_rows([row for _, row in scored])
            found = [(score, incidents[row]) for score, row in scored if row in incidents]
            if len(found) >= k or len(scored) < asked:
                return found[:k], searched_all
            asked *= 4

    def close(self) -> None:
        """Lets go of the file; what was learnt is in it already."""
        self._neighbours = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows that a query finds; none where there is no store yet."""
        connection = self._connect()
        if connection is None:
            return []
        with self._mapped():
            return connection.execute(query, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is on the disk afterwards, or nothing of it."""
        connection = self._connect(create=True)
        assert connection is not None
        with self._mapped():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _by_rows(self, rows: Sequence[int]) -> dict[int, Incident]:
        found = self.read(
            f"SELECT row, id, {_DOCUMENT} FROM incidents WHERE row IN (SELECT value FROM json_each(?))",
            (json.dumps(rows),),
        )
        read = {row: readable(identity, text, self.unreadable) for row, identity, text in found}
        return {row: item for row, item in read.items() if item is not None}

    def _entry(self, connection: sqlite3.Connection, identity: str) -> tuple[int, Entry | None]:
        """An incident and its row; None for one that was forgotten meanwhile or cannot be read."""
        row, text, changed_at = connection.execute(
            f"SELECT row, {_DOCUMENT}, changed_at FROM incidents WHERE id = ?", (identity,)
        ).fetchone() or (0, None, "")
        item = readable(identity, text, self.unreadable) if row else None
        return row, Entry(item, str(changed_at)) if item is not None else None

    def _connect(self, *, create: bool = False) -> sqlite3.Connection | None:
        """The connection; None where there is no store and none shall be made."""
        if self._connection is not None and self._unchanged and self._unchanged != _look(self._file):
            self.close()
        if self._connection is None:
            if not create and not os.path.exists(self._file):
                if os.path.exists(self.name) and not os.path.isdir(self.name):
                    raise self._no_folder()
                return None
            if create:
                self._make_folder()
            look = _look(self._file)
            with self._mapped():
                self._connection, frozen = _opened(self._file, create=create)
            self._unchanged = look if frozen else None
        return self._connection

    def _make_folder(self) -> None:
        try:
            os.makedirs(self.name, mode=0o700, exist_ok=True)
            # Commands and names of jobs are nobody else's: SQLite gives the files beside it the same permissions.
            with suppress(FileExistsError):
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except (FileExistsError, NotADirectoryError) as error:
            raise self._no_folder() from error
        except OSError as error:
            raise MemoryStoreError(
                f"{self.name}: cannot be made ({error.strerror}); name another place with --memory"
            ) from error

    def _no_folder(self) -> MemoryStoreError:
        return MemoryStoreError(f"{self.name}: not a folder; give the folder of an incident store")

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        import sqlite3  # a diagnosis without a store does not load it

        try:
            yield
        except sqlite3.Error as error:
            said = str(error)
            meaning = next((meaning for part, meaning in _SAYINGS if part in said), f"{said}; run it again")
            raise MemoryStoreError(f"{self._file}: {meaning}") from error


def _opened(file: str, *, create: bool) -> tuple[sqlite3.Connection, bool]:
    """A connection to a store of this version, and whether it takes the file for one that nobody changes."""
    import sqlite3

    frozen = False
    connection = _connection(f"{_uri(file)}?mode={'rwc' if create else 'rw'}")
    try:
        try:
            version, application = _version(connection)
        except sqlite3.OperationalError:
            # WAL needs a second file, which a read-only folder does not take; without changes under way, none is due.
            waiting = f"{file}-wal"
            if (
                create
                or os.access(os.path.dirname(file), os.W_OK)
                or (os.path.exists(waiting) and os.path.getsize(waiting))
            ):
                raise
            connection.close()
            connection, frozen = _connection(f"{_uri(file)}?immutable=1"), True
            version, application = _version(connection)
        if version > _VERSION and application == _APPLICATION:
            raise MemoryStoreError(
                f"{file}: written by a newer logdiag (version {version} of the store, this one knows {_VERSION}):"
                " upgrade logdiag, or name another place with --memory"
            )
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
    import sqlite3

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
    import sqlite3

    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            return
        except sqlite3.OperationalError as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


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
        int(bool(incident.confirmed_by)),
        entry.changed_at,
        to_text(incident),
    )


def _delete(connection: sqlite3.Connection, row: int) -> None:
    connection.execute("DELETE FROM vectors WHERE embedder IN (SELECT number FROM embedders) AND row = ?", (row,))
    connection.execute("DELETE FROM incidents WHERE row = ?", (row,))
