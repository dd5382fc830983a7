"""Who prints a line, where no known launcher says so: a word and a number that run over all processes of the log.

`w09 `, `[seat 5]`, `lathe 5 of 12`, `hand{id=5`, `"seat": 2`, `r=44>`: in-house software numbers its processes in words
of its own. The numbered words of all lines compete: the name of who prints stands in many lines and near their start,
its numbers leave few out, come back again and again, change from line to line, and do not only rise, as steps do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import log2

from logdiag.model import TROUBLE, Line

# w09   seat-5   lathe 5   hawk.08   diver/4   r=44   hand{id=5   "seat": 2   eta.train.4
# but no part of a time, a version, a path or a size
_NUMBERED = re.compile(
    r"(?<![A-Za-z\d])(?<!\d[./])\"?(?P<word>[A-Za-z][A-Za-z_]{0,15})(?:\"?: ?|[-_#=./]| {1,4}|\{id=|\[)?"
    r"(?P<number>\d{1,4})(?![\w:]*[\d.]\d|[A-Za-z%])"
)
_HEAD, _RECORD = 72, 240
# 0000025504 21 L3001   129.15 n 0009 PORT   |  7 |   [03/08]   [2.vault]   (one of the first columns is a bare number)
_COLUMNS = 4
_BARE = re.compile(r"(?P<sign>\W{0,2})(?P<number>\d{1,4}|0\d{4})(?P<of>/\d{1,5})?(?:\.[a-z]+)?\W{0,2}")
_FEWEST, _LEAST_FALLING, _LEAST_SCORE = 4, 0.1, 4.0
# Numbers that leave many out, and those without a word, must come back so often.
_SHARE_OF_NUMBERS, _OFTEN, _BARE_OFTEN = 0.6, 4, 2
# Fewer lines than this that a prefix or a record's key gives a rank are misread.
_SHARE_WITH_RANK = 0.1
_MOST_LINES = 4000
_LONGEST_RECORD = 60
# What begins so many lines is no part of a record: knode401 kernel: [366410.9] link down
_MANY = 5
_DIGITS = re.compile(r"\d+")
# 09.35.10 . boat   (a clock of its own kind)
_OWN_CLOCK = re.compile(r"\W?\d\d?[.h]\d\d[.m]\d\d\b")
_NO_NODES_WORDS = (
    "dp tp pp cp ep sp mp stage group shard part chunk bucket numa socket rail switch rack ring gpu cuda device "
    "card chip link port eth ib bond mlx nvme disk step epoch iter batch round layer block level file seed fold "
    "version v local_rank sample trial expert head slice page core cpu thread queue slot lane fp bf "
    "int uint float"
)
NO_NODES = frozenset(_NO_NODES_WORDS.split())
"""What names that end with a number are called which are no node's."""
_PROCESS_WORDS = "rank task worker replica rep proc process member lane r w peer pe seat learner trainer train ordinal"
PROCESSES = frozenset(_PROCESS_WORDS.split())
"""What processes of a job are called."""


@dataclass(slots=True)
class _Seen:
    """The numbers behind a word, in the order of the lines, and behind how many others they stand, in all."""

    places: list[tuple[int, int]] = field(default_factory=list)
    columns: int = 0


@dataclass(frozen=True, slots=True)
class Speakers:
    """`numbers` is the number of the process that printed each line, by stream and position; `word` what stands before
    it, empty where a bare column holds it or nothing is known."""

    numbers: Mapping[tuple[int, int], int]
    word: str = ""

    def named_in(self, line: Line) -> set[int]:
        """The numbers of the processes that a line's words name."""
        if not self.word:
            return set()
        named = re.finditer(rf"(?<![A-Za-z]){re.escape(self.word)}[-_#=./ ]{{0,4}}(\d{{1,4}})(?!\d)", line.text, re.I)
        return {int(found[1]) for found in named}


