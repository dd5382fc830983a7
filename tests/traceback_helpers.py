"""Tracebacks made up for the tests, and the reading of them."""

from __future__ import annotations

from functools import cache
from itertools import chain, zip_longest

from logdiag.judge.kinds import kinds_of
from logdiag.judge.tracebacks.chains import Traceback, find_tracebacks
from logdiag.model import Line
from logdiag.rules import RuleBook
from tests.helpers import parsed, traceback_of

FIRST = traceback_of("KeyError: 'caption'")


SECOND = [
    "Traceback (most recent call last):",
    '  File "/srv/job/loader.py", line 40, in load',
    '    raise DataError("no caption") from error',
    "loader.DataError: no caption in sample 7",
]


CAUSE = ["", "The above exception was the direct cause of the following exception:", ""]


CONTEXT = ["", "During handling of the above exception, another exception occurred:", ""]


@cache
def shipped() -> RuleBook:
    """The shipped rules."""
    return RuleBook.load()


def found_in(lines: list[Line]) -> list[Traceback]:
    """The tracebacks in lines that were read."""
    return find_tracebacks(lines, kinds_of(lines, shipped()))


def found(lines: list[str]) -> list[Traceback]:
    """The tracebacks in these lines."""
    return found_in(parsed(lines))


def only(lines: list[str]) -> Traceback:
    """The one traceback in these lines."""
    (traceback,) = found(lines)
    return traceback


def names(traceback: Traceback) -> list[str]:
    """The exceptions of a chain by name."""
    return [exception.name for exception in traceback.exceptions]


def interleaved(*columns: list[str]) -> list[str]:
    """Lines of several ranks, one from each in turn."""
    return [line for line in chain.from_iterable(zip_longest(*columns)) if line is not None]
