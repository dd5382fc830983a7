"""A real language model that knows nothing: random weights, served over OpenAI's protocol by llama.cpp.

    with noise_model(folder) as url:
        model = ChatOpenAI(model="noise", base_url=url, api_key="none", extra_body=SHAPED)

Its words are noise. With `SHAPED` a grammar holds them to the form of an answer: every field is there, each with a
value that is allowed, and all of them are drawn at random.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logdiag.model import Reason

__all__ = ["SHAPED", "noise_model"]

_WIDTH, _INNER = 16, 16
_WINDOW = 32_768
_MOST_WORDS = 2000
_SPECIAL = ("<unk>", "<s>", "</s>")
_PIECES = ("\u2581", '{"', '":', '",', '"}', "reason", "root_line", "number", "source", "quote", "cause", "restart")

_LINE = {
    "type": "object",
    "properties": {
        "source": {"type": "integer", "minimum": 1, "maximum": 2},
        "number": {"type": "integer", "minimum": 1, "maximum": 400},
        "quote": {"type": "string", "pattern": "^[a-zA-Z0-9: ]{1,12}$"},
    },
    "required": ["source", "number", "quote"],
}
_WORDS = {"type": "string", "pattern": "^[a-zA-Z ]{1,20}$"}
_ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"enum": [reason.value for reason in Reason]},
        "root_line": _LINE,
        "evidence": {"type": "array", "items": _LINE, "maxItems": 2},
        "cause": _WORDS,
        "would_prove": _WORDS,
        "confidence": {"enum": [0.1, 0.5, 0.9, 1]},
    },
    "required": ["reason", "root_line", "evidence", "cause", "would_prove", "confidence"],
}
SHAPED = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": _ANSWER}}}


# The server runs in a process of its own, which is killed: when it is closed in the middle of an answer it would wait
# for a client of its own process, which cannot run meanwhile.
_SERVE = """
import sys, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.port, settings.n_parallel = sys.argv[1], 0, 1
settings.n_ctx, settings.n_predict = int(sys.argv[2]), int(sys.argv[3])
# More threads only wait for each other.
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
settings.use_jinja, settings.warmup, settings.verbosity = True, False, -1
server = xllamacpp.Server(settings)
print("address", server.listening_address, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def noise_model(folder: Path, seed: int = 1) -> Iterator[str]:
    """The base URL of a model with random weights, whose file is written to `folder`."""
    path = folder / "noise.gguf"
    _write(path, np.random.default_rng(seed))
    command = [sys.executable, "-c", _SERVE, str(path), str(_WINDOW), str(_MOST_WORDS)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            said = next((line for line in process.stdout if line.startswith("address ")), "")
            assert said, "the server of the noise model did not start"
            yield f"{said.split()[1]}/v1"
        finally:
            process.kill()


def _write(path: Path, rng: np.random.Generator) -> None:
    """A Llama of one layer and a vocabulary of bytes and a few words."""
    import gguf

    letters = [chr(code) for code in range(33, 127)]
    words = list(dict.fromkeys([*_PIECES, *(reason.value for reason in Reason), *letters]))
    names = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    kinds = [
        gguf.TokenType.UNKNOWN,
        *[gguf.TokenType.CONTROL] * 2,
        *[gguf.TokenType.BYTE] * 256,
        *[gguf.TokenType.NORMAL] * len(words),
    ]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(_WINDOW)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH)
    writer.add_vocab_size(len(names))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([name.encode() for name in names])
    writer.add_token_scores([0.0] * (len(names) - len(words)) + [-float(at) for at in range(len(words))])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, shape in _shapes(len(names)).items():
        weights: NDArray[np.float32] = rng.standard_normal(shape).astype(np.float32) * np.float32(0.5)
        writer.add_tensor(f"{name}.weight", np.ones_like(weights) if name.endswith("norm") else weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _shapes(words: int) -> dict[str, tuple[int, ...]]:
    square = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (_WIDTH, _WIDTH))
    inner = {"ffn_gate": (_INNER, _WIDTH), "ffn_up": (_INNER, _WIDTH), "ffn_down": (_WIDTH, _INNER)}
    norms = dict.fromkeys(("attn_norm", "ffn_norm"), (_WIDTH,))
    layer = {f"blk.0.{name}": shape for name, shape in (square | inner | norms).items()}
    return {"token_embd": (words, _WIDTH), "output_norm": (_WIDTH,), "output": (words, _WIDTH), **layer}
