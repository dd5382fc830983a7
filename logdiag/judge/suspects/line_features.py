"""The features of a line, from the structure of its log and without the words of any product.

`view_of` looks once at the kept lines of a log; `FEATURES` has each feature of a line, with its question in a sentence.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from logdiag.judge.suspects.wording import cause_by_wording
from logdiag.model import Digest, Line
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
_HEAD_CHARACTERS = 72
# 2026-05-02 11:55:55 | r00 |    09:00:08.866   8/32 I    [fleet-1]    w19    [12:01]
_HEAD = pattern_of(
    r"(?:[\[(<|]*(?:[\d:.,/TZ+-]+|[A-Za-z]{0,12}[-_#]?\d[\d/:.,-]*|[DIWEFC]|(?i:trace|debug|info|notice|warn|warning"
    r"|error|err|severe|critical|fatal))[\])>|:]*[ \t|]+){1,8}"
)
# 43/64   w19   [fleet-1]   rank=3   <7>
_SPEAKER = pattern_of(r"[\[(<]?(?:[A-Za-z]{0,12}[-_#=]?\d{1,5})(?:/\d{1,5})?[\])>|:]*$")
_TIME = pattern_of(r"\d[\d:.,TZ+/-]*\d$|\d+$")
_VARYING = pattern_of(
    r"\b0x[0-9a-fA-F]+|\b(?=[a-f]*\d)[0-9a-f]{6,}\b|'[^']{0,200}'|\"[^\"]{0,200}\"|(?:/[\w.@%+-]+){2,}|\d+"
)
# {"node": "b-12", "note": "no pulse"}: names and values of a record
_IN_QUOTES = pattern_of(r'"((?:[^"\\]|\\.){0,200})"(:?)')
_TOKEN = pattern_of(r"[A-Za-z_][\w-]{3,}|\d{3,}")
_PATH = pattern_of(r"(?:/[\w.@%+-]+){2,}")
_KEY_VALUE = pattern_of(r"\b\w+=\S")
# torch.cuda.OutOfMemoryError: ...   tern.graph.ShapeDisagreement: ...   std::bad_alloc
_NAMED_FAULT = pattern_of(r"^(?:[A-Za-z_]\w*[.:]{1,2})*[A-Z][a-z]\w*[A-Z]\w*(?:: |$)")
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


@dataclass(frozen=True)
class View:
    """The kept lines of a log as the features see them: columns of one length, in the order of the log.

    `left_out` has for each line how many more of its shape were not kept; `total` counts all lines read.
    """

    lines: Sequence[Line]
    left_out: Sequence[int]
    total: int

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
        """The level of each line, 0 (not known) to 5 (fatal)."""
        return [_level(line) for line in self.lines]

    @cached_property
    def loudest(self) -> int:
        """The highest of the levels."""
        return max(self.levels, default=0)

    @cached_property
    def loud_until(self) -> dict[int, list[int]]:
        """For each level: how many lines before each index are as loud, and last of all lines."""
        return {level: _until([value >= level for value in self.levels]) for level in (1, 2, 3, 4, 5)}

    @cached_property
    def speakers(self) -> list[str]:
        """The speaker of each line: the process that printed it."""
        return _speakers(self.lines)

    @cached_property
    def indices_of_speaker(self) -> dict[str, list[int]]:
        """The indices of each speaker's lines."""
        return _indices(self.speakers)

    @cached_property
    def speakers_of_shape(self) -> dict[str, int]:
        """How many speakers print each shape."""
        return {shape: len({self.speakers[index] for index in found}) for shape, found in self.indices.items()}

    @cached_property
    def indents(self) -> list[int]:
        """How far each line's words are indented."""
        return [len(body) - len(body.lstrip()) for body in self.bodies]

    @cached_property
    def frames(self) -> list[bool]:
        """Which lines are frames of a traceback."""
        return [_FRAME.search(body) is not None for body in self.bodies]

    @cached_property
    def after(self) -> list[int]:
        """How many lines of its stream follow each line, kept or not."""
        ends = {line.stream: line.position for line in self.lines}
        return [ends[line.stream] - line.position for line in self.lines]

    @cached_property
    def kept_after(self) -> list[int]:
        """How many of the lines that follow each line were kept."""
        kept = Counter(line.stream for line in self.lines)
        left = []
        for line in self.lines:
            kept[line.stream] -= 1
            left.append(kept[line.stream])
        return left

    @cached_property
    def regular(self) -> list[bool]:
        """Which lines are regular output."""
        is_regular = {shape: _is_regular(self, shape) for shape in self.indices}
        return [is_regular[shape] for shape in self.shapes]

    @cached_property
    def regular_until(self) -> list[int]:
        """How many regular lines stand before each index, and last of all lines."""
        return _until(self.regular)

    @cached_property
    def rare(self) -> list[bool]:
        """Which lines' shapes were printed a few times only."""
        return [self.counts[shape] <= _FIRST_OF_SHAPE for shape in self.shapes]

    @cached_property
    def rare_until(self) -> list[int]:
        """How many rare lines stand before each index, and last of all lines."""
        return _until(self.rare)

    @cached_property
    def last_work(self) -> int:
        """The index of the last line of the work; -1 for none."""
        return _last_work(self)

    @cached_property
    def ties(self) -> tuple[list[int], list[int], list[float]]:
        """For each line: how many earlier and later lines share a rare token with it, and the share of its tokens that
        no line had before."""
        return _ties(self.bodies)

    @cached_property
    def named_speakers(self) -> list[frozenset[str]]:
        """Which other speakers each line names."""
        return _named_speakers(self.speakers, self.bodies)

    @cached_property
    def blamed(self) -> Counter[str]:
        """How many lines of others name each speaker."""
        return Counter(name for names in self.named_speakers for name in names)

    @cached_property
    def accused(self) -> tuple[list[int], list[int]]:
        """For each rare line: how many rare lines before are by or about a speaker that it names, and how many after
        name its speaker, or one that it names."""
        return _accused(self.speakers, self.named_speakers, self.rare)

    @cached_property
    def quotations(self) -> tuple[list[float], list[float]]:
        """For each line: the share of its words that a later, different line repeats in the same order, and the share
        that an earlier one had."""
        return _quotations(self.shapes)

    @cached_property
    def named_until(self) -> list[int]:
        """How many named exceptions stand before each index, and last of all lines."""
        return _until([_NAMED_FAULT.search(body) is not None for body in self.bodies])

    @cached_property
    def chained_until(self) -> list[int]:
        """How many links of chained tracebacks stand before each index, and last of all lines."""
        return _until([_CHAINED.search(body) is not None for body in self.bodies])

    @cached_property
    def clean_ends(self) -> int:
        """How many of the last lines name an exit code of 0."""
        return sum(_CLEAN_NUMBER.search(body) is not None for body in self.bodies[-_NEAR:])

    @cached_property
    def bad_ends(self) -> int:
        """How many of the last lines name another exit code."""
        last = self.bodies[-_NEAR:]
        return sum(_ENDING_NUMBER.search(body) is not None and _CLEAN_NUMBER.search(body) is None for body in last)


