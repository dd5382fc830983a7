"""A real training job of four processes goes through five faults, and ends where one without faults ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evals.recovery.__main__ import FIVE, measure


@pytest.mark.skipif(sys.platform != "linux", reason="the job binds to 127.0.0.2 and up")
@pytest.mark.slow
def test_a_job_survives_its_faults_and_stops_at_the_bug(tmp_path: Path) -> None:
    """A killed rank, a torn checkpoint, a lost GPU and a poisoned batch need no person; the bug in the script does."""
    found = measure(FIVE, tmp_path / "run", quiet=True)
    assert [row.get("action") for row in found["rows"]] == ["restart", "restart", "exclude", "rollback", "stop"]
    assert (found["survived"], found["recoverable"], found["wrong_restarts"]) == (4, 4, 0)
    assert found["stopped_at"] == "NameError"
    assert found["steps_lost_most"] <= found["checkpoint_interval_steps"]
    assert found["final_loss"] == found["final_loss_undisturbed"]
    assert all(row["to_detection"] < 30 for row in found["rows"])
