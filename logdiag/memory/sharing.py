"""What others exported, checked before any of it is taken in: all problems of all lines at once."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from logdiag.errors import MemoryStoreError
from logdiag.memory.corpus import PREFIX
from logdiag.memory.documents import LONGEST_DOCUMENT, Entry, bounded, document_of, now, read_incident, utc
from logdiag.memory.incident import Incident, Said

__all__ = ["better", "imported"]

_ID = re.compile(r"i-[a-z0-9]{8}")
_SHOWN_PROBLEMS = 20
_MOST_PROBLEMS = 1000


def imported(
    file: Iterable[str], name: str, checked: Callable[[Incident], Incident], *, own: bool = False
) -> list[Entry]:
    """The incidents of an export, as `checked` makes them, sorted by their ids.

    What others confirmed is theirs: it is marked as imported, and not confirmed here. With `own` it is an export of
    one's own, whose confirmations count. `name` is what to call the file. Raises MemoryStoreError with the problems of
    all lines.
    """
    entries: list[Entry] = []
    problems: list[str] = []
    called = name or getattr(file, "name", "import")
    for number, line in enumerate(_bounded_lines(file), 1):
        if not line.strip() or len(problems) > _MOST_PROBLEMS:
            continue
        document, problem = document_of(line)
        read, wrong = (None, [problem]) if problem else read_incident(document)
        wrong = wrong or _not_ours(document)
        problems += [f"{called}:{number}: {each}" for each in wrong]
        if read is not None and not wrong:
            incident = checked(read)
            changed_at = utc(document.get("changed_at") or "") or incident.seen_at
            entries.append(Entry(incident if own else _foreign(incident, os.path.basename(str(called))), changed_at))
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        rest = [f"and {more} problems more"] if more > 0 else []
        raise MemoryStoreError("\n".join(problems[:_SHOWN_PROBLEMS] + rest))
    # In one order, so that two imports at once do not wait for each other.
    return sorted(entries, key=lambda entry: entry.incident.id)


def better(old: Entry, new: Entry) -> bool:
    """Whether an imported form of an incident shall replace the one in the store: a confirmed one stays before one that
    is not, and else the one that was changed last."""
    return _weight(new) > _weight(old)


def _weight(entry: Entry) -> tuple[bool, str]:
    return bool(entry.incident.confirmed_by), entry.changed_at


def _foreign(incident: Incident, file: str) -> Incident:
    """An incident of others, with where it came from and who had confirmed it there."""
    there = f"{file}, confirmed there by {incident.confirmed_by}" if incident.confirmed_by else file
    elsewhere = [replace(entry, what=f"elsewhere: {entry.what}") for entry in incident.history]
    history = (*elsewhere, Said(now(), "", f"imported from {there}"))
    return bounded(replace(incident, imported=incident.imported or there, confirmed_by="", history=history))


def _not_ours(document: dict[str, Any]) -> list[str]:
    """What an import may not say."""
    identity, seen = document.get("id", ""), utc(document.get("seen_at") or "")
    if identity.startswith(PREFIX):
        return [f"id: {identity} ships with logdiag; leave it out"]
    if identity and not _ID.fullmatch(identity):
        return [f"id: {identity[:40]!r} is none; leave it out, or give i- and eight letters or digits"]
    # Clocks differ: a day from now.
    tomorrow = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86_400))
    return [f"seen_at: {seen} is still to come; correct it"] if seen > tomorrow else []


def _bounded_lines(file: Iterable[str]) -> Iterator[str]:
    """The lines of a file; one that is too long comes cut, and is the last."""
    read = getattr(file, "readline", None)
    if read is None:
        yield from file
        return
    while line := read(LONGEST_DOCUMENT + 2):
        yield line
        if len(line) > LONGEST_DOCUMENT:
            return
