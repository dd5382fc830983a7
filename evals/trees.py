"""Trains the small decision trees that correct the network of the suspects, and those that tell whether a log shows a
failure (see `logdiag.judge.suspects.failure`).

`python -m evals.suspects` calls it: gradient boosting (Friedman 2001) on the features of root lines and of some other
candidates of each log, and on what is told of each log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logdiag.judge.suspects.failure import INPUTS

# What a value of the trees counts beside one of the network; found on authors left out of the training.
_WEIGHT = 0.8

_TREES, _LEAVES, _RATE, _PULL, _LEAST_LINES = 150, 8, 0.1, 5.0, 40
# So many other lines of a log are learnt, and the roots of a log count as much as so many lines.
_OTHERS, _ROOTS = 60, 10.0
# What a log without a failure counts where one with a failure counts 1: there are fewer.
_TREES_OF_FAILURE, _HEALTHY = 150, 3.0
Floats = NDArray[np.floating[Any]]


def fitted_trees(logs: Sequence[tuple[Floats, Floats]]) -> Any:
    """The model, from the features of each log's candidates (candidates, features), and how good a root each is
    (candidates,): 1 for the labelled one, 0 for none."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    rows, roots, counts = [], [], []
    for features, wanted in logs:
        root, other = np.flatnonzero(wanted == 1), np.flatnonzero(wanted == 0)
        chosen = np.concatenate([root, rng.choice(other, min(len(other), _OTHERS), replace=False)])
        rows.append(features[chosen])
        roots.append(wanted[chosen] == 1)
        counts.append(np.where(roots[-1], _ROOTS / max(len(root), 1), 1.0))
    model = HistGradientBoostingClassifier(
        max_iter=_TREES,
        max_leaf_nodes=_LEAVES,
        learning_rate=_RATE,
        l2_regularization=_PULL,
        min_samples_leaf=_LEAST_LINES,
        random_state=0,
    )
    return model.fit(np.vstack(rows), np.concatenate(roots), sample_weight=np.concatenate(counts))


def values_by_trees(model: Any, features: Floats) -> Floats:
    """What the trees add to the value of each candidate."""
    values: Floats = _WEIGHT * model.decision_function(features)
    return values


def fitted_failure(inputs: Floats, failed: Sequence[bool]) -> list[Any]:
    """The trees that tell whether a log shows a failure, as nested lists, what they start from as the first, from
    `inputs` (logs, INPUTS)."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rising = np.zeros(INPUTS, int)
    rising[[0, -1]] = 1
    model = HistGradientBoostingClassifier(
        max_iter=_TREES_OF_FAILURE,
        max_leaf_nodes=6,
        learning_rate=0.06,
        l2_regularization=_PULL,
        min_samples_leaf=20,
        monotonic_cst=rising,
        random_state=0,
    )
    model.fit(inputs, failed, sample_weight=np.where(failed, 1.0, _HEALTHY))
    trees, base = as_nested(model, np.zeros(INPUTS), np.ones(INPUTS), weight=1.0)
    return [base, *trees]


def as_nested(model: Any, centres: Floats, spreads: Floats, weight: float = _WEIGHT) -> tuple[list[Any], float]:
    """The trees as nested lists that ask for features as they are before scaling, and what they start from."""

    def nested(nodes: Any, at: int) -> Any:
        node = nodes[at]
        if node["is_leaf"]:
            return weight * float(node["value"])
        feature = int(node["feature_idx"])
        threshold = float(node["num_threshold"] * spreads[feature] + centres[feature])
        return [feature, threshold, *(nested(nodes, node[side]) for side in ("left", "right"))]

    # scikit-learn has no public way to read them.
    trees = [nested(stage[0].nodes, 0) for stage in model._predictors]
    return trees, weight * float(np.ravel(model._baseline_prediction)[0])
