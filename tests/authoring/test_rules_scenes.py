"""`rules test` proves what a rule says beside its patterns, by short logs made of its examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdiag.authoring.scenes import prove
from logdiag.rules import RuleBook
from tests.helpers import rule_text, write_rule

FRAME = '  File "/srv/job/train.py", line 88, in widget_jammed'
SCENE = """  scenes:
    - about: The widget jams while the spools turn.
      log: |
        error: widget jammed
        step: 1 loss: 2.99
      answer: {failed: true, reason: RuntimeError, root: ROOT}
"""


def unproved(folder: Path, text: str) -> list[str]:
    """What is said of one rule of one's own, loaded with the shipped ones."""
    write_rule(folder, "ours/widget", text)
    return [problem.what for problem in prove(RuleBook.load([folder]), {"ours/widget"})]


@pytest.mark.parametrize("half", [0, 1])
def test_each_word_of_a_shipped_rule_changes_an_answer(book: RuleBook, half: int) -> None:
    """Each `goes_on`, `ends`, `closes`, `action_before_progress` and reason of `explains`."""
    own = {rule.id for rule in book.rules[half::2]}
    assert [str(problem) for problem in prove(book, own)] == []


@pytest.mark.parametrize(
    "more",
    [
        {"goes_on": "true"},
        {"ends": "true"},
        {"closes": "true", "role": "symptom"},
        {"action": "restart", "action_before_progress": "fix_and_resubmit"},
        {"explains": "[KeyError]"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_word_that_counts_is_proved(tmp_path: Path, more: dict[str, str]) -> None:
    """By scenes made of the rule's own example; none has to be written."""
    assert unproved(tmp_path, rule_text(**more)) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"goes_on": "true", "role": "progress", "reason": "null"}, "goes_on changes no answer"),
        ({"closes": "true", "role": "progress", "reason": "null"}, "closes changes no answer"),
        ({"action": "restart", "action_before_progress": "restart"}, "action_before_progress changes no answer"),
        ({"reason": "NodeFailure", "explains": "[NCCLRemoteError]"}, "explains: NCCLRemoteError changes no answer"),
    ],
    ids=["goes_on", "closes", "action_before_progress", "what the reason explains already"],
)
def test_a_word_that_changes_nothing_is_named(tmp_path: Path, more: dict[str, str], said: str) -> None:
    """It may be left out, or its author thought it did something else."""
    reason = more.pop("reason", "RuntimeError")
    folder = "context" if reason == "null" else "ours"
    write_rule(tmp_path, f"{folder}/widget", rule_text(reason=None if reason == "null" else reason, **more))
    (problem,) = prove(RuleBook.load([tmp_path]), {f"{folder}/widget"})
    assert problem.what == said
    assert problem.line > 1


def test_a_cause_must_be_able_to_be_one(tmp_path: Path) -> None:
    """A frame of a traceback is source text, whatever a rule says of it."""
    assert unproved(tmp_path, rule_text(match=["widget_jammed"], fires=[FRAME])) == [
        "no example alone is a failed job's cause"
    ]


def test_a_written_scene_is_answered_as_it_says(tmp_path: Path) -> None:
    """What scenes made of the examples cannot show."""
    assert unproved(tmp_path, rule_text() + SCENE.replace("ROOT", "1")) == []
    wrong = unproved(tmp_path, rule_text() + SCENE.replace("ROOT", "2"))
    assert wrong == ["the scene 'The widget jams while the spools turn.' is answered True, RuntimeError, line 1"]
