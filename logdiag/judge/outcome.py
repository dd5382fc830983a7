"""Failed, healthy, or not known? Ordered decisions; the first that applies answers.

Healthy needs proof: a clean end, or work that goes on to the last line. Where there is neither, the log does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from logdiag.judge.decisions import decision, first_that_applies
from logdiag.judge.ending import BAD_WORDS
from logdiag.judge.facts import Facts
from logdiag.judge.timeline import Timeline
from logdiag.judge.tracebacks.forms import FRAME
from logdiag.model import TROUBLE, Decision, Ended, Line
from logdiag.rules.book import HARMLESS

# Above this chance of a failure an error among the last lines counts as one ...
_SUSPICIOUS = 0.35
# ... and a suspect alone above these: in software that no rule knows, and elsewhere, where rules would have found it or
# the log is too short to know its software.
_IN_UNKNOWN, _ELSEWHERE = 0.82, 0.95
# From the first chance of a failure on, steps are no proof of a healthy job; from the second on, neither is a status 0.
_DOUBTFUL, _VERY_DOUBTFUL = 0.5, 0.95
# No share that is left is taken for smaller than this.
_LITTLE = 1e-3
# So many lines above a fault belong to it.
_LEADS_TO = 10


class Outcome(str, Enum):
    """Whether the job failed, as far as its log shows it."""

    FAILED = "failed"
    HEALTHY = "healthy"
    NOT_KNOWN = "not known"


def _is_recovered(line: Line, facts: Facts) -> bool:
    """Whether a line is a fault that the job recovered from, or stands just above one, as its frames do."""
    return any((line.stream, line.position + below) in facts.survived for below in range(_LEADS_TO))


def _is_doubtful(facts: Facts, least: float = _DOUBTFUL) -> bool:
    """Whether the lines look like a failure's, and the most suspicious one is not a fault that was recovered from."""
    ranking = facts.suspects()
    recovered = ranking.lines and _is_recovered(ranking.lines[0].line, facts)
    return ranking.failure >= least and not recovered


def no_jobs_log(facts: Facts) -> Outcome | None:
    """No log is a job's: a machine's does not tell how a job ended."""
    return Outcome.NOT_KNOWN if facts.survey.of_machines and facts.timeline.failed is None else None


def something_broke(facts: Facts) -> Outcome | None:
    """A fault stands that the job did not recover from."""
    return Outcome.FAILED if facts.root is not None else None


def caller_knows(facts: Facts) -> Outcome | None:
    """The caller knows the job's exit code."""
    if facts.timeline.failed is None:
        return None
    return Outcome.FAILED if facts.timeline.failed else Outcome.HEALTHY


def not_all_was_read(facts: Facts) -> Outcome | None:
    """A part of the log was not read, and the failure may stand there."""
    return None if facts.survey.complete else Outcome.NOT_KNOWN


def last_status_is_bad(facts: Facts) -> Outcome | None:
    """The last status that is printed is not 0, or calls the outcome a failure. A bare number at the very end, or a few
    words that it failed, are one where the lines look like a failure's."""
    ending = facts.timeline.ending
    last = ending.bad_last
    said = last is not None and any(facts.timeline.kinds.is_a(kind, last) for kind in BAD_WORDS)
    least = _SUSPICIOUS if said else _DOUBTFUL
    status = ending.bad_status or (last if last and _is_doubtful(facts, least) else None)
    if status is None or status.place in facts.survived or facts.reads_well:
        return None
    ended = facts.timeline.ends.get(status.stream, ())
    return Outcome.FAILED if not ended or ended[-1] < status.position else None


def ended_cleanly(facts: Facts) -> Outcome | None:
    """The job reports its clean end, and no line stands out all the same as one that ended it: a script may print that
    it finished whatever became of its program."""
    if not facts.timeline.finished or (_is_doubtful(facts, _VERY_DOUBTFUL) and looks_like_a_failure(facts)):
        return None
    return Outcome.HEALTHY


