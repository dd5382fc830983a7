"""Suspects: which line of a log broke it, ranked by structure, meaning and words, without a rule.

A small network scores each candidate from what `line_features` asks of it and from the meaning of its words (a
table of numbers for each token of the shipped static model); small decision trees correct it. The scores of a log
share one whole with the chance that it shows no failure at all (see `failure`). `python -m evals.suspects` trains it;
its weights are data in `weights/`.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import mul, sub, truediv
from typing import Any

from logdiag.errors import WeightsError
from logdiag.judge.suspects.failure import (
    INPUTS,
    Tree,
    chance_of,
    inputs_of,
    standing_of,
    sum_of_trees,
    trees_from,
    words_of_end,
)
from logdiag.judge.suspects.line_features import FEATURES, View, candidates_of, features_of, view_of
from logdiag.judge.suspects.ranked import RankedLine, Ranking
from logdiag.judge.tracebacks.forms import NATIVE_FRAME, OF_A_SHELL, TITLE
from logdiag.model import Digest, Line
from logdiag.scan.survey import Survey
from logdiag.settings.places import StrPath

WEIGHTS = os.path.join(os.path.dirname(__file__), "weights")
"""The folder of the weights that ship."""
CARD = "suspects.json"
TABLE = "suspects.tokens"
_CLIP = 4.0
# Characters of a line whose meaning is asked.
_MEANT = 300


@dataclass(frozen=True, slots=True)
class Weights:
    """The trained network: features are centred and scaled, joined with the meaning, and go through one hidden layer.

    `hidden` has a row for each unit (inputs, then its bias is in `biases`). `table` has a row of signed bytes for each
    token: its meaning, and how much it weighs. What `trees` make of the features is added. `failure` are the trees that
    give the chance that the log shows a failure.
    """

    centres: tuple[float, ...]
    spreads: tuple[float, ...]
    hidden: tuple[tuple[float, ...], ...]
    biases: tuple[float, ...]
    out: tuple[float, ...]
    bias: float
    meaning_scales: tuple[float, ...]
    meaning_centres: tuple[float, ...]
    temperature: float
    trees: tuple[Tree, ...]
    failure: tuple[Tree, ...]
    table: bytes

    @property
    def meanings(self) -> int:
        """How many numbers make a line's meaning."""
        return len(self.meaning_centres)


def ranking(survey: Survey, digest: Digest) -> Ranking:
    """The ranking of a log: the suspects, the chance of a failure, and the scores.

    Raises WeightsError when the weights are missing or broken: say so in a note, and let the rules decide.
    """
    weights = load_weights()
    view = view_of(survey, digest)
    candidates = candidates_of(view)
    if not candidates:
        return Ranking()  # nothing but rulers and numbers
    return _ranking(view, dict(zip(candidates, _values(view, candidates, weights), strict=True)), weights)


def _ranking(view: View, values: dict[int, float], weights: Weights) -> Ranking:
    """The ranking from the candidates' values; one line stands for all of its shape, none for native frames,
    titles and commands that a shell traces."""
    output = (index for index in values if not _is_no_output(view.lines[index]))
    best: dict[str, int] = {}
    for index in sorted(output, key=lambda index: -values[index]):
        best.setdefault(view.shapes[index], index)
    inputs = inputs_of(values.values(), standing_of(view), words_of_end(view))
    failure = chance_of(inputs, weights.failure)
    most = max(values.values())
    powers = {index: math.exp((value - most) / weights.temperature) for index, value in values.items()}
    share = failure / max(sum(powers[index] for index in best.values()), 1e-12)
    of_shape = {shape: powers[index] for shape, index in best.items()}
    scores = {view.lines[index].place: min(share * of_shape.get(view.shapes[index], 0.0), 1.0) for index in values}
    ranked = (RankedLine(view.lines[index], share * powers[index]) for index in best.values())
    return Ranking(tuple(ranked), failure, scores)


def _is_no_output(line: Line) -> bool:
    """Whether a line is a native frame or a command that a shell traces, whatever word is in it, or a title."""
    return any(form.match(line.text) or form.match(line.message) for form in (OF_A_SHELL, TITLE, NATIVE_FRAME))


def _values(view: View, indices: Sequence[int], weights: Weights) -> list[float]:
    """The value of each line: the network's and the trees' together."""
    rows = [features_of(view, index) for index in indices]
    meanings = (_meaning(token_numbers(view.bodies[index]), weights) for index in indices)
    inputs = [(*_scaled(row, weights), *meaning) for row, meaning in zip(rows, meanings, strict=True)]
    values = _of_network(inputs, weights)
    return [value + sum_of_trees(weights.trees, row) for value, row in zip(values, rows, strict=True)]


