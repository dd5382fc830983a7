"""The store of past incidents: what people and earlier diagnoses put in, above what ships with logdiag."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from logdiag.errors import MemoryStoreError
from logdiag.memory.corpus import Corpus, load_corpus
from logdiag.memory.documents import SCHEMA, Merged, better, bounded, imported, now, to_text, utc
from logdiag.memory.embedding import Embedder, load_embedder
from logdiag.memory.incident import PREFIX, Helped, HistoryEntry, Incident, masked
from logdiag.model import Action, Reason
from logdiag.model.plain import plain
from logdiag.settings.places import StrPath, default_memory, without_password

if TYPE_CHECKING:
    from logdiag.memory.database import Database
    from logdiag.memory.nearest import Nearest

# No vowels, and nothing that reads like something else.
_LETTERS = "23456789bcdfghjkmnpqrstvwxyz"
# So many occurrences of one failure are searched for the same one.
_MOST_OCCURRENCES = 200
_MOST_CONFIRMED = 2000
_SEEN_AGAIN = "seen again"


class Store:
    """Past incidents, with those that ship with logdiag; made by `open_store`. Several threads in turn and many
    processes may use it. Failures raise MemoryStoreError: where, what, and the remedy."""

    def __init__(self, address: str, embedder: str | Embedder, patience: float, *, shipped: bool) -> None:
        """Use `open_store`, which checks the address."""
        self.place = without_password(address)
        """The folder or the database's address, without its password."""
        self._address = address
        self._embedder = embedder
        self._patience = patience
        self._shipped = shipped
        self._opened: Database | None = None
        self._nearest: Nearest | None = None
        self.searched_all = True
        """Whether the last `nearest` saw every incident; False when giving them vectors took too long."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shipped(self) -> tuple[Incident, ...]:
        """The incidents that ship with logdiag."""
        return self._corpus.incidents

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The ids of incidents that were left out so far because their rows cannot be read."""
        return tuple(sorted(self._opened.unreadable)) if self._opened else ()

    def add(self, incident: Incident) -> Incident:
        """Adds an incident and returns it as stored: masked, with an id and a time if it had none."""
        return self.add_all([incident])[0]

    def add_all(self, incidents: Iterable[Incident]) -> tuple[Incident, ...]:
        """Adds all incidents in one transaction, or none; returns them as `add` does."""
        requested = tuple(incidents)
        added = tuple(map(self._checked, requested))
        with self._database.transaction(write=True):
            taken = [item.id for item in requested if item.id and self._database.find(id=item.id)]
            if taken:
                raise MemoryStoreError(f"{self.place}: {taken[0]}: is there already; correct it, or leave the id out")
            self._database.add(added)
        return added

    def remember(self, incident: Incident) -> tuple[Incident, bool]:
        """Adds an incident, or counts once more what the store has; returns it as stored, and whether it was there."""
        new = replace(self._checked(incident), id=_new_id())
        with self._database.transaction(write=True):
            for old in self._database.find(fingerprint=new.fingerprint, limit=_MOST_OCCURRENCES):
                if _same_failure(old, new):
                    return self._database.put(_as_kept(_seen_again(old, new))), True
            new = replace(new, history=(*new.history, HistoryEntry(now(), "", "remembered")))
            self._database.add([new])
        return new, False

    def get(self, identity: str) -> Incident:
        """The incident with this id. Raises MemoryStoreError if there is none."""
        shipped = self.shipped if identity.startswith(PREFIX) else ()
        matches = [item for item in shipped if item.id == identity] or self._find(id=identity)
        if not matches:
            raise self._unknown(identity)
        return matches[0]

    def list(
        self,
        *,
        reason: Reason | None = None,
        node: str | None = None,
        since: str | None = None,
        limit: int | None = None,
    ) -> tuple[Incident, ...]:
        """Incidents, the latest first, the shipped ones last; `since` is an ISO 8601 time or date."""
        wanted = {"reason": reason.value if reason else "", "node": node or "", "since": utc(since or "")}
        incidents = self._find(limit=limit, **{name: value for name, value in wanted.items() if value})
        if not node and not since:
            incidents += tuple(item for item in self.shipped if reason in (None, item.reason))
        return incidents[:limit]

    def known(self, fingerprints: Iterable[str]) -> Mapping[str, Sequence[Incident]]:
        """The incidents that people confirmed in this store, by fingerprint, the latest first."""
        by_fingerprint: dict[str, tuple[Incident, ...]] = {}
        for incident in self._find(fingerprint=tuple(set(fingerprints)), confirmed=True, limit=_MOST_CONFIRMED):
            by_fingerprint[incident.fingerprint] = (*by_fingerprint.get(incident.fingerprint, ()), incident)
        return by_fingerprint

    def confirmed(self, most: int | None = None) -> tuple[Incident, ...]:
        """The incidents that people confirmed in this store, the latest first, at most `most`."""
        return self._find(confirmed=True, limit=most)

    def by_fingerprint(self, wanted: str, limit: int = 100) -> tuple[Incident, ...]:
        """The incidents with this fingerprint, the latest first, the shipped ones last."""
        return (*self._find(fingerprint=wanted, limit=limit), *self._corpus.by_fingerprint(wanted))[:limit]

    def nearest(self, text: str, k: int = 5, *, own: bool = False) -> tuple[tuple[float, Incident], ...]:
        """The `k` incidents most similar to a masked line, with their cosine, best first; `own` leaves out the shipped
        ones. New incidents get their vectors here, so the first search after a large import takes longer."""
        (query,) = self._vectors_by.embed([text])
        scored: list[tuple[float, Incident]] = []
        if self._is_there():
            if self._nearest is None:
                from logdiag.memory.nearest import Nearest

                self._nearest = Nearest(self._database, self._vectors_by)
            began = time.monotonic()
            self.searched_all = self._nearest.catch_up(self._patience)
            self._patience = max(0.0, self._patience - (time.monotonic() - began))
            scored = self._nearest.incidents(query, k)
        if not own:
            scored += self._corpus.nearest(query, k, self._vectors_by)
        return tuple(sorted(scored, key=lambda item: -item[0])[:k])

    def correct(
        self,
        identity: str,
        *,
        by: str,
        reason: Reason | None = None,
        action: Action | None = None,
        remedy: str | None = None,
        cause: str | None = None,
        outcome: Helped | None = None,
    ) -> Incident:
        """Replaces the fields that are not None, and confirms the others, which may be all: `by` says so. A new reason
        clears action, cause, remedy and outcome, a new remedy clears the outcome, unless they are replaced too."""
        if not by.strip():
            raise MemoryStoreError(f"{identity}: confirmed by nobody; say who confirms it")
        _refuse_shipped(identity)
        fields = {"reason": reason, "action": action, "remedy": remedy, "cause": cause, "outcome": outcome}
        corrections: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        if self._is_there():
            with self._database.transaction(write=True):
                for old in self._database.find(id=identity):
                    return self._database.put(_as_kept(_corrected(old, by.strip(), corrections)))
        raise self._unknown(identity)

    def forget(self, identity: str) -> None:
        """Removes an incident for good."""
        _refuse_shipped(identity)
        if not (self._is_there() and self._database.delete(identity)):
            raise self._unknown(identity)

    def count(self) -> int:
        """How many incidents the store holds, without the shipped ones."""
        return self._database.count() if self._is_there() else 0

    def stats(self) -> dict[str, Any]:
        """Counts of the stored incidents, for JSON; the shipped ones are counted only under `shipped`."""
        known = {item.value for item in Reason}
        facts = [item for item in self._database.facts() if item.reason in known] if self._is_there() else []
        return {
            "place": self.place,
            "incidents": len(facts),
            "confirmed": sum(item.confirmed for item in facts),
            "shipped": len(self.shipped),
            "reasons": dict(Counter(item.reason for item in facts).most_common()),
            "outcomes": dict(sorted(Counter(item.outcome for item in facts).items())),
            "first_seen": min((item.seen_at for item in facts), default=""),
            "last_seen": max((item.seen_at for item in facts), default=""),
        }

    def export(self, file: TextIO) -> int:
        """Writes each incident but the shipped ones as a line of JSON; returns how many there were."""
        count = 0
        for page in self._database.pages() if self._is_there() else ():
            file.writelines(to_text(incident, schema=SCHEMA) + "\n" for incident in page)
            count += len(page)
        return count

    def import_(self, file: Iterable[str], name: str = "", *, own: bool = False) -> Merged:
        """Adds the incidents of an export, all or none; see `imported` for `own` and `name`. Where the store has one of
        the same id, the `better` one stays. Raises MemoryStoreError with the problems of all lines."""
        incidents = imported(file, name, self._checked, own=own)
        if not incidents:
            return Merged()
        counts = Counter[str]()
        with self._database.transaction(write=True):
            for new in incidents:
                old = self._database.find(id=new.id)
                result = "added" if not old else "replaced" if better(old[0], new) else "kept"
                counts[result] += 1
                if result != "kept":
                    self._database.put(new)
        return Merged(**counts)

    def close(self) -> None:
        """Closes files and connections; nothing is lost without it."""
        if self._opened is not None:
            self._opened.close()
        self._nearest = None

    @cached_property
    def _corpus(self) -> Corpus:
        return load_corpus() if self._shipped else Corpus()

    @cached_property
    def _vectors_by(self) -> Embedder:
        return load_embedder(self._embedder) if isinstance(self._embedder, str) else self._embedder

    @property
    def _database(self) -> Database:
        """The database, made if there is none. SQLAlchemy is imported only here."""
        if self._opened is None:
            from logdiag.memory.database import PostgresDatabase, SqliteFile

            self._opened = PostgresDatabase(self._address) if self._is_remote else SqliteFile(self._address)
        return self._opened

    @property
    def _is_remote(self) -> bool:
        return self._address.startswith(("postgresql://", "postgres://"))

    def _is_there(self) -> bool:
        """Whether a store exists at the address; asking does not create one."""
        if self._opened is not None or self._is_remote:
            return True
        return os.path.exists(os.path.join(self._address, "incidents.db"))

    def _find(self, **wanted: Any) -> tuple[Incident, ...]:
        """As `Database.find`; empty where there is no store yet."""
        return self._database.find(**wanted) if self._is_there() else ()

    def _checked(self, incident: Incident) -> Incident:
        """The incident as it is stored: with an id, a time, and masked texts, so that no path or address is kept."""
        _refuse_shipped(incident.id)
        signature, window = masked(incident.signature), tuple(map(masked, incident.window))
        if not signature:
            raise MemoryStoreError(f"{self.place}: an incident without a signature; give the line of the failure")
        new = replace(incident, id=incident.id or _new_id(), seen_at=utc(incident.seen_at) or now())
        return _as_kept(replace(new, signature=signature, window=window))

    def _unknown(self, identity: str) -> MemoryStoreError:
        if identity in self.unreadable:
            why = "cannot be read; if a newer logdiag wrote it, upgrade, else remove it with logdiag incidents forget"
            return MemoryStoreError(f"{self.place}: {identity}: {why}")
        return MemoryStoreError(f"{self.place}: {identity}: no such incident; see logdiag incidents list")


