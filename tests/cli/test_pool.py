"""Many jobs of a batch are diagnosed by several processes, with the answers that one would give."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from logdiag.cli.batch import FEWEST_JOBS
from logdiag.pipeline.workers import answers_of
from logdiag.rules import RuleBook
from tests.helpers import LOGS, run_logdiag

HEALTHY, FAILED = LOGS / "healthy-scary.log", LOGS / "keyerror-rank2.log"


@pytest.fixture
def jobs(tmp_path: Path) -> list[str]:
    """So many logs that processes are worth it, of which the third is not there."""
    paths = [tmp_path / f"{number:02}.log" for number in range(FEWEST_JOBS)]
    for number, path in enumerate(paths):
        shutil.copy(FAILED if number % 2 else HEALTHY, path)
    paths[2].unlink()
    return [str(path) for path in paths]


def test_several_processes_print_what_one_prints(jobs: list[str]) -> None:
    """In the order of the paths, with what the jobs have in common and the status of the worst."""
    alone, together = (run_logdiag("batch", "--workers", count, *jobs) for count in ("0", "2"))
    assert together.stdout.count(b"KeyError") > FEWEST_JOBS // 2
    assert (together.stdout, together.stderr) == (alone.stdout, alone.stderr)
    assert together.returncode == alone.returncode == 2


def test_where_a_process_dies_the_rest_is_done_all_the_same() -> None:
    """Of six numbers the process of one dies: that one alone has no answer."""
    assert list(answers_of(_deadly, range(6), 2, ())) == [0, 10, None, 30, 40, 50]


def _deadly(number: int, book: RuleBook) -> int:
    """Ten times the number; the process of one ends by it."""
    if number == 2:
        os._exit(1)
    return 10 * number
