"""How a job went on after what went wrong: its steps, its calm, its proper end, and what broke later."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from datetime import datetime, timezone
from itertools import dropwhile, islice

from logdiag.judge.exit_reason import LAUNCHERS
from logdiag.judge.faults import Event
from logdiag.judge.ranks import first_observed
from logdiag.judge.traceback_forms import UNCAUGHT
from logdiag.model import Category, Line, Reason, Role
from logdiag.scan.survey import Survey

__all__ = ["BARE_EXCEPTION", "LINES_AFTER_A_COMPLAINT", "OF_SERVICES", "STEPS_OF_RECOVERY", "Course"]

# So many steps after a fault show that its process went on; fewer may be a progress bar closing.
STEPS_OF_RECOVERY = 3
# So many ordinary log lines after an error that was only logged show the same.
_LINES_OF_CALM = 8
# So many are enough against a mere hint, and after what a process usually goes on from.
_FEW_LINES_OF_CALM = 2
# So many plain lines after one without a level show that the program went on.
_MUCH = 20
# INFO Parent process exited, terminating worker   INFO WorkerProc shutting down.   INFO "POST /chat HTTP/1.1" 500 216
# which is no work
_FAREWELL = re.compile(
    r"(?i)\b(?:shut(?:ting)?[ _-]?down|terminat(?:e|ed|es|ing)|exit(?:ed|s|ing)?|stopp(?:ed|ing)|clos(?:ed|ing)|killed|"
    r"killing|clean(?:ing|ed)? ?up|abort(?:ed|ing)?|tearing down)\b|HTTP/\d[.\d]*\" 5\d\d\b"
)
# AttributeError: ... printed alone, as by a library that goes on without a part
BARE_EXCEPTION = re.compile(r"(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ")
# So many lines after a refused line of a job script show that the script went on.
LINES_AFTER_A_COMPLAINT = 3
# Seconds: more than time zones differ, and less than makes the last day of a year and the first of the next far apart.
_A_DAY, _HALF_A_YEAR = 86_400, 183 * 86_400
# step 60/60   iteration       60/      60
_STEP_OF_ALL = re.compile(r"(?i)\b(?:steps?|it|iters?|iterations?|global_step)[ :=]{1,10}(\d{1,9}) ?/ *(\d{1,9})\b")
# [Sun Nov 22 06:33:08 2026] NVRM: ...   [ 1000.123456] NVRM: ...   Nov 22 06:33:08 node-7 kernel: ...
_OF_KERNEL = re.compile(
    r"^\[(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}| *\d{1,9}\.\d{3,9})\] |\bkernel: "
)
# INFO:     127.0.0.1:41234 - "POST /v1/completions HTTP/1.1" 400 Bad Request
_REFUSED_REQUEST = re.compile(r'HTTP/\d[.\d]*" 4\d\d\b')
# Downloading: 100%|####| 1.63G/1.63G [00:27<00:00, 60.3MB/s]
_TRANSFERRED = re.compile(r"(?i)^(?:down|up)load(?:ing|ed)?\b.{0,200}100%\|")
# What a job asks of others, and may do without.
OF_SERVICES = frozenset({Reason.CONNECTION_ERROR, Reason.S3_STORAGE_ERROR})
_NUMBERS = re.compile(r"\d+")


class Course:
    """How the job went on, by place: its steps, its proper ends, and what else broke."""

    def __init__(self, survey: Survey, events: Sequence[Event], *, failed: bool | None = None) -> None:
        finished = [event for event in events if event.finding.role is Role.FINISHED]
        self._said: dict[int, list[Line]] = {}
        for said in survey.lines:
            if said.text.strip():
                self._said.setdefault(said.stream, []).append(said)
        self.failed = failed
        self.finished = bool(finished)
        self.never_worked = not survey.progress and not finished
        self._steps: dict[tuple[int, int | None], list[int]] = {}
        self._calm = _places(
            line for line in survey.lines if line.level in ("INFO", "DEBUG") and not _FAREWELL.search(line.message)
        )
        self._transfers = _places(line for line in survey.lines if _TRANSFERRED.search(line.message))
        for step in survey.progress:
            for rank in {step.rank, None}:
                self._steps.setdefault((step.stream, rank), []).append(step.position)
            if step.rank is None:
                self._steps.setdefault((step.stream, -1), []).append(step.position)
        # Job scripts print their words without a level and without a rank.
        proven = [
            end.line
            for end in finished
            if not end.finding.goes_on or end.line.level is not None or end.line.rank is not None
        ]
        self._proven_ends = _places([*proven, *_last_planned_steps(survey)])
        self._ends = _places(end.line for end in finished)
        self._ranks_at_end: dict[int, set[int | None]] = {}
        for end in finished:
            self._ranks_at_end.setdefault(end.line.stream, set()).add(end.line.rank)
        self._at_work = frozenset(stream for stream, _ in self._steps) | frozenset(self._ends)
        self._began = _began(survey, self._at_work)
        self._nobody_died = not any(event.died and not event.of_a_child and not event.handled for event in events)
        several = (line for line in survey.lines if line.rank is not None or LAUNCHERS.search(line.text))
        self._of_several = frozenset(line.stream for line in several)
        died = [line for line in survey.lines if UNCAUGHT.search(line.text)]
        first = first_observed(survey.lines)
        told = first is None or first in {line.rank for line in died}
        self._deaths_marked = frozenset(line.stream for line in died if told)
        self._last_break: dict[int, int] = {}
        self._last_cause: dict[int, int] = {}
        self._last_stop: dict[int, int] = {}
        self._crash_of: dict[tuple[int, int | None], int] = {}
        for places in self._steps.values():
            places.sort()
        self._habits = _habits(events, self)

    def steps_after(self, line: Line) -> list[int]:
        """The next steps of the process that printed a line: its rank's own and those that name no rank."""
        if line.rank is None:
            return _after(self._steps.get((line.stream, None), []), line.position)[:STEPS_OF_RECOVERY]
        own = _after(self._steps.get((line.stream, line.rank), []), line.position)[:STEPS_OF_RECOVERY]
        unranked = _after(self._steps.get((line.stream, -1), []), line.position)[:STEPS_OF_RECOVERY]
        return sorted([*own, *unranked])[:STEPS_OF_RECOVERY]

    def ended_after(self, line: Line) -> int | None:
        """Where the job came to its proper end after something went wrong. Words, which a script prints whatever
        happened before, count only where its work had ended before, or a step was made in between."""
        if self._ended_without(line.rank, line.stream):
            return None
        ends = _after(self._ends.get(line.stream, []), line.position)
        if ends and (self._ends[line.stream][0] < line.position or self.steps_after(line)):
            return ends[-1]
        proven = _after(self._proven_ends.get(line.stream, []), line.position)
        return proven[-1] if proven else None

    def _ended_without(self, rank: int | None, stream: int) -> bool:
        """Whether several other ranks tell of their proper end, and this one does not."""
        ranks = self._ranks_at_end.get(stream, set())
        return rank is not None and rank not in ranks and None not in ranks and len(ranks) > 1

    def long_before(self, line: Line) -> bool:
        """Whether a line of a machine's log is older than the job by more than time zones differ."""
        if line.time is None or self._began is None:
            return False
        return _A_DAY < self._began - _of_the_year(line.time) < _HALF_A_YEAR

    def ended_well_without(self, line: Line) -> bool:
        """Whether a line is a machine's, and every log that tells of the work tells of its proper end and of nobody's
        death: it stands in a log of its own, or is of the kernel and shown in theirs."""
        if not (self._ends and self._at_work <= self._ends.keys() and self._nobody_died and not self.failed):
            return False
        return line.stream not in self._at_work or _OF_KERNEL.search(line.text) is not None

    def stopped_after_its_end(self, line: Line) -> bool:
        """Whether a line comes after the job's proper end, in what is the smaller part of the log or makes no step: a
        test of the result, a server that is tried out. A caller who knows that the job failed is believed."""
        ends = sorted({*self._ends.get(line.stream, []), *self._proven_ends.get(line.stream, [])})
        last = ends[bisect_right(ends, line.position) - 1] if ends and ends[0] < line.position else None
        if last is None or self.failed:
            return False
        steps = self._steps.get((line.stream, None), [])
        return line.position - last <= last or bisect_right(steps, last) == bisect_right(steps, line.position)

    def said_next(self, line: Line) -> list[Line]:
        """The next lines of the same stream, blank ones and further ones of the same tool (`tar: `) left out; of the
        lines that were kept, and a few at most."""
        said = self._said.get(line.stream, [])
        first = _index_after(said, line)
        tool = line.message.partition(":")[0] + ":"
        others = dropwhile(lambda other: other.message.startswith(tool), islice(said, first, None))
        return list(islice(others, LINES_AFTER_A_COMPLAINT))

    def calm_after(self, event: Event) -> bool:
        """Whether ordinary work is reported after an error that was only told, and nothing breaks any more."""
        line = event.line
        if line.level is None and not event.caught and not BARE_EXCEPTION.match(line.message):
            return False
        if self.broke_after(line.stream, line.position):
            return False
        enough = _FEW_LINES_OF_CALM if event.finding.goes_on else _LINES_OF_CALM
        return len(_after(self._calm.get(line.stream, []), line.position)) >= enough

    def transferred_after(self, event: Event) -> bool:
        """Whether a service that failed once delivers again, and nothing breaks any more."""
        line = event.line
        if event.reason not in OF_SERVICES or self.broke_after(line.stream, line.position):
            return False
        return bool(_after(self._transfers.get(line.stream, []), line.position))

    def answered_after(self, line: Line) -> bool:
        """Whether a server answers right after an error that it told of, that the request was wrong."""
        return any(_REFUSED_REQUEST.search(said.text) for said in self.said_next(line)[:1])

    def is_habit(self, event: Event) -> bool:
        """Whether the same goes wrong in one place of a process again and again, with steps in between; of the last
        time, if it may have ended the process or is a machine's fault, only where the job worked afterwards."""
        survived = self._habits.get(_habit(event))
        if survived is None or self.broke_after(event.line.stream, event.line.position):
            return False
        outside = event.reason.category is not Category.INFRASTRUCTURE or event.reason in OF_SERVICES
        mild = outside and not event.died
        return event.line.position <= survived or mild or self.worked_after(event.line)

    def worked_after(self, line: Line) -> bool:
        """Whether the job made a step or reported ordinary work after a line."""
        return (
            bool(self.steps_after(line))
            or len(_after(self._calm.get(line.stream, []), line.position)) >= _FEW_LINES_OF_CALM
        )

    def said_more_after(self, line: Line) -> bool:
        """Whether the job made a step or told of ordinary work after a line, however little."""
        return bool(self.steps_after(line) or _after(self._calm.get(line.stream, []), line.position))

    def said_much_after(self, line: Line) -> bool:
        """Whether a program that prints without levels went on to say much."""
        said = self._said.get(line.stream, [])
        return line.level is None and len(said) - _index_after(said, line) >= _MUCH

    def broke_after(self, stream: int, position: int) -> bool:
        """Whether something broke for good after a place."""
        return self._last_break.get(stream, -1) > position

    def cause_after(self, stream: int, position: int) -> bool:
        """Whether another cause broke the job after a place."""
        return self._last_cause.get(stream, -1) > position

    def stopped_after(self, stream: int, position: int) -> bool:
        """Whether the job was stopped from outside after a place: its time was up, its node was taken away."""
        return self._last_stop.get(stream, -1) > position

    def is_no_death(self, line: Line) -> bool:
        """Whether an exception after which steps come ended no rank: the stream is one process's, or torch marks in it
        those of which ranks died, that of the first included, and not this one."""
        one = line.stream not in self._of_several
        return one or (line.rank is None and line.stream in self._deaths_marked)

    def crashed_next(self, line: Line) -> bool:
        """Whether the rank that told of an error crashed before it made another step."""
        crash = self._crash_of.get((line.stream, line.rank))
        return crash is not None and not any(step < crash for step in self.steps_after(line))

    def broke(self, event: Event) -> None:
        """Remembers what broke for good. The events are gone through from the last to the first."""
        if event.quiet or event.finding.role not in (Role.CAUSE, Role.SYMPTOM):
            return
        self._last_break.setdefault(event.line.stream, event.line.position)
        if event.reason is Reason.RUNTIME_ERROR and event.finding.role is Role.SYMPTOM:
            self._crash_of[event.line.stream, event.line.rank] = event.line.position
        if event.finding.role is Role.CAUSE and event.finding.closes:
            self._last_stop.setdefault(event.line.stream, event.line.position)
        elif event.finding.role is Role.CAUSE:
            self._last_cause.setdefault(event.line.stream, event.line.position)


