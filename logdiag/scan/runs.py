"""Tells apart what was passed as one job's: runs that follow each other in one log, whose first lines come again and
whose work begins anew, and the logs of several jobs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from logdiag.model import Line, Role
from logdiag.patterns import pattern_of
from logdiag.scan.lines import without_numbers
from logdiag.scan.steps import step_number

if TYPE_CHECKING:
    from logdiag.scan.survey import Survey

# So many lines that say something, among the first so many, are a log's head.
_HEAD, _AMONG = 8, 40
# At least so many of them, and this share of them, must come again within so many lines.
_FEWEST, _SHARE, _NEAR = 2, 0.6, 60
_SHORTEST_RUN = 8
_LETTERS = pattern_of(r"[A-Za-z]")
_FEWEST_LETTERS = 6
# Clocks, days, process numbers, addresses, names of machines. A short number is an argument: with another one it is the
# run of another program.
_VARYING = pattern_of(
    r"\d[\d:.,-]{3,}|0x[0-9a-f]+|\b(?:[0-9a-f]{8,}|[A-Za-z][\w-]*\d|Mon|Tue|Wed|Thu|Fri|Sat|Sun"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2})\b"
)
# If more lines look like the head, many processes printed them, not many runs.
_MOST_ALIKE = 2000
# A person or a scheduler needs so many seconds to start a job again; a launcher that starts its workers again does not.
_A_PAUSE = 30.0
# slurm-4711.out   jobA.err   run_12.log   exp-lr3.log   llm.o4711 (PBS)
_JOB = pattern_of(r"(?i)^((?:slurm|job|run|exp|experiment|trial)[-_.]?[A-Z0-9][\w-]*?|[\w-]+\.[oe]\d{3,})(?:\.|$)")
_RANK = pattern_of(r"(?i)[-_.]?(?:rank|task|proc|node|host|worker)[-_.]?\d+|(?<=\.)e(?=\d)")
# slurm-4711.out   llm.o4711: a scheduler gives no two jobs one number.
_NUMBER = pattern_of(r"(?i)^slurm-(\d+)|\.[oe](\d{3,})$")
# Earlier times are those without a year, which cannot be compared.
_SECONDS_OF_1990 = 6.3e8


@dataclass
class Heads:
    """The head of a stream: its first lines, with the index of each by its words, and the lines at which one of them
    came again. `others` are the positions of lines that differ from one of them in a short number only: they are of the
    same program with other arguments. From `new_start`, a position, to its end the log begins again as it began; it is
    the end itself where it does not."""

    words: dict[str, int] = field(default_factory=dict)
    texts: list[bytes] = field(default_factory=list)
    first: list[Line] = field(default_factory=list)
    again: list[tuple[int, Line]] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    alike: int = 0
    new_start: int = 0

    def choose(self, lines: Iterable[tuple[bytes, bytes, Line]], steps: Container[bytes]) -> None:
        """Takes a stream's first lines, each with its shape and its bytes, as its head; the shapes of steps end it."""
        for shape, text, line in islice(lines, _AMONG):
            if shape in steps or line.message.startswith("Traceback "):
                return
            words = _words_that_stay(line)
            if len(_LETTERS.findall(words)) >= _FEWEST_LETTERS and words not in self.words:
                self.words[words] = len(self.words)
                self.texts.append(text)
                self.first.append(line)
            if len(self.words) == _HEAD:
                return

    def shapes(self, before: tuple[bytes, ...]) -> set[bytes]:
        """The shapes of the head's lines; `before` are the words before numbers of base 16."""
        return {without_numbers(text, before) for text in self.texts}

    def expect(self, count: int) -> bool:
        """Whether so many more lines that look like the head are worth a look."""
        self.alike += count
        if self.alike > _MOST_ALIKE:
            self.texts.clear()
            self.again.clear()
        return bool(self.texts)

    def met(self, line: Line) -> bool:
        """Whether a line is one of the head that comes again; if so it is remembered."""
        index = self.words.get(_words_that_stay(line))
        if line.position <= self.first[-1].position:
            return False
        if index is None:
            self.others.append(line.position)
            return False
        self.again.append((index, line))
        return True


