"""Was a fault got over that no decision about its own process calls recovered? By how the log goes on, whatever its
words: machines, services and schedulers get over faults in more words than rules can list.

What speaks for it is weighed by numbers that `python -m evals.got_over` fits on labelled logs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from logdiag.judge.decisions import decision
from logdiag.judge.facts import Facts
from logdiag.judge.faults import Fault
from logdiag.judge.recovered import (
    MOMENT,
    Standing,
    machine_works_until_it_goes,
    seconds_between,
    steps_follow,
    too_few_steps_follow,
)
from logdiag.judge.timeline import STEPS_OF_RECOVERY
from logdiag.model import TROUBLE, Line, Reason, Role
from logdiag.patterns import pattern_of

# What each of the numbers of `signs_of` is worth, and what is added to their sum.
_WORTH: Mapping[str, float] = {
    "looks like a failure": -0.41,
    "is suspicious": -0.19,
    "ends well": 1.68,
    "steps": 0.65,
    "is back": 3.17,
    "went well": 1.72,
    "share after the last fault": 3.96,
}
_BIAS = -2.95
# The decisions that know no more than that no steps follow.
_BY_STEPS_ALONE = frozenset({too_few_steps_follow.__name__, steps_follow.__name__})
LEAST = 0.78
"""From this chance on, a fault counts as got over."""
_LEAST_CHANCE, _LEAST_SCORE = 1e-5, 1e-4
# So much of a log must follow where no step is made and nothing is back.
_LEAST_SHARE = 0.2
_ENDS_PROGRAMS = (Reason.CUDA_ERROR, Reason.ECC_ERROR, Reason.NVLINK_ERROR)
# So many lines more make the share of a short log small.
_FEW = 5
# clip 31 rtf 0.0220   tile 17 of 90 (12 ms)   (a count; parts of clocks, measures and addresses are none)
_COUNT = pattern_of(r"(?<![\w.:/+-])\d{1,12}(?![\w:+-]|\.\w)")
# So many lines that count on are work, whatever their words; a program that tries again gives up sooner.
_LINES_OF_WORK = 5
_NO_WORK = frozenset({"complaint", "machines-own"})


class Rest(NamedTuple):
    """What follows the last line of a stream that a rule calls a failure, or a hint where there is none: its share of
    the kept lines, 0 to 1 (0 where no rule fired), and the sorted positions of its lines that count on."""

    share: float = 0.0
    work: Sequence[int] = ()


def got_over(facts: Facts) -> Standing | None:
    """How the log goes on, whatever its words, shows that this was got over.

    None where no rule found a fault, the caller knows that the job failed, or lines cannot be ranked.
    """
    broke = facts.standing.broke
    if not broke or facts.timeline.failed:
        return None
    made_by = {made.about.place: made.name for made in facts.standing.decisions if made.about}
    rests, over, broken = after_the_last(facts), list[Fault](), dict[int, Fault]()
    for fault in reversed(broke):
        name, stream = made_by.get(fault.line.place, ""), fault.line.stream
        may_be = name in _BY_STEPS_ALONE or (name == machine_works_until_it_goes.__name__ and stream not in broken)
        stays = _ends_its_process(fault, facts) or _is_of_one_trouble(fault, broken.get(stream))
        is_over = _worked_on if fault.finding.role is Role.HINT and broken else _is_over
        if may_be and not stays and is_over(fault, facts, rests):
            over.append(fault)
        elif fault.finding.role.is_failure:
            broken[stream] = fault
    if not over:
        return None
    ids = set(map(id, over))
    return facts.standing._replace(
        broke=tuple(fault for fault in broke if id(fault) not in ids),
        recovered=tuple(sorted((*facts.standing.recovered, *over), key=lambda fault: fault.line.place)),
        decisions=(*facts.standing.decisions, *(decision(got_over, fault.line, "recovered") for fault in over)),
    )


def _ends_its_process(fault: Fault, facts: Facts) -> bool:
    """Whether a process died of a fault, for what it printed before may reach the log after its last words; or whether
    a program, and not its machine, tells of a fault of its accelerator, whose memory is lost by then, or raises that it
    has no memory; or the line says that it is for good."""
    if facts.timeline.kinds.is_a("for-good", fault.line):
        return True
    of_machine = facts.timeline.kinds.is_a("machines-own", fault.line)
    raised = fault.reason is Reason.OUT_OF_MEMORY_ERROR and facts.timeline.kinds.is_a("bare-exception", fault.line)
    return fault.died or raised or (not of_machine and fault.reason in _ENDS_PROGRAMS)


def _is_of_one_trouble(fault: Fault, following: Fault | None) -> bool:
    """Whether the next fault that stays says more of the same: a killer's call, and whom it killed."""
    if following is None or following.reason is not fault.reason:
        return False
    return 0 <= seconds_between(fault.line, following.line) <= MOMENT


