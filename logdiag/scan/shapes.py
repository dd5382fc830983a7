"""Counts lines that repeat, and makes the digest: the lines that are left, with a receipt of what was left out.

A line's shape is the line without its numbers. Shapes are counted block by block with operations that run in C, so the
cost does not depend on how many lines are alike. Only the first lines of a shape are looked at one by one; there the
filter rules say what kind of regular output it is, and the rules of progress whether it shows that the job moved on.

Shapes decide only what is shown and what counts as progress. The failure rules never ask them: they see every line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from logdiag.model import CommonPrefix, Digest, Line, LineInFile, LinePlace
from logdiag.patterns import pattern_of
from logdiag.read.prefixes import parse_line
from logdiag.rules import Filter, RuleBook
from logdiag.scan.hits import FREQUENT, RuleHits
from logdiag.scan.lines import DIGITS, BlockLines

CHECKPOINT_KINDS = frozenset({"checkpoint-begun", "checkpoint-saved", "checkpoint-loaded"})
"""The kinds of lines about a checkpoint."""

# Numbers in base 16, paths, and one or two words in quotes, which vary as numbers do; more words are said, as in a CSV
# file. All begin with one of a set of characters, which is found faster than either of several beginnings.
_VARYING = pattern_of(
    rb"[0-9a-f'\"/#=._-](?:(?<=\b[0-9a-f])(?:(?<=0)x[0-9a-fA-F]+|[0-9a-f]{5,}(?:-[0-9a-f]+)*\b)"
    rb"|(?<=')[^'\s]{0,200}(?:\s[^'\s]{0,200})?'|(?<=\")[^\"\s]{0,200}(?:\s[^\"\s]{0,200})?\""
    rb"|(?<=/)[\w.@%+-]+(?:/[\w.@%+-]+)+|(?<=[#=._-])[#=._-]{5,})"
)
# In a record, words in quotes are its message and do not vary.
# {"ts": 17.2, "node": "b-12", "state": "GONE", "note": "no pulse"}   (names and values; all but `b-12` stays)
_IN_QUOTES = pattern_of(rb'"((?:[^"\\]|\\.){0,200})"(:?)')
_JSON_MESSAGE = pattern_of(rb'"(?:message|msg)": ?"')
_LOGFMT_TEXT = pattern_of(rb'\b(?:msg|message|event|err|error|cause|reason|detail|text)="((?:[^"\\]|\\.){0,2000})"')
_MOST_SHAPES = 20_000
# Shapes that differ in more than names and numbers; each is looked at, which takes 100 microseconds, and is kept.
_MOST_LOOKED_AT = 8000
_LONGEST_SHAPE = 4096
_LONGEST_SAMPLE = 512
_FIRST_OF_SHAPE = 3
_LINES_OF_ONE_RANK = 20


@dataclass(slots=True)
class _Shape:
    """One shape: how often it came, how many of its lines were looked at (`seen`) and `kept`; whether it reports
    progress or a checkpoint, or is `regular` (a filter of this very job knows it); its first line (`sample`, `first`),
    and the `prefix` of that line's stream.

    It is `open` while more of its lines are worth looking at: the first few, or more if only one rank (`rank`) has
    printed them so far.
    """

    count: int = 0
    seen: int = 0
    kept: int = 0
    open: bool = True
    progress: bool = False
    checkpoint: bool = False
    regular: bool = False
    rank: int | None = None
    sample: bytes = b""
    prefix: CommonPrefix | None = None
    first: LinePlace = (0, 0)

    def look_at(self, rank: int | None) -> None:
        """Notes that a line of this rank was looked at."""
        of_one_rank = rank is not None and (self.seen == 0 or rank == self.rank)
        self.rank = rank if of_one_rank else None
        self.seen += 1
        self.open = not self.progress and self.seen < (_LINES_OF_ONE_RANK if of_one_rank else _FIRST_OF_SHAPE)


class Shapes:
    """Counts line shapes over all streams. `add` says which lines of a block are worth keeping, `hits` where a rule may
    fire. `known` has each shape met; `finer` the same by their text without names and quoted words, which several of
    them may share."""

    def __init__(self, book: RuleBook, filters: tuple[Filter, ...], hits: RuleHits | None = None) -> None:
        self.book, self.filters, self.hits = book, filters, hits or RuleHits(book)
        self.known: dict[bytes, _Shape] = {}
        self.finer: dict[bytes, _Shape] = {}
        self.shapes: list[_Shape] = []
        self.progress_keys: set[bytes] = set()
        self.checkpoint_keys: set[bytes] = set()
        self.unshaped = 0
        # First lines that any job may print show what the job was and stay; those of one job's own chatter do not.
        self._bound = frozenset(item.id for item in filters if item.job)

    @property
    def is_full(self) -> bool:
        """Whether no further shapes are added."""
        return len(self.known) >= _MOST_SHAPES or len(self.shapes) >= _MOST_LOOKED_AT

    def latest_unknown(self, lines: BlockLines, most: int) -> list[int]:
        """The indices of a block's latest lines, at most `most`, in order, whose shapes were not added any more; lines
        of shapes that come often are left out."""
        if not self.is_full:
            return []
        shapes, counts, known = lines.shapes, lines.counts, self.known
        backwards = range(len(shapes) - 1, -1, -1)
        rare = (at for at in backwards if shapes[at] not in known and counts[shapes[at]] < FREQUENT)
        return [*islice(rare, most)][::-1]

    def add(self, lines: BlockLines) -> list[int]:
        """The indices of a block's lines that are the first of their shapes, unless a filter of the job drops them."""
        counts = lines.counts
        wanted: set[bytes] = set()
        met = counts.keys() & self.known.keys()
        for key in met:
            shape = self.known[key]
            shape.count += counts[key]
            if shape.open:
                wanted.add(key)
        if self.is_full:
            self.unshaped += lines.count - sum(map(counts.__getitem__, met))
        else:
            wanted.update(counts.keys() - met)
        self.hits.settle(lines)
        return self._look_at(wanted, lines) if wanted else []

    def _look_at(self, wanted: set[bytes], lines: BlockLines) -> list[int]:
        """The indices of the lines of the wanted shapes that are to be kept; new shapes are added."""
        kept: list[int] = []
        for index, key in enumerate(lines.shapes):
            if key not in wanted:
                continue
            shape = self.known.get(key)
            if shape is None:
                shape = self._new(key, lines.counts[key], lines, index)
            if shape is not None and shape.open:
                line = _parsed(lines[index][:_LONGEST_SAMPLE], lines.block.prefix)
                shape.look_at(line.rank)
                # Lines of one shape differ in numbers, and those may be what a filter asks for.
                if not (shape.regular and self._is_regular(line)):
                    kept.append(index)
                    shape.kept += 1
            if shape is None or not shape.open:
                wanted.remove(key)
                if not wanted:
                    break
        return kept

    def _new(self, key: bytes, count: int, lines: BlockLines, index: int) -> _Shape | None:
        """Adds a shape by its first line; None where there are too many, or it is too long."""
        if self.is_full or len(key) > _LONGEST_SHAPE:
            self.unshaped += count
            return None
        position, _, original = lines.kept(index, _LONGEST_SHAPE)
        finer = _finer(original)
        shape = self.finer.get(finer)
        if shape is None:
            block = lines.block
            shape = self.finer[finer] = _Shape(first=(block.stream, position), prefix=block.prefix)
            self.shapes.append(shape)
            line = _parsed(original, block.prefix)
            shape.progress = self.book.is_progress(line)
            shape.checkpoint = not self.book.kinds_of([line])[0].isdisjoint(CHECKPOINT_KINDS)
            shape.regular = self._is_regular(line)
            shape.sample = original[:_LONGEST_SAMPLE]
        shape.count += count
        self.known[key] = shape
        if shape.progress:
            self.progress_keys.add(key)
        if shape.checkpoint:
            self.checkpoint_keys.add(key)
        return shape

    def _is_regular(self, line: Line) -> bool:
        """Whether a filter that is bound to this job drops a line."""
        return bool(self._bound) and not self._bound.isdisjoint(self.book.filters_of(line))

    def counted(self) -> Iterator[tuple[Line, int, LinePlace]]:
        """Of each shape its first line, how often it came, and the place (stream and position) of that line."""
        for shape in self.shapes:
            yield _parsed(shape.sample, shape.prefix), shape.count, shape.first


