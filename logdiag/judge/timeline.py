"""What happened when: steps, ordinary output, clean ends, deaths and the launcher's summary, by process.

Built once from what was read, never changed afterwards. Positions are those of lines in their stream (see
`Line.position`); all sequences of positions are sorted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from logdiag.judge.ending import Ending, ending_of
from logdiag.judge.faults import Fault
from logdiag.judge.kinds import Kinds, Told
from logdiag.judge.ranks.processes import first_observed, summary_of
from logdiag.model import Line, Role
from logdiag.patterns import pattern_of
from logdiag.scan.survey import Survey

# So many steps after a fault show that its process went on; fewer may be the end of a progress bar.
STEPS_OF_RECOVERY = 3
# So many ordinary lines after a fault show that the job still worked.
FEW_LINES_OF_CALM = 2
# So many lines of a scheduler's record may follow the one that names its job.
_LINES_OF_A_RECORD = 8
# So many plain lines after one without a level show that the program went on.
_MUCH = 20
# step 60/60   iteration       60/      60
_STEP_OF_ALL = pattern_of(r"(?i)\b(?:steps?|it|iters?|iterations?|global_step)[ :=]{1,10}(\d{1,9}) ?/ *(\d{1,9})\b")
_ORDINARY = ("INFO", "DEBUG")
_NO_RANK = -1
_BACK = {"back-again", "whole-again"}

_K = TypeVar("_K")
_V = TypeVar("_V")
# Seconds; longer than what a process printed stays in a buffer.
_MINUTE = 60.0
Positions = Mapping[int, Sequence[int]]
Steps = Mapping[tuple[int, "int | None"], Sequence[int]]
Habit = tuple[int, "int | None", str, str]


class Timeline(NamedTuple):
    """One case over time. `failed` is what the caller knows of the job's end, None if nothing.

    `steps` are by (stream, rank): rank None holds all steps of the stream, -1 those that name none. `jobs` are the
    lines by which a scheduler says of which of its jobs they and the next lines are. `calm` are ordinary log lines,
    `ends` clean ends, `proven_ends` verdicts and those that do not rest on words which a script prints whatever
    happened. `habits` are faults that come back with steps in between, with the position up to which they were
    recovered from. `back` are reports that a machine's part works again, `went_well` is what lines say of which thing
    that went well. `ending` is how it ends, whatever its words.
    """

    kinds: Kinds
    failed: bool | None
    empty: bool
    finished: bool
    printed: Mapping[int, Sequence[Line]]
    jobs: Mapping[int, Sequence[Told]]
    steps: Steps
    calm: Positions
    ends: Positions
    proven_ends: Positions
    ranks_at_end: Mapping[int, frozenset[int | None]]
    nobody_died: bool
    summary: tuple[Told, ...]
    habits: Mapping[Habit, int]
    back: Mapping[int, Sequence[Line]]
    went_well: Mapping[int, Sequence[Told]]
    ending: Ending

    @property
    def first_observed(self) -> int | None:
        """The rank that the launcher saw fail first."""
        return first_observed(self.summary)

    @property
    def at_work(self) -> frozenset[int]:
        """The streams with steps or a clean end."""
        return frozenset(stream for stream, _ in self.steps) | frozenset(self.ends)

    def steps_after(self, line: Line, *, any_rank: bool = False, most: int = STEPS_OF_RECOVERY) -> list[int]:
        """The next steps of the process that printed a line, a few at most: its rank's own and those that name no
        rank; with `any_rank` those of all ranks."""
        return _next_steps(self.steps, line.stream, None if any_rank else line.rank, line.position, most)

    def ended_after(self, line: Line) -> int | None:
        """The position of the job's clean end after a line where something went wrong; None for none.

        A script prints its last words whatever happened: they count only if its work had ended before, or a step was
        made in between, and a last status 0 only if three were. If several ranks report their clean end, a rank that
        does not had none.
        """
        ranks = self.ranks_at_end.get(line.stream, frozenset())
        if line.rank is not None and line.rank not in ranks and len(ranks) > 1:
            return None
        ends, proven = self._of_its_job(self.ends, line), self._of_its_job(self.proven_ends, line)
        good = self.ending.good_status
        if good is not None and good.stream == line.stream and good.position > line.position:
            steps = self.steps_after(line, any_rank=True)
            if len(steps) == STEPS_OF_RECOVERY and steps[-1] < good.position:
                return good.position
        if ends and ends[-1] > line.position and (ends[0] < line.position or self.steps_after(line)):
            return ends[-1]
        return proven[-1] if proven and proven[-1] > line.position else None

    def _of_its_job(self, ends: Positions, line: Line) -> Sequence[int]:
        """The ends in a line's stream but for those of other jobs: a scheduler's log tells of several."""
        found, job = ends.get(line.stream, ()), self._job(line.stream, line.position)
        return [end for end in found if self._job(line.stream, end) in (None, job)] if job else found

    def _job(self, stream: int, position: int) -> str | None:
        """The job that a scheduler's line names, or the record to which the line belongs; None for none."""
        named = self.jobs.get(stream, ())
        index = bisect_right(named, position, key=lambda told: told.line.position)
        near = index > 0 and position - named[index - 1].line.position <= _LINES_OF_A_RECORD
        return named[index - 1].facts["job"] if near else None

    def stopped_after_its_end(self, line: Line) -> bool:
        """Whether a line comes after the job's clean end, in the smaller part of the log or in one without steps, such
        as a test of the result. False where the caller knows that the job failed."""
        ends = sorted({*self._of_its_job(self.ends, line), *self._of_its_job(self.proven_ends, line)})
        last = ends[bisect_right(ends, line.position) - 1] if ends and ends[0] < line.position else None
        if last is None or self.failed:
            return False
        steps = self.steps.get((line.stream, None), ())
        return line.position - last <= last or bisect_right(steps, last) == bisect_right(steps, line.position)

    def calm_after(self, line: Line) -> int:
        """How many ordinary lines of the same stream come after a line."""
        calm = self.calm.get(line.stream, ())
        return len(calm) - bisect_right(calm, line.position)

    def worked_after(self, line: Line) -> bool:
        """Whether the job made a step or reported ordinary work after a line."""
        return bool(self.steps_after(line)) or self.calm_after(line) >= FEW_LINES_OF_CALM

    def steps_long_after(self, line: Line) -> int:
        """How many steps were printed a minute or more after a line, by their own clocks."""
        printed = self.printed.get(line.stream, ())
        index = _index_after(printed, line)
        since = next((before.time for before in reversed(printed[:index]) if before.time is not None), None)
        if since is None:
            return 0
        steps = frozenset(self.steps.get((line.stream, None), ()))
        times = (later.time for later in printed[index:] if later.position in steps)
        return sum(time is not None and time - since >= _MINUTE for time in times)

    def printed_between(self, line: Line, following: Line) -> Sequence[Line]:
        """The lines of a stream between two of it."""
        printed = self.printed.get(line.stream, ())
        return printed[_index_after(printed, line) : _index_after(printed, following) - 1]

    def printed_much_after(self, line: Line) -> bool:
        """Whether a program that prints without levels went on to print much."""
        printed = self.printed.get(line.stream, ())
        return line.level is None and len(printed) - _index_after(printed, line) >= _MUCH


