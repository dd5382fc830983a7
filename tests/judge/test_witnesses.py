"""A word and a number that run over all processes of a log name who prints a line."""

from __future__ import annotations

import pytest

from logdiag.judge.ranks.readings import book_of
from logdiag.judge.ranks.witnesses import speakers
from logdiag.judge.ranks.words import rows_of
from logdiag.model import Line
from logdiag.read.prefixes import parse_line


def _lines(*texts: str) -> list[Line]:
    return [parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate(texts)]


def _spoke(lines: list[Line]) -> dict[int, int]:
    """Who printed each line, by its position."""
    rows = rows_of(lines)
    return {position: rank for (_, position), rank in speakers(book_of(rows, rows)).items()}


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
        "lathe {} of 4 in shop-a: ",
        "r={:02d}> ",
        "12:00:00 | hawk.{:02d} | ",
        'INFO hand{{id={} host="fen-c"}}: ',
        '{{"n": 81, "seat": {}, "t": "',
        "09.35.10 . diver/{} ",
        "{:02d}/04    381.667 ",
    ],
)
def test_a_numbered_word_that_comes_again_and_again_names_the_speaker(head: str) -> None:
    """Whatever the word is and however it is joined to its number."""
    lines = _lines(*_interleaved(head), head.format(2) + "the belt is torn")
    assert _spoke(lines)[lines[-1].position] == 2


def test_steps_epochs_and_single_names_are_no_speakers() -> None:
    """Their numbers only rise, or never come back."""
    assert not _spoke(_lines(*(f"step {step} loss 2.{step}" for step in range(60))))
    assert not _spoke(_lines(*(f"opened shard {shard}" for shard in range(60))))
    assert not _spoke(_lines(*(f"[{step}/60] loss 2.{step}" for step in range(60))))


def test_what_has_no_clock_of_its_own_is_of_the_record_above_it() -> None:
    """The frames of a panic belong to the process that printed its head."""
    lines = _lines(*_interleaved("seat {} "), "seat 3 panics", "index out of bounds: the len is 4", "  at bin.rs:12")
    assert [_spoke(lines).get(line.position) for line in lines[-3:]] == [3, 3, 3]


def test_a_column_of_bare_numbers_names_the_speaker() -> None:
    """Where its numbers come again and again, as no line's number and no step does."""
    lines = _lines(*(f"{at:010d} {text}" for at, text in enumerate(_interleaved("{:02d} L4001 "))))
    assert _spoke(lines)[7] == (3 * 3 + 1) % 4


def test_of_two_numbers_in_every_line_the_one_of_more_processes_names_the_speaker() -> None:
    """A level, a machine or a lane has fewer values; of nearly as many the leftmost counts."""
    lines = _lines(*(f"lv={at % 2} {text}" for at, text in enumerate(_interleaved("h={:02d} "))))
    assert [_spoke(lines)[at] for at in range(4)] == [0, 3, 2, 1]
    lines = _lines(*(f"{text} sev={at * 3 % 5}" for at, text in enumerate(_interleaved("brain{}: "))))
    assert [_spoke(lines)[at] for at in range(4)] == [0, 3, 2, 1]


def test_many_processes_with_few_kept_lines_each_are_speakers() -> None:
    """Each of 40 printed one or two lines that are kept, in no order."""
    numbers = [(at * 17) % 40 for at in range(60)]
    lines = _lines(*(f"r={number:02d}> halo of {at} levels" for at, number in enumerate(numbers)))
    assert _spoke(lines)[59] == numbers[59]


def test_a_word_for_ranks_needs_no_rank_of_every_number() -> None:
    """Of hundreds of ranks only some have a line that is kept."""
    lines = _lines(*(f"03:31 W r{(at * 37) % 301 + 11:04d} store.cc:71] part {at} is late" for at in range(40)))
    assert _spoke(lines)[5] == 5 * 37 + 11
    assert not _spoke(_lines(*(line.text.replace(" r", " x") for line in lines)))


def test_a_record_with_a_clock_of_another_kind_is_no_part_of_the_one_above() -> None:
    """The boat's words are not the diver's."""
    lines = _lines(*_interleaved("09.35.10 . diver/{} "), "09.36.10 . boat", "         batch 7 is lost")
    assert [_spoke(lines).get(line.position) for line in lines[-2:]] == [None, None]


def test_a_line_whose_first_word_begins_many_is_no_part_of_a_record() -> None:
    """A machine's kernel log among what workers print has no clock that is known, and is nobody's."""
    kernel = [f"elm-1 kernel: [36641{at}.9] eth0 link down" for at in range(6)]
    workers = [f"[12:00:0{at}] w{at % 4} loss 2.{at}" for at in range(8)]
    lines = _lines(
        *(text for pair in zip(workers, [*kernel, "  hint: reseat", "fault: none"], strict=True) for text in pair)
    )
    told = set(_spoke(lines))
    assert told == {at for at, line in enumerate(lines) if not line.text.startswith(("elm-1", "fault"))}


@pytest.mark.parametrize(
    ("below", "speaker"), [("[12:00:05] w3 no bin fits:", 3), ("[12:00:05] w3 ERROR no bin fits", 3), ("", None)]
)
def test_what_a_runtime_prints_is_of_the_record_above_only_if_that_announces_it(
    below: str, speaker: int | None
) -> None:
    """A panic stands below whatever the logger printed last; what begins with a blank belongs to that."""
    work = [f"[12:00:0{at // 4}] w{at % 4} loss 2.{at}" for at in range(16)]
    lines = _lines(*work, *filter(None, [below]), "index out of bounds: the len is 4", "  at bin.rs:12")
    numbers = _spoke(lines)
    assert [numbers.get(line.position) for line in lines[-2:]] == [speaker, speaker]
    assert _spoke(_lines(*work, "  in bin 7"))[16] == 3


def test_a_few_of_many_processes_may_print_all() -> None:
    """Ranks 0, 130 and 388 were told to, or the ranks 19, 44 and 71 of 128; what holds 236 and 237 alone is a rack."""
    for numbers, form in (((0, 130, 388), "[i] <{}> loss {}"), ((19, 44, 71), "{}/128 loss {}")):
        lines = _lines(*(form.format(numbers[(at * 2) % 3], at) for at in range(36)))
        assert {_spoke(lines)[at] for at in range(36)} == set(numbers)
    assert not _spoke(_lines(*(f"q{(237, 236, 239)[at % 3]} loss {at}" for at in range(36))))


def test_a_record_with_a_count_of_its_own_is_no_part_of_the_one_above() -> None:
    """`T+156` is no clock that is known, but most lines begin with one: the launcher's too."""
    lines = _lines(*(f"T+{at} w{at % 4} loss 2.{at}" for at in range(24)), "T+25 keeper: elm-1 is full")
    assert 24 not in _spoke(lines)


def test_a_column_of_numbers_may_be_wide() -> None:
    """`00009 IOSRV`: five digits, of which the first is 0."""
    lines = _lines(*(f"012/0604{at:02d} {at % 4:05d} STEP  it {1000 + at}" for at in range(24)))
    assert _spoke(lines)[7] == 3


def test_a_number_in_brackets_is_no_column_of_bare_ones() -> None:
    """`<2> ` begins what a process says, `64 ` a row of measurements."""
    rows = [f"{step}\t2.8\n<{step % 4}> reel {step} read" for step in range(12)]
    lines = [parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate("\n".join(rows).split("\n"))]
    numbers = _spoke(lines)
    assert numbers[5] == 2
    assert 4 not in numbers
