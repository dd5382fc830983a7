"""Whether a rule could fire on lines of a shape, whatever numbers stand in them: so that lines that come a million
times need no look each.

A line's shape is the line without its digits. A pattern is turned into one that finds, in the shape, everything that
the pattern itself may find on any such line: what matches only digits is left out, what may match one is optional, and
what looks around is not asked. Where it finds nothing, no number makes the pattern match.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

from logdiag.rules.literals import best_literals, without_names

if sys.version_info >= (3, 11):
    import re._compiler as compiler
    import re._constants as constants
    import re._parser as parser
else:
    import sre_compile as compiler
    import sre_constants as constants
    import sre_parse as parser

_DIGITS = b"0123456789"
# Longer shapes are left to be looked at line by line.
_LONGEST = 2000
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT"}
# What asks for what stands around; a line's ends stay its ends.
_AROUND = {"AT", "ASSERT", "ASSERT_NOT"}
_ENDS = {"AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING"}
_ONE_CHARACTER = {"LITERAL", "NOT_LITERAL", "ANY", "IN"}
_CLASSES_OF_DIGITS = {"CATEGORY_DIGIT", "CATEGORY_WORD", "CATEGORY_NOT_SPACE"}


class Fireable:
    """Tells the shapes on which none of some patterns can fire; `words` has `words_for` each of them."""

    def __init__(self, patterns: Sequence[str], words: Sequence[Sequence[str] | None]) -> None:
        self._patterns = patterns
        self._numbers_with: dict[str, list[int]] = {}
        self._relaxed: dict[int, re.Pattern[str] | None] = {}
        for number, needed in enumerate(words):
            # Every text holds the empty word.
            for word in needed or ("",):
                self._numbers_with.setdefault(word, []).append(number)

    def on(self, shape: bytes) -> tuple[int, ...]:
        """The numbers of the patterns that may match on a line that reads so without its digits."""
        if len(shape) > _LONGEST:
            return tuple(range(len(self._patterns)))
        text = shape.decode(errors="replace")
        lowered = text.lower()
        asked = {number for word, numbers in self._numbers_with.items() if word in lowered for number in numbers}
        return tuple(number for number in asked if self._may_match(number, text))

    def _may_match(self, number: int, text: str) -> bool:
        if number not in self._relaxed:
            tree = _relaxed(self._patterns[number])
            self._relaxed[number] = None if tree is None else compiler.compile(tree)
        relaxed = self._relaxed[number]
        return relaxed is None or relaxed.search(text) is not None


def words_for(pattern: str) -> tuple[str, ...] | None:
    """Lower-case words of which a line's shape holds at least one wherever the pattern matches on the line; None where
    there are none."""
    tree = _relaxed(pattern)
    words = None if tree is None else best_literals(tree)
    return tuple(dict.fromkeys(word.lower() for word in words)) if words else None


def _relaxed(pattern: str) -> Any | None:
    """What a pattern finds of a line without its digits, parsed; None where that is not known: such a pattern may
    match on any line."""
    try:
        tree = parser.parse(without_names(pattern))
        return _without_digits(tree, tree.state)
    except (re.error, RecursionError, OverflowError, NotImplementedError):
        return None


def _without_digits(sequence: Any, state: Any) -> Any:
    made = parser.SubPattern(state, [])
    for operation, argument in sequence:
        made.data.extend(_node(str(operation), operation, argument, state))
    return made


def _node(name: str, operation: Any, argument: Any, state: Any) -> list[tuple[Any, Any]]:
    """What stands for one element. Raises NotImplementedError for one that no shipped pattern has."""
    if name in _AROUND:
        return [(operation, argument)] if str(argument) in _ENDS else []
    if name in _ONE_CHARACTER:
        if not _takes_a_digit(name, argument):
            return [(operation, argument)]
        return [] if name == "LITERAL" else [_up_to(1, (operation, argument), state)]
    if name in _REPEATS:
        least, most, inner = argument
        if len(inner) == 1 and str(inner[0][0]) in _ONE_CHARACTER and _takes_a_digit(str(inner[0][0]), inner[0][1]):
            return [] if str(inner[0][0]) == "LITERAL" else [_up_to(most, inner[0], state)]
        body = _without_digits(inner, state)
        return [(constants.MAX_REPEAT, (least, most, body))] if body.data else []
    if name == "SUBPATTERN":
        _, added, dropped, inner = argument
        return [(operation, (None, added, dropped, _without_digits(inner, state)))]
    if name == "BRANCH":
        return [(operation, (None, [_without_digits(branch, state) for branch in argument[1]]))]
    raise NotImplementedError(name)


def _up_to(most: Any, node: tuple[Any, Any], state: Any) -> tuple[Any, Any]:
    return constants.MAX_REPEAT, (0, most, parser.SubPattern(state, [node]))


def _takes_a_digit(name: str, argument: Any) -> bool:
    if name == "LITERAL":
        return 48 <= int(argument) <= 57
    if name != "IN":
        return True  # any character, or any but one
    negated = str(argument[0][0]) == "NEGATE"
    return any(_holds(argument, digit) != negated for digit in _DIGITS)


def _holds(members: Any, digit: int) -> bool:
    """Whether a set, its negation aside, holds a digit."""
    return any(
        (str(kind) == "LITERAL" and value == digit)
        or (str(kind) == "RANGE" and value[0] <= digit <= value[1])
        or (str(kind) == "CATEGORY" and str(value) in _CLASSES_OF_DIGITS)
        for kind, value in members
    )
