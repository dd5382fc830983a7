"""The log generator and the fuzz run can be trusted."""

import random
from pathlib import Path

from evals.fuzz import MUTATIONS, SAMPLES, mutate, root_problem
from evals.generate import ROOT_TEXT, write_log


def test_generated_log_is_the_same_each_time(tmp_path: Path) -> None:
    """Size, lines and the root line are as said, and the same arguments give the same bytes."""
    first = write_log(tmp_path / "first.log", 2)
    second = write_log(tmp_path / "second.log", 2)
    data = (tmp_path / "first.log").read_bytes()
    assert first == second
    assert data == (tmp_path / "second.log").read_bytes()
    assert abs(len(data) - 2_000_000) < 100_000
    assert len(data) == first.bytes
    lines = data.decode().splitlines()
    assert len(lines) == first.lines
    assert [number for number, line in enumerate(lines, 1) if ROOT_TEXT in line] == [first.root_line]


def test_another_seed_gives_other_numbers(tmp_path: Path) -> None:
    """The seed changes the numbers."""
    write_log(tmp_path / "first.log", 1, seed=1)
    write_log(tmp_path / "second.log", 1, seed=2)
    assert (tmp_path / "first.log").read_bytes() != (tmp_path / "second.log").read_bytes()


def test_each_mutation_takes_any_bytes() -> None:
    """No kind of damage fails, on nothing at all either."""
    for change in MUTATIONS:
        for data in (b"", b"\n", b"RuntimeError: it broke"):
            assert isinstance(change(bytearray(data), random.Random(1), [b"another log\n"]), bytearray)


def test_same_seed_does_the_same_damage() -> None:
    """A fuzz run can be repeated."""
    samples = [(SAMPLES / "demo.log").read_bytes()]
    assert mutate(samples, random.Random(3)) == mutate(samples, random.Random(3))


def test_root_problem_sees_a_line_that_is_not_there() -> None:
    """Colours and NUL bytes are no difference; another line or a number beyond the end is one."""
    data = b"fine\n\x1b[31mRuntime\0Error: it broke\x1b[0m\n"
    assert root_problem(data, {"root_cause": None}) is None
    assert root_problem(data, {"root_cause": {"line": 2, "text": "RuntimeError: it broke"}}) is None
    assert root_problem(data, {"root_cause": {"line": 1, "text": "RuntimeError: it broke"}})
    assert root_problem(data, {"root_cause": {"line": 9, "text": "RuntimeError: it broke"}})