def _scaled(row: Sequence[float], weights: Weights) -> list[float]:
    scaled = map(truediv, map(sub, row, weights.centres), weights.spreads)
    return [value if -_CLIP < value < _CLIP else math.copysign(_CLIP, value) for value in scaled]


def _of_network(lines: Sequence[tuple[float, ...]], weights: Weights) -> list[float]:
    """The network's value of each line's inputs. The fastest product of two vectors that Python has without NumPy comes
    from how far they are apart: 2ab = aa + bb - |a - b|**2."""
    units = [
        (weight, unit, _square(unit) + 2 * bias)
        for weight, unit, bias in zip(weights.out, weights.hidden, weights.biases, strict=True)
    ]
    apart = math.dist
    values = []
    for inputs in lines:
        square_of_inputs = _square(inputs)
        reached = [
            weight * doubled
            for weight, unit, square in units
            if (doubled := square + square_of_inputs - apart(unit, inputs) ** 2) > 0.0
        ]
        values.append(sum(reached, 0.0) / 2 + weights.bias)
    return values


def _square(vector: Sequence[float]) -> float:
    return float(sum(map(mul, vector, vector)))


def _meaning(numbers: Sequence[int], weights: Weights) -> list[float]:
    """The weighted mean of the tokens' rows."""
    width = weights.meanings + 1
    rows = [struct.unpack_from(f"{width}b", weights.table, width * number) for number in numbers]
    sums = list(map(sum, zip(*rows, strict=True))) or [0] * width
    weight = max(sums[-1], 1)
    return [
        value * scale / weight - centre
        for value, scale, centre in zip(sums, weights.meaning_scales, weights.meaning_centres, strict=False)
    ]


def _tokens() -> dict[str, int]:
    """The tokens' numbers."""
    from logdiag.memory.embedding import shipped_tokens

    try:
        return shipped_tokens()
    except (OSError, ValueError) as problem:
        raise WeightsError("the tokens of the static model cannot be read: install logdiag again") from problem


def token_numbers(body: str) -> list[int]:
    """The numbers of the tokens whose meaning counts."""
    from logdiag.memory.embedding import words

    return [number for word in words(body[:_MEANT]) for number in _word_numbers(word)]


@lru_cache(maxsize=20_000)
def _word_numbers(word: str) -> tuple[int, ...]:
    """Lines share most of their words."""
    from logdiag.memory.embedding import pieces

    return tuple(pieces(word, _tokens()))


@lru_cache(maxsize=2)
def load_weights(folder: StrPath = WEIGHTS) -> Weights:
    """The weights in a folder. Raises WeightsError when they are missing, damaged, or made for other features."""
    path = os.path.join(folder, CARD)
    try:
        with open(path, encoding="utf-8") as file:
            card = json.load(file)
        numbers = Weights.__dataclass_fields__.keys() - {"trees", "failure", "table"}
        trees, failure = trees_from(card["trees"], len(FEATURES)), trees_from(card["failure"], INPUTS)
        with open(os.path.join(folder, TABLE), "rb") as packed:
            table = packed.read()
        weights = Weights(**{name: _tuples(card[name]) for name in numbers}, trees=trees, failure=failure, table=table)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise WeightsError(f"{path}: the suspects' weights cannot be read: install logdiag again") from problem
    if card.get("features") != list(FEATURES):
        raise WeightsError(f"{path}: features: made for other features: run make suspects")
    _check(weights, path)
    return weights


def _tuples(value: Any) -> Any:
    if not isinstance(value, list):
        return float(value)
    return tuple(map(_tuples if value and isinstance(value[0], list) else float, value))


def _check(weights: Weights, path: str) -> None:
    """Raises WeightsError where the parts do not fit each other or a number is none."""
    inputs = len(FEATURES) + weights.meanings
    fits = (
        len(weights.centres) == len(weights.spreads) == len(FEATURES)
        and len(weights.hidden) == len(weights.biases) == len(weights.out) > 0
        and all(len(unit) == inputs for unit in weights.hidden)
        and len(weights.meaning_scales) == weights.meanings
        and len(weights.table) == len(_tokens()) * (weights.meanings + 1)
        and all(map(math.isfinite, (*weights.out, *weights.biases, weights.bias, *chain.from_iterable(weights.hidden))))
        and weights.temperature > 0
        and all(spread > 0 for spread in weights.spreads)
    )
    if not fits:
        raise WeightsError(f"{path}: the suspects' weights do not fit each other: install logdiag again")
