"""The reason that a program gave before it left with an error code: a record of trouble or a plain last line, no
exception."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from logdiag.judge.decisions import decision
from logdiag.judge.faults import Fault, with_reason
from logdiag.judge.timeline import Timeline
from logdiag.model import TROUBLE, Decision, Finding, Line, Reason, Role
from logdiag.patterns import pattern_of
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

TOLD = "programs/reason-told"
# Lines of ordinary work that a program may still log while it leaves.
_MOST_CALM = 3
# A plain line without a level is a last word only so near to the end.
_NEAR = 60
_NUMBERS = pattern_of(r"\d+")
# Above this a code tells of a signal, a time limit, or a program that could not be started.
_LONGEST_CODE = 9
_LARGEST_OWN_CODE = 123


def exit_reason(
    root: Fault | None,
    told: Sequence[Fault],
    survey: Survey,
    book: RuleBook,
    timeline: Timeline,
    without: frozenset[str] = frozenset(),
) -> tuple[Fault | None, tuple[Decision, ...]]:
    """The line of trouble that a program printed last, where nothing more is known than that it left with an error code
    of its own.

    `root` is what was found without it, `told` all that broke. Of the rank that the launcher saw fail first, if it
    printed any; the first of several lines that say the same. None where this does not apply.
    """
    if exit_reason.__name__ in without or not _may_be_asked(root, told, timeline):
        return None, ()
    groups = _groups(told, survey, book, timeline)
    first = timeline.first_observed
    printed = next((group for (_, rank), group in groups.items() if rank is not None and rank == first), None)
    if root is not None and not printed and not _is_bare(root):
        # What another rank prints is not why this one left.
        groups = {(stream, rank): group for (stream, rank), group in groups.items() if rank is None}
    if not groups:
        return None, ()
    chosen = _choose(printed or max(groups.values(), key=lambda group: (group[-1][0].stream, group[-1][0].position)))
    finding = chosen._replace(role=Role.CAUSE)
    fault = with_reason(Fault(finding, (chosen,), died=False, quiet=True), book)
    return fault, (decision(exit_reason, fault.line, "root"),)


def _may_be_asked(root: Fault | None, told: Sequence[Fault], timeline: Timeline) -> bool:
    """Whether nothing more is known than that a program left with an error code of its own."""
    if root is None:
        return bool(timeline.failed)
    left = any(_left_by_itself(fault) for fault in told)
    return left and (_is_bare(root) or _lost_a_peer(root, timeline.first_observed))


def _groups(
    told: Sequence[Fault], survey: Survey, book: RuleBook, timeline: Timeline
) -> dict[tuple[int, int | None], list[tuple[Line, Finding]]]:
    """Lines of trouble, and what the rules say of them, by stream and rank."""
    reported = {fault.line.stream: fault.line.position for fault in reversed(told)}
    groups: dict[tuple[int, int | None], list[tuple[Line, Finding]]] = {}
    for line in survey.lines:
        report = reported.get(line.stream)
        if (
            _complains(line, report, timeline)
            and not _worked_after(line, report, timeline)
            and (found := _named(line, book))
        ):
            groups.setdefault((line.stream, line.rank), []).append((line, found))
    return groups


def _is_bare(root: Fault) -> bool:
    return root.finding.role is Role.SYMPTOM and root.reason is Reason.OTHERS


def _lost_a_peer(root: Fault, first: int | None) -> bool:
    """Whether the root is what one rank says of a lost peer, and the launcher saw another one fail before it."""
    peer = root.finding.role is Role.SYMPTOM and "peer" in root.traits
    return peer and first is not None and root.finding.rank not in (None, first)


def _left_by_itself(fault: Fault) -> bool:
    """Whether a launcher reports an exit code that a program chose, not a signal."""
    code = fault.finding.facts.get("exitcode", "")
    return code.isdecimal() and len(code) <= _LONGEST_CODE and 0 < int(code) <= _LARGEST_OWN_CODE


def _worked_after(line: Line, reported: int | None, timeline: Timeline) -> bool:
    """Whether the process that printed a line made a step after it (where it names no rank, the ranks made some), or
    printed more, before the launcher's report, than a program prints that leaves."""
    for rank in {(line.rank if line.rank is not None else -1), -1}:
        steps = timeline.steps.get((line.stream, rank), ())
        if steps and steps[-1] > line.position:
            return True
    of_all = timeline.steps.get((line.stream, None), ()) if line.rank is None else ()
    if len(of_all) - bisect_right(of_all, line.position) >= _MOST_CALM:
        return True
    calm = timeline.calm_of_rank.get((line.stream, line.rank), ())
    end = bisect_left(calm, reported) if reported is not None and line.position < reported else len(calm)
    return end - bisect_right(calm, line.position) > _MOST_CALM


def _complains(line: Line, reported: int | None, timeline: Timeline) -> bool:
    """Whether a line tells of trouble and stands before the launcher's report; one that names its rank may come after
    it, because each process buffers its own output."""
    if reported is not None and line.rank is None and line.position > reported:
        return False
    near = reported is None or abs(reported - line.position) <= _NEAR
    plain = near and line.level is None and timeline.kinds.is_a("loud-word", line)
    told = plain or line.level in TROUBLE or line.level == "WARNING"
    return told and not timeline.kinds.is_a("launcher", line)


def _named(line: Line, book: RuleBook) -> Finding | None:
    """What the rules say of a complaint; None for what is harmless or only what another failure makes a process say,
    and for a warning that names no cause: the last of some may be why the program gave up."""
    known = book.confirm_all(line)
    if line.level == "WARNING":
        return known if known is not None and known.role is Role.CAUSE else None
    if known is None:
        return _unnamed(line)
    return known if known.role in (Role.CAUSE, Role.HINT) else None


def _choose(group: Sequence[tuple[Line, Finding]]) -> Finding:
    """The last line that names a reason, or else the last; the first of those that say the same."""
    named = [(line, finding) for line, finding in group if finding.reason is not Reason.OTHERS]
    last, _ = (named or group)[-1]
    first = next(at for at, (line, _) in enumerate(group) if _same_words(line, last))
    while first and not named and group[first][0].position == group[first - 1][0].position + 1:
        first -= 1  # what follows at once only says more of it
    return group[first][1]


def _same_words(one: Line, other: Line) -> bool:
    return _NUMBERS.sub("0", one.message) == _NUMBERS.sub("0", other.message)


def _unnamed(line: Line) -> Finding:
    """A complaint in words that no rule knows."""
    return Finding(
        rule=TOLD,
        line=line,
        role=Role.HINT,
        reason=Reason.OTHERS,
        title="The program says why it left",
        why="The program reported this and left with an error code; no exception shows where.",
        generality=1,
    )
