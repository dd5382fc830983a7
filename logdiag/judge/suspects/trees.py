"""Small decision trees that correct the network's value of a line, from the same features.

A network weighs all features at once, a tree asks one after the other; where they differ, their sum is right more often
than either. `python -m evals.suspects` trains them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Tree: TypeAlias = "float | tuple[int, float, Tree, Tree]"
"""A leaf's value, or a question: which feature (its index in the table), up to which value, the tree where it is at
most that, the tree where it is more."""


def tree_from(value: Any) -> Tree:
    """A tree from nested lists as JSON has them. Raises TypeError or ValueError where it is none."""
    if not isinstance(value, list):
        return float(value)
    feature, threshold, low, high = value
    return int(feature), float(threshold), tree_from(low), tree_from(high)


def features_in(trees: Iterable[Tree]) -> set[int]:
    """Which features trees ask for."""
    found: set[int] = set()
    left = list(trees)
    while left:
        tree = left.pop()
        if isinstance(tree, tuple):
            feature, _, low, high = tree
            found.add(feature)
            left += (low, high)
    return found


def sum_of_trees(trees: Iterable[Tree], row: Sequence[float]) -> float:
    """The sum of the trees' values for a line's features."""
    total = 0.0
    for tree in trees:
        while isinstance(tree, tuple):
            feature, threshold, low, high = tree
            tree = low if row[feature] <= threshold else high
        total += tree
    return total
