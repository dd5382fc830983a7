"""A real training job of four processes goes through five faults, and ends where one without faults ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from evals.recovery.__main__ import FIVE, measure
from tests.helpers import ROOT


@pytest.mark.skipif(sys.platform != "linux", reason="the job binds to 127.0.0.2 and up")
@pytest.mark.slow
def test_a_job_survives_its_faults_and_stops_at_the_bug(tmp_path: Path) -> None:
    """A killed rank, a torn checkpoint, a lost GPU and a poisoned batch need no person; the bug in the script does."""
    found = measure(FIVE, tmp_path / "run", quiet=True, patience=100)  # none of the five is a hang
    assert [row.get("action") for row in found["rows"]] == ["restart", "restart", "exclude", "rollback", "stop"]
    assert (found["survived"], found["recoverable"], found["wrong_restarts"]) == (4, 4, 0)
    assert found["stopped_at"] == "NameError"
    interval = found["checkpoint_interval_steps"]
    assert found["steps_lost_most"] <= interval
    # Those steps count too that were made until the spike was seen: on a busy machine more than usual.
    assert found["steps_lost_most_by_a_rollback"] <= 5 * interval
    assert found["final_loss"] == found["final_loss_undisturbed"]
    assert all(row["to_detection"] < 60 for row in found["rows"])


def test_the_figures_in_the_documentation_are_the_measured_ones() -> None:
    """docs/recovery.md shows evals/results/recovery.json, to the digit, and what it says of the end is so."""
    measured = json.loads((ROOT / "evals/results/recovery.json").read_text(encoding="utf-8"))
    runs = [measured["own launcher"], measured["torchrun"]]
    page = (ROOT / "docs/recovery.md").read_text(encoding="utf-8").split("## Measured")[1]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in page.splitlines() if row.startswith("| ")]
    shown = {name: figures for name, *figures in rows[2:]}
    assert list(shown.values()) == [
        [f"{run['survived']} of {run['recoverable']}" for run in runs],
        [f"{run['seconds_to_detection_mean']:.1f}" for run in runs],
        [f"{run['seconds_to_progress_mean']:.1f}" for run in runs],
        [f"{run['steps_lost_mean']}, {run['steps_lost_most']}" for run in runs],
        [str(run["steps_lost_most_by_a_rollback"]) for run in runs],
        [str(run["steps_lost_most_with_a_broken_checkpoint"]) for run in runs],
    ]
    found = f"found in {measured['torchrun']['seconds_to_detection_mean']:.1f} s on average"
    assert found in (ROOT / "README.md").read_text(encoding="utf-8")
    for run in runs:
        assert run["final_loss"] == run["final_loss_undisturbed"]
        assert (run["stopped_at"], run["wrong_restarts"], run["faults"]) == ("NameError", 0, 25)
        assert run["steps_lost_most"] <= run["checkpoint_interval_steps"]