def numbered_speakers(lines: Sequence[Line], first: Sequence[Line] = ()) -> Speakers:
    """Who printed each of the kept lines, which `first`, the first ones of the logs, help to tell; nothing where words
    do not tell it or prefixes do. A line without a number is of the record above it, where it begins with a blank or
    has no clock of its own."""
    prefixed = sum(line.rank is not None and line.text[:1] != "{" for line in lines)
    if len(lines) < _FEWEST or prefixed > _SHARE_WITH_RANK * len(lines):
        return Speakers({})
    places = {(line.stream, line.position): line for line in (*first, *lines)}
    looked_at = [places[place] for place in sorted(places)][:_MOST_LINES]
    seen: dict[str, _Seen] = {}
    for at, line in enumerate(looked_at):
        for column, (word, number) in enumerate(_first_numbers(line.text).items()):
            found = seen.setdefault(word, _Seen())
            found.places.append((at, number))
            found.columns += column
    # {"n": 81, "seat": 2, ...}: what a record's keys tell, the words must tell too.
    ranks = {(at, line.rank) for at, line in enumerate(looked_at) if line.rank is not None}
    if len(ranks) <= _SHARE_WITH_RANK * len(looked_at):
        ranks = set()
    scores = {
        word: _score(word.rstrip("_"), found, len(looked_at))
        for word, found in seen.items()
        if ranks.issubset(found.places)
    }
    best = max(scores, key=scores.__getitem__, default="")
    if scores.get(best, 0.0) < _LEAST_SCORE:
        return Speakers({})
    return Speakers(dict(_spread(lines, best)), "" if best[0].isdigit() else best.rstrip("_"))


@lru_cache(_MOST_LINES)
def _first_numbers(text: str) -> Mapping[str, int]:
    """The first number behind each word in a line's head, by word; and the columns that are bare numbers, by their
    place and the signs before them, those like 3/16 by place and stroke."""
    found: dict[str, int] = {}
    for match in _NUMBERED.finditer(text, 0, _RECORD if text.startswith("{") or "=" in text[:40] else _HEAD):
        found.setdefault(match["word"].lower(), int(match["number"]))
    for at, column in enumerate(text[:_HEAD].split()[:_COLUMNS]):
        if bare := _BARE.fullmatch(column):
            of_all = "/" if bare["of"] else ""
            found[f"{at}{bare['sign']}{of_all}"] = int(bare["number"])
    return found


def _score(word: str, seen: _Seen, lines: int) -> float:
    """How much a numbered word looks like the name of who prints. That the answers hardly depend on the weights was
    measured: each may be half as great or twice."""
    numbers = [number for _, number in seen.places]
    least, most, distinct = min(numbers), max(numbers), len(set(numbers))
    of_all, bare = word.endswith("/"), word[0].isdigit()  # 3/16   3
    known = word in PROCESSES
    if len(numbers) < _FEWEST or distinct < 2 or (least > 1 and not of_all and not known):
        return 0.0
    moves = [later - earlier for earlier, later in pairwise(numbers) if later != earlier]
    falling = sum(move < 0 for move in moves) / len(moves)
    of_numbers = distinct / (most - least + 1)
    again = len(numbers) / distinct
    # Of hundreds of processes a few may have been told to print.
    often = _OFTEN if of_numbers < _SHARE_OF_NUMBERS else _BARE_OFTEN if bare else 1
    if falling < _LEAST_FALLING or (again < often and not known):
        return 0.0
    return (
        2 * min(1.0, 1.5 * len(numbers) / lines)
        + 2 * len(moves) / (len(numbers) - 1)
        + min(3.0, log2(distinct))
        + min(1.0, log2(again) / 3)
        + of_numbers
        + (known or of_all)
        - 0.375 * seen.columns / len(numbers)
    )


def _spread(lines: Sequence[Line], word: str) -> Iterator[tuple[tuple[int, int], int]]:
    """Each line's number: its own, or that of the record it continues, if all lines between were kept."""
    above: Line | None = None
    number = before = -1
    heads = Counter(head for line in lines if (head := _head(line)))
    for line in lines:
        own = _first_numbers(line.text).get(word)
        if own is not None:
            above, number = line, own
        elif above is None or line.position > before + 1 or not _continues(line, above) or heads[_head(line)] >= _MANY:
            above = None
            continue
        before = line.position
        yield (line.stream, line.position), number


def _head(line: Line) -> str:
    """The first word of a line that does not begin with a blank, whatever its numbers are."""
    return _DIGITS.sub("0", line.text[:_HEAD].split(maxsplit=1)[0]) if line.text[:1].strip() else ""


def _continues(line: Line, above: Line) -> bool:
    near = line.stream == above.stream and line.position - above.position <= _LONGEST_RECORD
    # What a runtime prints beside the logger may stand below any record, if that does not announce it.
    announced = line.text[:1].isspace() or above.clock is None or above.level in TROUBLE or above.text.endswith(":")
    clock = line.clock or _OWN_CLOCK.match(line.text)
    return near and clock is None and line.level is None and announced
