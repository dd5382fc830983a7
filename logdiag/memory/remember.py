"""Makes an incident from a diagnosis, and stores it."""

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
# Two logs are the same one if so many lines up to the root line are equal.
_CONTENT = 10
# Uncorrectable GPU memory error on rank 5, node node-004; 7 other ranks failed in consequence.
_WHERE = pattern_of(r" on (?:rank \d|node \S).*|; \d+ other ranks?\b.*", re.DOTALL)


def incident_of(diagnosis: Diagnosis, job: Mapping[str, str] | None = None) -> Incident:
    """The incident of a diagnosis: its root line, else its most suspicious line, with two lines on either side, all
    masked; else how the job ended. Raises MemoryStoreError if the log shows no failure."""
    lines = diagnosis.digest.lines
    if root_line := _root_line(diagnosis):
        incident = _incident_at(root_line, [line for line in lines if line.source == root_line.source])
    elif diagnosis.failed:
        incident = Incident("", masked(diagnosis.summary), Reason.OTHERS, Action.FIX_AND_RESUBMIT)
        content = _content(lines[-_CONTENT:])
        incident = replace(incident, provenance=os.path.basename(diagnosis.source), content=content)
    else:
        raise MemoryStoreError(f"{diagnosis.source}: no line was found that names what broke; give it with --signature")
    incident = replace(incident, job=dict(job or {}))
    if diagnosis.reason is not Reason.NONE:
        incident = replace(incident, reason=diagnosis.reason, action=diagnosis.recovery.action)
    if root := diagnosis.root_cause:
        # The cause in general: a title that names this job's node or numbers is not kept.
        title = _WHERE.sub("", diagnosis.summary).rstrip(".")
        of_this_job = (root.node and root.node in title) or masked(title) != " ".join(title.split())
        incident = replace(incident, cause="" if of_this_job else title, node=root.node or "")
    return incident


def remembered(diagnosis: Diagnosis, memory: StoreOrPlace, job: Mapping[str, str] | None) -> Diagnosis:
    """Stores the failure and returns the diagnosis with the incident's id, or with a note that says why it was not
    stored. Nothing is stored of a healthy job. The incident counts for later answers once a person confirms it."""
    if diagnosis.failed is False:
        return diagnosis
    try:
        incident = incident_of(diagnosis, job)
        with opened(memory, shipped=False) as store:
            stored, was_known = store.remember(incident)
    except MemoryStoreError as error:
        return replace(diagnosis, notes=(*diagnosis.notes, f"not remembered: {error}"))
    notes = (f"known as {stored.id}, seen again: {stored.times_seen} times in all",) if was_known else ()
    return replace(diagnosis, incident=stored.id, notes=(*diagnosis.notes, *notes))


def _incident_at(root_line: Line, lines: Sequence[Line]) -> Incident:
    """An incident of unknown reason (`others`) for a line; `lines` are the kept lines of its log."""
    near = [line for line in lines if 0 < abs(line.number - root_line.number) <= _NEAR]
    before = [line for line in near if line.number < root_line.number][-_AROUND:]
    after = [line for line in near if line.number > root_line.number][:_AROUND]
    until = [line for line in lines if root_line.number - _CONTENT <= line.number < root_line.number]
    return Incident(
        id="",
        signature=masked(root_line),
        reason=Reason.OTHERS,
        action=Action.FIX_AND_RESUBMIT,
        window=tuple(text for line in (*before, *after) if (text := masked(line))),
        node=root_line.node or "",
        provenance=os.path.basename(root_line.source),
        frames=frames_before(lines, root_line),
        content=_content([*until, root_line]),
    )


def _root_line(diagnosis: Diagnosis) -> Line | None:
    """The root line, or else the most suspicious one, with all that its kept line holds; None if there is none, or if
    masking leaves nothing of it."""
    cited = diagnosis.root_cause or next(iter(diagnosis.suspects), None)
    if cited is None:
        return None
    kept = (line for line in diagnosis.digest.lines if line.in_file == cited.in_file)
    root_line = next((line for line in kept if line.text == cited.text), None)
    root_line = root_line or parse_line(cited.text, cited.source, cited.line)
    return root_line if masked(root_line) else None


def _content(lines: Sequence[Line]) -> str:
    """A hash of lines with their numbers, which does not depend on the log's name; empty without lines."""
    text = "\n".join(f"{line.number} {line.text}" for line in lines)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16] if text else ""
