"""What the policy says about a job that a scheduler starts again, from what the scheduler knows of it."""

from __future__ import annotations

import os
from dataclasses import replace

from logdiag.model import Diagnosis
from logdiag.recovery.launch import same_node
from logdiag.recovery.ledger import Ledger
from logdiag.recovery.policy import Policy, failure_of

# States of a job that somebody ended on purpose, or that the scheduler itself starts again.
_LEFT_ALONE = ("COMPLETED", "CANCELLED", "PREEMPTED", "RUNNING", "SUSPENDED")


def choice_for(answer: Diagnosis, policy: Policy, folder: str) -> dict[str, str]:
    """What to do about a run of a job, as facts of the job: `choice`, `choice_why`, `choice_node`, `choice_seconds`;
    empty for one that did not fail or is to be left alone. `folder` keeps what was decided, so that asking again gives
    the same. Raises LogdiagError."""
    job = answer.job
    if not answer.failed or job.get("state") in _LEFT_ALONE:
        return {}
    ledger = Ledger(os.path.join(folder, job["id"]))
    course, run = ledger.course, job.get("started", "")
    try:
        if not course.decided or course.decided["attempt"] != run:
            _decide(answer, policy, ledger, run)
    finally:
        ledger.close()
    decided = course.decided or {}
    return {"choice": decided["step"], **{f"choice_{name}": str(decided[name]) for name in ("why", "node", "seconds")}}


def _decide(answer: Diagnosis, policy: Policy, ledger: Ledger, run: str) -> None:
    job, course = answer.job, ledger.course
    ledger.begin([job["id"]])
    step = answer.times.last_step if answer.times else None
    failure = failure_of(answer, step, progressed=step is not None and step > course.furthest)
    # A user can write anything into a log: leave out only nodes of this very job, and not too many.
    node = same_node(failure.node, job.get("nodes", "").split(","))
    failure = replace(failure, node=node or failure.node)
    choice, _ = ledger.decide(policy, failure, "" if node in course.excluded else node, run)
    if choice.step == "stop":
        ledger.add("over", how="stopped", why=choice.why)
