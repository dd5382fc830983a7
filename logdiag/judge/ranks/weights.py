"""What each feature is worth: fitted on labelled logs by `evals/ranks.py`, and shipped as a table."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache

Features = Mapping[str, float]
PATH = os.path.join(os.path.dirname(__file__), "weights.json")


def score(of: str, features: Features) -> float:
    """The log-odds of what has these features; `of` says of which kind of thing."""
    weights = tables()[of]
    return sum(weights.get(name, 0.0) * value for name, value in features.items() if value)


@cache
def tables() -> Mapping[str, Mapping[str, float]]:
    """The weights by table and feature."""
    read: Mapping[str, Mapping[str, float]] = json.loads(_read())
    return read


def _read() -> str:
    with open(PATH, encoding="utf-8") as file:
        return file.read()
