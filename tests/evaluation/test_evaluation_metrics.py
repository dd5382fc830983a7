"""Numbers over rows, by hand and by property."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdiag.evaluation.metrics import (
    METRICS,
    by_reason,
    by_split,
    intervals,
    measure,
    reliability,
    wilson,
)
from logdiag.evaluation.scoring import Row, failed_row, judge
from logdiag.model import Action, Reason
from tests.evaluation_helpers import answer, below_interval, case_of, row_of


@st.composite
def made_up_rows(draw: st.DrawFn) -> list[Row]:
    """Rows of any truth, answer and confidence."""
    names = st.sampled_from(["KeyError", "TypeError", "KeyError TypeError", "ECCError", "none", "Others"])
    answers = st.sampled_from(["KeyError", "TypeError", "ECCError", "none"])
    pairs = st.lists(st.tuples(names, answers, st.floats(0, 1)), min_size=1, max_size=12)
    return [row_of(*pair, id=str(at)) for at, pair in enumerate(draw(pairs))]


# --- one case ---


@pytest.mark.parametrize(
    ("accepted", "answered", "restart", "stop"),
    [
        ("fix_and_resubmit", "restart", True, False),
        ("fix_and_resubmit", "reduce_memory", False, False),
        ("restart", "fix_and_resubmit", False, True),
        ("restart", "retry_later", False, False),
        ("restart fix_and_resubmit", "fix_and_resubmit", False, False),
        ("restart fix_and_resubmit", "retry_later", False, False),
        ("none", "restart", True, False),
    ],
)
def test_false_restarts_and_false_stops(accepted: str, answered: str, restart: bool, stop: bool) -> None:
    """A restart nobody accepts; a person called although every accepted action needs none."""
    case = case_of(actions=tuple(Action(name) for name in accepted.split()))
    row = judge(case, answer(action=Action(answered)), 0.0)
    assert (row.false_restart, row.false_stop) == (restart, stop)


@pytest.mark.parametrize(
    ("log", "text", "number", "right"),
    [
        ("a\nKeyError: 'caption'\n", "KeyError: 'caption'", 2, True),
        ("a\nb KeyError: 'caption' c\n", "cleaned", 2, True),
        ("a\nKeyError: 'caption'\n", "a", 1, False),
        ("a\nKeyError: 'caption'\n", "beyond", 9, False),
        ('{"log":"a"}\n{"log":"KeyError: \'caption\'\\n"}\n', "KeyError: 'caption'", 2, True),
    ],
)
def test_a_root_line_is_right_as_it_stands_or_as_it_was_read(log: str, text: str, number: int, right: bool) -> None:
    """The label may stand in the raw line or in the line without envelope and colours."""
    row = judge(case_of(log=log), answer(root=("<bytes>", number, text)), 0.0)
    assert row.root_right is right


def test_a_second_reading_is_right_too() -> None:
    """Of the reason, the root line and the action; the category of an accepted reason is right."""
    case = case_of(
        reasons=(Reason.TYPE_ERROR, Reason.ECC_ERROR),
        roots=("nowhere", "step: 1"),
        actions=(Action.RESTART, Action.RETRY_LATER),
    )
    said = answer(reason=Reason.ECC_ERROR, action=Action.RETRY_LATER, root=("<bytes>", 1, "step: 1 loss: 3.0"))
    row = judge(case, said, 0.0)
    assert (row.reason_right, row.category_right, row.root_right, row.action_right) == (True, True, True, True)
    assert not row.missed


def test_only_what_is_labelled_is_judged() -> None:
    """Rank and node without a label are not; a rank labelled as none is."""
    assert judge(case_of(), answer(rank=3, node="n1"), 0.0).rank_right is None
    assert judge(case_of(), answer(rank=3, node="n1"), 0.0).node_right is None
    assert judge(case_of(rank=None), answer(rank=3), 0.0).rank_right is False
    assert judge(case_of(rank=3), answer(rank=3), 0.0).rank_right is True
    assert [judge(case_of(rank=3, rank_also=[5]), answer(rank=rank), 0.0).rank_right for rank in (5, 4)] == [
        True,
        False,
    ]
    assert judge(case_of(node="n1"), answer(node="n1"), 0.0).node_right is True


def test_the_digest_is_searched_for_the_labelled_line() -> None:
    """By its text, or by its number where the digest's text is a cleaned one."""
    kept = (("<bytes>", 2, "KeyError: 'caption'"),)
    assert judge(case_of(), answer(kept=kept, lines=3), 0.0).survived is True
    assert judge(case_of(), answer(kept=kept, lines=3), 0.0).kept_share == round(1 / 3, 6)
    assert judge(case_of(), answer(kept=(("<bytes>", 2, "cleaned"),), lines=3), 0.0).survived is True
    assert judge(case_of(), answer(kept=(("<bytes>", 1, "step: 1"),), lines=3), 0.0).survived is False
    assert judge(case_of(), answer(), 0.0).survived is None


