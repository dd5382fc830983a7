"""Which ranks always come late, and how long a step takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

from logdiag.model import median

# A rank is late if it usually comes so many seconds after the others, and so many times later than they differ among
# themselves; so many moments are enough to know.
_LATE, _MUCH_LATER, _FEWEST = 0.5, 4.0, 3


def usually_late(moments: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """By rank, how many seconds it usually came after the middle one, for ranks with enough `moments` (each has the
    times of ranks)."""
    late: dict[int, list[float]] = defaultdict(list)
    for times in moments:
        middle = median(times.values())
        for rank, time in times.items():
            late[rank].append(time - middle)
    return {rank: median(seconds) for rank, seconds in late.items() if len(seconds) >= _FEWEST}


def are_late(ranks: Iterable[int], usually: Mapping[int, float]) -> bool:
    """Whether some ranks all came much later than the others, which differ by far less."""
    named = set(ranks)
    others = max((abs(seconds) for rank, seconds in usually.items() if rank not in named), default=0.0)
    return all(usually.get(rank, 0.0) > max(_LATE, _MUCH_LATER * others) for rank in named)


def usual_step(processes: Iterable[Iterable[tuple[int, float]]]) -> float | None:
    """Seconds from one step to the next, by the numbers and times of each process's steps; None if not known."""
    spans = [
        (time - before) / (step - last)
        for steps in processes
        for (last, before), (step, time) in pairwise(sorted(set(steps)))
        if step > last and time >= before
    ]
    return median(spans) if spans else None
