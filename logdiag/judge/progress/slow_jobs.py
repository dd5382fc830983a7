"""Finds hangs and slow jobs by clocks and numbers: silence before the end, one rank that is always late, a loss that
jumps. None of these says that a job failed, only what kind of trouble it had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from logdiag.judge.faults import Fault
from logdiag.judge.lateness import are_late, usual_step, usually_late
from logdiag.judge.merge.clocks import apart, moment
from logdiag.judge.progress.series import LevelChange, changes_of_level
from logdiag.model import Line, Reason
from logdiag.patterns import pattern_of
from logdiag.scan.steps import step_number
from logdiag.scan.survey import Survey

# A job that was stopped after so many seconds of silence, and so many times the usual step, is one that hung.
_SILENT, _STEPS_LONG = 300.0, 10.0
# ... JOB 4711 ON node-004 CANCELLED AT 2026-11-04T10:00:00 DUE TO TIME LIMIT ***
_WITHIN = pattern_of(r"\b20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d")
# So many ranks must print a step, and the late one be late by this share of a step.
_FEWEST_RANKS, _OF_A_STEP = 3, 0.1
# A loss that rises by this factor and stays there has jumped.
_JUMP = 3.0


class SlowJob(NamedTuple):
    """A kind of trouble (`hang`, `straggler`, `loss-spike`; empty for none of them), and a sentence on it."""

    kind: str
    words: str


def slow_job(root: Fault | None, survey: Survey) -> SlowJob | None:
    """The trouble that clocks and numbers of the steps show; None for none."""
    changes = changes_of_level(survey)
    trouble = _kind_of_trouble(root, survey, changes)
    words = [*([trouble.words] if trouble and trouble.words else []), *(change.words for change in changes)]
    return SlowJob(trouble.kind if trouble else "", "; ".join(words)) if words else None


def _kind_of_trouble(root: Fault | None, survey: Survey, changes: Iterable[LevelChange]) -> SlowJob | None:
    """A hang, a straggler or a loss that jumped; None for none, or where the root already names a cause."""
    if root is not None:
        return _silence(root, survey) if root.reason is Reason.OTHERS and not root.died else None
    if any(change.name == "loss" and change.factor >= _JUMP for change in changes):
        return SlowJob("loss-spike", "")
    return _straggler(survey)


def _silence(root: Fault, survey: Survey) -> SlowJob | None:
    """A hang: a scheduler or a person ended the job long after its last line. None for no hang."""
    ended = _time_of(root.line)
    reports = {finding.line.place for finding in survey.findings}
    steps = [line for line in survey.progress if line.time is not None]
    before = [line for line in survey.lines if line.time is not None and line.place not in reports]
    waits = ((apart(line.time or 0.0, ended), line) for line in [*before, *steps] if ended is not None)
    since = min(((seconds, line.position, line) for seconds, line in waits if seconds > 0), default=None)
    usual = _usual_step(steps)
    if since is None or usual is None or since[0] < max(_SILENT, _STEPS_LONG * usual):
        return None
    seconds, _, last = since
    words = f"it hung: nothing was logged for {seconds / 60:.0f} min before it was ended, and a step took {usual:.3g} s"
    return SlowJob("hang", f"{words} ({last.source}:{last.number} is its last word)")


def _time_of(line: Line) -> float | None:
    """The time of a line, else the one that a scheduler writes into it; None for none."""
    match = _WITHIN.search(line.text) if line.time is None else None
    return moment(match[0]) if match else line.time


def _usual_step(steps: Iterable[Line]) -> float | None:
    """Seconds from one logged step to the next, of one stream and rank; None where that is not known."""
    times: dict[tuple[int, int | None], list[tuple[int, float]]] = defaultdict(list)
    for line in steps:
        number = step_number(line)
        if number is not None and line.time is not None:
            times[line.stream, line.rank].append((number, line.time))
    return usual_step(times.values())


def _straggler(survey: Survey) -> SlowJob | None:
    """A straggler: one rank logs every step well after the others, which differ by far less. None for none."""
    times_of_step: dict[int, dict[int, float]] = defaultdict(dict)
    steps = sorted([*survey.progress, *survey.lines], key=lambda line: line.place)
    for line in steps:
        if line.rank is not None and line.time is not None and (number := step_number(line)) is not None:
            times_of_step[number].setdefault(line.rank, line.time)
    usually = usually_late(times for times in times_of_step.values() if len(times) >= _FEWEST_RANKS)
    usual = _usual_step(line for line in steps if line.rank is not None)
    if len(usually) < _FEWEST_RANKS or usual is None:
        return None
    slowest = max(usually, key=lambda rank: usually[rank])
    seconds = usually[slowest]
    if not are_late([slowest], usually) or seconds <= _OF_A_STEP * usual:
        return None
    words = f"rank {slowest} is a straggler: it ends its steps {seconds:.3g} s after the other ranks"
    return SlowJob("straggler", f"{words}; a step takes {usual:.3g} s")
