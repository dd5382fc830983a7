"""Where a number stands in a line is worked out once for all lines that differ in digits only."""

from __future__ import annotations

import random
import re

import pytest

from logdiag.judge.progress import series
from logdiag.model import Line
from logdiag.scan import steps

LINES = (
    "step 198/500 loss 2.31 grad_norm 0.731 lr 1e-4 48,211 tokens/s",
    "[rank3]: 2026-03-02 08:00:12,118 INFO iteration  100/  500 | lm loss: 2.310000E+00 | grad norm: 1.438 |",
    " 45%|####      | 198/400 [00:10<00:12, 16.2it/s, loss=2.31]",
    "{'loss': 2.1, 'epoch': 0.3, 'global_step': 7, 'tokens_per_second': 1.2e5}",
    "größe 12 steps 3 loss nan \udc80 throughput: 311.4",
    "worker 7 is up",
)


@pytest.mark.parametrize("pattern", [steps._STEP, series.LOSS, series._NORM, series._PER_SECOND, series._THROUGHPUT])
def test_a_number_is_told_as_the_pattern_itself_finds_it(pattern: re.Pattern[str]) -> None:
    """Of each line, whatever line like it was asked for before."""
    source = random.Random(5)
    for _ in range(300):
        text = "".join(str(source.randrange(10)) if sign.isdecimal() else sign for sign in source.choice(LINES))
        found = pattern.search(text)
        told = found[found.lastindex or 0] if found else ""
        assert steps.number_told(pattern, Line("", 1, text)) == told