def view_of(survey: Survey, digest: Digest) -> View:
    """The view of a log; if very many lines were kept, of those that may matter."""
    lines = _worth_a_look([line for line in survey.lines if line.text.strip()], digest)
    counted = (digest.counts.get(line.in_file, 0) for line in lines)
    left_out = [max(count - _FIRST_OF_SHAPE, 0) for count in counted]
    return View(lines, left_out, max(survey.total_lines, len(lines), 1))


def _indices(values: Sequence[str]) -> dict[str, list[int]]:
    """The indices of each value."""
    indices: dict[str, list[int]] = {}
    for index, value in enumerate(values):
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


def _worth_a_look(lines: list[Line], digest: Digest) -> list[Line]:
    """At most `_MOST_LINES`: the first of each shape, what is loud, and the last lines come first."""
    if len(lines) <= _MOST_LINES:
        return lines
    chosen = set(range(len(lines) - _LAST_LINES, len(lines)))
    loud = [index for index, line in enumerate(lines) if line.level in ("ERROR", "CRITICAL", "FATAL", "SEVERE")]
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


def _speakers(lines: Sequence[Line]) -> list[str]:
    """The speaker of each line: its rank, else the word in the column of the heads that numbers processes."""
    columns: list[Counter[str]] = [Counter() for _ in range(5)]
    heads = [line.text[:_HEAD_CHARACTERS].split()[:5] for line in lines]
    for head in heads:
        for column, word in zip(columns, head, strict=False):
            if _SPEAKER.match(word) and not (_TIME.match(word) and "/" not in word):
                column[word] += 1
    enough = len(lines) // 2
    best = next((k for k, column in enumerate(columns) if 2 <= len(column) <= enough < 2 * column.total()), None)
    ranks = [f"{line.stream} {line.rank}" if line.rank is not None else "" for line in lines]
    if best is None:
        return [
            rank or f"{line.stream} {line.node or ''} {line.speaker}" for rank, line in zip(ranks, lines, strict=True)
        ]
    return [
        rank or (head[best] if len(head) > best and head[best] in columns[best] else f"{line.stream}")
        for rank, head, line in zip(ranks, heads, lines, strict=True)
    ]


