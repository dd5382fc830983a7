"""The one read: each block goes to the rules' scan and to the shapes at the same time, and what matters of it is kept.

After this nothing is proportional to the log's size.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from logdiag.filters import KeptLines, Shapes
from logdiag.model import Block, Finding, Line, Role
from logdiag.prefixes import parse_line
from logdiag.rules import RuleBook
from logdiag.rules.book import Hit
from logdiag.sources import Stream

__all__ = ["Progress", "Survey", "survey"]

# Lines kept around a finding and around a frame of a traceback: (before, after).
_AROUND_FINDING = (10, 16)
_AROUND_FRAME = (1, 3)
_LAST_LINES = 60
_LONGEST_TEXT = 8192
# Blocks smaller than this are scanned without a second thread.
_WORTH_A_THREAD = 1 << 18
# From this many hits of the same patterns on, only hits that say something new are confirmed.
_MANY_HITS = 2000
_MOST_FINDINGS_A_RULE = 5000
_MOST_PROGRESS_MARKS = 400
# Long numbers, times and addresses; short numbers (Xid, errno, status, signal) tell failures apart and stay.
_LONG_NUMBER = re.compile(rb"\d[\d:.,-]{3,}|0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Progress:
    """Steps of the job's work: how many lines said so, up to and including this place. `rank` is the one that spoke."""

    stream: int
    position: int
    rank: int | None
    count: int


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
        last: Block | None = None
        for block in self.stream.blocks():
            shapes, firsts, hits = self._scan(block)
            self._keep(block, shapes, firsts, hits)
            self.position += len(shapes)
            last = block
            advance(self.stream.bytes_read)
        del last
        for position, number, text in self.tail:
            self.kept.keep(position, number, text)

    def _scan(self, block: Block) -> tuple[list[bytes], list[int], list[Hit]]:
        """The block's shapes and the rules' hits; Hyperscan lets go of the interpreter, so both run at once."""
        if len(block.data) < _WORTH_A_THREAD:
            shapes, firsts = self.shapes.add(block, self.position)
            return shapes, firsts, self.book.scan(block.data)
        hits: list[Hit] = []
        failure: list[BaseException] = []

        def scan() -> None:
            try:
                hits.extend(self.book.scan(block.data))
            except BaseException as error:  # carried over to the reading thread
                failure.append(error)

        worker = threading.Thread(target=scan)
        worker.start()
        shapes, firsts = self.shapes.add(block, self.position)
        worker.join()
        if failure:
            raise failure[0]
        return shapes, firsts, hits

    def _keep(self, block: Block, shapes: list[bytes], firsts: list[int], hits: list[Hit]) -> None:
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
        self._mark_progress(block, shapes, marks)
        if wanted:
            originals = block.data.split(b"\n")
            for at in sorted(wanted):
                self.kept.keep(self.position + at, block.number_of(at), originals[at])
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
        if self.findings_of[finding.rule] > _MOST_FINDINGS_A_RULE:
            self.survey.uncounted[finding.rule] += 1
            return around
        self.survey.findings.append(finding)
        marks.append(index)
        return _AROUND_FINDING

    def _line(self, position: int, number: int, text: bytes) -> Line:
        line = parse_line(
            text[:_LONGEST_TEXT].decode(errors="replace"), self.stream.name, number, stream=self.stream.index, position=position
        )
        if (line.rank is None and self.stream.rank is not None) or (line.node is None and self.stream.node):
            from dataclasses import replace

            rank = self.stream.rank if line.rank is None else line.rank
            line = replace(line, rank=rank, node=line.node or self.stream.node)
        return line

    def _mark_progress(self, block: Block, shapes: list[bytes], marks: list[int]) -> None:
        """Remembers where the job moved on: exactly around findings, roughly elsewhere."""
        keys = self.shapes.progress_keys
        if not keys:
            return
        present = keys.intersection(shapes)
        if not present:
            return
        if marks:
            places = [at for at, shape in enumerate(shapes) if shape in present]
        else:
            places = sorted({shapes.index(key) for key in present} | {len(shapes) - 1 - shapes[::-1].index(key) for key in present})
        if len(places) > _MOST_PROGRESS_MARKS:
            step = len(places) // (_MOST_PROGRESS_MARKS // 2)
            places = sorted({*places[::step], places[-1], *_nearest(places, marks)})
        originals = block.data.split(b"\n")
        for at in places:
            line = self._line(self.position + at, block.number_of(at), originals[at][:400])
            self.survey.progress.append(Progress(self.stream.index, self.position + at, line.rank, 1))

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
        lines = [(self.position + first + i, block.number_of(first + i), text[:_LONGEST_TEXT]) for i, text in enumerate(texts)]
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
        reader.read((lambda count, s=stream: advance(s, count)) if advance else lambda _count: None)
        reader.finish()
    return result


def _nearest(places: list[int], marks: list[int]) -> list[int]:
    """The progress lines next to each mark, on both sides."""
    from bisect import bisect

    near: list[int] = []
    for mark in marks[:200]:
        at = bisect(places, mark)
        near += places[max(0, at - 2) : at + 4]
    return near
