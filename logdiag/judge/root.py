"""Which fault is the root? Ordered decisions over the faults that stand, then looks for a better line of that cause.

A fault is a consequence if a cause explains it (by its rule, or by the table of reasons) and does not come after it.
Of the causes that none explains, the earliest is the root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from logdiag.judge.decisions import decision, first_that_applies
from logdiag.judge.faults import CATCH_ALL, Fault
from logdiag.judge.timeline import Timeline
from logdiag.model import TROUBLE, Category, Decision, LinePlace, Reason, Role, Support

DISORDER = 400
"""Lines of other processes may be out of order by up to so many lines, because each process buffers its output."""

# Lines: a process prints several lines about one trouble within this distance.
_RIGHT_BEFORE = 8
# How launchers name the signal of abort().
_OF_ABORT = ("6", "Aborted")
# Seconds. A time without a year counts as of the 1970s: it cannot be compared with one that has a year.
_A_YEAR = 366 * 86_400
_DATED = 10 * _A_YEAR


class _Candidates(NamedTuple):
    """The faults that may be the root, by kind. `last_hints` are those after which the job showed no more work;
    `failed` is what the caller knows of the job's end, None if nothing."""

    loud: tuple[Fault, ...]
    quiet: tuple[Fault, ...]
    symptoms: tuple[Fault, ...]
    hints: tuple[Fault, ...]
    last_hints: tuple[Fault, ...]
    failed: bool | None


def loud_cause_that_nothing_explains(among: _Candidates) -> Fault | None:
    """The earliest cause that no other cause explains."""
    return _first_unexplained(among.loud) if among.loud else None


def quiet_cause(among: _Candidates) -> Fault | None:
    """The earliest cause that was printed as a warning or less, where nothing else broke, or it explains what a process
    ended by."""
    if not among.quiet:
        return None
    root = _first_unexplained(among.quiet)
    return root if not among.symptoms or _most_telling(among.symptoms).reason in root.explains else None


def most_telling_symptom(among: _Candidates) -> Fault | None:
    """With no cause in sight, the symptom that says most: a machine's or a peer's, then a crash, then a bare end."""
    return _most_telling(among.symptoms) if among.symptoms else None


def last_hint_of_a_failed_job(among: _Candidates) -> Fault | None:
    """The job is known to have failed: its last hint."""
    return among.hints[-1] if among.hints and among.failed else None


def hint_with_no_work_after_it(among: _Candidates) -> Fault | None:
    """A hint after which the job printed nothing of its work."""
    return among.last_hints[-1] if among.last_hints else None


ROOT: tuple[Callable[[_Candidates], Fault | None], ...] = (
    loud_cause_that_nothing_explains,
    quiet_cause,
    most_telling_symptom,
    last_hint_of_a_failed_job,
    hint_with_no_work_after_it,
)
"""In this order."""


def find_root(
    broke: Sequence[Fault], timeline: Timeline, without: frozenset[str] = frozenset()
) -> tuple[Fault | None, tuple[Decision, ...]]:
    """The root among the faults that were not recovered from, with the decisions that chose it; None for none."""
    among = _by_kind(broke, timeline)
    made = first_that_applies(ROOT, among, without=without)
    if made is None:
        return None, ()
    decide, root = made
    decisions = [decision(decide, root.line, "root")]
    for look in LOOKS if decide is loud_cause_that_nothing_explains else ():
        better = None if look.__name__ in without else look(root, among, timeline)
        if better is not None:
            root = better
            decisions.append(decision(look, root.line, "root"))
    return root, tuple(decisions)


def _by_kind(broke: Sequence[Fault], timeline: Timeline) -> _Candidates:
    # In a job that is known to have ended well, only the death of a process can still be a failure.
    may_count = [fault for fault in broke if fault.died or timeline.failed is not False]
    causes = [fault for fault in may_count if fault.finding.role is Role.CAUSE]
    hints = [fault for fault in may_count if fault.finding.role is Role.HINT]
    return _Candidates(
        loud=tuple(fault for fault in causes if not fault.quiet),
        quiet=tuple(fault for fault in causes if fault.quiet),
        symptoms=tuple(_symptoms_of_themselves(may_count, timeline)),
        hints=tuple(hints),
        last_hints=tuple(hint for hint in hints if _may_stand_alone(hint) and _is_last(hint, timeline)),
        failed=timeline.failed,
    )


