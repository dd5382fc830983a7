"""How a log ends, whatever its words: the last status that is printed, and the level of its last words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from logdiag.judge.timeline import Timeline
from logdiag.model import CALM, TROUBLE, Line

__all__ = ["Ending", "ending_of"]

# So many lines at the end of a log tell how it ended.
_LAST_LINES = 8
_LAST_WORDS = 3
_FATAL = frozenset({"CRITICAL", "FATAL"})


class Ending(NamedTuple):
    """The end of a case. `bad_status` and `good_status` are the last lines that name a status, or None; `last_trouble`
    is a line of trouble among the very last, with nothing calm after it unless it is fatal. Any file of the case
    counts."""

    bad_status: Line | None = None
    good_status: Line | None = None
    last_trouble: Line | None = None


def ending_of(timeline: Timeline) -> Ending:
    """How each file of a case ends, taken together."""
    endings = [_of_file(lines[-_LAST_LINES:], timeline) for lines in timeline.printed.values()]
    return Ending(
        next((ending.bad_status for ending in endings if ending.bad_status), None),
        next((ending.good_status for ending in endings if ending.good_status), None),
        next((ending.last_trouble for ending in endings if ending.last_trouble), None),
    )


def _of_file(lines: Sequence[Line], timeline: Timeline) -> Ending:
    kinds = timeline.kinds
    named = [line for line in lines if kinds.is_a("last-status-bad", line) or kinds.is_a("last-status-good", line)]
    status = named[-1] if named else None
    bad = status is not None and kinds.is_a("last-status-bad", status)
    return Ending(
        status if bad else None,
        status if status is not None and not bad else None,
        _trouble(lines[-_LAST_WORDS:], timeline),
    )


def _trouble(lines: Sequence[Line], timeline: Timeline) -> Line | None:
    """The last line of trouble among the last words, if no calm line follows it; after a fatal one a process may still
    tidy up."""
    calm = False
    for line in reversed(lines):
        if line.level in _FATAL or (not calm and (line.level in TROUBLE or timeline.kinds.is_a("loud-word", line))):
            return line
        calm = calm or line.level in CALM or line.level == "WARNING"
    return None
