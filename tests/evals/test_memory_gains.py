"""What the memory is worth on the committed cases: it gives what the rules forgot, and takes nothing away."""

from __future__ import annotations

from collections import defaultdict

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


def test_the_shipped_incidents_decide_nothing(cases: list[Case]) -> None:
    """With all rules on and a store that holds nothing of one's own, every judgement is that of the rules: two cases of
    each reason, and two healthy ones."""
    of_reason: dict[Reason, list[Case]] = defaultdict(list)
    for case in cases:
        of_reason[case.reasons[0]].append(case)
    some = [case for of_one in of_reason.values() for case in of_one[:2]]
    assert len(some) > 50
    changed = [
        one.case
        for one in measure_kept(some)
        if (one.rules.reason, one.rules.decided_by, one.rules.reason_right, one.rules.root_text)
        != (one.shipped.reason, one.shipped.decided_by, one.shipped.reason_right, one.shipped.root_text)
    ]
    assert changed == []


def test_what_the_rules_forgot_a_confirmed_case_teaches(cases: list[Case]) -> None:
    """With every rule of a reason off, words alone name half at most, one confirmed case of a fault names 95 % of its
    other cases, and the shipped incidents none. Three reasons; `evals/results/recall.json` has all, and their mean."""
    measured = []
    for reason in (Reason.ECC_ERROR, Reason.S3_STORAGE_ERROR, Reason.CUDA_ERROR):
        measured += measure_reason(
            reason, [case for case in cases if case.reasons[0] is reason and case.split == "dev"]
        )
    figures = summary(measured, [])["forgotten"]
    for name in ("ECCError", "S3StorageError", "CUDAError"):
        assert figures[name]["rules_left"] < 0.6
        assert figures[name]["with_shipped"] == figures[name]["rules_left"]
        assert figures[name]["learnt_cases"] >= 4
    assert figures["all"]["learnt"] >= 0.95


def test_what_an_exception_is_called_needs_no_rule(cases: list[Case], book: RuleBook) -> None:
    """With every rule of KeyError off, what the last line means still names three of five."""
    own = [case for case in cases if case.reasons[0] is Reason.KEY_ERROR and case.split == "dev"]
    left = [one.rules.reason_right for one in measure_kept(own, book=without(book, Reason.KEY_ERROR))]
    assert len(left) >= 20
    assert sum(left) >= 0.6 * len(left)


def test_a_forgotten_reason_has_no_rule(book: RuleBook) -> None:
    """The measurement takes out what it says: every rule and every row of the reason, and nothing else."""
    left = without(book, Reason.ECC_ERROR)
    gone = {rule.id for rule in book.rules} - {rule.id for rule in left.rules}
    assert gone == {
        rule.id for rule in book.rules if rule.reason == "ECCError" and rule.role in ("cause", "symptom", "hint")
    }
    rows = [row for rule in left.rules for row in rule.rows.values()]
    assert rows
    assert all(row.get("reason") != "ECCError" for row in rows)