def _symptoms_of_themselves(faults: Sequence[Fault], timeline: Timeline) -> Iterator[Fault]:
    """The symptoms but for what an end brings that a line before announces: once a launcher stops one process it stops
    all others, and who gives up by a call that ends the job dies of the signal of that call."""
    stopped, gave_up = set[int](), set[int]()
    for fault in sorted(faults, key=_place):
        line, stream = fault.line, fault.line.stream
        if fault.finding.role is not Role.SYMPTOM or fault.quiet:
            continue
        is_stop = timeline.kinds.is_a("stop-from-outside", line)
        of_a_call = fault.finding.facts.get("signal") in _OF_ABORT and stream in gave_up
        if not of_a_call and not (is_stop and stream in stopped):
            yield fault
        stopped |= {stream} if is_stop else set()
        gave_up |= {stream} if timeline.kinds.is_a("gives-up", line) else set()


def _may_stand_alone(hint: Fault) -> bool:
    """Whether a hint reports an error of the program, not a condition of a machine or a link that jobs live with."""
    return not hint.quiet and hint.reason.category is not Category.INFRASTRUCTURE


def _is_last(hint: Fault, timeline: Timeline) -> bool:
    """Whether the job showed no more work after a hint, nor a good status."""
    went_on = timeline.worked_after(hint.line) or timeline.printed_much_after(hint.line)
    return not went_on and not timeline.ending.good_after(hint.line)


def _place(fault: Fault) -> LinePlace:
    return fault.line.place


def is_consequence(fault: Fault, root: Fault) -> bool:
    """It belongs to the root: of the same reason, a symptom, or of a reason that the root explains."""
    return fault.reason is root.reason or fault.finding.role is Role.SYMPTOM or fault.reason in root.explains


def _is_explained(effect: Fault, cause: Fault) -> bool:
    """Whether `cause` explains `effect`, which does not come before it."""
    if cause is effect or cause.finding.role is not Role.CAUSE:
        return False
    if effect.finding.role is Role.CAUSE and effect.reason not in cause.explains:
        return False
    if cause.caught and effect.died and effect.line.stream != cause.line.stream:
        return False  # an exception that one process caught does not end another
    # A supervisor reports that it killed a process for its memory only after the process is gone.
    reported_late = cause.reason is Reason.OUT_OF_MEMORY_ERROR and effect.reason in cause.finding.explains
    return not _precedes(effect, cause, slack=DISORDER if reported_late and not cause.within else 0)


def _precedes(first: Fault, second: Fault, slack: int = 0) -> bool:
    """Whether one fault surely came before another; `slack` is how many lines late the second may be printed."""
    line, other = first.line, second.line
    apart = line.stream != other.stream
    since, until = line.time, other.time
    # In one stream, lines without a year are of the watchdogs of all ranks, which print at one moment in any order.
    if since is not None and until is not None and 0 < abs(since - until) < _A_YEAR and (apart or since > _DATED):
        return since < until and (apart or line.position < other.position)
    if apart:
        return False
    if line.rank != other.rank or line.speaker != other.speaker or first.finding.role is Role.SYMPTOM:
        slack = DISORDER
    return line.position + slack < other.position


def _first_unexplained(faults: Sequence[Fault]) -> Fault:
    """The earliest cause that no other cause explains; an exception that ended its process before one that was only
    logged."""
    # The earliest fault of a reason explains all that a later one would: only that one is asked.
    earliest = {fault.reason: fault for fault in sorted(faults, key=_place, reverse=True)}.values()
    free = [fault for fault in faults if not any(_is_explained(fault, cause) for cause in earliest)] or list(faults)
    # A fault that its process survived is a weaker candidate than one by which it died, unless it is a machine's, or a
    # person once confirmed it as the cause.
    fatal = [
        fault
        for fault in free
        if fault.died or fault.reason.category is Category.INFRASTRUCTURE or Support.SAME in fault.finding.supports
    ]
    first = _earliest(fatal or free)
    if first.finding.rule != CATCH_ALL:
        return first
    return next((fault for fault in fatal or free if fault.finding.rule != CATCH_ALL), first)


