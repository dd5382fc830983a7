"""Tells the logs of several jobs apart that were passed as those of one job."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import combinations

from logdiag.patterns import pattern_of
from logdiag.scan.survey import Survey

# slurm-4711.out   jobA.err   run_12.log   exp-lr3.log   llm.o4711 (PBS)
_JOB = pattern_of(r"(?i)^((?:slurm|job|run|exp|experiment|trial)[-_.]?[A-Z0-9][\w-]*?|[\w-]+\.[oe]\d{3,})(?:\.|$)")
_RANK = pattern_of(r"(?i)[-_.]?(?:rank|task|proc|node|host|worker)[-_.]?\d+|(?<=\.)e(?=\d)")
# slurm-4711.out   llm.o4711: a scheduler gives no two jobs one number.
_NUMBER = pattern_of(r"(?i)^slurm-(\d+)|\.[oe](\d{3,})$")
# Earlier times are those without a year, which cannot be compared.
_SECONDS_OF_1990 = 6.3e8


@dataclass
class _Job:
    """The nodes and times in the logs under one job's name, and the number that a scheduler gave it, empty for none."""

    number: str = ""
    nodes: set[str] = field(default_factory=set)
    times: list[float] = field(default_factory=list)

    def is_apart_from(self, other: _Job) -> bool:
        """Whether the two have different numbers, or share neither a node nor a time."""
        if self.number and other.number:
            return self.number != other.number
        if self.nodes & other.nodes:
            return False
        return not (self.times and other.times) or (
            max(self.times) < min(other.times) or max(other.times) < min(self.times)
        )


def jobs_in(survey: Survey) -> dict[str, Survey]:
    """What was found of each job by its name, in order; empty where the logs look like those of one. A file that names
    no job, as a node's kernel log, counts for each."""
    names = {stream.index: _job_in(stream.name) for stream in survey.streams}
    if len({*names.values()} - {""}) < 2:
        return {}
    jobs: dict[str, _Job] = defaultdict(_Job)
    for name in names.values():
        number = _NUMBER.search(name)
        jobs[name].number = (number[1] or number[2]) if number else ""
    for line in survey.lines:
        job = jobs[names[line.stream]]
        if line.node:
            job.nodes.add(line.node)
        if line.time is not None and line.time > _SECONDS_OF_1990:
            job.times.append(line.time)
    jobs.pop("", None)
    if not all(job.is_apart_from(other) for job, other in combinations(jobs.values(), 2)):
        return {}
    return {job: _part(survey, {at for at, name in names.items() if name in ("", job)}) for job in jobs}


def _part(survey: Survey, streams: set[int]) -> Survey:
    """What was found in some of the streams. The last line of each is always kept, so that its lines are known."""
    part = survey.only(lambda line: line.stream in streams)
    return replace(
        part,
        uncounted_in={at: counts for at, counts in survey.uncounted_in.items() if at in streams},
        openings=[opening for opening in survey.openings if opening.stream.index in streams],
        total_lines=sum({line.stream: line.position + 1 for line in part.lines}.values()),
        total_bytes=sum(stream.bytes_read for stream in survey.streams if stream.index in streams),
        complete=all(stream.complete for stream in survey.streams if stream.index in streams),
    )


def _job_in(path: str) -> str:
    """The job that a file's name names; empty for none."""
    match = _JOB.match(os.path.basename(path))
    return _RANK.sub("", match[1]) if match else ""
