"""What each feature is worth: fitted on labelled logs by `evals/ranks.py`, and shipped as a table."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache

from logdiag.errors import WeightsError

PATH = os.path.join(os.path.dirname(__file__), "weights.json")


def score(of: str, features: Mapping[str, float]) -> float:
    """The log-odds of something with these features; `of` is a table of weights: listing, word, witness or node."""
    weights = tables()[of]
    return sum(weights.get(name, 0.0) * value for name, value in features.items() if value)


@cache
def tables(path: str = PATH) -> Mapping[str, Mapping[str, float]]:
    """The weights by table and feature. Raises WeightsError when they are missing or broken."""
    try:
        with open(path, encoding="utf-8") as file:
            read: Mapping[str, Mapping[str, float]] = json.load(file)
    except (OSError, ValueError) as problem:
        raise WeightsError(f"{path}: the weights of ranks cannot be read: install logdiag again") from problem
    return read
