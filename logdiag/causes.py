"""Orders what was found: the root cause before its consequences, the first failing rank, recovered faults set aside.

An event is a consequence when a cause explains it (by its rule, or by the table of reasons) and does not come after
it; it is recovered when the same process is seen to work again. Of the causes that nothing explains, the earliest is
the root.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from logdiag.events import CATCH_ALL, Event, find_events, reasons_explained
from logdiag.model import Category, Line, Reason, Role
from logdiag.places import node_of, rank_of
from logdiag.rules import RuleBook
from logdiag.survey import Survey

__all__ = ["Causes", "find_causes"]

# So many steps after a fault show that its process went on; fewer may be a progress bar closing.
_STEPS_OF_RECOVERY = 3
# So many ordinary log lines after an error that was only logged show the same.
_LINES_OF_CALM = 8
# So many are enough against a mere hint.
_FEW_LINES_OF_CALM = 2
# What other processes print is out of order by up to so many lines, because each buffers its own output.
_DISORDER = 400
# AttributeError: ... printed alone, as by a library that goes on without a part
_BARE_EXCEPTION = re.compile(r"(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ")
# Fewer lines before a fault may be the end of a longer log.
_TELLING_START = 40


@dataclass(frozen=True, slots=True)
class Causes:
    """The root, what it explains, what else went wrong on its own or in a later program, and what was recovered from.

    `rank` and `node` are where the root happened, as far as the log tells. `progressed` says whether steps were made
    before it.
    """

    root: Event | None
    rank: int | None
    node: str | None
    consequences: tuple[Event, ...]
    independent: tuple[Event, ...]
    afterwards: tuple[Event, ...]
    recovered: tuple[Event, ...]
    hints: tuple[Event, ...]
    progressed: bool | None
    finished: bool


def find_causes(survey: Survey, book: RuleBook, *, failed: bool | None = None) -> Causes:
    """The root cause among a survey's findings. `failed` is what the caller knows of the job's end, if anything."""
    events = find_events(survey, book)
    finished = [event for event in events if event.finding.role is Role.FINISHED]
    events = sorted((event for event in events if event.finding.role is not Role.FINISHED), key=_order)
    course = _Course(survey, finished)
    within, afterwards = _until_closed(events)
    standing, recovered = _standing(within, course)
    hints = [event for event in standing if event.finding.role is Role.HINT]
    told = [event for event in standing if event.finding.role is not Role.HINT]
    explains = {id(event): _explained_reasons(event, book) for event in standing}
    last_words = [hint for hint in hints if _may_stand_alone(hint) and not course.worked_after(hint.line)]
    root = _root(told, hints, last_words, explains, failed)
    consequences, independent = _sort_out(root, [event for event in told if event is not root], explains)
    rank = rank_of(root, told, explains[id(root)], survey.lines) if root else None
    return Causes(
        root=root,
        rank=rank,
        node=node_of(root, rank, survey.lines) if root else None,
        consequences=tuple(consequences),
        independent=tuple(independent),
        afterwards=tuple(afterwards),
        recovered=tuple(recovered),
        hints=tuple(hint for hint in hints if hint is not root),
        progressed=_progressed(root, survey),
        finished=bool(finished),
    )


def _order(event: Event) -> tuple[int, int]:
    return event.line.stream, event.line.position


class _Course:
    """How the job went on, by place: its steps, its proper ends, and what else broke."""

    def __init__(self, survey: Survey, finished: Sequence[Event]) -> None:
        self._steps: dict[tuple[int, int | None], list[int]] = {}
        self._calm = _places(line for line in survey.lines if line.level in ("INFO", "DEBUG"))
        for step in survey.progress:
            for rank in {step.rank, None}:
                self._steps.setdefault((step.stream, rank), []).append(step.position)
            if step.rank is None:
                self._steps.setdefault((step.stream, -1), []).append(step.position)
        self._ends = _places(end.line for end in finished)
        self._last_break: dict[int, int] = {}
        self._last_cause: dict[int, int] = {}
        for places in self._steps.values():
            places.sort()

    def steps_after(self, line: Line) -> list[int]:
        """The next steps of the process that printed a line: its rank's own and those that name no rank."""
        if line.rank is None:
            return _after(self._steps.get((line.stream, None), []), line.position)[:_STEPS_OF_RECOVERY]
        own = _after(self._steps.get((line.stream, line.rank), []), line.position)[:_STEPS_OF_RECOVERY]
        unranked = _after(self._steps.get((line.stream, -1), []), line.position)[:_STEPS_OF_RECOVERY]
        return sorted([*own, *unranked])[:_STEPS_OF_RECOVERY]

    def ended_after(self, line: Line) -> int | None:
        """Where the job came to its proper end after a line."""
        ends = _after(self._ends.get(line.stream, []), line.position)
        return ends[-1] if ends else None

    def calm_after(self, line: Line) -> bool:
        """Whether ordinary work is reported after an error that was only told, and nothing breaks any more."""
        if line.level is None and not _BARE_EXCEPTION.match(line.message):
            return False
        if self.broke_after(line.stream, line.position):
            return False
        return len(_after(self._calm.get(line.stream, []), line.position)) >= _LINES_OF_CALM

    def worked_after(self, line: Line) -> bool:
        """Whether the job made a step or reported ordinary work after a line."""
        return (
            bool(self.steps_after(line))
            or len(_after(self._calm.get(line.stream, []), line.position)) >= _FEW_LINES_OF_CALM
        )

    def broke_after(self, stream: int, position: int) -> bool:
        """Whether something broke for good after a place."""
        return self._last_break.get(stream, -1) > position

    def cause_after(self, stream: int, position: int) -> bool:
        """Whether another cause broke the job after a place."""
        return self._last_cause.get(stream, -1) > position

    def broke(self, event: Event) -> None:
        """Remembers what broke for good. The events are gone through from the last to the first."""
        if event.quiet or event.finding.role not in (Role.CAUSE, Role.SYMPTOM):
            return
        self._last_break.setdefault(event.line.stream, event.line.position)
        if event.finding.role is Role.CAUSE and not event.finding.closes:
            self._last_cause.setdefault(event.line.stream, event.line.position)


