"""Makes an incident of a diagnosis, or of a line that a person picked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from logdiag.errors import MemoryStoreError, SourceError
from logdiag.memory.incident import Incident, masked
from logdiag.memory.store import Store, open_store
from logdiag.model import Action, Diagnosis, Line, Reason
from logdiag.read.prefixes import parse_line
from logdiag.read.sources import open_sources

__all__ = ["incident_of", "incident_of_line", "remembered"]

_AROUND = 2
_NEAR = 5


def incident_of(diagnosis: Diagnosis, job: Mapping[str, str] | None = None) -> Incident:
    """What is worth remembering of a diagnosis: its root line with two lines either side, all masked.

    Raises MemoryStoreError for a diagnosis without a root line.
    """
    root = diagnosis.root_cause
    if root is None:
        raise MemoryStoreError(
            f"{diagnosis.source}: no line was found that names what broke; pick one with --line or --signature"
        )
    near = [
        line for line in diagnosis.digest.lines if line.source == root.source and abs(line.number - root.line) <= _NEAR
    ]
    before = [line for line in near if line.number < root.line][-_AROUND:]
    after = [line for line in near if line.number > root.line][:_AROUND]
    return Incident(
        id="",
        signature=masked(parse_line(root.text, root.source, root.line)),
        reason=diagnosis.reason,
        action=diagnosis.recovery.action,
        window=_window([*before, *after]),
        cause=diagnosis.summary,
        job=dict(job or {}),
        node=root.node or "",
        provenance=os.path.basename(root.source),
    )


def remembered(
    diagnosis: Diagnosis, memory: Store | str | os.PathLike[str] | None, job: Mapping[str, str] | None
) -> Diagnosis:
    """The diagnosis of a failure with the id under which it was added to the store; where that cannot be done, with a
    note that says why. It is knowledge only when a person confirms it."""
    if not diagnosis.failed:
        return diagnosis
    try:
        incident = incident_of(diagnosis, job)
        if isinstance(memory, Store):
            added = memory.add(incident)
        else:
            with open_store(memory, shipped=False) as store:
                added = store.add(incident)
    except MemoryStoreError as error:
        return replace(diagnosis, notes=(*diagnosis.notes, f"not remembered: {error}"))
    return replace(diagnosis, incident=added.id)


def incident_of_line(path: str, number: int, reason: Reason, action: Action) -> Incident:
    """The same for line `number` of a log, counted from 1. Raises SourceError when there is no such line."""
    around: list[Line] = []
    for stream in open_sources((path,)):
        for block in stream.blocks():
            for at, text in enumerate(block.data.split(b"\n")):
                if abs(block.number_of(at) - number) <= _AROUND:
                    decoded = text.decode(errors="replace").rstrip("\r")
                    around.append(parse_line(decoded, stream.name, block.number_of(at), prefix=block.prefix))
    picked = next((line for line in around if line.number == number and line.text.strip()), None)
    if picked is None:
        raise SourceError(f"{path}: line {number} is empty, or there is no such line; give another --line")
    return Incident(
        id="",
        signature=masked(picked),
        reason=reason,
        action=action,
        window=_window([line for line in around if line.number != number]),
        node=picked.node or "",
        provenance=os.path.basename(path),
    )


def _window(lines: Sequence[Line]) -> tuple[str, ...]:
    return tuple(text for line in lines if (text := masked(line)))
