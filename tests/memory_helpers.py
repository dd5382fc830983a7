"""What the tests of the memory share: incidents, an embedder that needs no model, and processes that use a store."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import zlib
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logdiag.memory.embedding import Embedder
from logdiag.memory.incident import Incident, masked
from logdiag.memory.store import Store, open_store
from logdiag.model import Action, Reason
from tests.helpers import environment

DIMENSIONS = 64


def letters(name: str = "letters", dimensions: int = DIMENSIONS, embedded: list[str] | None = None) -> Embedder:
    """An embedder of letter triples: alike texts have alike vectors, and no model is needed. It appends to `embedded`
    what it embeds."""

    def vectors_of(texts: Sequence[str]) -> list[array[float]]:
        made = []
        for text in texts:
            vector = [1e-3] * dimensions
            for start in range(len(text) - 2):
                place = zlib.crc32(text[start : start + 3].encode())
                vector[place % dimensions] += 1 if place & 1024 else -1
            length = math.sqrt(sum(value * value for value in vector))
            made.append(array("f", [value / length for value in vector]))
        if embedded is not None:
            embedded.extend(texts)
        return made

    return Embedder(name, dimensions, vectors_of)


def letters_store(place: str | Path, *, shipped: bool = False) -> Store:
    """A store whose similarity search needs no model."""
    return open_store(place, embedder=letters(), shipped=shipped)


def incident(text: str, reason: Reason = Reason.ECC_ERROR, **more: Any) -> Incident:
    """One incident whose root line is this text."""
    return Incident(**{"id": "", "signature": masked(text), "reason": reason, "action": Action.RESTART, **more})


WORDS = ["alpha", "brave", "cargo", "delta", "ember", "flint", "grove", "haven"]
WORDS += ["ivory", "joker", "koala", "lemon", "mango", "noble", "ocean", "piano"]


def text_of(number: int) -> str:
    """One of a million lines that differ in words, which masking leaves alone; no two have the same letter triples."""
    return " ".join(WORDS[number >> 4 * place & 15] + "vwxyz"[place] for place in range(5))


def python(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """A process that runs some code, started and not waited for."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def without_root_powers() -> None:
    """Takes from a process of root what lets it read and write everything; others cannot do that anyway."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            if libc.prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
                raise OSError(ctypes.get_errno(), "prctl")
