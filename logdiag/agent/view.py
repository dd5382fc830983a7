"""Read-only access to the logs of one diagnosis: by line number and by pattern.

What can be opened again is read again, within bounds; of a pipe, only the lines that the digest kept are left.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from logdiag.errors import SourceError
from logdiag.model import Diagnosis, Line, LineInFile, Place
from logdiag.read.sources import Known, open_sources
from logdiag.read.streams import Stream
from logdiag.rules.searching import wrong_with

_LONGEST_LINE = 4000
# (?R) (?1) (?&name) call themselves; a++ and (?>a) are possessive; (?(1)a|b), (?e) and {e<=2} are fuzzy or conditional.
_REFUSED = re.compile(r"\(\?(?:R|[+-]?\d|&|P>|>|\(|[a-z]*[eb][a-z]*[):])|[*+?}]\+|\{\s*\d*\s*<?=?\s*[idse]|\\L<")
_ESCAPED = re.compile(r"\\[^L]|\[\^?\]?[^\]]*\]")
_LINE_SECONDS = 0.2
_MOST_READ_SECONDS = 3.0


class Excerpt(NamedTuple):
    """Lines in the order of the log, and a note on what is missing; empty if nothing is."""

    lines: tuple[Line, ...]
    note: str = ""


class LogView:
    """The logs that a diagnosis was made from. Sources are counted from 1; it never opens anything else."""

    def __init__(
        self, diagnosis: Diagnosis, sources: tuple[object, ...], read_seconds: float = _MOST_READ_SECONDS
    ) -> None:
        self._seconds = min(_MOST_READ_SECONDS, read_seconds)
        self._kept: dict[int, list[Line]] = {}
        self._by_name: dict[LineInFile, list[Line]] = {}
        for line in diagnosis.digest.lines:
            self._kept.setdefault(line.stream, []).append(line)
            self._by_name.setdefault(line.in_file, []).append(line)
        self._streams = _readable_again(sources)
        self._streams += [None] * (max(self._kept, default=-1) + 1 - len(self._streams))
        self.names = tuple(
            stream.name if stream else self._kept[at][-1].source if at in self._kept else "<stdin>"
            for at, stream in enumerate(self._streams)
        )

    def lines(self, source: int, first: int, last: int, most: int = 60) -> Excerpt:
        """The lines `first` to `last` of a source, at most `most` of them."""
        wanted = range(first, min(last, first + most - 1) + 1)
        if not 1 <= source <= len(self.names):
            return self._no_source(source)
        if self._streams[source - 1] is None:
            kept = tuple(line for line in self._kept.get(source - 1, ()) if line.number in wanted)
            return Excerpt(kept[:most], "this log cannot be read again: only lines worth keeping are left")
        found: list[Line] = []
        try:
            for number, _, parsed in self._texts(source, first):
                if number >= wanted.stop or len(found) == most:
                    break
                if number in wanted:
                    found.append(parsed())
        except SourceError:
            return Excerpt((), f"source {source} can no longer be read")
        return Excerpt(tuple(found), "" if found else "the log has no such lines, or they are too far to reach")

    def grep(self, pattern: str, source: int | None = None, most: int = 40) -> Excerpt:
        """The lines that a regular expression matches, whatever their case: all, or the first and the last `most` / 2.
        The note counts them, and says where time ran out."""
        matches, problem = _matcher(pattern)
        if matches is None:
            return Excerpt((), problem)
        if source is not None and not 1 <= source <= len(self.names):
            return self._no_source(source)
        ends = time.monotonic() + self._seconds
        first: list[Line] = []
        last: deque[Line] = deque(maxlen=max(1, most // 2))
        count = 0
        notes: list[str] = []
        for number in range(1, len(self.names) + 1) if source is None else [source]:
            try:
                for line in self._matching(number, matches, ends):
                    (first if len(first) < most - most // 2 else last).append(line)
                    count += 1
            except TimeoutError:
                notes.append(f"source {number} was not searched to its end")
        least = "at least " if notes else ""
        if count > most:
            notes.insert(0, f"{least}{count} lines match; the first and the last {most // 2} are shown")
        elif count:
            notes.insert(0, f"{least}{count} line{'s match' if count > 1 else ' matches'}")
        return Excerpt((*first, *last), "; ".join(notes))

    def _no_source(self, source: int) -> Excerpt:
        return Excerpt((), f"there is no source {source}; there are {len(self.names)}")

    def around(self, line: Line, before: int, after: int) -> tuple[Line, ...]:
        """The kept lines that stand near a line, itself included."""
        near = self._kept.get(line.stream, ())
        return tuple(item for item in near if -before <= item.position - line.position <= after)

    def find(self, place: Place) -> Line | None:
        """The kept line at a place of the diagnosis; None if it was not kept."""
        lines = self._by_name.get(place.in_file, ())
        return next((line for line in lines if line.text == place.text), lines[0] if lines else None)

    def _texts(self, source: int, first: int = 0) -> Iterator[tuple[int, str, Callable[[], Line]]]:
        """The lines of a source from a number on, while there is time: number, text, and what makes a `Line` of it."""
        stream = self._streams[source - 1]
        if stream is None:
            return
        ends = time.monotonic() + self._seconds
        position = 0
        for block in stream.blocks():
            stream.prefix = block.prefix
            count = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
            if block.number_of(count - 1) >= first:
                for at, data in enumerate(block.data.split(b"\n")[:count]):
                    cut, number = data[:_LONGEST_LINE], block.number_of(at)
                    yield number, cut.decode(errors="replace"), partial(stream.line, position + at, number, cut)
            position += count
            if time.monotonic() > ends:
                return

    def _matching(self, source: int, matches: Callable[[str], bool], ends: float) -> Iterator[Line]:
        """The lines of a source that match. Raises TimeoutError at last where it was not searched to its end."""
        reached, left_out = -1, False
        try:
            for _, text, parsed in self._texts(source):
                if matches(text):
                    yield parsed()
                reached += 1
                if not reached % 256 and time.monotonic() > ends:
                    left_out = True
                    break
        except SourceError:
            left_out = True
        # The digest holds the end of the log, which a bounded read may not reach.
        for line in self._kept.get(source - 1, ()):
            if line.position > reached:
                left_out = left_out or self._streams[source - 1] is not None
                if matches(line.text[:_LONGEST_LINE]):
                    yield line
        if left_out:
            raise TimeoutError


def _readable_again(sources: tuple[object, ...]) -> list[Stream | None]:
    """The streams of the sources, None for those that can be read only once; empty when the logs have gone since."""
    streams: list[Stream | None] = []
    try:
        for source in sources:
            again = isinstance(source, (str, bytes, bytearray, os.PathLike, Known)) and source != "-"
            for stream in open_sources((source,)):
                stream.index = len(streams)  # it was opened as the only one
                streams.append(stream if again else None)
    except SourceError:
        return []
    return streams


def _matcher(pattern: str) -> tuple[Callable[[str], bool] | None, str]:
    """A pattern as a bounded test of a text, or what is wrong with it."""
    import regex

    if not pattern or _REFUSED.search(_ESCAPED.sub("a", pattern)):
        return None, "the pattern is empty, calls itself, is possessive, fuzzy or conditional: write it without that"
    if wrong := wrong_with(pattern):
        return None, f"the pattern {wrong}"
    compiled = regex.compile(pattern, regex.IGNORECASE)
    return lambda text: compiled.search(text, timeout=_LINE_SECONDS) is not None, ""
