"""The features of a line, from the structure of its log and without the words of any product.

`view_of` looks once at the kept lines of a log; `FEATURES` has each feature of a line, as a question.
"""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from logdiag.judge.suspects.wording import cause_by_wording
from logdiag.model import TROUBLE, Digest, Line
from logdiag.patterns import pattern_of
from logdiag.scan.shapes import is_told
from logdiag.scan.survey import Survey

# So many lines are looked at, and so many of them may be suspects.
_MOST_LINES = 1500
_MOST_CANDIDATES = 400
_LAST_LINES = 300
_LONGEST_TEXT = 600
# So many lines of one shape, over this share of the log, are regular output.
_REGULAR_COUNT = 4
_REGULAR_SPAN = 0.1
_FIRST_OF_SHAPE = 3
# A token in at most so many lines ties them together; a line counts at most so many ties.
_RARE = 6
_MOST_TIES = 20
_NEAR = 8
# So many words in a row, of this much of a line, are a quotation.
_QUOTE = 4
_LONGEST_QUOTE = 300

_LEVELS = {
    "TRACE": 1, "DEBUG": 1, "VERBOSE": 1, "INFO": 2, "NOTICE": 2, "NOTE": 2, "WARN": 3, "WARNING": 3, "ERROR": 4,
    "ERR": 4, "SEVERE": 4, "CRITICAL": 5, "CRIT": 5, "FATAL": 5, "PANIC": 5, "ALERT": 5, "EMERG": 5,
    "I": 2, "D": 1, "W": 3, "E": 4, "F": 5, "C": 5,
}  # fmt: skip
# The level's word or letter in the head of a line, in any brackets:
# 12:49:46.553  43/64 E op     w19 E0312 02:17:56.621633     | r02 | lanes  | warn: lane 2     [ERR ] level=error
_LEVEL = pattern_of(
    r"(?:^|[\s\[(<|=\"])(?:(?P<word>(?i:trace|debug|info|notice|warn|warning|error|err|severe|critical|crit|fatal|panic))"
    r"(?=[\s\])>|:;,\"!-]|$)|(?P<letter>[DIWEFC])(?=[ \])|:]|\d{4,8} ))"
)
_WARNING, _ERROR = 3, 4
_HEAD_CHARACTERS = 72
# So many errors, and so large a share of all lines.
_MANY_ERRORS, _NEARLY_ALL = 20, 0.95
# 2026-05-02 11:55:55 | r00 |    09:00:08.866   8/32 I    [fleet-1]    w19    [12:01]
_HEAD = pattern_of(
    r"(?:[\[(<|]*(?:[\d:.,/TZ+-]+|[A-Za-z]{0,12}[-_#]?\d[\d/:.,-]*|[DIWEFC]|(?i:trace|debug|info|notice|warn|warning"
    r"|error|err|severe|critical|fatal))[\])>|:]*[ \t|]+){1,8}"
)
# 43/64   w19   [fleet-1]   rank=3   <7>
_SPEAKER = pattern_of(r"[\[(<]?(?:[A-Za-z]{0,12}[-_#=]?\d{1,5})(?:/\d{1,5})?[\])>|:]*$")
_TIME = pattern_of(r"\d[\d:.,TZ+/-]*\d$|\d+$")
# 0x7f3c   4f9a11c0   'w-03'   "two words" (more words are said, as in a CSV file)   /data/part-7/x.bin   12
_VARYING = pattern_of(
    r"\b0x[0-9a-fA-F]+|\b(?=[a-f]*\d)[0-9a-f]{6,}\b|'[^'\s]{0,200}(?:\s[^'\s]{0,200})?'"
    r"|\"[^\"\s]{0,200}(?:\s[^\"\s]{0,200})?\"|(?:/[\w.@%+-]+){2,}|\d+"
)
# {"node": "b-12", "note": "no pulse"}: names and values of a record
_IN_QUOTES = pattern_of(r'"((?:[^"\\]|\\.){0,200})"(:?)')
_TOKEN = pattern_of(r"[A-Za-z_][\w-]{3,}|\d{3,}")
_PATH = pattern_of(r"(?:/[\w.@%+-]+){2,}")
_KEY_VALUE = pattern_of(r"\b\w+=\S")
# torch.cuda.OutOfMemoryError: ...   tern.graph.ShapeDisagreement: ...   std::bad_alloc
NAMED_FAULT = pattern_of(r"^(?:[A-Za-z_]\w*[.:]{1,2})*[A-Z][a-z]\w*[A-Z]\w*(?:: |$)")
#   File "train.py", line 3, in main      at com.example.Main(Main.java:3)      7: trainer::run
_FRAME = pattern_of(r"^\s*(?:File \"|at [\w.$<]|#?\d+:? +(?:0x|[\w:<]+::)|\.\.\. \d+ )|\.(?:py|cc|cpp|go|rs|java):\d+")
# exit code 9   status 81   signal 11   (rc=1)   code=137
_ENDING_NUMBER = pattern_of(r"(?i)\b(?:exit(?:ed|code)?|status|code|signal|rc|returned|with)[ :=(]{1,3}-?\d{1,3}\b")
# exit code 0   status 0   0 of 16 failed is none
_CLEAN_NUMBER = pattern_of(r"(?i)\b(?:exit(?:ed|code)?|status|code|rc|returned|with)[ :=(]{1,3}0\b(?![.x])")
# Python's and Java's words between the tracebacks of a chain: the cause stands before the first, after the second
_CHAINED = pattern_of(r"^(?:The above exception was|During handling of the above)|^Caused by: ")
# attempt 2 of 5   call 12/12   retry 3   (1/3)
_NUMBERED = pattern_of(r"\b\d{1,3} ?(?:/|of) ?\d{1,3}\b")
# rank 44   worker 3   seat 12   node-7
_NAMES_PEER = pattern_of(r"\b[A-Za-z]{2,12}[ -]\d{1,4}\b")
# rank 44   worker 3   seat 12   r02   w19: in a line's text
_PEER = pattern_of(r"\b(?P<word>[A-Za-z]{1,12})[ =#-]?0*(?P<number>\d{1,5})\b")
_PEER_WORDS = frozenset(["rank", "ranks", "worker", "peer", "seat", "process", "member", "trainer", "node", "r", "w"])


