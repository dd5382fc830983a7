"""Finds where a job's steps became slow or its numbers bad: cuts each series in two where its level changes."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from logdiag.judge.merge.clocks import apart
from logdiag.model import Line, median
from logdiag.patterns import pattern_of
from logdiag.scan.steps import number_told, step_number
from logdiag.scan.survey import Survey

# step 198 loss 2.31   'loss': 2.31   lm loss: 2.310000E+00 |   train_loss=2.31
LOSS = pattern_of(
    r"(?i)(?:^|[\s{,|'\"])(?:lm |train(?:ing)?[_ /]?)?loss['\"]?\s{0,4}[:=(|]?\s{0,4}"
    r"([-+]?\d{1,12}(?:\.\d{1,12})?(?:e[-+]?\d{1,3})?)\b"
)
# grad norm: 0.731   'grad_norm': 0.731   gnorm 1.2
_NORM = pattern_of(
    r"(?i)\bg(?:rad(?:ient)?)?[_ ]?norm['\"]?\s{0,4}[:=|]?\s{0,4}(\d{1,12}(?:\.\d{1,12})?(?:e[-+]?\d{1,3})?)\b"
)
_NUMBER = r"(\d[\d,]{0,14}(?:\.\d{1,9})?(?:e\+?\d{1,3})?)"
_ITEMS = r"(?:tok(?:en)?s?|samples?|ima?ge?s?|seqs?|it)"
# 48,211 tokens/s   1.2e5 tok/s   311.4 samples/sec
_PER_SECOND = pattern_of(rf"(?i)(?<![\d.,]){_NUMBER} ?{_ITEMS} ?(?:/ ?|per )s(?:ec(?:ond)?)?\b")
# tokens/s: 48211   tokens_per_second=48211   samples/sec 311.4   throughput: 311.4
_THROUGHPUT = pattern_of(
    rf"(?i)\b(?:{_ITEMS}(?:/|_per_| per )s(?:ec(?:ond)?)?|throughput|tps)['\"]?\s{{0,4}}[:=|]?\s{{0,4}}{_NUMBER}\b"
)
# A series has at least so many values, and so many on either side of the change; so many next to the change are at
# their level, to within this share of the change.
_FEWEST, _EDGE, _NEXT, _NEAR = 16, 6, 3, 0.3
# A value above so many times the median does not count for the level.
_OUTLYING = 3.0
# Clocks are read to the second: a step's time is taken from steps so many seconds apart.
_COARSE = 4.0


class _Series(NamedTuple):
    """A number that every step prints: its name, its unit, by what factor a worse level is larger (`rises`) or smaller,
    and its values with their lines."""

    name: str
    unit: str
    factor: float
    rises: bool
    values: Sequence[tuple[Line, float]]


class LevelChange(NamedTuple):
    """The series that became worse and stayed so to the end, by what factor, and a sentence: `iteration time rose from
    1.2 s to 3.9 s at step 4,210 (train.log:8431)`."""

    name: str
    factor: float
    words: str


def changes_of_level(survey: Survey) -> list[LevelChange]:
    """The numbers of the steps that became worse and stayed so."""
    return [change for series in _series(_steps(survey)) if (change := _change(series))]


def _steps(survey: Survey) -> list[Line]:
    """The steps of the process that printed the most, since their numbers last began anew."""
    by_process: dict[tuple[int, int | None], list[Line]] = defaultdict(list)
    for line in survey.series:
        if step_number(line) is not None:
            by_process[line.stream, line.rank].append(line)
    steps = max(by_process.values(), key=len, default=[])
    numbers = [step_number(line) or 0 for line in steps]
    anew = [index for index in range(1, len(steps)) if numbers[index] < numbers[index - 1]]
    return steps[anew[-1] if anew else 0 :]


def _series(steps: Sequence[Line]) -> Iterator[_Series]:
    yield _Series("iteration time", " s", 1.5, True, list(_times(steps)))
    yield _Series("loss", "", 1.5, True, list(_values(steps, LOSS)))
    yield _Series("grad norm", "", 3.0, True, list(_values(steps, _NORM)))
    per_second = list(_values(steps, _PER_SECOND)) or list(_values(steps, _THROUGHPUT))
    yield _Series("throughput", " a second", 1.5, False, per_second)


def _times(steps: Sequence[Line]) -> Iterator[tuple[Line, float]]:
    """Seconds that a step took, by the clock."""
    dated = [(line, line.time) for line in steps if line.time is not None]
    seconds = apart(dated[0][1], dated[-1][1]) if dated else 0.0
    every = math.ceil(_COARSE * len(dated) / seconds) if seconds > 0 else 1
    for (first, began), (last, ended) in pairwise(dated[::every]):
        count = (step_number(last) or 0) - (step_number(first) or 0)
        if count:
            yield last, apart(began, ended) / count


def _values(steps: Sequence[Line], number: re.Pattern[str]) -> Iterator[tuple[Line, float]]:
    for line in steps:
        number_text = number_told(number, line)
        if number_text and math.isfinite(value := float(number_text.replace(",", ""))):
            yield line, value


def _change(series: _Series) -> LevelChange | None:
    """The change of a series for the worse, None for none. It is where the ranks of the values differ the most, if the
    levels on either side are far apart, most values are on their own side, and the change came at once."""
    values = [value for _, value in series.values]
    if len(values) < _FEWEST or min(values) < 0:
        return None
    ordered, sign = sorted(values), 1 if series.rises else -1
    ranks = [bisect_left(ordered, value) + bisect_right(ordered, value) - len(values) for value in values]
    cut = _cut([sign * rank for rank in ranks])
    level_before, level_after = median(values[:cut]), median(values[cut:])
    cut = _cut([abs(value - level_before) - abs(value - level_after) for value in values])
    before, after = values[:cut], values[cut:]
    level_before, level_after = median(before), median(after)
    low, high = (before, after) if series.rises else (after, before)
    near = _NEAR * abs(level_after - level_before)
    at_once = abs(median(before[-_NEXT:]) - level_before) <= near and abs(median(after[:_NEXT]) - level_after) <= near
    apart_enough = median(high) >= series.factor * median(low) > 0
    if not (at_once and apart_enough and sorted(high)[len(high) // 4] > sorted(low)[len(low) * 3 // 4]):
        return None
    return LevelChange(series.name, median(high) / median(low), _in_words(series, cut))


def _in_words(series: _Series, cut: int) -> str:
    """A sentence: which series changed at a cut, from what level to what."""
    values = [value for _, value in series.values]
    last, line = series.values[cut - 1][0], series.values[cut][0]
    step = step_number(line) or 0
    about = "" if step - (step_number(last) or 0) <= 1 else "about "
    turned = "rose" if series.rises else "fell"
    levels = f"from {_short(_level(values[:cut]))}{series.unit} to {_short(_level(values[cut:]))}{series.unit}"
    return f"{series.name} {turned} {levels} at {about}step {step:,} ({line.source}:{line.number})"


def _cut(costs: Sequence[float]) -> int:
    """How many values lie before the cut with the least cost; `costs` has how much more each costs before it."""
    sums = list(accumulate(costs))
    return min(range(_EDGE, len(costs) - _EDGE + 1), key=lambda index: sums[index - 1])


def _level(values: Sequence[float]) -> float:
    """The mean without pauses and other outliers; for times in whole seconds it is finer than the median."""
    most = _OUTLYING * median(values)
    usual = [value for value in values if value <= most]
    return math.fsum(usual) / len(usual)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