def _habit(event: Event) -> tuple[int, int | None, str, str]:
    """What events share that come from one place of a program: the frame that caught them, or else their words."""
    words = "" if event.within else _NUMBERS.sub("0", event.line.message)
    return event.line.stream, event.line.rank, event.within, words


def _habits(events: Iterable[Event], course: Course) -> dict[tuple[int, int | None, str, str], int]:
    """What went wrong again after steps, and from where on: so it was survived before. An exception that left the
    program's outermost frame ended it; a new process did what followed."""
    first: dict[tuple[int, int | None, str, str], Line] = {}
    habits: dict[tuple[int, int | None, str, str], int] = {}
    for event in sorted(events, key=lambda event: (event.line.stream, event.line.position)):
        if event.finding.role is not Role.CAUSE or (not event.handled and (event.within or event.died)):
            continue
        habit = _habit(event)
        steps = course.steps_after(first.setdefault(habit, event.line))
        if len(steps) == STEPS_OF_RECOVERY and steps[-1] < event.line.position:
            habits.setdefault(habit, steps[-1])
    return habits


def _last_planned_steps(survey: Survey) -> Iterable[Line]:
    """The last step of each stream, where it was the last of all by its own words; before it, it may be an epoch's. An
    evaluation at the same step may follow."""
    places: dict[int, set[int]] = {}
    for step in survey.progress:
        places.setdefault(step.stream, set()).add(step.position)
    latest = {stream: sorted(positions)[-2:] for stream, positions in places.items()}
    tails: dict[int, list[Line]] = {}
    for line in survey.lines:
        if line.position in latest.get(line.stream, []):
            tails.setdefault(line.stream, []).append(line)
    for tail in tails.values():
        for line in tail:
            counted = _STEP_OF_ALL.search(line.text)
            planned = counted is not None and counted[1] == counted[2] and int(counted[1]) >= STEPS_OF_RECOVERY
            # Not a part of a time or a measure.
            if planned and counted and re.search(rf"(?<![\d:.,-]){counted[1]}(?![:.,]?\d)", tail[-1].text):
                yield line


def _began(survey: Survey, streams: Container[int]) -> float | None:
    """The first date in the streams that tell of steps, within its year."""
    times = [line.time for line in survey.lines if line.stream in streams and line.time is not None]
    return min(map(_of_the_year, times), default=None)


def _of_the_year(time: float) -> float:
    """The same moment of one leap year: not every log prints its year."""
    return datetime.fromtimestamp(time, timezone.utc).replace(year=1976).timestamp()


def _places(lines: Iterable[Line]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for line in lines:
        places.setdefault(line.stream, []).append(line.position)
    return {stream: sorted(positions) for stream, positions in places.items()}


def _index_after(lines: Sequence[Line], line: Line) -> int:
    return bisect_right(lines, line.position, key=lambda other: other.position)


def _after(positions: list[int], position: int) -> list[int]:
    return positions[bisect_right(positions, position) :]