def words_of(text: str) -> bytes:
    """A line without numbers, names and paths: the words that two runs of a program have in common."""
    return _finer(text[:_LONGEST_SAMPLE].encode(errors="replace"))


def is_told(value: str) -> bool:
    """Whether a quoted text is of a record's message, and no name that varies: several words, or letters only."""
    return value.isalpha() or " " in value


def _finer(text: bytes) -> bytes:
    """A line without numbers, names and paths, but with the words of its message that stand in quotes."""
    wording = _JSON_MESSAGE.sub(b" ", text, count=1)
    if wording.startswith(b"{"):
        wording = _IN_QUOTES.sub(
            lambda match: match[1] if match[2] or is_told(match[1].decode(errors="replace")) else b"", wording
        )
    wording = _LOGFMT_TEXT.sub(rb" \1 ", wording) if b'="' in wording else wording
    return _VARYING.sub(b"", wording).translate(None, DIGITS).strip()


@lru_cache(maxsize=8)  # the first line of a shape is parsed twice
def _parsed(text: bytes, prefix: CommonPrefix | None) -> Line:
    return parse_line(text.decode(errors="replace"), prefix=prefix)


def filters_for(filters: Iterable[Filter], job: Mapping[str, str]) -> tuple[Filter, ...]:
    """The filters that hold for a job: those bound to no job, and those all of whose patterns its metadata match."""
    return tuple(
        item
        for item in filters
        if all(re.search(pattern, str(job.get(name, ""))) is not None for name, pattern in item.job.items())
    )


def digest(lines: Iterable[Line], shapes: Shapes, total_lines: int, total_bytes: int) -> Digest:
    """The kept lines with how many lines each stands for, and the receipt of what was dropped and why."""
    kept = tuple(lines)
    by_position = {line.place: line for line in kept}
    counts: dict[LineInFile, int] = {}
    dropped: Counter[str] = Counter()
    for shape in shapes.shapes:
        if shape.count <= shape.kept:
            continue
        line = by_position.get(shape.first)
        if line is not None:
            counts[line.in_file] = shape.count
        # It is told by the filter that knows it, if any.
        dropping = shapes.book.filters_of(_parsed(shape.sample, shape.prefix))
        known = next((item.id for item in shapes.filters if item.id in dropping), None)
        dropped[known or ("progress" if shape.progress else "repeats")] += shape.count - shape.kept
    if shapes.unshaped:
        dropped["too many shapes"] += shapes.unshaped
    # Windows around findings keep lines that their shapes would drop: they are counted as kept.
    surplus = sum(dropped.values()) - (total_lines - len(kept))
    for name, count in dropped.most_common():
        taken = min(max(surplus, 0), count)
        dropped[name] = count - taken
        surplus -= taken
    dropped["repeats"] += max(-surplus, 0)
    return Digest(kept, counts, {name: count for name, count in dropped.items() if count}, total_lines, total_bytes)
