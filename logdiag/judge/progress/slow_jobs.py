"""Hangs and slow jobs, by their clocks and numbers: silence before the end, one rank that is always late, a loss that
jumps. None of it says that a job failed; it says what kind of trouble it was."""

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

# Seconds without a word, and times the usual step, after which a job that is then ended is one that hung.
_SILENT, _STEPS_LONG = 300.0, 10.0
# ... JOB 4711 ON node-004 CANCELLED AT 2026-11-04T10:00:00 DUE TO TIME LIMIT ***
_WITHIN = pattern_of(r"\b20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d")
# So many ranks must tell a step, and the one that comes late be late by so much of one.
_FEWEST_RANKS, _OF_A_STEP = 3, 0.1
# A loss that is so many times what it was, and stays there, has jumped.
_JUMP = 3.0


class SlowJob(NamedTuple):
    """What kind of trouble it was (`hang`, `straggler`, `loss-spike`; empty for none of them), and a sentence with the
    evidence."""

    kind: str
    words: str


def slow_job(root: Fault | None, survey: Survey) -> SlowJob | None:
    """What the clocks and numbers of the steps show; None where they show nothing."""
    changes = changes_of_level(survey)
    found = _kind_of_trouble(root, survey, changes)
    words = [*([found.words] if found and found.words else []), *(change.words for change in changes)]
    return SlowJob(found.kind if found else "", "; ".join(words)) if words else None


def _kind_of_trouble(root: Fault | None, survey: Survey, changes: Iterable[LevelChange]) -> SlowJob | None:
    """A hang, a straggler or a loss that jumped; None for another, or where a root says it better."""
    if root is not None:
        return _silence(root, survey) if root.reason is Reason.OTHERS and not root.died else None
    if any(change.name == "loss" and change.factor >= _JUMP for change in changes):
        return SlowJob("loss-spike", "")
    return _straggler(survey)


def _silence(root: Fault, survey: Survey) -> SlowJob | None:
    """A job that was ended, by its scheduler or a person, long after its last word."""
    ended = _time_of(root.line)
    told = {finding.line.place for finding in survey.findings}
    steps = [line for line in survey.progress if line.time is not None]
    before = [line for line in survey.lines if line.time is not None and line.place not in told]
    waits = ((apart(line.time or 0.0, ended), line) for line in [*before, *steps] if ended is not None)
    since = min(((seconds, line.position, line) for seconds, line in waits if seconds > 0), default=None)
    usual = _usual_step(steps)
    if since is None or usual is None or since[0] < max(_SILENT, _STEPS_LONG * usual):
        return None
    seconds, _, last = since
    words = f"it hung: nothing was logged for {seconds / 60:.0f} min before it was ended, and a step took {usual:.3g} s"
    return SlowJob("hang", f"{words} ({last.source}:{last.number} is its last word)")


def _time_of(line: Line) -> float | None:
    """The time of a line, or the one that a scheduler writes into it."""
    told = _WITHIN.search(line.text) if line.time is None else None
    return moment(told[0]) if told else line.time


def _usual_step(steps: Iterable[Line]) -> float | None:
    """Seconds from one logged step to the next, of one stream and rank."""
    times: dict[tuple[int, int | None], list[tuple[int, float]]] = defaultdict(list)
    for line in steps:
        number = step_number(line)
        if number is not None and line.time is not None:
            times[line.stream, line.rank].append((number, line.time))
    return usual_step(times.values())


def _straggler(survey: Survey) -> SlowJob | None:
    """One rank logs every step well after the others, which differ by far less."""
    at: dict[int, dict[int, float]] = defaultdict(dict)
    steps = sorted([*survey.progress, *survey.lines], key=lambda line: line.place)
    for line in steps:
        if line.rank is not None and line.time is not None and (number := step_number(line)) is not None:
            at[number].setdefault(line.rank, line.time)
    usually = usually_late(times for times in at.values() if len(times) >= _FEWEST_RANKS)
    usual = _usual_step(line for line in steps if line.rank is not None)
    if len(usually) < _FEWEST_RANKS or usual is None:
        return None
    slowest = max(usually, key=lambda rank: usually[rank])
    seconds = usually[slowest]
    if not are_late([slowest], usually) or seconds <= _OF_A_STEP * usual:
        return None
    words = f"rank {slowest} is a straggler: it ends its steps {seconds:.3g} s after the other ranks"
    return SlowJob("straggler", f"{words}; a step takes {usual:.3g} s")