def _is_regular(view: View, shape: str) -> bool:
    """Whether lines of a shape come often and over much of the log, so that they are no burst."""
    indices, count = view.indices[shape], view.counts[shape]
    if count < _REGULAR_COUNT:
        return False
    first, last = view.lines[indices[0]], view.lines[indices[-1]]
    total = first.position + view.after[indices[0]] + 1
    spread = last.position - first.position if first.stream == last.stream else total
    return spread >= _REGULAR_SPAN * total or count - len(indices) > total / 10


def _ties(bodies: Sequence[str]) -> tuple[list[int], list[int], list[float]]:
    tokens = [set(_TOKEN.findall(body)) for body in bodies]
    lines_of: dict[str, list[int]] = {}
    for index, tokens_of_line in enumerate(tokens):
        for token in tokens_of_line:
            lines_of.setdefault(token, []).append(index)
    before, after, newness = [], [], []
    for index, tokens_of_line in enumerate(tokens):
        rare = (lines_of[token] for token in tokens_of_line if 1 < len(lines_of[token]) <= _RARE)
        tied = {line for lines in rare for line in lines}
        earlier = sum(line < index for line in tied)
        before.append(min(earlier, _MOST_TIES))
        after.append(min(len(tied) - earlier - (index in tied), _MOST_TIES))
        newness.append(sum(lines_of[token][0] == index for token in tokens_of_line) / max(len(tokens_of_line), 1))
    return before, after, newness


def _named_speakers(speakers: Sequence[str], bodies: Sequence[str]) -> list[frozenset[str]]:
    known: dict[int, str] = {}
    words = set(_PEER_WORDS)
    for speaker in dict.fromkeys(speakers):  # in their order: of two with one number the first is meant
        match = re.search(r"([A-Za-z]*)[^A-Za-z\d]*(\d+)(?:/\d+)?\W*$", speaker)
        if match:
            known.setdefault(int(match[2]), speaker)
            words.add(match[1].lower())
    named = []
    for speaker, body in zip(speakers, bodies, strict=True):
        numbers = [int(match["number"]) for match in _PEER.finditer(body) if match["word"].lower() in words]
        named.append(frozenset(known.get(number, "") for number in numbers) - {speaker, ""})
    return named


def _accused(
    speakers: Sequence[str], named: Sequence[frozenset[str]], rare: Sequence[bool]
) -> tuple[list[int], list[int]]:
    by_or_about = [
        names | {speaker} if is_rare else frozenset()
        for speaker, names, is_rare in zip(speakers, named, rare, strict=True)
    ]
    before, after = [], []
    seen: Counter[str] = Counter()
    for index, names in enumerate(named):
        before.append(max((seen[name] for name in names), default=0) if rare[index] else 0)
        seen.update(by_or_about[index])
    named_later: Counter[str] = Counter()
    for index in reversed(range(len(named))):
        after.append(max(named_later[name] for name in by_or_about[index]) if rare[index] else 0)
        if rare[index]:
            named_later.update(named[index])
    return before, after[::-1]


def _last_work(view: View) -> int:
    """The index of the last line of the most frequent regular shape, or of the last one after which lines were left
    out; -1 for none."""
    regular = (shape for shape, is_regular in zip(view.shapes, view.regular, strict=True) if is_regular)
    often = max(regular, key=view.counts.__getitem__, default="")
    for index in range(len(view.lines) - 1, 0, -1):
        line, before = view.lines[index], view.lines[index - 1]
        gap = line.stream == before.stream and line.position - before.position > 1
        if (often and view.shapes[index] == often) or gap:
            return index - gap
    return -1


