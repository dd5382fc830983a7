"""The form in which incidents are kept and shared: one line of JSON each, checked field by field when it is read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Frame, Incident, Outcome, Said
from logdiag.model import Action, Reason
from logdiag.plain import plain, read_plain

__all__ = [
    "LONGEST_DOCUMENT",
    "SCHEMA",
    "Entry",
    "Merged",
    "bounded",
    "document_of",
    "from_document",
    "from_text",
    "now",
    "one_line",
    "read_incident",
    "to_text",
    "utc",
]

SCHEMA = "logdiag.incident/1"
LONGEST_DOCUMENT = 256 << 10
"""An incident of more characters of JSON is not read."""

_LONGEST_TEXT = 4000
_MOST_ITEMS = 100
_MOST_HISTORY = 50


@dataclass(frozen=True, slots=True)
class Entry:
    """An incident, and when it was last changed (ISO 8601, UTC)."""

    incident: Incident
    changed_at: str


@dataclass(frozen=True, slots=True)
class Merged:
    """What an import did: `kept` counts those of which the store had the same, a newer or a confirmed form."""

    added: int = 0
    replaced: int = 0
    kept: int = 0


def to_text(incident: Incident, **more: str) -> str:
    """An incident as one line of JSON."""
    return json.dumps({**asdict(incident), **more}, ensure_ascii=False)


def from_text(text: object, where: str) -> Incident:
    """The incident that `to_text` wrote; keys that this version does not know are left out. Raises MemoryStoreError
    for whatever else stands there."""
    document, problem = document_of(text)
    incident, problems = (None, [problem]) if problem else read_incident(document)
    if incident is None:
        raise MemoryStoreError(
            f"{where}: an incident in it cannot be read ({problems[0].partition(';')[0]}); if a newer logdiag wrote it,"
            " upgrade logdiag, else remove it with logdiag incidents forget"
        )
    return incident


def document_of(text: object) -> tuple[Any, str]:
    """What a line of JSON says, or what is wrong with it."""
    if not isinstance(text, str):
        return None, "is no text; give one incident a line, as logdiag incidents export writes it"
    if len(text) > LONGEST_DOCUMENT:
        return None, f"longer than {LONGEST_DOCUMENT:,} characters; leave out what is no incident"
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as error:
        said = "too deep" if isinstance(error, RecursionError) else str(error)
        return None, f"not JSON ({said}); give one incident a line"


def from_document(document: Mapping[str, Any]) -> Incident:
    """The incident of a document that `plain` gave."""
    known = {name: document[name] for name in Incident.__dataclass_fields__ if name in document}
    known["reason"] = Reason(known["reason"])
    known["action"] = Action(known["action"])
    known["outcome"] = Outcome(known.get("outcome", "unknown"))
    known["window"] = tuple(known.get("window", ()))
    known["frames"] = tuple(Frame(**item) for item in known.get("frames", ()))
    known["history"] = tuple(Said(**item) for item in known.get("history", ()))
    return Incident(**{"id": "", **known})


def bounded(incident: Incident) -> Incident:
    """As it is kept: every text one line of bounded length without controls, and the last of a long history."""
    return from_document(_bounded(plain(replace(incident, history=incident.history[-_MOST_HISTORY:]))))


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list):
        return [_bounded(item) for item in value[:_MOST_ITEMS]]
    if isinstance(value, dict):
        return {one_line(key): _bounded(item) for key, item in islice(value.items(), _MOST_ITEMS)}
    return value


def read_incident(document: Any) -> tuple[Incident | None, list[str]]:
    """The incident of a document from outside, or None and what is wrong with it, field by field."""
    if not isinstance(document, dict):
        return None, ["is no JSON object; give one incident a line, as logdiag incidents export writes it"]
    if not _is_text(document):
        return None, ["holds half a character; write it in UTF-8"]
    incident, problems = read_plain(Incident, {"id": "", **document})
    problems = [f"{problem}; correct it" for problem in problems]
    if incident is not None:
        problems += _out_of_bounds(incident)
    for name in ("seen_at", "changed_at"):
        try:
            utc(document.get(name, ""))
        except (ValueError, TypeError, AttributeError):
            problems.append(f"{name}: {str(document[name])[:40]!r} is no time; write it like 2026-11-03T14:05:00Z")
    return None if problems else incident, problems


def _is_text(document: Mapping[str, Any]) -> bool:
    try:
        json.dumps(document, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


def _out_of_bounds(incident: Incident) -> Iterator[str]:
    if not incident.signature:
        yield "signature: is empty; give the line that named the failure"
    if not 0 < incident.times_seen < 1 << 31:
        yield "times_seen: is no number from 1; leave it out"
    for name, value in plain(incident).items():
        if isinstance(value, str) and len(value) > _LONGEST_TEXT:
            yield f"{name}: longer than {_LONGEST_TEXT:,} characters; shorten it"


def one_line(text: str, longest: int = _LONGEST_TEXT) -> str:
    """A text in one line of bounded length, without controls."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 2 * longest]).split())[:longest]


def now() -> str:
    """This moment, in UTC, to the millisecond."""
    at = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03}Z"


def utc(text: str) -> str:
    """An ISO 8601 time or date as `2026-11-03T14:05:00Z`; without a zone it is taken as UTC. Raises ValueError."""
    if not text:
        return ""
    at = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)
    try:
        at = at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at.astimezone(timezone.utc)
    except OverflowError as error:  # the last hours of the year 9999, elsewhere
        raise ValueError(str(error)) from error
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds").replace("+00:00", "Z")