def _earliest(faults: Sequence[Fault]) -> Fault:
    """The first fault: by the clock where the files have one, else by the order of the files."""
    first = min(faults, key=_place)
    for fault in faults:
        if fault.line.stream != first.line.stream and _precedes(fault, first):
            first = fault
    return first


def earlier_word_of_the_same_cause(root: Fault, among: _Candidates, timeline: Timeline) -> Fault | None:
    """The first line that names the same cause: a warning that came before the error."""
    earlier = [
        fault
        for fault in (*among.quiet, *among.loud)
        if fault.line.stream == root.line.stream
        and 0 < root.line.position - fault.line.position <= DISORDER
        and not fault.died
        and (fault.reason is root.reason or _foretells(fault, root))
    ]
    return min(earlier, key=_place) if earlier else None


def said_right_before(root: Fault, among: _Candidates, timeline: Timeline) -> Fault | None:
    """What the same process said of the trouble, or of what by its rule leads to it, right before and as an error."""
    line = root.line
    if root.died or root.reason is Reason.OTHERS:
        return None
    before = [
        fault
        for fault in (*among.symptoms, *among.hints)
        if (fault.reason is root.reason or root.reason in fault.finding.explains)
        and not fault.died
        and 0 < line.position - fault.line.position <= _RIGHT_BEFORE
        and fault.line.process == line.process
        and timeline.kinds.is_a("machines-own", fault.line) is timeline.kinds.is_a("machines-own", line)
        and _is_reported_as_an_error(fault, timeline)
    ]
    return root._replace(finding=root.finding._replace(line=min(before, key=_place).line)) if before else None


LOOKS = (earlier_word_of_the_same_cause, said_right_before)
"""For a better line of a cause that was found, in this order."""


def _is_reported_as_an_error(fault: Fault, timeline: Timeline) -> bool:
    """Whether a fault is a symptom, or a hint whose process printed it as an error; a kernel's lines have no level."""
    if fault.finding.role is Role.SYMPTOM:
        return True
    loud = fault.line.level in TROUBLE or timeline.kinds.is_a("machines-own", fault.line)
    return loud and not fault.quiet and fault.finding.generality > 0


def _foretells(warning: Fault, fault: Fault) -> bool:
    """Whether a warning explains, by its rule, a later fault, and both name the same host."""
    host = warning.finding.facts.get("host")
    named = warning.quiet and fault.reason in warning.finding.explains and host is not None
    return named and host == fault.finding.facts.get("host")


def _is_its_last_word(symptom: Fault, crash: Fault) -> bool:
    """Whether a process printed a symptom right before its own crash, which then did not cause it. (A watchdog's report
    is no crash: it comes last and sums up the lines before it.)"""
    line, last = symptom.line, crash.line
    if line.rank is None or crash.reason.category is Category.INFRASTRUCTURE:
        return False
    return (line.stream, line.rank) == (last.stream, last.rank) and 0 < last.position - line.position <= DISORDER


def _most_telling(symptoms: Sequence[Fault]) -> Fault:
    """The symptom that says most: of a machine or a peer, else of a crash, else of a bare end. Of several, the earliest
    that no other symptom explains, by its rule or else by its reason."""
    # A crash that explains all symptoms of machines and peers counts as one of them.
    peers = {fault.reason for fault in symptoms if fault.reason.category is Category.INFRASTRUCTURE}

    def kind(fault: Fault) -> int:
        if fault.reason.category is Category.INFRASTRUCTURE or (peers and peers <= fault.finding.explains):
            return 0
        return 2 if fault.reason is Reason.OTHERS else 1

    most = min(map(kind, symptoms))
    named = [fault for fault in symptoms if kind(fault) == most]
    by_rule = [
        fault
        for fault in named
        if not any(
            fault.reason in symptom.finding.explains
            and symptom.finding.rule != fault.finding.rule
            and not _is_its_last_word(fault, symptom)
            for symptom in named
        )
    ]
    by_reason = [
        fault
        for fault in by_rule
        if not any(
            fault.reason in symptom.explains and not _precedes(fault, symptom) and not _is_its_last_word(fault, symptom)
            for symptom in by_rule
        )
    ]
    return _earliest(by_reason or by_rule or named)
