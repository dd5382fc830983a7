"""The chance that a log shows a failure at all: how suspicious its lines are together, and how it ends.

Small decision trees weigh the numbers of `inputs_of`, the last of which comes from a model of the last lines' words.
`python -m evals.suspects` trains both. Trees also correct the network's value of a line (`ranking`): a network weighs
all features at once, a tree asks one after the other; where they differ, their sum is right more often than either.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

from logdiag.judge.suspects.line_features import NAMED_FAULT, View
from logdiag.judge.suspects.wording import end_by_wording

Tree: TypeAlias = "float | tuple[int, float, Tree, Tree]"
"""A leaf's value, or a question: which feature (its index in the table), up to which value, the tree where it is at
most that, the tree where it is more."""
INPUTS = 24
"""How many numbers describe a log. Higher values of the first, its suspects', and the last, its words', never make a
failure less likely."""
# So many last lines of a file tell how it ended, the last few above all.
_TAIL, _LAST, _NEAR = 16, 5, 8
_LONGEST = 160
_LEVELS = ("untold", "debug", "information", "warning", "error", "fatal")
_WARNING, _ERROR = 3, 4
# Odds beyond these are as good as sure.
_MOST_ODDS = 12.0


def trees_from(values: Any, inputs: int) -> tuple[Tree, ...]:
    """Trees from nested lists as JSON has them, over so many inputs. Raises TypeError or ValueError where one is
    none."""

    def tree(value: Any) -> Tree:
        if not isinstance(value, list):
            return float(value)
        feature, threshold, low, high = value
        if feature not in range(inputs):
            raise ValueError(f"a tree asks for feature {feature} of {inputs}")
        return feature, float(threshold), tree(low), tree(high)

    return tuple(map(tree, values))


def sum_of_trees(trees: Iterable[Tree], row: Sequence[float]) -> float:
    """The sum of the trees' values for a row of inputs."""
    total = 0.0
    for tree in trees:
        while isinstance(tree, tuple):
            feature, threshold, low, high = tree
            tree = low if row[feature] <= threshold else high
        total += tree
    return total


def chance_of(inputs: Sequence[float], trees: Iterable[Tree]) -> float:
    """The chance of a failure, 0 to 1, by the numbers of `inputs_of`."""
    odds = min(max(sum_of_trees(trees, inputs), -_MOST_ODDS), _MOST_ODDS)
    return 1.0 / (1.0 + math.exp(-odds))


def inputs_of(values: Collection[float], standing: Sequence[float], words: float) -> tuple[float, ...]:
    """A log as INPUTS numbers: of the ranking's `values` of its candidates, its `standing_of`, and `words`, which
    `end_by_wording` makes of its `tails_of`."""
    first, *others = sorted(values, reverse=True)
    return odds_of(values), first - (others or [first])[0], float(len(values)), *standing, words


def standing_of(view: View) -> tuple[float, ...]:
    """How a log stands at its end, whatever its words."""
    last, after_work = len(view.lines) - 1, view.last_work + 1
    levels, counts = view.levels, [view.counts[shape] for shape in view.shapes[-_LAST:]]
    loud = max(levels[-6:])
    return (
        math.log1p(len(view.lines)),
        math.log1p(view.total),
        # What came after the last of the work.
        (len(view.lines) - view.last_work) / len(view.lines),
        math.log1p(max(last - view.last_work, 0)),
        math.log1p(view.rare.between(after_work)),
        math.log1p(sum(level >= _ERROR for level in levels[after_work:])),
        math.log1p(sum(level == _WARNING for level in levels[after_work:])),
        # Speakers: in all, and at the end.
        math.log1p(len(view.indices_of_speaker)),
        float(len(set(view.speakers[-_NEAR:]))),
        # The last lines: statuses, levels, regular and single ones.
        float(view.clean_ends > 0),
        float(view.bad_ends > 0),
        float(loud >= _ERROR),
        float(loud == _WARNING),
        float(max(levels[-3:])),
        float(levels[-1]),
        float(view.regular.between(len(view.lines) - _LAST)),
        float(sum(count <= 1 for count in counts)),
        float(view.regular[-1]),
        math.log1p(counts[-1]),
        math.log1p(view.hits(NAMED_FAULT).between(0)),
    )


def words_of_end(view: View) -> float:
    """How much the last lines of the file that ends worst are a failure's. Raises WeightsError."""
    return max(map(end_by_wording, tails_of(view)))


def tails_of(view: View) -> list[list[str]]:
    """The last lines of each file, without their heads, after words for their level and for regular output."""
    indices: dict[int, list[int]] = {}
    for index, line in enumerate(view.lines):
        indices.setdefault(line.stream, []).append(index)
    return [[_labelled(view, index) for index in indices_of_file[-_TAIL:]] for indices_of_file in indices.values()]


def _labelled(view: View, index: int) -> str:
    regular = "regular " if view.regular[index] else ""
    return f"{_LEVELS[view.levels[index]]} {regular}{view.bodies[index][:_LONGEST]}"


def odds_of(values: Collection[float]) -> float:
    """How suspicious the candidates of a log are together, within bounds."""
    most = max(values)
    together = most + math.log(sum(math.exp(value - most) for value in values))
    return min(max(together, -_MOST_ODDS), _MOST_ODDS)
