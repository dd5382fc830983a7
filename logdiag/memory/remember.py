"""Makes an incident of a diagnosis."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Incident, frames_before, masked
from logdiag.memory.store import StoreOrPlace, opened
from logdiag.model import Action, Diagnosis, Line, Reason
from logdiag.patterns import pattern_of
from logdiag.read.prefixes import parse_line

_AROUND = 2
_NEAR = 5
# So many lines up to the root line tell whether two logs are one.
_CONTENT = 10
# Uncorrectable GPU memory error on rank 5, node node-004; 7 other ranks failed in consequence.
_PLACE = pattern_of(r" on (?:rank \d|node \S).*|; \d+ other ranks?\b.*", re.DOTALL)


def incident_of(diagnosis: Diagnosis, job: Mapping[str, str] | None = None) -> Incident:
    """What to remember of a diagnosis: its root line, else its most suspicious line, with two lines either side, all
    masked; else how the job ended. Raises MemoryStoreError where the log shows no failure."""
    lines = diagnosis.digest.lines
    if place := _named_line(diagnosis):
        found = _incident_at(place, [line for line in lines if line.source == place.source])
    elif diagnosis.failed:
        found = Incident("", masked(diagnosis.summary), Reason.OTHERS, Action.FIX_AND_RESUBMIT)
        content = _content(lines[-_CONTENT:])
        found = replace(found, provenance=os.path.basename(diagnosis.source), content=content)
    else:
        raise MemoryStoreError(f"{diagnosis.source}: no line was found that names what broke; give it with --signature")
    found = replace(found, job=dict(job or {}))
    if diagnosis.reason is not Reason.NONE:
        found = replace(found, reason=diagnosis.reason, action=diagnosis.recovery.action)
    if root := diagnosis.root_cause:
        # What happened, without what belongs to this job alone.
        title = _PLACE.sub("", diagnosis.summary).rstrip(".")
        own = (root.node and root.node in title) or masked(title) != " ".join(title.split())
        found = replace(found, cause="" if own else title, node=root.node or "")
    return found


def remembered(diagnosis: Diagnosis, memory: StoreOrPlace, job: Mapping[str, str] | None) -> Diagnosis:
    """The diagnosis with the id under which its failure is remembered; where that cannot be done, with a note that says
    why. It is knowledge only when a person confirms it."""
    if diagnosis.failed is False:
        return diagnosis
    try:
        incident = incident_of(diagnosis, job)
        with opened(memory, shipped=False) as store:
            kept, known = store.remember(incident)
    except MemoryStoreError as error:
        return replace(diagnosis, notes=(*diagnosis.notes, f"not remembered: {error}"))
    notes = (f"known as {kept.id}, seen again: {kept.times_seen} times in all",) if known else ()
    return replace(diagnosis, incident=kept.id, notes=(*diagnosis.notes, *notes))


def _incident_at(place: Line, lines: Sequence[Line]) -> Incident:
    """An incident of a line, among the lines around it in its log; its reason is not known."""
    near = [line for line in lines if 0 < abs(line.number - place.number) <= _NEAR]
    before = [line for line in near if line.number < place.number][-_AROUND:]
    after = [line for line in near if line.number > place.number][:_AROUND]
    until = [line for line in lines if place.number - _CONTENT <= line.number < place.number]
    return Incident(
        id="",
        signature=masked(place),
        reason=Reason.OTHERS,
        action=Action.FIX_AND_RESUBMIT,
        window=tuple(text for line in (*before, *after) if (text := masked(line))),
        node=place.node or "",
        provenance=os.path.basename(place.source),
        frames=frames_before(lines, place),
        content=_content([*until, place]),
    )


def _named_line(diagnosis: Diagnosis) -> Line | None:
    """The root line, or else the most suspicious one, as it stands among the kept lines; None where there is none that
    says anything."""
    found = diagnosis.root_cause or next(iter(diagnosis.suspects), None)
    if found is None:
        return None
    kept = (line for line in diagnosis.digest.lines if line.in_file == found.in_file)
    place = next((line for line in kept if line.text == found.text), None)
    place = place or parse_line(found.text, found.source, found.line)
    return place if masked(place) else None


def _content(lines: Sequence[Line]) -> str:
    """What tells this piece of a log from all others, the same whatever the log is called and however it goes on."""
    said = "\n".join(f"{line.number} {line.text}" for line in lines)
    return hashlib.sha256(said.encode(errors="replace")).hexdigest()[:16] if said else ""
