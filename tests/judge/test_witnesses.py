"""A word and a number that run over all processes of a log name who prints a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdiag.errors import WeightsError
from logdiag.judge.ranks.readings import book_of
from logdiag.judge.ranks.weights import tables
from logdiag.judge.ranks.witnesses import Root, first_to_fail
from logdiag.judge.ranks.words import head_of, rows_of
from logdiag.model import Line
from logdiag.read.prefixes import parse_line


def _lines(*texts: str) -> list[Line]:
    return [parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate(texts)]


def _spoke(lines: list[Line]) -> dict[int, int]:
    """Who printed each line, by its position."""
    rows = rows_of(lines)
    return {at: rank for at, (rank, _) in book_of(rows, rows).speakers.items()}


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


def test_a_column_of_bare_numbers_names_the_speaker() -> None:
    """Where its numbers come again and again, as no line's number and no step does."""
    lines = _lines(*(f"{at:010d} {text}" for at, text in enumerate(_interleaved("{:02d} L4001 "))))
    assert _spoke(lines)[7] == (3 * 3 + 1) % 4


def test_many_processes_with_few_kept_lines_each_are_speakers() -> None:
    """Each of 40 printed one or two lines that are kept, in no order."""
    numbers = [(at * 17) % 40 for at in range(60)]
    lines = _lines(*(f"r={number:02d}> halo of {at} levels" for at, number in enumerate(numbers)))
    assert _spoke(lines)[59] == numbers[59]


def test_a_record_with_a_clock_of_another_kind_is_no_part_of_the_one_above() -> None:
    """The boat's words are not the diver's."""
    lines = _lines(*_interleaved("09.35.10 . diver/{} "), "09.36.10 . boat", "         batch 7 is lost")
    assert [_spoke(lines).get(line.position) for line in lines[-2:]] == [None, None]


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


@pytest.mark.parametrize(
    "ends",
    [
        ["ward: ends 0:rc70 1:rc70 2:rc70 3:rc9 4:rc70 5:rc70"],
        [f"ward:   loom {loom}  {'code 9' if loom == 3 else 'stopped'}" for loom in range(6)],
        [f"loom {loom} | leaving with {9 if loom == 3 else 70}" for loom in (5, 3, 0, 1, 4, 2)],
    ],
)
def test_who_alone_ends_in_another_way_is_the_first(ends: list[str]) -> None:
    """The root's line tells of no process; who was stopped by the others ends alike."""
    started = [f"ward: loom {loom} starts on elm-{loom // 2}" for loom in range(6)]
    worked = [f"loom {at % 6} | row {at} woven" for at in range(24)]
    rows = rows_of(_lines(*started, *worked, "ward: the warp is torn", *ends))
    told = first_to_fail(book_of(rows, rows), Root(rows[30], waited=False, machine=False))
    assert told is not None
    assert told[0] == 3


def test_weights_that_are_missing_or_broken_are_told_with_the_file_and_the_remedy(tmp_path: Path) -> None:
    broken = tmp_path / "weights.json"
    broken.write_text("{", encoding="utf-8")
    for path in (broken, tmp_path / "none.json"):
        with pytest.raises(WeightsError, match=rf"{path.name}: .*install logdiag again"):
            tables(str(path))


def test_another_line_of_the_record_names_who_failed() -> None:
    """The logger of .NET writes a category, then what it says, then the exception, each on a line of its own."""
    heads = ("info: Kiln.Train.Loop[12]", "info: Kiln.Store[30]")
    work = (
        line
        for batch in range(12)
        for seat in range(4)
        for line in (
            f"2026-07-08 11:{batch:02}:0{seat}.727 {heads[batch % 2]}",
            f"      seat {(seat + batch) % 4}: batch {batch}, loss 2.0{batch}",
        )
    )
    failed = (
        "2026-07-08 11:27:34.771 warn: Kiln.Store[31]",
        "      seat 2: save not started",
        "      it is tried no more",
        "      System.UnauthorizedAccessException: Access to the path '/mnt/kiln/out' is denied.",
    )
    after = (
        "2026-07-08 11:27:43.792 fail: Kiln.Train.Loop[19]",
        "      seat 1: stopped in save gate",
        "2026-07-08 11:27:43.795 fail: Kiln.Train.Loop[19]",
        "      seat 3: stopped in save gate",
    )
    lines = _lines(*work, *failed, *after)
    rows = rows_of(lines)
    root = rows[len(lines) - len(after) - 1]
    told = first_to_fail(book_of(rows, rows), Root(root, waited=False, machine=False))
    assert told is not None
    assert told[0] == 2


def test_a_line_that_ends_in_a_colon_begins_the_record_of_the_next() -> None:
    """What a panic says belongs to its thread, and not to the step above it, which another process printed."""
    texts = [f"10:00:{at:02} INFO hand{{id={at % 4} host=elm-{at % 4 // 2}}}: step={at}" for at in range(24)]
    texts += ["thread 'embed' panicked at src/embed.rs:143:29:", "index out of bounds: the len is 8 but the index is 9"]
    rows = rows_of([parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate(texts)])
    assert head_of(rows, rows[-1]) is rows[-2]


def test_a_line_without_a_level_belongs_to_the_record_above_where_the_others_have_one() -> None:
    """Also in a log that has no clocks: what an exception says is of the process above it."""
    texts = [f"[info] agent {at % 4} | turn {at}: reward 0.5" for at in range(24)]
    texts += ["[error] agent 2 | the task is ended", "** (File.Error) could not read the openers: no such file"]
    rows = rows_of([parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate(texts)])
    told = first_to_fail(book_of(rows, rows), Root(rows[-1], waited=False, machine=False))
    assert told is not None
    assert told[0] == 2


def test_a_date_with_dots_is_no_clock_and_a_number_since_1970_is_one() -> None:
    """Neither leaves numbers that may be read as ranks."""
    first = parse_line("elm-7\t29.08.26 10:40:05.499\ts8\tWRN\tcodec not attached", "job.log", 1)
    second = parse_line("1788608000.50|06|e|cannot read on", "job.log", 2)
    assert [row.words[:3] for row in rows_of([first, second])] == [["elm-7", "s8", "WRN"], ["06", "e", "cannot"]]


def test_a_pod_is_called_by_its_number() -> None:
    """The signs by chance behind a pod's name tell nothing."""
    (row,) = rows_of([parse_line("bound pod loom-code-r05-7sb84 to node elm-07", "job.log", 1)])
    assert row.words == ["bound", "pod", "r05", "to", "node", "elm-07"]
