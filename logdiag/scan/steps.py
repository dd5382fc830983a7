"""The number of the step that a line tells of."""

from __future__ import annotations

import re

from logdiag.model import Line

# step: 12 loss ...   iteration  100/  500 |   'global_step': 7   Step [12/500]   45%|####  | 198/500 [00:10<00:12
_STEP = re.compile(
    r"(?i)(?<![a-z0-9])(?:global[_ ]?)?(?:step|iter|iteration|it)s?\b[\"']?\s{0,10}[:=\[(#]?\s{0,10}(\d{1,9})\b"
    r"|\|\s{0,10}(\d{1,9})/\d{1,9} \["
)


def step_number(line: Line) -> int | None:
    """The number of the step that a line tells of; None where it tells none."""
    found = _STEP.search(line.text)
    return int(found[1] or found[2]) if found else None
