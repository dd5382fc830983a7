"""Did the job recover from a fault? Ordered decisions; the first that applies answers.

A fault is asked with what broke for good after it, so faults are judged from the last to the first: an error counts as
something that broke later only if it was itself not recovered from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from logdiag.judge.decisions import decision, first_that_applies
from logdiag.judge.ending import ending_of
from logdiag.judge.faults import Fault
from logdiag.judge.timeline import LINES_AFTER_A_COMPLAINT, STEPS_OF_RECOVERY, Timeline, fault_habit
from logdiag.model import Category, Decision, Line, Reason, Role

# So many ordinary log lines after an error that was only logged show that its process went on ...
_LINES_OF_CALM = 8
# ... and so many after what a process usually goes on from.
_FEW_LINES_OF_CALM = 2
_HEADER = "Traceback (most recent call last)"


class _Later(NamedTuple):
    """What broke for good after a fault, as last positions by stream: anything, a cause, a stop from outside; by stream
    and rank where a rank crashed next; and whether the log's last status is a good one."""

    breaks: Mapping[int, int] = {}
    causes: Mapping[int, int] = {}
    stops: Mapping[int, int] = {}
    crashes: Mapping[tuple[int, int | None], int] = {}
    ends_well: bool = False

    def broke_after(self, line: Line, position: int | None = None) -> bool:
        """Whether something broke for good after a line, or after another position of its stream."""
        return self.breaks.get(line.stream, -1) > (line.position if position is None else position)

    def and_before_it(self, fault: Fault) -> _Later:
        """The same with one more fault, which came before all of these."""
        if fault.quiet or fault.finding.role not in (Role.CAUSE, Role.SYMPTOM):
            return self
        stream, position, cause = fault.line.stream, fault.line.position, fault.finding.role is Role.CAUSE
        later = self if stream in self.breaks else self._replace(breaks={**self.breaks, stream: position})
        if not cause and fault.reason is Reason.RUNTIME_ERROR:
            later = later._replace(crashes={**later.crashes, (stream, fault.line.rank): position})
        if cause and fault.finding.closes and stream not in later.stops:
            return later._replace(stops={**later.stops, stream: position})
        if cause and not fault.finding.closes and stream not in later.causes:
            return later._replace(causes={**later.causes, stream: position})
        return later


_Check = Callable[[Fault, Timeline, _Later], "bool | None"]


