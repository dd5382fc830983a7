"""Who prints a line and where it runs, where no known launcher says so.

A rank: a word and a number that run over all workers of the log.

`w09 `, `[seat 5]`, `lathe 5 of 12`, `hand{id=5`, `"seat": 2`, `r=44>`: in-house software numbers its processes in words
of its own. A numbered word names the speaker when its numbers start at 0 or 1, leave few out, come back again and
again, and do not only rise, as steps do.

A node: `boat=skiff2`, `cliff:ledge2`, `on parallel6`, `@ shop-b`. A name that differs in its end is one of nodes when
each process says one of them, and neighbours by number say the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from logdiag.model import Line

__all__ = ["node_named_in", "nodes_of_speakers", "numbered_speakers"]

# w09   seat-5   lathe 5   hawk.08   diver/4   r=44   hand{id=5   "seat": 2
# but no part of a time, a version, a path or a size
_NUMBERED = re.compile(
    r"(?<![\w./])\"?(?P<word>[A-Za-z][A-Za-z_]{0,15})(?P<joint>\"?: ?|[-_#=./ ]|\{id=|\[)?"
    r"(?P<number>\d{1,4})(?![\w:]*[\d.]\d|[A-Za-z%])"
)
_HEAD, _RECORD = 72, 240
_FEWEST_LINES = 6
# Of the lines, so many name the speaker; of the numbers between the least and the most, so many are there.
_SHARE_OF_LINES, _SHARE_OF_NUMBERS = 0.15, 0.6
# Of all changes from line to line, so many go down: steps and epochs only rise.
_SHARE_FALLING = 0.1
_SHARE_OF_MOST, _SHARE_UNORDERED = 0.5, 0.3
_MOST_LINES = 4000
_LONGEST_RECORD = 60
# 09.35.10 . boat   (a clock of its own kind)
_OWN_CLOCK = re.compile(r"\W?\d\d?[.h]\d\d[.m]\d\d\b")
# skiff2   parallel6   shop-b   ropewalk-4   fen-c   but no part of a path, of an address or of a longer name
_NAMED = re.compile(r"(?<![\w./-])(?P<stem>[a-z][a-z_]*(?:-[a-z][a-z_]+)*)(?:-[a-z]|-?\d{1,5})(?![\w/-]|[.]\w)")
_NO_NODES_WORDS = (
    "dp tp pp cp ep sp mp stage group shard part chunk bucket numa socket rail switch rack ring gpu cuda device "
    "card chip link port eth ib bond mlx nvme disk step epoch iter batch round layer block level file seed fold "
    "version v rank worker local_rank sample trial expert head slice page core cpu thread queue slot lane fp bf "
    "int uint float"
)
_NO_NODES = frozenset(_NO_NODES_WORDS.split())
# What a process says of its node, it says when it starts.
_MOST_NAMED = 1500
_FEWEST_RANKS, _FEWEST_NODES, _FEWEST_A_NODE = 4, 2, 2


@dataclass(slots=True)
class _Seen:
    """Where a numbered word stands: (index of the line, number), in order."""

    places: list[tuple[int, int]] = field(default_factory=list)


def numbered_speakers(lines: Sequence[Line]) -> Mapping[tuple[int, int], int]:
    """The number of the process that printed each line, by stream and position; empty where the log's words do not tell
    one or its prefixes tell another. A line without a number is of the record above it, where it begins with a blank or
    has no clock of its own."""
    if len(lines) < _FEWEST_LINES or any(line.rank is not None and line.text[:1] != "{" for line in lines):
        return {}
    looked_at = lines[:_MOST_LINES]
    seen: dict[tuple[str, str], _Seen] = {}
    for at, line in enumerate(looked_at):
        for key, number in _first_numbers(line.text).items():
            seen.setdefault(key, _Seen()).places.append((at, number))
    # {"n": 81, "seat": 2, ...}: what a record's keys tell, the words must tell too.
    ranks = {(at, line.rank) for at, line in enumerate(looked_at) if line.rank is not None}
    speaking = [
        key for key, found in seen.items() if ranks.issubset(found.places) and _names_speakers(found, len(looked_at))
    ]
    if not speaking:
        return {}
    return dict(_spread(lines, max(speaking, key=lambda key: len(seen[key].places))))


def nodes_of_speakers(lines: Sequence[Line]) -> Mapping[int, str]:
    """The node of each process whose lines name one, by its number; empty where no name is known to be a node's."""
    numbers = numbered_speakers(lines)
    said: dict[str, dict[int, set[str]]] = {}
    for line in lines[:_MOST_NAMED]:
        number = numbers.get((line.stream, line.position), line.rank)
        if number is not None:
            for match in _NAMED.finditer(line.text, 0, _RECORD):
                said.setdefault(match["stem"], {}).setdefault(number, set()).add(match[0])
    found = [nodes for stem, names in said.items() if stem not in _NO_NODES and (nodes := _blocks(names))]
    return max(found, key=lambda nodes: (len(nodes), len(set(nodes.values()))), default={})