def _standing(events: Sequence[Event], course: _Course) -> tuple[list[Event], list[Event]]:
    """What broke for good, and what was recovered from; both in the order of the log.

    From the last to the first: an error counts as something that broke later only if it was not itself survived.
    """
    standing: list[Event] = []
    recovered: list[Event] = []
    for event in reversed(events):
        if _went_on(event, course):
            recovered.append(event)
        else:
            standing.append(event)
            course.broke(event)
    return standing[::-1], recovered[::-1]


def _until_closed(events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """What belongs to the job, and what the same output shows after a launcher's last words: a script's next program,
    which fails because the job did, or on its own."""
    closed = {event.line.stream: event.line.position for event in events if event.finding.closes}

    def is_after(event: Event) -> bool:
        line = event.line
        unnamed = line.rank is None and line.node is None
        return event.died and unnamed and line.position > closed.get(line.stream, line.position)

    return [event for event in events if not is_after(event)], [event for event in events if is_after(event)]


def _places(lines: Iterable[Line]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for line in lines:
        places.setdefault(line.stream, []).append(line.position)
    return {stream: sorted(positions) for stream, positions in places.items()}


def _after(positions: list[int], position: int) -> list[int]:
    return positions[bisect_right(positions, position) :]


def _went_on(event: Event, course: _Course) -> bool:
    """Whether the process that met this fault is seen to work afterwards.

    Output to stdout often reaches the log after a traceback on stderr, so steps after a process died mean a recovery
    only when another cause breaks the job after them, or it came to its proper end.
    """
    line = event.line
    if event.reason is Reason.NODE_FAILURE and course.broke_after(line.stream, line.position):
        return False  # a machine that is about to be taken away works until it is
    if event.finding.role is Role.SYMPTOM and event.reason is Reason.OTHERS:
        # What a launcher reports of the end is the end, whatever its workers' buffers still print.
        end = course.ended_after(line)
        return end is not None and not course.broke_after(line.stream, end)
    if not event.died and course.calm_after(line):
        return True
    end = course.ended_after(line)
    if end is not None and not course.broke_after(line.stream, end) and not event.died:
        return True
    # Ranks work in step: one that is gone stops them all, so each one's steps speak for a rank that only told of an
    # error; not so for what the others say of one that is gone.
    told = not event.died and event.finding.role is Role.CAUSE
    steps = course.steps_after(replace(line, rank=None) if told else line)
    if len(steps) < _STEPS_OF_RECOVERY:
        return end is not None and not course.broke_after(line.stream, line.position)
    ended_well = end is not None and end > steps[0] and not course.broke_after(line.stream, line.position)
    return not event.died or ended_well or course.cause_after(line.stream, steps[-1])


def _progressed(root: Event | None, survey: Survey) -> bool | None:
    """Whether the job had made steps before its root cause; None where the log is too short to tell."""
    if root is None:
        return bool(survey.progress)
    line = root.line
    if any(step.stream != line.stream or step.position < line.position for step in survey.progress):
        return True
    return False if line.position >= _TELLING_START else None


def _explained_reasons(event: Event, book: RuleBook) -> frozenset[Reason]:
    return reasons_explained(event.finding, book)


def _explains(cause: Event, effect: Event, reasons: dict[int, frozenset[Reason]]) -> bool:
    """Whether `effect` is what `cause` makes others say, and does not come before it."""
    if cause is effect or cause.finding.role is not Role.CAUSE:
        return False
    if effect.finding.role is Role.CAUSE and effect.reason not in reasons[id(cause)]:
        return False
    return not _precedes(effect, cause)


def _precedes(first: Event, second: Event) -> bool:
    """Whether one event surely came before another."""
    one, two = first.line, second.line
    if one.time is not None and two.time is not None and one.time != two.time:
        return one.time < two.time and (one.stream != two.stream or one.position < two.position)
    if one.stream != two.stream:
        return False
    slack = 0 if one.rank == two.rank and one.speaker == two.speaker else _DISORDER
    if first.finding.role is Role.SYMPTOM:
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
        if symptom is None or symptom.reason in reasons[id(root)] or _leads_to(root, symptom):
            return root
    if symptom is not None:
        return symptom
    if failed is not False:
        return next(reversed(hints if ended else last_words), None)
    return None


def _may_stand_alone(hint: Event) -> bool:
    """Whether a hint reports an error of the program, not a condition of a machine or a link that jobs live with."""
    return not hint.quiet and hint.reason.category is not Category.INFRASTRUCTURE


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
    # What a process says and survives is a weaker candidate than what it died of, unless a machine says it.
    fatal = [event for event in free if event.died or event.reason.category is Category.INFRASTRUCTURE]
    first = min(fatal or free, key=_order)
    for event in fatal or free:
        if event.line.stream != first.line.stream and _precedes(event, first):
            first = event
    # Files without common clocks: of two lines that name one reason, the one that says more.
    if first.finding.generality:
        named = [event for event in free if event.reason is first.reason and event.line.stream != first.line.stream]
        first = next((event for event in named if not event.finding.generality and not _precedes(first, event)), first)
    if first.finding.rule == CATCH_ALL:
        named = [event for event in fatal or free if event.finding.rule != CATCH_ALL]
        return named[0] if named else first
    return first


def _earlier_word(root: Event, events: list[Event], reasons: dict[int, frozenset[Reason]]) -> Event:
    """The first line that names the same cause: a warning that came before the error."""
    same = [
        event
        for event in events
        if event.reason is root.reason
        and event.line.stream == root.line.stream
        and 0 < root.line.position - event.line.position <= _DISORDER
        and not event.died
    ]
    return min(same, key=_order) if same else root


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
    return min(by_reason or by_rule or named, key=_order)


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