class Run(NamedTuple):
    """One of several runs: by stream the positions of its lines, as (first, one behind the last). `only_begins` is true
    for a last one that prints nothing but what the log begins with."""

    parts: Mapping[int, tuple[int, int]]
    only_begins: bool = False

    def holds(self, line: Line) -> bool:
        """Whether a line is of this run."""
        start, end = self.parts.get(line.stream, (0, 0))
        return start <= line.position < end


def runs_in(survey: Survey, *, new_starts: bool = True) -> list[Run]:
    """The runs of a log, the first one first; empty where there is only one. The last runs of several streams belong
    together, and so do the ones before them. Without `new_starts` a last run that only begins is none."""
    ends = {line.stream: line.position + 1 for line in survey.lines}
    heads = {stream: heads for stream, heads in survey.heads.items() if stream in ends}
    asked = {stream for stream in heads if new_starts and heads[stream].new_start < ends[stream]}
    begun = {stream: _start_at_the_end(heads[stream], survey, stream) if stream in asked else [] for stream in heads}
    starts = {stream: sorted({0, *_starts(heads[stream], survey), *begun[stream]}) for stream in heads}
    count = max(map(len, starts.values()), default=1)
    if count < 2:
        return []
    runs: list[dict[int, tuple[int, int]]] = [{} for _ in range(count)]
    for stream, end in ends.items():
        spans = list(pairwise([*starts.get(stream, [0]), end]))
        for from_last, span in enumerate(reversed(spans), 1):
            runs[-from_last][stream] = span
    return [Run(parts, parts is runs[-1] and any(begun.values())) for parts in runs]


def only_run(survey: Survey, run: Run) -> Survey:
    """The part of a survey that belongs to one run. Lines that were only counted belong to none."""
    return replace(
        survey.only(run.holds),
        uncounted_in={},
        # The first lines are those of the first run.
        openings=[opening for opening in survey.openings if run.parts.get(opening.stream.index, (1, 1))[0] == 0],
        total_lines=sum(end - start for start, end in run.parts.values()),
    )


def _starts(heads: Heads, survey: Survey) -> list[int]:
    """The positions at which a stream's second and later runs start."""
    if len(heads.first) < _FEWEST or not heads.again:
        return []
    stream = heads.first[0].stream
    steps = [line for line in survey.progress if line.stream == stream]
    findings = [finding for finding in survey.findings if finding.line.stream == stream]
    run_start = 0
    starts: list[int] = []
    for index, line in heads.again:
        if index or line.position - run_start < _SHORTEST_RUN or line.rank != heads.first[0].rank:
            continue
        in_run = [item for item in findings if run_start <= item.line.position < line.position]
        # What a scheduler ends is a whole job: what follows is another one, whatever its arguments.
        job_ended = any(item.closes and item.role is Role.CAUSE for item in in_run)
        if not _is_whole(heads, line, any_arguments=job_ended):
            continue
        steps_in_run = [item for item in steps if run_start <= item.position < line.position]
        closed = any(item.closes or item.role is Role.FINISHED for item in in_run)
        failed = any(item.role.is_failure for item in in_run) and _paused(line, survey.lines)
        if closed or failed or _begins_anew(steps_in_run, [item for item in steps if item.position > line.position]):
            starts.append(line.position)
            run_start = line.position
    return starts


def _start_at_the_end(heads: Heads, survey: Survey, stream: int) -> list[int]:
    """The position of a start that did not get any further; none where another process only prints the same."""
    lines = [line for line in survey.lines if line.stream == stream]
    again = next((line for line in lines if line.position >= heads.new_start), None)
    return [heads.new_start] if again and again.rank == lines[0].rank else []


