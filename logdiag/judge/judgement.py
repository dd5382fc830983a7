"""The judgement: from a survey's findings to the root, what followed from it, and what was recovered from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from logdiag.judge.decisions import decision
from logdiag.judge.facts import Facts, unknown_lines
from logdiag.judge.faults import Fault, find_faults
from logdiag.judge.kinds import kinds_of
from logdiag.judge.outcome import Outcome, outcome_of
from logdiag.judge.ranks.rank import rank_and_node
from logdiag.judge.recovered import Standing, places_of, sort_by_standing
from logdiag.judge.root import find_root, is_consequence
from logdiag.judge.suspects.ranked import Ranking
from logdiag.judge.suspects.stand_in import (
    hint_among_the_suspects,
    knows_only_its_class,
    most_suspicious_line,
    most_suspicious_though_survived,
    named_by_its_words,
)
from logdiag.judge.timeline import Timeline, timeline_of
from logdiag.judge.unexplained import unexplained
from logdiag.model import Collectives, Decision, Line, Reason, Role
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

# Fewer lines before a fault may be the end of a longer log ...
_TELLING_START = 40


class Judgement(NamedTuple):
    """What was concluded of one case.

    `rank` and `node` are where the root happened, as far as the log tells. `consequences` follow from it,
    `independent` went wrong on their own, `afterwards` in a later program, `recovered` were recovered from; all in the
    order of the log. `progressed` says whether steps were made before the root, or at all, None where the log is too
    short to tell; `outcome` whether the job failed; `complaints` are lines of trouble that no rule knows. `decisions`
    say which decision put each fault where it is; `collectives` where each rank stood in a collective that hung.
    `unknown_software` says that the root is an exception's class or a symptom, in software that no rule knows.
    """

    root: Fault | None
    rank: int | None
    node: str | None
    consequences: tuple[Fault, ...]
    independent: tuple[Fault, ...]
    afterwards: tuple[Fault, ...]
    recovered: tuple[Fault, ...]
    hints: tuple[Fault, ...]
    complaints: tuple[Line, ...]
    progressed: bool | None
    outcome: Outcome
    timeline: Timeline
    decisions: tuple[Decision, ...]
    collectives: Collectives | None = None
    unknown_software: bool = False


def judge(
    survey: Survey,
    book: RuleBook,
    *,
    failed: bool | None = None,
    suspects: Callable[[], Ranking] = Ranking,
    without: frozenset[str] = frozenset(),
) -> Judgement:
    """Judges a survey. `failed` is what the caller knows of the job's end, if anything; `suspects` are asked for only
    where no rule names a cause; `without` names decisions and kinds of line to leave out, to see what each is worth."""
    facts = _sorted_out(survey, book, failed, suspects, without)
    if all_was_survived.__name__ not in without and (standing := all_was_survived(facts)):
        facts = facts._replace(standing=standing)
    root, by_rules = find_root(facts.standing.broke, facts.timeline, without)
    complaints = unexplained(survey, book, facts.timeline.kinds, root.line if root else None)
    survived = places_of((*facts.standing.recovered, *(fault for fault in facts.standing.broke if fault.quiet)))
    facts = facts._replace(root=root, complaints=complaints, progressed=_progressed(root, facts), survived=survived)
    outcome, ended = outcome_of(facts, without)
    root, by_words = _or_better(facts, outcome, without)
    collectives = _collectives(survey, facts.timeline) if survey.calls else None
    root = in_words_of_the_table(root, collectives, book)
    judgement = _around(root, facts, collectives, without)
    decisions = (*facts.standing.decisions, *by_rules, *by_words, *judgement.decisions, *ended)
    return judgement._replace(outcome=outcome, decisions=decisions)


def _sorted_out(
    survey: Survey,
    book: RuleBook,
    failed: bool | None,
    suspects: Callable[[], Ranking],
    without: frozenset[str],
) -> Facts:
    """The faults of a survey, each on its side."""
    kinds = kinds_of([*survey.lines, *(finding.line for finding in survey.findings)], book, without)
    faults = find_faults(survey, book, kinds)
    timeline = timeline_of(survey, faults, kinds, failed=failed)
    standing = sort_by_standing(faults, timeline, without)
    return Facts(survey, book, timeline, standing, suspects, cache(lambda: unknown_lines(survey.lines, book)))


def all_was_survived(facts: Facts) -> Standing | None:
    """No rule knows the software, and its log reads like a good run's: the classes and symptoms that rules found in it
    were survived."""
    broke = facts.standing.broke
    vague = all(fault.finding.role is Role.HINT or knows_only_its_class(fault) for fault in broke)
    if not broke or not vague or facts.timeline.failed or not facts.reads_well:
        return None
    recovered = sorted((*facts.standing.recovered, *broke), key=lambda fault: fault.line.place)
    made = (decision(all_was_survived, fault.line, "recovered") for fault in broke)
    decisions = (*facts.standing.decisions, *made)
    return facts.standing._replace(broke=(), recovered=tuple(recovered), decisions=decisions)


def _or_better(facts: Facts, outcome: Outcome, without: frozenset[str]) -> tuple[Fault | None, tuple[Decision, ...]]:
    """The root, or what stands for it where rules name no cause, with the decisions that made it so."""
    decisions = []
    of_a_failure = (hint_among_the_suspects, most_suspicious_though_survived, most_suspicious_line)
    for better in (*(of_a_failure if outcome is Outcome.FAILED else ()), named_by_its_words):
        found = better(facts) if better.__name__ not in without else None
        if found is not None:
            renamed = facts.root is not None and found.line == facts.root.line
            decisions.append(decision(better, found.line, found.reason.value if renamed else "root"))
            facts = facts._replace(root=found)
    return facts.root, tuple(decisions)


def _collectives(survey: Survey, timeline: Timeline) -> Collectives | None:
    """Where each rank stood in a collective that hung; it is loaded only where ranks tell of their calls."""
    from logdiag.judge.collectives.hung import collectives_in

    done = frozenset(rank for ranks in timeline.ranks_at_end.values() for rank in ranks if rank is not None)
    return collectives_in(survey, done)


def in_words_of_the_table(root: Fault | None, collectives: Collectives | None, book: RuleBook) -> Fault | None:
    """A collective that timed out, in the words and with the remedy for what the table of its ranks shows."""
    if root is None or collectives is None or root.finding.role is not Role.SYMPTOM:
        return root
    if root.reason is not Reason.NCCL_TIMEOUT_ERROR:
        return root
    said = f"collective hang ({collectives.kind}): {collectives.summary}"
    told = book.confirm_all(root.line._replace(text=said, starts=(0,)))
    if told is None:
        return root
    facts = {**root.finding.facts, "absent": ", ".join(map(str, collectives.ranks)), "kind": collectives.kind}
    return root._replace(finding=told._replace(line=root.line, facts=facts, generality=root.finding.generality))


def _around(root: Fault | None, facts: Facts, collectives: Collectives | None, without: frozenset[str]) -> Judgement:
    """What lies around a root: its rank and node, what follows from it, what does not."""
    survey, timeline, standing = facts.survey, facts.timeline, facts.standing
    rank, node, by = None, None, tuple[Decision, ...]()
    if root is not None:
        rank, node, by = rank_and_node(
            root, standing.told, survey.lines, timeline, without, survey.places, collectives, survey.openings
        )
    others = [fault for fault in standing.told if root is None or fault.line.place != root.line.place]
    consequences = tuple(fault for fault in others if root is not None and is_consequence(fault, root))
    followed = (decision(is_consequence, fault.line, "consequence") for fault in consequences)
    return Judgement(
        root=root,
        rank=rank,
        node=node,
        consequences=consequences,
        independent=tuple(fault for fault in others if root is None or not is_consequence(fault, root)),
        afterwards=standing.afterwards,
        recovered=tuple(fault for fault in standing.recovered if root is None or fault.line.place != root.line.place),
        hints=tuple(fault for fault in standing.broke if fault.finding.role is Role.HINT and fault is not root),
        complaints=tuple(facts.complaints),
        progressed=facts.progressed,
        outcome=Outcome.NOT_KNOWN,
        timeline=timeline,
        decisions=(*by, *followed),
        collectives=collectives,
        unknown_software=root is not None and knows_only_its_class(root) and facts.unknown_software,
    )


def _progressed(root: Fault | None, facts: Facts) -> bool | None:
    """Whether the job had made steps before its root, or at all; None where the log is too short to tell."""
    survey = facts.survey
    if root is None:
        return True if survey.progress else False if survey.total_lines >= _TELLING_START else None
    line = root.line
    if any(step.stream != line.stream or step.position < line.position for step in survey.progress):
        return True
    from_start = line.position >= _TELLING_START or facts.timeline.kinds.has("setting-up")
    return False if from_start else None
