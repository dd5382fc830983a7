"""Failed, healthy, or not known? Ordered decisions; the first that applies answers.

Healthy needs proof: a clean end, or work that goes on to the last line. Where there is neither, the log does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from logdiag.judge.decisions import decision, first_that_applies
from logdiag.judge.faults import Fault
from logdiag.judge.timeline import Timeline
from logdiag.model import Decision, Line

__all__ = ["OUTCOME", "Outcome", "outcome_of"]


class Outcome(str, Enum):
    """Whether the job failed, as far as its log tells."""

    FAILED = "failed"
    HEALTHY = "healthy"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the decisions look at. `complete` says whether all of the log was read, `complaints` are lines of trouble at
    the end that no rule knows."""

    root: Fault | None
    timeline: Timeline
    complaints: Sequence[Line]
    progressed: bool | None
    complete: bool


def something_broke(facts: _Facts) -> Outcome | None:
    """A fault stands that the job did not recover from."""
    return Outcome.FAILED if facts.root is not None else None


def caller_knows(facts: _Facts) -> Outcome | None:
    """The caller knows the job's exit code."""
    if facts.timeline.failed is None:
        return None
    return Outcome.FAILED if facts.timeline.failed else Outcome.HEALTHY


def not_all_was_read(facts: _Facts) -> Outcome | None:
    """A part of the log was not read, and the failure may stand there."""
    return None if facts.complete else Outcome.NOT_KNOWN


def ended_cleanly(facts: _Facts) -> Outcome | None:
    """The job reports its clean end."""
    return Outcome.HEALTHY if facts.timeline.finished else None


def complains_after_its_work(facts: _Facts) -> Outcome | None:
    """The last lines complain in words that no rule knows, and no step follows."""
    return Outcome.NOT_KNOWN if facts.complaints else None


def works_to_its_end(facts: _Facts) -> Outcome | None:
    """The log shows steps of work, and no complaint after them."""
    return Outcome.HEALTHY if facts.progressed else None


OUTCOME: tuple[Callable[[_Facts], Outcome | None], ...] = (
    something_broke,
    caller_knows,
    not_all_was_read,
    ended_cleanly,
    complains_after_its_work,
    works_to_its_end,
)
"""In this order; where none applies, the log does not tell."""


def outcome_of(
    root: Fault | None,
    timeline: Timeline,
    complaints: Sequence[Line],
    *,
    progressed: bool | None,
    complete: bool = True,
    without: frozenset[str] = frozenset(),
) -> tuple[Outcome, tuple[Decision, ...]]:
    """Whether the job failed, and what decided it. `complaints` are those after the job's last step."""
    facts = _Facts(root, timeline, complaints, progressed, complete)
    made = first_that_applies(OUTCOME, facts, without=without)
    return (made[1], (decision(made[0], None, made[1].value),)) if made else (Outcome.NOT_KNOWN, ())
