"""What a log repeats, and what is left of it: the digest, with a receipt.

A line's shape is the line without its numbers. Shapes are counted block by block with operations that run in C, so the
cost does not depend on how many lines are alike. Only the first lines of a shape are looked at one by one; there the
filter rules say what kind of regular output it is, and the rules of progress whether it shows that the job moved on.

Shapes decide only what is shown and what counts as progress. The failure rules never ask them: they see every line.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from logdiag.model import ALL_NINES, HEX, Block, CommonPrefix, Digest, Line, Sealed
from logdiag.patterns import pattern_of
from logdiag.read.prefixes import parse_line
from logdiag.rules import Filter, RuleBook
from logdiag.rules.matcher import Matcher, starts_of_lines
from logdiag.scan.addresses import DIGITS, without_numbers, words_before_numbers
from logdiag.scan.kinds_of_log import KindOfLog

CHECKPOINT_KINDS = frozenset({"checkpoint-begun", "checkpoint-saved", "checkpoint-loaded"})
"""The kinds of lines that tell of a checkpoint."""

# Numbers in base 16, quoted words and paths, which vary as numbers do. All begin with one of a set of characters, which
# is found faster than either of several beginnings.
_VARYING = pattern_of(
    rb"[0-9a-f'\"/#=._-](?:(?<=\b[0-9a-f])(?:(?<=0)x[0-9a-fA-F]+|[0-9a-f]{5,}(?:-[0-9a-f]+)*\b)"
    rb"|(?<=')[^']{0,200}'|(?<=\")[^\"]{0,200}\"|(?<=/)[\w.@%+-]+(?:/[\w.@%+-]+)+|(?<=[#=._-])[#=._-]{5,})"
)
# What a record says is no quoted word that varies.
# {"ts": 17.2, "node": "b-12", "state": "GONE", "note": "no pulse"}   (names and values; all but `b-12` stays)
_IN_QUOTES = pattern_of(rb'"((?:[^"\\]|\\.){0,200})"(:?)')
_JSON_MESSAGE = pattern_of(rb'"(?:message|msg)": ?"')
_LOGFMT_TEXT = pattern_of(rb'\b(?:msg|message|event|err|error|cause|reason|detail|text)="((?:[^"\\]|\\.){0,2000})"')
_MOST_SHAPES = 20_000
# Shapes that differ in more than names and numbers; each is looked at, which takes 100 microseconds, and is kept.
_MOST_LOOKED_AT = 8000
# What is known of shapes by the rules alone, and so for all logs.
_OF_RULES = ("settled", "told", "steady", "not_scanned", "found", "asked")
# A shape that comes so often in one block is worth asking whether rules can fire on it, in a log that is so long.
_FREQUENT, _WORTH_ASKING = 50, 2000
_LONGEST_SHAPE = 4096
_LONGEST_SAMPLE = 512
_FIRST_OF_SHAPE = 3
_LINES_OF_ONE_RANK = 20
# So many lines from either end of a block are found faster one by one.
_NEAR = 256
# Of a block of so few bytes all lines are split at once.
_SMALL = 1 << 17
# So many shapes in a block, and one in so many lines, may be lines that differ in numbers of base 16 only.
_MANY_SHAPES, _SHARE = 400, 32


class BlockLines:
    """The lines of a block by index. They are split only when one is asked for that is not near an end of the block.

    `count` is the number of lines, where it is known.
    """

    def __init__(self, block: Block | bytes) -> None:
        self.count = 0
        self._data = block.data if isinstance(block, Block) else block
        self._sealed = block.sealed if isinstance(block, Block) else Sealed()
        self._lines: list[bytes] | None = None
        self._first = [0]

    def __getitem__(self, index: int) -> bytes:
        if self._sealed.holds(index):
            return self._sealed.line(index)
        if self._lines is None and len(self._data) > _SMALL:
            if index < _NEAR:
                return self._from_start(index)
            if 0 < self.count - index < _NEAR:
                return self._from_end(self.count - index)
        self._lines = self._lines or self._data.split(b"\n")
        return self._lines[index]

    def _from_start(self, index: int) -> bytes:
        while len(self._first) <= index + 1:
            end = self._data.find(b"\n", self._first[-1])
            self._first.append(end + 1 if end >= 0 else len(self._data) + 1)
        return self._data[self._first[index] : self._first[index + 1] - 1]

    def _from_end(self, behind: int) -> bytes:
        end = start = len(self._data) + (not self._data.endswith(b"\n"))
        for _ in range(behind):
            end, start = start - 1, self._data.rfind(b"\n", 0, max(start - 1, 0)) + 1
        return self._data[start:end]

    def several(self, indices: Sequence[int], most: int | None = None) -> list[bytes]:
        """Some of the lines, of each all or at most so many bytes."""
        if self._sealed.places or not indices:
            return [self[index][:most] for index in indices]
        self._lines = every = self._lines or self._data.split(b"\n")
        return [every[index][:most] for index in indices]


Patterns = tuple[int, ...]
"""Numbers of patterns that are scanned for."""
Hits = list[tuple[int, Patterns]]
"""The index of each line of a block on which a rule may fire, and the patterns that were found there."""


class Looked(NamedTuple):
    """A block, the shapes of its lines, how often each comes, and the words `before` numbers of base 16 by which the
    shapes were told. `hits`, and of a log's first block `kind`, are None where nobody has looked for them."""

    block: Block
    shapes: list[bytes]
    counts: Mapping[bytes, int]
    before: tuple[bytes, ...] = ()
    hits: Hits | None = None
    kind: KindOfLog | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """For another process: each shape once."""
        places = {shape: at for at, shape in enumerate(self.counts)}
        shapes = array("I", map(places.__getitem__, self.shapes))
        return _received, (self.block, dict(self.counts), shapes, self.before, self.hits, self.kind)

    def found(self, lines: BlockLines, matcher: Matcher, settled: set[bytes]) -> Hits:
        """The hits on lines whose shapes are not settled: no rule can fire on those."""
        if settled.issuperset(self.counts):
            return []
        none_settled = settled.isdisjoint(self.counts)
        if self.hits is not None:
            return self.hits if none_settled else [hit for hit in self.hits if self.shapes[hit[0]] not in settled]
        if none_settled:
            return matcher.on_lines(self.block.data, starts_of_lines(self.block.data))
        asked = [index for index, shape in enumerate(self.shapes) if shape not in settled]
        data = b"\n".join(lines.several(asked))
        return [(asked[at], patterns) for at, patterns in matcher.on_lines(data, starts_of_lines(data))]


