"""Whether the logs that were given as one job look like those of several."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from logdiag.model import Line
from logdiag.read.sources import Stream

__all__ = ["note_on_several_jobs"]

# slurm-4711.out   jobA.err   run_12.log   exp-lr3.log   llm.o4711 (PBS)
_JOB = re.compile(r"(?i)^((?:slurm|job|run|exp|experiment|trial)[-_.]?[A-Z0-9][\w-]*?|[\w-]+\.[oe]\d{3,})(?:\.|$)")
_RANK = re.compile(r"(?i)[-_.]?(?:rank|task|proc|node|host|worker)[-_.]?\d+|(?<=\.)e(?=\d)")
_MOST_NAMED = 3
# Times without a year are no times of day that could be compared.
_SECONDS_OF_1990 = 6.3e8


@dataclass
class _Job:
    """What the logs under one job's name have seen."""

    nodes: set[str] = field(default_factory=set)
    times: list[float] = field(default_factory=list)

    def is_apart_from(self, other: _Job) -> bool:
        """Whether they share neither a node nor a time."""
        if self.nodes & other.nodes:
            return False
        return not (self.times and other.times) or (
            max(self.times) < min(other.times) or max(other.times) < min(self.times)
        )


def note_on_several_jobs(streams: Sequence[Stream], lines: Iterable[Line]) -> str:
    """A sentence where files with the names of several jobs share no node and no time; empty otherwise."""
    names = {stream.index: _job_in(stream.name) for stream in streams}
    jobs: dict[str, _Job] = defaultdict(_Job)
    for name in names.values():
        jobs[name]
    for line in lines:
        job = jobs[names.get(line.stream, "")]
        if line.node:
            job.nodes.add(line.node)
        if line.time is not None and line.time > _SECONDS_OF_1990:
            job.times.append(line.time)
    jobs.pop("", None)
    if len(jobs) < 2 or not all(one.is_apart_from(other) for one, other in combinations(jobs.values(), 2)):
        return ""
    told = ", ".join([*list(jobs)[:_MOST_NAMED], *(["..."] if len(jobs) > _MOST_NAMED else [])])
    return f"these look like {len(jobs)} jobs ({told}), diagnosed as one; logdiag batch diagnoses each by itself"


def _job_in(path: str) -> str:
    """The job that a file's name tells, empty where it tells none."""
    match = _JOB.match(os.path.basename(path))
    return _RANK.sub("", match[1]) if match else ""
