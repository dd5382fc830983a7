"""Searches for a rule's patterns on lines, without ever hanging on one, and says which patterns of the user's own are
too large to be used. The shipped ones stay far below these limits."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any

from logdiag.errors import RuleError
from logdiag.model import Line
from logdiag.patterns import pattern_of

Match = Any
"""What a search found: a match of `re` or of `regex`."""
_Search = Callable[..., Match | None]

# A leading ^ means the start of the message, which only a line's prefixes can tell.
_ANCHOR = pattern_of(r"^(\(\?[a-zA-Z]+\))?\^")
# One pattern may take so long on one line; one that needs more did not match.
_SECONDS = 0.2
# A pattern that was too slow on so many lines of a log is not tried on further lines.
_MOST_SLOW = 10
# CPU seconds that a pattern may take on one line when rules are tested.
_TO_PROVE = 0.05
# In characters, with repeats written out: of one pattern of the user's own, and of all together.
_LONGEST_PATTERN, _LARGEST_PATTERN, LARGEST = 4_000, 20_000, 2_000_000
# An escaped character, a class, a counted repeat, or any other character.
_PART = pattern_of(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d*),?(\d*)\}|.", re.DOTALL)
_LONGEST_NUMBER = 6


class Searcher:
    """Patterns on lines, of rules and of log forms. Those that ship were proved not to run away and use `re`, which
    compiles them three times as fast; `own` ones run under the time-out of `regex`."""

    def __init__(self, own: Iterable[str]) -> None:
        self._own = frozenset(own)
        self._compiled: dict[str, tuple[Any, _Search, _Search]] = {}
        self._slow: Counter[str] = Counter()

    def fresh(self) -> Searcher:
        """A copy for one diagnosis, in which no pattern counts as slow yet."""
        searcher = copy(self)
        searcher._slow = Counter()
        return searcher

    def on(self, pattern: str, line: Line) -> Match | None:
        """The first match of a pattern on a line; None without one, or if the pattern is too slow."""
        if self._slow and self._slow[pattern] >= _MOST_SLOW:
            return None
        anchored, search, match = self._compiled.get(pattern) or self._compile(pattern)
        try:
            if not anchored:
                return search(line.text)
            for start in _message_starts(line):
                if found := match(line.text, start):
                    return found
        except TimeoutError:
            self._slow[pattern] += 1
        return None

    def within(self, pattern: str, text: str) -> bool:
        """Whether a pattern is found in a text of several lines."""
        return self._tried(1, pattern, text) is not None

    def at(self, pattern: str, text: str, offset: int) -> Match | None:
        """The match of a pattern that begins at an offset of a text; None without one."""
        return self._tried(2, pattern, text, offset)

    def _tried(self, method: int, pattern: str, *arguments: Any) -> Match | None:
        try:
            find = (self._compiled.get(pattern) or self._compile(pattern))[method]
            return find(*arguments) if self._slow[pattern] < _MOST_SLOW else None
        except TimeoutError:
            self._slow[pattern] += 1
            return None

    def notes(self, kind: str, named: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
        """A note for each rule or form (its `kind`) of which a pattern was too slow on a line."""
        for name, patterns in named if self._slow else ():
            if count := sum(self._slow[pattern] for pattern in patterns):
                slow = f"a pattern took longer than {_SECONDS} s on {count} lines and counts there as not found"
                more = ", and on the lines after these" if count >= _MOST_SLOW else ""
                yield f"{kind} {name}: {slow}{more}; logdiag {kind}s test shows it"

    def _compile(self, pattern: str) -> tuple[Any, _Search, _Search]:
        """Compiles a pattern: whether it is anchored, its search, and its match."""
        plain = unanchored(pattern)
        if pattern not in self._own:
            with suppress(re.error):  # a few of those that ship are patterns of `regex` only
                proved = pattern_of(plain)
                self._compiled[pattern] = plain != pattern, proved.search, proved.match
        if pattern not in self._compiled:
            import regex

            timed = regex.compile(plain)
            search, match = partial(timed.search, timeout=_SECONDS), partial(timed.match, timeout=_SECONDS)
            self._compiled[pattern] = plain != pattern, search, match
        return self._compiled[pattern]


def takes_too_long(attempt: Callable[[], object]) -> bool:
    """Whether an attempt is slow three times in a row; once may be the machine's fault."""
    for _ in range(3):
        began = time.thread_time()
        attempt()
        if time.thread_time() - began <= _TO_PROVE:
            return False
    return True


def unanchored(pattern: str) -> str:
    """The pattern without its leading ^."""
    return _ANCHOR.sub(r"\1", pattern)


def _message_starts(line: Line) -> list[int]:
    """Where an anchored pattern may begin: after each prefix, with and without the blanks that follow it."""
    starts = []
    for start in line.starts:
        starts.append(start)
        if line.text[start : start + 1].isspace():
            starts.append(len(line.text) - len(line.text[start:].lstrip()))
    return starts


def wrong_with(pattern: str) -> str:
    """Why a pattern of the user's own cannot be used, and the remedy; empty if it can."""
    if len(pattern) > _LONGEST_PATTERN:
        return f"is longer than {_LONGEST_PATTERN} characters; write several"
    if size(pattern) > _LARGEST_PATTERN:
        return f"stands for more than {_LARGEST_PATTERN} characters with its repeats; bound them lower"
    import regex

    try:
        regex.compile(pattern)
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as error:
        return f"is no regular expression ({error}); correct it"
    return ""


def check_size(kind: str, own: Sequence[str]) -> None:
    """Raises RuleError where all patterns of the user's own rules or forms (their `kind`) together are too large."""
    if sum(map(size, own)) > LARGEST:
        most = f"{LARGEST:,} characters with their repeats"
        raise RuleError(f"{kind}: the {len(own):,} patterns of your own stand for more than {most}; bound them lower")


def size(pattern: str) -> int:
    """The number of characters of a pattern with each counted repeat written out, also in nested groups."""
    outer: list[int] = []
    total = last = 0
    for part in _PART.finditer(pattern):
        text = part[0]
        if text == "(":
            outer.append(total)
            total = last = 0
        elif text == ")" and outer:
            last = max(total, 1)
            total = outer.pop() + last
        elif text[0] == "{" and len(text) > 1:
            times = max(int(number[:_LONGEST_NUMBER] or "0") for number in part.groups())
            total += last * (max(times, 1) - 1)
            last *= max(times, 1)
        else:
            last = 1
            total += 1
    return total
