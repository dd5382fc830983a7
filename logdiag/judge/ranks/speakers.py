"""Who prints a line and where it runs, where no known launcher says so.

A rank: a word and a number that run over all workers of the log.

`w09 `, `[seat 5]`, `lathe 5 of 12`, `hand{id=5`, `"seat": 2`, `r=44>`: in-house software numbers its processes in words
of its own. A numbered word names the speaker when its numbers start at 0 or 1, leave few out, come back again and
again, and do not only rise, as steps do.

A node: `boat=skiff2`, `up on tarn-c14`, `hand 4 goes to fen-c`, `fledged at mere`. What stands behind one and the same
word is a node's name when each process says one of them first, or is told of with one, and neighbours share it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from logdiag.model import TROUBLE, Line

__all__ = ["NO_NODES", "node_named_in", "nodes_of_speakers", "numbered_speakers"]

# w09   seat-5   lathe 5   hawk.08   diver/4   r=44   hand{id=5   "seat": 2
# but no part of a time, a version, a path or a size
_NUMBERED = re.compile(
    r"(?<![\w./])\"?(?P<word>[A-Za-z][A-Za-z_]{0,15})(?P<joint>\"?: ?|[-_#=./]| {1,4}|\{id=|\[)?"
    r"(?P<number>\d{1,4})(?![\w:]*[\d.]\d|[A-Za-z%])"
)
_HEAD, _RECORD = 72, 240
_FEWEST_LINES = 6
# Of the lines, so many name the speaker; of the numbers between the least and the most, so many are there.
_SHARE_OF_LINES, _SHARE_OF_NUMBERS = 0.15, 0.6
# Of all changes from line to line, so many go down: steps and epochs only rise.
_SHARE_FALLING = 0.1
_SHARE_OF_MOST, _SHARE_UNORDERED, _OFTEN = 0.5, 0.3, 4
_NEARLY = 0.67
# Fewer lines than this that a prefix or a record's key gives a rank are misread.
_SHARE_WITH_RANK = 0.1
# 0000025504 21 L3001   129.15 n 0009 PORT   |  7 |   [03/08]   (one of the first columns is a bare number)
_COLUMNS = 4
_BARE = re.compile(r"\W{0,2}(\d{1,4}|0\d{4})(?P<of>/\d{1,5})?\W{0,2}")
_MOST_LINES = 4000
_LONGEST_RECORD = 60
# What begins so many lines is no part of a record: knode401 kernel: [366410.9] link down
_MANY = 5
_DIGITS = re.compile(r"\d+")
# 09.35.10 . boat   (a clock of its own kind)
_OWN_CLOCK = re.compile(r"\W?\d\d?[.h]\d\d[.m]\d\d\b")
# host=tarn-c14   stands in wf-l   on vat-11/card0   @ pierB   (a word, and a name behind it)
_WORD = re.compile(r"[^\W\d_][\w-]*")
_NAME = re.compile(r"(?:[A-Za-z_]+-)*[A-Za-z]*\d+[A-Za-z]?|(?:[A-Za-z_]+-)+[A-Za-z]\d*|[A-Za-z]+[a-z][A-Z]")
_NO_NODES_WORDS = (
    "dp tp pp cp ep sp mp stage group shard part chunk bucket numa socket rail switch rack ring gpu cuda device "
    "card chip link port eth ib bond mlx nvme disk step epoch iter batch round layer block level file seed fold "
    "version v local_rank sample trial expert head slice page core cpu thread queue slot lane fp bf "
    "int uint float"
)
NO_NODES = frozenset(_NO_NODES_WORDS.split())
"""What names that end with a number are called which are no node's."""
_PROCESSES = frozenset(["rank", "worker", "r", "w"])
# Behind these words even the only name that all processes say is their node's.
_HOST_WORDS = frozenset(["host", "node", "hostname", "machine", "nodename", "on", "at"])
# What a process says of its node, it says when it starts.
_MOST_NAMED = 1500
_FEWEST_RANKS, _FEWEST_TOLD, _FEWEST_A_NODE = 4, 3, 2
_SHARE_NAMED = 0.6


_Key = tuple[str, str]


@dataclass(slots=True)
class _Seen:
    """Where a numbered word stands: (index of the line, number), in order; and the sum of its columns."""

    places: list[tuple[int, int]] = field(default_factory=list)
    columns: int = 0

    @property
    def numbers(self) -> set[int]:
        """The different numbers."""
        return {number for _, number in self.places}

    @property
    def column(self) -> float:
        """Behind how many other numbered words it stands, in the mean."""
        return self.columns / len(self.places)


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


