"""Splits a log's lines into words that may name a process, a host or a number in a listing.

A word is a name (`elm-7`, `fawn`), a number, or a stem with a number (`c21`, `Sx-4757`). Clocks are no words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from logdiag.judge.ranks.vocabulary import PROCESSES, SPELT
from logdiag.model import Line
from logdiag.patterns import pattern_of

# "spinner 13: rail tow-0:4410", each with the signs before it; c00-c03, 4,5,6,7 and 3.18 are one word
_WORDS = pattern_of(
    r"([^A-Za-z0-9]*)("
    r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?(?![\w:])|"
    r"[A-Za-z]{0,6}\d{1,6}(?:-|\.\.)[A-Za-z]{0,6}\d{1,6}(?![\w.]|-\w)"
    r"|\d{1,6}(?:,\d{1,6}){1,4096}(?![\w.])"
    r"|\d+(?:\.\d+)+\w*"
    r"|\w+(?:-+\w+)*)"
)
# PE    0 ..   15   ranks 8 to 15   ranks 8 up to 15   lanes 6 through 11   boats 4..=7 (Rust), or with a long dash
_LOOSE_RANGE = pattern_of(
    r"(?<![\w.-])([A-Za-z]{0,3}\d{1,6})(?: ?(?:\.\.|-|to|up to|through) {1,6}| ?(?:\.\.[=.]|[\u2013\u2014]) {0,6})"
    r"([A-Za-z]{0,3}\d{1,6})(?![\w.]|-\d)"
)
# quay-1: {first: 1, last: 4}   from=0 to=7   start 8, end 15   "first": 8, "count": 4
_SPELT_RANGE = pattern_of(
    r"\b(?:first|from|start|begin|lo|low)\"?[:= ]{1,3}(\d{1,6}),? {1,2}"
    r"\"?(?:last|to|end|until|hi|high|(count|size|length|len|number|num|n))\"?[:= ]{1,3}(\d{1,6})(?![\w.])"
)
# plates = [0,4..12]   0, 4, ..., 12
_STRIDE = pattern_of(r"(?<![\w.])(\d{1,6}), ?(\d{1,6})(?:, ?)?(?:\.{2,3}|\u2026)(?:, ?)?(\d{1,6})(?![\w.])")
_RANGE_SIGNS = ("..", " to ", " - ", "through", "\u2013", "\u2014", "\u2026")
# Gates 0 and 1 are set on weir-a   W00 W01 W02 W03 -> bench-kiel   {"host": "weir-a", "ranks": [0, 1, 2, 3]}
# (weir-a (gates (0 1 2 3)))   weir-a holds 0, 1, 2, 3   weir-a holds 0, 1, 2 and 3
# Without two numbers so near each other there is no row of them.
_NEAR = pattern_of(r"\d(?:,|,? {1,2}| and )[A-Za-z]{0,6}\d")
_IN_A_ROW = pattern_of(
    r"(?<![\w.:-])(?:(\d{1,5}) and \d{1,5}|(?<=\[)\d{1,5}(?:, ?\d{1,5}){1,512}(?=\])"
    r"|(?<=[\[{(])\d{1,5}(?: \d{1,5}){1,512}(?=[\])}])|\d{1,5}(?:, {1,2}\d{1,5}){2,512}(?:,? and \d{1,5})?(?!,? \d)"
    r"|([A-Za-z]{1,6})(\d{1,5})(?:,? {1,2}\2\d{1,5}){1,64}(?= ?(?:->|=>|:|@|on |at )))(?![\w.]|-\w)"
)
_RANGE = pattern_of(r"([A-Za-z]{0,6})(\d{1,6})(?:-|\.\.)([A-Za-z]{0,6})(\d{1,6})")
_NUMBER = pattern_of(r"\d+")
_COUNTED = pattern_of(r"([A-Za-z][A-Za-z_]*[-_]?|(?:[A-Za-z]+-)+)?0*(\d{1,5})")
# .020+01:00   ,123Z   (what a clock leaves)
_REST_OF_CLOCK = pattern_of(r"^[.,]?\d*(?:Z|[+-]\d\d:?\d\d)?(?![\w:])")
# 05:04:21.708   07.00.00   04-11 08:00:05.150   08:02 |   260304T011209.200   260304-011209.200   (in any other form)
# =ERROR REPORT==== 11-May-2026::04:15:56.580955 ===   29.08.26 10:40:05.499 (whose date is no clock)
# (What stands before the first digit is asked behind it: a search for a digit is fast.)
_OTHER_CLOCK = pattern_of(
    r"\d(?:(?:(?<![\w.:]\d)|(?<=\d{4}::\d))\d?[:.]\d\d[:.]\d\d(?:[.,]\d+)?(?![\w:]| +\d?\d:\d\d:\d\d)"
    r"|(?<!\w\d)\d{5,7}[T-]\d{6}(?:[.,]\d+)?Z?(?!\w))"
)
# 1788608000.50|   1788608000500\t   (seconds or milliseconds since 1970)
_EPOCH = pattern_of(r"\W?1[4-9]\d{8}(?:\d{3})?(?:\.\d{1,9})?(?=[\s|,;\]])")
_MINUTES = pattern_of(r"\W?\d\d:\d\d(?=\W? )")
# I 04-11 08:00:05.150   24/03 03:16:00   14.01.26 22:04:45   02.09. 18:30:01   Oct  2 03:22:29   28-Jan-2026 05:59:46
# 042 03:09:02.56   (a date before a clock)
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_DATE = pattern_of(
    r"\b(?:\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{0,4})?|\d{3}(?= )"
    rf"|{_MONTH}\.? +\d{{1,2}}(?:,? \d{{4}})?|\d{{1,2}}[ -]{_MONTH}(?:[ -]\d{{2,4}})?)[ :-]+$"
)
# ft34-code-r11-njf7t   (a pod's number, and five signs by chance behind it; of two numbers one may be the job's)
_POD = pattern_of(
    r"(?:[a-z0-9]*[a-z][a-z0-9]*-)+?((?:[a-z]{1,8})?\d{1,4})-(?=[a-z]*\d)[bcdfghjklmnpqrstvwxz2456789]{5}"
)
_SPELT = frozenset(SPELT)
_LONGEST_RECORD = 60
_LONGEST, _MOST_WORDS, _MOST_CACHED, _MOST_IN_A_RANGE = 1000, 200, 16_384, 256


@dataclass
class Row:
    """The words of a line and the signs before each; `lower` are the words in small letters, `at` is the index of
    the row among all rows, `clocked` says whether it begins with a clock of any kind."""

    line: Line
    at: int
    words: list[str]
    signs: list[str]
    lower: list[str]
    clocked: bool

    @cached_property
    def shape(self) -> tuple[str, ...]:
        """The signs between the words, however wide the blanks are."""
        return tuple(map(_narrowed, self.signs))


LABEL = pattern_of(r"\s+(?:[A-Za-z]+ ){0,2}[A-Za-z_]+ *: ")
"""`  Last message: ` or `  When     : ` in a block of them: no record begins so."""
TIGHT = frozenset("#/:.@")
"""Signs that join two words to one address."""


def joined(row: Row, index: int) -> str:
    """A word and the next one as they stand, where a sign alone joins them: `10.4.2.15:7101`, `hod-2/3`; else ""."""
    after = row.signs[index + 1] if index + 1 < len(row.words) else ""
    return f"{row.lower[index]}{after}{row.lower[index + 1]}" if after in TIGHT else ""


def head_of(rows: Sequence[Row], row: Row) -> Row | None:
    """The first line of the record of which a line is a later one: the last above that begins with a clock, or, for a
    line that is set in, with less blank than it; for one that is not, also the next above with a colon at its end."""
    indent = _indent_of(row)
    if row.clocked and not indent:
        return None
    for above in reversed(rows[max(0, row.at - _LONGEST_RECORD) : row.at]):
        if above.line.stream != row.line.stream:
            return None
        set_in = _indent_of(above)
        # thread 'lane-6' panicked at src/embed.rs:143:29:
        announces = above.at == row.at - 1 and set_in == indent == 0 and above.line.text.endswith(":")
        if above.clocked or announces or (above.words and set_in < indent):
            return above
    return None


def _indent_of(row: Row) -> int:
    return len(row.line.text) - len(row.line.text.lstrip())


def rows_of(lines: Iterable[Line]) -> list[Row]:
    """The words of lines, in their order."""
    return [row_of(line, at) for at, line in enumerate(lines)]


def row_of(line: Line, at: int) -> Row:
    """The words of one line, which stands at this place among all lines."""
    text = line.text[:_LONGEST]
    other = None if line.clock else _MINUTES.match(text) or _EPOCH.match(text) or _OTHER_CLOCK.search(text)
    clock = line.clock or (other[0] if other else "")
    if clock:
        before, _, after = text.partition(clock)
        text = _DATE.sub("", before) + _REST_OF_CLOCK.sub("", after, count=1)
    if any(sign in text for sign in _RANGE_SIGNS):
        text = _LOOSE_RANGE.sub(r"\1..\2", _STRIDE.sub(_of_stride, text))
    text = _SPELT_RANGE.sub(_of_spelt, text)
    if _NEAR.search(text):
        text = _IN_A_ROW.sub(_as_range, text)
    pairs = _WORDS.findall(text)[:_MOST_WORDS]
    words = [word.partition(".")[0] if ":" in word else word for _, word in pairs]
    words = [pod[1] if "-" in word and (pod := _POD.fullmatch(word)) else word for word in words]
    lower = [word.lower() for word in words]
    for index in [index for index, word in enumerate(lower) if word in _SPELT]:
        # worker three: KeyError   lane six stopped talking
        if index and singular(lower[index - 1]) in PROCESSES:
            words[index] = lower[index] = str(SPELT.index(lower[index]))
    return Row(line, at, words, [signs for signs, _ in pairs], lower, bool(clock) and not LABEL.match(text))


def _of_spelt(said: re.Match[str]) -> str:
    """A range whose last number, or whose size, is spelt out."""
    return f"{said[1]}..{int(said[1]) + int(said[3]) - 1 if said[2] else said[3]}"


def _of_stride(said: re.Match[str]) -> str:
    """All numbers of a row of which the first two and the last stand there."""
    first, second, last = map(int, said.groups())
    numbers = range(first, last + 1, second - first) if first < second < last else ()
    return ",".join(map(str, numbers)) if 2 < len(numbers) <= _MOST_IN_A_RANGE else said[0]


def _as_range(in_a_row: re.Match[str]) -> str:
    """Numbered words next to each other as a range, where each is the one before plus 1; else as a row of members."""
    stem = in_a_row[2] or ""
    words = [word for word in in_a_row[0].replace(",", " ").split() if word != "and"]
    numbers = [int(word[len(stem) :]) for word in words]
    apart = {after - before for before, after in pairwise(numbers)}
    if apart == {1}:
        return f"{words[0]}..{words[-1]}"
    return ",".join(words)


@lru_cache(_MOST_CACHED)
def _narrowed(signs: str) -> str:
    return " ".join(signs.split()) + " " * signs[-1:].isspace()


@lru_cache(_MOST_CACHED)
def counted(word: str) -> tuple[str, int]:
    """The stem of a numbered word in small letters, and its number; "" and -1 of any other."""
    found = _COUNTED.fullmatch(word)
    return ((found[1] or "").lower().rstrip("-_"), int(found[2])) if found else ("", -1)


@lru_cache(_MOST_CACHED)
def plain(word: str) -> str:
    """A word of letters alone in small letters; "" of any other, and of a single letter."""
    return word.lower() if word.isalpha() and len(word) > 1 else ""


@lru_cache(_MOST_CACHED)
def members(word: str) -> tuple[str, ...]:
    """The words that a range or a row of numbers stands for: `c08-c11`, `4,5,6,7`; nothing of any other word."""
    if "," in word:
        return tuple(word.split(","))
    found = _RANGE.fullmatch(word)
    # osl2-040 is one name.
    uneven = found is not None and found[4].startswith("0") and len(found[4]) != len(found[2])
    if not found or uneven or (found[3] and found[3].lower() != found[1].lower()):
        return ()
    first, last = int(found[2]), int(found[4])
    width = len(found[2]) if found[2].startswith("0") else 0
    alone = first == last and ".." in word
    many = range(first, last + 1) if alone or 0 < last - first < _MOST_IN_A_RANGE else ()
    return tuple(f"{found[1]}{number:0{width}d}" for number in many)


def without_numbers(text: str) -> str:
    """A text in small letters, with 0 for each of its numbers."""
    return _NUMBER.sub("0", text.lower())


@lru_cache(_MOST_CACHED)
def singular(noun: str) -> str:
    """`seats` and `seat`, `tries` and `try`, `dies` and `die` are one noun; `process` and `status` are no plurals."""
    if len(noun) <= len("ps") or noun.endswith(("ss", "us")):
        return noun
    of_y = noun.endswith("ies") and len(noun) > len("dies")
    return f"{noun.removesuffix('ies')}y" if of_y else noun.removesuffix("s")


def short_name(host: str) -> str:
    """A host's name in small letters, without its domain."""
    return host.partition(".")[0].lower()