def test_no_answer_is_wrong_in_every_respect() -> None:
    """With a confidence of 0, so that it is no confident error."""
    row = failed_row(case_of(rank=3, node="n", actions=(Action.RESTART,)), "it broke", 0.1)
    judged = (row.reason_right, row.category_right, row.root_right, row.rank_right, row.node_right, row.action_right)
    assert set(judged) == {False}
    assert (row.survived, row.false_stop, row.false_restart, row.confidence) == (False, True, False, 0.0)
    metrics = measure([row])
    assert metrics["missed_failure_rate"] == 1
    assert metrics["confident_error_rate"] == 0
    assert metrics["abstention_rate"] == 1
    assert measure([failed_row(case_of(reasons=(Reason.NONE,), roots=()), "it broke", 0.1)])["false_alarm_rate"] == 1


# --- over all cases ---


def test_the_scores_of_four_cases() -> None:
    """F1 by hand: KeyError 2/3, TypeError 1/2... and one case of each kind of confidence."""
    rows = [
        row_of("KeyError", "KeyError", 0.95),
        row_of("KeyError", "TypeError", 0.75),
        row_of("TypeError", "TypeError", 0.55),
        row_of("none", "none", 0.85),
    ]
    metrics = measure(rows)
    assert metrics["reason_accuracy"] == 0.75
    assert metrics["category_accuracy"] == 1
    assert metrics["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3, abs=1e-6)
    assert metrics["confident_error_rate"] == 0.25
    assert metrics["abstention_rate"] == 0.25
    assert metrics["missed_failure_rate"] == 0
    assert metrics["false_alarm_rate"] == 0
    assert metrics["ece"] == pytest.approx((0.05 + 0.75 + 0.45 + 0.15) / 4, abs=1e-6)


def test_an_accepted_second_reason_is_the_truth_of_its_case() -> None:
    """It costs no class anything."""
    rows = [row_of("KeyError TypeError", "TypeError"), row_of("KeyError", "KeyError")]
    assert measure(rows)["macro_f1"] == 1
    assert {name: row["n"] for name, row in by_reason(rows).items()} == {"KeyError": 2}


def test_what_no_case_shows_is_not_measured() -> None:
    """Not 0 and not 1, and without an interval."""
    metrics = measure([row_of("none", "none")])
    unmeasured = (
        "first_rank_hit",
        "node_hit",
        "missed_failure_rate",
        "root_line_survival",
        "cost",
    )
    assert {metrics[name] for name in unmeasured} == {None}
    assert not set(unmeasured) & set(intervals([row_of("none", "none")]))
    baseline = measure([row_of("KeyError", "KeyError", None)])
    assert [baseline[name] for name in ("confident_error_rate", "abstention_rate", "ece")] == [None] * 3
    assert set(measure([]).values()) == {None}
    assert intervals([]) == {}


def test_a_rank_that_is_not_there_is_no_hit() -> None:
    """The share is over the cases that have a first failing rank."""
    rows = [
        judge(case_of(rank=3), answer(rank=3), 0.0),
        judge(case_of(rank=4), answer(rank=3), 0.0),
        judge(case_of(rank=None), answer(), 0.0),
    ]
    assert measure(rows)["first_rank_hit"] == 0.5


def test_tokens_cost_and_lines_are_summed() -> None:
    """Where a model was used, and over all lines."""
    rows = [
        judge(case_of(), answer(tokens=10, cost=0.5, kept=((("<bytes>", 1, "a")),), lines=9), 0.2),
        judge(case_of(), answer(kept=((("<bytes>", 1, "a")),), lines=1), 0.4),
    ]
    metrics = measure(rows)
    assert (metrics["tokens"], metrics["cost"], metrics["kept_share"]) == (10, 0.5, 0.2)
    assert metrics["latency_p50"] == pytest.approx(0.3)
    assert metrics["latency_p95"] == pytest.approx(0.39)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(8, 10, 0.4902, 0.9433), (0, 20, 0.0, 0.1611), (25, 25, 0.8668, 1)]
)
def test_wilsons_interval(hits: int, count: int, low: float, high: float) -> None:
    """As in tables."""
    assert wilson(hits, count)[0] == pytest.approx(low, abs=1e-4)
    assert wilson(hits, count)[1] == pytest.approx(high, abs=1e-4)


