"""What a cluster tells of a job: its logs, its end and its machines, gathered as sources for one diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logdiag.read.sources import Known


@dataclass(frozen=True, slots=True)
class Gathered:
    """What `diagnose` is given of a job, and what its answer is told.

    `job` has its id, name, user, state, exit code and nodes as far as they are known; `exit_code` is what it ended with
    as `diagnose` takes it, None where that is not known or says nothing; `notes` tell what could not be had.
    """

    sources: tuple[Known, ...]
    job: Mapping[str, str]
    exit_code: int | None
    notes: tuple[str, ...]
