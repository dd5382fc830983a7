"""Many jobs of a batch are diagnosed by several processes, with the answers that one would give."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from logdiag import Diagnosis, SourceError
from logdiag.cli.pool import FEWEST_JOBS, answers_of
from tests.helpers import LOGS, run_logdiag

HEALTHY, FAILED = LOGS / "healthy-scary.log", LOGS / "keyerror-rank2.log"
ASKED: dict[str, Any] = {"rules": (), "memory": False}


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


def test_where_a_process_dies_the_rest_is_diagnosed_all_the_same(jobs: list[str]) -> None:
    """None of the jobs is lost."""
    answers = list(answers_of(jobs[:6], {**ASKED, "rules": _Deadly()}, 2))
    assert [type(answer) for answer in answers] == [Diagnosis] * 2 + [SourceError] + [Diagnosis] * 3


class _Deadly(tuple[str, ...]):
    """No folders of rules; a process that is sent it ends."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (1,)