def open_store(
    place: StrPath | None = None,
    *,
    embedder: str | Embedder = "static",
    shipped: bool = True,
    patience: float = math.inf,
) -> Store:
    """The store in a folder or at `postgresql://user@host/database`; None is `LOGDIAG_MEMORY` or the user's data
    folder.

    Nothing is written before the first incident. `embedder` is one, or a name for `load_embedder`; without `shipped`
    the incidents that ship are left out; `patience` is how many seconds searches may spend on incidents without a
    vector. Raises MemoryStoreError.
    """
    address = os.fspath(place) if place is not None else default_memory()
    if os.path.exists(address) and not os.path.isdir(address):
        raise MemoryStoreError(f"{address}: not a folder; give the folder of an incident store")
    return Store(address, embedder, patience, shipped=shipped)


StoreOrPlace: TypeAlias = Store | StrPath
"""A store of past failures that the caller opened, or the folder or address of one."""


@contextmanager
def opened(memory: StoreOrPlace, **options: Any) -> Iterator[Store]:
    """Yields the caller's store, which stays open, or opens one with these options and closes it afterwards."""
    if isinstance(memory, Store):
        yield memory
        return
    with open_store(memory, **options) as store:
        yield store


def _same_failure(old: Incident, new: Incident) -> bool:
    """Whether two incidents of the same line are the same failure: one job on one node, or one piece of a log."""
    for name in ("id", "name"):
        if old.job.get(name) and new.job.get(name):
            return old.job[name] == new.job[name] and old.node == new.node
    return bool(old.content) and old.content == new.content