def _quotations(shapes: Sequence[str]) -> tuple[list[float], list[float]]:
    runs = []
    for shape in shapes:
        words = shape[:_LONGEST_QUOTE].split()
        runs.append([" ".join(words[index : index + _QUOTE]) for index in range(len(words) - _QUOTE + 1)])
    whole = [hash(tuple(run)) for run in runs]
    first: dict[str, tuple[int, int]] = {}
    last: dict[str, tuple[int, int]] = {}
    for index, runs_of_line in enumerate(runs):
        for run in runs_of_line:
            first.setdefault(run, (index, whole[index]))
            last[run] = (index, whole[index])
    quoted, quotes = [], []
    for index, runs_of_line in enumerate(runs):
        many = max(len(runs_of_line), 1)
        quoted.append(sum(last[run][0] > index and last[run][1] != whole[index] for run in runs_of_line) / many)
        quotes.append(sum(first[run][0] < index and first[run][1] != whole[index] for run in runs_of_line) / many)
    return quoted, quotes


def _until(flags: Sequence[bool]) -> list[int]:
    """How many flags are set before each index, and last of all."""
    return list(accumulate(flags, initial=0))


def _log(value: float) -> float:
    return math.log1p(max(value, 0.0))


def _signed(value: float) -> float:
    return math.copysign(_log(abs(value)), value)


def _beside(values: Sequence[int], index: int) -> int:
    return values[index] if 0 <= index < len(values) else -1


def _gap(view: View, index: int, other_index: int) -> float:
    """The logarithm of the seconds between two lines; -1 where that is not known."""
    if not (0 <= index < len(view.lines) and 0 <= other_index < len(view.lines)):
        return -1.0
    first, second = view.lines[index].time, view.lines[other_index].time
    return -1.0 if first is None or second is None else _log(abs(second - first))


def _left_out_after(view: View, index: int) -> int:
    """How many lines after this one were not kept, for they repeat the job's ordinary output."""
    return max(view.after[index] - view.kept_after[index], 0)


def _lines_of_speaker(view: View, line_index: int) -> tuple[int, int]:
    """How many lines of the same speaker stand before and after."""
    indices = view.indices_of_speaker[view.speakers[line_index]]
    index = bisect_left(indices, line_index)
    return index, len(indices) - index - 1


def _regular_of_speaker_after(view: View, index: int) -> int:
    indices = view.indices_of_speaker[view.speakers[index]]
    return sum(view.regular[later] for later in indices[bisect_right(indices, index) :][:50])


def _last_regular(view: View, index: int) -> int:
    """The index of the last regular line before; -1 for none."""
    return bisect_left(view.regular_until, view.regular_until[index]) - 1 if view.regular_until[index] else -1


def _loud(view: View, level: int, start: int, end: int) -> int:
    """How many lines of a level or above stand between two indices."""
    counted = view.loud_until[level]
    return counted[min(end, len(view.lines))] - counted[max(min(start, len(view.lines)), 0)]


def _same_shape(view: View, line_index: int) -> tuple[int, int]:
    """How many lines of this shape stand before and after."""
    indices = view.indices[view.shapes[line_index]]
    index = bisect_left(indices, line_index)
    return index, len(indices) - index - 1


