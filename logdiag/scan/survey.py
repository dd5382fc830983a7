"""Reads each log once: every block goes to the rules' scan and to the shapes, and the lines that matter are kept.

From here on nothing grows with the size of the log.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from logdiag.errors import SourceError
from logdiag.model import Finding, Line, Role
from logdiag.read.names import may_be_heading, sections_in
from logdiag.read.streams import Stream
from logdiag.rules import RuleBook
from logdiag.scan.calls import Call, Calls
from logdiag.scan.floods import Floods, Frames, Kind, above
from logdiag.scan.kinds_of_log import KindOfLog, kind_of_block
from logdiag.scan.lines import LONGEST_TEXT, BlockLines, KeptLine, KeptLines, Patterns, ShapedBlock, Tail, shaped
from logdiag.scan.log_ends import MOST_FIRST_LINES, alone_at_the_end, begun_again, end_with
from logdiag.scan.runs import Heads
from logdiag.scan.shapes import Shapes

if TYPE_CHECKING:
    from logdiag.scan.crew import Crew

# Lines kept around a finding and around a frame of a traceback: (before, after).
_AROUND_FINDING = (10, 16)
_AROUND_FRAME = (1, 3)
_AROUND_HINT = (0, 1)
# The more often a rule fires, the fewer lines around it are kept: up to so many firings get this window.
_MOST_FINDINGS_A_RULE = 4000
_WINDOWS = ((40, _AROUND_FINDING), (400, (2, 4)), (_MOST_FINDINGS_A_RULE, (0, 1)))
# Of many logs fewer each, so that all together are not more than can be judged in time.
_LAST_LINES, _FEWEST_LAST_LINES, _MOST_LAST_LINES = 60, 16, 6000
# The lists of a survey that hold lines, and what was found on lines.
_LINES, _ON_LINES = ("progress", "series", "checkpoints", "lines"), ("findings", "calls")
# To judge a line takes up to 60 microseconds: so many lines of all logs together, and no fewer of each.
_MOST_LINES = 24_000
_FEWEST_LINES = 200
_TOO_MANY = "more lines are worth reading than can be judged in time: of each log the first and the last of them were"
_MOST_REMEMBERED = 1024
# So many findings of a rule in each of many logs; the latest one comes on top.
_FEWEST_FINDINGS = 60
# Once no further shapes are added, so many of the latest lines of other shapes are kept.
_LATEST_UNKNOWN = 2000
_MOST_MARKS_A_BLOCK = 200
# The latest line of a flood, or one that only the memory knows, is no mark. Enough steps behind it must be kept to tell
# that the job recovered from it.
_FIRST_STEPS, _LAST_STEPS = 2, 4
_LONGEST_STEP = 400
# A series of steps is kept of so many logs, of each so many steps.
_LOGS_WITH_SERIES, _LONGEST_SERIES = 4, 256
# Steps for it are looked for in so many samples of a block, of so many lines each.
_SAMPLES, _LINES_OF_A_SAMPLE = 32, 16
# A launcher lists its ranks among the first lines: so many of them are kept, of so many streams.
_OPENING, _MOST_OPENINGS, _LONGEST_OPENING = 400, 64, 1000
# So many of the first lines may be steps: they may tell who is who, and soon tell nothing more.
_STEPS_OF_OPENING = 32


class Opening(NamedTuple):
    """The first lines of a stream, without most of the steps."""

    stream: Stream
    texts: tuple[KeptLine, ...]

    def lines(self) -> Iterator[Line]:
        """The lines, read now."""
        return (self.stream.line(*text) for text in self.texts)


@dataclass
class Survey:
    """What the read found; `complete` is false where something of the logs was not read.

    `progress` has lines that report a step of the job's work, `checkpoints` those that report that one was begun, saved
    or loaded; not all of them are kept. `series` is an even sample of the steps of the first logs. `heads` has by
    stream the first lines of a job's log, in which several runs may follow each other. `uncounted_in` has by stream and
    rule how many further lines were not looked at one by one. `of_machines` is true if no log of a job is among the
    streams. `places` name the GPU of a rank, `calls` the collectives that ranks have reached, `openings` are the first
    lines of the first streams. `kind`, `shapes` and `silent_from`, the position from which only a heartbeat goes on,
    are set for a single stream only."""

    streams: list[Stream]
    findings: list[Finding] = field(default_factory=list)
    uncounted_in: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    progress: list[Line] = field(default_factory=list)
    series: list[Line] = field(default_factory=list)
    checkpoints: list[Line] = field(default_factory=list)
    places: list[Finding] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    heads: dict[int, Heads] = field(default_factory=dict)
    openings: list[Opening] = field(default_factory=list)
    total_lines: int = 0
    total_bytes: int = 0
    complete: bool = True
    of_machines: bool = False
    kind: KindOfLog | None = None
    shapes: Shapes | None = None
    silent_from: int | None = None

    @property
    def uncounted(self) -> Counter[str]:
        """How many lines of each rule were not looked at one by one, over all streams."""
        return sum(self.uncounted_in.values(), Counter())

    def is_before_the_silence(self, line: Line) -> bool:
        """Whether a line of the stream stands before the place from which only a heartbeat goes on, if there is one."""
        return self.silent_from is None or line.position < self.silent_from

    def only(self, keeps: Callable[[Line], bool]) -> Survey:
        """What was found on the lines for which `keeps` is true; what belongs to no line stays."""
        changed: dict[str, Any] = {name: list(filter(keeps, getattr(self, name))) for name in _LINES}
        changed |= {name: [item for item in getattr(self, name) if keeps(item.line)] for name in _ON_LINES}
        return replace(self, **changed)

    def each_line(self, as_changed: Callable[[Line], Line]) -> Survey:
        """The same survey with every line as the function returns it."""
        changed: dict[str, Any] = {name: list(map(as_changed, getattr(self, name))) for name in _LINES}
        for name in _ON_LINES:
            changed[name] = [item._replace(line=as_changed(item.line)) for item in getattr(self, name)]
        return replace(self, **changed)


class _Series:
    """Every so many steps of a log; the longer the log, the fewer of them."""

    def __init__(self) -> None:
        self.steps: list[KeptLine] = []
        self._every, self._seen = 1, 0

    def add(self, indices: Sequence[int], lines: BlockLines) -> None:
        """Adds some of the next steps."""
        chosen = indices[-self._seen % self._every :: self._every]
        self._seen += len(indices)
        self.steps += [lines.kept(at, _LONGEST_STEP) for at in chosen]
        while len(self.steps) > _LONGEST_SERIES:
            del self.steps[1::2]
            self._every *= 2


@dataclass(slots=True)
class _FoundInBlock:
    """What was found in a block, by the indices of its lines: `frames` of tracebacks; `ends`, where a rule fired;
    `marks`, those of them that are no hints; the `latest` line of each kind that is only counted; and `windows` of
    lines to keep, each as (first, one behind the last)."""

    frames: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    latest: dict[Kind, int] = field(default_factory=dict)
    windows: list[tuple[int, int]] = field(default_factory=list)


class _Reader:
    """Reads one stream into a survey. It holds the latest blocks, and must be freed with the last reference to it: none
    of its parts may refer to it."""

    def __init__(
        self, survey: Survey, book: RuleBook, shapes: Shapes, stream: Stream, most_findings: int, last_lines: int
    ) -> None:
        self.most_findings = most_findings
        self.survey, self.book, self.shapes, self.stream = survey, book, shapes, stream
        self.survey.shapes = shapes
        self.kept = KeptLines()
        self.tail = Tail(last_lines)
        self.position = 0
        self.after = 0
        self.floods = Floods(survey.uncounted_in[stream.index])
        self.frames = Frames()
        self.unknown: deque[KeptLine] = deque(maxlen=_LATEST_UNKNOWN)
        # Several parts of the reader need the same line.
        self.line = lru_cache(_MOST_REMEMBERED)(stream.line)
        self.calls = Calls(self.book.calls_on, self.line)
        self.series = _Series()
        self.findings_of: Counter[str] = Counter()
        self.latest_of: dict[str, Finding] = {}
        self.opening: list[KeptLine] = []
        # The shapes of the first and of the last lines.
        self.start: list[bytes] = []
        self.end: list[bytes] = []

    def read(self, blocks: Iterable[ShapedBlock], advance: Callable[[int], None]) -> None:
        for shaped_block in blocks:
            lines = BlockLines(shaped_block, self.position)
            if any(map(may_be_heading, lines.counts)):
                self.stream.sections.extend(sections_in(lines.block.data, self.position))
            if not self.position:
                self._begin(shaped_block)
            self._keep(lines, self.shapes.add(lines))
            wanted = _OPENING if self.stream.index < _MOST_OPENINGS else 0
            first = range(min(lines.count, wanted - self.position))
            steps = [at for at in first if lines.shapes[at] in self.shapes.progress_keys]
            left_out = set(steps[_STEPS_OF_OPENING:])
            self.opening += [lines.kept(at, _LONGEST_OPENING) for at in first if at not in left_out]
            self.position += lines.count
            self.end = end_with(self.end, lines.shapes)
            advance(self.stream.bytes_read)
        for kept in (*self.tail.lines(self.tail.most), *self.unknown, *chain(*self.frames.latest.values())):
            self.kept.keep(kept)
        for (patterns, _), kept in self.floods.latest.items():
            self._confirm(kept, patterns)
        found = self.survey
        found.findings.extend(self.latest_of.values())
        found.lines.extend(self.line(*kept) for kept in self.kept.lines())
        found.series.extend(self.line(*step) for step in self.series.steps)
        found.calls.extend(self.calls)
        found.openings.append(Opening(self.stream, tuple(self.opening)))
        found.total_lines, found.total_bytes = self.position, self.stream.bytes_read
        found.complete = self.stream.complete
        if alone := alone_at_the_end(self.end, self.shapes.progress_keys):
            found.silent_from = self.position - alone
        if heads := found.heads.get(self.stream.index):
            again = begun_again(self.start, self.end, self.position)
            heads.new_start = self.position - again

    def _begin(self, first: ShapedBlock) -> None:
        """Learns the kind of the log from its first block, and how it begins."""
        self.start = first.shapes[:MOST_FIRST_LINES]
        self.stream.prefix = first.block.prefix
        self.survey.kind = first.kind or kind_of_block(first.block, self.book)
        if self.survey.kind.is_a_jobs:
            self.survey.heads[self.stream.index] = Heads()
        else:
            # What a machine's log repeats says nothing of how often a job prints a line.
            self.shapes = self.survey.shapes = Shapes(self.book, self.shapes.filters, self.shapes.hits)

    def _keep(self, lines: BlockLines, firsts: list[int]) -> None:
        """Keeps the lines of a block that are worth it. `firsts` are the indices of the first lines of their shapes."""
        found = self._find_in_block(lines)
        windows = [(0, self.after), *found.windows, *self._around_frames(lines, found)]
        if (before := min(start for start, _ in windows)) < 0:
            for kept in self.tail.lines(-before):
                self.kept.keep(kept)
        self.after = max(max(end for _, end in windows) - lines.count, 0)
        wanted = set(firsts)
        for start, end in windows:
            wanted.update(range(max(start, 0), min(end, lines.count)))
        restarts, saved = self._restarts_in(lines), self._keep_checkpoints(lines)
        self._keep_steps(lines, sorted([*found.marks, *restarts, *saved]))
        for at in sorted(wanted):
            self.kept.keep(lines.kept(at))
        self.unknown.extend(map(lines.kept, self.shapes.latest_unknown(lines, _LATEST_UNKNOWN)))
        self.tail.add(lines)

    def _find_in_block(self, lines: BlockLines) -> _FoundInBlock:
        """Looks at the lines of a block where a rule may fire; those of floods are only counted."""
        found = _FoundInBlock()
        calls, asked = list[tuple[int, Patterns]](), list[tuple[int, Patterns]]()
        for patterns, indices in self.shapes.hits.on(lines).items():
            frame, call, fires = self.book.marks_of(patterns)
            if call:
                calls += [(at, call) for at in indices if self.shapes.hits.may_match(call, lines.shapes[at])]
            if fires and not frame:
                indices = self.floods.count(patterns, indices, lines.several(indices, LONGEST_TEXT), found.latest)
            if fires:
                asked += zip(indices, repeat(patterns))
            elif frame:
                found.frames += indices
        for index, patterns in sorted(asked):
            self._look_at(lines.kept(index), index, patterns, found)
        self._keep_calls(lines, sorted(calls))
        for kind, index in sorted(found.latest.items(), key=itemgetter(1)):
            self.floods.latest.remember(kind, lines.kept(index))
        return found

    def _keep_calls(self, lines: BlockLines, calls: list[tuple[int, Patterns]]) -> None:
        """Keeps the lines of a block about collectives: each has its index and the patterns of its call."""
        indices = [at for at, _ in calls]
        positions, numbers = map(self.position.__add__, indices), lines.block.numbers_of(indices)
        texts, patterns = lines.several(indices, LONGEST_TEXT), map(itemgetter(1), calls)
        self.calls.add(zip(positions, numbers, texts, patterns, strict=True))

    def _look_at(self, kept: KeptLine, index: int, patterns: Patterns, found: _FoundInBlock) -> None:
        """Asks the rules about one line, unless it is one of a flood."""
        is_frame = self.book.marks_of(patterns).frame
        if not is_frame and self.floods.count_one(patterns, index, kept[2], found.latest):
            return
        finding, (before, after) = self._confirm(kept, patterns)
        if not is_frame:
            self.floods.learn(patterns, kept[2], finding)
        if finding is not None:
            found.ends.append(index)
            if finding.role is not Role.HINT:
                found.marks.append(index)
        if after:
            found.windows.append((index - before, index + after + 1))

    def _around_frames(self, lines: BlockLines, found: _FoundInBlock) -> list[tuple[int, int]]:
        """The windows of a block's lines to keep around frames of tracebacks: frames in new words, and those above a
        finding. Lines around the latest other frames, and above the latest lines of floods, are only remembered."""
        frames = sorted(found.frames)
        texts = lines.several(frames, _LONGEST_STEP)
        chosen = set(self.frames.first_among(frames, texts))
        for end in found.ends:
            chosen.update(above(frames, end))
        before, after = _AROUND_FRAME
        latest: list[tuple[object, list[int]]] = [
            (text, [at]) for text, at in dict(zip(texts, frames, strict=True)).items()
        ]
        latest += [(kind, flooded) for kind, at in found.latest.items() if (flooded := above(frames, at))]
        for key, traceback in latest:
            if not chosen.issuperset(traceback):
                around = range(max(min(traceback) - before, 0), min(max(traceback) + after + 1, lines.count))
                self.frames.latest.remember(key, list(map(lines.kept, around)))
        return [(at - before, at + after + 1) for at in chosen]

    def _confirm(self, kept: KeptLine, patterns: Patterns) -> tuple[Finding | None, tuple[int, int]]:
        """The finding on a line or None, and how many lines (before, after) are worth keeping around it."""
        around = _AROUND_FRAME if self.book.marks_of(patterns).frame else (0, 0)
        # To read a line's prefixes takes longer than the search, and on most of these lines nothing is found.
        found = self.book.found_in(kept[2].decode(errors="replace"), patterns)
        finding = self.book.confirm(self.line(*kept), found) if found else None
        if finding is None or finding.role is Role.HARMLESS:
            return None, around
        if finding.role is Role.PLACE:
            self.survey.places.append(finding)
            return None, around
        self.findings_of[finding.rule] += 1
        seen = self.findings_of[finding.rule]
        if seen > self.most_findings:
            # The finding that was the latest so far is only counted.
            if finding.rule in self.latest_of:
                self.survey.uncounted_in[self.stream.index][finding.rule] += 1
            self.latest_of[finding.rule] = finding
            return None, around
        self.survey.findings.append(finding)
        if finding.role is Role.HINT:
            return finding, max(around, _AROUND_HINT)
        return finding, max(around, next(window for most, window in _WINDOWS if seen <= most))

    def _keep_steps(self, lines: BlockLines, marks: list[int]) -> None:
        """Keeps steps of a block: its first and last ones, and those next to a mark (finding, checkpoint, restart)."""
        keys, shapes = self.shapes.progress_keys, lines.shapes
        if keys.isdisjoint(lines.counts):
            return
        forwards = (at for at, shape in enumerate(shapes) if shape in keys)
        backwards = (at for at in range(len(shapes) - 1, -1, -1) if shapes[at] in keys)
        indices = {*islice(forwards, _FIRST_STEPS), *islice(backwards, _LAST_STEPS)}
        if marks:
            indices.update(_nearest(lines.of_shapes(keys), marks))
        self.survey.progress += self._lines_at(indices, lines)
        if self.stream.index < _LOGS_WITH_SERIES:
            self.series.add([at for at in _sampled_evenly(len(shapes)) if shapes[at] in keys], lines)

    def _keep_checkpoints(self, lines: BlockLines) -> set[int]:
        """Keeps a block's first and last lines about checkpoints; their indices."""
        every = lines.of_shapes(self.shapes.checkpoint_keys)
        indices = {*every[:_LAST_STEPS], *every[-_LAST_STEPS:]}
        self.survey.checkpoints += self._lines_at(indices, lines)
        return indices

    def _restarts_in(self, lines: BlockLines) -> list[int]:
        """The indices at which the stream's first lines come again, where the next of several runs may begin."""
        heads = self.survey.heads.get(self.stream.index)
        if heads is None:
            return []
        if not heads.first:
            first = ((shape, lines[at], self.line(*lines.kept(at))) for at, shape in enumerate(lines.shapes))
            heads.choose(first, self.shapes.progress_keys)
        indices = lines.of_shapes(heads.shapes(lines.shaped.before))
        if not indices or not heads.expect(len(indices)):
            return []
        return [line.position - self.position for line in self._lines_at(indices, lines) if heads.met(line)]

    def _lines_at(self, indices: Iterable[int], lines: BlockLines) -> Iterator[Line]:
        return (self.line(*lines.kept(at, _LONGEST_STEP)) for at in sorted(indices))


