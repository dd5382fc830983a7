"""Searches for a rule's patterns on lines, without ever hanging on one."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import partial
from typing import Any

from logdiag.model import Line
from logdiag.patterns import pattern_of

Match = Any
"""What a search found: a match of `re` or of `regex`."""
_Search = Callable[..., Match | None]

# A leading ^ means the start of the message, which only a line's prefixes can tell.
_ANCHOR = pattern_of(r"^(\(\?[a-zA-Z]+\))?\^")
# loom 3: panic: ...    [sled 35] panic: ...    annealer2:13: panic: ...   (whose message it is, where no form tells)
_LABEL = pattern_of(
    r" *[\[<(]?(?!(?i:line|zeile|ligne|step|epoch|iter|attempt|try|retry|test|case|error|warning)\w*[ #:=-]?\d)"
    r"[A-Za-z][\w.-]{0,19}[ #:=-]?\d{1,5}[\])>]?(?: ?[:|]|(?<=[\])>])) +(?=\S)"
)
# One pattern may take so long on one line; one that needs more did not match.
_SECONDS = 0.2
# A pattern that was too slow on so many lines of a log is not tried on further lines.
_MOST_SLOW = 10
# CPU seconds that a pattern may take on one line when rules are tested.
_TO_PROVE = 0.05


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
        try:
            if pattern in self._own:
                raise re.error("not proved")
            compiled = pattern_of(plain)
            found: tuple[_Search, _Search] = compiled.search, compiled.match
        except re.error:
            import regex

            timed = regex.compile(plain)
            found = partial(timed.search, timeout=_SECONDS), partial(timed.match, timeout=_SECONDS)
        self._compiled[pattern] = (plain != pattern, *found)
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
    """Where an anchored pattern may begin: after each prefix, with and without the blanks that follow it, and behind a
    label that numbers a process."""
    starts = []
    for start in line.starts:
        starts.append(start)
        if line.text[start : start + 1].isspace():
            starts.append(len(line.text) - len(line.text[start:].lstrip()))
    label = _LABEL.match(line.text, starts[-1]) if starts else None
    return [*starts, label.end()] if label else starts
