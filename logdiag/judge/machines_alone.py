"""What is said of machines' logs that were given without a job's: which faults in them would end a job."""

from __future__ import annotations

from logdiag.judge.judgement import Judgement

_NO_JOB = "no job's log is here"


def summary_of_machines(judgement: Judgement) -> str:
    """How many faults would end a job, the first of them by name, and that no job's log was given."""
    root = judgement.root
    if root is None:
        return f"A machine's log without a fault that would end a job; {_NO_JOB}."
    faults = [root, *judgement.independent, *judgement.consequences, *judgement.recovered]
    where = f" on {judgement.node}" if judgement.node else ""
    count = f"{len(faults)} faults" if len(faults) > 1 else "a fault"
    first = "the first: " if len(faults) > 1 else ""
    return f"A machine's log with {count} that would end a job, {first}{root.finding.title}{where}; {_NO_JOB}."
