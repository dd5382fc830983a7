"""Turns masked root lines into vectors: what they mean and how they are spelled.

    embedder = load_embedder()                # "static": ships with logdiag, needs nothing else
    vectors = embedder.embed([masked(line)])  # one array of embedder.dimensions floats a line, of length 1

The first part is dense: for `static` the mean of one vector a token, made from all-MiniLM-L6-v2 by
`evals/static_model.py` (as model2vec, Minishlab 2024; weighted by SIF, Arora et al. 2017); else a model of
sentence-transformers. The second is lexical: pieces of three to five characters and the exception's class, weighted by
rarity and sketched into a fixed number of dimensions (Kane and Nelson 2014). An inner product of two vectors is the
weighted mean of both cosines.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import struct
import unicodedata
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from operator import mul
from typing import Any, NamedTuple

from logdiag.errors import MemoryStoreError
from logdiag.patterns import pattern_of

# The folder of the static model and the table of counts, and the file that names their versions.
STATIC = os.path.join(os.path.dirname(__file__), "static")
CARD = "card.json"

MASK = pattern_of(r"<(?:n|path|hex|id|time|address|url|pci)>")
"""The masks that replace numbers, names, paths and addresses in a line."""

# No token of the static model is longer; without a bound a word of n letters would take n * n look-ups.
_LONGEST_PIECE = 20
_WORD = pattern_of(r"[a-z]+|[0-9]+|[^\sa-z0-9]")

# How much of the cosine is the lexical part's: tuned on labelled failures, each looked for among the others.
_LEXICAL_SHARE, _OF_OTHER_MODELS = 0.6, 0.5

_WIDTH = 256
_SKETCH = 512
_SHIFT = 32 - 9
# Odd multipliers, each of which gives a piece's hash another index and sign.
_MIX = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F)
_SPELLING = 1
_SIZES = (3, 4, 5)
_HEAD_WEIGHT = 8.0
# RuntimeError: ...   torch.cuda.OutOfMemoryError: ...
_CLASS = pattern_of(r"\s*(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Exit))\b")
# Where the numbers begin in an .npy file of version 1 with a short header.
_HEADER = 128


class Embedder(NamedTuple):
    """What makes vectors of texts. Vectors of two embedders can be compared only when their names are equal: `name`
    holds the model, a hash of its weights, and the lexical part's form. `embed` gives a vector of `dimensions` numbers
    a text, of length 1, or zeros for a text without letters and digits."""

    name: str
    dimensions: int
    embed: Callable[[Sequence[str]], list[array[float]]]


@lru_cache(maxsize=2)
def load_embedder(name: str = "static") -> Embedder:
    """The embedder `static`, or a model of sentence-transformers by its name or folder. Raises MemoryStoreError."""
    share = _LEXICAL_SHARE if name == "static" else _OF_OTHER_MODELS
    try:
        with open(os.path.join(STATIC, CARD), encoding="utf-8") as file:
            card: dict[str, Any] = json.load(file)
    except (OSError, ValueError) as problem:
        raise _damaged() from problem
    identity, width, dense = (f"static@{card['version']}", _WIDTH, _static) if name == "static" else _transformer(name)
    spelled = f"spelling{_SPELLING}.{_SKETCH}@{card['rarity'][:12]}*{share:g}"

    def embed(texts: Sequence[str]) -> list[array[float]]:
        return [
            _scaled([*_scaled(meaning, 1 - share), *_scaled(_lexical(text), share)], 1)
            for meaning, text in zip(dense(texts), texts, strict=True)
        ]

    return Embedder(f"{identity}+{spelled}", width + _SKETCH, embed)


def closest(query: Sequence[float], vectors: Iterable[Sequence[float]], most: int) -> list[tuple[float, int]]:
    """The cosine and the index of the `most` vectors nearest to a query, best first; all vectors have length 1."""
    if not any(query):
        return []
    # The fastest product of two vectors that Python has without NumPy: |a - b|**2 = 2 - 2ab.
    asked = tuple(query)
    scores = [1 - math.dist(asked, vector) ** 2 / 2 for vector in vectors]
    return [(scores[index], index) for index in sorted(range(len(scores)), key=lambda index: -scores[index])[:most]]


def token_sum(text: str) -> list[float]:
    """The sum of the static vectors of a text's tokens (256 numbers); zeros where none is known."""
    try:
        known = shipped_tokens()
    except (OSError, ValueError) as problem:
        raise _damaged() from problem
    rows = [_token_vector(number) for number in tokens(text, known)]
    return list(map(sum, zip(*rows, strict=True))) if rows else [0.0] * _WIDTH


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