class Flags:
    """What some lines of a log have and the others have not, and how many of them stand between two indices."""

    def __init__(self, flags: Iterable[bool]) -> None:
        self._flags = list(flags)
        self._until = list(accumulate(self._flags, initial=0))

    def __getitem__(self, index: int) -> bool:
        return self._flags[index]

    def __iter__(self) -> Iterator[bool]:
        return iter(self._flags)

    def between(self, start: int, end: int = sys.maxsize) -> int:
        """How many lines from `start` on have it, `end` and those after it excluded."""
        most = len(self._flags)
        return self._until[min(end, most)] - self._until[min(max(start, 0), most)]

    def last_before(self, index: int) -> int:
        """The index of the last line before that has it; -1 for none."""
        return bisect_left(self._until, self._until[index]) - 1


class Around(NamedTuple):
    """For each line: a number for what stands before it, and one for what comes after."""

    before: Sequence[float]
    after: Sequence[float]


@dataclass(frozen=True)
class View:
    """The kept lines of a log as the features see them: columns of one length, in the order of the log.

    `left_out` has for each line how many more of its shape were not kept; `total` counts all lines read.
    """

    lines: Sequence[Line]
    left_out: Sequence[int]
    total: int
    _hits: dict[str, Flags] = field(default_factory=dict)

    @cached_property
    def bodies(self) -> list[str]:
        """Each line without its head."""
        return [body_of(line) for line in self.lines]

    @cached_property
    def shapes(self) -> list[str]:
        """Each line without what varies."""
        return [_shape(line.text[:_LONGEST_TEXT]) for line in self.lines]

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each shape was printed."""
        counts = Counter(self.shapes)
        for shape, more in zip(self.shapes, self.left_out, strict=True):
            counts[shape] += more
        return counts

    @cached_property
    def indices(self) -> dict[str, list[int]]:
        """The indices of each shape."""
        return _indices(self.shapes)

    @cached_property
    def levels(self) -> list[int]:
        """The level of each line, 0 (not known) to 5 (fatal). Where nearly every line is an error, the collector calls
        all that is on stderr one, and the level tells nothing."""
        levels = [_level(line) for line in self.lines]
        errors = sum(level >= _ERROR for level in levels)
        return [0] * len(levels) if errors >= max(_MANY_ERRORS, _NEARLY_ALL * len(levels)) else levels

    @cached_property
    def loudest(self) -> int:
        """The highest of the levels."""
        return max(self.levels, default=0)

    @cached_property
    def loud(self) -> dict[int, Flags]:
        """For each level: which lines are as loud or louder."""
        return {level: Flags(value >= level for value in self.levels) for level in range(6)}

    @cached_property
    def speakers(self) -> list[str]:
        """The process that printed each line: its rank, else the word in the column of the heads that numbers them."""
        heads = [line.text[:_HEAD_CHARACTERS].split()[:5] for line in self.lines]
        columns: list[Counter[str]] = [Counter() for _ in range(5)]
        for head in heads:
            for column, word in zip(columns, head, strict=False):
                if _SPEAKER.match(word) and not (_TIME.match(word) and "/" not in word):
                    column[word] += 1
        enough = len(self.lines) // 2
        best = next((k for k, column in enumerate(columns) if 2 <= len(column) <= enough < 2 * column.total()), None)
        if best is None:
            named = [f"{line.stream} {line.node or ''} {line.speaker}" for line in self.lines]
        else:
            words = [head[best] if len(head) > best else "" for head in heads]
            of_column = zip(self.lines, words, strict=True)
            named = [word if word in columns[best] else f"{line.stream}" for line, word in of_column]
        by_rank = zip(self.lines, named, strict=True)
        return [name if line.rank is None else f"{line.stream} {line.rank}" for line, name in by_rank]

    @cached_property
    def indices_of_speaker(self) -> dict[str, list[int]]:
        """The indices of each speaker's lines."""
        return _indices(self.speakers)

    @cached_property
    def indents(self) -> list[int]:
        """How far each line's words are indented."""
        return [len(body) - len(body.lstrip()) for body in self.bodies]

    def hits(self, pattern: re.Pattern[str]) -> Flags:
        """Which lines without their heads hold a pattern."""
        flags = self._hits.get(pattern.pattern)  # a text's hash is known, that of a pattern is made each time
        if flags is None:
            flags = self._hits[pattern.pattern] = Flags(pattern.search(body) is not None for body in self.bodies)
        return flags

    @cached_property
    def after(self) -> list[int]:
        """How many lines of its stream follow each line, kept or not."""
        ends = {line.stream: line.position for line in self.lines}
        return [ends[line.stream] - line.position for line in self.lines]

    @cached_property
    def left_out_after(self) -> list[int]:
        """How many of the lines that follow each line were not kept, for they repeat the job's ordinary output."""
        kept_after = Counter(line.stream for line in self.lines)
        left_out = []
        for line, after in zip(self.lines, self.after, strict=True):
            kept_after[line.stream] -= 1
            left_out.append(max(after - kept_after[line.stream], 0))
        return left_out

    @cached_property
    def regular(self) -> Flags:
        """Which lines are regular output."""
        is_regular = {shape: _is_regular(self, shape) for shape in self.indices}
        return Flags(is_regular[shape] for shape in self.shapes)

    @cached_property
    def rare(self) -> Flags:
        """Which lines' shapes were printed a few times only."""
        return Flags(self.counts[shape] <= _FIRST_OF_SHAPE for shape in self.shapes)

    @cached_property
    def last_work(self) -> int:
        """The index of the last line of the work; -1 for none: the last one of the most frequent regular shape, or the
        last one before a gap in the kept lines, whichever is later."""
        regular = (shape for shape, is_regular in zip(self.shapes, self.regular, strict=True) if is_regular)
        often = max(regular, key=self.counts.__getitem__, default="")
        for index in range(len(self.lines) - 1, 0, -1):
            line, before = self.lines[index], self.lines[index - 1]
            gap = line.stream == before.stream and line.position - before.position > 1
            if gap:
                return index - 1
            if self.shapes[index] == often:
                return index
        return -1

    @cached_property
    def _lines_of_token(self) -> dict[str, list[int]]:
        return _indices_of_all(self._tokens)

    @cached_property
    def _tokens(self) -> list[set[str]]:
        return [set(_TOKEN.findall(body)) for body in self.bodies]

    @cached_property
    def ties(self) -> Around:
        """How many other lines share a rare token with each line."""
        before, after = [], []
        for index, tokens in enumerate(self._tokens):
            lines_of = (self._lines_of_token[token] for token in tokens)
            tied = {line for lines in lines_of if 1 < len(lines) <= _RARE for line in lines}
            earlier = sum(line < index for line in tied)
            before.append(min(earlier, _MOST_TIES))
            after.append(min(len(tied) - earlier - (index in tied), _MOST_TIES))
        return Around(before, after)

    @cached_property
    def newness(self) -> list[float]:
        """The share of each line's tokens that no line had before."""
        return [
            sum(self._lines_of_token[token][0] == index for token in tokens) / max(len(tokens), 1)
            for index, tokens in enumerate(self._tokens)
        ]

    @cached_property
    def named_speakers(self) -> list[frozenset[str]]:
        """Which other speakers each line names."""
        known: dict[int, str] = {}
        words = set(_PEER_WORDS)
        for speaker in dict.fromkeys(self.speakers):  # in their order: of two with one number the first is meant
            match = re.search(r"([A-Za-z]*)[^A-Za-z\d]*(\d+)(?:/\d+)?\W*$", speaker)
            if match:
                known.setdefault(int(match[2]), speaker)
                words.add(match[1].lower())
        named = []
        for speaker, body in zip(self.speakers, self.bodies, strict=True):
            numbers = [int(match["number"]) for match in _PEER.finditer(body) if match["word"].lower() in words]
            named.append(frozenset(known.get(number, "") for number in numbers) - {speaker, ""})
        return named

    @cached_property
    def blamed(self) -> Counter[str]:
        """How many lines of others name each speaker."""
        return Counter(name for names in self.named_speakers for name in names)

    @cached_property
    def accused(self) -> Around:
        """For each rare line: how many rare lines before are by or about a speaker that it names, and how many after
        name its speaker, or one that it names."""
        named = self.named_speakers
        by_or_about = [names | {speaker} for speaker, names in zip(self.speakers, named, strict=True)]
        before, after = [0] * len(named), [0] * len(named)
        rare = [index for index, is_rare in enumerate(self.rare) if is_rare]
        seen: Counter[str] = Counter()
        for index in rare:
            before[index] = max((seen[name] for name in named[index]), default=0)
            seen.update(by_or_about[index])
        named_later: Counter[str] = Counter()
        for index in reversed(rare):
            after[index] = max(named_later[name] for name in by_or_about[index])
            named_later.update(named[index])
        return Around(before, after)

    @cached_property
    def quoted(self) -> Around:
        """For each line: the share of its words that an earlier, different line had in the same order, and the share
        that a later one repeats."""
        words = (shape[:_LONGEST_QUOTE].split() for shape in self.shapes)
        runs = [[" ".join(found[k : k + _QUOTE]) for k in range(len(found) - _QUOTE + 1)] for found in words]
        lines_of = _indices_of_all(runs)
        before, after = [], []
        for runs_of_line in runs:
            firsts, lasts = ([lines_of[run][end] for run in runs_of_line] for end in (0, -1))
            many = max(len(runs_of_line), 1)
            before.append(sum(runs[first] != runs_of_line for first in firsts) / many)
            after.append(sum(runs[last] != runs_of_line for last in lasts) / many)
        return Around(before, after)

    @cached_property
    def clean_ends(self) -> int:
        """How many of the last lines name an exit code of 0."""
        return self.hits(_CLEAN_NUMBER).between(len(self.lines) - _NEAR)

    @cached_property
    def bad_ends(self) -> int:
        """How many of the last lines name another exit code."""
        return self.hits(_ENDING_NUMBER).between(len(self.lines) - _NEAR) - self.clean_ends


