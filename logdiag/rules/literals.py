"""What to scan for instead of a rule's pattern: the cheapest expression that every match must contain.

Hyperscan runs at gigabytes a second over plain words and ten times slower over hundreds of patterns with gaps. A
match of `(?:mkdir|ln|cp): .{0,60}: File exists` holds the words `: File exists`; lines without them need no closer
look. So each pattern is scanned for by its longest literal (a set of them where the pattern branches) that healthy
output does not hold, and where there is none, by the pattern itself with its gaps unbounded. Either way the
candidates are confirmed by the pattern as written.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from logdiag.patterns import pattern_of

if sys.version_info >= (3, 11):
    import re._constants as constants
    import re._parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

from logdiag.rules.searching import unanchored

_NAME = pattern_of(r"\(\?P<\w+>")
_NAME_AGAIN = pattern_of(r"\(\?P=\w+\)")
_BOUNDS = pattern_of(r"\{(\d+),(\d*)\}")
_NEGATED = pattern_of(r"(?<!\\)\[\^")
# A repeat at the very end would be reported once for each length.
_OPEN_END = pattern_of(r"(\.|\\[wSd]|\[(?:[^\]\\]|\\.)*\])([+*])\??(\)*)$")
CASELESS = pattern_of(r"\(\?[a-zA-Z]*i")
# A shorter literal is found too often by chance; a longer list of them is no cheaper than the pattern.
_SHORTEST_LITERAL = 5
_MOST_LITERALS = 80
_WIDEST_EXACT_GAP = 6
_COMMON_PENALTY = 8
# To scan for a long pattern costs more than to try it on every line that holds its long, though common, literal.
_LONG_PATTERN = 200
_LONG_LITERAL = 5

Literals = list[str]


def without_names(pattern: str) -> str:
    """The pattern without its anchor and its groups' names, and with `.*` for each back reference by name."""
    return _NAME_AGAIN.sub(".*", _NAME.sub("(?:", unanchored(pattern)))


def scan_form(pattern: str, healthy: str) -> tuple[str, ...]:
    """Expressions for Hyperscan: wherever `pattern` matches on a line, at least one of them does; perhaps elsewhere
    too.

    `healthy` is lower-case text as healthy jobs print it; literals it holds are avoided.
    """
    plain = without_names(pattern)
    caseless = "(?i)" if CASELESS.search(plain) else ""
    try:
        literals = best_literals(parser.parse(plain), healthy)
    except (re.error, RecursionError, OverflowError):
        literals = None
    long = literals and len(plain) >= _LONG_PATTERN and min(map(len, literals)) >= _LONG_LITERAL
    if literals and (long or _worth(literals, healthy) >= _SHORTEST_LITERAL):
        return tuple(sorted({caseless + re.escape(literal) for literal in literals}))
    unbounded = _NEGATED.sub(r"[^\\n", _BOUNDS.sub(_unbounded, plain))
    return (_OPEN_END.sub(lambda end: (end[1] if end[2] == "+" else "") + end[3], unbounded),)


def _unbounded(bounds: re.Match[str]) -> str:
    least, most = int(bounds[1]), bounds[2]
    if most and int(most) <= _WIDEST_EXACT_GAP:
        return bounds[0]
    return "+" if least else "*"


def _worth(literals: Literals, healthy: str) -> int:
    return min(len(text) - (_COMMON_PENALTY if text.lower() in healthy else 0) for text in literals)


def best_literals(sequence: Any, healthy: str = "") -> Literals | None:
    """The set of words of highest worth of which every match of a parsed pattern holds at least one; None without such
    words. Those that are in `healthy` are worth less."""
    choices: list[Literals] = []
    run = ""
    for operation, argument in [*sequence, (None, None)]:
        if operation is constants.LITERAL:
            run += chr(argument)
            continue
        if run:
            choices.append([run])
            run = ""
        if operation is constants.SUBPATTERN:
            inner = best_literals(argument[3], healthy)
        elif operation is constants.BRANCH:
            branches = [best_literals(branch, healthy) for branch in argument[1]]
            inner = [text for branch in branches if branch for text in branch] if all(branches) else None
        elif operation in (constants.MAX_REPEAT, constants.MIN_REPEAT) and argument[0] >= 1:
            inner = best_literals(argument[2], healthy)
        else:
            inner = None
        if inner and len(inner) <= _MOST_LITERALS:
            choices.append(inner)
    return max(choices, key=lambda literals: (_worth(literals, healthy), -len(literals))) if choices else None
