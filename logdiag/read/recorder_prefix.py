"""Learns what a recorder puts before every line of a stream: a form that no list of known prefixes has.

Collectors, consoles of clusters and schedulers, viewers and people each have their own (`12:03:07.120 | INFO | Task
run 'train-0' - `, `   44 `, `> `). The lines of one recorder begin alike, but for numbers, levels and padding; the
message begins where they differ. What is learnt only adds one more offset at which a message may begin, so it does no
harm if no recorder wrote it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from operator import eq

from logdiag.model import ALL_NINES, TROUBLE, CommonPrefix, with_nines
from logdiag.patterns import pattern_of
from logdiag.read.forms import Forms, shipped_forms
from logdiag.read.prefixes import parse_line

_FEWEST_LINES, _MOST_LINES = 4, 120
_LONGEST_PREFIX = 240
_MOST_TOKENS = 80
# The first or last lines of a recorder itself may stand without its prefix.
_AGREEING = 0.95
# A program does not print so many errors and nothing else: its collector calls all that is on stderr an error.
_MANY_IN_TROUBLE = 20
_TOKEN = pattern_of(r" +|\w+|[^\w ]")
_LEVEL = pattern_of(
    r"(?i:trace|debug|debg|info|notice|warn|warning|error|err|severe|critical|crit|fatal|panic|stdout|stderr|out)|[IWEFDCT]"
)
_A_LEVEL, _A_NUMBER, _PADDING = r"[A-Za-z]{1,8}", r"\w+", " +"
# What programs print and loggers do not: a row of a table, a frame, a bar, a ruler, a command, a tool's error, nothing.
_PRINTED = pattern_of(
    r" {2}|\t|[*+=#$>|~_-]|\s*$|[\w./-]{2,40}: (?:fatal |internal )?(?:error|warning|fatal)\b|\s*\d{1,3}%"
)
# The side of a box around a traceback is not a recorder's prefix.
_SIDE = pattern_of("[\u2500-\u257f]")

_NO_PROCESS_WORDS = (
    "step epoch iter iteration batch chunk shard item file line layer attempt try retry phase stage round op bucket "
    "page part version v node host machine ip gpu cuda device dev npu tpu hpu xid eth ib mlx sd nvme md python py cpu "
    "block level test case task run job trial fold seed port id pid n i"
)
_NOTHING = pattern_of(r"(?!)")
_ENDED = "\n"
_MOST_LABELLED, _FEWEST_LABELLED, _LABELLED_SHARE = 400, 6, 0.1
# w03 I0312 ...   worker-3 | ...   [r5] ...   <seat2> ...   (at the very start)
_LABEL = pattern_of(
    r"(?P<open>[\[(<]?)(?P<word>[A-Za-z]{1,12}[-_.#]?)(?P<number>\d{1,5})(?P<close>[\])>]:?|:| ?\|)?(?(close) |(?= ))"
)
# replica 2: ...   (Worker 3) ...   seat 58: ...   (behind other prefixes too)
_PROCESS_LABEL = pattern_of(
    r"(?P<open>[\[(]?)"
    r"(?P<word>(?i:rank|worker|replica|seat|runner|proc|process|trainer|learner|actor|member|rollout)[ =:#_-])"
    r"(?P<number>\d{1,5})(?P<close>[\])]:?|:| \|) "
)
_PROCESS_WORD = pattern_of(r"(?i:rank|worker|replica|seat|r|w)\b|(?i:rank|worker|r|w)[-_.#]?$")
# | lane 33 | ...   (behind a label)
_WITHIN = pattern_of(r"[^\w\n@]{1,4}(?P<word>[A-Za-z]{1,12})[ _.#-]{0,3}(?P<number>\d{1,5})(?!\w)")
# nnodes=2, num_local_procs=4, node_rank=1
_OF_A_MACHINE = pattern_of(r"\b(?:node_rank|num_local_procs|nproc_per_node)\b")
# The numbers behind these words are counters, or those of things that are no processes.
_NO_PROCESSES = frozenset(f"{word}{join}" for word in _NO_PROCESS_WORDS.split() for join in ("", "-", "_", ".", "#"))


def common_prefix(lines: Sequence[bytes], forms: Forms | None = None) -> CommonPrefix | None:
    """What stands before nearly every line that is not blank, and how lines name their rank; None where there is
    neither. `forms` of the user's own are added to it."""
    printed = list(filter(bytes.strip, lines))
    if len(printed) < _FEWEST_LINES:
        return CommonPrefix(_NOTHING, forms=forms) if forms else None
    label = _label_of(printed[:_MOST_LABELLED])
    sample = (printed[len(printed) * at // _MOST_LINES] for at in range(_MOST_LINES))
    shared = _shared_prefix([line.decode(errors="replace") for line in sample])
    return (shared or CommonPrefix(_NOTHING))._replace(label=label, forms=forms) if label or forms else shared


def _shared_prefix(lines: Sequence[str]) -> CommonPrefix | None:
    """The prefix that nearly all lines share; None for none."""
    parts = _shared_parts(lines)
    if not any(part.strip() and part != _PADDING for part in parts):
        indentation = min(len(line) - len(line.lstrip(" ")) for line in lines)
        return CommonPrefix(re.compile(" " * indentation)) if indentation else None
    pattern = re.compile("".join(parts))
    matches = [match for match in map(pattern.match, lines) if match]
    if sum(match.end() == len(match.string) for match in matches) > len(matches) / 2:
        return None  # a line that a job prints again and again
    levels = {_level_in(prefix.decode(errors="replace")) for prefix in {with_nines(match[0]) for match in matches}}
    level = levels.pop() if len(levels) == 1 else None
    # Lines that differ in numbers alone are nested alike.
    rests = {with_nines(rest): rest for rest in (match.string[match.end() :] for match in matches)} if level else {}
    # The lines of a short log stand in the sample again and again.
    all_in_trouble = level in TROUBLE and len({match.string for match in matches}) >= _MANY_IN_TROUBLE
    relays = all_in_trouble or any(map(_is_of_another_program, rests.values()))
    return CommonPrefix(pattern, relays=level if relays else None)


def _label_of(lines: Sequence[bytes]) -> re.Pattern[str] | None:
    """The pattern by which lines name their rank: a word with a number that goes to and fro; None for none."""
    heads = [line[:_LONGEST_PREFIX] for line in lines]
    shapes = b"\n".join(heads).translate(ALL_NINES).split(b"\n")
    labelled = set(filter(_may_be_labelled, set(shapes)))
    numbers: dict[tuple[str, ...], list[str]] = {}
    for line in (head.decode(errors="replace") for head, shape in zip(heads, shapes, strict=True) if shape in labelled):
        match = _LABEL.match(line) or _PROCESS_LABEL.match(parse_line(line).message)
        if match and match["word"].lower() not in _NO_PROCESSES:
            numbers.setdefault((match["open"], match["word"], match["close"] or ""), []).append(match["number"])
    for (before, word, after), ranks in sorted(numbers.items(), key=lambda item: -len(item[1])):
        runs = 1 + sum(earlier != later for earlier, later in pairwise(ranks))
        often = len(ranks) >= max(_FEWEST_LABELLED, _LABELLED_SHARE * len(lines))
        # q236, q237 and q238 are machines: processes are counted from 0 or 1.
        counted = min(map(int, ranks)) <= 1 or _PROCESS_WORD.match(word)
        repeated = 1 < len(set(ranks)) <= len(ranks) / 2 and runs > len(set(ranks))
        if often and counted and repeated and not _is_of_machines((before, word, after), heads):
            return re.compile(rf"{re.escape(before)}{re.escape(word)}(?P<rank>\d{{1,5}}){re.escape(after)} *")
    return None


def _is_of_machines(label: tuple[str, str, str], heads: Sequence[bytes]) -> bool:
    """Whether lines with a label, such as `worker-1: [rank9]: `, name a rank of their own that is another number, tell
    of the processes on a machine, or name one of them behind the label: `elm-05 | lane 33 | `, with more lanes than
    elms, each on one of these."""
    pattern = re.compile(rf"{re.escape(label[0])}{re.escape(label[1])}(\d{{1,5}}){re.escape(label[2])}")
    pairs: dict[str, set[tuple[str, str]]] = defaultdict(set)
    labels = set()
    for head in heads:
        text = head.decode(errors="replace")
        match = pattern.match(text)
        if not match:
            continue
        if _OF_A_MACHINE.search(text) or parse_line(text).rank not in (None, int(match[1])):
            return True
        labels.add(match[1])
        if (within := _WITHIN.match(text, match.end())) and within["word"].lower() not in _NO_PROCESSES:
            pairs[within["word"]].add((match[1], within["number"]))
    return any(
        len({label for label, _ in found}) == len(labels) < len({number for _, number in found}) == len(found)
        for found in pairs.values()
    )


@lru_cache(maxsize=1 << 12)  # neighbouring files begin alike
def _may_be_labelled(head: bytes) -> bool:
    """Whether a label may stand in the head of a line, whatever its numbers."""
    text = head.decode(errors="replace")
    return _LABEL.match(text) is not None or _PROCESS_LABEL.search(text) is not None


@lru_cache(maxsize=1 << 12)
def _pieces(head: bytes) -> tuple[list[str], tuple[str, ...]]:
    """The pieces of a line's head, and a pattern for each."""
    tokens = _TOKEN.findall(head.decode(errors="replace"))[:_MOST_TOKENS]
    return tokens, tuple([_pattern_for(token) for token in tokens])


def _shared_parts(lines: Sequence[str]) -> list[str]:
    """The patterns of the pieces that nearly all lines begin with."""
    # Lines that differ in numbers alone have the same pieces.
    alike = Counter(with_nines(line[:_LONGEST_PREFIX]) for line in lines)
    rows: Counter[tuple[str, ...]] = Counter()
    for head, times in alike.items():
        rows[_pieces(head)[1]] += times
    parts = [*_shared_patterns(frozenset(rows.items()))]
    if parts and parts[-1] == _PADDING:
        # The least padding belongs to the prefix; more of it is the indentation of a message.
        agreeing = (tokens for tokens, patterns in map(_pieces, alike) if all(map(eq, patterns, parts)))
        parts[-1] = min(tokens[len(parts) - 1] for tokens in agreeing if len(tokens) >= len(parts))
    return parts


@lru_cache(maxsize=256)  # neighbouring files begin alike
def _shared_patterns(rows: frozenset[tuple[tuple[str, ...], int]]) -> tuple[str, ...]:
    """The same of rows of patterns, each with how many lines have it."""
    total = sum(times for _, times in rows)
    left = list(rows)
    parts: list[str] = []
    for column in range(_MOST_TOKENS):
        patterns: Counter[str] = Counter()
        for row, times in left:
            # A line that ends within the prefix is one whose message is empty.
            patterns[row[column] if len(row) > column else _ENDED] += times
        ended = patterns.pop(_ENDED, 0)
        pattern, count = patterns.most_common(1)[0] if patterns else ("", 0)
        if count + ended < _AGREEING * total or count < total / 2 or _SIDE.match(pattern):
            break
        parts.append(pattern)
        left = [(row, times) for row, times in left if len(row) <= column or row[column] == pattern]
    return tuple(parts)


@lru_cache(maxsize=1 << 14)
def _pattern_for(token: str) -> str:
    """The pattern for a piece of a prefix: what has a digit, levels and padding vary; any other piece stays."""
    if token[0] == " ":
        return _PADDING
    if any(sign.isdigit() for sign in token):
        return _A_NUMBER
    return _A_LEVEL if _LEVEL.fullmatch(token) else re.escape(token)


def _level_in(prefix: str) -> str | None:
    """The first level that a prefix names."""
    levels = shipped_forms().levels
    return next((levels[token.upper()] for token in _TOKEN.findall(prefix) if token.upper() in levels), None)


def _is_of_another_program(rest: str) -> bool:
    """Whether the text behind a prefix is a line of another program: it has a head of its own, or is no logger's."""
    line = parse_line(rest)
    return _PRINTED.match(rest) is not None or line.level is not None or line.clock is not None
