"""`logdiag explain` shows which decision made the root and which set the other lines aside."""

from __future__ import annotations

from pathlib import Path

from tests.helpers import log_of, run_logdiag, steps, traceback_of

RETRIED = "2026-11-20 10:00:00 ERROR loader: [Errno 28] No space left on device"


def test_each_candidate_is_shown_with_the_decision_that_placed_it(tmp_path: Path) -> None:
    """What was recovered from, the root, and the outcome, each by the name of its decision and with its reason."""
    log = tmp_path / "job.log"
    log.write_bytes(log_of(*steps(1, 5), RETRIED, *steps(6, 30), *traceback_of("KeyError: 'caption'")))
    printed = run_logdiag("explain", str(log)).stdout.decode()
    assert printed.startswith("FAILED  script / KeyError")
    assert "RECOVERED  steps_follow: Steps follow" in printed
    assert "ROOT  loud_cause_that_nothing_explains" in printed
    assert "FAILED  something_broke: A fault stands that the job did not recover from" in printed
    assert f"{log}:6  {RETRIED}" in printed


def test_lines_of_which_the_same_was_decided_are_counted(tmp_path: Path) -> None:
    """The first three stand for all of them."""
    log = tmp_path / "job.log"
    log.write_bytes(log_of(*steps(1, 5), *[RETRIED] * 9, *steps(6, 30), *traceback_of("KeyError: 'caption'")))
    assert f"and 6 more, to {log}:14" in run_logdiag("explain", str(log)).stdout.decode()
