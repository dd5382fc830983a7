"""The form in which incidents are kept and shared: one line of JSON each, checked field by field when it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields, is_dataclass, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from itertools import islice
from typing import Any, NamedTuple

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import PREFIX, HistoryEntry, Incident
from logdiag.model.plain import read_plain
from logdiag.patterns import pattern_of

SCHEMA = "logdiag.incident/1"
LONGEST_DOCUMENT = 256 << 10
"""An incident of more characters of JSON is not read."""

_LONGEST_TEXT = 4000
_MOST_ITEMS = 100
_MOST_HISTORY = 50
_ID = pattern_of(r"i-[a-z0-9]{8}")
_SHOWN_PROBLEMS = 20


class Merged(NamedTuple):
    """What an import did; `kept` stayed in the form that the store had."""

    added: int = 0
    replaced: int = 0
    kept: int = 0


def to_text(incident: Incident, **more: str) -> str:
    """An incident as one line of JSON."""
    return json.dumps({**asdict(incident), **more}, ensure_ascii=False)


def read_incident(source: object) -> tuple[Incident | None, list[str]]:
    """The incident in a line of JSON (str) or in its parsed mapping, with no problems; or None, with a problem for each
    wrong field. Keys that this version does not know are ignored, and the id may be missing."""
    if isinstance(source, str) and len(source) > LONGEST_DOCUMENT:
        return None, [f"longer than {LONGEST_DOCUMENT:,} characters; leave out what is no incident"]
    try:
        document = json.loads(source) if isinstance(source, str) else source
        json.dumps(document, ensure_ascii=False).encode()  # half a character cannot be kept
    except (TypeError, ValueError, RecursionError) as error:
        return None, [f"not JSON ({error}); give one incident a line"]
    if not isinstance(document, dict):
        return None, ["is no JSON object; give one incident a line, as logdiag incidents export writes it"]
    incident, problems = read_plain(Incident, {"id": "", **document})
    problems = [f"{problem}; correct it" for problem in problems] or list(_out_of_bounds(incident))
    return None if problems else incident, problems


def _out_of_bounds(incident: Incident | None) -> Iterator[str]:
    if incident is None:
        return
    if not incident.signature:
        yield "signature: is empty; give the line that named the failure"
    if not 0 < incident.times_seen < 1 << 31:
        yield "times_seen: is no number from 1; leave it out"
    for name, value in asdict(incident).items():
        if isinstance(value, str) and len(value) > _LONGEST_TEXT:
            yield f"{name}: longer than {_LONGEST_TEXT:,} characters; shorten it"
    for name in ("seen_at", "changed_at"):
        try:
            utc(getattr(incident, name))
        except MemoryStoreError as error:
            yield f"{name}: {error}"


def bounded(incident: Incident) -> Incident:
    """The incident as it is stored: each text one bounded line, and of a long history the last entries."""
    kept: Incident = _bounded(replace(incident, history=incident.history[-_MOST_HISTORY:]))
    return kept


def _bounded(value: Any) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, tuple):
        return tuple(_bounded(item) for item in value[:_MOST_ITEMS])
    if isinstance(value, dict):
        return {one_line(key): _bounded(item) for key, item in islice(value.items(), _MOST_ITEMS)}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{item.name: _bounded(getattr(value, item.name)) for item in fields(value)})
    return value


def imported(
    file: Iterable[str], name: str, checked: Callable[[Incident], Incident], *, own: bool = False
) -> list[Incident]:
    """The incidents of an export, each passed through `checked`. They count as not confirmed, unless the export is the
    user's `own`. `name` is the file's in messages. Raises MemoryStoreError with all problems."""
    incidents: list[Incident] = []
    problems: list[str] = []
    file_name = name or str(getattr(file, "name", "import"))
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        read, line_problems = read_incident(line)
        line_problems += list(_refused(read)) if read else []
        problems += [f"{file_name}:{number}: {problem}" for problem in line_problems]
        if read is not None and not line_problems:
            incident = checked(read) if own else _foreign(checked(read), os.path.basename(file_name))
            incidents.append(replace(incident, changed_at=utc(read.changed_at) or incident.seen_at))
    if problems:
        rest = [f"and {len(problems) - _SHOWN_PROBLEMS} problems more"] if len(problems) > _SHOWN_PROBLEMS else []
        raise MemoryStoreError("\n".join(problems[:_SHOWN_PROBLEMS] + rest))
    return incidents


def better(old: Incident, new: Incident) -> bool:
    """Whether the imported form of an incident replaces the stored one: confirmed before not, then the later one."""
    return (bool(new.confirmed_by), new.changed_at) > (bool(old.confirmed_by), old.changed_at)


def _foreign(incident: Incident, file: str) -> Incident:
    """Another store's incident, unconfirmed, marked with its file and with who confirmed it there."""
    origin = f"{file}, confirmed there by {incident.confirmed_by}" if incident.confirmed_by else file
    elsewhere = [replace(entry, what=f"elsewhere: {entry.what}") for entry in incident.history]
    history = (*elsewhere, HistoryEntry(now(), "", f"imported from {origin}"))
    return bounded(replace(incident, imported=incident.imported or origin, confirmed_by="", history=history))


def _refused(incident: Incident) -> Iterator[str]:
    """The problems of an incident that may not be imported."""
    if incident.id.startswith(PREFIX):
        yield f"id: {incident.id} ships with logdiag; leave it out"
    elif incident.id and not _ID.fullmatch(incident.id):
        yield f"id: {incident.id[:40]!r} is none; leave it out, or give i- and eight letters or digits"
    # Clocks differ: a day from now.
    elif (seen := utc(incident.seen_at)) > _written(datetime.now(timezone.utc) + timedelta(days=1)):
        yield f"seen_at: {seen} is still to come; correct it"


def one_line(text: str, longest: int = _LONGEST_TEXT) -> str:
    """A text as one line of at most `longest` characters, without control characters."""
    return " ".join(printable(text[: 2 * longest]).split())[:longest]


def printable(text: str) -> str:
    """A text with a blank in place of each character that cannot be printed."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def now() -> str:
    """Now, in UTC, to the millisecond."""
    return _written(datetime.now(timezone.utc), "milliseconds")


def moment(text: str) -> datetime:
    """An ISO 8601 time or date; without a zone it is UTC. Raises MemoryStoreError."""
    try:
        time = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)
        return time.replace(tzinfo=timezone.utc) if time.tzinfo is None else time.astimezone(timezone.utc)
    except (ValueError, OverflowError) as error:  # the last hours of the year 9999, elsewhere
        raise MemoryStoreError(f"{text[:40]!r} is no time; write it like 2026-11-03T14:05:00Z or 2026-11-03") from error


def utc(text: str) -> str:
    """A time or date as `2026-11-03T14:05:00Z`, an empty text as it is. Raises MemoryStoreError."""
    time = moment(text) if text else None
    return _written(time, "milliseconds" if time.microsecond else "seconds") if time else ""


def _written(time: datetime, precision: str = "seconds") -> str:
    return time.isoformat(timespec=precision).replace("+00:00", "Z")
