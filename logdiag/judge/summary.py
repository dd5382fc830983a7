"""The answer in a sentence or two: what broke, where, and which ranks failed in consequence."""

from __future__ import annotations

from logdiag.judge.judgement import Judgement
from logdiag.judge.outcome import Outcome
from logdiag.judge.status_words import status_words
from logdiag.model import Ended, Finding
from logdiag.scan.survey import Survey

_NO_JOB = "no job's log is here"


def summary_of(judgement: Judgement, exit_code: int | None, ended: Ended, survey: Survey) -> str:
    """What happened, in one or two sentences. `exit_code` is the job's, where the caller knows it."""
    root = judgement.root
    if survey.of_machines and judgement.outcome is Outcome.NOT_KNOWN:
        return _of_machines(judgement)
    if root is None:
        return _without_root(judgement, exit_code, ended, survey.complete)
    finding = root.finding
    table = judgement.collectives if root.finding.facts.get("kind") else None
    rank = f"rank {judgement.rank}" if judgement.rank is not None and table is None else ""
    where = ", ".join(part for part in (rank, f"node {judgement.node}" if judgement.node else "") if part)
    title = table.summary[0].upper() + table.summary[1:] if table else finding.title
    broke = f"{title} on {where}" if where else title
    ranks = {rank for fault in judgement.consequences for rank in fault.ranks} - {judgement.rank}
    followed = f"; {len(ranks)} other rank{'s' if len(ranks) != 1 else ''} failed in consequence" if ranks else ""
    return f"{broke}{followed}.{_status_of(finding)}"


def _without_root(judgement: Judgement, exit_code: int | None, ended: Ended, complete: bool) -> str:
    if judgement.outcome is Outcome.FAILED:
        meaning = f" ({words})" if (words := status_words(exit_code)) else ""
        return f"The job ended with exit code {exit_code}{meaning}, and its log shows no cause."
    if judgement.outcome is Outcome.HEALTHY:
        end = "The job came to its end." if ended is Ended.CLEAN else "It stops without an end, amid work."
        return f"The log shows no failure. {end}"
    if not complete:
        return "What could be read shows no failure, but not all of the log was read."
    if judgement.complaints:
        return "The log does not tell whether the job failed: it complains in words that no rule knows."
    return "The log does not tell whether the job failed: it shows no known failure, no clean end and no steps of work."


def _of_machines(judgement: Judgement) -> str:
    """Of machines' logs that were read without a job's: how many faults would end a job, and the first of them."""
    root = judgement.root
    if root is None:
        return f"A machine's log without a fault that would end a job; {_NO_JOB}."
    count = 1 + len((*judgement.independent, *judgement.consequences, *judgement.recovered))
    faults, first = (f"{count} faults", "the first: ") if count > 1 else ("a fault", "")
    where = f" on {judgement.node}" if judgement.node else ""
    return f"A machine's log with {faults} that would end a job, {first}{root.finding.title}{where}; {_NO_JOB}."


def _status_of(finding: Finding) -> str:
    """A sentence on the usual cause of the exit status or signal that a line names; empty for none."""
    code, signal = finding.facts.get("exitcode", ""), finding.facts.get("signal", "")
    words = status_words(code) or status_words(f"-{signal}")
    if not words or code in finding.title.split():
        return f" It was {words}." if words else ""
    often = words.partition(": ")[2]
    return f" {often[0].upper()}{often[1:]}." if often else ""
