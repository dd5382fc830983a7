"""Cuts a text into the tokens of the static model, by WordPiece."""

from __future__ import annotations

import os
import unicodedata
from functools import cache

from logdiag.patterns import pattern_of

# The folder of the static model and the table of counts, and the file that names their versions.
STATIC = os.path.join(os.path.dirname(__file__), "static")
CARD = "card.json"

# No token of the static model is longer; without a bound a word of n letters would take n * n look-ups.
_LONGEST_PIECE = 20
MASK = pattern_of(r"<(?:n|path|hex|id|time|address|url|pci)>")
"""The masks that replace numbers, names, paths and addresses in a line."""
_WORD = pattern_of(r"[a-z]+|[0-9]+|[^\sa-z0-9]")


def tokens(text: str, known: dict[str, int]) -> list[int]:
    """The numbers of a text's tokens, by WordPiece (Wu et al. 2016): the longest known beginning of a word, then the
    longest known `##` continuations. A word that cannot be made of known pieces has none."""
    return [number for word in words(text) for number in pieces(word, known)]


@cache
def shipped_tokens() -> dict[str, int]:
    """The numbers of the static model's tokens. Raises OSError and ValueError where their file is damaged."""
    with open(os.path.join(STATIC, "tokens.txt"), encoding="utf-8") as file:
        names = file.read().split("\n")
    return dict(zip(names, range(len(names)), strict=True))


def words(text: str) -> list[str]:
    """The words of a text that `pieces` looks for: in lower case, without accents; signs stand alone."""
    plain = unicodedata.normalize("NFD", MASK.sub(" ", text)).encode("ascii", "ignore").decode().lower()
    return _WORD.findall(plain)


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
