"""Orders what was found: the root cause before its consequences, the first failing rank, recovered faults set aside.

Findings become events: one thing that went wrong in one process, a whole chain of exceptions being one. An event is a consequence
when a cause explains it (by its rule, or by the table of reasons) and does not come after it; it is recovered when the same
process is seen to work again. Of the causes that nothing explains, the earliest is the root.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from logdiag.model import Category, Finding, Line, Reason, Role
from logdiag.rules import RuleBook
from logdiag.survey import Survey
from logdiag.tracebacks import Link, RaisedException, Traceback, find_tracebacks

__all__ = ["Causes", "Event", "find_causes"]

_QUIET_LEVELS = frozenset({"TRACE", "DEBUG", "INFO", "NOTICE", "WARNING"})
# So many steps after a fault show that its process went on; fewer may be a progress bar closing.
_STEPS_OF_RECOVERY = 3
# So many ordinary log lines after an error that was only logged show the same.
_LINES_OF_CALM = 8
# What other processes print is out of order by up to so many lines, because each buffers its own output.
_DISORDER = 400
# Exceptions that code raises to look something up; what it raises instead tells more.
_LOOKUPS = frozenset(
    {"KeyError", "AttributeError", "IndexError", "StopIteration", "Empty", "ModuleNotFoundError", "ImportError", "LookupError"}
)
# Fewer lines before a fault may be the end of a longer log.
_TELLING_START = 40
_CATCH_ALL = "script/uncaught-exception"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that went wrong in one process.

    `finding` names it, `findings` are all that belong to it. `died` says that the process ended by it, `quiet` that it was
    printed as a warning or less.
    """

    finding: Finding
    findings: tuple[Finding, ...]
    died: bool
    quiet: bool

    @property
    def reason(self) -> Reason:
        """The reason of the finding that names it."""
        return self.finding.reason

    @property
    def line(self) -> Line:
        """The line that names it."""
        return self.finding.line


@dataclass(frozen=True, slots=True)
class Causes:
    """The root, what it explains, what else went wrong on its own, and what was recovered from."""

    root: Event | None
    consequences: tuple[Event, ...]
    independent: tuple[Event, ...]
    recovered: tuple[Event, ...]
    hints: tuple[Event, ...]
    progressed: bool | None
    finished: bool


def find_causes(survey: Survey, book: RuleBook, *, failed: bool | None = None) -> Causes:
    """The root cause among a survey's findings. `failed` is what the caller knows of the job's end, if anything."""
    events = _events(survey, book)
    finished = [event for event in events if event.finding.role is Role.FINISHED]
    events = sorted((event for event in events if event.finding.role is not Role.FINISHED), key=_order)
    course = _Course(survey, finished, events)
    recovered = [event for event in events if _went_on(event, course)]
    aside = {id(event) for event in recovered}
    standing = [event for event in events if id(event) not in aside]
    hints = [event for event in standing if event.finding.role is Role.HINT]
    told = [event for event in standing if event.finding.role is not Role.HINT]
    explains = {id(event): _explained_reasons(event, book) for event in standing}
    root = _root(told, hints, explains, failed)
    consequences, independent = _sort_out(root, [event for event in told if event is not root], explains)
    return Causes(
        root=root,
        consequences=tuple(consequences),
        independent=tuple(independent),
        recovered=tuple(recovered),
        hints=tuple(hint for hint in hints if hint is not root),
        progressed=_progressed(root, survey),
        finished=bool(finished),
    )


def _order(event: Event) -> tuple[int, int]:
    return event.line.stream, event.line.position


# --- events -----------------------------------------------------------------------------------------------------------------


def _events(survey: Survey, book: RuleBook) -> list[Event]:
    by_place: dict[tuple[int, int], Finding] = {(f.line.stream, f.line.position): f for f in survey.findings}
    events: list[Event] = []
    for traceback in find_tracebacks(survey.lines):
        places = [(traceback.stream, position) for position in traceback.code]
        for place in places:
            by_place.pop(place, None)  # source text is no evidence
        if traceback.exceptions:
            events.extend(_chain_events(traceback, by_place, book))
    for finding in by_place.values():
        quiet = finding.goes_on or finding.line.level in _QUIET_LEVELS
        events.append(Event(finding, (finding,), died=False, quiet=quiet))
    return events


