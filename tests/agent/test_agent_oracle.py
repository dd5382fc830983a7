"""An oracle that knows the labels is heard on every case: what the model is shown and may cite loses nothing."""

from __future__ import annotations

import pytest

from logdiag import diagnose
from logdiag.agent.consult import consult
from logdiag.evaluation.cases import Case, load_cases
from logdiag.rules import RuleBook
from tests.agent_helpers import SETTINGS, chat
from tests.chat_server import ChatServer
from tests.helpers import ROOT
from tests.oracle import oracle


def some_cases() -> list[Case]:
    """Every so-manieth of the development cases that have a root line."""
    cases = load_cases([str(ROOT / "evals" / "cases" / "dev.jsonl.zst")]).cases
    return [case for case in cases if case.roots][::12]


@pytest.mark.parametrize("case", some_cases(), ids=lambda case: case.id)
def test_what_the_oracle_says_is_heard(book: RuleBook, case: Case) -> None:
    """With the label's reason, at a line that the log has."""
    diagnosis = diagnose(case.source, rules=book, memory=False)
    with ChatServer(oracle(case)) as server:
        done = consult(diagnosis, (case.source,), SETTINGS, book=book, model=chat(server))
    assert done.opinion is not None, done.notes
    assert done.opinion.reason is case.reasons[0]
    assert done.opinion.root is not None
