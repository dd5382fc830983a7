"""The reason by a line's words, where no rule knows the line: honest chances, and never an action from them.

A linear model over the words of the line and the pairs of words beside each other, each weighted by how rare it is. It
is trained with the suspects (`python -m evals.suspects`): on the development cases' root lines, on the examples that
prove the rules, and on messages written for each reason (`evals/wordings.txt`). The lines around add nothing.
"""

from __future__ import annotations

import json
import math
import re
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from logdiag.errors import WeightsError
from logdiag.judge.line_features import body_of
from logdiag.model import Line, Reason

__all__ = ["CARD", "TABLE", "WEIGHTS", "Wording", "reasons_by_wording", "term_key", "terms_of"]

WEIGHTS = Path(__file__).parent / "weights"
CARD = "reasons.json"
TABLE = "reasons.words"
# A word's key, and how rare the word is.
_KEY, _RARITY = 4, 1
# outOfMemory, HTTPError
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TERM = re.compile(r"[a-z]+|[0-9]+|[^\sa-z0-9]")


@dataclass(frozen=True, slots=True)
class Wording:
    """The trained model. `keys` are the known terms' keys in order; `rows` has for each its rarity (an unsigned byte)
    and, for each of `reasons`, how much it speaks for it (a signed byte, in units of `step`). `biases` are the reasons'
    own; `sharpness` makes chances of the sums."""

    reasons: tuple[Reason, ...]
    biases: tuple[float, ...]
    step: float
    sharpness: float
    keys: array[int]
    rows: bytes

    def row(self, key: int) -> tuple[int, ...] | None:
        """A term's rarity and what it speaks for; None for one that is not known."""
        at = bisect_left(self.keys, key)
        if at == len(self.keys) or self.keys[at] != key:
            return None
        form = f"<B{len(self.reasons)}b"
        return struct.unpack_from(form, self.rows, at * struct.calcsize(form))


def reasons_by_wording(line: Line, *, folder: Path = WEIGHTS) -> tuple[tuple[Reason, float], ...]:
    """The reasons that a line may tell, most likely first, with their chances, 0 to 1.

    Empty for a line without a known word. Raises WeightsError when the weights are missing or broken.
    """
    wording = _load(folder)
    rows = [row for term in terms_of(body_of(line)) if (row := wording.row(term_key(term)))]
    if not rows:
        return ()
    length = math.sqrt(sum(rarity * rarity for rarity, *_ in rows))
    sums = [0.0] * len(wording.reasons)
    for rarity, *weights in rows:
        sums = [one + rarity * weight for one, weight in zip(sums, weights, strict=True)]
    values = [wording.step * one / length + bias for one, bias in zip(sums, wording.biases, strict=True)]
    most = max(values)
    powers = [math.exp((value - most) * wording.sharpness) for value in values]
    found = zip(wording.reasons, (power / sum(powers) for power in powers), strict=True)
    return tuple(sorted(found, key=lambda item: -item[1]))


def terms_of(body: str) -> set[str]:
    """The words of a line, in lower case, its numbers and signs, and each two that stand beside each other."""
    words = _TERM.findall(_CAMEL.sub(" ", body).lower())
    return {*words, *(f"{one} {other}" for one, other in pairwise(words))}


def term_key(term: str) -> int:
    """The number that stands for a term in the table (its CRC-32)."""
    return zlib.crc32(term.encode(errors="replace"))


@lru_cache(maxsize=2)
def _load(folder: Path) -> Wording:
    """The model in a folder."""
    try:
        document = json.loads((folder / CARD).read_text(encoding="utf-8"))
        table = (folder / TABLE).read_bytes()
        reasons = tuple(Reason(name) for name in document["reasons"])
        biases = tuple(float(value) for value in document["biases"])
        many, over = divmod(len(table), _KEY + _RARITY + len(reasons))
        keys = array("I", table[: many * _KEY])
        if sys.byteorder == "big":
            keys.byteswap()
        wording = Wording(
            reasons, biases, float(document["step"]), float(document["sharpness"]), keys, table[many * _KEY :]
        )
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise WeightsError(f"{folder / CARD}: the reasons' weights cannot be read: install logdiag again") from problem
    if over or not many or len(reasons) != len(biases):
        raise WeightsError(f"{folder / CARD}: the reasons' weights do not fit each other: install logdiag again")
    return wording
