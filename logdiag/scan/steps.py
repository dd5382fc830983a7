"""Reads the number of a step off a line."""

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
    """The number of the step that a line reports; None where it reports none."""
    number = number_told(_STEP, line)
    return int(number) if number else None


def number_told(pattern: re.Pattern[str], line: Line) -> str:
    """The text that the last group of a pattern matches on a line, empty for no match. The pattern must ask for no
    certain digit: it is searched for once for all lines that differ in digits only."""
    span = _span_of(pattern, with_nines(line.text))
    return line.text[slice(*span)] if span else ""


@lru_cache(maxsize=1 << 12)
def _span_of(pattern: re.Pattern[str], nines: bytes) -> tuple[int, int] | None:
    match = pattern.search(nines.decode("utf-8", "surrogatepass"))
    return match.span(match.lastindex or 0) if match else None
