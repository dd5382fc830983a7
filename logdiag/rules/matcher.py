"""Finds many patterns in a block of bytes at once.

Hyperscan does it in one pass; a platform without its wheel gets the same candidates from `regex`, one pattern after
the other. What it reports are candidates, to be confirmed: a match may reach over a line's end, and what Hyperscan
cannot express is scanned for with its prefilter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Matcher"]

# What Hyperscan cannot express: look-arounds, back references, atomic and possessive groups, conditionals.
_BEYOND = re.compile(r"\(\?(?:=|!|<=|<!|>|\()|\\[1-9]|[*+?}]\+")


class Matcher:
    """A compiled set of patterns; `find` gives (end offset, pattern index) for each place where one ends."""

    def __init__(self, find: Callable[[bytes], list[tuple[int, int]]], name: str, serialized: bytes = b"") -> None:
        self.find = find
        self.name = name
        self.serialized = serialized

    @staticmethod
    def compile(patterns: Sequence[str]) -> Matcher:
        """Raises ValueError naming the pattern that cannot be scanned for."""
        try:
            import hyperscan
        except ImportError:
            return _one_by_one(patterns)
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        expressions = [pattern.encode() for pattern in patterns]
        flags = [
            hyperscan.HS_FLAG_MULTILINE | (hyperscan.HS_FLAG_PREFILTER if _BEYOND.search(pattern) else 0)
            for pattern in patterns
        ]
        if patterns:
            try:
                database.compile(
                    expressions=expressions, ids=list(range(len(patterns))), elements=len(patterns), flags=flags
                )
            except hyperscan.error as error:
                raise ValueError(_first_bad(hyperscan, expressions, flags, patterns) or str(error)) from error
        else:
            return _one_by_one(patterns)
        return Matcher(_hyperscan_find(database), "hyperscan", hyperscan.dumpb(database))

    @staticmethod
    def restore(serialized: bytes) -> Matcher | None:
        """A matcher from an earlier one's `serialized`; None where it does not fit this machine."""
        try:
            import hyperscan

            database = hyperscan.loadb(serialized, hyperscan.HS_MODE_BLOCK)
            database.scratch = hyperscan.Scratch(database)
        except Exception:  # any failure only means that the patterns are compiled again
            return None
        return Matcher(_hyperscan_find(database), "hyperscan", serialized)


def _hyperscan_find(database: Any) -> Callable[[bytes], list[tuple[int, int]]]:
    def find(data: bytes) -> list[tuple[int, int]]:
        ends: list[tuple[int, int]] = []
        append = ends.append

        def on_match(pattern: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append((end, pattern))

        database.scan(data, match_event_handler=on_match)
        return ends

    return find


def _one_by_one(patterns: Sequence[str]) -> Matcher:
    import regex

    compiled = [regex.compile(pattern.encode(), regex.MULTILINE) for pattern in patterns]

    def find(data: bytes) -> list[tuple[int, int]]:
        ends = [(match.end(), index) for index, pattern in enumerate(compiled) for match in pattern.finditer(data)]
        return sorted(ends)

    return Matcher(find, "regex")


def _first_bad(hyperscan: Any, expressions: list[bytes], flags: list[int], patterns: Sequence[str]) -> str | None:
    for expression, flag, pattern in zip(expressions, flags, patterns, strict=True):
        try:
            hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK).compile(
                expressions=[expression], ids=[0], elements=1, flags=[flag]
            )
        except hyperscan.error as error:
            return f"{pattern}: {error}"
    return None
