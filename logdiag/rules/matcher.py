"""Finds many patterns in a block of bytes at once.

Hyperscan does it in one pass; a platform without its wheel gets the same candidates from `regex`, one pattern after
the other. What it reports are candidates, to be confirmed: a match may reach over a line's end, and what Hyperscan
cannot express is scanned for with its prefilter.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

from logdiag.patterns import pattern_of

_FORM = "logdiag-rules/10"
_MOST_TOGETHER = 4096
MARSHAL = 4
"""The form of marshal that every Python from 3.10 on reads: what a wheel holds was written by another."""

# What Hyperscan cannot express: look-arounds, back references, atomic and possessive groups, conditionals.
_BEYOND = pattern_of(r"\(\?(?:=|!|<=|<!|>|\()|\\[1-9]|[*+?}]\+")


Hit = tuple[int, int, tuple[int, ...]]
"""Where a candidate line begins and ends in its block, and the patterns that may match it."""


class Part(NamedTuple):
    """Expressions that are looked for in one pass: `scan` gives (end offset, number of the expression), `owners` the
    patterns that each expression stands for, `dump` what it is restored from (empty where it cannot be)."""

    scan: Callable[[bytes], list[tuple[int, int]]]
    owners: list[list[int]]
    dump: Callable[[], bytes]


class Matcher:
    """A compiled set of patterns, looked for in blocks and on single lines.

    A pattern is given by the expressions of which it needs at least one; those that patterns share are looked for once.
    """

    def __init__(self, parts: Sequence[Part], name: str) -> None:
        self.parts = tuple(parts)
        self.name = name
        self._owners = [owners for part in self.parts for owners in part.owners]
        # Of the expressions that end on a line, the patterns that may match there: the same come again and again.
        self._together: dict[tuple[int, ...], tuple[int, ...]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """For another process on the same machine."""
        return Matcher.restore, (self.dumped,)

    def _ends(self, data: bytes) -> list[tuple[int, int]]:
        """Where which expressions end, in order; they are counted through all parts."""
        if len(self.parts) == 1:
            return self.parts[0].scan(data)
        firsts = accumulate((len(part.owners) for part in self.parts), initial=0)
        parts = zip(self.parts, firsts, strict=False)
        found = [(end, first + at) for part, first in parts for end, at in part.scan(data)]
        return sorted(found, key=itemgetter(0))

    def hits(self, data: bytes) -> list[Hit]:
        """The lines of a block (whole lines) on which a pattern may match, in order."""
        starts = starts_of_lines(data)
        return [(starts[at], starts[at + 1] - 1, patterns) for at, patterns in self.on_lines(data, starts)]

    def on_lines(self, data: bytes, starts: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
        """The same by the numbers of the lines, from 0, of which `starts_of_lines` is known."""
        hits: list[tuple[int, tuple[int, ...]]] = []
        line, next_line, found = 0, -1, list[int]()
        for end, expression in self._ends(data):
            if end > next_line:  # a match may take the line's end with it
                if found:
                    hits.append((line, self._patterns_of(tuple(found))))
                    found = []
                line = bisect_right(starts, max(end - 1, 0), line) - 1
                next_line = starts[line + 1]
            found.append(expression)
        if found:
            hits.append((line, self._patterns_of(tuple(found))))
        return [hit for hit in hits if hit[1]]

    def _patterns_of(self, expressions: tuple[int, ...]) -> tuple[int, ...]:
        patterns = self._together.get(expressions)
        if patterns is None:
            if len(self._together) >= _MOST_TOGETHER:
                self._together.clear()
            patterns = tuple(sorted({pattern for each in expressions for pattern in self._owners[each]}))
            self._together[expressions] = patterns
        return patterns

    def on(self, text: str) -> set[int]:
        """The patterns that may match somewhere in a text."""
        ends = self._ends(text.encode(errors="replace"))
        return {pattern for _, expression in ends for pattern in self._owners[expression]}

    @property
    def dumped(self) -> list[tuple[list[list[int]], bytes]] | None:
        """Plain values that `restore` makes it again from; None where the engine cannot do that."""
        dumped = [(part.owners, part.dump()) for part in self.parts]
        return dumped if all(database for _, database in dumped) else None

    def renumbered(self, numbers: Sequence[int | None]) -> tuple[Part, ...]:
        """Its parts, each pattern under the number that `numbers` gives it; those without one are left out."""
        return tuple(
            part._replace(
                owners=[[new for old in owners if (new := numbers[old]) is not None] for owners in part.owners]
            )
            for part in self.parts
        )

    @staticmethod
    def made_by() -> bytes:
        """What it `dumped` depends on beside its patterns: the engine and the machine."""
        try:
            import hyperscan

            engine = str(getattr(hyperscan, "__version__", "unknown"))
        except ImportError:
            engine = "none"
        machine = os.uname().machine if hasattr(os, "uname") else sys.platform
        return f"{_FORM} {engine} {machine}\0".encode()

    @staticmethod
    def compile(patterns: Sequence[Sequence[str]]) -> Matcher:
        """Raises ValueError where one cannot be scanned for."""
        needed: dict[str, list[int]] = {}
        for index, expressions in enumerate(patterns):
            for expression in expressions:
                needed.setdefault(expression, []).append(index)
        owners = list(needed.values())
        try:
            import hyperscan
        except ImportError:
            return Matcher([Part(_one_by_one(list(needed)), owners, bytes)], "regex")
        if not needed:
            return Matcher([], "hyperscan")
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        encoded = [expression.encode() for expression in needed]
        flags = [
            hyperscan.HS_FLAG_MULTILINE | (hyperscan.HS_FLAG_PREFILTER if _BEYOND.search(expression) else 0)
            for expression in needed
        ]
        try:
            database.compile(expressions=encoded, ids=list(range(len(encoded))), elements=len(encoded), flags=flags)
        except hyperscan.error as error:
            raise ValueError(str(error)) from error
        return Matcher([_part(database, owners)], "hyperscan")

    @staticmethod
    def restore(dumped: list[tuple[list[list[int]], bytes]]) -> Matcher | None:
        """A matcher from what an earlier one `dumped`; None where it does not fit this machine."""
        try:
            import hyperscan

            mode = hyperscan.HS_MODE_BLOCK
            return Matcher([_part(hyperscan.loadb(part, mode), owners) for owners, part in dumped], "hyperscan")
        except Exception:  # any failure only means that the patterns are compiled again
            return None


def starts_of_lines(data: bytes) -> list[int]:
    """Where each line of a block begins, and where one behind the last would."""
    return list(accumulate(map((1).__add__, map(len, data.split(b"\n"))), initial=0))


def _part(database: Any, owners: list[list[int]]) -> Part:
    from hyperscan import dumpb

    return Part(_hyperscan(database), owners, partial(dumpb, database))


def _hyperscan(database: Any) -> Callable[[bytes], list[tuple[int, int]]]:
    """Scans that may run at once, in threads and within signal handlers: each takes a working space of its own, and
    leaves it for the next."""
    from hyperscan import Scratch

    spare: list[Scratch] = []

    def scan(data: bytes) -> list[tuple[int, int]]:
        try:
            scratch = spare.pop()
        except IndexError:
            scratch = Scratch(database)
        found: list[tuple[int, int]] = []

        def on_match(expression: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((end, expression))

        database.scan(data, match_event_handler=on_match, scratch=scratch)
        spare.append(scratch)
        return found

    return scan


def _one_by_one(expressions: Sequence[str]) -> Callable[[bytes], list[tuple[int, int]]]:
    import regex

    compiled = [regex.compile(expression.encode(), regex.MULTILINE) for expression in expressions]

    def scan(data: bytes) -> list[tuple[int, int]]:
        return sorted(
            (match.end(), at) for at, expression in enumerate(compiled) for match in expression.finditer(data)
        )

    return scan