def timeline_of(survey: Survey, faults: Sequence[Fault], kinds: Kinds, *, failed: bool | None = None) -> Timeline:
    """The timeline of what was read; `faults` in any order."""
    finished = [fault.finding for fault in faults if fault.finding.role is Role.FINISHED]
    # Job scripts print their words without a level and without a rank.
    proven = [end.line for end in finished if not end.goes_on or (end.line.level, end.line.rank) != (None, None)]
    steps, ends = _steps(survey), _positions(end.line for end in finished)
    printed = _grouped((line.stream, line) for line in survey.lines if line.text.strip())
    ended = _grouped((end.line.stream, end.line.rank) for end in finished)
    failing = {finding.line.place for finding in survey.findings if finding.role.is_failure}
    ending = ending_of(printed.values(), kinds)
    verdict = [ending.verdict] if ending.verdict else []
    return Timeline(
        kinds=kinds,
        failed=failed,
        empty=survey.total_lines == 0,
        finished=bool(finished),
        printed=printed,
        jobs=_grouped((told.line.stream, told) for told in kinds.told("job")),
        steps=steps,
        calm=_positions(line for line in survey.lines if line.level in _ORDINARY and line.place not in failing),
        ends=ends,
        proven_ends=_positions([*proven, *verdict, *_last_planned_steps(survey)]),
        ranks_at_end={stream: frozenset(ranks) for stream, ranks in ended.items()},
        nobody_died=not any(fault.died and not fault.of_a_child and not fault.handled for fault in faults),
        summary=summary_of(kinds),
        habits=_habits(faults, steps),
        back=_grouped((line.stream, line) for line in survey.lines if kinds.of_line.get(line.place, set()) & _BACK),
        went_well=_grouped(
            (told.line.stream, told) for told in kinds.told("went-well") if told.line.place not in failing
        ),
        ending=ending,
    )


