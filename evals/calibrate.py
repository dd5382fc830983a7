"""Fits the confidence: how often an answer with such support was right, as a few weights in `rules/confidence.yaml`.

    python -m evals.calibrate                             # fits the weights again from evals/results/supports.json
    python -m evals.calibrate --collect NAME CASES...     # counts answers to labelled cases first, under this name
    python -m evals.calibrate --collect NAME --resting-on SUPPORT CASES...    # only those that rest on this

How well the weights in force do, `logdiag eval` says on cases not used for them: calibration error, confident errors,
abstentions.

Count answers only at first contact, before any rule was made with sight of the logs: those to known logs are nearly
always right and would teach that nothing makes an answer doubtful. The counts hold no text of any log: what an answer
rested on, how many such answers there were, how many were right.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import load_cases
from logdiag.evaluation.run import evaluate
from logdiag.evaluation.scoring import Row
from logdiag.judge.confidence import confidence_of
from logdiag.model import Support

COUNTS = Path("evals/results/supports.json")
WEIGHTS = Path("rules/confidence.yaml")
# The strength of the pull of a weight that few answers speak for towards 0, as the inverse of its variance.
_RIDGE = 0.1
_HEAD = """\
# What an answer's support is worth: its confidence is the logistic function of the summed weights.
# Fitted by `make calibrate` on the counts in evals/results/supports.json; a team may put its own file of this name into
# its rule folder. `kind` of support: see `Support` in logdiag/model/__init__.py; `agent` and `trial` are guesses.
weights:
"""


def counts_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """How many answers had each support, and how many of them named the right reason."""
    answers = Counter(row.supports for row in rows)
    right = Counter(row.supports for row in rows if row.reason_right)
    return [{"supports": list(kind), "answers": answers[kind], "right": right[kind]} for kind in sorted(answers)]


def fit(counts: Sequence[dict[str, Any]]) -> dict[Support, float]:
    """The weights that make the counted answers most likely (logistic regression without an intercept: the kind of
    the root is one); of support that no answer had, none."""
    from sklearn.linear_model import LogisticRegression

    counted = {name for row in counts for name in row["supports"]}
    kinds = [kind for kind in Support if kind.value in counted]
    table, outcome, weight = [], [], []
    for row in counts:
        features = [row["supports"].count(kind.value) for kind in kinds]
        for value, many in ((1, row["right"]), (0, row["answers"] - row["right"])):
            table.append(features)
            outcome.append(value)
            weight.append(many)
    model = LogisticRegression(C=1 / _RIDGE, fit_intercept=False, max_iter=1000)
    model.fit(table, outcome, sample_weight=weight)
    return {kind: round(float(value), 2) for kind, value in zip(kinds, model.coef_[0], strict=True)}


def weights_text(weights: dict[Support, float]) -> str:
    """The file of the weights."""
    return _HEAD + "".join(f"  {kind.value}: {weight}\n" for kind, weight in weights.items())


def _collect(name: str, cases: Sequence[str], resting_on: str | None) -> None:
    rows = [result.row for result in evaluate(load_cases(cases).cases)]
    rows = [row for row in rows if resting_on is None or resting_on in row.supports]
    document = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.exists() else {"sets": {}}
    document["sets"][name] = counts_of(rows)
    COUNTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: {len(rows)} answers, {sum(row.reason_right for row in rows)} right")


def _fit() -> None:
    sets = json.loads(COUNTS.read_text(encoding="utf-8"))["sets"]
    before = yaml.safe_load(WEIGHTS.read_text(encoding="utf-8"))["weights"]
    fitted = fit([row for rows in sets.values() for row in rows])
    # What no answer rested on keeps the weight that a person gave it.
    weights = {kind: fitted.get(kind, before.get(kind.value, 0.0)) for kind in Support}
    WEIGHTS.write_text(weights_text(weights), encoding="utf-8")
    for kind, weight in weights.items():
        print(f"{kind.value:18} {weight:6.2f}  alone {confidence_of([kind], weights):.2f}")


def main() -> int:
    """Counts, fits or checks."""
    parser = argparse.ArgumentParser(prog="evals.calibrate", description="Fits the confidence.")
    parser.add_argument("--collect", metavar="NAME")
    parser.add_argument("--resting-on", metavar="SUPPORT", choices=[kind.value for kind in Support])
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    try:
        if arguments.collect:
            _collect(arguments.collect, arguments.cases, arguments.resting_on)
        _fit()
    except LogdiagError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