def spelling(text: str) -> Iterator[tuple[int, float]]:
    """The pieces of each word and the class that an exception line begins with, as hashes with damped counts."""
    counts: Counter[str] = Counter()
    plain = MASK.sub(" ", text)
    for word in plain.lower().split():
        padded = f" {word} "
        for length in _SIZES:
            counts.update([padded[start : start + length] for start in range(len(padded) - length + 1)])
    for piece, count in counts.items():
        yield zlib.crc32(piece.encode()), 1 + math.log(count)
    if named := _CLASS.match(plain):
        yield zlib.crc32(f"\0{named[1]}".encode()), _HEAD_WEIGHT


def _static(texts: Sequence[str]) -> Iterator[Sequence[float]]:
    """The mean of the tokens' vectors of each text, less what all lines have in common."""
    common = struct.unpack_from(f"<{_WIDTH}f", _file("common.npy"), _HEADER)
    for text in texts:
        sums = token_sum(text)
        yield [value - shared for value, shared in zip(_scaled(sums, 1), common, strict=True)] if any(sums) else sums


def _transformer(name: str) -> tuple[str, int, Callable[[Sequence[str]], Sequence[Sequence[float]]]]:
    """A model of sentence-transformers: its identity, its width, and how it embeds."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as problem:
        raise MemoryStoreError(
            f"The model {name} needs sentence-transformers: pip install 'logdiag[memory-models]'"
        ) from problem
    try:
        model = SentenceTransformer(name, local_files_only=os.path.exists(name))
    except (OSError, ValueError) as problem:
        raise MemoryStoreError(f"The model {name} cannot be loaded: name a folder with it, or another one") from problem
    weights = hashlib.sha256()
    for key, tensor in sorted(model.state_dict().items()):
        weights.update(key.encode())
        weights.update(tensor.cpu().contiguous().numpy().tobytes())

    def dense(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if not texts:
            return []
        vectors: Sequence[Sequence[float]] = model.encode(
            list(texts), convert_to_numpy=True, show_progress_bar=False
        ).tolist()
        return vectors

    return f"{os.path.basename(os.path.normpath(name))}@{weights.hexdigest()[:12]}", len(dense(["width"])[0]), dense


def _lexical(text: str) -> list[float]:
    """How a text is spelled: its pieces, weighted by rarity, each added to four numbers of the sketch with a sign."""
    sketch = [0.0] * _SKETCH
    for hashed, count in spelling(text):
        indices, rare = _sketched(hashed)
        for index, minus in indices:
            sketch[index] += -count * rare if minus else count * rare
    return sketch


@lru_cache(maxsize=1 << 14)
def _sketched(hashed: int) -> tuple[tuple[tuple[int, bool], ...], float]:
    """The indices of a piece in the sketch, each with whether it is subtracted there; and the piece's rarity."""
    rarity = _file("rarity.npy")
    size = (len(rarity) - _HEADER) // 2
    mixed = [hashed * factor & 0xFFFFFFFF for factor in _MIX]
    rare: float = struct.unpack_from("<e", rarity, _HEADER + 2 * (hashed & (size - 1)))[0]
    return tuple((value >> _SHIFT, bool(value & 2)) for value in mixed), rare


@lru_cache(maxsize=1 << 11)
def _token_vector(number: int) -> array[float]:
    scale = struct.unpack_from("<f", _file("scales.npy"), _HEADER + 4 * number)[0]
    row = struct.unpack_from(f"{_WIDTH}b", _file("vectors.npy"), _HEADER + _WIDTH * number)
    return array("d", [scale * value for value in row])


@lru_cache(maxsize=8)
def _file(name: str) -> mmap.mmap:
    """A shipped file, mapped, not read."""
    try:
        with open(os.path.join(STATIC, name), "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as problem:
        raise _damaged() from problem


def _damaged() -> MemoryStoreError:
    return MemoryStoreError(f"{STATIC}: the static model is damaged: install logdiag again")


def _scaled(vector: Sequence[float], share: float) -> array[float]:
    """A vector with a squared length of `share`; zeros stay zeros."""
    length = math.sqrt(sum(map(mul, vector, vector)))
    factor = math.sqrt(share) / length if length > 0 else 0.0
    return array("f", [value * factor for value in vector])
