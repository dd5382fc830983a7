"""What broke for good, and what the job is seen to have survived."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from logdiag.judge.faults import Event
from logdiag.judge.timeline import BARE_EXCEPTION, LINES_AFTER_A_COMPLAINT, OF_SERVICES, STEPS_OF_RECOVERY, Course
from logdiag.model import Category, Reason, Role

__all__ = ["standing"]

# How something ends that was told to: by a person, a script or a launcher.
_STOP = re.compile(
    r"\bSIG(?:TERM|INT)\b|\bTerminated\b|: line \d+:\s+\d+ Killed\b|KeyboardInterrupt|\bsignal:? (?:2|15)\b|"
    r"\btasks? [\d,-]{1,60}: (?:Killed|Terminated)\b|\bSTEP \S{1,40} ON .{1,200} CANCELLED AT\b|\bJob step aborted\b|"
    r"\bReceived (?:2|15) death signal|(?i:exit ?(?:code|status)|return code)\W{0,4}(?:-15|-2|143|130)\b"
)
# mkdir: cannot create ...   run.sh: line 4: ...   but not a Python program's [Errno 2]
_OF_A_TOOL = re.compile(r"[\w./+-]{1,200}: (?!.{0,400}\[Errno)")
# cp: error writing ...   train.py: error: argument ...   but not ValueError: ...
_ENDED_TOOL = re.compile(r"[a-z][\w.+-]{0,80}: (?!.{0,400}\[Errno)")
_HEADER = "Traceback (most recent call last)"


def standing(events: Sequence[Event], course: Course) -> tuple[list[Event], list[Event]]:
    """What broke for good, and what was recovered from; both in the order of the log.

    From the last to the first: an error counts as something that broke later only if it was not itself survived.
    """
    broke: list[Event] = []
    recovered: list[Event] = []
    for event in reversed(events):
        if _went_on(event, course):
            recovered.append(event)
        else:
            event = _script_ended_by(event, course)
            broke.append(event)
            course.broke(event)
    return broke[::-1], recovered[::-1]


def _script_ended_by(event: Event, course: Course) -> Event:
    """A refused line of the job script as what ended it: no step was made, and nothing follows but the traceback of
    what such a script runs when it leaves. A tool that says what it cannot survive has ended, whatever follows."""
    if event.finding.role is not Role.CAUSE or event.line.level is not None or not course.never_worked:
        return event
    if not event.finding.goes_on and _ENDED_TOOL.match(event.line.message):
        return replace(event, died=True)
    if not _of_a_script(event):
        return event
    following = course.said_next(event.line)
    ended = not following or _HEADER in following[0].text
    return replace(event, died=True, quiet=False) if ended else event


def _of_a_script(event: Event) -> bool:
    """Whether a line of a job script complains, by the tool that it called."""
    return event.finding.goes_on and event.line.level is None and _OF_A_TOOL.match(event.line.message) is not None


def _script_went_on(event: Event, course: Course) -> bool:
    """Whether a job script, of which no step is known, said more after one of its lines was refused and nothing
    broke."""
    if not _of_a_script(event) or not course.never_worked:
        return False
    went_on = len(course.said_next(event.line)) == LINES_AFTER_A_COMPLAINT
    return went_on and not course.failed and not course.broke_after(event.line.stream, event.line.position)


def _is_stop(event: Event) -> bool:
    """Whether an event tells that something was stopped, or only that a launcher noticed that its workers ended."""
    if event.reason is not Reason.OTHERS:
        return False
    closing = event.finding.closes and event.finding.role is Role.SYMPTOM
    return closing or _STOP.search(event.line.text) is not None


def _is_minor(event: Event) -> bool:
    """Whether an event is not the death of the main process: a warning, what was caught, a thread's or a child's, or an
    exception's line alone and without a launcher's prefix, as interpreters leave that end at once and mix what they
    ignored."""
    stray = event.line.rank is None and BARE_EXCEPTION.match(event.line.message) is not None
    told = event.quiet or event.caught or event.finding.role is Role.HINT
    return event.of_a_child or (not event.died and (told or stray))


def _went_on(event: Event, course: Course) -> bool:
    """Whether the process that met this fault is seen to work afterwards.

    Output to stdout often reaches the log after a traceback on stderr, so steps after a process died mean a recovery
    only when another cause breaks the job after them, or it came to its proper end.
    """
    line, end = event.line, course.ended_after(event.line)
    is_last = not course.broke_after(line.stream, line.position)
    if course.long_before(line) or course.ended_well_without(line):
        return True
    if event.reason is Reason.NODE_FAILURE and not is_last:
        return False  # a machine that is about to be taken away works until it is
    if is_last and (_is_stop(event) or _is_minor(event)) and course.stopped_after_its_end(line):
        return True
    if event.finding.role is Role.SYMPTOM and event.reason is Reason.OTHERS:
        # What a launcher reports of the end is the end, whatever its workers' buffers still print.
        return end is not None and not course.broke_after(line.stream, end)
    if course.is_habit(event) or (not event.died and _was_overcome(event, course)):
        return True
    return _worked_on(event, course)


def _was_overcome(event: Event, course: Course) -> bool:
    """Whether a fault that its process did not die of is seen to be over: by a step, ordinary work, an answer or the
    proper end."""
    line, end = event.line, course.ended_after(event.line)
    of_services = event.reason in OF_SERVICES
    warned = event.quiet and not course.failed and not course.broke_after(line.stream, line.position)
    # Of what a program warned of, one step more is enough; of a service that refused it, one word of its work.
    own = event.reason.category is not Category.INFRASTRUCTURE
    if warned and ((own and course.steps_after(line)) or (of_services and course.said_more_after(line))):
        return True
    if course.calm_after(event) or course.answered_after(line) or course.transferred_after(event):
        return True
    return _script_went_on(event, course) or (end is not None and not course.broke_after(line.stream, end))


def _worked_on(event: Event, course: Course) -> bool:
    """Whether steps show that the process worked on.

    Ranks work in step: one that is gone stops them all, so each one's steps speak for a rank that only told of an
    error; not so for what the others say of one that is gone.
    """
    line, end = event.line, course.ended_after(event.line)
    is_last = not course.broke_after(line.stream, line.position)
    told = not event.died and event.finding.role is Role.CAUSE
    if told and line.rank is not None and course.crashed_next(line):
        return False
    steps = course.steps_after(replace(line, rank=None) if told else line)
    if len(steps) < STEPS_OF_RECOVERY:
        return end is not None and is_last
    survivor = event.of_a_child or event.handled
    if survivor and (is_last or course.is_no_death(line) or course.stopped_after(line.stream, steps[-1])):
        return True
    ended_well = end is not None and end > steps[0] and is_last
    return not event.died or ended_well or course.cause_after(line.stream, steps[-1])