def _chain_events(traceback: Traceback, by_place: dict[tuple[int, int], Finding], book: RuleBook) -> Iterable[Event]:
    """A chain of exceptions as one event; a second exception without a link is another process's, mixed in."""
    chain: list[tuple[RaisedException, list[Finding]]] = []
    for exception in traceback.exceptions:
        if chain and exception.link is Link.FIRST:
            yield _event_of(chain, traceback, book)
            chain = []
        chain.append((exception, _findings_of(exception, by_place, book)))
    if chain:
        yield _event_of(chain, traceback, book)


def _findings_of(exception: RaisedException, by_place: dict[tuple[int, int], Finding], book: RuleBook) -> list[Finding]:
    """What the rules say of an exception: of its own line first, then of the lines of its message."""
    line = exception.line
    own = by_place.pop((line.stream, line.position), None)
    if exception.said:
        own = book.confirm_all(replace(line, text=exception.said, starts=(0,)))
        own = own and replace(own, line=line)
    elif own is None or book.asks_for_frames(own.rule):
        own = book.confirm_all(line, "\n".join(exception.frames)) or own
    found = [own or _unnamed(exception, book)]
    for part in exception.message:
        place = (part.stream, part.position)
        finding = by_place.get(place)
        if finding is not None and finding.role is Role.CAUSE:
            found.append(by_place.pop(place))
    return found


def _unnamed(exception: RaisedException, book: RuleBook) -> Finding:
    """An exception that no rule knows."""
    return Finding(
        rule=_CATCH_ALL,
        line=exception.line,
        role=Role.CAUSE,
        reason=Reason.OTHERS,
        title=f"Uncaught {exception.name.rsplit('.', 1)[-1]}",
        why="The program raised an exception that nothing in it handled.",
        action=None,
        action_before_progress=None,
        steps=(),
        explains=frozenset(),
        facts={"exception": exception.name},
        generality=1,
    )


def _event_of(chain: list[tuple[RaisedException, list[Finding]]], traceback: Traceback, book: RuleBook) -> Event:
    named = [(exception, _best(findings, book)) for exception, findings in chain]
    root = max(enumerate(named), key=lambda item: (_telling(item[1][0], item[1][1], item[0], named), -item[0]))[1][1]
    findings = tuple(finding for _, group in chain for finding in group)
    died = not traceback.ignored and not traceback.logged and root.role is not Role.HINT
    return Event(root, findings, died=died, quiet=traceback.ignored)


def _best(findings: list[Finding], book: RuleBook) -> Finding:
    """The finding that names an exception: one that explains another, a narrow one before a general, the exception's own line first."""
    explained = {
        id(other)
        for finding in findings
        for other in findings
        if other.reason is not finding.reason and other.reason in _reasons_explained(finding, book)
    }

    def weight(item: tuple[int, Finding]) -> tuple[bool, bool, bool, int]:
        place, finding = item
        return id(finding) not in explained, finding.role is Role.CAUSE, finding.generality == 0, -place

    return max(enumerate(findings), key=weight)[1]


def _telling(exception: RaisedException, finding: Finding, place: int, named: list[tuple[RaisedException, Finding]]) -> int:
    """How well one exception of a chain names the cause; the earlier of equals is the root."""
    wraps = place + 1 < len(named) and named[place + 1][0].link is Link.RELAYED
    if finding.role is not Role.CAUSE or wraps:
        return 0
    if finding.generality == 0 and finding.rule != _CATCH_ALL:
        return 3
    replaced = place + 1 < len(named) and named[place + 1][0].link is Link.CONTEXT and named[place + 1][0].explicit
    if replaced and exception.name.rsplit(".", 1)[-1] in _LOOKUPS:
        return 1
    return 2


# --- recovery ---------------------------------------------------------------------------------------------------------------


