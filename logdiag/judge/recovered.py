"""Did the job recover from a fault? Ordered decisions; the first that applies answers.

A fault is asked with what broke for good after it, so faults are judged from the last to the first: an error counts as
something that broke later only if it was itself not recovered from.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from logdiag.judge.decisions import decision, first_that_applies
from logdiag.judge.faults import Fault
from logdiag.judge.kinds import Told
from logdiag.judge.timeline import FEW_LINES_OF_CALM, STEPS_OF_RECOVERY, Timeline, fault_habit
from logdiag.model import Category, Decision, Line, LinePlace, Reason, Role
from logdiag.patterns import pattern_of

# So many ordinary log lines after an error that was only logged show that its process went on.
_LINES_OF_CALM = 8
# So many lines of a record of a pod or a task may follow the one that tells its state.
_LINES_OF_A_RECORD = 30
# Seconds; a fault of a machine shows in its processes sooner, time-outs included.
_LONG = 3600.0
# Seconds; what a driver tries in such a time is one trouble.
MOMENT = 60.0
# What a process keeps working through, if it comes back: no GPU, whose memory is lost by then.
_COMES_BACK = (
    Reason.OS_ERROR,
    Reason.NETWORK_ERROR,
    Reason.NODE_FAILURE,
    Reason.CONNECTION_ERROR,
    Reason.S3_STORAGE_ERROR,
)
# Of what a supervisor records, as it is now.
_GOOD_STATES = ("running", "complete")
# [  193.378949]
_UPTIME = pattern_of(r"\[ *(\d{1,9}\.\d{1,9})\]")
# md127   sdk   0000:41:00.0   66:208   10.0.0.9   OSD_DOWN   (what a machine calls its parts, peers and checks)
_NAME = pattern_of(
    r"(?<![\w:.-])(?:[A-Za-z][\w-]*\d|sd[a-z]{1,2}|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d|\d{1,3}:\d{1,3}"
    r"|\d{1,3}(?:\.\d{1,3}){3}|[A-Z]{2,12}_[A-Z_]{2,40})(?![\w-]|[:.]\w)"
)
# > 02:10:02    T+05:31    [6016.1]    (before a message, as no form reads it)
_CLOCK = pattern_of(r"^.*?(?:(?<![\da-fA-F:])\d{1,2}:\d{2}(?::\d{2}[\d.,]{0,10}Z?)?[\])]?|\[ *\d+\.\d+\]) +")
# part-007   u12   run/3   10.0.0.9   mill.service   (what tells one thing from others of its kind)
_NAMED = pattern_of(r"\d|\w[./]\w")
_NEVER, _BEFORE_ALL = sys.maxsize, -1


class _Later(NamedTuple):
    """The faults after a given one that were not recovered from. By stream, `breaks` has the position of the last of
    them, `causes` that of the last cause; `crashes` are (stream, rank). `next_faults` has the next of a role, by
    stream and role, and with role None the next of all."""

    breaks: Mapping[int, int] = {}
    causes: Mapping[int, int] = {}
    crashes: frozenset[tuple[int, int | None]] = frozenset()
    next_faults: Mapping[tuple[int, Role | None], Fault] = {}

    def broke_after(self, line: Line, position: int | None = None) -> bool:
        """Whether something broke, unrecovered, after a line, or after `position` in its stream."""
        return self.breaks.get(line.stream, -1) > (line.position if position is None else position)

    def and_before_it(self, fault: Fault) -> _Later:
        """These with one more fault, which came before all of them."""
        if fault.quiet or not fault.finding.role.is_failure:
            return self
        stream, position, cause = fault.line.stream, fault.line.position, fault.finding.role is Role.CAUSE
        following = {(stream, None): fault, (stream, fault.finding.role): fault}
        later = self._replace(next_faults={**self.next_faults, **following})
        if stream not in self.breaks:
            later = later._replace(breaks={**self.breaks, stream: position})
        if not cause and fault.reason is Reason.RUNTIME_ERROR:
            later = later._replace(crashes=later.crashes | {(stream, fault.line.rank)})
        if cause and not fault.finding.closes and stream not in later.causes:
            return later._replace(causes={**later.causes, stream: position})
        return later


_Check = Callable[[Fault, Timeline, _Later], "bool | None"]


def machines_line_beside_a_clean_job(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A machine's line, where every log of the job ends cleanly and no process died."""
    if not timeline.ends or not timeline.at_work <= timeline.ends.keys() or not timeline.nobody_died or timeline.failed:
        return None
    return fault.line.stream not in timeline.at_work or timeline.kinds.is_a("machines-own", fault.line) or None


