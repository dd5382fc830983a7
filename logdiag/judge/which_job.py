"""Which of several jobs an answer is of: it never makes one story out of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from logdiag.judge.judgement import Judgement, judge
from logdiag.judge.outcome import Outcome
from logdiag.judge.ranked import Ranking
from logdiag.model import Digest
from logdiag.rules import RuleBook
from logdiag.scan.jobs import jobs_in
from logdiag.scan.survey import Survey

__all__ = ["one_job"]

_MOST_NAMED = 3

Suspects = Callable[[], Ranking]


def one_job(
    survey: Survey, digest: Digest, book: RuleBook, suspects_of: Callable[[Survey, Digest], Suspects]
) -> tuple[Survey, Digest, str]:
    """What was found and kept of the job to answer for, and a sentence on the others; all of it and no word where the
    logs are of one job. Of several it is the latest that failed, or else the latest."""
    jobs = jobs_in(survey)
    if not jobs:
        return survey, digest, ""
    parts = {job: (found, _part(digest, found)) for job, found in jobs.items()}
    judged = {job: judge(found, book, suspects=suspects_of(found, kept)) for job, (found, kept) in parts.items()}
    failed = [job for job, judgement in judged.items() if judgement.outcome is Outcome.FAILED]
    chosen = _latest({job: jobs[job] for job in failed or jobs})
    which = "the latest that failed" if len(failed) > 1 else "the only one that failed" if failed else "the latest"
    others = [f"{job} {_said(judgement)}" for job, judgement in judged.items() if job != chosen]
    more = [f"and {len(others) - _MOST_NAMED} more"] if len(others) > _MOST_NAMED else []
    told = ", ".join([*others[:_MOST_NAMED], *more])
    sentence = f"these look like {len(jobs)} jobs; this is the answer for {chosen}, {which} ({told})"
    return (*parts[chosen], f"{sentence}; logdiag batch diagnoses each by itself")


def _part(digest: Digest, survey: Survey) -> Digest:
    kept = {(line.stream, line.position) for line in survey.lines}
    return replace(digest, lines=tuple(line for line in digest.lines if (line.stream, line.position) in kept))


def _latest(jobs: Mapping[str, Survey]) -> str:
    """The job that printed last: by the clock where all have one, else the last in the order of their names."""
    times = {job: [line.time for line in survey.lines if line.time is not None] for job, survey in jobs.items()}
    order = list(jobs)
    return max(order, key=lambda job: (max(times[job]) if all(times.values()) else 0.0, order.index(job)))


def _said(judgement: Judgement) -> str:
    if judgement.outcome is Outcome.FAILED:
        return f"failed of {judgement.root.reason.value}" if judgement.root else "failed"
    return "shows no failure" if judgement.outcome is Outcome.HEALTHY else "does not tell"
