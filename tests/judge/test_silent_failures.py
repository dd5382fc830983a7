"""Runs that went wrong without an exception, and others that only look so."""

from __future__ import annotations

import pytest

from logdiag.judge.verdict import SURE
from logdiag.model import Action
from logdiag.report import render
from logdiag.rules import RuleBook
from tests.helpers import diagnosed

STEPS = [f"step {at} loss {3 / (at + 1):.3f} grad_norm 1.{at}" for at in range(30)]
NAN = [f"step {at} loss nan grad_norm nan" for at in range(30, 60)]


@pytest.mark.parametrize("speed", ["", ", 12.5 samples/s"])
def test_a_run_that_went_nan_is_no_healthy_one(book: RuleBook, speed: str) -> None:
    """Thirty steps with a loss, then thirty without; that they are counted and timed makes them no work."""
    answer = diagnosed(book, *STEPS, *(line + speed for line in NAN))
    assert answer.failed
    assert answer.root_cause is not None
    assert answer.root_cause.rule == "training/loss-stays-not-finite"
    assert answer.recovery.action is Action.ROLLBACK_AND_SKIP
    # No rule is sure of it, so it is advice.
    assert answer.confidence < SURE
    assert not answer.recovery.automatic
    assert "advice" in render(answer)


def test_a_few_steps_without_a_loss_are_recovered_from(book: RuleBook) -> None:
    """A loss scaler drops them, and the loss comes back."""
    answer = diagnosed(book, *STEPS, *NAN[:3], *(line.replace("step ", "step 9") for line in STEPS))
    assert not answer.failed


def test_an_exception_after_them_is_the_root(book: RuleBook) -> None:
    """What ended the job tells more than what it had met before."""
    ended = ["Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "KeyError: 'text'"]
    answer = diagnosed(book, *STEPS, *NAN[:3], *ended)
    assert answer.root_cause is not None
    assert answer.root_cause.text == "KeyError: 'text'"


@pytest.mark.parametrize(
    "told", ["[ERROR] no progress for 7200s, dumping stacks", "no progress in the last 30 minutes"]
)
def test_a_watchdog_that_saw_no_progress_tells_of_a_failure(book: RuleBook, told: str) -> None:
    """The stacks below it are no exception, and what kills the job is not the cause."""
    stacks = ['  File "train.py", line 33, in step', "    loss = model(x)", "[ERROR] killing job"]
    answer = diagnosed(book, *STEPS, told, *stacks)
    assert answer.failed
    assert answer.root_cause is not None
    assert answer.root_cause.text == told
    assert answer.recovery.action is Action.RESTART


def test_a_job_that_went_on_made_progress(book: RuleBook) -> None:
    """A slow file system, and work again."""
    assert not diagnosed(book, *STEPS[:10], "WARNING no progress for 600s", *STEPS[10:]).failed