def _corrected(old: Incident, by: str, corrections: Mapping[str, Any]) -> Incident:
    cleared: dict[str, Any] = {}
    if corrections.get("reason", old.reason) is not old.reason:
        cleared = {"action": Action.NONE, "cause": "", "remedy": "", "outcome": Helped.UNKNOWN}
    elif corrections.get("remedy", old.remedy) != old.remedy:
        cleared = {"outcome": Helped.UNKNOWN}
    new = replace(old, **{**cleared, **corrections}, confirmed_by=by)
    changes = []
    for name in ("reason", "action", "outcome", "cause", "remedy"):
        before, after = (plain(getattr(item, name)) or "nothing" for item in (old, new))
        if before != after:
            changes.append(f"{name} {before} -> {after}")
    confirmed = "confirmed again" if old.confirmed_by else "confirmed"
    entry = HistoryEntry(now(), by, f"corrected: {'; '.join(changes)}" if changes else confirmed)
    return replace(new, history=(*old.history, entry))


def _seen_again(old: Incident, new: Incident) -> Incident:
    """An incident counted once more; its time changes only if this is another run of its job."""
    times = old.times_seen + 1
    counted_before = old.history and old.history[-1].what.startswith(_SEEN_AGAIN)
    before = old.history[:-1] if counted_before else old.history
    same_run = old.content == new.content or bool(old.job.get("id"))
    return replace(
        old,
        times_seen=times,
        seen_at=old.seen_at if same_run else max(old.seen_at, new.seen_at),
        job={**new.job, **old.job},
        node=old.node or new.node,
        history=(*before, HistoryEntry(now(), "", f"{_SEEN_AGAIN}, {times} times in all")),
    )


def _as_kept(incident: Incident) -> Incident:
    return replace(bounded(incident), changed_at=now())


def _refuse_shipped(identity: str) -> None:
    if identity.startswith(PREFIX):
        raise MemoryStoreError(f"{identity}: ships with logdiag and cannot be changed; add an incident of your own")


def _new_id() -> str:
    return "i-" + "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(8))
