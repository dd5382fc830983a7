"""On real labelled failures, rules alone are right as often as the project promises."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from logdiag import Diagnosis, Reason, diagnose
from logdiag.rules import RuleBook
from tests.helpers import SHARED

CASES = SHARED / "reallogs" / "dev.jsonl"

pytestmark = [
    pytest.mark.skipif(not CASES.exists(), reason="the labelled failures are not here"),
    pytest.mark.xdist_group("dev logs"),  # one worker diagnoses them, for all tests here
]


@dataclass(frozen=True)
class Outcome:
    """A case and its answer."""

    case: dict[str, Any]
    answer: Diagnosis

    @property
    def reasons(self) -> list[str]:
        """The reasons that count as right."""
        return [self.case["reason"], *self.case.get("also_ok", [])]

    @property
    def reason_right(self) -> bool:
        """One of the accepted reasons."""
        return self.answer.reason.value in self.reasons

    @property
    def category_right(self) -> bool:
        """The category of one of the accepted reasons."""
        return self.answer.category.value in {Reason(name).category.value for name in self.reasons}

    @property
    def root_right(self) -> bool:
        """The root line is the labelled one or an accepted second."""
        root = self.answer.root_cause
        if root is None:
            return bool(self.case["reason"] == "none")
        lines = self.case["log"].split("\n")
        line = lines[root.line - 1] if root.line <= len(lines) else ""
        return any(text and text in line for text in (self.case["root_line"], *self.case.get("also_root", [])))

    @property
    def action_right(self) -> bool:
        """One of the accepted actions."""
        return self.answer.recovery.action.value in [self.case["action"], *self.case.get("also_action", [])]


@pytest.fixture(scope="module")
def outcomes(book: RuleBook) -> list[Outcome]:
    """All cases, diagnosed."""
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    return [Outcome(case, diagnose(case["log"].encode(), rules=book)) for case in cases]


@pytest.mark.parametrize(
    ("part", "least"), [("reason_right", 0.93), ("category_right", 0.97), ("root_right", 0.93), ("action_right", 0.88)]
)
def test_the_answer_is_right_often_enough(outcomes: list[Outcome], part: str, least: float) -> None:
    """The share that the first release promises."""
    misses = [outcome.case["id"] for outcome in outcomes if not getattr(outcome, part)]
    assert 1 - len(misses) / len(outcomes) >= least, misses


def test_no_healthy_log_is_called_failed(outcomes: list[Outcome]) -> None:
    """No false alarm."""
    healthy = [outcome for outcome in outcomes if outcome.case["reason"] == "none"]
    assert healthy
    assert [outcome.case["id"] for outcome in healthy if outcome.answer.failed] == []


def test_hardly_a_wrong_answer_is_sure_of_itself(outcomes: list[Outcome]) -> None:
    """At most one answer in a hundred is wrong with a confidence of 0.7 or more."""
    sure = [outcome.case["id"] for outcome in outcomes if not outcome.reason_right and outcome.answer.confidence >= 0.7]
    assert len(sure) <= 0.01 * len(outcomes), sure
