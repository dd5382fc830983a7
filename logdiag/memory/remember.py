"""Makes an incident from a diagnosis, and stores it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
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
    line, root = _root_line(diagnosis), diagnosis.root_cause
    if line is None and not diagnosis.failed:
        raise MemoryStoreError(f"{diagnosis.source}: no line was found that names what broke; give it with --signature")
    known = diagnosis.reason is not Reason.NONE
    node = root.node if root else line.node if line else None
    lines = [item for item in diagnosis.digest.lines if line is None or item.source == line.source]
    around: list[Line] = []
    content = lines[-_CONTENT:]
    if line:
        content = [item for item in lines if line.number - _CONTENT <= item.number < line.number] + [line]
        around = [item for item in lines if 0 < line.number - item.number <= _NEAR][-_AROUND:]
        around += [item for item in lines if 0 < item.number - line.number <= _NEAR][:_AROUND]
    numbered = "\n".join(f"{item.number} {item.text}" for item in content)
    return Incident(
        id="",
        signature=masked(line or diagnosis.summary),
        reason=diagnosis.reason if known else Reason.OTHERS,
        action=diagnosis.recovery.action if known else Action.FIX_AND_RESUBMIT,
        window=tuple(filter(None, map(masked, around))),
        cause=_cause_in_general(diagnosis),
        job=dict(job or {}),
        node=node or "",
        provenance=os.path.basename(line.source if line else diagnosis.source),
        frames=frames_before(lines, line) if line else (),
        # It does not depend on the log's name.
        content=hashlib.sha256(numbered.encode(errors="replace")).hexdigest()[:16] if numbered else "",
    )


def remembered(diagnosis: Diagnosis, memory: StoreOrPlace, job: Mapping[str, str] | None) -> Diagnosis:
    """Stores a failure; returns the diagnosis with the incident's id, or with a note on why it was not stored."""
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


def _cause_in_general(diagnosis: Diagnosis) -> str:
    """The title of the answer; empty where it names this job's node or numbers."""
    title = _WHERE.sub("", diagnosis.summary).rstrip(".") if diagnosis.root_cause else ""
    node = diagnosis.root_cause.node if diagnosis.root_cause else None
    of_this_job = (node and node in title) or masked(title) != " ".join(title.split())
    return "" if of_this_job else title


def _root_line(diagnosis: Diagnosis) -> Line | None:
    """The root line, or else the most suspicious one; None if there is none, or if masking leaves nothing of it."""
    cited = diagnosis.root_cause or next(iter(diagnosis.suspects), None)
    if cited is None:
        return None
    kept = (line for line in diagnosis.digest.lines if (line.in_file, line.text) == (cited.in_file, cited.text))
    root_line = next(kept, None) or parse_line(cited.text, cited.source, cited.line)
    return root_line if masked(root_line) else None
