"""Hangs and slow jobs, by their clocks and numbers: silence before the end, one rank that is always late, a loss that
jumps. None of it says that a job failed; it says what kind of trouble it was."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from logdiag.judge.faults import Fault
from logdiag.judge.merge.clocks import apart
from logdiag.judge.progress.series import LOSS, changes_of_level
from logdiag.model import Line, Reason, median
from logdiag.patterns import pattern_of
from logdiag.scan.steps import step_number
from logdiag.scan.survey import Survey

# Seconds without a word, and times the usual step, after which a job that is then ended is one that hung.
_SILENT, _STEPS_LONG = 300.0, 10.0
# ... JOB 4711 ON node-004 CANCELLED AT 2026-11-04T10:00:00 DUE TO TIME LIMIT ***
_WITHIN = pattern_of(r"\b20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d")
# So many steps must be told by so many ranks, and one of these come so many seconds after the others, so many times
# what they differ by, and so much of a step.
_FEWEST_STEPS, _FEWEST_RANKS, _LATE, _MUCH_LATER, _OF_A_STEP = 3, 3, 0.5, 4.0, 0.1
# A loss that stays above so many times what it was, for so many steps after so many.
_JUMP, _BEFORE, _AFTER = 3.0, 8, 3


class SlowJob(NamedTuple):
    """What kind of trouble it was (`hang`, `straggler`, `loss-spike`; empty for none of them), and a sentence with the
    evidence."""

    kind: str
    words: str


def slow_job(root: Fault | None, survey: Survey) -> SlowJob | None:
    """What the clocks and numbers of the steps show; None where they show nothing."""
    found = _kind_of_trouble(root, survey)
    changes = changes_of_level(survey)
    if found and found.kind == "loss-spike":
        changes.pop("loss", None)
    words = [*([found.words] if found else []), *changes.values()]
    return SlowJob(found.kind if found else "", "; ".join(words)) if words else None


def _kind_of_trouble(root: Fault | None, survey: Survey) -> SlowJob | None:
    """A hang, a straggler or a loss that jumped; None for another, or where a root says it better."""
    if root is not None:
        return _silence(root, survey) if root.reason is Reason.OTHERS and not root.died else None
    return _straggler(survey) or _spike(survey)


def _silence(root: Fault, survey: Survey) -> SlowJob | None:
    """A job that was ended, by its scheduler or a person, long after its last word."""
    ended = _time_of(root.line)
    told = {(finding.line.stream, finding.line.position) for finding in survey.findings}
    steps = [line for line in survey.progress if line.time is not None]
    before = [line for line in survey.lines if line.time is not None and (line.stream, line.position) not in told]
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
    if told is None:
        return line.time
    from logdiag.judge.collectives.call_table import moment

    return moment(told[0])


def _usual_step(steps: Iterable[Line]) -> float | None:
    """Seconds from one logged step to the next, of one stream and rank."""
    times: dict[tuple[int, int | None], list[tuple[int, float]]] = defaultdict(list)
    for line in steps:
        number = step_number(line)
        if number is not None and line.time is not None:
            times[line.stream, line.rank].append((number, line.time))
    spans = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for told in times.values()
        for earlier, later in pairwise(sorted(set(told)))
        if later[0] > earlier[0] and later[1] >= earlier[1]
    ]
    return median(spans) if spans else None


def _straggler(survey: Survey) -> SlowJob | None:
    """One rank logs every step well after the others, which differ by far less."""
    at: dict[int, dict[int, float]] = defaultdict(dict)
    steps = [line for line in _steps(survey) if line.rank is not None and line.time is not None]
    for line in steps:
        number = step_number(line)
        if number is not None and line.rank is not None and line.time is not None:
            at[number].setdefault(line.rank, line.time)
    late: dict[int, list[float]] = defaultdict(list)
    for times in at.values():
        middle = median(times.values())
        for rank, time in times.items() if len(times) >= _FEWEST_RANKS else ():
            late[rank].append(time - middle)
    known = {rank: median(seconds) for rank, seconds in late.items() if len(seconds) >= _FEWEST_STEPS}
    usual = _usual_step(steps)
    if len(known) < _FEWEST_RANKS or usual is None:
        return None
    slowest = max(known, key=lambda rank: known[rank])
    others = max(abs(seconds) for rank, seconds in known.items() if rank != slowest)
    if known[slowest] <= max(_LATE, _MUCH_LATER * others, _OF_A_STEP * usual):
        return None
    words = f"rank {slowest} is a straggler: it ends its steps {known[slowest]:.3g} s after the other ranks"
    return SlowJob("straggler", f"{words}; a step takes {usual:.3g} s")


def _spike(survey: Survey) -> SlowJob | None:
    """The loss jumped and stayed there to the end of the log."""
    by_process: dict[tuple[int, int | None], list[tuple[Line, float]]] = defaultdict(list)
    for line in _steps(survey):
        found = LOSS.search(line.text)
        if found and math.isfinite(value := float(found[1])) and value > 0:
            by_process[line.stream, line.rank].append((line, value))
    for told in by_process.values():
        values = [value for _, value in told]
        for at in range(len(values) - _AFTER, _BEFORE - 1, -1):
            calm = values[at - _BEFORE : at]
            if min(values[at:]) > max(_JUMP * max(calm), *values[:at]):
                line = told[at][0]
                one, other = median(calm), median(values[at:])
                words = f"the loss jumped from {one:.3g} to {other:.3g} and stayed there"
                return SlowJob("loss-spike", f"{words} ({line.source}:{line.number})")
    return None


def _steps(survey: Survey) -> Iterator[Line]:
    """The lines of steps that were kept, once each, in the order of the logs."""
    places = {(line.stream, line.position): line for line in survey.lines if step_number(line) is not None}
    places.update({(line.stream, line.position): line for line in survey.progress})
    yield from (places[place] for place in sorted(places))