def older_than_the_job(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """The line is of days before the job began."""
    return timeline.long_before(fault.line) or None


def machines_line_beside_a_clean_job(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A machine's line, where every log of the job ends cleanly and no process died."""
    if not timeline.ends or not timeline.at_work <= timeline.ends.keys() or not timeline.nobody_died or timeline.failed:
        return None
    return fault.line.stream not in timeline.at_work or timeline.kinds.is_a("machines-own", fault.line) or None


def machine_works_until_it_goes(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A machine that is about to be taken away works until it is."""
    return False if fault.reason is Reason.NODE_FAILURE and later.broke_after(fault.line) else None


def stopped_after_a_clean_end(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A stop or a minor fault after the job's clean end, and the last of all."""
    if later.broke_after(fault.line) or not (_is_stop(fault, timeline) or _is_minor(fault, timeline)):
        return None
    return timeline.stopped_after_its_end(fault.line) or None


def job_worked_on_and_ended_well(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """One process ended or complained, the job worked on without it or with another in its place, and its last status
    is good."""
    reported = fault.finding.role is Role.SYMPTOM and fault.reason is Reason.OTHERS
    if not later.ends_well or later.broke_after(fault.line) or (fault.died and not reported):
        return None
    return timeline.worked_after(fault.line) or timeline.prints_on_as_before(fault.line) or None


def launchers_report_is_the_end(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """What a launcher reports of the end is the end, unless a clean end follows; its workers' buffers may print on."""
    if fault.finding.role is not Role.SYMPTOM or fault.reason is not Reason.OTHERS:
        return None
    return _ended_cleanly(fault, timeline, later)


def comes_back_with_steps_between(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """The same goes wrong in one place again and again, with steps in between."""
    recovered_until = timeline.habits.get(fault_habit(fault))
    if recovered_until is None or later.broke_after(fault.line):
        return None
    mild = (fault.reason.category is not Category.INFRASTRUCTURE or "service" in fault.traits) and not fault.died
    # Of the last time, if it may have ended the process or is a machine's fault, only where the job worked afterwards.
    return fault.line.position <= recovered_until or mild or timeline.worked_after(fault.line) or None


def warned_and_worked_on(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """The program only warned of it: one step more is enough, of a service that refused it one word of its work."""
    if fault.died or not fault.quiet or timeline.failed or later.broke_after(fault.line):
        return None
    stepped = bool(timeline.steps_after(fault.line))
    own = fault.reason.category is not Category.INFRASTRUCTURE
    of_services = "service" in fault.traits and (stepped or timeline.calm_after(fault.line) > 0)
    return (own and stepped) or of_services or None


def ordinary_work_follows(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """Ordinary work is logged after an error that was only printed, and nothing breaks any more."""
    line = fault.line
    told = line.level is not None or fault.caught or timeline.kinds.is_a("bare-exception", line)
    if fault.died or not told or later.broke_after(line):
        return None
    return timeline.calm_after(line) >= (_FEW_LINES_OF_CALM if fault.finding.goes_on else _LINES_OF_CALM) or None


def server_refused_the_request(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A server answers right after the error that the request was wrong."""
    following = timeline.printed_next(fault.line)[:1]
    return (not fault.died and any(timeline.kinds.is_a("refused-request", line) for line in following)) or None


def service_delivers_again(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A service that failed once delivers again, and nothing breaks any more."""
    if fault.died or "service" not in fault.traits or later.broke_after(fault.line):
        return None
    return timeline.transferred_after(fault.line) or None


def container_started_after_all(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """Kubernetes could not set a pod up at first, or a launcher queued its job again, and it starts later; nothing
    breaks any more."""
    if fault.died or later.broke_after(fault.line) or not timeline.kinds.is_a("pod-set-up", fault.line):
        return None
    return timeline.started_after(fault.line) or None


def script_went_on(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A job script, of which no step is known, printed more after a refused line, and nothing broke."""
    if fault.died or not _is_of_a_script(fault, timeline) or not timeline.never_worked or timeline.failed:
        return None
    went_on = len(timeline.printed_next(fault.line)) == LINES_AFTER_A_COMPLAINT
    return (went_on and not later.broke_after(fault.line)) or None


def clean_end_follows(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """The job ends cleanly after a fault of which no process died."""
    return (not fault.died and _ended_cleanly(fault, timeline, later)) or None


def rank_crashed_next(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """The rank that printed the error crashed before it made another step."""
    line = fault.line
    if fault.died or fault.finding.role is not Role.CAUSE or line.rank is None:
        return None
    crash = later.crashes.get((line.stream, line.rank))
    crashed = crash is not None and not any(step < crash for step in timeline.steps_after(line))
    return False if crashed else None


def too_few_steps_follow(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """Fewer steps follow than show that the process went on: only a clean end counts then."""
    if len(_steps_after(fault, timeline)) >= STEPS_OF_RECOVERY:
        return None
    return timeline.ended_after(fault.line) is not None and not later.broke_after(fault.line)


def main_process_made_steps(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """A child ended, or an exception was caught on its way, and the main process made steps afterwards."""
    line, steps = fault.line, _steps_after(fault, timeline)
    if not steps or not (fault.of_a_child or fault.handled):
        return None
    stopped = later.stops.get(line.stream, -1) > steps[-1]
    return not later.broke_after(line) or timeline.is_no_death(line) or stopped or None


def steps_follow(fault: Fault, timeline: Timeline, later: _Later) -> bool | None:
    """Steps follow; after a death only where another cause breaks the job after them, or it ends cleanly, because
    output to stdout often reaches the log after a traceback on stderr."""
    line, steps = fault.line, _steps_after(fault, timeline)
    if not steps:
        return False
    end = timeline.ended_after(line)
    ended_well = end is not None and end > steps[0] and not later.broke_after(line)
    return not fault.died or ended_well or later.causes.get(line.stream, -1) > steps[-1]


RECOVERED: tuple[_Check, ...] = (
    older_than_the_job,
    machines_line_beside_a_clean_job,
    machine_works_until_it_goes,
    stopped_after_a_clean_end,
    job_worked_on_and_ended_well,
    launchers_report_is_the_end,
    comes_back_with_steps_between,
    warned_and_worked_on,
    ordinary_work_follows,
    server_refused_the_request,
    service_delivers_again,
    container_started_after_all,
    script_went_on,
    clean_end_follows,
    rank_crashed_next,
    too_few_steps_follow,
    main_process_made_steps,
    steps_follow,
)
"""In this order; the last one always answers."""


class Standing(NamedTuple):
    """What broke for good and what was recovered from, both in the order of the log, and what decided of each."""

    broke: tuple[Fault, ...]
    recovered: tuple[Fault, ...]
    decisions: tuple[Decision, ...]


def sort_by_standing(faults: Sequence[Fault], timeline: Timeline, without: frozenset[str] = frozenset()) -> Standing:
    """Asks each fault, the last one first, whether the job recovered from it; `without` names decisions to skip."""
    broke: list[Fault] = []
    recovered: list[Fault] = []
    decisions: list[Decision] = []
    later = _Later(ends_well=ending_of(timeline).good)
    for fault in reversed(faults):
        made = first_that_applies(RECOVERED, fault, timeline, later, without=without)
        if made is not None:
            outcome = "recovered" if made[1] else "stands"
            decisions.append(decision(made[0], fault.line, outcome))
        if made is not None and made[1]:
            recovered.append(fault)
        else:
            fault = _ended_its_script(fault, timeline)
            broke.append(fault)
            later = later.and_before_it(fault)
    return Standing(tuple(broke[::-1]), tuple(recovered[::-1]), tuple(decisions[::-1]))


def _steps_after(fault: Fault, timeline: Timeline) -> list[int]:
    """The steps that speak for a fault's process. Ranks work in step: one that is gone stops them all, so each one's
    steps speak for a rank that only printed an error; not so for what the others print of one that is gone."""
    printed = not fault.died and fault.finding.role is Role.CAUSE
    return timeline.steps_after(fault.line, any_rank=printed)


def _ended_cleanly(fault: Fault, timeline: Timeline, later: _Later) -> bool:
    """Whether a clean end follows with nothing broken after it."""
    end = timeline.ended_after(fault.line)
    return end is not None and not later.broke_after(fault.line, end)


def _ended_its_script(fault: Fault, timeline: Timeline) -> Fault:
    """A refused line of the job script as what ended it: no step was made, and nothing follows but the traceback of
    what such a script runs when it leaves. A tool that prints an error and is not known to go on has ended, whatever
    follows."""
    if fault.finding.role is not Role.CAUSE or fault.line.level is not None or not timeline.never_worked:
        return fault
    if timeline.kinds.is_a("machines-own", fault.line):
        return fault  # oom_reaper: reaped process 4411 (python): the kernel's own threads end nothing by a word
    if not fault.finding.goes_on and timeline.kinds.is_a("program-complaint", fault.line):
        return fault._replace(died=True)
    if not _is_of_a_script(fault, timeline):
        return fault
    following = timeline.printed_next(fault.line)
    ended = not following or _HEADER in following[0].text
    return fault._replace(died=True, quiet=False) if ended else fault


def _is_of_a_script(fault: Fault, timeline: Timeline) -> bool:
    """Whether a line of a job script complains, by the tool that it called."""
    plain = fault.finding.goes_on and fault.line.level is None
    return plain and timeline.kinds.is_a("tool-complaint", fault.line)


def _is_stop(fault: Fault, timeline: Timeline) -> bool:
    """Whether something was stopped, or a launcher only noticed that its workers ended."""
    if fault.reason is not Reason.OTHERS:
        return False
    closing = fault.finding.closes and fault.finding.role is Role.SYMPTOM
    return closing or timeline.kinds.is_a("stop-from-outside", fault.line)


def _is_minor(fault: Fault, timeline: Timeline) -> bool:
    """Whether a fault is not the death of the main process: a warning, what was caught, a thread's or a child's, or an
    exception's line alone and without a launcher's prefix, as interpreters leave that end at once and mix what they
    ignored."""
    stray = fault.line.rank is None and timeline.kinds.is_a("bare-exception", fault.line)
    told = fault.quiet or fault.caught or fault.finding.role is Role.HINT
    return fault.of_a_child or (not fault.died and (told or stray))
