"""The one read: each block goes to the rules' scan and to the shapes at the same time, and what matters of it is kept.

After this nothing is proportional to the log's size.
"""

from __future__ import annotations

import queue
import re
import threading
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from logdiag.filters import BlockLines, KeptLines, Shapes
from logdiag.model import Block, Finding, Line, Role
from logdiag.prefixes import parse_line
from logdiag.rules import RuleBook
from logdiag.rules.book import Hit
from logdiag.sources import Stream

__all__ = ["Progress", "Survey", "survey"]

# Lines kept around a finding and around a frame of a traceback: (before, after).
_AROUND_FINDING = (10, 16)
_AROUND_FRAME = (1, 3)
_AROUND_HINT = (0, 1)
# A rule that fires often needs its surroundings less: up to how many firings get which window.
_WINDOWS = ((40, _AROUND_FINDING), (400, (2, 4)), (_MOST_FINDINGS_A_RULE := 4000, (0, 1)))
_LAST_LINES = 60
_LONGEST_TEXT = 8192
# A stream whose first block is smaller than this is scanned without a second thread.
_WORTH_A_THREAD = 1 << 18
_BLOCKS_AHEAD = 2
# From this many hits of the same patterns on, only hits that say something new are confirmed.
_MANY_HITS = 2000
_MOST_MARKS_A_BLOCK = 200
# Long numbers, times and addresses; short numbers (Xid, errno, status, signal) tell failures apart and stay.
_LONG_NUMBER = re.compile(rb"\d[\d:.,-]{3,}|0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Progress:
    """A line that tells of a step of the job's work; not all such lines are remembered. `rank` is the one that
    spoke."""

    stream: int
    position: int
    rank: int | None


@dataclass
class Survey:
    """What the read found."""

    streams: list[Stream]
    findings: list[Finding] = field(default_factory=list)
    uncounted: Counter[str] = field(default_factory=Counter)
    progress: list[Progress] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    total_lines: int = 0
    total_bytes: int = 0


class _Reader:
    """Reads one stream into a survey."""

    def __init__(self, survey: Survey, book: RuleBook, shapes: Shapes, stream: Stream) -> None:
        self.survey, self.book, self.shapes, self.stream = survey, book, shapes, stream
        self.kept = KeptLines()
        self.tail: list[tuple[int, int, bytes]] = []
        self.position = 0
        self.after = 0
        self.hits_of: Counter[tuple[int, ...]] = Counter()
        self.seen: dict[tuple[tuple[int, ...], bytes], str | None] = {}
        self.findings_of: Counter[str] = Counter()

    def read(self, advance: Callable[[int], None]) -> None:
        for block, hits in _ahead(self.stream.blocks(), self.book):
            lines = BlockLines(block.data)
            shapes, firsts = self.shapes.add(block, lines, self.position)
            self._keep(block, lines, shapes, firsts, hits)
            self.position += len(shapes)
            advance(self.stream.bytes_read)
        for position, number, text in self.tail:
            self.kept.keep(position, number, text)

    def _keep(self, block: Block, lines: BlockLines, shapes: list[bytes], firsts: list[int], hits: list[Hit]) -> None:
        wanted = set(firsts)
        wanted.update(range(min(self.after, len(shapes))))
        self.after = max(0, self.after - len(shapes))
        marks: list[int] = []
        index, counted = 0, 0
        for start, end, patterns in hits:
            index += block.data.count(b"\n", counted, start)
            counted = start
            before, after = self._weigh(block, index, start, end, patterns, marks)
            if after:
                wanted.update(range(max(0, index - before), min(index + after + 1, len(shapes))))
                self.after = max(self.after, index + after + 1 - len(shapes))
                for position, number, text in self.tail[len(self.tail) + index - before :] if index < before else ():
                    self.kept.keep(position, number, text)
        self._mark_progress(block, lines, shapes, marks)
        for at in sorted(wanted):
            self.kept.keep(self.position + at, block.number_of(at), lines[at])
        self._remember_tail(block, len(shapes))

    def _weigh(
        self, block: Block, index: int, start: int, end: int, patterns: tuple[int, ...], marks: list[int]
    ) -> tuple[int, int]:
        """Confirms a hit; how many lines before and after it are worth keeping, (0, 0) for none."""
        around = _AROUND_FRAME if self.book.structural(patterns) else (0, 0)
        self.hits_of[patterns] += 1
        key = None
        if self.hits_of[patterns] > _MANY_HITS:
            key = (patterns, _LONG_NUMBER.sub(b"", block.data[start : min(end, start + _LONGEST_TEXT)]))
            if key in self.seen:
                if rule := self.seen[key]:
                    self.survey.uncounted[rule] += 1
                return around
        line = self._line(self.position + index, block.number_of(index), block.data[start:end])
        finding = self.book.confirm(line, patterns)
        if key is not None and len(self.seen) < _MANY_HITS * 10:
            self.seen[key] = finding.rule if finding else None
        if finding is None or finding.role is Role.HARMLESS:
            return around
        self.findings_of[finding.rule] += 1
        seen = self.findings_of[finding.rule]
        if seen > _MOST_FINDINGS_A_RULE:
            self.survey.uncounted[finding.rule] += 1
            return around
        self.survey.findings.append(finding)
        if finding.role is Role.HINT:
            return max(around, _AROUND_HINT)
        marks.append(index)
        return max(around, next(window for most, window in _WINDOWS if seen <= most))

    def _line(self, position: int, number: int, text: bytes) -> Line:
        line = parse_line(
            text[:_LONGEST_TEXT].decode(errors="replace"),
            self.stream.name,
            number,
            stream=self.stream.index,
            position=position,
        )
        if (line.rank is None and self.stream.rank is not None) or (line.node is None and self.stream.node):
            from dataclasses import replace

            rank = self.stream.rank if line.rank is None else line.rank
            line = replace(line, rank=rank, node=line.node or self.stream.node)
        return line

    def _mark_progress(self, block: Block, lines: BlockLines, shapes: list[bytes], marks: list[int]) -> None:
        """Remembers where the job moved on: next to each finding, and at a block's first and last step."""
        keys = self.shapes.progress_keys
        first = next((at for at, shape in enumerate(shapes) if shape in keys), None) if keys else None
        if first is None:
            return
        last = next(at for at in range(len(shapes) - 1, -1, -1) if shapes[at] in keys)
        places = {first, last}
        if marks:
            places.update(_nearest([at for at, shape in enumerate(shapes) if shape in keys], marks))
        for at in sorted(places):
            line = self._line(self.position + at, block.number_of(at), lines[at][:400])
            self.survey.progress.append(Progress(self.stream.index, self.position + at, line.rank))

    def _remember_tail(self, block: Block, count: int) -> None:
        """Keeps the last lines at hand: a later finding's window, or the log's end, may need them."""
        cut = len(block.data)
        texts: list[bytes] = []
        cut -= block.data.endswith(b"\n")
        while len(texts) < min(_LAST_LINES, count):
            start = block.data.rfind(b"\n", 0, cut) + 1
            texts.append(block.data[start:cut])
            cut = start - 1
        texts.reverse()
        first = count - len(texts)
        lines = [
            (self.position + first + i, block.number_of(first + i), text[:_LONGEST_TEXT])
            for i, text in enumerate(texts)
        ]
        self.tail = (self.tail + lines)[-_LAST_LINES:]

    def finish(self) -> None:
        """Hands the kept lines to the survey."""
        self.survey.lines.extend(self._line(position, number, text) for position, number, text in self.kept.lines())
        self.survey.total_lines += self.position
        self.survey.total_bytes += self.stream.bytes_read


def survey(
    streams: Sequence[Stream], book: RuleBook, shapes: Shapes, advance: Callable[[Stream, int], None] | None = None
) -> Survey:
    """Reads every stream once. `advance` is told each stream's bytes as they are read.

    Raises SourceError when a stream cannot be read at all.
    """
    result = Survey(list(streams))
    for stream in streams:
        reader = _Reader(result, book, shapes, stream)
        reader.read(partial(advance, stream) if advance else lambda _count: None)
        reader.finish()
    return result


def _ahead(blocks: Iterator[Block], book: RuleBook) -> Iterator[tuple[Block, list[Hit]]]:
    """Blocks with the rules' hits. Of a long stream the next blocks are read and scanned while this one is looked at:
    neither
    reading nor Hyperscan holds the interpreter."""
    first = next(blocks, None)
    if first is None:
        return
    yield first, book.scan(first.data)
    if len(first.data) < _WORTH_A_THREAD:
        yield from ((block, book.scan(block.data)) for block in blocks)
        return
    done: queue.Queue[tuple[Block, list[Hit]] | BaseException | None] = queue.Queue(_BLOCKS_AHEAD)
    stopped = threading.Event()

    def put(item: tuple[Block, list[Hit]] | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                return done.put(item, timeout=0.1)
            except queue.Full:
                continue
        return None

    def work() -> None:
        try:
            for block in blocks:
                put((block, book.scan(block.data)))
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:  # raised again by the thread that reads the queue
            put(error)

    worker = threading.Thread(target=work, name="logdiag-scan", daemon=True)
    worker.start()
    try:
        while (item := done.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        worker.join()


def _nearest(places: list[int], marks: list[int]) -> set[int]:
    """The progress lines next to each mark, on both sides."""
    near: set[int] = set()
    for mark in marks[: _MOST_MARKS_A_BLOCK // 2] + marks[-_MOST_MARKS_A_BLOCK // 2 :]:
        at = bisect(places, mark)
        near.update(places[max(0, at - 1) : at + 4])
    return near
