"""The judgement: from a survey's findings to the root, what followed from it, and what was recovered from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from logdiag.judge.decisions import decision
from logdiag.judge.faults import Fault, find_faults
from logdiag.judge.kinds import kinds_of
from logdiag.judge.outcome import Outcome, outcome_of
from logdiag.judge.ranks.rank import rank_and_node
from logdiag.judge.recovered import sort_by_standing
from logdiag.judge.root import find_root, in_order, is_consequence
from logdiag.judge.suspects.ranked import RankedLine, Ranking
from logdiag.judge.suspects.stand_in import (
    SURE,
    bar_before,
    is_unknown_software,
    knows_only_its_class,
    most_suspicious_line,
    named_by_its_words,
    unknown_lines,
)
from logdiag.judge.timeline import STEPS_OF_RECOVERY, Timeline, timeline_of
from logdiag.judge.tracebacks.forms import FRAME
from logdiag.judge.unexplained import unexplained
from logdiag.model import CALM, Collectives, Decision, Line, Reason, Role
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

_MOST_SUSPICIOUS = most_suspicious_line.__name__
# Above this chance a log shows the failure of which only its caller knows.
_SHOWN = 0.2
# So many suspects an answer shows, and so many may be the cause.
_SUSPECTS = 3
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
    sides = _sort_out(survey, book, failed, without)
    if survived := all_was_survived(sides, survey, book, suspects, without):
        sides = survived
    timeline = sides.timeline
    root, found = find_root(sides.broke, timeline, without)
    progressed = _progressed(root, survey, timeline)
    complaints = unexplained(survey, book, timeline.kinds, root.line if root else None)
    outcome, ended = outcome_of(
        root,
        timeline,
        complaints,
        progressed=progressed,
        recovered=_places((*sides.recovered, *(fault for fault in sides.broke if fault.quiet))),
        suspects=suspects,
        unknown_lines=lambda: unknown_lines(survey.lines, book),
        complete=survey.complete,
        of_machines=survey.of_machines,
        without=without,
    )
    hint = (
        hint_among_the_suspects(sides.broke, suspects, without) if root is None and outcome is Outcome.FAILED else None
    )
    if hint is not None:
        root, found = hint, (*found, decision(hint_among_the_suspects, hint.line, "root"))
    elif outcome is Outcome.FAILED and _MOST_SUSPICIOUS not in without:
        root, suspected = _or_suspected(root, sides, survey, book, suspects)
        found = (*found, *suspected)
    if root is not None and (meant := named_by_its_words(root, without)):
        root, found = meant, (*found, decision(named_by_its_words, root.line, meant.reason.value))
    collectives = _collectives(survey, timeline) if survey.calls else None
    root = in_words_of_the_table(root, collectives, book)
    judgement = _around(root, sides, survey, book, found, without, collectives)
    decisions = (*judgement.decisions, *sides.set_aside, *ended)
    return judgement._replace(complaints=complaints, progressed=progressed, outcome=outcome, decisions=decisions)


def _collectives(survey: Survey, timeline: Timeline) -> Collectives | None:
    """Where each rank stood in a collective that hung; it is loaded only where ranks tell of their calls."""
    from logdiag.judge.collectives.hung import collectives_in

    done = frozenset(rank for ranks in timeline.ranks_at_end.values() for rank in ranks if rank is not None)
    return collectives_in(survey, done)


def _around(
    root: Fault | None,
    sides: _Sides,
    survey: Survey,
    book: RuleBook,
    found: tuple[Decision, ...],
    without: frozenset[str],
    collectives: Collectives | None,
) -> Judgement:
    """What lies around a root: its rank and node, what follows from it, what does not."""
    places, timeline = survey.places, sides.timeline
    rank, node, by = None, None, tuple[Decision, ...]()
    if root is not None:
        rank, node, by = rank_and_node(
            root, sides.told, survey.lines, timeline, without, places, collectives, survey.openings
        )
    others = [fault for fault in sides.told if root is None or in_order(fault) != in_order(root)]
    consequences = tuple(fault for fault in others if root is not None and is_consequence(fault, root))
    followed = (decision(is_consequence, fault.line, "consequence") for fault in consequences)
    return Judgement(
        root=root,
        rank=rank,
        node=node,
        consequences=consequences,
        independent=tuple(fault for fault in others if root is None or not is_consequence(fault, root)),
        afterwards=sides.afterwards,
        recovered=sides.recovered,
        hints=tuple(fault for fault in sides.broke if fault.finding.role is Role.HINT and fault is not root),
        complaints=(),
        progressed=None,
        outcome=Outcome.NOT_KNOWN,
        timeline=sides.timeline,
        decisions=(*sides.decisions, *found, *by, *followed),
        collectives=collectives,
        unknown_software=root is not None and knows_only_its_class(root) and is_unknown_software(survey.lines, book),
    )


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


class _Sides(NamedTuple):
    """All faults, each on its side: what broke for good, what was recovered from, what a later program met.
    `decisions` say so of the first two, `set_aside` of the last."""

    timeline: Timeline
    broke: tuple[Fault, ...]
    recovered: tuple[Fault, ...]
    afterwards: tuple[Fault, ...]
    decisions: tuple[Decision, ...]
    set_aside: tuple[Decision, ...]

    @property
    def told(self) -> tuple[Fault, ...]:
        """What broke, without hints."""
        return tuple(fault for fault in self.broke if fault.finding.role is not Role.HINT)


def _sort_out(survey: Survey, book: RuleBook, failed: bool | None, without: frozenset[str]) -> _Sides:
    """The faults of a survey, sorted into what stands, what was recovered from, and what is of a later program."""
    kinds = kinds_of([*survey.lines, *(finding.line for finding in survey.findings)], book, without)
    found = find_faults(survey, book, kinds)
    timeline = timeline_of(survey, found, kinds, failed=failed)
    faults = sorted((fault for fault in found if fault.finding.role is not Role.FINISHED), key=in_order)
    within, next_program = of_the_next_program(faults, timeline)
    standing = sort_by_standing(within, timeline, without)
    broke, missed = misses_the_output_of_what_broke(standing.broke)
    return _Sides(
        timeline=timeline,
        broke=tuple(broke),
        recovered=standing.recovered,
        afterwards=(*missed, *next_program),
        decisions=standing.decisions,
        set_aside=(
            *(decision(misses_the_output_of_what_broke, fault.line, "set aside") for fault in missed),
            *(decision(of_the_next_program, fault.line, "set aside") for fault in next_program),
        ),
    )


def all_was_survived(
    sides: _Sides, survey: Survey, book: RuleBook, suspects: Callable[[], Ranking], without: frozenset[str]
) -> _Sides | None:
    """No rule knows the software, and its log reads like a good run's: the classes and symptoms that rules found in it
    were survived."""
    vague = all(fault.finding.role is Role.HINT or knows_only_its_class(fault) for fault in sides.broke)
    if not sides.broke or not vague or sides.timeline.failed or all_was_survived.__name__ in without:
        return None
    if not is_unknown_software(survey.lines, book) or not suspects().reads_well:
        return None
    made = (decision(all_was_survived, fault.line, "recovered") for fault in sides.broke)
    recovered = tuple(sorted((*sides.recovered, *sides.broke), key=in_order))
    return sides._replace(broke=(), recovered=recovered, decisions=(*sides.decisions, *made))


def hint_among_the_suspects(
    broke: Sequence[Fault], suspects: Callable[[], Ranking], without: frozenset[str]
) -> Fault | None:
    """The job failed, and of the most suspicious lines a rule knows one, as an often harmless one: it is the cause."""
    if hint_among_the_suspects.__name__ in without:
        return None
    hints = {(fault.line.stream, fault.line.position): fault for fault in broke if fault.finding.role is Role.HINT}
    places = ((ranked.line.stream, ranked.line.position) for ranked in suspects().lines[:_SUSPECTS])
    named = next((hints[at] for at in places if at in hints and hints[at].reason is not Reason.OTHERS), None)
    like = (fault for fault in hints.values() if named and fault.finding.rule == named.finding.rule)
    return next((fault for fault in like if named and fault.reason is named.reason), None)


def _or_suspected(
    root: Fault | None, sides: _Sides, survey: Survey, book: RuleBook, suspects: Callable[[], Ranking]
) -> tuple[Fault | None, tuple[Decision, ...]]:
    """The root, or the most suspicious line where that names no cause, or only a class in software that no rule knows.
    No cause is what rules know to be none, what the process worked on after, and, before a root that a rule names in
    software that it knows, whatever rules know, and what another rank says than the launcher saw fail first."""
    bar = bar_before(root, sides.timeline.kinds, survey.lines, book)
    if bar is None:
        return root, ()
    # That the caller knows of a failure does not mean that this log shows one.
    if root is None and sides.timeline.failed is not None and suspects().failure < _SHOWN:
        return root, ()
    timeline = sides.timeline
    symptoms = {(found.line.stream, found.line.position) for found in survey.findings if found.role is Role.SYMPTOM}
    known = symptoms | _places((*sides.recovered, *sides.afterwards, *(sides.told if bar == SURE else ())))

    def is_no_cause(ranked: RankedLine) -> bool:
        line = ranked.line
        worked_on = len(timeline.steps_after(line)) >= STEPS_OF_RECOVERY and ranked.score < SURE[0]
        other = bar == SURE and line.rank is not None and timeline.first_observed not in (None, line.rank)
        calm = bar == SURE and line.level in CALM
        return (
            worked_on or other or calm or FRAME.match(line.message) is not None or (line.stream, line.position) in known
        )

    suspected = most_suspicious_line(root, suspects(), bar, is_no_cause)
    return (suspected, (decision(most_suspicious_line, suspected.line, "root"),)) if suspected else (root, ())


def _places(faults: Iterable[Fault]) -> set[tuple[int, int]]:
    """Where faults stand, with all that rules know of each: every exception of a chain."""
    return {(found.line.stream, found.line.position) for fault in faults for found in (fault.finding, *fault.findings)}


def of_the_next_program(faults: Sequence[Fault], timeline: Timeline) -> tuple[list[Fault], list[Fault]]:
    """The same output shows it after the launcher's last words, and no step follows: of a script's next program.

    Returns what belongs to the job, and what does not.
    """
    closed: dict[tuple[int, str | None], int] = {}
    for fault in faults:
        if fault.finding.closes and not timeline.steps_after(fault.line):
            for node in (fault.line.node, None):
                closed[fault.line.stream, node] = fault.line.position

    def is_after(fault: Fault) -> bool:
        line = fault.line
        end = closed.get((line.stream, line.node), line.position)
        return fault.died and line.rank is None and line.position > end

    return [fault for fault in faults if not is_after(fault)], [fault for fault in faults if is_after(fault)]


def misses_the_output_of_what_broke(broke: Sequence[Fault]) -> tuple[list[Fault], list[Fault]]:
    """A next program misses a file that the one which broke before it should have written; neither names a rank.

    Returns what broke, and what does not count.
    """
    first: dict[int, int] = {}
    for fault in broke:
        loud = fault.finding.role is not Role.HINT and not fault.quiet
        if loud and fault.reason is not Reason.FILE_NOT_FOUND_ERROR:
            first.setdefault(fault.line.stream, fault.line.position)

    def missed(fault: Fault) -> bool:
        line = fault.line
        of_one = fault.died and line.rank is None and fault.reason is Reason.FILE_NOT_FOUND_ERROR
        return of_one and line.position > first.get(line.stream, line.position)

    return [fault for fault in broke if not missed(fault)], [fault for fault in broke if missed(fault)]


def _progressed(root: Fault | None, survey: Survey, timeline: Timeline) -> bool | None:
    """Whether the job had made steps before its root, or at all; None where the log is too short to tell."""
    if root is None:
        return True if survey.progress else False if survey.total_lines >= _TELLING_START else None
    line = root.line
    if any(step.stream != line.stream or step.position < line.position for step in survey.progress):
        return True
    from_start = line.position >= _TELLING_START or timeline.kinds.has("setting-up")
    return False if from_start else None
