"""Trains the model that names the reason by a line's words: see `logdiag.judge.wording`.

`python -m evals.suspects` calls it. It learns from the root lines of development cases, from the lines on which the
shipped rules fire, and from messages that authors who saw no log of the cases wrote for each reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logdiag.evaluation.cases import Case
from logdiag.judge.line_features import body_of
from logdiag.judge.wording import CARD, TABLE, term_key, terms_of
from logdiag.model import Reason
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook

__all__ = ["train_reasons", "wordings"]

WORDINGS = Path("evals/wordings.txt")
# A term that fewer messages have says nothing.
_LEAST_MESSAGES = 3
# Makes chances of the model's sums; fitted on one author's logs after the other, each left out of the training.
_SHARPNESS = 10.0
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The terms with their rarities (terms,), and the reasons with their biases (reasons,) and what the terms speak for
    (reasons, terms)."""

    terms: list[str]
    rarities: Floats
    reasons: list[str]
    weights: Floats
    biases: Floats


def wordings() -> Iterator[tuple[Reason, str]]:
    """What software that nobody else has may say of each reason: WORDINGS."""
    reason = Reason.OTHERS
    for line in WORDINGS.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            reason = Reason(line[3:])
        elif line:
            yield reason, line


def train_reasons(roots: Iterable[tuple[Case, str]], folder: Path) -> None:
    """Fits the model on cases with their root lines and on everything else there is, and writes it into a folder."""
    told = [(line, case.reasons[0].value) for case, line in roots]
    told += [(line, reason.value) for reason, line in wordings()]
    for rule in RuleBook.load((), proof=True).rules:
        if rule.role in ("cause", "symptom"):
            told += [(fires.rpartition("\n")[2], rule.reason) for fires in rule.fires]
    _write(_fit([body_of(parse_line(line)) for line, _ in told], [reason for _, reason in told]), folder)


def _fit(bodies: Sequence[str], reasons: Sequence[str]) -> _Fitted:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import RidgeClassifier

    counted = TfidfVectorizer(analyzer=terms_of, min_df=_LEAST_MESSAGES)
    model = RidgeClassifier(class_weight="balanced").fit(counted.fit_transform(bodies), reasons)
    terms = list(counted.get_feature_names_out())
    return _Fitted(terms, counted.idf_, list(model.classes_), model.coef_, model.intercept_)


def _write(fitted: _Fitted, folder: Path) -> None:
    """Writes the card, and the table in the order of the terms' keys."""
    keys = np.array([term_key(term) for term in fitted.terms], "<u4")
    order = np.argsort(keys)
    step = float(np.abs(fitted.weights).max()) / 127
    rarities = np.rint(fitted.rarities / fitted.rarities.max() * 255).astype(np.uint8).view(np.int8)
    rows = np.hstack([rarities[:, None], np.rint(fitted.weights.T / step).astype(np.int8)])
    (folder / TABLE).write_bytes(keys[order].tobytes() + rows[order].tobytes())
    card = {
        "reasons": fitted.reasons,
        "biases": [float(f"{value:.5g}") for value in fitted.biases],
        "step": float(f"{step:.5g}"),
        "sharpness": _SHARPNESS,
    }
    (folder / CARD).write_text(json.dumps(card, separators=(",", ":")) + "\n", encoding="utf-8")
