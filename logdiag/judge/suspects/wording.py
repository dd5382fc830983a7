"""Judges a line by its words where no rule knows it: for which reason they speak, and whether for a cause at all.

Linear models over words and the pairs of words beside each other, each weighted by how rare it is. Two look at one
line (`stand_in` weighs what several tell). The third says how a log ended, by the words of its last lines. They are
trained with the suspects (`python -m evals.suspects`): on the development cases, the examples that prove the rules, and
messages written for each reason (`evals/wordings.txt`) and for none (`evals/no_causes.txt`).
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from logdiag.errors import WeightsError
from logdiag.model import Reason
from logdiag.patterns import pattern_of
from logdiag.settings.places import StrPath

WEIGHTS = os.path.join(os.path.dirname(__file__), "weights")
"""The folder of the weights that ship."""
# The models' names: each has a card, NAME.json, and a table, NAME.words.
REASONS, CAUSES, ENDS = "reasons", "causes", "ends"
_KEY, _RARITY = 4, 1
# outOfMemory, HTTPError
_CAMEL = pattern_of(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TERM = pattern_of(r"[a-z]+|[0-9]+|[^\sa-z0-9]")
_NUMBER = pattern_of(r"\d+")
# A number that a status may be.
_MOST_STATUS = 255
# The last lines' words count as themselves too.
_LAST_LINES = 3
# Letters that tell what a longer word is about.
_STEM = 4
_MOST_TERMS = 1 << 14


@dataclass(frozen=True, slots=True)
class _Model:
    """A trained model.

    `row` has for a term how rare it is and how much it speaks for each of `answers`, in units of `step`; empty for an
    unknown term. `biases` are the answers' own; `sharpness` makes chances of the sums.
    """

    answers: tuple[str, ...]
    biases: tuple[float, ...]
    step: float
    sharpness: float
    row: Callable[[str], tuple[int, ...]]

    def sums(self, terms: Iterable[str]) -> list[float]:
        """How much terms speak for each answer; empty where none is known."""
        rows = [row for term in terms if (row := self.row(term))]
        if not rows:
            return []
        length = math.sqrt(sum(rarity * rarity for rarity, *_ in rows))
        sums = [0.0] * len(self.answers)
        for rarity, *weights in rows:
            sums = [total + rarity * weight for total, weight in zip(sums, weights, strict=True)]
        return [self.step * total / length + bias for total, bias in zip(sums, self.biases, strict=True)]


def reasons_by_wording(body: str, *, folder: StrPath = WEIGHTS) -> tuple[tuple[Reason, float], ...]:
    """The reasons that a line may mean, most likely first, with their chances, 0 to 1.

    `body` is the line without its head. Empty where no word is known. Raises WeightsError when the weights are
    missing or broken.
    """
    model = _load(os.fspath(folder), REASONS)
    sums = model.sums(terms_of_reason(body))
    most = max(sums, default=0.0)
    powers = [math.exp((value - most) * model.sharpness) for value in sums]
    found = ((Reason(answer), power / sum(powers)) for answer, power in zip(model.answers, powers, strict=False))
    return tuple(sorted(found, key=lambda item: -item[1]))


def cause_by_wording(body: str, *, folder: StrPath = WEIGHTS) -> float:
    """How much a line's words are those of a cause: about 1 where they are, about -1 for a line of ordinary work.

    `body` and errors as in `reasons_by_wording`.
    """
    return next(iter(_load(os.fspath(folder), CAUSES).sums(terms_of(body))), 0.0)


def end_by_wording(lines: Sequence[str], *, folder: StrPath = WEIGHTS) -> float:
    """How much the last lines of a log are a failure's: about 1 where they are, about -1 where all is well.

    `lines` as `failure.tails_of` gives them, errors as in `reasons_by_wording`.
    """
    return next(iter(_load(os.fspath(folder), ENDS).sums(terms_of_end(lines))), 0.0)


def terms_of_end(lines: Sequence[str]) -> set[str]:
    """The terms of a log's last lines; those of the last few, and of the last one, a second time with a mark. Of a
    number only whether it is 0, or may be a status."""
    terms: set[str] = set()
    for index, line in enumerate(reversed(lines)):
        terms_of_line = terms_of(_NUMBER.sub(_kind_of_number, line))
        near = {f"near the end: {term}" for term in terms_of_line} if index < _LAST_LINES else set()
        last = {f"at the end: {term}" for term in terms_of_line} if index == 0 else set()
        terms |= terms_of_line | near | last
    return terms


def _kind_of_number(match: re.Match[str]) -> str:
    number = match[0].lstrip("0")
    return "many" if len(number) > 3 or int(number or 0) > _MOST_STATUS else "few" if number else "zero"


def terms_of(body: str) -> set[str]:
    """The words of a line, in lower case, its numbers and signs, and each two that stand beside each other."""
    words = _TERM.findall(_CAMEL.sub(" ", body).lower())
    return {*words, *(f"{first} {second}" for first, second in pairwise(words))}


def terms_of_reason(body: str) -> set[str]:
    """The terms of a line, and how its longer words begin: `unreadable` and `unread` are near each other."""
    terms = terms_of(body)
    return terms | {f"{term[:_STEM]}-" for term in terms if len(term) > _STEM and term.isalpha()}


def term_key(term: str) -> int:
    """The number that stands for a term in a table (its CRC-32)."""
    return zlib.crc32(term.encode(errors="replace"))


@lru_cache(maxsize=4)
def _load(folder: str, name: str) -> _Model:
    card = os.path.join(folder, f"{name}.json")
    try:
        with open(card, encoding="utf-8") as file:
            document = json.load(file)
        answers = tuple(document["answers"])
        with open(os.path.join(folder, f"{name}.words"), "rb") as packed:
            table = packed.read()
        many, over = divmod(len(table), _KEY + _RARITY + len(answers))
        step, sharpness = float(document["step"]), float(document["sharpness"])
        biases = tuple(float(value) for value in document["biases"])
        model = _Model(answers, biases, step, sharpness, _rows_of(table, many, len(answers)))
        known = {reason.value for reason in Reason}
        fits = many and not over and len(answers) == len(biases) and (name != REASONS or known.issuperset(answers))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise WeightsError(f"{card}: the words' weights cannot be read: install logdiag again") from problem
    if not fits:
        raise WeightsError(f"{card}: the words' weights do not fit each other: install logdiag again")
    return model


def _rows_of(table: bytes, many: int, answers: int) -> Callable[[str], tuple[int, ...]]:
    """A function that looks terms up in a table: the known terms' keys in order, then for each its rarity (an unsigned
    byte) and how much it speaks for each answer (a signed byte). It is cached, for logs share most of their words."""
    keys = array("I", table[: many * _KEY])
    if sys.byteorder == "big":
        keys.byteswap()
    form = struct.Struct(f"<B{answers}b")

    @lru_cache(_MOST_TERMS)
    def row(term: str) -> tuple[int, ...]:
        key = term_key(term)
        index = bisect_left(keys, key)
        known = index < many and keys[index] == key
        return form.unpack_from(table, many * _KEY + index * form.size) if known else ()

    return row