@given(made_up_rows())
def test_shares_are_shares_and_intervals_hold_them(rows: list[Row]) -> None:
    """Whatever the rows; and an evaluation is never worse than its own interval."""
    metrics, spans = measure(rows), intervals(rows)
    assert list(metrics) == list(METRICS)
    for name, value in metrics.items():
        if METRICS[name].kind in ("share", "error") and value is not None:
            assert 0 <= value <= 1
    for name, (low, high) in spans.items():
        assert 0 <= low <= high <= 1
        value = metrics[name]
        assert value is not None
        assert low - 1e-6 <= value <= high + 1e-6
    assert sum(item["n"] for item in reliability(rows)) == len(rows)


@given(made_up_rows())
def test_the_accuracy_of_a_class_is_its_recall(rows: list[Row]) -> None:
    """With one accepted reading a case, the table's columns agree with each other."""
    single = [row for row in rows if len(row.accepted_reasons) == 1]
    for row in by_reason(single).values():
        assert row["recall"] == pytest.approx(float(row["right"] or 0) / float(row["n"] or 1), abs=1e-6)


def test_intervals_narrow_with_more_cases() -> None:
    """Ten times the cases, a third of the width."""
    few = [row_of("KeyError", "KeyError" if at % 5 else "TypeError") for at in range(50)]
    narrow, wide = intervals(few * 10)["reason_accuracy"], intervals(few)["reason_accuracy"]
    assert math.isclose((wide[1] - wide[0]) / (narrow[1] - narrow[0]), math.sqrt(10), rel_tol=0.35)


def test_cases_of_one_fault_count_as_what_they_are_worth() -> None:
    """Always judged alike, as one; independent of each other, as many; all right, as one too."""

    def width(hits: Sequence[Sequence[bool]]) -> float:
        rows = [
            row_of("KeyError", "KeyError" if hit else "TypeError", fault=f"fault-{at}")
            for at, fault in enumerate(hits)
            for hit in fault
        ]
        low, high = intervals(rows)["reason_accuracy"]
        return high - low

    alone = [[at % 4 > 0] for at in range(40)]
    alike = [[at % 4 > 0] * 5 for at in range(40)]
    independent = [[(at + other) % 4 > 0 for other in range(5)] for at in range(40)]
    assert width(alike) == pytest.approx(width(alone), rel=0.05)
    assert width(independent) < 0.6 * width(alone)
    assert width([[True] * 5] * 40) == pytest.approx(width([[True]] * 40), abs=1e-9)
    assert width([[True, True, False]]) > width([[True], [True], [False]])


def test_splits_are_measured_apart() -> None:
    """Those that cases name; none without."""
    rows = [row_of("KeyError", "KeyError", split="dev"), row_of("KeyError", "TypeError", split="held-back")]
    table = by_split(rows)
    assert {name: (row["n"], row["reason_accuracy"]) for name, row in table.items()} == {
        "dev": (1, 1.0),
        "held-back": (1, 0.0),
    }
    assert by_split([row_of("KeyError", "KeyError")]) == {}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("reason_accuracy", 0.80, "is below 0.9000"),
        ("reason_accuracy", 0.90, None),
        ("reason_accuracy", 1.0, None),
        ("ece", 0.2, "is above 0.1000"),
        ("ece", 0.0, None),
        ("root_line_hit", None, "is not any more"),
    ],
)
def test_the_gate_tells_what_is_worse_than_the_interval(name: str, value: float | None, said: str | None) -> None:
    """Below it where more is better, above it where less is; better than it is fine."""
    old: dict[str, Any] = {
        "intervals": {name: [0.0, 0.1] if name == "ece" else [0.9, 0.95], "of a later version": [0, 1]}
    }
    found = below_interval(old, {name: value})
    assert [said in sentence for sentence in found if said] == ([True] if said else [])
    assert all(sentence.startswith(name) for sentence in found)
