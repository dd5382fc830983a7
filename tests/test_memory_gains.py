"""What the memory is worth on the committed cases: it gives what the rules forgot, and takes nothing away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evals.recall import measure_kept, measure_reason, summary, without
from logdiag.evaluation.cases import Case, load_cases
from logdiag.model import Reason
from logdiag.rules import RuleBook
from tests.helpers import ROOT

CASES = ROOT / "evals" / "cases"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """All committed cases."""
    return list(load_cases([str(CASES)]).cases)


@pytest.mark.parametrize("part", range(4))
def test_the_shipped_incidents_make_no_answer_worse(cases: list[Case], part: int) -> None:
    """With all rules on: nothing that was right becomes wrong, and no healthy job is called failed that was not."""
    measured = measure_kept(cases[part::4])
    assert summary([], measured)["kept"]["made_wrong"] == []
    alarms = [one.case for one in measured if one.rules.healthy and one.rules.reason_right > one.shipped.reason_right]
    assert alarms == []


def test_what_the_rules_forgot_the_memory_knows(cases: list[Case]) -> None:
    """With every rule of a reason off, the shipped incidents name at least 70 % of its failures, and one confirmed
    case of a fault 95 % of its other cases. Three reasons; `evals/results/recall.json` has all, and their mean."""
    measured = []
    for reason in (Reason.KEY_ERROR, Reason.OS_ERROR, Reason.SYNTAX_ERROR):
        own = [replace(case, split=None) for case in cases if case.reasons[0] is reason and case.split == "dev"]
        measured += measure_reason(reason, own, own)
    figures = summary(measured, [])["forgotten"]
    for name in ("KeyError", "OSError", "SyntaxError"):
        assert figures[name]["rules_left"] < 0.5
        assert figures[name]["with_shipped"] >= 0.7
        assert figures[name]["learnt_cases"] >= 4
    assert figures["all"]["learnt"] >= 0.95


def test_a_forgotten_reason_has_no_rule(proof_book: RuleBook) -> None:
    """The measurement takes out what it says: every rule and every row of the reason, and nothing else."""
    left = without(proof_book, Reason.ECC_ERROR)
    gone = {rule.id for rule in proof_book.rules} - {rule.id for rule in left.rules}
    assert gone == {
        rule.id for rule in proof_book.rules if rule.reason == "ECCError" and rule.role in ("cause", "symptom", "hint")
    }
    rows = [row for rule in left.rules for row in rule.rows.values()]
    assert rows
    assert all(row.get("reason") != "ECCError" for row in rows)
