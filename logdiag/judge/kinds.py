"""The kinds of all kept lines, and what they tell of single processes, by rules in `rules/context/`, in one pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from logdiag.model import Line, LinePlace, number_in
from logdiag.rules import RuleBook


class Told(NamedTuple):
    """What a line tells of a process: `facts` by the names of the groups in a rule in `rules/context/processes/`."""

    line: Line
    facts: Mapping[str, str]

    @property
    def rank(self) -> int | None:
        """The rank that is named; None for none."""
        return number_in(self.facts.get("rank", ""))

    @property
    def node(self) -> str:
        """The node that is named, else the one on which the line was printed; empty for none."""
        return self.facts.get("node") or self.line.node or ""

    @property
    def pid(self) -> str:
        """The process id; empty for none."""
        return self.facts.get("pid", "")


class Kinds(NamedTuple):
    """The kinds of each line, by stream and position; lines of no kind are left out. `telling` has by topic the lines
    that may tell of a process, each with the number of the pattern in `book` by which it may."""

    of_line: Mapping[LinePlace, frozenset[str]] = {}
    telling: Mapping[str, Sequence[tuple[Line, int]]] = {}
    book: RuleBook | None = None

    def is_a(self, kind: str, line: Line) -> bool:
        """Whether a line is of a kind, by the name of its rule (`stop-from-outside`, `machines-own`, ...)."""
        return kind in self.of_line.get(line.place, ())

    def has(self, kind: str) -> bool:
        """Whether any line is of a kind."""
        return any(kind in kinds for kinds in self.of_line.values())

    def told(self, topic: str, by: Line | None = None) -> list[Told]:
        """All that lines tell of processes, or that one line does, the one `by` which it is told; in the order of the
        log. A `topic` is a folder or a rule in `rules/context/processes/`."""
        asked = (told for told in self.telling.get(topic, ()) if by is None or told[0].place == by.place)
        found = ((line, self.book.told_by(number, line) if self.book else None) for line, number in asked)
        return [Told(line, facts) for line, facts in found if facts is not None]


def kinds_of(lines: Iterable[Line], book: RuleBook, without: frozenset[str] = frozenset()) -> Kinds:
    """The kinds of lines, by the rules of a book; kinds and topics named in `without` are left out."""
    by_place = {line.place: line for line in lines}
    in_order = [by_place[place] for place in sorted(by_place)]
    of_line: dict[LinePlace, frozenset[str]] = {}
    telling: dict[str, list[tuple[Line, int]]] = defaultdict(list)
    for index, patterns in book.softened_by(in_order):
        line = in_order[index]
        if kinds := book.kinds_by(patterns, line) - without:
            of_line[line.place] = kinds
        for number in patterns:
            if (topic := book.topics.get(number, "")) and topic not in without:
                telling[topic].append((line, number))
    return Kinds(of_line, telling, book)
