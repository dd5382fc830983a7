"""How sure an answer is: what it rests on, weighed by numbers that were fitted on labelled failures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from logdiag.judge.faults import Fault
from logdiag.judge.judgement import Judgement
from logdiag.judge.outcome import Outcome
from logdiag.model import Reason, Role, Support

_MOST_RIVALS = 3
_MOST_WHERE_NOT_KNOWN = 0.5
# A line that one person confirmed is never surer than this, however often such lines were right when measured.
_MOST_FROM_MEMORY = 0.97
# An answer from words that no rule knows is never sure.
_MOST_FROM_WORDS = 0.59
_FROM_MEMORY = frozenset({Support.SAME, Support.NEARLY_SAME, Support.ALIKE, Support.FAINTLY_ALIKE})
# A class or a symptom, which proves less in software that no rule knows.
_SAY_LITTLE = frozenset({Support.GENERAL, Support.CATCH_ALL, Support.SYMPTOM, Support.BARE_SYMPTOM})


def supports_of(judgement: Judgement) -> tuple[Support, ...]:
    """What an answer rests on: its kind first, then what makes it more or less certain; a rival counts each time."""
    root = judgement.root
    if root is None:
        if judgement.outcome is Outcome.FAILED:
            return (Support.EXIT_CODE,)
        kind = _kind_without_root(judgement)
        too_short = kind is Support.SILENT and judgement.progressed is None
        doubtful = bool(judgement.hints or judgement.independent or too_short) + judgement.timeline.empty
        return (kind, *[Support.DOUBTFUL] * doubtful)
    if root.finding.supports:
        return root.finding.supports
    rivals = {fault.reason for fault in judgement.independent if fault.finding.role is Role.CAUSE} - {root.reason}
    within = {finding.reason for finding in root.findings if finding.role is Role.CAUSE} - {root.reason}
    kind = _kind(root)
    # Beside a line that a narrow rule knows, other complaints do not matter.
    unexplained = 0 if kind is Support.NARROW else len(judgement.complaints)
    return (
        kind,
        *[Support.RIVAL] * min(len(rivals), _MOST_RIVALS),
        *[Support.DISAGREEING_CHAIN] * bool(within),
        *[Support.UNKNOWN_SOFTWARE] * (judgement.unknown_software and kind in _SAY_LITTLE),
        *[Support.TRIAL] * root.finding.trial,
        *[Support.UNEXPLAINED] * unexplained,
        *[Support.SURVIVED] * (bool(judgement.recovered) and not root.died),
    )


def confidence_in(judgement: Judgement, supports: Iterable[Support], weights: Mapping[Support, float]) -> float:
    """The confidence of an answer, 0 to 1: at most 0.5 where the outcome is not known and there is no root."""
    confidence = confidence_of(supports, weights)
    not_known = judgement.outcome is Outcome.NOT_KNOWN and judgement.root is None
    return min(confidence, _MOST_WHERE_NOT_KNOWN) if not_known else confidence


def confidence_of(supports: Iterable[Support], weights: Mapping[Support, float]) -> float:
    """The share of answers with such support that are right: the logistic function of the summed weights; at most
    0.97 where the memory named the root, and 0.59 where only words that no rule knows did."""
    all_supports = tuple(supports)
    share = 1 / (1 + math.exp(-sum(weights.get(support, 0.0) for support in all_supports)))
    if Support.SUSPECT in all_supports:
        return min(share, _MOST_FROM_WORDS)
    return share if _FROM_MEMORY.isdisjoint(all_supports) else min(share, _MOST_FROM_MEMORY)


def _kind_without_root(judgement: Judgement) -> Support:
    """What proves a healthy log; where the outcome is not known, whether the log ends in complaints."""
    if judgement.outcome is Outcome.HEALTHY:
        return Support.FINISHED if judgement.timeline.finished or not judgement.progressed else Support.WORKING
    return Support.COMPLAINING if judgement.complaints else Support.SILENT


def _kind(root: Fault) -> Support:
    finding = root.finding
    if finding.role is Role.HINT or (root.quiet and finding.role is Role.SYMPTOM):
        return Support.HINT
    if finding.role is Role.SYMPTOM:
        return Support.BARE_SYMPTOM if finding.reason is Reason.OTHERS else Support.SYMPTOM
    if finding.reason is Reason.OTHERS and finding.generality:
        return Support.CATCH_ALL
    if root.quiet:
        return Support.QUIET
    return Support.GENERAL if finding.generality else Support.NARROW
