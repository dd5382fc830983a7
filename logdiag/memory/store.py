"""The store of past incidents: what people and earlier diagnoses put in, above what ships with logdiag.

with open_store("/srv/logdiag") as store:        # or postgresql://...
    incident = store.add(Incident("", masked(line), Reason.ECC_ERROR, Action.RESTART_EXCLUDING_NODE))
    store.confirm(incident.id, by="mira", outcome=Helped.WORKED)
    store.nearest(masked(other_line), 5)         # similar; needs the extra `memory`
"""

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
from logdiag.memory.incident import PREFIX, Helped, Incident, Said, masked
from logdiag.model import Action, Reason
from logdiag.model.plain import plain
from logdiag.settings.places import StrPath, default_memory, without_password

if TYPE_CHECKING:
    from logdiag.memory.database import Database
    from logdiag.memory.nearest import Nearest

# No vowels, and nothing that reads like something else.
_LETTERS = "23456789bcdfghjkmnpqrstvwxyz"
# Occurrences of one failure among which the same one is looked for.
_MOST_OCCURRENCES = 200
_MOST_CONFIRMED = 2000
_SEEN_AGAIN = "seen again"


class Store:
    """Past incidents, with those that ship with logdiag; made by `open_store`. Several threads in turn and many
    processes may use it. Failures raise MemoryStoreError: where, what, and the remedy."""

    def __init__(self, place: str, embedder: str | Embedder, patience: float, *, shipped: bool) -> None:
        """As `open_store` makes it."""
        self.place = without_password(place)
        """Where it is, without a password."""
        self._address = place
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
        """Adds an incident, and gives it as it was stored: masked, with an id and a time where it had none."""
        return self.add_all([incident])[0]

    def add_all(self, incidents: Iterable[Incident]) -> tuple[Incident, ...]:
        """As `add`, all at once or none."""
        given = tuple(incidents)
        added = tuple(map(self._checked, given))
        with self._database.transaction(write=True):
            taken = [item.id for item in given if item.id and self._database.find(id=item.id)]
            if taken:
                raise MemoryStoreError(f"{self.place}: {taken[0]}: is there already; correct it, or leave the id out")
            self._database.add(added)
        return added

    def remember(self, incident: Incident) -> tuple[Incident, bool]:
        """Adds an incident, or counts it once more where it is there: of the same line and job, or of the same piece of
        a log. What is stored, and whether it was there."""
        new = replace(self._checked(incident), id=_new_id())
        with self._database.transaction(write=True):
            for old in self._database.find(fingerprint=new.fingerprint, limit=_MOST_OCCURRENCES):
                if _same_failure(old, new):
                    return self._database.put(_as_kept(_seen_again(old, new))), True
            new = replace(new, history=(*new.history, Said(now(), "", "remembered")))
            self._database.add([new])
        return new, False

    def get(self, identity: str) -> Incident:
        """One incident by its id."""
        shipped = self.shipped if identity.startswith(PREFIX) else ()
        found = [item for item in shipped if item.id == identity] or self._find(id=identity)
        if not found:
            raise self._unknown(identity)
        return found[0]

    def list(
        self,
        *,
        reason: Reason | None = None,
        node: str | None = None,
        since: str | None = None,
        limit: int | None = None,
    ) -> tuple[Incident, ...]:
        """The latest first, the shipped ones last; `since` is an ISO 8601 time or date."""
        wanted = {"reason": reason.value if reason else "", "node": node or "", "since": utc(since or "")}
        found = self._find(limit=limit, **{name: value for name, value in wanted.items() if value})
        if not node and not since:
            found += tuple(item for item in self.shipped if reason in (None, item.reason))
        return found[:limit]

    def known(self, fingerprints: Iterable[str]) -> Mapping[str, Sequence[Incident]]:
        """What people confirmed here of exactly these failures: for each fingerprint its confirmed incidents, the
        latest first, those that ship with logdiag left out."""
        found: dict[str, tuple[Incident, ...]] = {}
        for incident in self._find(fingerprint=tuple(set(fingerprints)), confirmed=True, limit=_MOST_CONFIRMED):
            found[incident.fingerprint] = (*found.get(incident.fingerprint, ()), incident)
        return found

    def confirmed(self, most: int | None = None) -> tuple[Incident, ...]:
        """What people confirmed here, the latest first, at most so many."""
        return self._find(confirmed=True, limit=most)

    def by_fingerprint(self, wanted: str, limit: int = 100) -> tuple[Incident, ...]:
        """Occurrences of exactly this failure, the latest first, the shipped ones last."""
        return (*self._find(fingerprint=wanted, limit=limit), *self._corpus.by_fingerprint(wanted))[:limit]

    def nearest(self, text: str, k: int = 5, *, own: bool = False) -> tuple[tuple[float, Incident], ...]:
        """The `k` incidents most like a masked line, with their cosine, best first; with `own` without the shipped
        ones.

        New incidents get their vectors here, so the first search after a large import takes longer (see
        `searched_all`).
        """
        (query,) = self._vectors_by.embed([text])
        found: list[tuple[float, Incident]] = []
        if self._is_there():
            if self._nearest is None:
                from logdiag.memory.nearest import Nearest

                self._nearest = Nearest(self._database, self._vectors_by)
            began = time.monotonic()
            self.searched_all = self._nearest.catch_up(self._patience)
            self._patience = max(0.0, self._patience - (time.monotonic() - began))
            found = self._nearest.incidents(query, k)
        if not own:
            found += self._corpus.nearest(query, k, self._vectors_by)
        return tuple(sorted(found, key=lambda item: -item[0])[:k])

    def confirm(self, identity: str, by: str, outcome: Helped | None = None) -> Incident:
        """Says that reason and remedy are right, and whether the remedy helped."""
        return self.correct(identity, outcome=outcome, by=by)

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
        """Replaces what is given, and confirms the rest. Another reason drops the old one's cause, remedy, outcome and
        action where they are not given; another remedy drops the outcome."""
        if not by.strip():
            raise MemoryStoreError(f"{identity}: confirmed by nobody; say who confirms it")
        _refuse_shipped(identity)
        given = {"reason": reason, "action": action, "remedy": remedy, "cause": cause, "outcome": outcome}
        told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self.get(identity)
        with self._database.transaction(write=True):
            for old in self._database.find(id=identity):
                return self._database.put(_as_kept(_corrected(old, by.strip(), told)))
        raise self._unknown(identity)

    def forget(self, identity: str) -> None:
        """Removes an incident for good."""
        _refuse_shipped(identity)
        if not (self._is_there() and self._database.delete(identity)):
            raise self._unknown(identity)

    def count(self) -> int:
        """How many incidents it holds beside the shipped ones."""
        return self._database.count() if self._is_there() else 0

    def stats(self) -> dict[str, Any]:
        """What it holds, in numbers, without the shipped incidents, which `shipped` counts."""
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
        """Writes every incident but the shipped ones as a line of JSON; how many there were."""
        count = 0
        for found in self._database.pages() if self._is_there() else ():
            file.writelines(to_text(incident, schema=SCHEMA) + "\n" for incident in found)
            count += len(found)
        return count

    def import_(self, file: Iterable[str], name: str = "", *, own: bool = False) -> Merged:
        """Takes in what `export` wrote, all or nothing; see `imported` for `own` and `name`. Of two forms of one
        incident the `better` one stays. Raises MemoryStoreError with the problems of all lines."""
        given = imported(file, name, self._checked, own=own)
        if not given:
            return Merged()
        done = Counter[str]()
        with self._database.transaction(write=True):
            for new in given:
                old = self._database.find(id=new.id)
                what = "added" if not old else "replaced" if better(old[0], new) else "kept"
                done[what] += 1
                if what != "kept":
                    self._database.put(new)
        return Merged(**done)

    def close(self) -> None:
        """Lets go of its files or of its connection; nothing is lost by not calling it."""
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
        """The database, which is made where there is none. Its library is loaded only here."""
        if self._opened is None:
            from logdiag.memory.database import PostgresDatabase, SqliteFile

            self._opened = PostgresDatabase(self._address) if self._is_remote else SqliteFile(self._address)
        return self._opened

    @property
    def _is_remote(self) -> bool:
        return self._address.startswith(("postgresql://", "postgres://"))

    def _is_there(self) -> bool:
        """Whether anybody added to it: looking makes no store."""
        if self._opened is not None or self._is_remote:
            return True
        return os.path.exists(os.path.join(self._address, "incidents.db"))

    def _find(self, **wanted: Any) -> tuple[Incident, ...]:
        """As `Database.find`; nothing where there is no store yet."""
        return self._database.find(**wanted) if self._is_there() else ()

    def _checked(self, incident: Incident) -> Incident:
        """As it is stored: masked, so that no path or address is kept, with an id and a time."""
        _refuse_shipped(incident.id)
        signature, window = masked(incident.signature), tuple(map(masked, incident.window))
        if not signature:
            raise MemoryStoreError(
                f"{self.place}: an incident without a signature; give the line that named the failure"
            )
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
    named = os.fspath(place) if place is not None else default_memory()
    if os.path.exists(named) and not os.path.isdir(named):
        raise MemoryStoreError(f"{named}: not a folder; give the folder of an incident store")
    return Store(named, embedder, patience, shipped=shipped)


