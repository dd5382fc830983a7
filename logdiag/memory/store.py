"""The store of past incidents: what people and earlier diagnoses put in, above what ships with logdiag.

with open_store("/srv/logdiag") as store:        # or postgresql://..., or LOGDIAG_MEMORY, or the user's data folder
    incident = store.add(Incident("", masked(line), Reason.ECC_ERROR, Action.RESTART_EXCLUDING_NODE))
    store.confirm(incident.id, by="mira", outcome=Outcome.WORKED)
    store.by_fingerprint(incident.fingerprint)   # exact; needs nothing beyond the standard library
    store.nearest(masked(other_line), 5)         # similar; needs the extra `memory`
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from logdiag.errors import MemoryStoreError
from logdiag.memory.corpus import PREFIX, Corpus, load_corpus
from logdiag.memory.documents import SCHEMA, Entry, Merged, bounded, now, to_text, utc
from logdiag.memory.embedding import Embedder, load_embedder
from logdiag.memory.incident import Incident, Outcome, Said, masked
from logdiag.memory.sharing import better, imported
from logdiag.model import Action, Reason
from logdiag.places import data_folder, without_password

if TYPE_CHECKING:
    from logdiag.memory.rows import Rows

__all__ = ["Merged", "Stats", "Store", "default_place", "open_store"]

_POSTGRES = ("postgresql://", "postgres://")
# No vowels, and nothing that reads like something else.
_LETTERS = "23456789bcdfghjkmnpqrstvwxyz"
_ID_LETTERS = 8
_ID_TRIES = 20
# So many fingerprints are asked for at a time.
_AT_ONCE = 500
# Occurrences of one failure among which the same one is looked for.
_MOST_OCCURRENCES = 200
_MOST_CONFIRMED = 2000
_SEEN_AGAIN = "seen again"


@dataclass(frozen=True, slots=True)
class Stats:
    """What a store holds, without the shipped incidents, which `shipped` counts. Times are ISO 8601 in UTC."""

    place: str
    incidents: int
    confirmed: int
    shipped: int
    reasons: dict[str, int]
    outcomes: dict[str, int]
    first_seen: str
    last_seen: str


class Store:
    """Past incidents, those that ship with logdiag included. Get one from `open_store`.

    It may be used from several threads in turn and by many processes at once. Whatever cannot be done raises
    MemoryStoreError with one sentence: where, what, and the remedy.
    """

    def __init__(self, place: str, embedder: str | Embedder, patience: float, *, shipped: bool) -> None:
        """As `open_store` makes it."""
        self._address = place
        self._embedder = embedder
        self._patience = patience
        self._shipped = shipped
        self._opened: Rows | None = None
        self.searched_all = True
        """Whether the last `nearest` saw every incident; False when giving them vectors took too long."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def place(self) -> str:
        """Where it is, without a password."""
        return without_password(self._address)

    @property
    def shipped(self) -> tuple[Incident, ...]:
        """The incidents that ship with logdiag."""
        return self._corpus.incidents

    @cached_property
    def _corpus(self) -> Corpus:
        return load_corpus() if self._shipped else Corpus()

    @cached_property
    def _vectors_by(self) -> Embedder:
        return load_embedder(self._embedder) if isinstance(self._embedder, str) else self._embedder

    @property
    def _rows(self) -> Rows:
        """The database, which is made where there is none. Its library is loaded only here."""
        if self._opened is None:
            if self._address.startswith(_POSTGRES):
                from logdiag.memory.postgres import PostgresRows

                self._opened = PostgresRows(self._address)
            else:
                from logdiag.memory.sqlite import SqliteRows

                self._opened = SqliteRows(self._address)
        return self._opened

    def _is_there(self) -> bool:
        """Whether anybody added to it: looking makes no store."""
        if self._opened is not None or self._address.startswith(_POSTGRES):
            return True
        if os.path.exists(self._address) and not os.path.isdir(self._address):
            raise MemoryStoreError(f"{self._address}: not a folder; give the folder of an incident store")
        return os.path.exists(os.path.join(self._address, "incidents.db"))

    def add(self, incident: Incident) -> Incident:
        """Adds an incident, and gives it as it was stored: masked, with an id and a time where it had none."""
        return self.add_all([incident])[0]

    def add_all(self, incidents: Iterable[Incident]) -> tuple[Incident, ...]:
        """As `add`, all at once."""
        named = [item if item.id else replace(item, id=_new_id()) for item in map(self._checked, incidents)]
        added = self._rows.insert([Entry(item, now()) for item in named])
        if taken := sorted({item.id for item in named} - added):
            raise MemoryStoreError(f"{self.place}: {taken[0]}: is there already; correct it, or leave the id out")
        return tuple(named)

    def remember(self, incident: Incident) -> tuple[Incident, bool]:
        """Adds an incident unless it is there already, and gives it as it is stored, and whether it was there.

        It is the same one when its line is the same and its job is (by id, or by name), or where the jobs are not
        known the log around the line. Then it only counts once more.
        """
        new = self._checked(incident)
        for old in self._find(fingerprints=(new.fingerprint,), limit=_MOST_OCCURRENCES):
            if _same_failure(old, new):
                return self._seen_again(old, new), True
        new = replace(new, history=(*new.history, Said(now(), "", "remembered")))
        for attempt in range(_ID_TRIES):
            # An id made of what tells it apart: who remembers the same at the same time adds one incident.
            named = replace(new, id=_id_of(new, attempt))
            if self._rows.insert([Entry(named, now())]):
                return named, False
            taken = self._rows.get(named.id)
            if taken is not None and taken.fingerprint == new.fingerprint and _same_failure(taken, new):
                return self._seen_again(taken, new), True
        raise MemoryStoreError(f"{self.place}: no free id was found; run it again")

    def get(self, identity: str) -> Incident:
        """One incident by its id."""
        if identity.startswith(PREFIX):
            found = next((item for item in self.shipped if item.id == identity), None)
        else:
            found = self._rows.get(identity) if self._is_there() else None
        if found is None:
            raise self._unknown(identity)
        return found

    def list(
        self,
        *,
        reason: Reason | None = None,
        node: str | None = None,
        since: str | None = None,
        limit: int | None = None,
    ) -> tuple[Incident, ...]:
        """The latest first, the shipped ones last; `since` is an ISO 8601 time or date."""
        from_then = self._time(since or "", "since")
        found = self._find(reason=reason, node=node or "", since=from_then, limit=limit)
        if not node and not from_then:
            found += tuple(item for item in self.shipped if reason in (None, item.reason))
        return found[:limit]

    def known(self, fingerprints: Iterable[str]) -> Mapping[str, Sequence[Incident]]:
        """What people confirmed here of exactly these failures: for each fingerprint its confirmed incidents, the
        latest first, those that ship with logdiag left out."""
        wanted = tuple(dict.fromkeys(fingerprints))
        found: dict[str, tuple[Incident, ...]] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            for incident in self._find(
                fingerprints=wanted[start : start + _AT_ONCE], confirmed=True, limit=_MOST_CONFIRMED
            ):
                found[incident.fingerprint] = (*found.get(incident.fingerprint, ()), incident)
        return found

    def confirmed(self, most: int) -> Sequence[Incident]:
        """The latest of what people confirmed here, at most so many."""
        return self._find(confirmed=True, limit=most)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The ids of incidents that were left out so far because their rows cannot be read."""
        return tuple(sorted(self._opened.unreadable)) if self._opened else ()

    def by_fingerprint(self, wanted: str, limit: int = 100) -> tuple[Incident, ...]:
        """Occurrences of exactly this failure, the latest first, the shipped ones last."""
        return (*self._find(fingerprints=(wanted,), limit=limit), *self._corpus.by_fingerprint(wanted))[:limit]

    def nearest(self, text: str, k: int = 5, *, own: bool = False) -> tuple[tuple[float, Incident], ...]:
        """The `k` incidents most similar to a masked line, with their cosine, best first; with `own` without those that
        ship with logdiag.

        Incidents that were added since the last call get their vectors here, so the first call after a large import, or
        by another embedder, takes longer (up to the store's patience: see `searched_all`).
        """
        (query,) = self._vectors_by.embed([text])
        found: list[tuple[float, Incident]] = []
        if self._is_there():
            began = time.monotonic()
            found, self.searched_all = self._rows.nearest(query, k, self._vectors_by, self._patience)
            self._patience = max(0.0, self._patience - (time.monotonic() - began))
        if not own:
            found += self._corpus.nearest(query, k, self._vectors_by)
        return tuple(sorted(found, key=lambda item: -item[0])[:k])

    def confirm(self, identity: str, by: str, outcome: Outcome | None = None) -> Incident:
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
        outcome: Outcome | None = None,
        keep: Iterable[str] = (),
    ) -> Incident:
        """Replaces what is given, and confirms the rest.

        With another reason, what belonged to the old one goes: cause and remedy, the outcome, and the action, which
        then is that of the reason's table; except what is given and what is named in `keep`. With another remedy the
        outcome goes.
        """
        if not by.strip():
            raise MemoryStoreError(f"{identity}: confirmed by nobody; say who confirms it")
        given = {"reason": reason, "action": action, "remedy": remedy, "cause": cause, "outcome": outcome}
        told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        kept = frozenset(keep)

        def corrected(old: Incident) -> Incident:
            fresh: dict[str, Any] = {}
            if told.get("reason", old.reason) is not old.reason:
                fresh = {"action": Action.NONE, "cause": "", "remedy": "", "outcome": Outcome.UNKNOWN}
            elif told.get("remedy", old.remedy) != old.remedy:
                fresh = {"outcome": Outcome.UNKNOWN}
            new = replace(old, **{name: value for name, value in fresh.items() if name not in kept})
            new = replace(new, confirmed_by=by.strip(), **told)
            return replace(new, history=(*old.history, Said(now(), by.strip(), _what_changed(old, new))))

        return self._change(identity, corrected)

    def forget(self, identity: str) -> None:
        """Removes an incident for good."""
        self._refuse_shipped(identity)
        if not self._is_there() or not self._rows.delete(identity):
            raise self._unknown(identity)

    def count(self) -> int:
        """How many incidents it holds beside the shipped ones."""
        return self._rows.count() if self._is_there() else 0

    def stats(self) -> Stats:
        """What it holds, in numbers."""
        named = {item.value for item in (*Reason, *Outcome)}
        tallies = [item for item in self._rows.tallies() if {item[0], item[1]} <= named] if self._is_there() else []
        reasons: dict[str, int] = {}
        outcomes: dict[str, int] = {}
        for reason, outcome, _, count, *_ in tallies:
            reasons[reason] = reasons.get(reason, 0) + count
            outcomes[outcome] = outcomes.get(outcome, 0) + count
        return Stats(
            place=self.place,
            incidents=sum(reasons.values()),
            confirmed=sum(count for _, _, confirmed, count, *_ in tallies if confirmed),
            shipped=len(self.shipped),
            reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
            outcomes=dict(sorted(outcomes.items())),
            first_seen=min((first for *_, first, _ in tallies), default=""),
            last_seen=max((last for *_, last in tallies), default=""),
        )

    def export(self, file: TextIO) -> int:
        """Writes every incident but the shipped ones as a line of JSON; how many there were."""
        count = 0
        for entry in self._rows.entries() if self._is_there() else ():
            file.write(to_text(entry.incident, schema=SCHEMA, changed_at=entry.changed_at) + "\n")
            count += 1
        return count

    def import_(self, file: Iterable[str], name: str = "", *, own: bool = False) -> Merged:
        """Takes in what `export` wrote, all of it or nothing.

        What others confirmed decides nothing until it is confirmed here; with `own` it is an export of one's own. Of
        two forms of one incident the `better` one stays. Raises MemoryStoreError with the problems of all lines; `name`
        is what to call the file there.
        """

        def checked(incident: Incident) -> Incident:
            return self._checked(incident if incident.id else replace(incident, id=_new_id()))

        entries = imported(file, name, checked, own=own)
        return self._rows.merge(entries, better) if entries else Merged()

    def close(self) -> None:
        """Lets go of its files or of its connection; nothing is lost by not calling it."""
        if self._opened is not None:
            self._opened.close()

    def _find(self, **wanted: Any) -> tuple[Incident, ...]:
        """As `Rows.find`; nothing where there is no store yet."""
        return tuple(self._rows.find(**wanted)) if self._is_there() else ()

    def _checked(self, incident: Incident) -> Incident:
        """As it is stored: masked, so that no path or address is kept, and with a time."""
        if incident.id.startswith(PREFIX):
            raise self._fixed(incident.id)
        signature = masked(incident.signature)
        if not signature:
            raise MemoryStoreError(
                f"{self.place}: an incident without a signature; give the line that named the failure"
            )
        kept = replace(
            incident,
            signature=signature,
            window=tuple(masked(line) for line in incident.window),
            seen_at=self._time(incident.seen_at, "seen_at") or now(),
        )
        return bounded(kept)

    def _seen_again(self, old: Incident, new: Incident) -> Incident:
        """Counts an incident once more; its time changes only where it is another run of its job."""

        def again(item: Incident) -> Incident:
            times = item.times_seen + 1
            told_before = item.history and item.history[-1].what.startswith(_SEEN_AGAIN)
            before = item.history[:-1] if told_before else item.history
            same_run = item.content == new.content or bool(item.job.get("id"))
            seen_at = item.seen_at if same_run else max(item.seen_at, new.seen_at)
            said = Said(now(), "", f"{_SEEN_AGAIN}, {times} times in all")
            return replace(item, times_seen=times, seen_at=seen_at, job={**new.job, **item.job},
                           node=item.node or new.node, history=(*before, said))  # fmt: skip

        return self._change(old.id, again)

    def _change(self, identity: str, change: Callable[[Incident], Incident]) -> Incident:
        self._refuse_shipped(identity)
        changed = self._rows.change(identity, lambda old: bounded(change(old))) if self._is_there() else None
        if changed is None:
            raise self._unknown(identity)
        return changed

    def _refuse_shipped(self, identity: str) -> None:
        if identity.startswith(PREFIX):
            raise self._fixed(identity)

    def _fixed(self, identity: str) -> MemoryStoreError:
        return MemoryStoreError(
            f"{identity}: ships with logdiag and cannot be changed; add an incident of your own with the same signature"
        )

    def _unknown(self, identity: str) -> MemoryStoreError:
        return MemoryStoreError(f"{self.place}: {identity}: no such incident; see logdiag incidents list")

    def _time(self, text: str, field: str) -> str:
        try:
            return utc(text)
        except ValueError as error:
            raise MemoryStoreError(
                f"{self.place}: {field}: {text!r} is no time; write it like 2026-11-03T14:05:00Z or 2026-11-03"
            ) from error


def open_store(
    place: str | os.PathLike[str] | None = None,
    *,
    embedder: str | Embedder = "static",
    shipped: bool = True,
    patience: float = math.inf,
) -> Store:
    """The store in a folder, or in a database for `postgresql://user@host/database`.

    None is the place that `LOGDIAG_MEMORY` names, or else the user's data folder. Nothing is written there before the
    first incident is added. `embedder` is the name of one (see `embedding.load_embedder`) or one that is loaded;
    without `shipped` the incidents that ship with logdiag are left out. `patience` is how many seconds a search may
    spend in all on incidents that have no vector yet. Raises MemoryStoreError.
    """
    named = os.fspath(place) if place is not None else default_place()
    return Store(named, embedder, patience, shipped=shipped)


def default_place() -> str:
    """`LOGDIAG_MEMORY`, or a folder among the user's data."""
    if named := os.environ.get("LOGDIAG_MEMORY"):
        return named
    if folder := data_folder():
        return os.path.join(folder, "memory")
    raise MemoryStoreError("this account has no home folder for past incidents; name a place with LOGDIAG_MEMORY")


def _same_failure(old: Incident, new: Incident) -> bool:
    """Whether two incidents of one line are one: of the same job on the same node, or the same piece of a log."""
    for name in ("id", "name"):
        if old.job.get(name) and new.job.get(name):
            return old.job[name] == new.job[name] and old.node == new.node
    return bool(old.content) and old.content == new.content


def _what_changed(old: Incident, new: Incident) -> str:
    """A correction in words: what became what."""
    changes = []
    for name in ("reason", "action", "outcome", "cause", "remedy"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            before, after = (getattr(value, "value", value) or "nothing" for value in (before, after))
            changes.append(f"{name} {before} -> {after}")
    said = "confirmed again" if old.confirmed_by else "confirmed"
    return f"corrected: {'; '.join(changes)}" if changes else said


def _id_of(incident: Incident, attempt: int) -> str:
    """An id that the same failure of the same job gets again; drawn where neither job nor log is known."""
    told = incident.job_name or incident.content
    if not told:
        return _new_id()
    key = "\0".join((incident.fingerprint, told, incident.node, str(attempt)))
    return _spelled(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"))


def _new_id() -> str:
    return _spelled(int.from_bytes(os.urandom(8), "big"))


def _spelled(drawn: int) -> str:
    return "i-" + "".join(_LETTERS[drawn // len(_LETTERS) ** at % len(_LETTERS)] for at in range(_ID_LETTERS))