def last_status_is_good(facts: Facts) -> Outcome | None:
    """The last status that is printed is 0, or calls the outcome a success; where the lines look like a failure's all
    the same, the log does not tell."""
    if not facts.timeline.ending.good:
        return None
    return Outcome.NOT_KNOWN if _is_doubtful(facts, _VERY_DOUBTFUL) else Outcome.HEALTHY


def ends_in_trouble(facts: Facts) -> Outcome | None:
    """The last words are an error, nothing calm follows, and no line stands out more that is not an error too, or the
    log looks like nothing but a failure's."""
    line = facts.timeline.ending.last_trouble
    if line is None or line.place in facts.survived:
        return None
    ranking = facts.suspects()
    best = ranking.lines[0].line if ranking.lines else line
    itself = best.place == line.place and not ranking.reads_well
    behind = best.level in (*TROUBLE, "WARNING") and ranking.failure >= _SUSPICIOUS
    return Outcome.FAILED if itself or behind or ranking.failure >= _VERY_DOUBTFUL else None


def looks_like_a_failure(facts: Facts) -> Outcome | None:
    """A line stands out as one that ended the job, whatever its words: no rule calls it harmless, and no later line
    says of what it names that it went well."""
    may_be = [
        ranked
        for ranked in facts.suspects().lines
        if not _is_recovered(ranked.line, facts) and not FRAME.match(ranked.line.message)
    ]
    standing = [ranked.score for ranked in may_be if not _was_nothing(ranked.line, facts)]
    # What is certain not to have been it leaves its chance to all the rest.
    elsewhere = sum(ranked.score for ranked in may_be) - sum(standing)
    chance = sum(standing) / max(1 - elsewhere, _LITTLE)
    if chance < _IN_UNKNOWN:
        return None
    return Outcome.FAILED if chance >= (_IN_UNKNOWN if facts.unknown_software else _ELSEWHERE) else None


def _was_nothing(line: Line, facts: Facts) -> bool:
    """Whether a rule calls a suspect harmless, or what it names went well later."""
    return facts.timeline.kinds.is_a(HARMLESS, line) or facts.went_well_later(line)


def complains_after_its_work(facts: Facts) -> Outcome | None:
    """The last lines complain in words that no rule knows, and no step follows."""
    return Outcome.NOT_KNOWN if facts.complaints else None


def works_to_its_end(facts: Facts) -> Outcome | None:
    """The log shows steps of work, no complaint after them, and does not look like a failure's."""
    return Outcome.HEALTHY if facts.progressed and not _is_doubtful(facts) else None


OUTCOME: tuple[Callable[[Facts], Outcome | None], ...] = (
    no_jobs_log,
    something_broke,
    caller_knows,
    not_all_was_read,
    last_status_is_bad,
    ended_cleanly,
    last_status_is_good,
    ends_in_trouble,
    looks_like_a_failure,
    complains_after_its_work,
    works_to_its_end,
)
"""In this order; where none applies, the log does not tell."""


def outcome_of(facts: Facts, without: frozenset[str] = frozenset()) -> tuple[Outcome, tuple[Decision, ...]]:
    """Whether the job failed, and what decided it."""
    made = first_that_applies(OUTCOME, facts, without=without)
    return (made[1], (decision(made[0], None, made[1].value),)) if made else (Outcome.NOT_KNOWN, ())


def how_it_ended(outcome: Outcome, timeline: Timeline, complaints: Sequence[Line], *, complete: bool = True) -> Ended:
    """How a log of this outcome ends. What the caller knows of the job's end overrides what the log shows."""
    if outcome is Outcome.FAILED:
        return Ended.FAILED
    known_clean = timeline.failed is False or timeline.finished or timeline.ending.good
    if outcome is Outcome.HEALTHY:
        return Ended.CLEAN if known_clean else Ended.STOPS
    return Ended.UNKNOWN if timeline.empty or complaints or not complete else Ended.STOPS
