"""When it happened, by the log's own clocks: the last step, the first failure, and how long nothing followed."""

from __future__ import annotations

from logdiag.judge.merge.clocks import Clocks, apart
from logdiag.model import Line, Times
from logdiag.scan.steps import step_number
from logdiag.scan.survey import Survey

# What is logged between two steps may look like progress too: so many lines of it are looked at for a step's number.
_LAST_STEPS = 4
# Seconds: a longer time is not one of a job that stood still.
_LONGEST = 7 * 86_400


def times_of(survey: Survey, root: Line | None, clocks: Clocks) -> Times | None:
    """The times of a log whose root line is `root`; None where it shows neither a clock nor a step."""
    step = last_step(survey)
    stepped = clocks.near(step, of_process=True) if step else None
    # The lines of a stream come in order, whoever prints them.
    failed = clocks.near(root) if root else None
    times = Times(
        first_failure_at=failed.clock if failed else None,
        last_progress_at=stepped.clock if stepped else None,
        last_step=step_number(step) if step else None,
        idle_seconds=seconds_to_end(stepped or failed, root, survey, clocks),
    )
    return times if times != Times() else None


def last_step(survey: Survey) -> Line | None:
    """The line of the last step of all: by the clock, else by its position; None for none."""
    steps: dict[int, list[Line]] = {}
    for step in survey.progress:
        steps.setdefault(step.stream, []).append(step)
    lines = [step for of_stream in steps.values() for step in of_stream[-_LAST_STEPS:]]
    numbered = [line for line in lines if step_number(line) is not None] or lines
    return max(numbered, key=lambda line: (line.time or 0.0, step_number(line) or 0, line.position), default=None)


def seconds_to_end(since: Line | None, root: Line | None, survey: Survey, clocks: Clocks) -> float | None:
    """Seconds from a line, or the clock above it, to the last time in the logs with steps or the root; None
    without a clock."""
    clocked = clocks.near(since) if since else None
    if clocked is None or clocked.time is None:
        return None
    streams = {step.stream for step in survey.progress} | ({root.stream} if root else set())
    later = (line.time for line in survey.lines if line.stream in streams and line.time is not None)
    waits = (apart(clocked.time, time) for time in later)
    return round(max((seconds for seconds in waits if 0 <= seconds < _LONGEST), default=0.0), 3)
