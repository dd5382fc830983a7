"""The default embedder without NumPy, for one text at a time: the vectors of `embedding.load_embedder("static")`.

Loading NumPy takes several times as long as a whole diagnosis of a small log. Where only the shipped incidents are
asked about one line, this is enough; it also serves where NumPy is not installed.
"""

from __future__ import annotations

import math
import mmap
import struct
from array import array
from collections.abc import Sequence
from functools import lru_cache
from operator import mul

from logdiag.memory.tokenizer import STATIC, spelling, tokens

__all__ = ["cosine", "embed", "token_sum"]

_DIMENSIONS = 256
_SKETCH = 512
_SHIFT = 32 - 9
_LEXICAL_SHARE = 0.6
_MIX = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F)
# Where the numbers begin in an .npy file of version 1 with a short header.
_HEADER = 128


def embed(text: str) -> array[float]:
    """The vector of a text, of length 1; zeros for one without a letter or a digit."""
    return _scaled([*_scaled(_dense(text), 1 - _LEXICAL_SHARE), *_scaled(_lexical(text), _LEXICAL_SHARE)], 1)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two vectors of length 1."""
    return float(sum(map(mul, one, other)))


def token_sum(text: str) -> list[float]:
    """The sum of the vectors of a text's tokens; zeros where none is known."""
    known, vectors, scales = _tables()
    sums = [0.0] * _DIMENSIONS
    for number in tokens(text, known):
        scale = struct.unpack_from("<f", scales, _HEADER + 4 * number)[0]
        row = struct.unpack_from(f"{_DIMENSIONS}b", vectors, _HEADER + _DIMENSIONS * number)
        sums = [total + scale * value for total, value in zip(sums, row, strict=True)]
    return sums


def _dense(text: str) -> list[float]:
    """The mean of the tokens' vectors, less what all lines have in common."""
    sums = token_sum(text)
    if not any(sums):
        return sums
    common = struct.unpack_from(f"<{_DIMENSIONS}f", _file("common.npy"), _HEADER)
    return [value - shared for value, shared in zip(_scaled(sums, 1), common, strict=True)]


def _lexical(text: str) -> list[float]:
    """The pieces of a text, weighted by rarity, each added to four places of the sketch with a sign."""
    rarity = _file("rarity.npy")
    size = (len(rarity) - _HEADER) // 2
    sketch = [0.0] * _SKETCH
    for hashed, count in spelling(text):
        weight = count * struct.unpack_from("<e", rarity, _HEADER + 2 * (hashed & (size - 1)))[0]
        for factor in _MIX:
            mixed = hashed * factor & 0xFFFFFFFF
            sketch[mixed >> _SHIFT] += -weight if mixed & 2 else weight
    return sketch


def _scaled(vector: Sequence[float], share: float) -> array[float]:
    """A vector with a squared length of `share`; zeros stay zeros."""
    length = math.sqrt(sum(map(mul, vector, vector)))
    factor = math.sqrt(share) / length if length > 0 else 0.0
    return array("f", [value * factor for value in vector])


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[str, int], mmap.mmap, bytes]:
    """The tokens' numbers, their vectors (mapped, not read), and the scale of each."""
    names = (STATIC / "tokens.txt").read_text(encoding="utf-8").split("\n")
    with open(STATIC / "vectors.npy", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return {name: number for number, name in enumerate(names)}, mapped, _file("scales.npy")


@lru_cache(maxsize=4)
def _file(name: str) -> bytes:
    with open(STATIC / name, "rb", buffering=0) as file:
        return file.read()