def _is_whole(heads: Heads, line: Line, *, any_arguments: bool = False) -> bool:
    """Whether most of the head comes again from this line on, and nothing like it with other arguments, which may be
    any if so told."""
    length = heads.first[-1].position - heads.first[0].position
    if not any_arguments and any(0 <= position - line.position <= length for position in heads.others):
        return False
    near = {index for index, again in heads.again if 0 <= again.position - line.position < _NEAR}
    return len(near) >= max(_FEWEST, _SHARE * len(heads.words))


def _begins_anew(before: Sequence[Line], after: Sequence[Line]) -> bool:
    """Whether the first step after is lower than the last step before."""
    last = max((number for line in before if (number := step_number(line)) is not None), default=None)
    first = next((number for line in after if (number := step_number(line)) is not None), None)
    return last is not None and first is not None and first < last - 1


def _paused(line: Line, lines: Sequence[Line]) -> bool:
    """Whether nothing was printed for a while before a line, by the clocks of its stream: its own, or the next one."""
    timed = [other for other in lines if other.stream == line.stream and other.time is not None]
    last = max((other.time or 0.0 for other in timed if other.position < line.position), default=None)
    near = (other.time for other in timed if 0 <= other.position - line.position < _NEAR)
    since = next(near, None)
    return last is not None and since is not None and since - last >= _A_PAUSE


def _words_that_stay(line: Line) -> str:
    return _VARYING.sub("", line.message).strip()


@dataclass
class _Job:
    """The nodes and times in the logs under one job's name, and the number that a scheduler gave it, empty for none."""

    number: str = ""
    nodes: set[str] = field(default_factory=set)
    times: list[float] = field(default_factory=list)

    def is_apart_from(self, other: _Job) -> bool:
        """Whether the two have different numbers, or share neither a node nor a time."""
        if self.number and other.number:
            return self.number != other.number
        if self.nodes & other.nodes:
            return False
        return not (self.times and other.times) or (
            max(self.times) < min(other.times) or max(other.times) < min(self.times)
        )


def jobs_in(survey: Survey) -> dict[str, Survey]:
    """What was found of each job by its name, in order; empty where the logs look like those of one. A file that names
    no job, as a node's kernel log, counts for each."""
    names = {stream.index: _job_in(stream.name) for stream in survey.streams}
    if len({*names.values()} - {""}) < 2:
        return {}
    jobs: dict[str, _Job] = defaultdict(_Job)
    for name in names.values():
        number = _NUMBER.search(name)
        jobs[name].number = (number[1] or number[2]) if number else ""
    for line in survey.lines:
        job = jobs[names[line.stream]]
        if line.node:
            job.nodes.add(line.node)
        if line.time is not None and line.time > _SECONDS_OF_1990:
            job.times.append(line.time)
    jobs.pop("", None)
    if not all(job.is_apart_from(other) for job, other in combinations(jobs.values(), 2)):
        return {}
    return {job: _part(survey, {at for at, name in names.items() if name in ("", job)}) for job in jobs}


def _part(survey: Survey, streams: set[int]) -> Survey:
    """What was found in some of the streams. The last line of each is always kept, so that its lines are known."""
    part = survey.only(lambda line: line.stream in streams)
    return replace(
        part,
        uncounted_in={at: counts for at, counts in survey.uncounted_in.items() if at in streams},
        openings=[opening for opening in survey.openings if opening.stream.index in streams],
        total_lines=sum({line.stream: line.position + 1 for line in part.lines}.values()),
        total_bytes=sum(stream.bytes_read for stream in survey.streams if stream.index in streams),
        complete=all(stream.complete for stream in survey.streams if stream.index in streams),
    )


def _job_in(path: str) -> str:
    """The job that a file's name names; empty for none."""
    match = _JOB.match(os.path.basename(path))
    return _RANK.sub("", match[1]) if match else ""
