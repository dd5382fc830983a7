"""A word and a number that run over all processes of a log name who prints a line."""

from __future__ import annotations

import pytest

from logdiag.judge.speakers import numbered_speakers
from logdiag.model import Line
from logdiag.read.prefixes import parse_line


def _lines(*texts: str) -> list[Line]:
    return [parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate(texts)]


def _interleaved(head: str, processes: int = 4, rounds: int = 6) -> list[str]:
    """Every process prints its share of each round, in another order each time."""
    return [
        head.format((number * 3 + turn) % processes) + f"round {turn} settled"
        for turn in range(rounds)
        for number in range(processes)
    ]


@pytest.mark.parametrize(
    "head",
    [
        "lathe {} of 4 @ shop-a: ",
        "r={:02d}> ",
        "12:00:00 | hawk.{:02d} | ",
        'INFO hand{{id={} host="fen-c"}}: ',
        '{{"n": 81, "seat": {}, "t": "',
    ],
)
def test_a_numbered_word_that_comes_again_and_again_names_the_speaker(head: str) -> None:
    """Whatever the word is and however it is joined to its number."""
    lines = _lines(*_interleaved(head), head.format(2) + "the belt is torn")
    assert numbered_speakers(lines)[0, lines[-1].position] == 2


def test_steps_epochs_and_single_names_are_no_speakers() -> None:
    """Their numbers only rise, or never come back."""
    assert not numbered_speakers(_lines(*(f"step {step} loss 2.{step}" for step in range(60))))
    assert not numbered_speakers(_lines(*(f"opened shard {shard}" for shard in range(60))))


def test_what_has_no_clock_of_its_own_is_of_the_record_above_it() -> None:
    """The frames of a panic belong to the process that printed its head."""
    lines = _lines(*_interleaved("seat {} "), "seat 3 panics", "index out of bounds: the len is 4", "  at bin.rs:12")
    assert [numbered_speakers(lines).get((0, line.position)) for line in lines[-3:]] == [3, 3, 3]


def test_a_log_whose_prefixes_name_ranks_needs_no_guess() -> None:
    """A known launcher's word counts alone."""
    lines = _lines(*_interleaved("[rank{}]: lane 3 "))
    assert not numbered_speakers(lines)