def _is_over(fault: Fault, facts: Facts, rests: Mapping[int, Rest]) -> bool:
    """Whether something goes on after a fault, and by all its signs it was got over; memory that was lost for good took
    a process with it, so that only work shows it."""
    after = _signs_after(fault, facts, rests)
    if fault.reason is Reason.ECC_ERROR and after["steps"] < STEPS_OF_RECOVERY:
        return False
    much = after["share after the last fault"] >= _LEAST_SHARE
    # A hint may be all that a rule knows of a log, so that its share says little.
    is_hint = fault.finding.role is Role.HINT
    goes_on = after["steps"] or after["is back"] or (much and (not is_hint or after["went well"]))
    return bool(goes_on and facts.suspects().lines) and chance_of(signs_of(fault, facts, rests)) >= LEAST


def _worked_on(fault: Fault, facts: Facts, rests: Mapping[int, Rest]) -> bool:
    """Whether the job made steps after a hint: before a failure it names no cause, so that no more is asked."""
    return _signs_after(fault, facts, rests)["steps"] >= STEPS_OF_RECOVERY


def chance_of(signs: Mapping[str, float]) -> float:
    """The chance, 0 to 1, that a fault was got over."""
    return 1 / (1 + math.exp(-_BIAS - sum(_WORTH[name] * value for name, value in signs.items())))


def after_the_last(facts: Facts) -> dict[int, Rest]:
    """By stream, what its kept lines after the last that a rule calls a failure show; where there is none,
    after the last hint."""
    roles: Mapping[bool, dict[int, int]] = {True: {}, False: {}}
    for finding in facts.survey.findings:
        if finding.role.is_failure or finding.role is Role.HINT:
            of_role, stream = roles[finding.role.is_failure], finding.line.stream
            of_role[stream] = max(finding.line.position, of_role.get(stream, 0))
    last = {**roles[False], **roles[True]}
    found, of_line = {finding.line.place for finding in facts.survey.findings}, facts.timeline.kinds.of_line
    rests: dict[int, Rest] = {}
    for stream, printed in facts.timeline.printed.items():
        after = printed[bisect_right(printed, last.get(stream, -1), key=lambda line: line.position) :]
        # No kernel's lines are work, and none of which a rule, its level or a word speaks of trouble.
        calm = (line for line in after if line.level not in TROUBLE and line.place not in found)
        work = _counted_on(line for line in calm if _NO_WORK.isdisjoint(of_line.get(line.place, ())))
        share = len(after) / (len(printed) + _FEW) if stream in last else 0.0
        rests[stream] = Rest(share, sorted(work))
    return rests


def _counted_on(lines: Iterable[Line]) -> Iterator[int]:
    """The positions of lines of the same words in which a count grows from each to the next."""
    alike: dict[str, list[Line]] = {}
    for line in lines:
        alike.setdefault(line.wording, []).append(line)
    for same in alike.values():
        if len(same) >= _LINES_OF_WORK:
            columns = zip(*(map(int, _COUNT.findall(line.message)) for line in same), strict=False)
            if any(all(before < after for before, after in pairwise(column)) for column in columns):
                yield from (line.position for line in same)


def signs_of(fault: Fault, facts: Facts, rests: Mapping[int, Rest]) -> dict[str, float]:
    """The numbers that speak for or against that a fault was got over; `rests` as of `after_the_last`."""
    ranking = facts.suspects()
    chance = min(max(ranking.failure, _LEAST_CHANCE), 1 - _LEAST_CHANCE)
    return {
        "looks like a failure": math.log(chance / (1 - chance)),
        "is suspicious": math.log(ranking.scores.get(fault.line.place, 0.0) + _LEAST_SCORE),
        "ends well": float(facts.timeline.ending.good),
        **_signs_after(fault, facts, rests),
    }


def _signs_after(fault: Fault, facts: Facts, rests: Mapping[int, Rest]) -> dict[str, float]:
    line, timeline, rest = fault.line, facts.timeline, rests.get(fault.line.stream, Rest())
    counted = min(STEPS_OF_RECOVERY, len(rest.work) - bisect_right(rest.work, line.position))
    return {
        "steps": float(max(len(timeline.steps_after(line, any_rank=True)), counted)),
        "is back": _how_many_after(line, timeline.back.get(line.stream, ())),
        "went well": _how_many_after(line, (told.line for told in timeline.went_well.get(line.stream, ()))),
        "share after the last fault": rest.share,
    }


def _how_many_after(line: Line, reports: Iterable[Line]) -> float:
    return math.log1p(sum(report.position > line.position for report in reports))
