"""Finds many patterns in a block of bytes at once.

Hyperscan does it in one pass; a platform without its wheel gets the same candidates from `regex`, one pattern after
the other. The results are candidates, to be confirmed on the line: a match may cross the end of a line, and patterns
that Hyperscan cannot express are scanned for with its prefilter, which finds too much.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

from logdiag.patterns import pattern_of

_FORM = "logdiag-rules/10"
_MOST_TOGETHER = 4096

# Syntax that Hyperscan cannot express: look-arounds, back references, atomic and possessive groups, conditionals.
_BEYOND = pattern_of(r"\(\?(?:=|!|<=|<!|>|\()|\\[1-9]|[*+?}]\+")


Hit = tuple[int, int, tuple[int, ...]]
"""Where a candidate line begins and ends in its block, and the patterns that may match it."""


class Part(NamedTuple):
    """Expressions that are searched in one pass. `scan` returns (end offset, number of the expression) for each match;
    `owners` has for each expression the numbers of its patterns; `dump` returns the compiled bytes, empty if the engine
    has none."""

    scan: Callable[[bytes], list[tuple[int, int]]]
    owners: list[list[int]]
    dump: Callable[[], bytes]


class Matcher:
    """A compiled set of patterns, which is searched in blocks and on single lines.

    Each pattern is a list of expressions, of which one must match; expressions that patterns share are searched once.
    """

    def __init__(self, parts: Sequence[Part], name: str) -> None:
        self.parts = tuple(parts)
        self.name = name
        self._owners = [owners for part in self.parts for owners in part.owners]
        # The same combinations of expressions on a line come again and again.
        self._patterns_of = lru_cache(_MOST_TOGETHER)(self._new_patterns_of)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the matcher for another process on the same machine."""
        return Matcher.restore, (self.dumped,)

    def _ends(self, data: bytes) -> list[tuple[int, int]]:
        """(end offset, number of the expression) of each match in order; the numbers go on through all parts."""
        if len(self.parts) == 1:
            return self.parts[0].scan(data)
        firsts = accumulate((len(part.owners) for part in self.parts), initial=0)
        parts = zip(self.parts, firsts, strict=False)
        ends = [(end, first + number) for part, first in parts for end, number in part.scan(data)]
        return sorted(ends, key=itemgetter(0))

    def hits(self, data: bytes) -> list[Hit]:
        """The lines of a block (whole lines) on which a pattern may match, in order."""
        starts = starts_of_lines(data)
        return [(starts[line], starts[line + 1] - 1, patterns) for line, patterns in self.on_lines(data, starts)]

    def on_lines(self, data: bytes, starts: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
        """As `hits`, with the index of each line, from 0, in place of its offsets; `starts` are `starts_of_lines`."""
        hits: list[tuple[int, tuple[int, ...]]] = []
        line, next_line, expressions = 0, -1, list[int]()
        for end, expression in self._ends(data):
            if end > next_line:  # a match may include the line's end
                if expressions:
                    hits.append((line, self._patterns_of(tuple(expressions))))
                    expressions = []
                line = bisect_right(starts, max(end - 1, 0), line) - 1
                next_line = starts[line + 1]
            expressions.append(expression)
        if expressions:
            hits.append((line, self._patterns_of(tuple(expressions))))
        return [hit for hit in hits if hit[1]]

    def _new_patterns_of(self, expressions: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted({pattern for expression in expressions for pattern in self._owners[expression]}))

    def on(self, text: str) -> set[int]:
        """The patterns that may match somewhere in a text."""
        ends = self._ends(text.encode(errors="replace"))
        return {pattern for _, expression in ends for pattern in self._owners[expression]}

    @property
    def dumped(self) -> list[tuple[list[list[int]], bytes]] | None:
        """Plain values for `restore`; None if the engine cannot dump its patterns."""
        dumped = [(part.owners, part.dump()) for part in self.parts]
        return dumped if all(database for _, database in dumped) else None

    def renumbered(self, numbers: Sequence[int | None]) -> tuple[Part, ...]:
        """The parts with pattern N renumbered to `numbers[N]`; patterns whose new number is None are left out."""
        return tuple(
            part._replace(
                owners=[[new for old in owners if (new := numbers[old]) is not None] for owners in part.owners]
            )
            for part in self.parts
        )

    @staticmethod
    def made_by() -> bytes:
        """The versions on which `dumped` depends beside the patterns: the engine and the machine."""
        try:
            import hyperscan

            engine = str(getattr(hyperscan, "__version__", "unknown"))
        except ImportError:
            engine = "none"
        machine = os.uname().machine if hasattr(os, "uname") else sys.platform
        return f"{_FORM} {engine} {machine}\0".encode()

    @staticmethod
    def compile(patterns: Sequence[Sequence[str]]) -> Matcher:
        """A matcher for patterns, each a list of expressions. Raises ValueError if one cannot be compiled."""
        owners_of: dict[str, list[int]] = {}
        for index, expressions in enumerate(patterns):
            for expression in expressions:
                owners_of.setdefault(expression, []).append(index)
        owners = list(owners_of.values())
        try:
            import hyperscan
        except ImportError:
            return Matcher([Part(_one_by_one(list(owners_of)), owners, bytes)], "regex")
        if not owners_of:
            return Matcher([], "hyperscan")
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        encoded = [expression.encode() for expression in owners_of]
        flags = [
            hyperscan.HS_FLAG_MULTILINE | (hyperscan.HS_FLAG_PREFILTER if _BEYOND.search(expression) else 0)
            for expression in owners_of
        ]
        try:
            database.compile(expressions=encoded, ids=list(range(len(encoded))), elements=len(encoded), flags=flags)
        except hyperscan.error as error:
            raise ValueError(str(error)) from error
        return Matcher([_part(database, owners)], "hyperscan")

    @staticmethod
    def restore(dumped: list[tuple[list[list[int]], bytes]]) -> Matcher | None:
        """A matcher from the `dumped` values of an earlier one; None if they do not fit this machine."""
        try:
            import hyperscan

            mode = hyperscan.HS_MODE_BLOCK
            return Matcher([_part(hyperscan.loadb(part, mode), owners) for owners, part in dumped], "hyperscan")
        except Exception:  # any failure only means that the patterns are compiled again
            return None


def starts_of_lines(data: bytes) -> list[int]:
    """The offset of each line in a block, and that of a line after the last one."""
    return list(accumulate(map((1).__add__, map(len, data.split(b"\n"))), initial=0))


def _part(database: Any, owners: list[list[int]]) -> Part:
    from hyperscan import dumpb

    return Part(_hyperscan(database), owners, partial(dumpb, database))


def _hyperscan(database: Any) -> Callable[[bytes], list[tuple[int, int]]]:
    """A function that scans with a database. Threads and signal handlers may call it at the same time: each call takes
    a scratch space of its own, and leaves it for the next."""
    from hyperscan import Scratch

    spare: list[Scratch] = []

    def scan(data: bytes) -> list[tuple[int, int]]:
        try:
            scratch = spare.pop()
        except IndexError:
            scratch = Scratch(database)
        ends: list[tuple[int, int]] = []

        def on_match(expression: int, _start: int, end: int, _flags: int, _context: object) -> None:
            ends.append((end, expression))

        database.scan(data, match_event_handler=on_match, scratch=scratch)
        spare.append(scratch)
        return ends

    return scan


def _one_by_one(expressions: Sequence[str]) -> Callable[[bytes], list[tuple[int, int]]]:
    import regex

    compiled = [regex.compile(expression.encode(), regex.MULTILINE) for expression in expressions]

    def scan(data: bytes) -> list[tuple[int, int]]:
        return sorted(
            (match.end(), number) for number, expression in enumerate(compiled) for match in expression.finditer(data)
        )

    return scan
