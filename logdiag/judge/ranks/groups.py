"""Finds a process's rank in the whole job by its numbers in groups: `PP1_TP3` is rank 7 where four share tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from logdiag.model import Line
from logdiag.patterns import pattern_of

# (Worker_DP1_PP0_TP3 pid=4711)   [2026-11-04 10:00:00 PP1 TP3]
_GROUP = pattern_of(r"(?<![A-Za-z])(DP|PP|TP|EP)[_-]?(\d{1,5})(?![\w-]*\.)")
# Data, pipeline, tensors: the last one is counted fastest.
_ORDER = ("DP", "PP", "TP")


class _Numbers(NamedTuple):
    """The numbers of a process in its groups of data, pipeline and tensors, 0 where a line does not say."""

    data: int
    pipeline: int
    tensors: int


def rank_over_groups(line: Line, lines: Iterable[Line]) -> int | None:
    """The rank of the process that printed a line in the whole job; None where the line names a single group, and where
    the processes that `lines` name are not as many in each group."""
    own = _numbers_in(line)
    if own is None:
        return None
    known: set[_Numbers] = {numbers for other in lines if (numbers := _numbers_in(other))} | {own}
    sizes: list[int] = [max(column) + 1 for column in zip(*known, strict=True)]
    # Where data are split over the processes that share tensors, the number among those counts already over all.
    if len({numbers.tensors for numbers in known}) == len(known):
        return own.tensors
    if known != {_Numbers(*numbers) for numbers in product(*map(range, sizes))}:
        return None
    return (own.data * sizes[1] + own.pipeline) * sizes[2] + own.tensors


def _numbers_in(line: Line) -> _Numbers | None:
    """A process's numbers by the head of a line; None where it names less than two groups, or counts experts, which are
    numbered over all."""
    named = dict(_GROUP.findall(line.text[: line.starts[-1]])) if line.rank is not None else {}
    return _Numbers(*(int(named.get(group, 0)) for group in _ORDER)) if _several(tuple(named)) else None


def _several(groups: Sequence[str]) -> bool:
    return len(groups) > 1 and "TP" in groups and "EP" not in groups
