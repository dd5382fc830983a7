"""The judgement: from a survey's findings to the root, its consequences, and what was recovered from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from logdiag.judge.decisions import decision
from logdiag.judge.facts import Facts, lines_of_unknown_software
from logdiag.judge.faults import Fault, find_faults
from logdiag.judge.got_over import got_over
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
    stands_alone_before_the_root,
)
from logdiag.judge.timeline import Timeline, timeline_of
from logdiag.judge.unexplained import unexplained
from logdiag.model import Collectives, Decision, Line, Reason, Role, Support
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

# With fewer lines than this before a fault, a log may be only the end of a longer one.
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
    """Judges a survey. `failed` is what the caller knows of the job's end, None if nothing; `suspects` ranks lines, and
    is called only where no rule names a cause; `without` names decisions and kinds of line to leave out."""
    facts, by_rules = facts_of(survey, book, failed=failed, suspects=suspects, without=without)
    outcome, ended = outcome_of(facts, without)
    root, by_words = _or_better(facts, outcome, without)
    collectives = _collectives(facts)
    root = in_words_of_the_table(root, collectives, book)
    standing = facts.standing
    rank, node, located = rank_and_node(root, facts, collectives, without) if root else (None, None, ())
    others = _apart_from(root, standing.failures)
    consequences = tuple(fault for fault in others if root is not None and is_consequence(fault, root))
    followed = (decision(is_consequence, fault.line, "consequence") for fault in consequences)
    return Judgement(
        root=root,
        rank=rank,
        node=node,
        consequences=consequences,
        independent=tuple(fault for fault in others if root is None or not is_consequence(fault, root)),
        afterwards=standing.afterwards,
        recovered=_apart_from(root, standing.recovered),
        hints=tuple(fault for fault in standing.broke if fault.finding.role is Role.HINT and fault is not root),
        complaints=tuple(facts.complaints),
        progressed=None if _may_have_progressed(root, facts) else facts.progressed,
        outcome=outcome,
        timeline=facts.timeline,
        decisions=(*standing.decisions, *by_rules, *by_words, *located, *followed, *ended),
        collectives=collectives,
        unknown_software=root is not None and knows_only_its_class(root) and facts.unknown_software,
    )


def facts_of(
    survey: Survey,
    book: RuleBook,
    *,
    failed: bool | None = None,
    suspects: Callable[[], Ranking] = Ranking,
    without: frozenset[str] = frozenset(),
) -> tuple[Facts, tuple[Decision, ...]]:
    """The facts of a survey: its faults, each on its side, with the root that rules name and the decisions that chose
    it; arguments as of `judge`."""
    kinds = kinds_of([*survey.lines, *(finding.line for finding in survey.findings)], book, without)
    faults = find_faults(survey, book, kinds)
    timeline = timeline_of(survey, faults, kinds, failed=failed)
    standing = sort_by_standing(faults, timeline, without)
    facts = Facts(
        survey, book, timeline, standing, suspects, cache(lambda: lines_of_unknown_software(survey.lines, book))
    )
    for look in (all_was_survived, got_over):
        changed = None if look.__name__ in without else look(facts)
        facts = facts._replace(standing=changed) if changed else facts
    return _with_root(facts, without)


def _with_root(facts: Facts, without: frozenset[str]) -> tuple[Facts, tuple[Decision, ...]]:
    """The facts with the root that rules name, and the decisions that chose it."""
    standing, timeline = facts.standing, facts.timeline
    root, decisions = find_root(standing.broke, timeline, without)
    complaints = unexplained(facts.survey, facts.book, timeline.kinds, root.line if root else None)
    survived = places_of((*standing.recovered, *(fault for fault in standing.broke if fault.quiet)))
    progressed = _progressed(root, facts)
    return facts._replace(root=root, complaints=complaints, progressed=progressed, survived=survived), decisions


def all_was_survived(facts: Facts) -> Standing | None:
    """No rule knows the software, and its log reads like a good run's: the classes and symptoms that rules found in it
    were survived; not so a process's report of its own crash, nor a kernel's of what ends jobs."""
    broke, kinds = facts.standing.broke, facts.timeline.kinds
    vague = all(fault.finding.role is Role.HINT or knows_only_its_class(fault) for fault in broke)
    ends_jobs = any(
        fault.finding.ends or (kinds.is_a("ends-jobs", fault.line) and kinds.is_a("machines-own", fault.line))
        for fault in broke
    )
    vague = vague and not ends_jobs
    if not broke or not vague or facts.timeline.failed or not facts.reads_well:
        return None
    recovered = sorted((*facts.standing.recovered, *broke), key=lambda fault: fault.line.place)
    made = (decision(all_was_survived, fault.line, "recovered") for fault in broke)
    decisions = (*facts.standing.decisions, *made)
    return facts.standing._replace(broke=(), recovered=tuple(recovered), decisions=decisions)


def _may_have_progressed(root: Fault | None, facts: Facts) -> bool:
    """Whether steps may have been made though no rule knows any: in software that no rule knows, where the root too is
    told by its words alone, so that a person decides what to do."""
    told_by_words = root is not None and Support.SUSPECT in root.finding.supports
    return told_by_words and not facts.progressed and facts.unknown_software


def _or_better(facts: Facts, outcome: Outcome, without: frozenset[str]) -> tuple[Fault | None, tuple[Decision, ...]]:
    """The root, or a suspect in its place where rules name no cause, with the decisions that chose it."""
    decisions = []
    of_a_failure = (
        hint_among_the_suspects,
        most_suspicious_though_survived,
        most_suspicious_line,
        stands_alone_before_the_root,
    )
    for better in (*(of_a_failure if outcome is Outcome.FAILED else ()), named_by_its_words):
        better_root = better(facts) if better.__name__ not in without else None
        if better_root is not None:
            renamed = facts.root is not None and better_root.line == facts.root.line
            decisions.append(decision(better, better_root.line, better_root.reason.value if renamed else "root"))
            facts = facts._replace(root=better_root)
    return facts.root, tuple(decisions)


def _collectives(facts: Facts) -> Collectives | None:
    """Where each rank stood in a collective that hung; None without calls of ranks, or where nothing hung."""
    if not facts.survey.calls:
        return None
    from logdiag.judge.collectives.hung import collectives_in

    done = frozenset(rank for ranks in facts.timeline.ranks_at_end.values() for rank in ranks if rank is not None)
    return collectives_in(facts.survey, done)


def in_words_of_the_table(root: Fault | None, collectives: Collectives | None, book: RuleBook) -> Fault | None:
    """The root; if it is a collective that timed out, with the title and remedy for what its ranks show."""
    if root is None or collectives is None or root.finding.role is not Role.SYMPTOM:
        return root
    if root.reason is not Reason.NCCL_TIMEOUT_ERROR:
        return root
    text = f"collective hang ({collectives.kind}): {collectives.summary}"
    confirmed = book.confirm_all(root.line._replace(text=text, starts=(0,)))
    if confirmed is None:
        return root
    facts = {**root.finding.facts, "absent": ", ".join(map(str, collectives.ranks)), "kind": collectives.kind}
    return root._replace(finding=confirmed._replace(line=root.line, facts=facts, generality=root.finding.generality))


def _apart_from(root: Fault | None, faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Faults that stand elsewhere than the root."""
    return tuple(fault for fault in faults if root is None or fault.line.place != root.line.place)


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
