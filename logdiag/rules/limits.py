"""Limits of the user's own rules. They refuse a folder that is no folder of rules, and a pattern that would take all
memory to compile. The shipped rules stay far below all limits."""

from __future__ import annotations

import re

from logdiag.patterns import pattern_of

MOST_FOLDERS = 10_000
MOST_FILES = 5_000
MOST_BYTES = 8 << 20
MOST_BYTES_OF_A_FILE = 256 << 10
LARGEST = 2_000_000
"""The most characters, with repeats written out, of all the user's own patterns together."""
_LONGEST_PATTERN = 4_000
_LARGEST_PATTERN = 20_000

# An escaped character, a class, a counted repeat, or any other character.
_PART = pattern_of(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d*),?(\d*)\}|.", re.DOTALL)
_LONGEST_NUMBER = 6


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
