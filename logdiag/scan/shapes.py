"""What a log repeats, and what is left of it: the digest, with a receipt.

A line's shape is the line without its numbers. Shapes are counted block by block with operations that run in C, so the
cost does not depend on how many lines are alike. Only the first lines of a shape are looked at one by one; there the
filter rules say what kind of regular output it is, and the rules of progress whether it shows that the job moved on.

Shapes decide only what is shown and what counts as progress. The failure rules never ask them: they see every line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from logdiag.model import ALL_NINES, HEX, Block, CommonPrefix, Digest, Line, LineInFile, LinePlace
from logdiag.patterns import pattern_of
from logdiag.read.prefixes import parse_line
from logdiag.rules import Filter, RuleBook
from logdiag.scan.addresses import DIGITS
from logdiag.scan.lines import BlockLines
from logdiag.scan.looked import Looked, Patterns

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
    first: LinePlace = (0, 0)

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
                line = _parsed(originals[index][:_LONGEST_SAMPLE], block.prefix)
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
            line = _parsed(original[:_LONGEST_SHAPE], block.prefix)
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

    def counted(self) -> Iterator[tuple[Line, int, LinePlace]]:
        """Of each shape its first line, how often it came, and the place of that line."""
        for shape in self.shapes:
            yield _parsed(shape.sample, shape.prefix), shape.count, shape.first

    def kind_of(self, shape: _Shape) -> str:
        """What the receipt calls a shape's left-out lines: the filter that knows them, or progress, or just repeats."""
        dropping = self.book.filters_of(_parsed(shape.sample, shape.prefix))
        known = next((item.id for item in self.filters if item.id in dropping), None)
        return known or ("progress" if shape.progress else "repeats")


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


@lru_cache(maxsize=8)  # the first line of a shape is asked for twice
def _parsed(text: bytes, prefix: CommonPrefix | None) -> Line:
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
    counts: dict[LineInFile, int] = {}
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
