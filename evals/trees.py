"""Trains the small decision trees that stand beside the network of the suspects (see `logdiag.judge.suspects.trees`).

`python -m evals.suspects` calls it: gradient boosting (Friedman 2001) on the features, where the candidates of a log
share one whole (softmax), and the root is to have most of it. Trees that judge each line alone put the root first in 2
of 100 failures less, by authors left out of the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_nested", "fitted_trees", "slope_of_shares", "values_by_trees"]

_TREES, _LEAVES, _RATE, _PULL, _LEAST_LINES = 150, 8, 0.1, 5.0, 40
# So many other lines of a log are learnt.
_OTHERS = 60
# The least curvature of the loss that a line counts with, and a leaf needs.
_LEAST_CURVE, _LEAST_CURVE_OF_A_LEAF = 1e-4, 1e-3
_BINS = 256
Floats = NDArray[np.floating[Any]]


def fitted_trees(logs: Sequence[tuple[Floats, Floats]]) -> list[Any]:
    """The trees, from the features of each log's candidates (candidates, features), and how good a root each is
    (candidates,): 1 for the labelled one, 0 for none."""
    # scikit-learn grows trees for losses of its own alone in public; its grower takes any.
    from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
    from sklearn.ensemble._hist_gradient_boosting.grower import TreeGrower

    features, wanted, starts = _chosen(logs)
    bins = _BinMapper(n_bins=_BINS, random_state=0)
    binned = np.asfortranarray(bins.fit_transform(features))
    values, trees = np.zeros(len(wanted)), []
    for _ in range(_TREES):
        shares, slopes = slope_of_shares(values, wanted, starts)
        grower = TreeGrower(
            binned,
            slopes.astype(np.float32),
            np.maximum(shares * (1 - shares), _LEAST_CURVE).astype(np.float32),
            max_leaf_nodes=_LEAVES,
            min_samples_leaf=_LEAST_LINES,
            min_hessian_to_split=_LEAST_CURVE_OF_A_LEAF,
            l2_regularization=_PULL,
            shrinkage=_RATE,
            n_bins=_BINS,
            n_bins_non_missing=bins.n_bins_non_missing_,
        )
        grower.grow()
        tree = grower.make_predictor(binning_thresholds=bins.bin_thresholds_)
        values += tree.predict_binned(binned, bins.missing_values_bin_idx_, n_threads=1)
        trees.append(tree)
    return trees


def _chosen(logs: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """The roots of all logs and some of their other lines: features, how good a root each is, where each log starts."""
    rng = np.random.default_rng(0)
    rows, roots = [], []
    for features, wanted in logs:
        other = np.flatnonzero(wanted == 0)
        chosen = np.concatenate([np.flatnonzero(wanted), rng.permutation(other)[:_OTHERS]])
        rows.append(features[chosen])
        roots.append(wanted[chosen])
    starts = np.cumsum([0, *map(len, roots[:-1])])
    return np.vstack(rows).astype(np.float64), np.concatenate(roots), starts


def slope_of_shares(values: Floats, wanted: Floats, starts: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Each candidate's share of its log, and the slope of minus the logarithm of the accepted ones' share together.
    The logs' candidates follow each other; `starts` says where each log's begin."""
    lengths = np.diff([*starts, len(values)])
    powers = np.exp(values - np.repeat(np.maximum.reduceat(values, starts), lengths))
    shares = powers / np.repeat(np.add.reduceat(powers, starts), lengths)
    accepted = shares * wanted
    slopes: Floats = shares - accepted / (np.repeat(np.add.reduceat(accepted, starts), lengths) + 1e-12)
    return shares, slopes


def values_by_trees(trees: Sequence[Any], features: Floats) -> Floats:
    """What the trees add to the value of each candidate."""
    none = np.zeros((0, 8), np.uint32), np.zeros(0, np.uint32)  # no feature is a category
    rows = features.astype(np.float64)
    values: Floats = np.sum([tree.predict(rows, *none, n_threads=1) for tree in trees], axis=0)
    return values


def as_nested(trees: Sequence[Any], centres: Floats, spreads: Floats) -> list[Any]:
    """The trees as nested lists that ask for features as they are before scaling."""
    return [_nested(tree.nodes, 0, centres, spreads) for tree in trees]


def _nested(nodes: Any, at: int, centres: Floats, spreads: Floats) -> Any:
    node = nodes[at]
    if node["is_leaf"]:
        return float(node["value"])
    feature = int(node["feature_idx"])
    threshold = float(node["num_threshold"] * spreads[feature] + centres[feature])
    low, high = (_nested(nodes, node[side], centres, spreads) for side in ("left", "right"))
    return [feature, threshold, low, high]