def machine_ran_on_for_long(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A machine ran on for an hour or more after a fault, until it met the next one that is no less."""
    line, cause = fault.line, fault.finding.role is Role.CAUSE
    following = later.next_faults.get((line.stream, Role.CAUSE if cause else None))
    if following is None or not timeline.kinds.is_a("machines-own", line):
        return None
    return (seconds_between(line, following.line) > _LONG and line.stream not in timeline.at_work) or None


def it_went_well_before_the_next(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A later line says that what failed went well, or a machine or a daemon that it is back, before anything broke for
    good that this could explain; or a driver reset its device, which broke again later; or a pod runs that waited."""
    following, line = later.next_faults.get((fault.line.stream, None)), fault.line
    if fault.died:
        return None
    waits = timeline.kinds.is_a("before-start", line)
    if not waits and following is not None and following.reason in fault.explains:
        return None
    until = _NEVER if waits or following is None else following.line.position
    if following is not None and _was_reset_between(fault, following, timeline):
        return True
    back = _reported_back(fault, timeline) if waits or fault.reason in _COMES_BACK else []
    return any(report.position < until for report in (*back, *went_well_after(line, timeline))) or None


def command_went_well_the_next_time(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A person gave the command that printed it once more, behind a shell's prompt, and this time nothing broke."""
    line = fault.line
    if fault.died or timeline.kinds.is_a("machines-own", line):
        return None
    given = [told for told in timeline.kinds.told("given") if told.line.stream == line.stream]
    above = [told for told in given if told.line.position < line.position]
    if not above:
        return None
    command = above[-1].facts["what"].strip()
    once_more = next((told.line for told in given[len(above) :] if _gives(command, told.facts["what"])), None)
    if once_more is None or later.broke_after(line, once_more.position):
        return None
    return timeline.printed[line.stream][-1].position > once_more.position or None


def machine_works_until_it_goes(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A machine that is about to be taken away works until it is."""
    return False if fault.reason is Reason.NODE_FAILURE and later.broke_after(fault.line) else None


def stopped_after_a_clean_end(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A stop or a minor fault after the job's clean end, and the last of all."""
    if later.broke_after(fault.line) or not (_is_stop(fault, timeline) or _is_minor(fault)):
        return None
    return timeline.stopped_after_its_end(fault.line) or None


def steps_go_on_for_long(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """Something died, and by its clock the job made steps a minute later and more, until nothing broke any more: such
    steps were in no buffer when it died."""
    if not fault.died or later.broke_after(fault.line):
        return None
    return timeline.steps_long_after(fault.line) >= STEPS_OF_RECOVERY or None


def it_runs_again(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A supervisor's record tells how something ended, or did not start, that runs now or is complete, and nothing
    breaks any more."""
    of_a_machine = fault.reason.category is Category.INFRASTRUCTURE or fault.finding.role is Role.HINT
    if of_a_machine or later.broke_after(fault.line):
        return None
    line, states = fault.line, timeline.kinds.told("state-now")
    of_it = [now for now in states if 0 < _lines_between(now.line, line) <= _LINES_OF_A_RECORD]
    return (bool(of_it) and of_it[-1].facts["state"].lower() in _GOOD_STATES) or None


def launchers_report_is_the_end(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """What a launcher reports of the end is the end, unless a clean end follows; its workers' buffers may print on."""
    if fault.finding.role is not Role.SYMPTOM or fault.reason is not Reason.OTHERS:
        return None
    end = timeline.ended_after(fault.line)
    return end is not None and not later.broke_after(fault.line, end)


def comes_back_with_steps_between(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """The same goes wrong in one place again and again, with steps in between."""
    recovered_until = timeline.habits.get(fault_habit(fault))
    if recovered_until is None or later.broke_after(fault.line):
        return None
    mild = (fault.reason.category is not Category.INFRASTRUCTURE or "service" in fault.traits) and not fault.died
    # Of the last time, if it may have ended the process or is a machine's fault, only where the job worked afterwards.
    return fault.line.position <= recovered_until or mild or timeline.worked_after(fault.line) or None


def ordinary_work_follows(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """Ordinary work is logged after an error that was only printed, not as fatal, and nothing breaks any more."""
    line = fault.line
    only_printed = line.level is not None or fault.caught or timeline.kinds.is_a("bare-exception", line)
    if fault.died or line.level == "FATAL" or not only_printed or later.broke_after(line):
        return None
    return timeline.calm_after(line) >= (FEW_LINES_OF_CALM if fault.finding.goes_on else _LINES_OF_CALM) or None


def rank_crashed_next(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """The rank that only printed the error crashed later."""
    printed = not fault.died and fault.finding.role is Role.CAUSE and fault.line.rank is not None
    return False if printed and (fault.line.stream, fault.line.rank) in later.crashes else None


def too_few_steps_follow(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """Fewer steps follow than show that the process went on: only a clean end counts then."""
    if len(_steps_after(fault, timeline)) >= STEPS_OF_RECOVERY:
        return None
    # The program's own end says more than that a child of it was stopped.
    child_stopped = fault.of_a_child and _is_stop(fault, timeline)
    ends = timeline.ends.get(fault.line.stream, (_BEFORE_ALL,)) if child_stopped else (_BEFORE_ALL,)
    ended = timeline.ended_after(fault.line) is not None or ends[-1] > fault.line.position
    return ended and not later.broke_after(fault.line)


def steps_follow(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """Steps follow; after a death only where another cause breaks the job after them, or it ends cleanly, because
    output to stdout often reaches the log after a traceback on stderr. An exception that was caught on its way was no
    death if nothing broke after it."""
    steps = _steps_after(fault, timeline)
    if not steps:
        return False
    caught = (fault.handled or fault.of_a_child) and not later.broke_after(fault.line)
    ended_well = timeline.ended_after(fault.line) is not None
    return not fault.died or caught or ended_well or later.causes.get(fault.line.stream, -1) > steps[-1]


RECOVERED: tuple[_Check, ...] = (
    machines_line_beside_a_clean_job,
    machine_ran_on_for_long,
    it_went_well_before_the_next,
    command_went_well_the_next_time,
    machine_works_until_it_goes,
    stopped_after_a_clean_end,
    steps_go_on_for_long,
    it_runs_again,
    launchers_report_is_the_end,
    comes_back_with_steps_between,
    ordinary_work_follows,
    rank_crashed_next,
    too_few_steps_follow,
    steps_follow,
)
"""In this order; the last one always answers."""


class Standing(NamedTuple):
    """All faults in the order of the log, each on one side: those that broke the job, those it recovered from, and
    those of a later program. `decisions` say what put each there."""

    broke: tuple[Fault, ...]
    recovered: tuple[Fault, ...]
    afterwards: tuple[Fault, ...]
    decisions: tuple[Decision, ...]

    @property
    def failures(self) -> tuple[Fault, ...]:
        """The faults that broke the job, without hints."""
        return tuple(fault for fault in self.broke if fault.finding.role is not Role.HINT)


def places_of(faults: Iterable[Fault]) -> set[LinePlace]:
    """The places of all findings of faults: of a chain, every exception."""
    return {finding.line.place for fault in faults for finding in (fault.finding, *fault.findings)}


def sort_by_standing(unsorted: Iterable[Fault], timeline: Timeline, without: frozenset[str] = frozenset()) -> Standing:
    """Asks each fault, the last one first, whether the job recovered from it; `without` names decisions to skip."""
    faults = sorted(
        (fault for fault in unsorted if fault.finding.role is not Role.FINISHED), key=lambda fault: fault.line.place
    )
    next_program = of_the_next_program(faults, timeline)
    stands: list[Fault] = []
    recovered: list[Fault] = []
    decisions: list[Decision] = []
    later = _Later()
    for fault in reversed(_without(faults, next_program)):
        made, went_on = first_that_applies(RECOVERED, fault, timeline, later, without=without) or (None, False)
        if made is not None:
            decisions.append(decision(made, fault.line, "recovered" if went_on else "stands"))
        if went_on:
            recovered.append(fault)
        else:
            stands.append(fault)
            later = later.and_before_it(fault)
    missed = misses_the_output_of_what_broke(stands[::-1])
    set_aside = [
        *(decision(misses_the_output_of_what_broke, fault.line, "set aside") for fault in missed),
        *(decision(of_the_next_program, fault.line, "set aside") for fault in next_program),
    ]
    return Standing(
        broke=tuple(_without(stands[::-1], missed)),
        recovered=tuple(recovered[::-1]),
        afterwards=(*missed, *next_program),
        decisions=(*decisions[::-1], *set_aside),
    )


def of_the_next_program(faults: Sequence[Fault], timeline: Timeline) -> list[Fault]:
    """The same output shows it after the launcher's last words, and no step follows: of a script's next program."""
    closed: dict[tuple[int, str | None], int] = {}
    for fault in faults:
        if fault.finding.closes and not timeline.steps_after(fault.line):
            for node in (fault.line.node, None):
                closed[fault.line.stream, node] = fault.line.position
    return [
        fault
        for fault in faults
        if _is_a_scripts(fault) and fault.line.position > closed.get((fault.line.stream, fault.line.node), _NEVER)
    ]


def misses_the_output_of_what_broke(broke: Sequence[Fault]) -> list[Fault]:
    """A next program misses a file that the one which broke before it should have written; neither names a rank."""
    first: dict[int, int] = {}
    for fault in broke:
        loud = fault.finding.role is not Role.HINT and not fault.quiet
        if loud and fault.reason is not Reason.FILE_NOT_FOUND_ERROR:
            first.setdefault(fault.line.stream, fault.line.position)
    missing = (fault for fault in broke if _is_a_scripts(fault) and fault.reason is Reason.FILE_NOT_FOUND_ERROR)
    return [fault for fault in missing if fault.line.position > first.get(fault.line.stream, _NEVER)]


def _is_a_scripts(fault: Fault) -> bool:
    """Whether a program ended that is no rank, such as another program of the job's script."""
    return fault.died and fault.line.rank is None


def _without(faults: Iterable[Fault], left_out: Sequence[Fault]) -> list[Fault]:
    left_out_ids = set(map(id, left_out))
    return [fault for fault in faults if id(fault) not in left_out_ids]


def _steps_after(fault: Fault, timeline: Timeline) -> list[int]:
    """The positions of the next steps that show a fault's process went on. Ranks work in step, so if a rank only
    printed a cause, the steps of every rank count; after a death or a symptom only those of its own."""
    printed = not fault.died and fault.finding.role is Role.CAUSE
    return timeline.steps_after(fault.line, any_rank=printed)


def _is_stop(fault: Fault, timeline: Timeline) -> bool:
    """Whether a fault is a stop from outside, or only a launcher's report that its workers ended."""
    if fault.reason is not Reason.OTHERS:
        return False
    closing = fault.finding.closes and fault.finding.role is Role.SYMPTOM
    return closing or timeline.kinds.is_a("stop-from-outside", fault.line)


def _reported_back(fault: Fault, timeline: Timeline) -> list[Line]:
    """The later lines in which a machine or a daemon reports that what broke is back, or its storage whole."""
    line = fault.line
    later_reports = (report for report in timeline.back.get(line.stream, ()) if report.position > line.position)
    # Whatever broke, after the machine's next start its links are up.
    back = (report for report in later_reports if _uptime(line, 0.0) <= _uptime(report, math.inf))
    of_storage = fault.reason is Reason.OS_ERROR or fault.finding.role is Role.SYMPTOM
    waits = of_storage or timeline.kinds.is_a("before-start", line)
    return [
        report
        for report in back
        if (waits and timeline.kinds.is_a("whole-again", report)) or not _names(line).isdisjoint(_names(report))
    ]


def _was_reset_between(fault: Fault, following: Fault, timeline: Timeline) -> bool:
    """Whether a driver reset a device after a fault, and the next fault is a driver's too, but not of the same
    moment."""
    kinds, line = timeline.kinds, fault.line
    own = kinds.is_a("machines-own", line) and kinds.is_a("machines-own", following.line)
    if not own or 0 < seconds_between(line, following.line) < MOMENT:
        return False
    printed = timeline.printed_between(line, following.line)
    return any(kinds.is_a("was-reset", it) and not _names(line).isdisjoint(_names(it)) for it in printed)


def went_well_after(line: Line, timeline: Timeline) -> Iterable[Line]:
    """The later lines that say of what a line names, in the same words, that it went well."""
    for told in timeline.went_well.get(line.stream, ()):
        if told.line.position > line.position and any(_names_it(what, line.text) for what in _wordings(told)):
            yield told.line


def _gives(command: str, given: str) -> bool:
    """Whether what was given to a shell begins with a command."""
    return given.startswith(command) and given[len(command) :].lstrip()[:1] in ("", "&", ";", "|")


def _wordings(told: Told) -> set[str]:
    """What a line names that went well, without its prefixes; of these and of a time none, one or several are known."""
    line, what = told.line, told.facts["what"]
    starts = line.starts if line.text.startswith(what) else (0,)
    parts = (_CLOCK.sub("", what[start:]) for start in starts)
    return {part for part in parts if _NAMED.search(part)}


def _names_it(what: str, text: str) -> bool:
    """Whether a text has these very words."""
    at = text.find(what)
    return at >= 0 and not text[at + len(what) : at + len(what) + 1].isalnum() and not text[:at][-1:].isalnum()


def _lines_between(line: Line, following: Line) -> int:
    """How many lines later in the same stream the second stands, 0 or less for none."""
    return following.position - line.position if following.stream == line.stream else 0


def seconds_between(line: Line, following: Line) -> float:
    """By the clocks of both lines, else by the time since the machine's start; 0 where neither tells."""
    if line.time is not None and following.time is not None:
        return following.time - line.time
    since = _uptime(line, math.inf)
    neither = line.time is None and following.time is None
    return _uptime(following, 0.0) - since if neither else 0.0


def _uptime(line: Line, otherwise: float) -> float:
    """The seconds since the machine's start, by its kernel's clock."""
    clock = _UPTIME.search(line.text)
    return float(clock[1]) if clock else otherwise


def _names(line: Line) -> set[str]:
    """What a line names behind its program: a driver's prefix may be such a name, the host is none."""
    return {*_NAME.findall(line.message), *_NAME.findall(line.text.partition(": ")[2])}


def _is_minor(fault: Fault) -> bool:
    """Whether a fault is not the death of the main process: a warning, what was caught, a thread's or a child's."""
    minor = fault.quiet or fault.caught or fault.finding.role is Role.HINT
    return fault.of_a_child or (not fault.died and minor)
