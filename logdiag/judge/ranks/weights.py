"""What each feature is worth: fitted on labelled logs by `evals/ranks.py`, and shipped as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

Features = Mapping[str, float]
PATH = Path(__file__).with_name("weights.json")


def score(of: str, features: Features) -> float:
    """The log-odds of what has these features; `of` says of which kind of thing."""
    weights = tables()[of]
    return sum(weights.get(name, 0.0) * value for name, value in features.items() if value)


@cache
def tables() -> Mapping[str, Mapping[str, float]]:
    """The weights by table and feature."""
    read: Mapping[str, Mapping[str, float]] = json.loads(PATH.read_text(encoding="utf-8"))
    return read
