"""Finds many patterns in a block of bytes at once.

Hyperscan does it in one pass; a platform without its wheel gets the same candidates from `regex`, one pattern after
the other. What it reports are candidates, to be confirmed: a match may reach over a line's end, and what Hyperscan
cannot express is scanned for with its prefilter.
"""

from __future__ import annotations

import marshal
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = ["Matcher"]

_FORM = "logdiag-rules/5"
_SIZE = 8
Find = Callable[[bytes], Iterable[tuple[int, list[int]]]]

# What Hyperscan cannot express: look-arounds, back references, atomic and possessive groups, conditionals.
_BEYOND = re.compile(r"\(\?(?:=|!|<=|<!|>|\()|\\[1-9]|[*+?}]\+")


class Matcher:
    """A compiled set of patterns; `find` gives (end offset, patterns) for each place where an expression of theirs
    ends.

    A pattern is given by the expressions of which it needs at least one; those that patterns share are looked for once.
    """

    def __init__(self, find: Find, name: str, serialized: bytes = b"") -> None:
        self.find = find
        self.name = name
        self.serialized = serialized

    @staticmethod
    def made_by() -> bytes:
        """What a `serialized` depends on beside its patterns: the engine and the machine."""
        try:
            import hyperscan

            engine = str(getattr(hyperscan, "__version__", "unknown"))
        except ImportError:
            engine = "none"
        machine = os.uname().machine if hasattr(os, "uname") else sys.platform
        return f"{_FORM} {engine} {machine}\0".encode()

    @staticmethod
    def compile(patterns: Sequence[Sequence[str]]) -> Matcher:
        """Raises ValueError naming the expression that cannot be scanned for."""
        needed: dict[str, list[int]] = {}
        for index, expressions in enumerate(patterns):
            for expression in expressions:
                needed.setdefault(expression, []).append(index)
        owners = list(needed.values())
        try:
            import hyperscan
        except ImportError:
            return _one_by_one(list(needed), owners)
        if not needed:
            return _one_by_one([], [])
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        encoded = [expression.encode() for expression in needed]
        flags = [
            hyperscan.HS_FLAG_MULTILINE | (hyperscan.HS_FLAG_PREFILTER if _BEYOND.search(expression) else 0)
            for expression in needed
        ]
        try:
            database.compile(expressions=encoded, ids=list(range(len(encoded))), elements=len(encoded), flags=flags)
        except hyperscan.error as error:
            raise ValueError(_first_bad(hyperscan, encoded, flags) or str(error)) from error
        head = marshal.dumps(owners)
        serialized = len(head).to_bytes(_SIZE, "big") + head + hyperscan.dumpb(database)
        return Matcher(_hyperscan_find(database, owners), "hyperscan", serialized)

    @staticmethod
    def restore(serialized: bytes) -> Matcher | None:
        """A matcher from an earlier one's `serialized`; None where it does not fit this machine."""
        try:
            import hyperscan

            size = int.from_bytes(serialized[:_SIZE], "big")
            owners = marshal.loads(serialized[_SIZE : _SIZE + size])
            database = hyperscan.loadb(serialized[_SIZE + size :], hyperscan.HS_MODE_BLOCK)
        except Exception:  # any failure only means that the patterns are compiled again
            return None
        return Matcher(_hyperscan_find(database, owners), "hyperscan", serialized)


def _hyperscan_find(database: Any, owners: list[list[int]]) -> Find:
    """Scans that may run at once, in threads and within signal handlers: each takes a working space of its own, and
    leaves it for the next."""
    from hyperscan import Scratch

    spare: list[Scratch] = []

    def find(data: bytes) -> Iterable[tuple[int, list[int]]]:
        try:
            scratch = spare.pop()
        except IndexError:
            scratch = Scratch(database)
        ends: list[int] = []
        found: list[int] = []

        def on_match(expression: int, _start: int, end: int, _flags: int, _context: object) -> None:
            ends.append(end)
            found.append(expression)

        database.scan(data, match_event_handler=on_match, scratch=scratch)
        spare.append(scratch)
        return zip(ends, map(owners.__getitem__, found), strict=True)

    return find


def _one_by_one(expressions: Sequence[str], owners: list[list[int]]) -> Matcher:
    import regex

    compiled = [regex.compile(expression.encode(), regex.MULTILINE) for expression in expressions]

    def find(data: bytes) -> Iterable[tuple[int, list[int]]]:
        found = [
            (match.end(), patterns)
            for expression, patterns in zip(compiled, owners, strict=True)
            for match in expression.finditer(data)
        ]
        return sorted(found, key=lambda item: item[0])

    return Matcher(find, "regex")


def _first_bad(hyperscan: Any, expressions: list[bytes], flags: list[int]) -> str | None:
    for expression, flag in zip(expressions, flags, strict=True):
        try:
            hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK).compile(
                expressions=[expression], ids=[0], elements=1, flags=[flag]
            )
        except hyperscan.error as error:
            return f"{expression.decode()}: {error}"
    return None