def _share(view: View, index: int, of: Callable[[str], bool]) -> float:
    """The share of a line's first characters for which `of` is true, 0 to 1."""
    body = view.bodies[index][:200]
    return sum(map(of, body)) / max(len(body), 1)


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature: its name, its question, and the function that answers it (the view, the index of the line in it)."""

    name: str
    asks: str
    of: Callable[[View, int], float]


CAUSE_WORDS = "cause's words"
FEATURES = tuple(
    Feature(*item)
    for item in (
        ("level", "How loud is the line, 0 (not known) to 5 (fatal)?", lambda v, i: v.levels[i]),
        ("below loudest", "How far is it below the log's loudest level?", lambda v, i: v.loudest - v.levels[i]),
        (
            "as loud",
            "Which share of the lines is as loud or louder?",
            lambda v, i: _loud(v, v.levels[i], 0, len(v.lines)) / len(v.lines) if v.levels[i] else 1.0,
        ),
        ("louder before", "How many lines before are as loud?", lambda v, i: _log(_loud(v, max(v.levels[i], 1), 0, i))),
        (
            "louder after",
            "How many lines after are as loud?",
            lambda v, i: _log(_loud(v, max(v.levels[i], 1), i + 1, len(v.lines))),
        ),
        ("errors before", "How many errors stand before?", lambda v, i: _log(_loud(v, 4, 0, i))),
        ("errors after", "How many errors come after?", lambda v, i: _log(_loud(v, 4, i + 1, len(v.lines)))),
        ("errors next", "How many errors are among the next lines?", lambda v, i: _loud(v, 4, i + 1, i + 1 + _NEAR)),
        ("errors just before", "How many among the lines just before?", lambda v, i: _loud(v, 4, i - _NEAR, i)),
        ("warnings before", "How many warnings or errors stand before?", lambda v, i: _log(_loud(v, 3, 0, i))),
        ("warnings after", "And after?", lambda v, i: _log(_loud(v, 3, i + 1, len(v.lines)))),
        ("level before", "How loud is the line before?", lambda v, i: _beside(v.levels, i - 1)),
        ("level after", "How loud is the line after?", lambda v, i: _beside(v.levels, i + 1)),
        ("count", "How often does its shape come?", lambda v, i: _log(v.counts[v.shapes[i]])),
        ("of shape before", "How many lines of its shape came before?", lambda v, i: _log(_same_shape(v, i)[0])),
        ("of shape after", "How many lines of its shape follow?", lambda v, i: _log(_same_shape(v, i)[1])),
        ("regular", "Is it regular output?", lambda v, i: float(v.regular[i])),
        ("speakers", "How many speakers say it?", lambda v, i: _log(v.speakers_of_shape[v.shapes[i]])),
        ("kept place", "Where among the kept lines?", lambda v, i: i / len(v.lines)),
        (
            "regular after",
            "How much regular output follows?",
            lambda v, i: _log(v.regular_until[-1] - v.regular_until[i + 1] + _left_out_after(v, i)),
        ),
        (
            "since regular",
            "How many lines ago was the last regular one?",
            lambda v, i: _log(i - _last_regular(v, i)) if _last_regular(v, i) >= 0 else -1.0,
        ),
        (
            "since work",
            "How many lines after the last of the work, or before it?",
            lambda v, i: _signed(i - v.last_work),
        ),
        (
            "rare since work",
            "How many rare lines between the last of the work and it?",
            lambda v, i: _log(v.rare_until[i] - v.rare_until[v.last_work + 1]) if i > v.last_work else -1.0,
        ),
        (
            "time since work",
            "How long after the last of the work?",
            lambda v, i: _gap(v, v.last_work, i) * (1 if i > v.last_work else -1),
        ),
        ("blamed", "How many lines of others name its speaker?", lambda v, i: _log(v.blamed[v.speakers[i]])),
        ("blames", "How many other speakers does it name?", lambda v, i: min(len(v.named_speakers[i]), 3)),
        (
            "accused before",
            "How many rare lines before are by or about one that it names?",
            lambda v, i: _log(v.accused[0][i]),
        ),
        (
            "accused later",
            "How many rare lines after name its speaker, or one that it names?",
            lambda v, i: _log(v.accused[1][i]),
        ),
        ("regular next", "Regular output next?", lambda v, i: sum(v.regular[i + 1 : i + 1 + _NEAR])),
        ("own after", "How much does its speaker say after?", lambda v, i: _log(_lines_of_speaker(v, i)[1])),
        ("own regular after", "How much of that is regular?", lambda v, i: _log(_regular_of_speaker_after(v, i))),
        (
            "rare before",
            "How many rare lines stand just before?",
            lambda v, i: v.rare_until[i] - v.rare_until[max(i - _NEAR, 0)],
        ),
        (
            "rare after",
            "How many come just after?",
            lambda v, i: v.rare_until[min(i + 1 + _NEAR, len(v.lines))] - v.rare_until[i + 1],
        ),
        ("ties before", "How many earlier lines share a rare token?", lambda v, i: v.ties[0][i]),
        ("ties after", "How many later lines share one (they quote it)?", lambda v, i: v.ties[1][i]),
        ("newness", "Which share of its tokens is new?", lambda v, i: v.ties[2][i]),
        ("quoted", "Which share of it does a later, different line quote?", lambda v, i: v.quotations[0][i]),
        ("quotes", "Which share of it quotes an earlier one?", lambda v, i: v.quotations[1][i]),
        ("faults before", "How many named exceptions stand before?", lambda v, i: _log(v.named_until[i])),
        ("faults after", "How many come after?", lambda v, i: _log(v.named_until[-1] - v.named_until[i + 1])),
        ("chain before", "Stands a chained traceback's link before?", lambda v, i: min(v.chained_until[i], 3)),
        (
            "chain after",
            "Does one come after?",
            lambda v, i: min(v.chained_until[-1] - v.chained_until[i], 3),
        ),
        ("pause before", "How long was the pause before it?", lambda v, i: _gap(v, i - 1, i)),
        ("pause after", "And after it?", lambda v, i: _gap(v, i, i + 1)),
        ("time to the end", "How long did the log go on?", lambda v, i: _gap(v, i, len(v.lines) - 1)),
        ("time since regular", "How long since regular output?", lambda v, i: _gap(v, _last_regular(v, i), i)),
        ("indent", "How far is it indented?", lambda v, i: min(v.indents[i], 20)),
        (
            "indent step",
            "How much further than the line before?",
            lambda v, i: v.indents[i] - _beside(v.indents, i - 1),
        ),
        ("indent next", "How much further is the next?", lambda v, i: _beside(v.indents, i + 1) - v.indents[i]),
        ("frame", "Is it a frame of a traceback?", lambda v, i: float(v.frames[i])),
        ("frames before", "How many frames stand just before?", lambda v, i: sum(v.frames[max(i - 4, 0) : i])),
        ("frames after", "How many come just after?", lambda v, i: sum(v.frames[i + 1 : i + 4])),
        (
            "frames ago",
            "How many frames stand in the lines before?",
            lambda v, i: _log(sum(v.frames[max(i - 40, 0) : i])),
        ),
        ("frames follow", "How many follow?", lambda v, i: _log(sum(v.frames[i + 1 : i + 40]))),
        ("named fault", "Does it begin like the name of an exception?", lambda v, i: _hits(_NAMED_FAULT, v, i)),
        ("length", "How long is it?", lambda v, i: _log(len(v.bodies[i]))),
        ("digits", "Which share of it is digits?", lambda v, i: _share(v, i, str.isdigit)),
        ("capitals", "Which share is capitals?", lambda v, i: _share(v, i, str.isupper)),
        ("letters", "Which share is letters?", lambda v, i: _share(v, i, str.isalpha)),
        ("words", "How many words has it?", lambda v, i: _log(v.bodies[i].count(" "))),
        ("path", "Does it name a path?", lambda v, i: _hits(_PATH, v, i)),
        ("colons", "How many colons?", lambda v, i: min(v.bodies[i].count(": "), 5)),
        (
            "quotation marks",
            "How many quotation marks?",
            lambda v, i: min(v.bodies[i].count("'") + v.bodies[i].count('"'), 8),
        ),
        ("keys", "How many key=value pairs?", lambda v, i: min(len(_KEY_VALUE.findall(v.bodies[i])), 8)),
        ("brackets", "How many brackets?", lambda v, i: min(v.bodies[i].count("(") + v.bodies[i].count("["), 8)),
        ("ends with colon", "Does it announce what follows?", lambda v, i: float(v.bodies[i].endswith(":"))),
        ("ending number", "Does it name an exit code, status or signal?", lambda v, i: _hits(_ENDING_NUMBER, v, i)),
        ("clean number", "Does it name an exit code of 0?", lambda v, i: _hits(_CLEAN_NUMBER, v, i)),
        ("ends cleanly", "How many of the last lines name an exit code of 0?", lambda v, i: v.clean_ends),
        ("ends badly", "How many of the last lines name another?", lambda v, i: v.bad_ends),
        ("numbered", "Is it one of a numbered row (attempt 2 of 5)?", lambda v, i: _hits(_NUMBERED, v, i)),
        ("names peer", "Does it name another (rank 44, seat 3)?", lambda v, i: _hits(_NAMES_PEER, v, i)),
        ("ends regular", "Does the log end in regular output?", lambda v, i: sum(v.regular[-5:])),
        ("ends loud", "How loud are the log's last lines?", lambda v, i: max(v.levels[-6:])),
        (CAUSE_WORDS, "How much are its words those of a cause?", lambda v, i: cause_by_wording(v.bodies[i])),
    )
)


def _hits(pattern: re.Pattern[str], view: View, index: int) -> float:
    return float(pattern.search(view.bodies[index]) is not None)


def features_of(view: View, index: int) -> list[float]:
    """The answers of one line to all questions, in the order of `FEATURES`."""
    return [feature.of(view, index) for feature in FEATURES]
