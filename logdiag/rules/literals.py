"""What a line must hold for a rule's pattern to match on it: words to scan for, and a shape.

Hyperscan runs at gigabytes a second over plain words and ten times slower over hundreds of patterns with gaps. A
match of `(?:mkdir|ln|cp): .{0,60}: File exists` holds the words `: File exists`; lines without them need no closer
look. So each pattern is scanned for by its longest literal (a set of them where the pattern branches) that healthy
output does not hold, and where there is none, by the pattern itself with its gaps unbounded. Either way the
candidates are confirmed by the pattern as written.

Lines that are printed a million times need not even be scanned, if no rule could fire on them whatever numbers they
hold. A line's shape is the line without its digits, and maybe without some hexadecimal numbers. A pattern is relaxed so
that it matches the shape of every line on which the pattern itself matches: parts that match only digits are left out,
parts that may match another part of a number are optional, and look-around is dropped. If the relaxed pattern does not
match the shape, the pattern matches on no line of that shape.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from logdiag.patterns import pattern_of

if sys.version_info >= (3, 11):
    import re._compiler as compiler
    import re._constants as constants
    import re._parser as parser
else:
    import sre_compile as compiler
    import sre_constants as constants
    import sre_parse as parser

from logdiag.rules.searching import unanchored

_NAME = pattern_of(r"\(\?P<\w+>")
_NAME_AGAIN = pattern_of(r"\(\?P=\w+\)")
_BOUNDS = pattern_of(r"\{(\d+),(\d*)\}")
_NEGATED = pattern_of(r"(?<!\\)\[\^")
# A repeat at the very end would be reported once for each length.
_OPEN_END = pattern_of(r"(\.|\\[wSd]|\[(?:[^\]\\]|\\.)*\])([+*])\??(\)*)$")
_CASELESS = pattern_of(r"\(\?[a-zA-Z]*i")
# A shorter literal is found too often by chance; a longer list of them is no cheaper than the pattern.
_SHORTEST_LITERAL = 5
_MOST_LITERALS = 80
# An element of a pattern is written out where it matches so few texts, a set of characters where it has so few.
_MOST_TEXTS, _MOST_LETTERS = 12, 3
_WIDEST_EXACT_GAP = 6
_COMMON_PENALTY = 8
# To scan for a long pattern costs more than to try it on every line that holds its long, though common, literal.
_LONG_PATTERN = 200
_LONG_LITERAL = 5

_DIGITS, _OF_HEX = "0123456789", "0123456789abcdef-"
_X = ord("x")  # 0x1f: what follows is a number of its own
# Parts of a lower-case word that may be a hexadecimal number without its digits.
_MAYBE_NUMBERS = re.compile(r"(?:\b|(?<=x))[a-f-]+\b|-+")
# The lines of longer shapes are searched one by one.
_LONGEST = 2000
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT"}
# Look-around and anchors; those for a line's ends hold on its shape too.
_AROUND = {"AT", "ASSERT", "ASSERT_NOT"}
_ENDS = {"AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING"}
# Only digits are left out, so a boundary is never between two letters: "on" is not found in "operation=".
_NO_BOUNDARY_WITHIN_A_WORD = parser.parse(r"(?!(?<=[^\W\d])[^\W\d])")
_ONE_CHARACTER = {"LITERAL", "NOT_LITERAL", "ANY", "IN"}

Literals = list[str]


def _without_names(pattern: str) -> str:
    """The pattern without its anchor and its groups' names, and with `.*` for each back reference by name."""
    return _NAME_AGAIN.sub(".*", _NAME.sub("(?:", unanchored(pattern)))


def scan_form(pattern: str, healthy: str) -> tuple[str, ...]:
    """Expressions for Hyperscan: wherever `pattern` matches on a line, at least one of them does; perhaps elsewhere
    too.

    `healthy` is lower-case text as healthy jobs print it; literals it holds are avoided.
    """
    plain = _without_names(pattern)
    caseless = "(?i)" if _CASELESS.search(plain) else ""
    try:
        literals = _best_literals(parser.parse(plain), healthy)
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


def _best_literals(sequence: Any, healthy: str = "") -> Literals | None:
    """The set of words of highest worth of which every match of a parsed pattern holds at least one; None without such
    words. Those that are in `healthy` are worth less."""
    return max(_needed_literals(sequence, healthy), key=lambda literals: _rank(literals, healthy), default=None)


def _rank(literals: Literals, healthy: str) -> tuple[int, int]:
    return _worth(literals, healthy), -len(literals)