class _Course:
    """How the job went on, by place: its steps, its proper ends, and what else broke."""

    def __init__(self, survey: Survey, finished: Sequence[Event], events: Sequence[Event]) -> None:
        self._steps: dict[tuple[int, int | None], list[int]] = {}
        self._calm = _places(line for line in survey.lines if line.level in ("INFO", "DEBUG"))
        for step in survey.progress:
            for rank in {step.rank, None}:
                self._steps.setdefault((step.stream, rank), []).append(step.position)
            if step.rank is None:
                self._steps.setdefault((step.stream, -1), []).append(step.position)
        self._ends = _places((end.line for end in finished))
        self._fatal = _places(
            event.line for event in events if event.finding.role in (Role.CAUSE, Role.SYMPTOM) and not event.quiet
        )
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
        """Whether a logger that reported an error goes on to report ordinary work, and nothing breaks any more."""
        if line.level is None or self.broke_after(line.stream, line.position):
            return False
        return len(_after(self._calm.get(line.stream, []), line.position)) >= _LINES_OF_CALM

    def broke_after(self, stream: int, position: int) -> bool:
        """Whether something else broke after a place."""
        return bool(_after(self._fatal.get(stream, []), position))


def _places(lines: Iterable[Line]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for line in lines:
        places.setdefault(line.stream, []).append(line.position)
    return {stream: sorted(positions) for stream, positions in places.items()}


def _after(positions: list[int], position: int) -> list[int]:
    return positions[bisect_right(positions, position) :]


def _went_on(event: Event, course: _Course) -> bool:
    """Whether the process that met this fault is seen to work afterwards.

    Output to stdout often reaches the log after a traceback on stderr, so steps after a process died mean a recovery only when
    something else breaks after them, or the job came to its proper end.
    """
    line = event.line
    if not event.died and course.calm_after(line):
        return True
    end = course.ended_after(line)
    if end is not None and not course.broke_after(line.stream, end) and not event.died:
        return True
    steps = course.steps_after(line)
    if len(steps) < _STEPS_OF_RECOVERY:
        return end is not None and not course.broke_after(line.stream, line.position)
    return not event.died or course.broke_after(line.stream, steps[-1])


def _progressed(root: Event | None, survey: Survey) -> bool | None:
    """Whether the job had made steps before its root cause; None where the log is too short to tell."""
    if root is None:
        return bool(survey.progress)
    line = root.line
    if any(step.stream != line.stream or step.position < line.position for step in survey.progress):
        return True
    return False if line.position >= _TELLING_START else None


# --- root and consequences --------------------------------------------------------------------------------------------------


def _reasons_explained(finding: Finding, book: RuleBook) -> frozenset[Reason]:
    entry = book.reasons.get(finding.reason)
    return finding.explains | frozenset(Reason(name) for name in entry.explains) if entry else finding.explains


def _explained_reasons(event: Event, book: RuleBook) -> frozenset[Reason]:
    return _reasons_explained(event.finding, book)


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
    told: list[Event], hints: list[Event], reasons: dict[int, frozenset[Reason]], failed: bool | None
) -> Event | None:
    """The root among the events that stand, in this order: loud causes, quiet ones with something behind them, symptoms, hints."""
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
        if symptom is None or symptom.reason is Reason.OTHERS or symptom.reason in reasons[id(root)]:
            return root
    if symptom is not None:
        return symptom
    if hints and ended:
        return hints[-1]
    return None


def _first_unexplained(events: list[Event], reasons: dict[int, frozenset[Reason]]) -> Event:
    """The earliest cause that no other cause explains; an exception that ended its process before one that was only logged."""
    free = [event for event in events if not any(_explains(other, event, reasons) for other in events)] or events
    # What a process says and survives is a weaker candidate than what it died of, unless a machine says it.
    fatal = [event for event in free if event.died or event.reason.category is Category.INFRASTRUCTURE]
    first = min(fatal or free, key=_order)
    for event in fatal or free:
        if event.line.stream != first.line.stream and _precedes(event, first):
            first = event
    if first.finding.rule == _CATCH_ALL:
        named = [event for event in fatal or free if event.finding.rule != _CATCH_ALL]
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
    """With no cause in sight: what names a machine's or a peer's part before a crash, that before a bare end; of these the earliest
    that no other symptom explains, by its rule or else by its reason."""

    def kind(event: Event) -> int:
        if event.reason.category is Category.INFRASTRUCTURE:
            return 0
        return 2 if event.reason is Reason.OTHERS else 1

    most = min(kind(event) for event in symptoms)
    named = [event for event in symptoms if kind(event) == most]
    by_rule = [
        event
        for event in named
        if not any(event.reason in other.finding.explains and other.finding.rule != event.finding.rule for other in named)
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
