"""The kinds of all kept lines, by the rules in `rules/context/kinds/`, found in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from logdiag.model import Line, LinePlace
from logdiag.rules import RuleBook


class Kinds(NamedTuple):
    """The kinds of each line, by stream and position; lines of no kind are left out."""

    of_line: Mapping[LinePlace, frozenset[str]] = {}

    def is_a(self, kind: str, line: Line) -> bool:
        """Whether a line is of a kind, by the name of its rule (`stop-from-outside`, `machines-own`, ...)."""
        return kind in self.of_line.get(line.place, ())

    def has(self, kind: str) -> bool:
        """Whether any line is of a kind."""
        return any(kind in kinds for kinds in self.of_line.values())


def kinds_of(lines: Iterable[Line], book: RuleBook, without: frozenset[str] = frozenset()) -> Kinds:
    """The kinds of lines, by the rules of a book; those named in `without` are left out."""
    lines = list(lines)
    kinds_by_line = zip(lines, book.kinds_of(lines), strict=True)
    return Kinds({line.place: left for line, kinds in kinds_by_line if (left := kinds - without)})
