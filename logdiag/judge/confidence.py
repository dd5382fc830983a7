"""How sure an answer is: what it rests on, weighed by numbers that were fitted on labelled failures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from logdiag.judge.faults import Fault
from logdiag.judge.judgement import Judgement
from logdiag.model import Reason, Role, Support

__all__ = ["confidence_of", "supports_of"]

_MOST_RIVALS = 3


def supports_of(judgement: Judgement, *, failed: bool, exit_code: int | None) -> tuple[Support, ...]:
    """What an answer rests on: its kind first, then what makes it more or less certain; a rival counts each time."""
    root = judgement.root
    if root is None:
        if failed:
            return (Support.EXIT_CODE,)
        kind = _kind_without_root(judgement, ended=judgement.finished or exit_code == 0)
        too_short = kind is Support.SILENT and judgement.progressed is None
        doubtful = bool(judgement.hints or judgement.independent or too_short) + judgement.empty
        return (kind, *[Support.DOUBTFUL] * doubtful)
    if root.finding.supports:
        return root.finding.supports
    rivals = {fault.reason for fault in judgement.independent if fault.finding.role is Role.CAUSE} - {root.reason}
    within = {finding.reason for finding in root.findings if finding.role is Role.CAUSE} - {root.reason}
    kind = _kind(root)
    # Beside a line that names its cause in words of its own, other complaints mean nothing.
    unexplained = 0 if kind is Support.NARROW else len(judgement.complaints)
    return (
        kind,
        *[Support.RIVAL] * min(len(rivals), _MOST_RIVALS),
        *[Support.DISAGREEING_CHAIN] * bool(within),
        *[Support.TRIAL] * root.finding.trial,
        *[Support.UNEXPLAINED] * unexplained,
        *[Support.SURVIVED] * (bool(judgement.recovered) and not root.died),
    )


def confidence_of(supports: Iterable[Support], weights: Mapping[Support, float]) -> float:
    """The share of answers with such support that are right: the logistic function of the summed weights."""
    return 1 / (1 + math.exp(-sum(weights.get(support, 0.0) for support in supports)))


def _kind_without_root(judgement: Judgement, *, ended: bool) -> Support:
    """A log that shows no work and complains in the end in words that no rule knows is least like a healthy one."""
    if ended:
        return Support.FINISHED
    if judgement.progressed:
        return Support.WORKING
    return Support.COMPLAINING if judgement.complaints else Support.SILENT


def _kind(root: Fault) -> Support:
    finding = root.finding
    if finding.role is Role.HINT:
        return Support.HINT
    if finding.role is Role.SYMPTOM:
        return Support.BARE_SYMPTOM if finding.reason is Reason.OTHERS else Support.SYMPTOM
    if root.quiet:
        return Support.QUIET
    if finding.reason is Reason.OTHERS and finding.generality:
        return Support.CATCH_ALL
    return Support.GENERAL if finding.generality else Support.NARROW
