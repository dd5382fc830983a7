"""What a store of incidents asks of the database that keeps them, and the form in which they are kept and shared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Incident, Outcome
from logdiag.model import Action, Reason

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder
    from logdiag.memory.index import Vectors

__all__ = ["Entry", "Merged", "Rows", "Tally", "Wanted", "from_text", "now", "problems_of", "to_text", "utc"]

SCHEMA = "logdiag.incident/1"
_TEXTS = ("id", "signature", "cause", "remedy", "node", "seen_at", "provenance", "confirmed_by", "changed_at")


@dataclass(frozen=True, slots=True)
class Entry:
    """An incident, and when it was last changed (ISO 8601, UTC)."""

    incident: Incident
    changed_at: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which incidents are asked for; what is left out does not narrow. `since` and `seen_at` are compared as text, and
    one of the `fingerprints` is enough."""

    reason: Reason | None = None
    node: str = ""
    since: str = ""
    fingerprints: tuple[str, ...] = ()
    confirmed: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """What an import did: `kept` counts those of which the store had the same, a newer or a confirmed form."""

    added: int = 0
    replaced: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """How many incidents of one reason and outcome there are, and the earliest and the latest `seen_at`."""

    reason: Reason
    outcome: Outcome
    confirmed: bool
    count: int
    first: str
    last: str


class Rows(Protocol):
    """A database of incidents. What it cannot do raises MemoryStoreError with one sentence."""

    name: str

    def insert(self, entries: Sequence[Entry]) -> frozenset[str]:
        """Adds all whose id is not taken; the ids that it added."""

    def merge(self, entries: Iterable[Entry], better: Callable[[Entry, Entry], bool]) -> Merged:
        """Adds what is not there, and replaces an old entry where `better(old, new)`, all at once or nothing."""

    def change(self, identity: str, change: Callable[[Incident], Incident]) -> Incident | None:
        """Replaces one incident by what `change` makes of it; None when there is none. No other change comes between.

        The signature stays.
        """

    def delete(self, identity: str) -> bool:
        """Whether there was such an incident."""

    def get(self, identity: str) -> Incident | None:
        """One incident by its id."""

    def find(self, wanted: Wanted) -> list[Incident]:
        """Those that are wanted, the latest first."""

    def entries(self) -> Iterator[Entry]:
        """All, in the order in which they were added."""

    def exists(self) -> bool:
        """Whether there is a database at all; a store is made when something is added."""

    def count(self) -> int:
        """How many there are."""

    def tallies(self) -> list[Tally]:
        """Counts by reason, outcome, and whether they are confirmed."""

    def nearest(
        self, queries: Vectors, k: int, embedder: Embedder, patience: float
    ) -> tuple[list[tuple[float, Incident]], bool]:
        """The `k` incidents most similar to any of the queries (n, d), with their cosine, best first; and whether all
        were searched. Incidents without a vector get theirs first, for `patience` seconds at most."""

    def close(self) -> None:
        """Lets go of the database."""


def to_text(incident: Incident, **more: str) -> str:
    """An incident as one line of JSON."""
    document: dict[str, Any] = {item.name: getattr(incident, item.name) for item in fields(incident)}
    return json.dumps({**document, **more}, ensure_ascii=False)


def from_text(text: str, where: str) -> Incident:
    """The incident that `to_text` wrote; keys that this version does not know are left out."""
    return from_document(json.loads(text), where)


def from_document(document: dict[str, Any], where: str) -> Incident:
    """The incident of a document without problems."""
    known = {name: document[name] for name in Incident.__dataclass_fields__ if name in document}
    try:
        known["reason"] = Reason(known["reason"])
        known["action"] = Action(known["action"])
        known["outcome"] = Outcome(known.get("outcome", "unknown"))
        known["window"] = tuple(known.get("window", ()))
        return Incident(**known)
    except (ValueError, KeyError, TypeError) as error:
        raise MemoryStoreError(f"{where}: holds an incident of a newer logdiag ({error}); upgrade logdiag") from error


def problems_of(document: Any) -> list[str]:
    """What is wrong with an incident that came from outside, field by field."""
    if not isinstance(document, dict):
        return ["is no JSON object; give one incident a line, as logdiag incidents export writes it"]
    problems = [
        f"{name}: not a text; put it in quotes" for name in _TEXTS if not isinstance(document.get(name, ""), str)
    ]
    for name in ("signature", "reason", "action"):
        if not document.get(name):
            problems.append(f"{name}: missing; an incident needs a signature, a reason and an action")
    for name, allowed in (("reason", Reason), ("action", Action), ("outcome", Outcome)):
        value = document.get(name)
        if value and value not in {item.value for item in allowed}:
            problems.append(f"{name}: {value!r} is unknown; one of {', '.join(item.value for item in allowed)}")
    window, job = document.get("window", []), document.get("job", {})
    if not isinstance(window, list) or not all(isinstance(line, str) for line in window):
        problems.append("window: not a list of texts; give the lines around the signature, or leave it out")
    if not isinstance(job, dict) or not all(isinstance(value, str) for value in job.values()):
        problems.append("job: not a mapping of texts; give name, user, framework, or leave it out")
    for name in ("seen_at", "changed_at"):
        try:
            utc(document.get(name) or "")
        except (ValueError, TypeError):
            problems.append(f"{name}: {document[name]!r} is no time; write it like 2026-11-03T14:05:00Z")
    return problems


def now() -> str:
    """This moment, in UTC, to the millisecond."""
    at = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03}Z"


def utc(text: str) -> str:
    """An ISO 8601 time or date as `2026-11-03T14:05:00Z`; without a zone it is taken as UTC. Raises ValueError."""
    if not text:
        return ""
    at = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)
    at = at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at.astimezone(timezone.utc)
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds").replace("+00:00", "Z")