def _received(block: Block, counts: dict[bytes, int], places: Iterable[int], *found: Any) -> Looked:
    return Looked(block, list(map(list(counts).__getitem__, places)), counts, *found)


def looked_through(blocks: Generator[Block, int | None, None]) -> Iterator[Looked]:
    """Blocks of one log with the shapes of their lines."""
    block = next(blocks, None)
    before: tuple[bytes, ...] = ()
    while block is not None:
        looked = _looked(block, before)
        many = len(looked.counts) > max(_MANY_SHAPES, len(looked.shapes) // _SHARE)
        if many and (new := words_before_numbers(block.data, before)):
            before += new
            looked = _looked(block, before)
        yield looked
        try:
            block = blocks.send(len(looked.shapes))
        except StopIteration:
            return


def _looked(block: Block, before: tuple[bytes, ...]) -> Looked:
    shapes = without_numbers(block.data, before).split(b"\n")
    if not shapes[-1] and block.data.endswith(b"\n"):
        shapes.pop()
    return Looked(block, shapes, Counter(shapes), before)


@dataclass(slots=True)
class _Shape:
    """One shape: how often it came, how many of its lines were looked at and kept, whether it tells of progress, of
    a checkpoint, or is `regular` (a filter of this very job knows it), its first line, and the `prefix` of that line's
    stream.

    It is `open` while more of its lines are worth looking at: the first few, more while only one rank prints them.
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
    first: tuple[int, int] = (0, 0)

    def look_at(self, rank: int | None) -> None:
        """Notes that a line of this rank was looked at."""
        lonely = rank is not None and (self.seen == 0 or rank == self.rank)
        self.rank = rank if lonely else None
        self.seen += 1
        self.open = not self.progress and self.seen < (_LINES_OF_ONE_RANK if lonely else _FIRST_OF_SHAPE)


@dataclass
class Shapes:
    """Counts line shapes over all streams. `add` says which lines of a block are worth keeping. Of frequent shapes
    `settled` are those of which no rule can say anything, whatever numbers their lines hold. On those `told` only these
    patterns may match, which mark frames of tracebacks and calls of collectives. Of `steady` ones rules may fire, but
    what is `found` on a line is found on all that differ from it in digits only. On those `not_scanned`, which are all
    these, no rule needs to be looked for."""

    book: RuleBook
    filters: tuple[Filter, ...]
    known: dict[bytes, _Shape] = field(default_factory=dict)
    finer: dict[bytes, _Shape] = field(default_factory=dict)
    shapes: list[_Shape] = field(default_factory=list)
    progress_keys: set[bytes] = field(default_factory=set)
    checkpoint_keys: set[bytes] = field(default_factory=set)
    settled: set[bytes] = field(default_factory=set)
    told: dict[bytes, Patterns] = field(default_factory=dict)
    steady: set[bytes] = field(default_factory=set)
    not_scanned: set[bytes] = field(default_factory=set)
    found: dict[bytes, Patterns] = field(default_factory=dict)
    asked: set[bytes] = field(default_factory=set)
    total: int = 0
    unshaped: int = 0
    bound: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        # The first lines of what every job may print tell what the job was; those of one job's own chatter do not.
        self.bound = frozenset(item.id for item in self.filters if item.job)

    @property
    def is_full(self) -> bool:
        """Whether no further shapes are told apart."""
        return len(self.known) >= _MOST_SHAPES or len(self.shapes) >= _MOST_LOOKED_AT

    def latest_unknown(self, looked: Looked, most: int) -> list[int]:
        """The latest lines of a block whose shapes are not told apart any more, in order; none that come often."""
        if not self.is_full:
            return []
        shapes, counts, known = looked.shapes, looked.counts, self.known
        backwards = range(len(shapes) - 1, -1, -1)
        rare = (at for at in backwards if shapes[at] not in known and counts[shapes[at]] < _FREQUENT)
        return [*islice(rare, most)][::-1]

    def apart(self) -> Shapes:
        """Others that count for themselves; what rules can say of a line is the same for all."""
        known = {name: getattr(self, name) for name in _OF_RULES}
        return Shapes(self.book, self.filters, **known)

    def add(self, looked: Looked, originals: BlockLines, position: int) -> list[int]:
        """The indices of those of a block's lines that are the first of their shapes and not left out by a filter of
        this very job.

        `position` is the place of the block's first line in its stream.
        """
        counts = looked.counts
        wanted: set[bytes] = set()
        met = counts.keys() & self.known.keys()
        for key in met:
            shape = self.known[key]
            shape.count += counts[key]
            if shape.open:
                wanted.add(key)
        if self.is_full:
            self.unshaped += len(looked.shapes) - sum(map(counts.__getitem__, met))
        else:
            wanted.update(counts.keys() - met)
        self.settle(looked)
        return self._look_at(wanted, looked, originals, position) if wanted else []

    def settle(self, looked: Looked) -> None:
        """Asks of each shape that is frequent in a block once whether a rule can fire on it, in a long log."""
        self.total += len(looked.shapes)
        for key in [key for key, count in looked.counts.items() if count >= _FREQUENT and self.total > _WORTH_ASKING]:
            if key not in self.asked and len(self.asked) < _MOST_SHAPES:
                self.asked.add(key)
                patterns = self.book.patterns_on_shape(key)
                fires = self.book.marks_of(patterns).fire
                if fires and (HEX in key or not self.book.take_all_digits(patterns)):
                    continue
                if not patterns:
                    self.settled.add(key)
                elif fires:
                    self.steady.add(key)
                else:
                    self.told[key] = patterns
                self.not_scanned.add(key)

    def hits_in(self, looked: Looked, lines: BlockLines) -> dict[Patterns, list[int]]:
        """The lines of a block on which patterns may match, by these patterns; each line stands with all of them."""
        hits: dict[Patterns, list[int]] = {}
        for at, patterns in looked.found(lines, self.book.matcher, self.not_scanned):
            hits.setdefault(patterns, []).append(at)
        met, steady = looked.counts.keys(), list[int]()
        places = {shape: hits.setdefault(self.told[shape], []) for shape in met & self.told.keys()}
        places |= dict.fromkeys(met & self.steady, steady)
        for at, shape in enumerate(looked.shapes) if places else ():
            if shape in places:
                places[shape].append(at)
        for at, patterns in zip(steady, self._found_on(lines.several(steady)), strict=True):
            if patterns:
                hits.setdefault(patterns, []).append(at)
        return {patterns: sorted(each) for patterns, each in hits.items()}

    def _found_on(self, texts: Sequence[bytes]) -> list[Patterns]:
        """The patterns that are found on lines of steady shapes."""
        alike = [text.translate(ALL_NINES) for text in texts]
        for nines, text in dict(zip(alike, texts, strict=True)).items():
            if nines not in self.found:
                self.found[nines] = next((told for _, told in self.book.matcher.on_lines(text, (0, len(text) + 1))), ())
        patterns = [self.found[nines] for nines in alike]
        if len(self.found) >= _MOST_SHAPES:
            self.not_scanned -= self.steady
            self.steady.clear()
        return patterns

    def _look_at(self, wanted: set[bytes], looked: Looked, originals: BlockLines, position: int) -> list[int]:
        """Which lines of the wanted shapes to keep; shapes not met before are judged."""
        block = looked.block
        kept: list[int] = []
        for index, key in enumerate(looked.shapes):
            if key not in wanted:
                continue
            shape = self.known.get(key)
            if shape is None:
                shape = self._new(key, looked.counts[key], originals[index], block, position + index)
            if shape is not None and shape.open:
                line = _parsed(originals[index], _LONGEST_SAMPLE, block.prefix)
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

    def _new(self, key: bytes, count: int, original: bytes, block: Block, position: int) -> _Shape | None:
        if self.is_full or len(key) > _LONGEST_SHAPE:
            self.unshaped += count
            return None
        finer = _finer(original[:_LONGEST_SHAPE])
        shape = self.finer.get(finer)
        if shape is None:
            shape = self.finer[finer] = _Shape(first=(block.stream, position), prefix=block.prefix)
            self.shapes.append(shape)
            line = _parsed(original, _LONGEST_SHAPE, block.prefix)
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
        return bool(self.bound) and not self.bound.isdisjoint(self.book.filters_of(line))

    def counted(self) -> Iterator[tuple[Line, int, tuple[int, int]]]:
        """Of each shape its first line, how often it came, and the place of that line."""
        for shape in self.shapes:
            yield _parsed(shape.sample, _LONGEST_SAMPLE, shape.prefix), shape.count, shape.first

    def kind_of(self, shape: _Shape) -> str:
        """What the receipt calls a shape's left-out lines: the filter that knows them, or progress, or just repeats."""
        dropping = self.book.filters_of(_parsed(shape.sample, _LONGEST_SAMPLE, shape.prefix))
        known = next((item.id for item in self.filters if item.id in dropping), None)
        return known or ("progress" if shape.progress else "repeats")


@dataclass
class KeptLines:
    """The lines of one stream that are worth keeping, by position: the earliest ones, and the latest when there are
    too many."""

    most: int = 12_000
    early: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    # Of a plain dict the oldest entry is found ever more slowly, the more were taken out before it.
    late: OrderedDict[int, tuple[int, bytes]] = field(default_factory=OrderedDict)
    complete: bool = True

    def keep(self, position: int, number: int, text: bytes) -> None:
        """Remembers a line; `number` is its own in the file."""
        if position in self.early:
            return
        if len(self.early) < self.most:
            self.early[position] = (number, text)
            return
        self.late[position] = (number, text)
        if len(self.late) > self.most:
            self.late.popitem(last=False)
            self.complete = False

    def lines(self) -> list[tuple[int, int, bytes]]:
        """(position, number, text) in order."""
        return sorted((position, *line) for position, line in (self.early | self.late).items())


def words_of(text: str) -> bytes:
    """The words of a line without numbers, names and paths: what two runs of a program have in common."""
    return _finer(text[:_LONGEST_SAMPLE].encode(errors="replace"))


def is_told(value: str) -> bool:
    """Whether what a record has in quotes is said, and no name that varies: words, or one word of letters."""
    return value.isalpha() or " " in value


def _finer(text: bytes) -> bytes:
    said = _JSON_MESSAGE.sub(b" ", text, count=1)
    if said.startswith(b"{"):
        said = _IN_QUOTES.sub(
            lambda found: found[1] if found[2] or is_told(found[1].decode(errors="replace")) else b"", said
        )
    said = _LOGFMT_TEXT.sub(rb" \1 ", said) if b'="' in said else said
    return _VARYING.sub(b"", said).translate(None, DIGITS).strip()


def _parsed(text: bytes, most: int, prefix: CommonPrefix | None) -> Line:
    return _parsed_now(text[:most], prefix)


@lru_cache(maxsize=8)  # the first line of a shape is asked for twice
def _parsed_now(text: bytes, prefix: CommonPrefix | None) -> Line:
    return parse_line(text.decode(errors="replace"), prefix=prefix)


def filters_for(filters: Iterable[Filter], job: Mapping[str, str]) -> tuple[Filter, ...]:
    """The filters that hold for a job: those bound to nothing, and those whose every word its metadata match."""
    return tuple(
        item
        for item in filters
        if all(re.search(pattern, str(job.get(name, ""))) is not None for name, pattern in item.job.items())
    )


def digest(lines: Iterable[Line], shapes: Shapes, total_lines: int, total_bytes: int) -> Digest:
    """The kept lines with what each stands for, and the receipt of what was dropped and why."""
    kept = tuple(lines)
    by_position = {line.place: line for line in kept}
    counts: dict[tuple[str, int], int] = {}
    dropped: Counter[str] = Counter()
    for shape in shapes.shapes:
        if shape.count <= shape.kept:
            continue
        line = by_position.get(shape.first)
        if line is not None:
            counts[line.in_file] = shape.count
        dropped[shapes.kind_of(shape)] += shape.count - shape.kept
    if shapes.unshaped:
        dropped["too many shapes"] += shapes.unshaped
    # Windows around findings keep lines that their shape alone would not: those are not dropped.
    surplus = sum(dropped.values()) - (total_lines - len(kept))
    for name, count in dropped.most_common():
        taken = min(max(surplus, 0), count)
        dropped[name] = count - taken
        surplus -= taken
    dropped["repeats"] += max(-surplus, 0)
    return Digest(kept, counts, {name: count for name, count in dropped.items() if count}, total_lines, total_bytes)
