"""The ledger: what is written is there after any cut, and a full disk costs no event."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logdiag import Action, LogdiagError, Reason
from logdiag.recovery.ledger import Course, Ledger
from logdiag.recovery.policy import Failure

FAILURE = Failure("log", Reason.ECC_ERROR, Action.RESTART_EXCLUDING_NODE, True, "nvidia/ecc", "n1", 10, True)


def story(ledger: Ledger) -> None:
    ledger.begin(["train"])
    ledger.add("start", attempt=1, mark="abc", log="a")
    ledger.add("end", attempt=1, status=1)
    ledger.add(
        "choice", step="exclude", node="n1", failure=FAILURE, skip=[(3, 5)], distrusted={"c": 1.5}, furthest=10, saved=5
    )
    ledger.add("start", attempt=2, mark="def", log="b")
    ledger.close()


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(row) for row in (path / "ledger.jsonl").read_bytes().splitlines()]


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 600))
def test_a_ledger_that_is_cut_anywhere_goes_on(tmp_path: Path, at: int) -> None:
    """Whole rows before the cut count, what follows is written after them."""
    path = tmp_path / "s"
    (path / "ledger.jsonl").unlink(missing_ok=True)
    story(Ledger(str(path)))
    content = (path / "ledger.jsonl").read_bytes()
    (path / "ledger.jsonl").write_bytes(content[:at])
    ledger = Ledger(str(path))
    whole = content[:at].count(b"\n")
    course = Course()
    for row in content.splitlines()[:whole]:
        course.fold(json.loads(row))
    assert ledger.course == course
    ledger.add("progress", attempt=2, step=1)
    ledger.close()
    assert len(rows(path)) == whole + 1


def test_where_a_job_stands_is_read_back(tmp_path: Path) -> None:
    """Attempt, failures, nodes, batches and checkpoints; a job that is not over goes on, one that is begins anew."""
    story(Ledger(str(tmp_path / "s")))
    ledger = Ledger(str(tmp_path / "s"))
    course = ledger.course
    assert (course.attempt, course.running, course.furthest) == (2, "def", 10)
    assert (course.failures, course.excluded, course.distrusted) == ([FAILURE], ["n1"], {"c": 1.5})
    assert [tuple(item) for item in course.skipped] == [(3, 5)]
    assert ledger.begin(["train"])
    ledger.add("over", how="stopped", why="")
    assert not ledger.begin(["train", "--fixed"])
    assert (course.failures, course.excluded, course.attempt) == ([], ["n1"], 2)


def test_a_full_disk_costs_no_event(tmp_path: Path) -> None:
    """No half row stays behind, and what could not be written follows with the next event."""
    ledger = Ledger(str(tmp_path / "s"))
    ledger.begin(["train"])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "s" / "ledger.jsonl").stat().st_size + 10, hard))
    try:
        ledger.add("start", attempt=1, mark="abc", log="a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [row["event"] for row in rows(tmp_path / "s")] == ["begin"]
    ledger.add("end", attempt=1, status=0)
    assert [row["event"] for row in rows(tmp_path / "s")] == ["begin", "start", "end"]


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    """With its line, and what to do."""
    (tmp_path / "ledger.jsonl").write_bytes(b'{"event": "begin", "command": ["x"]}\nnonsense\n')
    with pytest.raises(LogdiagError, match=r"ledger\.jsonl:2: no event of a ledger; move the folder away"):
        Ledger(str(tmp_path))
