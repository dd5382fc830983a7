"""Orders what was found: the root cause before its consequences, the first failing rank, recovered faults set aside.

An event is a consequence when a cause explains it (by its rule, or by the table of reasons) and does not come after
it; it is recovered when the same process is seen to work again. Of the causes that nothing explains, the earliest is
the root.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from logdiag.judge.exit_reason import LAUNCHERS, last_word
from logdiag.judge.faults import CATCH_ALL, Event, find_events, reasons_explained
from logdiag.judge.ranks import node_of, rank_of
from logdiag.judge.recovered import standing
from logdiag.judge.timeline import OF_SERVICES, Course
from logdiag.judge.unexplained import unexplained
from logdiag.model import Category, Line, Reason, Role, Support
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

__all__ = ["Causes", "find_causes"]

# What other processes print is out of order by up to so many lines, because each buffers its own output.
_DISORDER = 400
# Seconds. A line without a year counts as of the 1970s: beside one with a year its time says nothing.
_A_YEAR = 366 * 86_400
_DATED = 10 * _A_YEAR
# What a launcher sends only to those that do not end by SIGTERM.
_KILLED = frozenset({"9", "SIGKILL"})
# Fewer lines before a fault may be the end of a longer log ...
_TELLING_START = 40
# ... unless a communicator is seen to be set up. Its parts are connected before the first step.
# x [0] NCCL INFO init.cc:1089 -> 3   [Proxy Service 11] Failed to execute operation Connect from rank 11, retcode 2
# x [1] NCCL INFO Channel 04/0 : 9[1] -> 10[2] via P2P/IPC/read   in init_process_group
_SETTING_UP = re.compile(
    r"NCCL INFO (?:\S*/)?init\.cc?p?p?:\d+ -> [1-9]|execute operation Connect\b"
    r"|NCCL INFO Channel \d+(?:/\d+)? ?: \d+\[\w+\] -> "
    r"|\bin (?:init_process_group|init_distributed\w*|ncclCommInitRank)\b"
)


@dataclass(frozen=True, slots=True)
class Causes:
    """The root, what it explains, what else went wrong on its own or in a later program, and what was recovered from.

    `rank` and `node` are where the root happened, as far as the log tells. `progressed` says whether steps were made
    before it; `complaints` are what no rule knows (see complaints.py). `empty` says that there was nothing to read.
    """

    root: Event | None
    rank: int | None
    node: str | None
    consequences: tuple[Event, ...]
    independent: tuple[Event, ...]
    afterwards: tuple[Event, ...]
    recovered: tuple[Event, ...]
    hints: tuple[Event, ...]
    complaints: tuple[Line, ...]
    progressed: bool | None
    finished: bool
    empty: bool


def find_causes(survey: Survey, book: RuleBook, *, failed: bool | None = None) -> Causes:
    """The root cause among a survey's findings. `failed` is what the caller knows of the job's end, if anything."""
    events = find_events(survey, book)
    course = Course(survey, events, failed=failed)
    events = sorted((event for event in events if event.finding.role is not Role.FINISHED), key=_order)
    within, afterwards = _until_closed(events, course)
    broke, recovered = standing(within, course)
    broke, missed = _without_missed_output(broke)
    hints = [event for event in broke if event.finding.role is Role.HINT]
    told = [event for event in broke if event.finding.role is not Role.HINT]
    explains = {id(event): reasons_explained(event.finding, book) for event in broke}
    may_be_last = [hint for hint in hints if _may_stand_alone(hint, course) and _is_last_word(hint, course)]
    root = _root(told, hints, may_be_last, explains, failed)
    if word := last_word(root, told, survey, book, failed=failed):
        root = word
        explains[id(root)] = reasons_explained(root.finding, book)
    consequences, independent = _sort_out(root, [event for event in told if event is not root], explains)
    rank = rank_of(root, told, explains[id(root)], survey.lines) if root else None
    return Causes(
        root=root,
        rank=rank,
        node=node_of(root, rank, survey.lines) if root else None,
        consequences=tuple(consequences),
        independent=tuple(independent),
        afterwards=(*missed, *afterwards),
        recovered=tuple(recovered),
        hints=tuple(hint for hint in hints if hint is not root),
        complaints=unexplained(survey, book, root.line if root else None),
        progressed=_progressed(root, survey),
        finished=course.finished,
        empty=survey.total_lines == 0,
    )


def _order(event: Event) -> tuple[int, int]:
    return event.line.stream, event.line.position


def _until_closed(events: Sequence[Event], course: Course) -> tuple[list[Event], list[Event]]:
    """What belongs to the job, and what the same output shows after a launcher's last words, behind which no step was
    made: a script's next program, which fails because the job did, or on its own."""
    closed: dict[tuple[int, str | None], int] = {}
    for event in events:
        if event.finding.closes and not course.steps_after(event.line):
            for node in (event.line.node, None):
                closed[event.line.stream, node] = event.line.position

    def is_after(event: Event) -> bool:
        line = event.line
        end = closed.get((line.stream, line.node), line.position)
        return event.died and line.rank is None and line.position > end

    return [event for event in events if not is_after(event)], [event for event in events if is_after(event)]


