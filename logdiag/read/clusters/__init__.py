"""What a cluster knows of a job: its logs, its end and its machines, gathered as sources for one diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logdiag.read.sources import Known


@dataclass(frozen=True, slots=True)
class Gathered:
    """The sources of a job for `diagnose`, and what is added to its answer.

    `job` has its id, name, user, state, exit code and nodes as far as they are known; `exit_code` is that of the job as
    `diagnose` takes it, None where it is not known or means nothing; `notes` name what could not be gathered.
    """

    sources: tuple[Known, ...]
    job: Mapping[str, str]
    exit_code: int | None
    notes: tuple[str, ...]