def node_named_in(line: Line, nodes: Iterable[str]) -> str | None:
    """The only one of the nodes that a line names; None where it names several or none."""
    named = {node for node in nodes if re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-]|[.]\w)", line.text)}
    return named.pop() if len(named) == 1 else None


def _blocks(names: Mapping[int, set[str]]) -> dict[int, str]:
    """Which name each number says, where each says one and neighbours share them; else nothing."""
    if len(names) < _FEWEST_RANKS or any(len(said) > 1 for said in names.values()):
        return {}
    nodes = {number: next(iter(names[number])) for number in sorted(names)}
    changes = 1 + sum(one != other for one, other in pairwise(nodes.values()))
    distinct = len(set(nodes.values()))
    apart = changes == distinct >= _FEWEST_NODES and len(nodes) >= _FEWEST_A_NODE * distinct
    return nodes if apart else {}


def _first_numbers(text: str) -> dict[tuple[str, str], int]:
    """The first number behind each word in a line's head, by word and what joins them."""
    found: dict[tuple[str, str], int] = {}
    for match in _NUMBERED.finditer(text, 0, _RECORD if text.startswith("{") or "=" in text[:40] else _HEAD):
        found.setdefault((match["word"].lower(), match["joint"] or ""), int(match["number"]))
    return found


def _names_speakers(seen: _Seen, lines: int) -> bool:
    numbers = [number for _, number in seen.places]
    distinct = set(numbers)
    if len(numbers) < max(_FEWEST_LINES, _SHARE_OF_LINES * lines) or len(distinct) < 2 or min(distinct) > 1:
        return False
    falling = sum(later < earlier for earlier, later in pairwise(numbers))
    # Of many processes few lines each are kept; what most lines name in no order are no steps.
    unordered = len(numbers) >= _SHARE_OF_MOST * lines and falling >= _SHARE_UNORDERED * len(numbers)
    if len(numbers) < 2 * len(distinct) and not unordered:
        return False
    if len(distinct) < _SHARE_OF_NUMBERS * (max(distinct) - min(distinct) + 1):
        return False
    return falling >= max(1, _SHARE_FALLING * len(distinct))


def _spread(lines: Sequence[Line], key: tuple[str, str]) -> Iterator[tuple[tuple[int, int], int]]:
    """Each line's number: its own, or that of the record it continues."""
    above: Line | None = None
    number = -1
    columns: dict[int, int] = {}
    for line in lines:
        own = _first_numbers(line.text).get(key)
        if own is None and (other := _NUMBERED.match(line.text, columns.get(line.stream, 0))):
            own = int(other["number"]) if (other["joint"] or "") == key[1] else None  # boy1 where orb1 stands elsewhere
        elif own is not None:
            columns.setdefault(line.stream, _column(line.text, key))
        if own is not None:
            above, number = line, own
        elif above is None or not _continues(line, above):
            above = None
            continue
        yield (line.stream, line.position), number


def _column(text: str, key: tuple[str, str]) -> int:
    """Where the numbered word stands in a line."""
    return next(
        match.start() for match in _NUMBERED.finditer(text) if (match["word"].lower(), match["joint"] or "") == key
    )


def _continues(line: Line, above: Line) -> bool:
    near = line.stream == above.stream and line.position - above.position <= _LONGEST_RECORD
    clock = line.clock or _OWN_CLOCK.match(line.text)
    return near and clock is None and line.level is None
