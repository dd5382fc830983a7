"""How long after the first failure its consequences showed, by the clocks of all logs."""

from __future__ import annotations

from collections.abc import Sequence

from logdiag.judge.faults import Fault
from logdiag.judge.judgement import Judgement
from logdiag.judge.merge.clocks import Clocks
from logdiag.scan.survey import Survey

# So many kinds of consequences are told of.
_MOST_TOLD = 3


def course_of(judgement: Judgement, survey: Survey) -> str:
    """A sentence: `the root cause came 12 s before "CUDA error" (rank 37) and 612 s before "Time-out" (9 ranks)`;
    empty where the logs' clocks do not tell, or nothing followed by a second."""
    root = judgement.root
    if root is None:
        return ""
    clocks = Clocks(survey.lines)
    kinds: dict[str, list[tuple[float, Fault]]] = {}
    for fault in judgement.consequences:
        seconds = clocks.seconds_apart(root.line, fault.line)
        if seconds is not None and seconds >= 1:
            kinds.setdefault(fault.finding.title, []).append((seconds, fault))
    first = sorted(kinds.items(), key=lambda item: min(seconds for seconds, _ in item[1]))[:_MOST_TOLD]
    told = [_words(title, found) for title, found in first]
    return f"the root cause came {' and '.join(told)}" if told else ""


def _words(title: str, found: Sequence[tuple[float, Fault]]) -> str:
    seconds = min(seconds for seconds, _ in found)
    ranks = sorted({fault.finding.rank for _, fault in found if fault.finding.rank is not None})
    where = "" if not ranks else f" (rank {ranks[0]})" if len(ranks) == 1 else f" ({len(ranks)} ranks)"
    return f'{seconds:.0f} s before "{title}"{where}'