StoreOrPlace: TypeAlias = Store | StrPath
"""A store of past failures that a caller opened, or where there is one."""


@contextmanager
def opened(memory: StoreOrPlace, **options: Any) -> Iterator[Store]:
    """The caller's store, which stays open, or one that is opened with these options and closed again."""
    if isinstance(memory, Store):
        yield memory
        return
    with open_store(memory, **options) as store:
        yield store


def _same_failure(old: Incident, new: Incident) -> bool:
    """Whether two incidents of one line are one: of the same job on the same node, or the same piece of a log."""
    for name in ("id", "name"):
        if old.job.get(name) and new.job.get(name):
            return old.job[name] == new.job[name] and old.node == new.node
    return bool(old.content) and old.content == new.content


def _corrected(old: Incident, by: str, told: Mapping[str, Any]) -> Incident:
    """An incident with what a person says of it; its history says what became what."""
    fresh: dict[str, Any] = {}
    if told.get("reason", old.reason) is not old.reason:
        fresh = {"action": Action.NONE, "cause": "", "remedy": "", "outcome": Helped.UNKNOWN}
    elif told.get("remedy", old.remedy) != old.remedy:
        fresh = {"outcome": Helped.UNKNOWN}
    new = replace(old, **{**fresh, **told}, confirmed_by=by)
    changes = []
    for name in ("reason", "action", "outcome", "cause", "remedy"):
        before, after = (plain(getattr(item, name)) or "nothing" for item in (old, new))
        if before != after:
            changes.append(f"{name} {before} -> {after}")
    confirmed = "confirmed again" if old.confirmed_by else "confirmed"
    said = Said(now(), by, f"corrected: {'; '.join(changes)}" if changes else confirmed)
    return replace(new, history=(*old.history, said))


def _seen_again(old: Incident, new: Incident) -> Incident:
    """An incident counted once more; its time changes only where it is another run of its job."""
    times = old.times_seen + 1
    told_before = old.history and old.history[-1].what.startswith(_SEEN_AGAIN)
    before = old.history[:-1] if told_before else old.history
    same_run = old.content == new.content or bool(old.job.get("id"))
    return replace(
        old,
        times_seen=times,
        seen_at=old.seen_at if same_run else max(old.seen_at, new.seen_at),
        job={**new.job, **old.job},
        node=old.node or new.node,
        history=(*before, Said(now(), "", f"{_SEEN_AGAIN}, {times} times in all")),
    )


def _as_kept(incident: Incident) -> Incident:
    return replace(bounded(incident), changed_at=now())


def _refuse_shipped(identity: str) -> None:
    if identity.startswith(PREFIX):
        raise MemoryStoreError(
            f"{identity}: ships with logdiag and cannot be changed; add an incident of your own with the same signature"
        )


def _new_id() -> str:
    return "i-" + "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(8))
