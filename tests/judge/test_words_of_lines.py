"""A line's words, without its clock: what counts and what is the plural of what."""

from __future__ import annotations

import pytest

from logdiag.judge.ranks.words import rows_of, singular
from logdiag.read.prefixes import parse_line


@pytest.mark.parametrize(
    "clock",
    [
        "24/03 03:16:00",
        "14.01.26 22:04:45,411",
        "02.09. 18:30:01,010",
        "04-11 08:00:05.150",
        "08:02",
        "Oct  2 03:22:29",
        "March 10, 2026 08:35:45",
        "28-Jan-2026 05:59:46",
        "260304T011209.200",
        "20260304T011209Z",
        "2026.11.03-10.20.00",
    ],
)
def test_a_date_and_its_clock_are_no_words(clock: str) -> None:
    """However they are written: their numbers count nothing."""
    [row] = rows_of([parse_line(f"{clock} | mill 3 is up", "job.log", 1)])
    assert row.words == ["mill", "3", "is", "up"]


def test_an_address_is_no_clock() -> None:
    [row] = rows_of([parse_line("10.4.2.15:7101 forge mill 3 is up", "job.log", 1)])
    assert row.words == ["10.4.2.15", "7101", "forge", "mill", "3", "is", "up"]


def test_a_spelt_number_counts_behind_a_word_for_a_process() -> None:
    """And nowhere else: `no one`, `two reads`."""
    [row] = rows_of([parse_line("worker three says: two reads failed, lane six holds one", "job.log", 1)])
    assert row.words == ["worker", "3", "says", "two", "reads", "failed", "lane", "6", "holds", "one"]


def test_a_plural_is_its_noun() -> None:
    nouns = ["seats", "tries", "dies", "process", "status", "ps"]
    assert list(map(singular, nouns)) == ["seat", "try", "die", "process", "status", "ps"]