def _steps(survey: Survey) -> Steps:
    steps = [(step, rank) for step in survey.progress for rank in {step.rank, None}]
    unranked = [(step, _NO_RANK) for step in survey.progress if step.rank is None]
    return _sorted(((step.stream, rank), step.position) for step, rank in (*steps, *unranked))


def _next_steps(steps: Steps, stream: int, rank: int | None, position: int, most: int = STEPS_OF_RECOVERY) -> list[int]:
    """The next few steps after a position of a rank and of none, or of all ranks for None."""
    next_steps: list[int] = []
    for key in (None,) if rank is None else (rank, _NO_RANK):
        positions = steps.get((stream, key), ())
        index = bisect_right(positions, position)
        next_steps += positions[index : index + most]
    return sorted(next_steps)[:most]


def fault_habit(fault: Fault) -> Habit:
    """What faults from one place of a program have in common: the frame that caught them, or else their words."""
    words = "" if fault.within else fault.line.wording
    return fault.line.stream, fault.line.rank, fault.within, words


def _habits(faults: Iterable[Fault], steps: Steps) -> dict[Habit, int]:
    """Faults that came again after steps, which shows that the job recovered from them, with the position up to which
    it did. An exception that left the program's outermost frame is none: it ended its process."""
    first: dict[Habit, Line] = {}
    habits: dict[Habit, int] = {}
    for fault in sorted(faults, key=lambda fault: fault.line.place):
        if fault.finding.role is not Role.CAUSE or (not fault.handled and (fault.within or fault.died)):
            continue
        habit = fault_habit(fault)
        line = first.setdefault(habit, fault.line)
        later = _next_steps(steps, line.stream, line.rank, line.position)
        if len(later) == STEPS_OF_RECOVERY and later[-1] < fault.line.position:
            habits.setdefault(habit, later[-1])
    return habits


def _last_planned_steps(survey: Survey) -> Iterable[Line]:
    """The last step of each stream, if by its own line it was the last of all planned steps. An evaluation at the same
    step may follow."""
    latest = {stream: sorted(set(found))[-2:] for (stream, rank), found in _steps(survey).items() if rank is None}
    tails = _grouped((line.stream, line) for line in survey.lines if line.position in latest.get(line.stream, ()))
    for tail in tails.values():
        for line in tail:
            counted = _STEP_OF_ALL.search(line.text)
            if counted is None or counted[1] != counted[2] or int(counted[1]) < STEPS_OF_RECOVERY:
                continue
            # The number must not be part of a time or a measure.
            if re.search(rf"(?<![\d:.,-]){counted[1]}(?![:.,]?\d)", tail[-1].text):
                yield line


def _grouped(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    groups: dict[_K, list[_V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _sorted(pairs: Iterable[tuple[_K, int]]) -> dict[_K, list[int]]:
    return {key: sorted(positions) for key, positions in _grouped(pairs).items()}


def _positions(lines: Iterable[Line]) -> dict[int, list[int]]:
    return _sorted(line.place for line in lines)


def _index_after(lines: Sequence[Line], line: Line) -> int:
    return bisect_right(lines, line.position, key=lambda printed: printed.position)
