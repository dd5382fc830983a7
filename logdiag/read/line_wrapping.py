"""Joins lines that were broken at the width of a terminal, of a copy from one, or of a mail.

A terminal breaks within words: only a line of exactly its width is joined with the next, and not one that is a drawing.
A mail breaks between words: a line without a head then begins with a word for which the line before had no room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from logdiag.patterns import pattern_of
from logdiag.read.prefixes import parse_line

_NARROWEST, _WIDEST, _WIDEST_MAIL = 60, 400, 100
# A single line may be as long as the longest and end within a word by chance, and many ranks may print the same.
_FEWEST_TORN = 2
# One is enough where all lines that are as long as the longest go on in the next: so many, which are unlike.
_FEWEST_FILLED = 5
# A program may print its message below its head, if always the same.
_FEWEST_MOVED = 5
# In a mail, per cent: at least so many of the lines without a head continue the line before; at most so many lines are
# longer than the width, as somebody copied them. A record has at most so many parts.
_MOVED, _LONGER, _PARTS_OF_A_RECORD = 85, 20, 3
_LOOKED_AT = 400
# For a longer word it is not known whether there was room for it.
_LONGEST_WORD = 30
_NUMBERS = pattern_of(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*")
_NO_DIGITS = {ord(digit): None for digit in "0123456789"}
# Lines that begin alike are lines of their own.
_HEAD = 8
# +-----+   =======   | 3  N/A |    37%|####      | 12/32 [00:01<00:02]
_DRAWN = pattern_of(r"\d%\||[|+\u2500-\u259f]\s*$|(\W)\1{9,}\s*$|\r")
_FRAME = pattern_of(r'\s+File "|Traceback ')

# More parts are not joined into one line.
_MOST_PARTS = 100

_Numbered = tuple[int, bytes]


class Width(NamedTuple):
    """At how many characters lines were broken, and whether words were torn there."""

    characters: int
    torn: bool

    def fills(self, line: str) -> bool:
        """Whether a line is long enough to be continued in the next."""
        if self.torn:
            return len(line) == self.characters
        # A long word alone is not broken.
        room = self.characters - len(line)
        return room <= _LONGEST_WORD and (room >= 0 or " " not in line)

    def breaks(self, line: str, following: str) -> bool:
        """Whether the next line is the rest of this one."""
        if not self.fills(line) or not following.strip() or _has_head(following):
            return False
        if self.torn:
            return not _DRAWN.search(line) and not _FRAME.match(following) and not _begin_alike(line, following)
        return self.moves(line, following)

    def moves(self, line: str, following: str) -> bool:
        """Whether a line had no room for the first word of the next."""
        word = following.split(maxsplit=1)[0]
        long = len(line) + 1 + min(len(word), _LONGEST_WORD) > self.characters
        return long and following.startswith(word) and self.fills(line)


def width_of(head: Sequence[bytes]) -> Width | None:
    """The width at which the lines of a stream were broken; None where they were not."""
    lines = [line.removesuffix("\r") for line in b"\n".join(head).decode(errors="replace").split("\n")]
    return _width_of_mail(lines) or _width_of_terminal(lines)


def _width_of_terminal(lines: Sequence[str]) -> Width | None:
    width = Width(max(map(len, lines), default=0), torn=True)
    if not _NARROWEST <= width.characters <= _WIDEST:
        return None
    pairs = [(line, following) for line, following in pairwise(lines) if width.fills(line)]
    may_be = (pair for pair in pairs if _in_a_word(pair[0][-1], pair[1][:1]))
    # Lines that differ in digits alone are torn alike.
    kinds = {"\n".join(pair).translate(_NO_DIGITS): pair for pair in may_be}
    torn = {_NUMBERS.sub("0", line) for line, following in kinds.values() if width.breaks(line, following)}
    # Every line that fills the width has its rest in the next, and so many unlike ones of these are shorter.
    rests = {"\n".join(pair).translate(_NO_DIGITS) for pair in pairs if not width.fills(pair[1])}
    all_broken = len(rests) >= _FEWEST_FILLED and all(width.breaks(*pair) for pair in pairs)
    return width if len(torn) >= (1 if all_broken else _FEWEST_TORN) else None


def _width_of_mail(lines: Sequence[str]) -> Width | None:
    pairs = [
        (line, following) for line, following in pairwise(lines[:_LOOKED_AT]) if line.strip() and following.strip()
    ]
    if _too_many_are_longer(pairs, _WIDEST_MAIL):
        return None  # of most logs, at little cost
    headless = [pair for pair in pairs if not _has_head(pair[1])]
    if not _FEWEST_MOVED <= len(headless) <= (len(pairs) - len(headless)) * (_PARTS_OF_A_RECORD - 1):
        return None
    widths = (Width(characters, torn=False) for characters in range(_WIDEST_MAIL, _NARROWEST - 1, -1))
    moved, width = max(
        (([pair for pair in headless if width.moves(*pair)], width) for width in widths),
        key=lambda found: len(found[0]),
    )
    kinds = {following.translate(_NO_DIGITS) for _, following in moved}
    # A terminal fills every line that it breaks.
    filled = sum(len(line) == width.characters for line, _ in moved)
    if len(kinds) < _FEWEST_MOVED or 2 * filled >= len(moved) or _too_many_are_longer(pairs, width.characters):
        return None
    return width if 100 * len(moved) >= _MOVED * len(headless) else None


def _too_many_are_longer(pairs: Sequence[tuple[str, str]], width: int) -> bool:
    longer = sum(len(line) > width for line, _ in pairs if " " in line)
    return 100 * longer > _LONGER * len(pairs)


def joined(lines: Iterable[_Numbered], width: Width) -> Iterator[_Numbered]:
    """Whole lines with the number of the line that each began on."""
    between = b"" if width.torn else b" "
    number, parts, last = 0, list[bytes](), ""
    for line_number, raw in lines:
        line = raw.removesuffix(b"\r")
        text = line.decode(errors="replace")
        if parts and (len(parts) >= _MOST_PARTS or not width.breaks(last, text)):
            yield number, between.join(parts)
            parts = []
        number = number if parts else line_number
        parts.append(line if width.torn else line.rstrip(b" "))
        last = text
    if parts:
        yield number, between.join(parts)


def _begin_alike(line: str, following: str) -> bool:
    """Whether two lines differ in digits alone where they begin, as two steps do."""
    return line[:_HEAD].translate(_NO_DIGITS) == following[:_HEAD].translate(_NO_DIGITS)


def _has_head(line: str) -> bool:
    """Whether a line begins as a record does."""
    head = parse_line(line)
    return len(head.starts) > 1 or head.level is not None


def _in_a_word(last: str, first: str) -> bool:
    """Whether two characters may be of one word or number: both are lower case, or both are digits."""
    return (last.islower() and first.islower()) or (last.isdigit() and first.isdigit())
