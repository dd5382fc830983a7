"""The number of the step that a line tells of."""

from __future__ import annotations

import re
from functools import lru_cache

from logdiag.model import Line, with_nines
from logdiag.patterns import pattern_of

# step: 12 loss ...   iteration  100/  500 |   'global_step': 7   Step [12/500]   45%|####  | 198/500 [00:10<00:12
_STEP = pattern_of(
    r"(?i)(?<![a-z0-9])(?:global[_ ]?)?(?:step|iter|iteration|it)s?\b[\"']?\s{0,10}[:=\[(#]?\s{0,10}(\d{1,9})\b"
    r"|\|\s{0,10}(\d{1,9})/\d{1,9} \["
)


def step_number(line: Line) -> int | None:
    """The number of the step that a line tells of; None where it tells none."""
    told = number_told(_STEP, line)
    return int(told) if told else None


def number_told(pattern: re.Pattern[str], line: Line) -> str:
    """What the last group of a pattern finds on a line, empty for nothing. The pattern asks for no certain digit: where
    it finds something is worked out once for all lines that differ in digits only."""
    place = _place_of(pattern, with_nines(line.text))
    return line.text[slice(*place)] if place else ""


@lru_cache(maxsize=1 << 12)
def _place_of(pattern: re.Pattern[str], nines: bytes) -> tuple[int, int] | None:
    found = pattern.search(nines.decode("utf-8", "surrogatepass"))
    return found.span(found.lastindex or 0) if found else None
