"""What ranks say of their collectives: of each rank and process group the latest words, while the log is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from logdiag.model import Line

__all__ = ["Call", "Calls"]

# Of one rank in one group, and of all of one log.
_MOST_OF_A_RANK, _MOST_SPEAKERS = 64, 1 << 16
# These facts say who speaks, and of which group.
_WHO = ("node", "pid", "comm", "rank", "group", "pg", "group_rank")


class Call(NamedTuple):
    """What one line tells of a rank's collectives: `facts` by the names in `rules/context/collective-calls.yaml`."""

    line: Line
    facts: dict[str, str]


class Calls:
    """The latest calls of one log by who speaks. `parsed` gives the line at a position of the log, with its number and
    its bytes; it is slow, and asked only for what is kept."""

    def __init__(self, parsed: Callable[[int, int, bytes], Line]) -> None:
        self._parsed = parsed
        self._latest: dict[tuple[str | None, ...], deque[tuple[int, int, bytes, dict[str, str]]]] = {}

    def add(self, position: int, number: int, text: bytes, matches: Sequence[dict[str, str]]) -> None:
        """Remembers what the patterns found on a line."""
        facts = {name: value for found in matches for name, value in found.items() if value}
        # Whoever names neither its process nor its rank is told by what stands before the line.
        spoke = None if "pid" in facts or "rank" in facts else self._parsed(position, number, text).rank
        who = (str(spoke), *map(facts.get, _WHO), *facts)
        if who in self._latest or len(self._latest) < _MOST_SPEAKERS:
            self._latest.setdefault(who, deque(maxlen=_MOST_OF_A_RANK)).append((position, number, text, facts))

    def __iter__(self) -> Iterator[Call]:
        """In the order of the log."""
        kept = (call for calls in self._latest.values() for call in calls)
        for position, number, text, facts in sorted(kept, key=lambda call: call[0]):
            yield Call(self._parsed(position, number, text), facts)
