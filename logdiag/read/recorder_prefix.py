"""Learns what a recorder puts before every line of a stream: a form that no list of known prefixes has.

Collectors, consoles of clusters and schedulers, viewers and people each have their own (`12:03:07.120 | INFO | Task
run 'train-0' - `, `   44 `, `> `). Lines of one recorder agree in it but for numbers, levels and padding; where they
stop to agree, the message begins. What was learnt only adds one more place at which a message may begin, so a form
that is no recorder's does no harm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from operator import eq

from logdiag.model import ALL_NINES, CommonPrefix, with_nines
from logdiag.patterns import pattern_of
from logdiag.read.forms import Forms, shipped_forms
from logdiag.read.prefixes import parse_line

_FEWEST_LINES, _MOST_LINES = 4, 120
_LONGEST_PREFIX = 240
_MOST_TOKENS = 80
# A recorder's own first or last words stand without its prefix.
_AGREEING = 0.95
_TOKEN = pattern_of(r" +|\w+|[^\w ]")
_LEVEL = pattern_of(
    r"(?i:trace|debug|debg|info|notice|warn|warning|error|err|severe|critical|crit|fatal|panic|stdout|stderr|out)|[IWEFDCT]"
)
_A_LEVEL, _A_NUMBER, _PADDING = r"[A-Za-z]{1,8}", r"\w+", " +"
# What programs print and loggers do not: a row of a table, a frame, a bar, a ruler, a command, a tool's word, nothing.
_PRINTED = pattern_of(
    r" {2}|\t|[*+=#$>|~_-]|\s*$|[\w./-]{2,40}: (?:fatal |internal )?(?:error|warning|fatal)\b|\s*\d{1,3}%"
)
# The side of a box around a traceback is no recorder's.
_SIDE = pattern_of("[\u2500-\u257f]")

_COUNTERS_AND_THINGS = (
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
# These count, or are no process.
_NO_PROCESSES = frozenset(f"{word}{join}" for word in _COUNTERS_AND_THINGS.split() for join in ("", "-", "_", ".", "#"))


def common_prefix(lines: Sequence[bytes], forms: Forms | None = None) -> CommonPrefix | None:
    """The form of what stands before nearly every line, blank ones left out, and how lines name their rank; None where
    they share nothing. `forms` of the user's own are added to it."""
    told = list(filter(bytes.strip, lines))
    if len(told) < _FEWEST_LINES:
        return CommonPrefix(_NOTHING, forms=forms) if forms else None
    label = _label_of(told[:_MOST_LABELLED])
    sample = (told[len(told) * at // _MOST_LINES] for at in range(_MOST_LINES))
    found = _shared_prefix([line.decode(errors="replace") for line in sample])
    return (found or CommonPrefix(_NOTHING))._replace(label=label, forms=forms) if label or forms else found


def _shared_prefix(told: Sequence[str]) -> CommonPrefix | None:
    parts = _agreed(told)
    if not any(part.strip() and part != _PADDING for part in parts):
        indentation = min(len(line) - len(line.lstrip(" ")) for line in told)
        return CommonPrefix(re.compile(" " * indentation)) if indentation else None
    pattern = re.compile("".join(parts))
    found = [match for match in map(pattern.match, told) if match]
    if sum(match.end() == len(match.string) for match in found) > len(found) / 2:
        return None  # a line that a job prints again and again
    levels = {_level_in(prefix.decode(errors="replace")) for prefix in {with_nines(match[0]) for match in found}}
    level = levels.pop() if len(levels) == 1 else None
    # Lines that differ in numbers alone are nested alike.
    rests = {with_nines(rest): rest for rest in (match.string[match.end() :] for match in found)} if level else {}
    return CommonPrefix(pattern, relays=level if any(map(_nested, rests.values())) else None)


def _label_of(lines: Sequence[bytes]) -> re.Pattern[str] | None:
    """How the lines name the rank that speaks: a word with a number that goes to and fro between several values."""
    heads = [line[:_LONGEST_PREFIX] for line in lines]
    shapes = b"\n".join(heads).translate(ALL_NINES).split(b"\n")
    labelled = set(filter(_may_be_labelled, set(shapes)))
    numbers: dict[tuple[str, ...], list[str]] = {}
    for line in (head.decode(errors="replace") for head, shape in zip(heads, shapes, strict=True) if shape in labelled):
        match = _LABEL.match(line) or _PROCESS_LABEL.match(parse_line(line).message)
        if match and match["word"].lower() not in _NO_PROCESSES:
            numbers.setdefault((match["open"], match["word"], match["close"] or ""), []).append(match["number"])
    for (before, word, after), told in sorted(numbers.items(), key=lambda item: -len(item[1])):
        runs = 1 + sum(one != other for one, other in pairwise(told))
        often = len(told) >= max(_FEWEST_LABELLED, _LABELLED_SHARE * len(lines))
        # q236, q237 and q238 are machines: processes are counted from 0 or 1.
        counted = min(map(int, told)) <= 1 or _PROCESS_WORD.match(word)
        if often and counted and 1 < len(set(told)) <= len(told) / 2 and runs > len(set(told)):
            return re.compile(rf"{re.escape(before)}{re.escape(word)}(?P<rank>\d{{1,5}}){re.escape(after)} *")
    return None


@lru_cache(maxsize=1 << 12)  # neighbouring files begin alike
def _may_be_labelled(head: bytes) -> bool:
    """Whether a label may stand in the head of a line, whatever its numbers."""
    text = head.decode(errors="replace")
    return _LABEL.match(text) is not None or _PROCESS_LABEL.search(text) is not None


@lru_cache(maxsize=1 << 12)
def _pieces(head: bytes) -> tuple[list[str], tuple[str, ...]]:
    """The pieces of a line's head, and each as a pattern."""
    tokens = _TOKEN.findall(head.decode(errors="replace"))[:_MOST_TOKENS]
    return tokens, tuple([_kind(token) for token in tokens])


def _agreed(lines: Sequence[str]) -> list[str]:
    """The patterns of the pieces that nearly all lines begin with."""
    # Lines that differ in numbers alone have the same pieces.
    alike = Counter(with_nines(line[:_LONGEST_PREFIX]) for line in lines)
    rows: Counter[tuple[str, ...]] = Counter()
    for head, times in alike.items():
        rows[_pieces(head)[1]] += times
    parts = [*_agreed_kinds(frozenset(rows.items()))]
    if parts and parts[-1] == _PADDING:
        # What is more than the least of it belongs to the messages: they are indented.
        agreeing = (tokens for tokens, kinds in map(_pieces, alike) if all(map(eq, kinds, parts)))
        parts[-1] = min(tokens[len(parts) - 1] for tokens in agreeing if len(tokens) >= len(parts))
    return parts


@lru_cache(maxsize=256)  # neighbouring files begin alike
def _agreed_kinds(rows: frozenset[tuple[tuple[str, ...], int]]) -> tuple[str, ...]:
    """The kinds of the pieces that nearly all lines begin with; each row is those of some lines, and their number."""
    total = sum(times for _, times in rows)
    left = list(rows)
    parts: list[str] = []
    for at in range(_MOST_TOKENS):
        kinds: Counter[str] = Counter()
        for row, times in left:
            # A line that ends within the prefix is one whose message is empty.
            kinds[row[at] if len(row) > at else _ENDED] += times
        ended = kinds.pop(_ENDED, 0)
        kind, count = kinds.most_common(1)[0] if kinds else ("", 0)
        if count + ended < _AGREEING * total or count < total / 2 or _SIDE.match(kind):
            break
        parts.append(kind)
        left = [each for each in left if len(each[0]) <= at or each[0][at] == kind]
    return tuple(parts)


@lru_cache(maxsize=1 << 14)
def _kind(token: str) -> str:
    """A piece of a prefix as a pattern: numbers and names with digits vary, and so do levels and padding."""
    if token[0] == " ":
        return _PADDING
    if any(sign.isdigit() for sign in token):
        return _A_NUMBER
    return _A_LEVEL if _LEVEL.fullmatch(token) else re.escape(token)


def _level_in(prefix: str) -> str | None:
    levels = shipped_forms().levels
    return next((levels[token.upper()] for token in _TOKEN.findall(prefix) if token.upper() in levels), None)


def _nested(rest: str) -> bool:
    """Whether what stands behind a prefix is another program's line: it has a head of its own, or a program's form."""
    line = parse_line(rest)
    return _PRINTED.match(rest) is not None or line.level is not None or line.clock is not None
