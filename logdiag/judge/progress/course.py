"""The course of a failure: what happened in which process, and how long after the root its consequences showed."""

from __future__ import annotations

from collections.abc import Sequence

from logdiag.judge.faults import Fault
from logdiag.judge.judgement import Judgement
from logdiag.judge.merge.clocks import Clocks
from logdiag.model import Mark, Role
from logdiag.scan.survey import Survey

# A sentence names at most so many kinds of consequences.
_MOST_TOLD = 3


def course_of(judgement: Judgement, clocks: Clocks) -> str:
    """A sentence: `the root cause came 12 s before "CUDA error" (rank 37) and 612 s before "Time-out" (9 ranks)`;
    empty where the clocks do not show it, or nothing followed a second later or more."""
    root = judgement.root
    if root is None:
        return ""
    kinds: dict[str, list[tuple[float, Fault]]] = {}
    for fault in judgement.consequences:
        seconds = clocks.seconds_apart(root.line, fault.line)
        if seconds is not None and seconds >= 1:
            kinds.setdefault(fault.finding.title, []).append((seconds, fault))
    first = sorted(kinds.items(), key=lambda item: min(seconds for seconds, _ in item[1]))[:_MOST_TOLD]
    phrases = [_seconds_before(title, late) for title, late in first]
    return f"the root cause came {' and '.join(phrases)}" if phrases else ""


def _seconds_before(title: str, faults: Sequence[tuple[float, Fault]]) -> str:
    seconds = min(seconds for seconds, _ in faults)
    ranks = sorted({fault.finding.rank for _, fault in faults if fault.finding.rank is not None})
    where = "" if not ranks else f" (rank {ranks[0]})" if len(ranks) == 1 else f" ({len(ranks)} ranks)"
    return f'{seconds:.0f} s before "{title}"{where}'


def marks_of(judgement: Judgement, survey: Survey) -> tuple[Mark, ...]:
    """The root first, then what followed it, other faults, clean ends, checkpoints and steps."""
    root = judgement.root
    marks = [Mark("root", root.line, root.finding.title, judgement.rank, judgement.node)] if root else []
    others = {
        "consequence": judgement.consequences,
        "apart": judgement.independent,
        "recovered": judgement.recovered,
    }
    findings = ((kind, fault.finding) for kind, faults in others.items() for fault in faults)
    marks += [Mark(kind, it.line, it.title, it.rank, it.node) for kind, it in findings if it.role is not Role.HINT]
    ends = (finding for finding in survey.findings if finding.role is Role.FINISHED)
    marks += [Mark("end", end.line, end.title, end.line.rank, end.line.node) for end in ends]
    marks += [Mark("checkpoint", line, line.message.strip(), line.rank, line.node) for line in survey.checkpoints]
    marks += [Mark("step", line, "", line.rank, line.node) for line in survey.progress]
    return tuple(marks)
