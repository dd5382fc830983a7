"""Chooses which of several jobs or runs an answer is about, so that it never mixes two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from logdiag.errors import SourceError, WeightsError
from logdiag.judge.judgement import Judgement, judge
from logdiag.judge.outcome import Outcome
from logdiag.judge.progress.times import last_step
from logdiag.judge.suspects.ranked import Ranking
from logdiag.model import Change, Digest, Reason, Role
from logdiag.rules import RuleBook
from logdiag.scan.runs import Run, jobs_in, only_run, runs_in
from logdiag.scan.shapes import words_of
from logdiag.scan.steps import step_number
from logdiag.scan.survey import Survey

_OTHER_RUNS = "other runs"
_MOST_NAMED = 3


class Seen(NamedTuple):
    """What was seen of a job: its survey and digest, a function that ranks its suspects, and its changes since a good
    run, empty if that is not known."""

    survey: Survey
    digest: Digest
    suspects: Callable[[], Ranking]
    changes: tuple[Change, ...] = ()


def seen_in(survey: Survey, digest: Digest, notes: list[str]) -> Seen:
    """What was seen in the logs of a survey. If its suspects cannot be ranked, a note says so."""

    @cache
    def ranked() -> Ranking:
        from logdiag.judge.suspects.ranking import ranking

        try:
            return ranking(survey, digest)
        except WeightsError as problem:
            note = f"no suspects were looked for: {problem}"
            if note not in notes:
                notes.append(note)
            return Ranking()

    return Seen(survey, digest, ranked)


def one_job(seen: Seen, book: RuleBook, notes: list[str]) -> Seen:
    """What was seen of the job to answer for, with a note on the others; all of it where the logs are of one job. Of
    several it is the latest that failed, or else the latest."""
    jobs = jobs_in(seen.survey)
    if not jobs:
        return seen
    parts = {job: _part(seen.digest, survey, notes) for job, survey in jobs.items()}
    judged = {job: _judged(part, book) for job, part in parts.items()}
    failed = [job for job, judgement in judged.items() if judgement.outcome is Outcome.FAILED]
    chosen = _latest({job: jobs[job] for job in failed or jobs})
    why_chosen = "the latest that failed" if len(failed) > 1 else "the only one that failed" if failed else "the latest"
    others = [f"{job} {_outcome_words(judgement)}" for job, judgement in judged.items() if job != chosen]
    more = [f"and {len(others) - _MOST_NAMED} more"] if len(others) > _MOST_NAMED else []
    listed = ", ".join([*others[:_MOST_NAMED], *more])
    sentence = f"these look like {len(jobs)} jobs; this is the answer for {chosen}, {why_chosen} ({listed})"
    notes.append(f"{sentence}; logdiag batch diagnoses each by itself")
    return parts[chosen]


def one_run(seen: Seen, book: RuleBook, run: int | None, notes: list[str]) -> Seen:
    """What was seen of one of several runs in one log, with a note on the others; all of it where there is one. `run`
    counts from 1; None is the last that tells how it ended. Raises SourceError for a run that is not there."""
    runs = _runs_of(seen, book)
    count = max(len(runs), 1)
    if run is not None and not 1 <= run <= count:
        runs_there = f"runs 1 to {count}" if runs else "one run, as far as its lines tell"
        raise SourceError(f"--run {run}: the log holds {runs_there}; give one of them, or leave it out")
    if not runs:
        return seen
    near = sorted({*range(max(1, count - _MOST_NAMED), count + 1), run or count})
    parts = {number: _part(seen.digest, only_run(seen.survey, runs[number - 1]), notes) for number in near}
    judged = {number: _judged(part, book) for number, part in parts.items()}
    chosen = run or _telling_run(parts, judged)
    listed = ", ".join(f"run {number} {_outcome_words(judged[number])}" for number in near if number != chosen)
    which = "the last" if chosen == count else f"run {chosen}"
    sentence = f"this log holds {count} runs, one after the other; this is the answer for {which} ({listed})"
    notes.append(f"{sentence}{_died_alike(parts, judged, chosen)}; --run N gives that of another")
    return parts[chosen]


def _runs_of(seen: Seen, book: RuleBook) -> list[Run]:
    """The runs in one log. A last one that only begins, and fails as the run before it did, is the same failure told
    twice: it is none."""
    runs = runs_in(seen.survey)
    if runs and runs[-1].only_begins:
        last_two = [_judged(_part(seen.digest, only_run(seen.survey, run), []), book) for run in runs[-2:]]
        if all(judgement.outcome is Outcome.FAILED for judgement in last_two):
            return runs_in(seen.survey, new_starts=False)
    return runs


def _telling_run(parts: Mapping[int, Seen], judged: Mapping[int, Judgement]) -> int:
    """The last run. If it does not tell how it ended, the last one judged that failed. It does not either where it only
    repeats the run before it and gets less far: what it complains of, that run got over."""
    last = max(judged)
    before, outcome = last - 1, judged[last].outcome
    unlike = _reason(judged[last]) is not _reason(judged[before])
    repeats = unlike and _repeats_in_part(parts[last].survey, parts[before].survey)
    if repeats and outcome is Outcome.FAILED:
        return before
    failed = [number for number, judgement in judged.items() if judgement.outcome is Outcome.FAILED]
    return max(failed, default=last) if repeats or outcome is Outcome.NOT_KNOWN else last


def _reason(judgement: Judgement) -> Reason | None:
    return judgement.root.reason if judgement.root else None


def _repeats_in_part(run: Survey, before: Survey) -> bool:
    """Whether a run has no end and says nothing that the run before it did not say, in fewer lines and steps."""
    step, step_before = _last_step_number(run), _last_step_number(before)
    further = step is not None and step_before is not None and step > step_before
    ended = any(finding.closes or finding.role is Role.FINISHED for finding in run.findings)
    if ended or further or run.total_lines >= before.total_lines:
        return False
    known = {words_of(line.message) for line in before.lines}
    return all(words_of(line.message) in known for line in run.lines)


def _judged(seen: Seen, book: RuleBook) -> Judgement:
    return judge(seen.survey, book, suspects=seen.suspects)


def _died_alike(parts: Mapping[int, Seen], judged: Mapping[int, Judgement], chosen: int) -> str:
    """Half a sentence on other runs that failed of the same reason at the same step; empty for none."""
    ends = {
        number: (reason, _last_step_number(parts[number].survey))
        for number, judgement in judged.items()
        if (reason := _reason(judgement))
    }
    reason, step = ends.pop(chosen, (None, None))
    alike = [str(number) for number, end in ends.items() if step is not None and end == (reason, step)]
    return f"; run {' and '.join(alike)} failed of the same at the same step, {step}" if alike else ""


def _last_step_number(survey: Survey) -> int | None:
    step = last_step(survey)
    return step_number(step) if step else None


def _part(digest: Digest, survey: Survey, notes: list[str]) -> Seen:
    """What was seen of one run or job; its digest counts the kept lines of the others as left out."""
    kept = {line.place for line in survey.lines}
    lines = tuple(line for line in digest.lines if line.place in kept)
    left_out = {**digest.dropped_by, _OTHER_RUNS: len(digest.lines) - len(lines)}
    return seen_in(survey, replace(digest, lines=lines, dropped_by=left_out), notes)


def _latest(jobs: Mapping[str, Survey]) -> str:
    """The job that printed last: by the clock where all have one, else the last in the order of their names."""
    times = {job: [line.time for line in survey.lines if line.time is not None] for job, survey in jobs.items()}
    order = list(jobs)
    return max(order, key=lambda job: (max(times[job]) if all(times.values()) else 0.0, order.index(job)))


def _outcome_words(judgement: Judgement) -> str:
    if judgement.outcome is Outcome.FAILED:
        return f"failed of {judgement.root.reason.value}" if judgement.root else "failed"
    return "shows no failure" if judgement.outcome is Outcome.HEALTHY else "does not tell"
