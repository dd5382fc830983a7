"""What of a job's work is saved and what is lost, as its log tells."""

from __future__ import annotations

import pytest

from logdiag import Diagnosis
from logdiag.model import Progress
from logdiag.report import render
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, traceback_of


def train(first: int, last: int) -> list[str]:
    """Steps, one a minute, each with its clock."""
    return [f"2026-02-03 01:{at % 60:02}:00 INFO step {at}/500 loss=1.2" for at in range(first, last + 1)]


def failed(book: RuleBook, *lines: str) -> tuple[Diagnosis, Progress]:
    """The answer for a job of two ranks that dies at 01:50, and what it says of progress."""
    answer = diagnosed(book, "world_size=2", *lines, "2026-02-03 01:50:00 ERROR gone", *traceback_of("KeyError: 'x'"))
    assert answer.progress is not None
    return answer, answer.progress


def test_what_is_lost_since_the_last_complete_checkpoint(book: RuleBook) -> None:
    """Steps, seconds, and GPU-hours of all ranks; a person reads it in the report too."""
    saved = "2026-02-03 01:20:00 INFO saved checkpoint checkpoints/step-0020.pt"
    answer, progress = failed(book, *train(1, 20), saved, *train(21, 45))
    assert progress.checkpoint is not None
    assert (progress.checkpoint.step, progress.checkpoint.line) == (20, 22)
    assert (progress.steps_lost, progress.seconds_lost, progress.ranks) == (25, 1800.0, 2)
    assert progress.gpu_hours_lost == 1.0
    said = "25 steps since the checkpoint of step 20, 30 min of 2 ranks (1 GPU-hours)"
    for form in ("text", "html"):
        assert said in render(answer, form)


@pytest.mark.parametrize(
    ("begun", "done", "step"),
    [
        (
            "2026-02-03 01:10:00 INFO saving checkpoint at iteration      10 to /ckpt in torch_dist format",
            "2026-02-03 01:10:30 INFO   successfully saved checkpoint from iteration      10 to /ckpt",
            10,
        ),
        (
            "[2026-02-03 01:10:00] [INFO] [engine.py:21] [Torch] Saving /ckpt/global_step10/mp_00.pt...",
            "[2026-02-03 01:10:20] [INFO] [engine.py:40] [Torch] Checkpoint global_step10 is ready now!",
            10,
        ),
        (
            "2026-02-03 01:10:00 INFO Saving the checkpoint (or staging if async is enabled).",
            "2026-02-03 01:10:05 INFO Finished saving the checkpoint (or staging if async is enabled) in 5.01 seconds.",
            10,
        ),
    ],
)
def test_a_checkpoint_that_was_only_begun_is_none(begun: str, done: str, step: int, book: RuleBook) -> None:
    """Where the software says when one is complete; the one before counts, and the unfinished one is named."""
    cut = begun.replace("01:10:00", "01:30:00")
    _, progress = failed(book, *train(1, 10), begun, done, *train(11, 30), cut)
    assert progress.checkpoint is not None
    assert progress.checkpoint.text == done
    assert progress.checkpoint.step == step
    assert progress.unfinished is not None
    assert progress.unfinished.line == 34
    assert progress.steps_lost == 20


def test_a_save_that_the_job_outlived_counts(book: RuleBook) -> None:
    """Where the software never says that one is complete; a last one without a step after it does not."""
    first, last = "Saving model checkpoint to /out/checkpoint-10", "Saving model checkpoint to /out/checkpoint-40"
    _, progress = failed(book, *train(1, 10), first, *train(11, 40), last)
    assert progress.checkpoint is not None
    assert progress.checkpoint.step == 10
    assert progress.unfinished is not None
    assert progress.unfinished.step == 40


def test_a_job_that_began_from_a_checkpoint_loses_what_came_after(book: RuleBook) -> None:
    """Without a save of its own."""
    resumed = "2026-02-03 01:00:00 INFO resumed from checkpoints/step-400.pt at step 400"
    _, progress = failed(book, resumed, *train(401, 440))
    assert progress.steps_lost == 40


def test_what_the_log_does_not_tell_is_not_told(book: RuleBook) -> None:
    """No checkpoint, no word of loss; settings, failures and loading are no checkpoints."""
    lines = (
        "Saving checkpoint every 500 steps",
        "could not write the snapshot of step 10: no space left",
        "Loading checkpoint shards: 100%|##########| 2/2 [00:03<00:00,  1.71s/it]",
    )
    answer = diagnosed(book, *lines, *train(1, 20), *traceback_of("KeyError: 'x'"))
    assert answer.progress is None
    assert "Lost" not in render(answer, "text")
    clockless, progress = failed(book, *(f"step {at} loss=1" for at in range(1, 9)), "saved checkpoint step-8.pt")
    assert progress.gpu_hours_lost is None
    assert "GPU-hours" not in render(clockless, "text")