def view_of(survey: Survey, digest: Digest) -> View:
    """The view of a log; if very many lines were kept, of those that may matter."""
    lines = _worth_a_look([line for line in survey.lines if line.text.strip()])
    counted = (digest.counts.get(line.in_file, 0) for line in lines)
    left_out = [max(count - _FIRST_OF_SHAPE, 0) for count in counted]
    return View(lines, left_out, max(survey.total_lines, len(lines), 1))


def _indices(values: Iterable[str]) -> dict[str, list[int]]:
    """The indices of each value."""
    return _indices_of_all([value] for value in values)


def _indices_of_all(values: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """The indices of each value, where several stand at one index."""
    indices: dict[str, list[int]] = {}
    for index, values_of_line in enumerate(values):
        for value in values_of_line:
            indices.setdefault(value, []).append(index)
    return indices


def candidates_of(view: View) -> list[int]:
    """The indices of lines that may be suspects: the first few and the last of each shape; of too many the
    loudest and latest."""
    wanted = sorted(
        index
        for shape, indices in view.indices.items()
        for index in {*indices[:_FIRST_OF_SHAPE], indices[-1]}
        if any(letter.isalpha() for letter in shape)
    )
    if len(wanted) <= _MOST_CANDIDATES:
        return wanted
    score = {k: 2 * view.levels[k] - math.log1p(view.after[k]) - view.regular[k] * 5 for k in wanted}
    return sorted(sorted(wanted, key=lambda index: -score[index])[:_MOST_CANDIDATES])


def _worth_a_look(lines: list[Line]) -> list[Line]:
    """At most `_MOST_LINES`: the first of each shape, what is loud, and the last lines come first."""
    if len(lines) <= _MOST_LINES:
        return lines
    chosen = set(range(len(lines) - _LAST_LINES, len(lines)))
    loud = [index for index, line in enumerate(lines) if line.level in TROUBLE]
    chosen.update(loud[:_LAST_LINES], loud[-_LAST_LINES:])
    seen: set[bytes] = set()
    new = []
    for index, line in enumerate(lines):
        # Bytes lose their digits ten times as fast as text does.
        shape = line.text[:_LONGEST_TEXT].encode(errors="replace").translate(None, b"0123456789")
        if shape not in seen:
            seen.add(shape)
            new.append(index)
    room = _MOST_LINES - len(chosen)
    chosen.update(new[: room // 2], new[-(room - room // 2) :])
    return [lines[index] for index in sorted(chosen)]


def _shape(text: str) -> str:
    if text.startswith("{"):
        text = _IN_QUOTES.sub(lambda match: match[1] if match[2] or is_told(match[1]) else "#", text)
    return _VARYING.sub("#", text).strip()


def body_of(line: Line) -> str:
    """A line's message without its head: times, levels, ranks and the like."""
    message = line.message[:_LONGEST_TEXT]
    head = _HEAD.match(message)
    return message[head.end() :] if head and head.end() < len(message) else message


def _level(line: Line) -> int:
    """The level of a line, 1 (debug) to 5 (fatal); 0 for none."""
    if line.level:
        return _LEVELS.get(line.level.upper(), 2)
    match = _LEVEL.search(line.text[:_HEAD_CHARACTERS])
    return _LEVELS[(match["word"] or match["letter"]).upper()] if match else 0


def _is_regular(view: View, shape: str) -> bool:
    """Whether lines of a shape come often and over much of the log, so that they are no burst."""
    indices, count = view.indices[shape], view.counts[shape]
    if count < _REGULAR_COUNT:
        return False
    first, last = view.lines[indices[0]], view.lines[indices[-1]]
    total = first.position + view.after[indices[0]] + 1
    spread = last.position - first.position if first.stream == last.stream else total
    return spread >= _REGULAR_SPAN * total or count - len(indices) > total / 10


def _log(value: float) -> float:
    return math.log1p(max(value, 0.0))


def _beside(values: Sequence[int], index: int) -> int:
    return values[index] if 0 <= index < len(values) else -1


def _gap(view: View, index: int, other_index: int) -> float:
    """The logarithm of the seconds between two lines; -1 where that is not known."""
    if not (0 <= index < len(view.lines) and 0 <= other_index < len(view.lines)):
        return -1.0
    first, second = view.lines[index].time, view.lines[other_index].time
    return -1.0 if first is None or second is None else _log(abs(second - first))


def _since_regular(view: View, index: int) -> float:
    last = view.regular.last_before(index)
    return _log(index - last) if last >= 0 else -1.0


def _alike(view: View, line_index: int) -> tuple[int, int]:
    """How many lines of this shape stand before and after."""
    return _before_and_after(view.indices[view.shapes[line_index]], line_index)


def _of_speaker(view: View, line_index: int) -> tuple[int, int]:
    """How many lines of the same speaker stand before and after."""
    return _before_and_after(view.indices_of_speaker[view.speakers[line_index]], line_index)


def _before_and_after(indices: Sequence[int], line_index: int) -> tuple[int, int]:
    index = bisect_left(indices, line_index)
    return index, len(indices) - index - 1


def _regular_of_speaker_after(view: View, index: int) -> int:
    indices = view.indices_of_speaker[view.speakers[index]]
    return sum(view.regular[later] for later in indices[bisect_right(indices, index) :][:50])


def _share(view: View, index: int, of: Callable[[str], bool]) -> float:
    """The share of a line's first characters for which `of` is true, 0 to 1."""
    body = view.bodies[index][:200]
    return sum(map(of, body)) / max(len(body), 1)


CAUSE_WORDS = "How much are its words those of a cause?"
FEATURES: Mapping[str, Callable[[View, int], float]] = {
    "How loud is the line, 0 (not known) to 5 (fatal)?": lambda v, i: v.levels[i],
    "How far is it below the log's loudest level?": lambda v, i: v.loudest - v.levels[i],
    "Which share of the lines is as loud or louder?": lambda v, i: v.loud[v.levels[i]].between(0) / len(v.lines),
    "How many lines before are as loud?": lambda v, i: _log(v.loud[max(v.levels[i], 1)].between(0, i)),
    "How many lines after are as loud?": lambda v, i: _log(v.loud[max(v.levels[i], 1)].between(i + 1)),
    "How many errors stand before?": lambda v, i: _log(v.loud[_ERROR].between(0, i)),
    "How many errors come after?": lambda v, i: _log(v.loud[_ERROR].between(i + 1)),
    "How many errors are among the next lines?": lambda v, i: v.loud[_ERROR].between(i + 1, i + 1 + _NEAR),
    "How many errors are among the lines just before?": lambda v, i: v.loud[_ERROR].between(i - _NEAR, i),
    "How many warnings or errors stand before?": lambda v, i: _log(v.loud[_WARNING].between(0, i)),
    "How many warnings or errors come after?": lambda v, i: _log(v.loud[_WARNING].between(i + 1)),
    "How loud is the line before?": lambda v, i: _beside(v.levels, i - 1),
    "How loud is the line after?": lambda v, i: _beside(v.levels, i + 1),
    "How often does its shape come?": lambda v, i: _log(v.counts[v.shapes[i]]),
    "How many lines of its shape came before?": lambda v, i: _log(_alike(v, i)[0]),
    "How many lines of its shape follow?": lambda v, i: _log(_alike(v, i)[1]),
    "Is it regular output?": lambda v, i: float(v.regular[i]),
    "How many speakers say it?": lambda v, i: _log(len({v.speakers[k] for k in v.indices[v.shapes[i]]})),
    "Where among the kept lines is it?": lambda v, i: i / len(v.lines),
    "How much regular output follows?": lambda v, i: _log(v.regular.between(i + 1) + v.left_out_after[i]),
    "How many lines ago was the last regular one?": _since_regular,
    "How many lines after the last of the work, or before it?": lambda v, i: math.copysign(
        _log(abs(i - v.last_work)), i - v.last_work
    ),
    "How many rare lines between the last of the work and it?": lambda v, i: (
        _log(v.rare.between(v.last_work + 1, i)) if i > v.last_work else -1.0
    ),
    "How long after the last of the work?": lambda v, i: _gap(v, v.last_work, i) * (1 if i > v.last_work else -1),
    "How many lines of others name its speaker?": lambda v, i: _log(v.blamed[v.speakers[i]]),
    "How many other speakers does it name?": lambda v, i: min(len(v.named_speakers[i]), 3),
    "How many rare lines before are by or about one that it names?": lambda v, i: _log(v.accused.before[i]),
    "How many rare lines after name its speaker, or one that it names?": lambda v, i: _log(v.accused.after[i]),
    "How many of the next lines are regular output?": lambda v, i: v.regular.between(i + 1, i + 1 + _NEAR),
    "How much does its speaker say after?": lambda v, i: _log(_of_speaker(v, i)[1]),
    "How much of what its speaker says after is regular?": lambda v, i: _log(_regular_of_speaker_after(v, i)),
    "How many rare lines stand just before?": lambda v, i: v.rare.between(i - _NEAR, i),
    "How many rare lines come just after?": lambda v, i: v.rare.between(i + 1, i + 1 + _NEAR),
    "How many earlier lines share a rare token?": lambda v, i: v.ties.before[i],
    "How many later lines share one (they quote it)?": lambda v, i: v.ties.after[i],
    "Which share of its tokens is new?": lambda v, i: v.newness[i],
    "Which share of it does a later, different line quote?": lambda v, i: v.quoted.after[i],
    "Which share of it quotes an earlier one?": lambda v, i: v.quoted.before[i],
    "How many named exceptions stand before?": lambda v, i: _log(v.hits(NAMED_FAULT).between(0, i)),
    "How many named exceptions come after?": lambda v, i: _log(v.hits(NAMED_FAULT).between(i + 1)),
    "Stands a chained traceback's link before?": lambda v, i: min(v.hits(_CHAINED).between(0, i), 3),
    "Does a chained traceback's link come after?": lambda v, i: min(v.hits(_CHAINED).between(i), 3),
    "How long was the pause before it?": lambda v, i: _gap(v, i - 1, i),
    "How long was the pause after it?": lambda v, i: _gap(v, i, i + 1),
    "How long did the log go on?": lambda v, i: _gap(v, i, len(v.lines) - 1),
    "How long since regular output?": lambda v, i: _gap(v, v.regular.last_before(i), i),
    "How far is it indented?": lambda v, i: min(v.indents[i], 20),
    "How much further is it indented than the line before?": lambda v, i: v.indents[i] - _beside(v.indents, i - 1),
    "How much further is the next indented?": lambda v, i: _beside(v.indents, i + 1) - v.indents[i],
    "Is it a frame of a traceback?": lambda v, i: float(v.hits(_FRAME)[i]),
    "How many frames stand just before?": lambda v, i: v.hits(_FRAME).between(i - 4, i),
    "How many frames come just after?": lambda v, i: v.hits(_FRAME).between(i + 1, i + 4),
    "How many frames stand in the lines before?": lambda v, i: _log(v.hits(_FRAME).between(i - 40, i)),
    "How many frames follow?": lambda v, i: _log(v.hits(_FRAME).between(i + 1, i + 40)),
    "Does it begin like the name of an exception?": lambda v, i: float(v.hits(NAMED_FAULT)[i]),
    "How long is it?": lambda v, i: _log(len(v.bodies[i])),
    "Which share of it is digits?": lambda v, i: _share(v, i, str.isdigit),
    "Which share is capitals?": lambda v, i: _share(v, i, str.isupper),
    "Which share is letters?": lambda v, i: _share(v, i, str.isalpha),
    "How many words has it?": lambda v, i: _log(v.bodies[i].count(" ")),
    "Does it name a path?": lambda v, i: float(v.hits(_PATH)[i]),
    "How many colons has it?": lambda v, i: min(v.bodies[i].count(": "), 5),
    "How many quotation marks has it?": lambda v, i: min(sum(map(v.bodies[i].count, "'\"")), 8),
    "How many key=value pairs has it?": lambda v, i: min(len(_KEY_VALUE.findall(v.bodies[i])), 8),
    "How many brackets has it?": lambda v, i: min(sum(map(v.bodies[i].count, "([")), 8),
    "Does it announce what follows, by a colon at its end?": lambda v, i: float(v.bodies[i].endswith(":")),
    "Does it name an exit code, status or signal?": lambda v, i: float(v.hits(_ENDING_NUMBER)[i]),
    "Does it name an exit code of 0?": lambda v, i: float(v.hits(_CLEAN_NUMBER)[i]),
    "How many of the last lines name an exit code of 0?": lambda v, i: v.clean_ends,
    "How many of the last lines name another exit code?": lambda v, i: v.bad_ends,
    "Is it one of a numbered row (attempt 2 of 5)?": lambda v, i: float(v.hits(_NUMBERED)[i]),
    "Does it name another (rank 44, seat 3)?": lambda v, i: float(v.hits(_NAMES_PEER)[i]),
    "Does the log end in regular output?": lambda v, i: v.regular.between(len(v.lines) - 5),
    "How loud are the log's last lines?": lambda v, i: max(v.levels[-6:]),
    CAUSE_WORDS: lambda v, i: cause_by_wording(v.bodies[i]),
}
"""Each feature of a line, as a question, and the function that answers it: of the view, and the line's index in it."""


def features_of(view: View, index: int) -> list[float]:
    """The answers of one line to all questions, in the order of `FEATURES`."""
    return [answer(view, index) for answer in FEATURES.values()]
