"""Joins lines that a terminal, or what copied from one, broke at its width.

Such a stream has no line longer than its width, and words are torn apart there. Only a line of exactly that width is
joined with the next, and not one that draws, or before a line with a head of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from logdiag.patterns import pattern_of
from logdiag.read.prefixes import parse_line

_NARROWEST, _WIDEST = 60, 400
# One line may be as long as the longest and end in a word by chance, and many ranks may say the same.
_FEWEST_TORN = 2
_NUMBERS = pattern_of(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*")
_NO_DIGITS = {ord(digit): None for digit in "0123456789"}
# Lines that begin alike are lines of their own.
_HEAD = 8
# +-----+   =======   | 3  N/A |    37%|####      | 12/32 [00:01<00:02]
_DRAWN = pattern_of(r"\d%\||[|+\u2500-\u259f]\s*$|(\W)\1{9,}\s*$|\r")
_FRAME = pattern_of(r'\s+File "|Traceback ')

# A line that goes on for longer is no line.
_MOST_PARTS = 100

_Numbered = tuple[int, bytes]


def width_of(head: Sequence[bytes]) -> int | None:
    """The width, in characters, at which the lines of a stream were broken; None where they were not."""
    lines = b"\n".join(head).decode(errors="replace").split("\n")
    width = max(map(len, lines), default=0)
    if not _NARROWEST <= width <= _WIDEST:
        return None
    pairs = [(line, following) for line, following in pairwise(lines) if len(line) == width]
    may_be = (pair for pair in pairs if _in_a_word(pair[0][-1], pair[1][:1]))
    # Lines that differ in digits alone are torn alike.
    kinds = {"\n".join(pair).translate(_NO_DIGITS): pair for pair in may_be}
    torn = [line for line, following in kinds.values() if _goes_on(line, following)]
    return width if len({_NUMBERS.sub("0", line) for line in torn}) >= _FEWEST_TORN else None


def joined(lines: Iterable[_Numbered], width: int) -> Iterator[_Numbered]:
    """Whole lines with the number of the line that each began on."""
    number, parts, last = 0, list[bytes](), ""
    for at, ended in lines:
        line = ended.removesuffix(b"\r")
        text = line.decode(errors="replace")
        if parts and (len(last) != width or len(parts) >= _MOST_PARTS or not _goes_on(last, text)):
            yield number, b"".join(parts)
            parts = []
        number = number if parts else at
        parts.append(line)
        last = text
    if parts:
        yield number, b"".join(parts)


def _goes_on(line: str, following: str) -> bool:
    """Whether the next line may be the rest of one of full width."""
    if not following.strip() or _DRAWN.search(line) or _FRAME.match(following) or following[:_HEAD] == line[:_HEAD]:
        return False
    head = parse_line(following)
    return head.level is None and head.clock is None and head.rank is None and head.node is None


def _in_a_word(last: str, first: str) -> bool:
    """Whether a word or a number was torn: a line's last word and the next one's first are seldom alike in case."""
    return (last.islower() and first.islower()) or (last.isdigit() and first.isdigit())
