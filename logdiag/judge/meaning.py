"""The reason by meaning, where no rule knows a word of the line: low, honest confidence, and never an action from it.

A linear model over the static vectors that ship with logdiag: of the line itself and, with less weight, of the lines
around it. It is trained with the suspects (`python -m evals.suspects`), on the development cases' root lines, on
the examples that prove the rules, and on messages written for each reason (`evals/wordings.txt`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from pathlib import Path

from logdiag.errors import WeightsError
from logdiag.judge.line_features import body_of
from logdiag.model import Line, Reason

__all__ = ["MOST_SURE", "NEAR", "SHARE_OF_OTHERS", "input_of", "reasons_by_meaning"]

CARD = Path(__file__).parent / "weights" / "reasons.json"
# Meaning alone is never surer than this.
MOST_SURE = 0.6
# So many lines before and after the line count, together this much of its own weight.
NEAR = 3
SHARE_OF_OTHERS = 0.15
_WIDTH = 256


def reasons_by_meaning(line: Line, around: Sequence[Line], *, card: Path = CARD) -> tuple[tuple[Reason, float], ...]:
    """The reasons that a line may mean, most likely first, with their chances (at most `MOST_SURE`).

    `around` are lines near it, in any order; the nearest are read. Empty for a line without a known word. Raises
    WeightsError when the weights are missing or broken.
    """
    near = sorted(
        (other for other in around if other.stream == line.stream and other.position != line.position),
        key=lambda other: abs(other.position - line.position),
    )
    vector = input_of(body_of(line), [body_of(other) for other in near[: 2 * NEAR]])
    if not any(vector):
        return ()
    reasons, rows, biases = _load(card)
    values = [sum(map(mul, row, vector)) + bias for row, bias in zip(rows, biases, strict=True)]
    most = max(values)
    powers = [math.exp(value - most) for value in values]
    whole = sum(powers)
    found = ((reason, min(power / whole, MOST_SURE)) for reason, power in zip(reasons, powers, strict=True))
    return tuple(sorted(found, key=lambda item: -item[1]))


def input_of(body: str, others: Sequence[str]) -> list[float]:
    """What the model sees of a line and those around it: one vector of 256."""
    from logdiag.memory.embedding import token_sum

    own = _unit(token_sum(body))
    if not any(own):
        return own
    beside = [0.0] * _WIDTH
    for other in others:
        beside = [one + more for one, more in zip(beside, _unit(token_sum(other)), strict=True)]
    return [one + SHARE_OF_OTHERS * more for one, more in zip(own, _unit(beside), strict=True)]


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(map(mul, vector, vector)))
    return [value / length for value in vector] if length > 0 else [0.0] * _WIDTH


@lru_cache(maxsize=2)
def _load(card: Path) -> tuple[list[Reason], list[list[float]], list[float]]:
    """The reasons, a row of weights for each, and the biases."""
    try:
        document = json.loads(card.read_text(encoding="utf-8"))
        reasons = [Reason(name) for name in document["reasons"]]
        step = float(document["step"])
        rows = [[step * value for value in row] for row in document["rows"]]
        biases = [float(value) for value in document["biases"]]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise WeightsError(f"{card}: the reasons' weights cannot be read: install logdiag again") from problem
    if not len(reasons) == len(rows) == len(biases) > 0 or any(len(row) != _WIDTH for row in rows):
        raise WeightsError(f"{card}: the reasons' weights do not fit each other: install logdiag again")
    return reasons, rows, biases