def _without_missed_output(broke: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """What broke, and what a next program died of that looks for a file which the one that broke before it should
    have written: neither names a rank, so the order of one process's lines holds."""
    first: dict[int, int] = {}
    for event in broke:
        loud = event.finding.role is not Role.HINT and not event.quiet
        if loud and event.reason is not Reason.FILE_NOT_FOUND_ERROR:
            first.setdefault(event.line.stream, event.line.position)

    def missed(event: Event) -> bool:
        line = event.line
        of_one = event.died and line.rank is None and event.reason is Reason.FILE_NOT_FOUND_ERROR
        return of_one and not LAUNCHERS.search(line.text) and line.position > first.get(line.stream, line.position)

    return [event for event in broke if not missed(event)], [event for event in broke if missed(event)]


def _progressed(root: Event | None, survey: Survey) -> bool | None:
    """Whether the job had made steps before its root cause, or at all; None where the log is too short to tell."""
    if root is None:
        return True if survey.progress else False if survey.total_lines >= _TELLING_START else None
    line = root.line
    if any(step.stream != line.stream or step.position < line.position for step in survey.progress):
        return True
    from_start = line.position >= _TELLING_START or any(_SETTING_UP.search(line.text) for line in survey.lines)
    return False if from_start else None


def _explains(cause: Event, effect: Event, reasons: dict[int, frozenset[Reason]]) -> bool:
    """Whether `effect` is what `cause` makes others say, and does not come before it."""
    if cause is effect or cause.finding.role is not Role.CAUSE:
        return False
    if effect.finding.role is Role.CAUSE and effect.reason not in reasons[id(cause)]:
        return False
    if cause.caught and effect.died and effect.line.stream != cause.line.stream:
        return False  # what one process met and survived does not end another
    # A supervisor that ended processes for their memory tells of it when they are gone.
    told_late = cause.reason is Reason.OUT_OF_MEMORY_ERROR and effect.reason in cause.finding.explains
    return not _precedes(effect, cause, slack=_DISORDER if told_late and not cause.within else 0)


def _precedes(first: Event, second: Event, slack: int = 0) -> bool:
    """Whether one event surely came before another; `slack` is how many lines late the second may be told."""
    one, two = first.line, second.line
    apart = one.stream != two.stream
    since, until = one.time, two.time
    # In one stream, lines without a year are of all ranks' watchdogs, which speak within a moment, in any order.
    if since is not None and until is not None and 0 < abs(since - until) < _A_YEAR and (apart or since > _DATED):
        return since < until and (apart or one.position < two.position)
    if apart:
        return False
    if one.rank != two.rank or one.speaker != two.speaker or first.finding.role is Role.SYMPTOM:
        slack = _DISORDER
    return one.position + slack < two.position


def _root(
    told: list[Event],
    hints: list[Event],
    last_words: list[Event],
    reasons: dict[int, frozenset[Reason]],
    failed: bool | None,
) -> Event | None:
    """The root among the events that stand, in this order: loud causes, quiet ones with something behind them,
    symptoms, hints; of a job whose end is not known only hints after which it said nothing of its work."""
    if failed is False:
        # The job is known to have ended well: only what a process died of can still be a failure.
        told = [event for event in told if event.died]
    loud = [event for event in told if event.finding.role is Role.CAUSE and not event.quiet]
    quiet = [event for event in told if event.finding.role is Role.CAUSE and event.quiet]
    symptoms = [event for event in told if event.finding.role is Role.SYMPTOM and not event.quiet]
    if loud:
        root = _first_unexplained(loud, reasons)
        return _earlier_word(root, [*quiet, *loud], reasons)
    ended = bool(symptoms) or bool(failed)
    symptom = _most_telling(symptoms, reasons) if symptoms else None
    if quiet:
        root = _first_unexplained(quiet, reasons)
        if symptom is None:
            return root
        # Who met an exception and survived it was killed later.
        killed = root.caught and symptom.finding.facts.get("signal") in _KILLED
        if not killed and (symptom.reason in reasons[id(root)] or _leads_to(root, symptom)):
            return root
    if symptom is not None:
        return symptom
    if failed is not False:
        return next(reversed(hints if ended else last_words), None)
    return None


def _may_stand_alone(hint: Event, course: Course) -> bool:
    """Whether a hint reports an error of the program, not a condition of a machine or a link that jobs live with; a
    refused line of the job script does when the script says nothing after it and no step was made before."""
    if hint.finding.goes_on and hint.line.level is None:
        return course.never_worked and not course.said_next(hint.line)
    return not hint.quiet and hint.reason.category is not Category.INFRASTRUCTURE


def _is_last_word(hint: Event, course: Course) -> bool:
    """Whether the job said nothing of its work after a hint."""
    return not course.worked_after(hint.line) and not course.said_much_after(hint.line)


def _leads_to(warning: Event, symptom: Event) -> bool:
    """Whether a warning may be why a process ended or crashed: it came before, and not long before a crash."""
    if symptom.reason.category is Category.INFRASTRUCTURE or _precedes(symptom, warning):
        return False
    same = warning.line.stream == symptom.line.stream
    near = same and symptom.line.position - warning.line.position <= _DISORDER
    return near or symptom.reason is Reason.OTHERS


def _first_unexplained(events: list[Event], reasons: dict[int, frozenset[Reason]]) -> Event:
    """The earliest cause that no other cause explains; an exception that ended its process before one that was only
    logged."""
    # The earliest of a reason explains whatever a later one of it would: the others need not be asked.
    earliest = list({event.reason: event for event in sorted(events, key=_order, reverse=True)}.values())
    free = [event for event in events if not any(_explains(other, event, reasons) for other in earliest)] or events
    # What a process says and survives is a weaker candidate than what it died of, unless a machine says it, or a
    # person has once confirmed that it was the cause.
    fatal = [
        event
        for event in free
        if event.died or event.reason.category is Category.INFRASTRUCTURE or Support.SAME in event.finding.supports
    ]
    first = _earliest(fatal or free)
    # Files without common clocks: of two lines that name one reason, the one that says more.
    if first.finding.generality:
        named = [event for event in free if event.reason is first.reason and event.line.stream != first.line.stream]
        first = next((event for event in named if not event.finding.generality and not _precedes(first, event)), first)
    if first.finding.rule == CATCH_ALL:
        # What came after its process had ended is another's; a mere line may be explained by the lines below it.
        named = [
            event
            for event in fatal or free
            if event.finding.rule != CATCH_ALL and not (first.died and _precedes(first, event))
        ]
        return named[0] if named else first
    return first


def _earliest(events: list[Event]) -> Event:
    """The first event: by the clock where files tell it, by the order of the files where not."""
    first = min(events, key=_order)
    for event in events:
        if event.line.stream != first.line.stream and _precedes(event, first):
            first = event
    return first


def _earlier_word(root: Event, events: list[Event], reasons: dict[int, frozenset[Reason]]) -> Event:
    """The first line that names the same cause: a warning that came before the error."""
    same = [
        event
        for event in events
        if (_of_one_cause(event, root) or _foretells(event, root))
        and event.line.stream == root.line.stream
        and 0 < root.line.position - event.line.position <= _DISORDER
        and not event.died
    ]
    return min(same, key=_order) if same else root


def _of_one_cause(one: Event, other: Event) -> bool:
    """Whether two events may name the same cause."""
    if one.reason is not other.reason or _only_of_one_class(one, other) or _only_of_one_service(one, other):
        return False
    return not _miss_other_paths(one, other)


def _foretells(warning: Event, event: Event) -> bool:
    """Whether what a process warned of leads, by its rule, to what it then died of, at the same host."""
    named = warning.quiet and event.reason in warning.finding.explains and "host" in warning.finding.facts
    return named and warning.finding.facts["host"] == event.finding.facts.get("host")


def _miss_other_paths(one: Event, other: Event) -> bool:
    """Whether both events name a path, and not the same."""
    paths = {event.finding.facts["path"] for event in (one, other) if "path" in event.finding.facts}
    return len(paths) > 1


def _only_of_one_class(one: Event, other: Event) -> bool:
    """Whether two events share no more than their exception's class: in other words it is another cause."""
    general = one.finding.generality > 0 and one.finding.rule == other.finding.rule
    return general and one.line.message.strip() != other.line.message.strip()


def _only_of_one_service(one: Event, other: Event) -> bool:
    """Whether an answer that a program only warned of is not what another, or a later request of it, died of."""
    return one.quiet and other.died and one.reason in OF_SERVICES and one.finding.rule != other.finding.rule


def _most_telling(symptoms: list[Event], reasons: dict[int, frozenset[Reason]]) -> Event:
    """With no cause in sight: what names a machine's or a peer's part before a crash, that before a bare end; of
    these the earliest
    that no other symptom explains, by its rule or else by its reason."""

    # A crash that explains all that machines and peers are said to have done stands beside them.
    peers = {event.reason for event in symptoms if event.reason.category is Category.INFRASTRUCTURE}

    def kind(event: Event) -> int:
        if event.reason.category is Category.INFRASTRUCTURE or (peers and peers <= event.finding.explains):
            return 0
        return 2 if event.reason is Reason.OTHERS else 1

    most = min(kind(event) for event in symptoms)
    named = [event for event in symptoms if kind(event) == most]
    by_rule = [
        event
        for event in named
        if not any(
            event.reason in other.finding.explains and other.finding.rule != event.finding.rule for other in named
        )
    ]
    by_reason = [
        event
        for event in by_rule
        if not any(event.reason in reasons[id(other)] and not _precedes(event, other) for other in by_rule)
    ]
    return _earliest(by_reason or by_rule or named)


def _sort_out(
    root: Event | None, others: list[Event], reasons: dict[int, frozenset[Reason]]
) -> tuple[list[Event], list[Event]]:
    """What the root explains, directly or through what it explains, and what stands on its own."""
    if root is None:
        return [], others
    consequences: list[Event] = []
    independent: list[Event] = []
    for event in others:
        related = event.reason is root.reason or event.finding.role is Role.SYMPTOM or event.reason in reasons[id(root)]
        (consequences if related else independent).append(event)
    return consequences, independent