def survey(
    streams: Sequence[Stream], book: RuleBook, shapes: Shapes, advance: Callable[[Stream, int], None] | None = None
) -> Survey:
    """As `surveys`, with all streams in one survey."""
    return joined(surveys(streams, book, shapes, advance))


def surveys(
    streams: Sequence[Stream],
    book: RuleBook,
    shapes: Shapes,
    advance: Callable[[Stream, int], None] | None = None,
    crew: Crew | None = None,
) -> list[Survey]:
    """Reads every stream once, each into a survey of its own, with the help of a crew if there is one. `advance` is
    called with a stream and the bytes read of it so far. Raises SourceError when no stream could be read."""
    parts: list[Survey] = []
    all_kept, kept = True, 0
    most_findings = max(_MOST_FINDINGS_A_RULE // max(len(streams), 1), _FEWEST_FINDINGS)
    last_lines = max(min(_LAST_LINES, _MOST_LAST_LINES // max(len(streams), 1)), _FEWEST_LAST_LINES)
    for stream in streams:
        reader = _Reader(Survey([stream]), book, shapes, stream, most_findings, last_lines)
        settled = shapes.hits.settled
        blocks = crew.blocks(stream, settled) if crew else shaped(stream.blocks(settled))
        reader.read(blocks, partial(advance, stream) if advance else lambda _count: None)
        parts.append(reader.survey)
        all_kept = all_kept and reader.kept.complete
        kept += len(reader.survey.lines)
        if kept > 2 * _MOST_LINES:
            all_kept = _thin(parts) and all_kept
            kept = sum(len(part.lines) for part in parts)
    if not (_thin(parts) and all_kept):
        streams[0].notes.append(_TOO_MANY)
    if not any(part.total_bytes for part in parts) and not any(stream.complete for stream in streams):
        raise SourceError(next((note for stream in streams for note in stream.notes), "nothing could be read"))
    return parts


def joined(parts: Sequence[Survey]) -> Survey:
    """Several surveys as one, in their order."""
    result = Survey([stream for part in parts for stream in part.streams])
    for part in parts:
        for name in (*_LINES, *_ON_LINES, "places"):
            getattr(result, name).extend(getattr(part, name))
        result.uncounted_in.update(part.uncounted_in)
        result.heads.update(part.heads)
        result.openings += part.openings[: _MOST_OPENINGS - len(result.openings)]
        result.total_lines += part.total_lines
        result.total_bytes += part.total_bytes
    result.complete = all(part.complete for part in parts)
    return result


def _thin(parts: Sequence[Survey]) -> bool:
    """Drops lines where all logs together have too many, first of the logs with the most: their first and last lines
    stay. True if nothing was dropped."""
    if sum(len(part.lines) for part in parts) <= _MOST_LINES:
        return True
    left, share = _MOST_LINES, 0
    for at, size in enumerate(sorted(len(part.lines) for part in parts)):
        share = left // (len(parts) - at)
        if size > share:
            break
        left -= size
    share = max(share, _FEWEST_LINES)
    long = [part for part in parts if len(part.lines) > share]
    for part in long:
        part.lines = part.lines[: share // 2] + part.lines[-share // 2 :]
    return not long


def _nearest(steps: list[int], marks: list[int]) -> set[int]:
    """The indices of the steps next to each mark, on both sides."""
    near: set[int] = set()
    for mark in marks[: _MOST_MARKS_A_BLOCK // 2] + marks[-_MOST_MARKS_A_BLOCK // 2 :]:
        after = bisect(steps, mark)
        near.update(steps[max(0, after - 1) : after + 4])
    return near


def _sampled_evenly(count: int) -> Iterator[int]:
    """Indices of some of a block's `count` lines, in even samples; all where there are few."""
    for start in range(0, count, max(count // _SAMPLES, _LINES_OF_A_SAMPLE)):
        yield from range(start, min(start + _LINES_OF_A_SAMPLE, count))