def _needed_literals(sequence: Any, healthy: str = "") -> list[Literals]:
    """Sets of words: every match of a parsed pattern holds at least one of each."""
    needed: list[Literals] = []
    run = [""]
    for operation, argument in sequence:
        texts = _texts_of(operation, argument)
        longer = _each_with(run, texts) if texts else None
        if longer:
            run = longer
            continue
        needed.append(run)
        run = texts or [""]
        if texts:
            continue
        if operation is constants.SUBPATTERN:
            needed += _needed_literals(argument[3], healthy)
        elif operation is constants.BRANCH:
            branches = [_best_literals(branch, healthy) for branch in argument[1]]
            if all(branches):
                needed.append([text for branch in branches if branch for text in branch])
        elif operation in (constants.MAX_REPEAT, constants.MIN_REPEAT) and argument[0] >= 1:
            needed += _needed_literals(argument[2], healthy)
    return [_shortest(literals) for literals in [*needed, run] if all(literals) and len(literals) <= _MOST_LITERALS]


def _shortest(literals: Literals) -> Literals:
    """The words without those that hold another one."""
    return [word for word in literals if not any(other in word and other != word for other in literals)]


def _texts_of(operation: Any, argument: Any) -> Literals | None:
    """All texts that an element matches, a few at most; None where there are more."""
    if operation is constants.LITERAL:
        return [chr(argument)]
    if operation is constants.AT:
        return [""]
    if operation is constants.SUBPATTERN:
        return _texts_of_all(argument[3])
    if operation is constants.BRANCH:
        branches = [_texts_of_all(branch) for branch in argument[1]]
        texts = [text for branch in branches for text in branch or ()]
        return texts if all(branches) and len(texts) <= _MOST_TEXTS else None
    if operation is constants.MAX_REPEAT and argument[:2] == (0, 1):
        texts = _texts_of_all(argument[2]) or []
        return ["", *texts] if texts else None
    if operation is constants.IN and len(argument) <= _MOST_LETTERS:
        letters = [chr(letter) for kind, letter in argument if kind is constants.LITERAL]
        return letters if len(letters) == len(argument) else None
    return None


def _texts_of_all(sequence: Any) -> Literals | None:
    """All texts that a parsed pattern matches; None where there are too many."""
    texts = [""]
    for operation, argument in sequence:
        texts = _each_with(texts, _texts_of(operation, argument) or [])
        if not texts:
            return None
    return texts


def _each_with(texts: Literals, following: Literals) -> Literals:
    """Each text with each of those that may follow it; none where these are too many."""
    return [text + more for text in texts for more in following] if len(texts) * len(following) <= _MOST_TEXTS else []


class Needed(NamedTuple):
    """What lines must hold for some patterns to fire.

    Of `words` a pattern's lines hold one, the empty one if there is no better; `numbers`, of the same length, has the
    number of the pattern. `further` has for each pattern more sets of words, of each of which its lines hold one: a set
    a line, with tabs between the words.
    """

    words: list[str]
    numbers: list[int]
    further: list[str]

    def by_pattern(self, patterns: Sequence[str]) -> dict[str, tuple[Literals, str]]:
        """The words and the further sets of each of these patterns, which are those that this was made for."""
        words: list[Literals] = [[] for _ in patterns]
        for word, number in zip(self.words, self.numbers, strict=True):
            words[number].append(word)
        return dict(zip(patterns, zip(words, self.further, strict=True), strict=True))


def needed_for(
    patterns: Sequence[str], *, hex: bool = False, known: Mapping[str, tuple[Literals, str]] | None = None
) -> Needed:
    """What the shapes of lines must hold, in lower case, for patterns to fire; with `hex` they may lack hexadecimal
    numbers beside digits. Of some it may be `known`, as `by_pattern` gives it."""
    needed = Needed([], [], [])
    for number, pattern in enumerate(patterns):
        words, further = (known or {}).get(pattern) or _needed_for_one(pattern, hex)
        needed.words.extend(words)
        needed.numbers.extend([number] * len(words))
        needed.further.append(further)
    return needed


def _needed_for_one(pattern: str, hex: bool) -> tuple[Literals, str]:
    tree = _relaxed(pattern, _DIGITS)
    sets = [_lowered(literals, hex) for literals in (_needed_literals(tree) if tree is not None else ())]
    sets = sorted((words for words in sets if all(words)), key=lambda words: _rank(words, ""), reverse=True)
    return sets[0] if sets else [""], "\n".join("\t".join(words) for words in sets[1:])


def _lowered(literals: Literals, hex: bool) -> Literals:
    """The words in lower case, each once; with `hex` their longest parts that are no hexadecimal numbers."""
    lowered = [literal.lower() for literal in literals]
    return list(dict.fromkeys(max(_MAYBE_NUMBERS.split(word), key=len) if hex else word for word in lowered))


