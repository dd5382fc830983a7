"""Several answers to one question: the one that most agree on, less sure the more disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from logdiag.agent.opinion import Opinion

__all__ = ["UNITED", "vote"]

UNITED = 2 / 3
"""From this share of the samples on, those that agree are at least as sure as one that is asked alone."""


def vote(opinions: Sequence[Opinion], asked: int) -> Opinion | None:
    """The opinion with the reason that most of them give, and of those the root line that most name.

    `asked` is the number of samples; those without an opinion count as disagreeing. Its confidence is the mean of
    those who agree; where fewer than two thirds of the samples do, times their share. None without opinions, and where
    two reasons have as many votes.
    """
    ranked = Counter(opinion.reason for opinion in opinions).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    reason, agreed = ranked[0]
    agreeing = [opinion for opinion in opinions if opinion.reason is reason]
    roots = Counter(_root(opinion) for opinion in agreeing)
    best = max(agreeing, key=lambda opinion: (roots[_root(opinion)], opinion.confidence))
    mean = sum(opinion.confidence for opinion in agreeing) / agreed
    share = agreed / asked
    return replace(best, confidence=round(mean if share >= UNITED else mean * share, 4), votes=asked, agreed=agreed)


def _root(opinion: Opinion) -> tuple[int, int] | None:
    return (opinion.root.stream, opinion.root.number) if opinion.root else None
