"""Trains the models of words: which reason a line tells, whether its words are a cause's, and whether a log's last
lines are a failure's (see `logdiag.judge.suspects.wording`).

`python -m evals.suspects` calls it. They learn from the root lines of development cases, from the lines on which the
shipped rules fire, and from messages that authors who saw no log of the cases wrote for each reason; the second one
also from lines of the cases that are no root, and from messages that were written as none. The third learns from the
cases' last lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logdiag.judge.suspects.line_features import body_of
from logdiag.judge.suspects.wording import CAUSES, ENDS, REASONS, term_key, terms_of, terms_of_end, terms_of_reason
from logdiag.model import Reason
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook

WORDINGS = Path("evals/wordings.txt")
# What peers, launchers and healthy jobs say, by kind; none of it is a cause.
NO_CAUSES = Path("evals/no_causes.txt")
# A term that fewer lines have says nothing.
_LEAST_LINES = {REASONS: 3, CAUSES: 4, ENDS: 4}
# Makes chances of the model's sums; fitted on one author's logs after the other, each left out of the training.
_SHARPNESS = 5.0
# What a root line, a written message or a rule's example, and another line of a log count.
_ROOT, _MESSAGE, _OTHER = 2.0, 0.5, 1.0
# What a root line counts for its reason, where a message counts 1: on authors left out of the training right for 85.1 %
# of root lines, 83.6 % where both count the same.
_LOGGED = 4.0
_PULL, _PULL_OF_ENDS = 2.0, 3.0
# What a log without a failure counts where one with a failure counts 1: there are fewer.
_HEALTHY = 4.0
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model: its name, what counts the terms of lines, and what was fitted on them (both of scikit-learn)."""

    name: str
    counted: Any
    fitted: Any

    def values(self, bodies: Sequence[Any]) -> Floats:
        """What a model of one answer makes of lines, or of the last lines of logs (lines or logs,)."""
        values: Floats = self.fitted.predict(self.counted.transform(bodies)).astype(np.float32)
        return values


def wordings() -> Iterator[tuple[Reason, str]]:
    """What software that nobody else has may say of each reason: WORDINGS."""
    reason = Reason.OTHERS
    for line in WORDINGS.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            reason = Reason(line[3:])
        elif line:
            yield reason, line


def _messages(*roles: str) -> Iterator[tuple[str, str]]:
    """What is said, and its reason: the wordings, and the lines on which shipped rules of these roles fire."""
    for reason, line in wordings():
        yield body_of(parse_line(line)), reason.value
    for rule in RuleBook.load(()).rules:
        if rule.role in roles:
            yield from ((body_of(parse_line(fires.rpartition("\n")[2])), rule.reason) for fires in rule.fires)


def reasons_fitted(roots: Sequence[tuple[str, str]]) -> Fitted:
    """The model of reasons, from root lines (what they say, and the reason) and all messages."""
    from sklearn.linear_model import RidgeClassifier

    messages = list(_messages("cause", "symptom"))
    bodies, reasons = zip(*roots, *messages, strict=True)
    counts = [_LOGGED] * len(roots) + [1.0] * len(messages)
    return _fitted(REASONS, RidgeClassifier(class_weight="balanced"), bodies, reasons, counts, terms_of_reason)


def causes_fitted(roots: Sequence[str], others: Sequence[str]) -> Fitted:
    """The model of causes, from what root lines and other lines say, and the messages of causes."""
    from sklearn.linear_model import Ridge

    messages = [body for body, _ in _messages("cause")]
    none = [line for line in NO_CAUSES.read_text(encoding="utf-8").splitlines() if line and not line.startswith("## ")]
    bodies = [*roots, *messages, *others, *none]
    counts = [_ROOT] * len(roots) + [_MESSAGE] * len(messages) + [_OTHER] * len(others) + [_MESSAGE] * len(none)
    wanted = [1.0] * (len(roots) + len(messages)) + [-1.0] * (len(others) + len(none))
    return _fitted(CAUSES, Ridge(alpha=_PULL), bodies, wanted, counts)


def ends_fitted(tails: Sequence[Sequence[str]], failed: Sequence[bool]) -> Fitted:
    """The model of ends, from the last lines of logs, as `tails_of` gives them; unknown words say nothing."""
    from sklearn.linear_model import Ridge

    wanted, counts = [1.0 if one else -1.0 for one in failed], [1.0 if one else _HEALTHY for one in failed]
    return _fitted(ENDS, Ridge(alpha=_PULL_OF_ENDS, fit_intercept=False), tails, wanted, counts, terms_of_end)


def _fitted(
    name: str,
    model: Any,
    bodies: Sequence[Any],
    wanted: Sequence[object],
    counts: Sequence[float],
    terms: Callable[[Any], set[str]] = terms_of,
) -> Fitted:
    from sklearn.feature_extraction.text import TfidfVectorizer

    counted = TfidfVectorizer(analyzer=terms, min_df=_LEAST_LINES[name])
    model.fit(counted.fit_transform(bodies), wanted, sample_weight=counts)
    return Fitted(name, counted, model)


def write(model: Fitted, folder: Path) -> None:
    """Writes a model's card, and its table in the order of the terms' keys."""
    weights, biases = np.atleast_2d(model.fitted.coef_), np.atleast_1d(model.fitted.intercept_)
    keys = np.array([term_key(term) for term in model.counted.get_feature_names_out()], "<u4")
    order = np.argsort(keys)
    step = float(np.abs(weights).max()) / 127
    rarities = np.rint(model.counted.idf_ / model.counted.idf_.max() * 255).astype(np.uint8).view(np.int8)
    rows = np.hstack([rarities[:, None], np.rint(weights.T / step).astype(np.int8)])
    (folder / f"{model.name}.words").write_bytes(keys[order].tobytes() + rows[order].tobytes())
    card = {
        "answers": list(getattr(model.fitted, "classes_", [model.name])),
        "biases": [float(f"{value:.5g}") for value in biases],
        "step": float(f"{step:.5g}"),
        "sharpness": _SHARPNESS,
    }
    (folder / f"{model.name}.json").write_text(json.dumps(card, separators=(",", ":")) + "\n", encoding="utf-8")
