"""The reason that a program gave before it left with an error code: a record of trouble or a plain last line, no
exception."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from logdiag.judge.faults import Event
from logdiag.judge.ranks import first_observed
from logdiag.model import Finding, Line, Reason, Role
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

__all__ = ["LAUNCHERS", "last_word"]

TOLD = "script/reason-told"
_LEVELS_OF_TROUBLE = frozenset({"ERROR", "SEVERE", "CRITICAL", "FATAL"})
# error: no seat left   fatal: bad key   prepare.sh: cannot read the list   could not reach the ledger
_COMPLAINT = re.compile(
    r"(?i)^(?:[\w./-]{1,60}: )?(?:(?:fatal |internal )?error|fatal|critical|cannot|can't|could not|couldn't|unable to|"
    r"failed to|giving up|aborting|aborted|refusing to)\b"
)
# What launchers say of the end is no reason.
LAUNCHERS = re.compile(
    r"torch[./]distributed[./](?:elastic|run|launcher)|\b(?:srun|slurmstepd|mpirun|mpiexec|prterun|orterun): |"
    r"\blaunch\.py:\d+|\bORTE\b|\bPRTE\b|\[launch\]|\bProcessGroup\w{0,20}\.cpp:\d+"
)
# Lines of ordinary work that a program may still log while it leaves.
_MOST_CALM = 3
# A plain line without a level is a last word only so near to the end.
_NEAR = 60
_NUMBERS = re.compile(r"\d+")
# What ranks say of one that is gone.
_OF_PEERS = frozenset({Reason.CONNECTION_ERROR, Reason.NCCL_REMOTE_ERROR, Reason.NCCL_TIMEOUT_ERROR})
# Above this a code tells of a signal, a time limit, or a program that could not be started.
_LARGEST_OWN_CODE = 123


def last_word(
    root: Event | None, told: Sequence[Event], survey: Survey, book: RuleBook, *, failed: bool | None
) -> Event | None:
    """What a program complained of last, where nothing more is known than that it left with an error code of its own.

    `root` is what was found without it, `told` all that broke, `failed` what the caller knows. Of the rank that the
    launcher saw fail first, if it said anything; the first of several lines that say the same.
    """
    if root is None and not failed:
        return None
    first = first_observed(survey.lines)
    if root is not None and not (
        any(_left_by_itself(event) for event in told) and (_is_bare(root) or _lost_a_peer(root, first))
    ):
        return None
    reported = {event.line.stream: event.line.position for event in reversed(told)}
    work = _Work(survey)
    groups: dict[tuple[int, int | None], list[tuple[Line, Finding]]] = {}
    for line in survey.lines:
        report = reported.get(line.stream)
        if _complains(line, report) and not work.after(line, report) and (finding := _named(line, book)):
            groups.setdefault((line.stream, line.rank), []).append((line, finding))
    if not groups:
        return None
    spoken = next((group for (_, rank), group in groups.items() if rank is not None and rank == first), None)
    if root is not None and not spoken and not _is_bare(root):
        # What another rank says is not why this one left.
        groups = {(stream, rank): group for (stream, rank), group in groups.items() if rank is None}
        if not groups:
            return None
    chosen = _choose(spoken or max(groups.values(), key=lambda group: (group[-1][0].stream, group[-1][0].position)))
    return Event(replace(chosen, role=Role.CAUSE), (chosen,), died=False, quiet=True)


def _is_bare(root: Event) -> bool:
    return root.finding.role is Role.SYMPTOM and root.reason is Reason.OTHERS


def _lost_a_peer(root: Event, first: int | None) -> bool:
    """Whether the root is what one rank says of a lost peer, and the launcher saw another one fail before it."""
    peer = root.finding.role is Role.SYMPTOM and root.reason in _OF_PEERS
    return peer and first is not None and root.finding.rank not in (None, first)


def _left_by_itself(event: Event) -> bool:
    """Whether a launcher reports an exit code that a program chose, not a signal."""
    code = event.finding.facts.get("exitcode", "")
    return code.isdigit() and 0 < int(code) <= _LARGEST_OWN_CODE


class _Work:
    """Where each process told of its work: its steps and its records of nothing wrong."""

    def __init__(self, survey: Survey) -> None:
        self._steps = _places(((step.stream, step.rank), step.position) for step in survey.progress)
        self._of_all = _places(((step.stream, None), step.position) for step in survey.progress)
        quiet = (line for line in survey.lines if line.level in ("INFO", "DEBUG"))
        self._calm = _places(((line.stream, line.rank), line.position) for line in quiet)

    def after(self, line: Line, reported: int | None) -> bool:
        """Whether the process that printed a line made a step after it (where it names no rank, the ranks made some),
        or said more, before the launcher's report, than a program says that leaves."""
        for rank in {line.rank, None}:
            steps = self._steps.get((line.stream, rank), [])
            if steps and steps[-1] > line.position:
                return True
        of_all = self._of_all.get((line.stream, None), []) if line.rank is None else []
        if len(of_all) - bisect_right(of_all, line.position) >= _MOST_CALM:
            return True
        calm = self._calm.get((line.stream, line.rank), [])
        before_report = reported is not None and line.position < reported
        end = bisect_left(calm, reported) if before_report and reported is not None else len(calm)
        return end - bisect_right(calm, line.position) > _MOST_CALM


def _places(items: Iterable[tuple[tuple[int, int | None], int]]) -> dict[tuple[int, int | None], list[int]]:
    places: dict[tuple[int, int | None], list[int]] = {}
    for key, position in items:
        places.setdefault(key, []).append(position)
    return {key: sorted(positions) for key, positions in places.items()}


def _complains(line: Line, reported: int | None) -> bool:
    """Whether a line tells of trouble and stands before the launcher's report; one that names its rank may come after
    it, because each process buffers its own output."""
    if reported is not None and line.rank is None and line.position > reported:
        return False
    near = reported is None or abs(reported - line.position) <= _NEAR
    plain = near and line.level is None and _COMPLAINT.match(line.message) is not None
    told = plain or line.level in _LEVELS_OF_TROUBLE or line.level == "WARNING"
    return told and LAUNCHERS.search(line.text) is None


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
