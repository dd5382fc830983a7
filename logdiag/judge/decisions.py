"""Named decisions: a question is answered by the first of an ordered list of small functions that applies.

Each function's name is the decision's name, and the first line of its docstring is what it claims. So every answer can
say which decision made it (`logdiag explain`), and a decision can be switched off to see what it is worth
(`python -m evals.ablation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from logdiag.model import Decision, Line

T = TypeVar("T")


def first_that_applies(
    decisions: Sequence[Callable[..., T | None]], *facts: object, without: frozenset[str] = frozenset()
) -> tuple[Callable[..., T | None], T] | None:
    """The first decision that gives an answer, with that answer; None where none applies. Those named in `without` are
    switched off."""
    for decide in decisions:
        if decide.__name__ in without:
            continue
        answer = decide(*facts)
        if answer is not None:
            return decide, answer
    return None


def decision(decide: Callable[..., object], about: Line | None, outcome: str) -> Decision:
    """What a function decided of a line, with the first paragraph of its docstring as the reason why."""
    because = " ".join((decide.__doc__ or "").split("\n\n")[0].split()).rstrip(".")
    return Decision(decide.__name__, about, outcome, because)
