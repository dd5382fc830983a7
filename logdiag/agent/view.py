"""Read-only access to the logs of one diagnosis: by line number, by pattern, by rank.

What can be opened again is read again, within bounds; of a pipe, only the lines that the digest kept are left.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from logdiag.errors import SourceError
from logdiag.model import Block, Diagnosis, Line
from logdiag.read.prefixes import parse_line
from logdiag.read.sources import Known, Stream, open_sources

_LONGEST_LINE = 4000
_LONGEST_PATTERN = 300
# A counted repeat is copied out when a pattern is compiled: nested ones would take all memory.
_MOST_REPEATS = 1000
# (?R) (?1) (?&name) call themselves; a++ and (?>a) are possessive; (?(1)a|b), (?e) and {e<=2} are fuzzy or conditional.
_REFUSED = re.compile(r"\(\?(?:R|[+-]?\d|&|P>|>|\(|[a-z]*[eb][a-z]*[):])|[*+?}]\+|\{\s*\d*\s*<?=?\s*[idse]|\\L<")
_ESCAPED = re.compile(r"\\[^L]|\[\^?\]?[^\]]*\]")
_REPEAT = re.compile(r"\{\s*(\d*)\s*,?\s*(\d*)\s*\}")
_LINE_SECONDS = 0.2
_READ_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines in the order of the log, and what a reader should know about what is missing."""

    lines: tuple[Line, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class RankSummary:
    """What is known of one rank: its node, how many of its lines were kept, and the last of them."""

    rank: int
    node: str | None
    kept: int
    last: Line


class LogView:
    """The logs that a diagnosis was made from. Sources are counted from 1; it never opens anything else."""

    def __init__(self, diagnosis: Diagnosis, sources: tuple[object, ...], read_seconds: float = _READ_SECONDS) -> None:
        self.diagnosis = diagnosis
        self._seconds = read_seconds
        self._streams = _readable_again(sources)
        named = {line.stream: line.source for line in diagnosis.digest.lines}
        count = max(len(self._streams), max(named, default=-1) + 1)
        streams = [self._stream(at + 1) for at in range(count)]
        self.names = tuple(stream.name if stream else named.get(at, "<stdin>") for at, stream in enumerate(streams))

    def lines(self, source: int, first: int, last: int, most: int = 60) -> Excerpt:
        """The lines `first` to `last` of a source, at most `most` of them."""
        wanted = range(first, min(last, first + most - 1) + 1)
        if not 1 <= source <= len(self.names):
            return Excerpt((), f"there is no source {source}; there are {len(self.names)}")
        stream = self._stream(source)
        if stream is None:
            kept = tuple(line for line in self._kept.get(source - 1, ()) if line.number in wanted)
            return Excerpt(kept[:most], "this log cannot be read again: only lines worth keeping are left")
        try:
            found = tuple(self._read(stream, source, wanted))[:most]
        except SourceError:
            return Excerpt((), f"source {source} can no longer be read")
        return Excerpt(found, "" if found else "the log has no such lines, or they are too far to reach")

    def grep(self, pattern: str, source: int | None = None, most: int = 40) -> Excerpt:
        """The lines that a regular expression matches, whatever their case: all, or the first and the last `most` / 2.
        The note counts them, and says where time ran out."""
        matches, problem = _matcher(pattern)
        if matches is None:
            return Excerpt((), problem)
        ends = time.monotonic() + self._seconds
        hits = _Hits(most)
        notes: list[str] = []
        chosen = [source] if source is not None else range(1, len(self.names) + 1)
        for number in chosen:
            if not 1 <= number <= len(self.names):
                return Excerpt((), f"there is no source {number}; there are {len(self.names)}")
            if not self._grep_one(number, matches, ends, hits):
                notes.append(f"source {number} was not searched to its end")
        least = "at least " if notes else ""
        if hits.count > most:
            notes.insert(0, f"{least}{hits.count} lines match; the first and the last {most // 2} are shown")
        elif hits.count:
            notes.insert(0, f"{least}{hits.count} line{'s match' if hits.count > 1 else ' matches'}")
        return Excerpt(hits.lines, "; ".join(dict.fromkeys(notes)))

    def around(self, line: Line, before: int, after: int) -> tuple[Line, ...]:
        """The kept lines that stand near a line, itself included."""
        near = self._kept.get(line.stream, ())
        return tuple(item for item in near if -before <= item.position - line.position <= after)

    def ranks(self) -> tuple[RankSummary, ...]:
        """One summary for each rank that speaks in the kept lines."""
        found: dict[int, RankSummary] = {}
        for line in self.diagnosis.digest.lines:
            if line.rank is not None:
                seen = found.get(line.rank)
                node = line.node or (seen.node if seen else None)
                found[line.rank] = RankSummary(line.rank, node, seen.kept + 1 if seen else 1, line)
        return tuple(found[rank] for rank in sorted(found))

    def find(self, source: str, number: int, text: str = "") -> Line | None:
        """The kept line that a diagnosis speaks of."""
        at = self._by_name.get((source, number), ())
        return next((line for line in at if line.text == text), at[0] if at else None)

    def _stream(self, source: int) -> Stream | None:
        return self._streams[source - 1] if source <= len(self._streams) else None

    @cached_property
    def _kept(self) -> dict[int, list[Line]]:
        kept: dict[int, list[Line]] = {}
        for line in self.diagnosis.digest.lines:
            kept.setdefault(line.stream, []).append(line)
        return kept

    @cached_property
    def _by_name(self) -> dict[tuple[str, int], list[Line]]:
        kept: dict[tuple[str, int], list[Line]] = {}
        for line in self.diagnosis.digest.lines:
            kept.setdefault((line.source, line.number), []).append(line)
        return kept

    def _read(self, stream: Stream, source: int, wanted: range) -> Iterator[Line]:
        for block, position in self._blocks(stream):
            if block.number_of(0) >= wanted.stop:
                return
            if block.number_of(_count(block) - 1) >= wanted.start:
                texts = block.data.split(b"\n")
                for at in range(_count(block)):
                    if block.number_of(at) in wanted:
                        yield _line(stream, block, source - 1, at, position, texts[at])

    def _blocks(self, stream: Stream) -> Iterator[tuple[Block, int]]:
        """Blocks with the position of their first line, while there is time."""
        ends = time.monotonic() + self._seconds
        position = 0
        for block in stream.blocks():
            yield block, position
            position += _count(block)
            if time.monotonic() > ends:
                return

    def _texts(self, stream: Stream, source: int) -> Iterator[tuple[Callable[[], Line], str]]:
        """Each line of a stream, made when it is asked for, with its text."""
        for block, position in self._blocks(stream):
            for at, text in enumerate(block.data.split(b"\n")[: _count(block)]):
                made = partial(_line, stream, block, source - 1, at, position, text)
                yield made, text[:_LONGEST_LINE].decode(errors="replace")

    def _grep_one(self, source: int, matches: Callable[[str], bool], ends: float, hits: _Hits) -> bool:
        """Adds what matches in one source; False when it was not searched to its end."""
        reached, complete = -1, True
        stream = self._stream(source)
        try:
            for make, text in self._texts(stream, source) if stream else ():
                if matches(text):
                    hits.add(make())
                reached += 1
                if not reached % 256 and time.monotonic() > ends:
                    complete = False
                    break
        except TimeoutError:
            return False
        except SourceError:
            complete = False
        # The digest holds the end of the log, which a bounded read may not reach.
        rest = [line for line in self._kept.get(source - 1, ()) if line.position > reached]
        try:
            for line in rest:
                if matches(line.text[:_LONGEST_LINE]):
                    hits.add(line)
        except TimeoutError:
            complete = False
        return complete and (stream is None or not rest)


class _Hits:
    """The first and the last lines of those that were found, and how many there were."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._first: list[Line] = []
        self._most_first = most - most // 2
        self._last: deque[Line] = deque(maxlen=max(1, most // 2))

    def add(self, line: Line) -> None:
        """One more, behind the others."""
        self.count += 1
        (self._first if len(self._first) < self._most_first else self._last).append(line)

    @property
    def lines(self) -> tuple[Line, ...]:
        """Those that are kept, in their order."""
        return (*self._first, *self._last)


def _readable_again(sources: tuple[object, ...]) -> list[Stream | None]:
    """The streams of the sources in their order, None for those that can be read only once; empty when the logs have
    gone since."""
    streams: list[Stream | None] = []
    try:
        for source in sources:
            again = isinstance(source, (bytes, bytearray, os.PathLike, Known)) or (
                isinstance(source, str) and source != "-"
            )
            streams.extend(stream if again else None for stream in open_sources((source,)))
    except SourceError:
        return []
    return streams


def _count(block: Block) -> int:
    return block.data.count(b"\n") + (not block.data.endswith(b"\n"))


def _line(stream: Stream, block: Block, index: int, at: int, position: int, text: bytes) -> Line:
    """Line `at` of a block that begins at `position` of its stream."""
    said, number = text[:_LONGEST_LINE].decode(errors="replace"), block.number_of(at)
    line = parse_line(said, stream.name, number, stream=index, position=position + at, prefix=block.prefix)
    return line._replace(rank=stream.rank if line.rank is None else line.rank, node=line.node or stream.node)


def _matcher(pattern: str) -> tuple[Callable[[str], bool] | None, str]:
    """A pattern as a bounded test of a text, or what is wrong with it."""
    import regex

    repeats = 1
    for match in _REPEAT.finditer(pattern):
        repeats *= max(1, *(int(number[:6]) for number in match.groups() if number), 1)
    if not pattern or len(pattern) > _LONGEST_PATTERN or repeats > _MOST_REPEATS:
        return None, f"the pattern is empty, longer than {_LONGEST_PATTERN} characters, or repeats too much"
    if _REFUSED.search(_ESCAPED.sub("a", pattern)):
        return None, "the pattern calls itself, is possessive, fuzzy or conditional: write it without that"
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        return None, f"the pattern is no regular expression ({error})"
    return lambda text: compiled.search(text, timeout=_LINE_SECONDS) is not None, ""
