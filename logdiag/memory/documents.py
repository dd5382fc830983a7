"""The form in which incidents are kept and shared: one line of JSON each, checked field by field when it is read."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Frame, Incident, Outcome, Said
from logdiag.model import Action, Reason

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
    "problems_of",
    "to_text",
    "utc",
]

SCHEMA = "logdiag.incident/1"
LONGEST_DOCUMENT = 256 << 10
"""An incident of more characters of JSON is not read."""

_TEXTS = ("id", "signature", "cause", "remedy", "node", "seen_at", "provenance", "confirmed_by", "changed_at",
          "content", "imported")  # fmt: skip
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
    problems = [problem] if problem else problems_of(document)
    if problems:
        raise MemoryStoreError(
            f"{where}: an incident in it cannot be read ({problems[0].partition(';')[0]}); if a newer logdiag wrote it,"
            " upgrade logdiag, else remove it with logdiag incidents forget"
        )
    return from_document(document)


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
    """The incident of a document without problems."""
    known = {name: document[name] for name in Incident.__dataclass_fields__ if name in document}
    known["reason"] = Reason(known["reason"])
    known["action"] = Action(known["action"])
    known["outcome"] = Outcome(known.get("outcome", "unknown"))
    known["window"] = tuple(known.get("window", ()))
    known["frames"] = tuple(Frame(*_texts_of(item, Frame)) for item in known.get("frames", ()))
    known["history"] = tuple(Said(*_texts_of(item, Said)) for item in known.get("history", ()))
    return Incident(**{"id": "", **known})


def bounded(incident: Incident) -> Incident:
    """As it is kept: every text one line of bounded length without controls, and the last of a long history."""
    texts: dict[str, Any] = {name: one_line(getattr(incident, name)) for name in _TEXTS if name != "changed_at"}
    return replace(
        incident,
        **texts,
        window=tuple(map(one_line, incident.window[:_MOST_ITEMS])),
        job={one_line(key): one_line(value) for key, value in list(incident.job.items())[:_MOST_ITEMS]},
        frames=tuple(Frame(*_bounded(item)) for item in incident.frames[:_MOST_ITEMS]),
        history=tuple(Said(*_bounded(item)) for item in incident.history[-_MOST_HISTORY:]),
    )


def _bounded(part: Frame | Said) -> list[str]:
    return [one_line(text) for text in asdict(part).values()]


def problems_of(document: Any) -> list[str]:
    """What is wrong with an incident that came from outside, field by field."""
    if not isinstance(document, dict):
        return ["is no JSON object; give one incident a line, as logdiag incidents export writes it"]
    problems = [f"{name}: {wrong}" for name in _TEXTS if (wrong := _wrong_text(document.get(name, "")))]
    for name in ("signature", "reason", "action"):
        if not document.get(name):
            problems.append(f"{name}: missing; an incident needs a signature, a reason and an action")
    for name, allowed in (("reason", Reason), ("action", Action), ("outcome", Outcome)):
        value = document.get(name)
        if value and not (isinstance(value, str) and value in {item.value for item in allowed}):
            named = ", ".join(item.value for item in allowed)
            problems.append(f"{name}: {str(value)[:40]!r} is unknown; one of {named}")
    return [*problems, *_wrong_parts(document), *_wrong_numbers(document)]


def _wrong_parts(document: Mapping[str, Any]) -> list[str]:
    problems = []
    if _wrong_texts(document.get("window", [])):
        problems.append("window: not a list of texts; give the lines around the signature, or leave it out")
    job = document.get("job", {})
    if not isinstance(job, dict) or _wrong_texts([*job, *job.values()]):
        problems.append("job: not a mapping of texts; give name, user, framework, or leave it out")
    for name, kind in (("frames", Frame), ("history", Said)):
        entries = document.get(name, [])
        if not isinstance(entries, list) or any(
            not isinstance(entry, dict) or _wrong_texts(_texts_of(entry, kind)) for entry in entries
        ):
            problems.append(f"{name}: not a list as logdiag writes it; leave it out")
    return problems


def _wrong_numbers(document: Mapping[str, Any]) -> list[str]:
    problems = []
    times = document.get("times_seen", 1)
    if type(times) is not int or not 0 < times < 1 << 31:
        problems.append("times_seen: not a number from 1; leave it out")
    for name in ("seen_at", "changed_at"):
        try:
            utc(document.get(name) or "")
        except (ValueError, TypeError, AttributeError):
            problems.append(f"{name}: {str(document[name])[:40]!r} is no time; write it like 2026-11-03T14:05:00Z")
    return problems


def _wrong_text(value: object) -> str:
    """What is wrong with a text; empty where nothing is."""
    if not isinstance(value, str):
        return "not a text; put it in quotes"
    if len(value) > _LONGEST_TEXT:
        return f"longer than {_LONGEST_TEXT:,} characters; shorten it"
    return "holds half a character; write it in UTF-8" if re.search("[\ud800-\udfff]", value) else ""


def _wrong_texts(values: object) -> bool:
    return not isinstance(values, (list, tuple)) or len(values) > 2 * _MOST_ITEMS or any(map(_wrong_text, values))


def _texts_of(entry: Mapping[str, Any], kind: type[Frame | Said]) -> list[Any]:
    """The fields of a `Frame` or a `Said`; what is left out is empty."""
    return [entry.get(name, "") for name in kind.__dataclass_fields__]


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