class Fireable:
    """Finds which of some patterns may fire on the lines of a shape; `needed` is `needed_for` the patterns. With `hex`
    the shapes may lack hexadecimal numbers beside digits."""

    def __init__(self, patterns: Sequence[str], needed: Needed, *, hex: bool = False) -> None:
        self._patterns, self._needed = patterns, needed
        self._left_out = _OF_HEX if hex else _DIGITS
        self._relaxed: dict[int, re.Pattern[str] | None] = {}

    def on(self, shape: bytes) -> tuple[int, ...]:
        """The numbers of the patterns that may match on a line of this shape."""
        if len(shape) > _LONGEST:
            return tuple(range(len(self._patterns)))
        text = shape.decode(errors="replace")
        lowered = text.lower()
        words_and_numbers = zip(self._needed.words, self._needed.numbers, strict=True)
        candidates = {number for word, number in words_and_numbers if word in lowered}
        return tuple(number for number in candidates if self._holds(number, lowered) and self._may_match(number, text))

    def _holds(self, number: int, lowered: str) -> bool:
        return all(
            any(word in lowered for word in words.split("\t")) for words in self._needed.further[number].split("\n")
        )

    def _may_match(self, number: int, text: str) -> bool:
        if number not in self._relaxed:
            tree = _relaxed(self._patterns[number], self._left_out)
            self._relaxed[number] = None if tree is None else compiler.compile(tree)
        relaxed = self._relaxed[number]
        return relaxed is None or relaxed.search(text) is not None


def _relaxed(pattern: str, left_out: str) -> Any | None:
    """The parsed pattern, relaxed to match lines without the characters `left_out`; None if it has syntax that is not
    known here, so that it may match on any line."""
    try:
        plain = _without_names(pattern)
        tree = parser.parse(plain)
        return _relaxed_sequence(tree, left_out + left_out.upper() if _CASELESS.search(plain) else left_out, tree.state)
    except (re.error, RecursionError, OverflowError, NotImplementedError):
        return None


def _relaxed_sequence(sequence: Any, left_out: str, state: Any) -> Any:
    relaxed = parser.SubPattern(state, [])
    word: list[int] = []
    for operation, argument in [*sequence, (None, None)]:
        if operation is constants.LITERAL and (chr(argument).isalnum() or chr(argument) == "_"):
            word.append(argument)
            if argument != _X:
                continue
            operation = None
        relaxed.data.extend(_relaxed_word(word, left_out, state))
        word = []
        if operation is not None:
            relaxed.data.extend(_relaxed_node(str(operation), operation, argument, left_out, state))
    return relaxed


def _relaxed_word(word: list[int], left_out: str, state: Any) -> list[tuple[Any, Any]]:
    """The elements for a whole word, or for its part up to an x. A number that is left out begins and ends where a word
    does, so the word is left out as a whole or not at all."""
    letters = [(constants.LITERAL, letter) for letter in word if chr(letter) not in _DIGITS]
    if any(chr(letter) not in left_out for letter in word):
        return letters
    return [_at_most(1, letter, state) for letter in letters]


def _relaxed_node(name: str, operation: Any, argument: Any, left_out: str, state: Any) -> list[tuple[Any, Any]]:
    """The elements for one element. Raises NotImplementedError for one that no shipped pattern has."""
    if str(argument) == "AT_BOUNDARY":
        return list(_NO_BOUNDARY_WITHIN_A_WORD.data)
    if name in _AROUND:
        return [(operation, argument)] if str(argument) in _ENDS else []
    if name in _ONE_CHARACTER:
        taken = _takes_one_of(left_out, name, argument)
        return [_at_most(1, (operation, argument), state) if taken else (operation, argument)]
    if name in _REPEATS:
        least, most, inner = argument
        if (
            len(inner) == 1
            and (only := str(inner[0][0])) in _ONE_CHARACTER
            and _takes_one_of(left_out, only, inner[0][1])
        ):
            return [_at_most(most, inner[0], state)]
        body = _relaxed_sequence(inner, left_out, state)
        return [(constants.MAX_REPEAT, (least, most, body))] if body.data else []
    if name == "SUBPATTERN":
        _, added, dropped, inner = argument
        return [(operation, (None, added, dropped, _relaxed_sequence(inner, left_out, state)))]
    if name == "BRANCH":
        return [(operation, (None, [_relaxed_sequence(branch, left_out, state) for branch in argument[1]]))]
    raise NotImplementedError(name)


def _at_most(most: Any, node: tuple[Any, Any], state: Any) -> tuple[Any, Any]:
    return constants.MAX_REPEAT, (0, most, parser.SubPattern(state, [node]))


def _takes_one_of(characters: str, name: str, argument: Any) -> bool:
    """Whether an element that matches one character matches any of these."""
    if name == "LITERAL":
        return chr(argument) in characters
    if name != "IN":
        return True  # any character, or any but one
    return _matches_in(tuple(argument), characters)


@cache
def _matches_in(members: tuple[Any, ...], characters: str) -> bool:
    """Whether a set of characters, as the parser gives it, has any of these."""
    one = parser.SubPattern(parser.State(), [(constants.IN, list(members))])
    return compiler.compile(one).search(characters) is not None