def numbered_speakers(lines: Sequence[Line]) -> Speakers:
    """Who printed each line; nothing where the log's words do not tell it or its prefixes do. A line without a number
    is of the record above it, where it begins with a blank or has no clock of its own."""
    prefixed = sum(line.rank is not None and line.text[:1] != "{" for line in lines)
    if len(lines) < _FEWEST_LINES or prefixed > _SHARE_WITH_RANK * len(lines):
        return Speakers({})
    looked_at = lines[:_MOST_LINES]
    seen: dict[_Key, _Seen] = {}
    for at, line in enumerate(looked_at):
        for column, (key, number) in enumerate(_first_numbers(line.text).items()):
            found = seen.setdefault(key, _Seen())
            found.places.append((at, number))
            found.columns += column
    # {"n": 81, "seat": 2, ...}: what a record's keys tell, the words must tell too.
    ranks = {(at, line.rank) for at, line in enumerate(looked_at) if line.rank is not None}
    if len(ranks) <= _SHARE_WITH_RANK * len(looked_at):
        ranks = set()
    speaking = {key: found for key, found in seen.items() if ranks.issubset(found.places)}
    best = _best_of({key: found for key, found in speaking.items() if _names_speakers(key, found, len(looked_at))})
    if best is None:
        return Speakers({})
    return Speakers(dict(_spread(lines, best)), "" if best[0].isdigit() else best[0].rstrip("_"))


def _best_of(speaking: Mapping[_Key, _Seen]) -> _Key | None:
    """Of several numbered words the one with the most processes; the leftmost of those with nearly as many."""
    most_lines = max((len(found.places) for found in speaking.values()), default=0)
    often = {key: found for key, found in speaking.items() if len(found.places) >= _SHARE_OF_MOST * most_lines}
    most = max((len(found.numbers) for found in often.values()), default=0)
    many = [key for key, found in often.items() if len(found.numbers) >= _NEARLY * most]
    return min(many, key=lambda key: often[key].column, default=None)


def nodes_of_speakers(lines: Sequence[Line], speakers: Speakers) -> Mapping[int, str]:
    """The node of each process of which a line names one, by its number; empty where no name is one of nodes."""
    said: dict[tuple[str, str], dict[int, str]] = {}
    for line in lines[:_MOST_NAMED]:
        own = speakers.numbers.get((line.stream, line.position), line.rank)
        told = [("", own)] if own is not None else []
        told += [(word, number) for (word, _), number in _first_numbers(line.text).items()]
        names = [(word, name) for word, name in _names_behind_words(line.text) if _stem(name) != speakers.word]
        for who, number in told:
            for word, name in names:
                said.setdefault((who, word), {}).setdefault(number, name)
    known = set(speakers.numbers.values()) | {line.rank for line in lines if line.rank is not None}
    found = [nodes for (_, word), names in said.items() if (nodes := _blocks(word, names, known))]
    return max(found, key=lambda nodes: (len(set(nodes.values())) > 1, len(nodes)), default={})


def _names_behind_words(text: str) -> Iterator[tuple[str, str]]:
    """Each word of a line with the name behind it."""
    words = [match[0] for match in _WORD.finditer(text, 0, _RECORD)]
    for word, name in pairwise(words):
        before = _stem(word)
        if before not in NO_NODES and _NAME.fullmatch(name) and _stem(name) not in NO_NODES | _PROCESSES:
            yield before, name


def _stem(name: str) -> str:
    """A name without its number."""
    return name.lower().rstrip("0123456789-_")


def node_named_in(line: Line, nodes: Iterable[str]) -> str | None:
    """The only one of the nodes that a line names; None where it names several or none."""
    named = {node for node in nodes if re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-]|[.]\w)", line.text)}
    return named.pop() if len(named) == 1 else None


