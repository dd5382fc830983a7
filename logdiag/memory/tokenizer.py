"""What a text's vector is made of: its tokens, and the pieces of its spelling."""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

__all__ = ["CARD", "STATIC", "pieces", "spelling", "tokens", "words"]

# Where the static model and the table of counts lie, and what says which they are.
STATIC = Path(__file__).parent / "static"
CARD = "card.json"

_SIZES = (3, 4, 5)
_HEAD_WEIGHT = 8.0
# No token of the static model is longer; without a bound a word of n letters would take n * n look-ups.
_LONGEST_PIECE = 20
_MASK = re.compile(r"<(?:n|path|hex|id|time|address|url|pci)>")
# RuntimeError: ...   torch.cuda.OutOfMemoryError: ...
_CLASS = re.compile(r"\s*(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Exit))\b")
_WORD = re.compile(r"[a-z]+|[0-9]+|[^\sa-z0-9]")


def tokens(text: str, known: dict[str, int]) -> list[int]:
    """The numbers of a text's tokens, by WordPiece (Wu et al. 2016): the longest known beginning of a word, then the
    longest known `##` continuations. A word that cannot be made of known pieces has none."""
    return [number for word in words(text) for number in pieces(word, known)]


def words(text: str) -> list[str]:
    """The words of a text that `pieces` looks for: in lower case, without accents; signs stand alone."""
    plain = unicodedata.normalize("NFD", _MASK.sub(" ", text)).encode("ascii", "ignore").decode().lower()
    return _WORD.findall(plain)


def spelling(text: str) -> Iterator[tuple[int, float]]:
    """The pieces of three to five characters of each word, each as a hash and its count (damped: 1 + log), and the
    class that an exception line begins with."""
    counts: Counter[str] = Counter()
    plain = _MASK.sub(" ", text)
    for word in plain.lower().split():
        padded = f" {word} "
        for length in _SIZES:
            counts.update(padded[start : start + length] for start in range(len(padded) - length + 1))
    for piece, count in counts.items():
        yield zlib.crc32(piece.encode()), 1 + math.log(count)
    if named := _CLASS.match(plain):
        yield zlib.crc32(f"\0{named[1]}".encode()), _HEAD_WEIGHT


def pieces(word: str, known: dict[str, int]) -> list[int]:
    """The numbers of one word's tokens; none where a part of it is not known."""
    if word in known:
        return [known[word]]
    found: list[int] = []
    start, mark = 0, ""
    while start < len(word):
        for end in range(min(len(word), start + _LONGEST_PIECE), start, -1):
            number = known.get(mark + word[start:end])
            if number is not None:
                found.append(number)
                start, mark = end, "##"
                break
        else:
            return []
    return found
