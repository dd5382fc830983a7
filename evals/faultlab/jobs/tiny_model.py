"""Writes a small model as from_pretrained() reads it: tiny_model.py gpt2|bert FOLDER"""

import json
import os
import sys

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = """
the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which
one you were her all their would there we him been has when who will no more if out so said what up its about
into than them can only other new some could time these two may then do first any my now such like our over man
me even most made after also did many before must through back years where much your way well down should
because each just those people how too little state good very make world still own see men work long get here
between both life being under never day same another know while last
""".split()
HIDDEN, LAYERS, POSITIONS, VOCABULARY = 32, 2, 64, 128


def gpt2():
    source = np.random.default_rng(3)

    def random(*shape):
        return (source.standard_normal(shape) * 0.05).astype(np.float32)

    weights = {
        "transformer.wte.weight": random(VOCABULARY, HIDDEN),
        "transformer.wpe.weight": random(POSITIONS, HIDDEN),
    }
    for layer in range(LAYERS):
        place = f"transformer.h.{layer}"
        for name, width in (("attn.c_attn", 3 * HIDDEN), ("attn.c_proj", HIDDEN), ("mlp.c_fc", 4 * HIDDEN)):
            weights[f"{place}.{name}.weight"] = random(HIDDEN, width)
            weights[f"{place}.{name}.bias"] = np.zeros(width, np.float32)
        weights[f"{place}.mlp.c_proj.weight"] = random(4 * HIDDEN, HIDDEN)
        weights[f"{place}.mlp.c_proj.bias"] = np.zeros(HIDDEN, np.float32)
    for name in [f"h.{layer}.ln_{number}" for layer in range(LAYERS) for number in (1, 2)] + ["ln_f"]:
        weights[f"transformer.{name}.weight"] = np.ones(HIDDEN, np.float32)
        weights[f"transformer.{name}.bias"] = np.zeros(HIDDEN, np.float32)
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": VOCABULARY,
        "n_embd": HIDDEN,
        "n_layer": LAYERS,
        "n_head": 4,
        "n_positions": POSITIONS,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    return config, weights, {"bos_token": "<s>", "eos_token": "<s>", "unk_token": "<unk>"}


def bert():
    config = {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": POSITIONS,
        "pad_token_id": 2,
    }
    source = np.random.default_rng(5)

    def random(*shape):
        return (source.standard_normal(shape) * 0.05).astype(np.float32)

    weights = {
        "bert.embeddings.word_embeddings.weight": random(VOCABULARY, HIDDEN),
        "bert.embeddings.position_embeddings.weight": random(POSITIONS, HIDDEN),
        "bert.embeddings.token_type_embeddings.weight": random(2, HIDDEN),
    }
    for layer in range(LAYERS):
        place = f"bert.encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            weights[f"{place}.attention.self.{name}.weight"] = random(HIDDEN, HIDDEN)
            weights[f"{place}.attention.self.{name}.bias"] = np.zeros(HIDDEN, np.float32)
        for name, into, out in (
            ("attention.output", HIDDEN, HIDDEN),
            ("intermediate", HIDDEN, 64),
            ("output", 64, HIDDEN),
        ):
            weights[f"{place}.{name}.dense.weight"] = random(out, into)
            weights[f"{place}.{name}.dense.bias"] = np.zeros(out, np.float32)
    norms = [f"encoder.layer.{layer}.{name}" for layer in range(LAYERS) for name in ("attention.output", "output")]
    for name in [*norms, "embeddings"]:
        weights[f"bert.{name}.LayerNorm.weight"] = np.ones(HIDDEN, np.float32)
        weights[f"bert.{name}.LayerNorm.bias"] = np.zeros(HIDDEN, np.float32)
    return config, weights, {"pad_token": "[PAD]", "unk_token": "<unk>"}


def main():
    kind, folder = sys.argv[1:]
    config, weights, special = {"gpt2": gpt2, "bert": bert}[kind]()
    os.makedirs(folder, exist_ok=True)
    vocabulary = ["<s>", "<unk>", "[PAD]", *WORDS][:VOCABULARY]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(vocabulary)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    for name, content in (
        ("config.json", config),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": POSITIONS, **special},
        ),
    ):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
    save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    main()