def _blocks(word: str, names: Mapping[int, str], known: set[int]) -> dict[int, str]:
    """Which name stands behind a word for each process, where neighbours share them; else nothing. Few of the lines may
    have been kept: processes between two of one name, and those of one block with them, have it too."""
    told = {number: names[number] for number in sorted(known & names.keys())}
    distinct = len(set(told.values()))
    changes = 1 + sum(one != other for one, other in pairwise(told.values()))
    if len(told) < _FEWEST_TOLD or changes != distinct or len(known) < _FEWEST_RANKS:
        return {}
    if distinct == 1:
        only = next(iter(told.values()))
        return dict.fromkeys(known, only) if word in _HOST_WORDS and len(told) >= _SHARE_NAMED * len(known) else {}
    if (
        len(told) < _FEWEST_A_NODE * distinct
        and len({re.sub(r"\d+|[A-Za-z]$", "", name) for name in told.values()}) > 1
    ):
        return {}
    fits = (
        size for size in range(2, max(known) + 1) if len({(at // size, name) for at, name in told.items()}) == distinct
    )
    size = next((size for size in fits if len({at // size for at in told}) == distinct), None)
    block = {at // size: name for at, name in told.items()} if size else {}
    return {at: block[at // size] for at in known if at // size in block} if size else {}


def _first_numbers(text: str) -> dict[tuple[str, str], int]:
    """The first number behind each word in a line's head, by word and what joins them; and the columns that are bare
    numbers, by their place."""
    found: dict[tuple[str, str], int] = {}
    for match in _NUMBERED.finditer(text, 0, _RECORD if text.startswith("{") or "=" in text[:40] else _HEAD):
        found.setdefault((match["word"].lower(), _joint(match)), int(match["number"]))
    for at, column in enumerate(text[:_HEAD].split()[:_COLUMNS]):
        if bare := _BARE.fullmatch(column):
            found[str(at), "/" if bare["of"] else ""] = int(bare[1])
    return found


def _names_speakers(key: _Key, seen: _Seen, lines: int) -> bool:
    word, joint = key
    numbers = [number for _, number in seen.places]
    distinct = set(numbers)
    if len(numbers) < max(_FEWEST_LINES, _SHARE_OF_LINES * lines) or len(distinct) < 2:
        return False
    if word in _PROCESSES and len(numbers) >= _SHARE_OF_MOST * lines:
        return True  # of hundreds of ranks few may have a line
    of_all = joint == "/" and word.isdigit()  # 71/128
    if min(distinct) > 1 and not of_all:
        return False
    falling = sum(later < earlier for earlier, later in pairwise(numbers))
    # Of many processes few lines each are kept; what most lines name in no order are no steps.
    often = len(numbers) >= _SHARE_OF_MOST * lines or len(distinct) == max(distinct) - min(distinct) + 1
    unordered = often and falling >= _SHARE_UNORDERED * len(numbers)
    if len(numbers) < 2 * len(distinct) and not unordered:
        return False
    # Of hundreds of processes a few may have been told to print.
    few = len(numbers) >= max(_SHARE_OF_MOST * lines, _OFTEN * len(distinct)) and (of_all or not min(distinct))
    if len(distinct) < _SHARE_OF_NUMBERS * (max(distinct) - min(distinct) + 1):
        return few and falling >= _SHARE_UNORDERED * len(numbers)
    return falling >= max(1, _SHARE_FALLING * len(distinct))


def _spread(lines: Sequence[Line], key: tuple[str, str]) -> Iterator[tuple[tuple[int, int], int]]:
    """Each line's number: its own, or that of the record it continues."""
    above: Line | None = None
    number = -1
    columns: dict[int, int] = {}
    heads = Counter(head for line in lines if (head := _head(line)))
    for line in lines:
        own = _first_numbers(line.text).get(key)
        if own is None and (other := _NUMBERED.match(line.text, columns.get(line.stream, len(line.text)))):
            own = int(other["number"]) if _joint(other) == key[1] else None  # boy1 where orb1 stands elsewhere
        elif own is not None and (column := _column(line.text, key)) is not None:
            columns.setdefault(line.stream, column)
        if own is not None:
            above, number = line, own
        elif above is None or not _continues(line, above) or heads[_head(line)] >= _MANY:
            above = None
            continue
        yield (line.stream, line.position), number


def _column(text: str, key: tuple[str, str]) -> int | None:
    """Where the numbered word stands in a line; None for a bare number."""
    found = (match for match in _NUMBERED.finditer(text) if (match["word"].lower(), _joint(match)) == key)
    return next((match.start() for match in found), None)


def _joint(numbered: re.Match[str]) -> str:
    """What joins a word to its number; any blanks are one."""
    joint = numbered["joint"] or ""
    return joint.strip() or joint[:1]


def _head(line: Line) -> str:
    """The first word of a line that does not begin with a blank, whatever its numbers are."""
    return _DIGITS.sub("0", line.text[:_HEAD].split(maxsplit=1)[0]) if line.text[:1].strip() else ""


def _continues(line: Line, above: Line) -> bool:
    near = line.stream == above.stream and line.position - above.position <= _LONGEST_RECORD
    # What a runtime prints beside the logger may stand below any record, if that does not announce it.
    announced = line.text[:1].isspace() or above.clock is None or above.level in TROUBLE or above.text.endswith(":")
    clock = line.clock or _OWN_CLOCK.match(line.text)
    return near and clock is None and line.level is None and announced
