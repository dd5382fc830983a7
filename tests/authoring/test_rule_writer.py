"""The rule writer: a model's draft becomes a rule only through the gate, with what people said is the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdiag import diagnose
from logdiag.agent.ask import Asker
from logdiag.authoring.rule_file import Proposal, accept
from logdiag.authoring.rule_writer import draft_rule
from logdiag.errors import AgentError, RuleError
from logdiag.memory.incident import Helped, Incident
from logdiag.model import Action, Reason
from tests.agent_helpers import chat
from tests.chat_server import ChatServer, Reply, Script, says
from tests.helpers import log_of, steps
from tests.memory_helpers import incident

TOLD = {
    "action": Action.RETRY_LATER,
    "outcome": Helped.WORKED,
    "confirmed_by": "mira",
    "cause": "A copy had been cut short by node-17.",
    "remedy": "Seal the bundle again.",
}
BUNDLE = "BundleFault: shard 3 of bundle 'ab' is unsealed at /srv/ab/3"
GOOD = {
    "title": "A data bundle is unsealed",
    "why": "A bundle's seal is broken; the rank that opens it fails {early}.",
    "pattern": r"BundleFault: shard \d{1,9} of bundle .{1,80} is unsealed",
    "explains": ["NCCLTimeoutError", "Nonsense", "DatasetLoadingError"],
    "quiet": ["BundleFault: shard 3 of bundle 'ab' is sealed"],
    "action": "restart",
}

Draft = Callable[..., tuple[Proposal, ChatServer]]


def known(text: str = BUNDLE, reason: Reason = Reason.DATASET_LOADING_ERROR, **more: Any) -> Incident:
    """A confirmed incident."""
    return replace(incident(text, reason, **{**TOLD, **more}), id="7f3a")


@pytest.fixture
def draft() -> Draft:
    """Drafts a rule with a scripted model; gives the draft and the server."""

    def drafted(script: Script, *incidents: Incident, **more: Any) -> tuple[Proposal, ChatServer]:
        with ChatServer(script) as server:
            asker = Asker(chat(server), more.pop("seconds", 60))
            return draft_rule(incidents or (known(),), asker, **more), server

    return drafted


def test_a_draft_that_passes_is_a_rule(draft: Draft, tmp_path: Path) -> None:
    """It names the reason and the action that people confirmed, whatever the model says, and diagnoses the next log."""
    window = ("MASTER_ADDR=atlas-7", "opening bundle ab as /home/mira/x")
    found, server = draft([says(GOOD)], known(window=window))
    assert found.problems == ()
    assert "action: retry_later" in found.text
    assert "explains:\n- NCCLTimeoutError" in found.text
    assert "the rank that opens it fails (early)." in found.text
    assert not any(name in server.sent for name in ("atlas-7", "node-17", "/home/mira"))
    accept(found, tmp_path)
    log = log_of(*steps(1, 20), "BundleFault: shard 977 of bundle 'zz' is unsealed at /mnt/elsewhere/977")
    answer = diagnose(log, rules=[tmp_path])
    assert answer.root_cause is not None
    assert (answer.reason, answer.root_cause.rule) == (Reason.DATASET_LOADING_ERROR, found.id)
    assert answer.recovery.action is Action.RETRY_LATER


def test_what_the_gate_says_goes_back_to_the_model(draft: Draft) -> None:
    """A draft that takes another reason's line is refused; the next one may be better."""
    wide = {**GOOD, "pattern": "BundleFault"}
    other = known("BundleFault: shard 9 of bundle 'w' is on fire", Reason.OS_ERROR)
    found, server = draft([says(wide), says(GOOD)], others=[replace(other, id="81c2")])
    assert found.problems == ()
    assert len(server.requests) == 2
    assert "fires on incident 81c2, which is OSError" in server.requests[1].body["messages"][1]["content"]


@pytest.mark.parametrize(
    "wrong",
    [{"pattern": "(["}, {"pattern": r"(?:\w+\s?)+ is unsealed"}, {"pattern": "no such words here"}],
    ids=["no pattern", "runs away", "misses its line"],
)
def test_a_draft_that_never_passes_cannot_be_accepted(draft: Draft, tmp_path: Path, wrong: dict[str, str]) -> None:
    """It comes with what is wrong with it."""
    found, server = draft([says({**GOOD, **wrong})])
    assert found.problems
    assert tmp_path.name not in found.problems[0]
    assert len(server.requests) == 3
    with pytest.raises(RuleError, match="did not pass"):
        accept(found, tmp_path)


@pytest.mark.parametrize("text", ["", "sorry", '{"pattern": 3}', '{"pattern": "x", "title": "", "why": "y"}'])
def test_answers_without_form_are_an_error(draft: Draft, text: str) -> None:
    """After three tries, and nothing is drafted."""
    with pytest.raises(RuleError, match="drafted no rule"):
        draft([says(text)])


def test_only_what_people_confirmed_is_drafted_from(draft: Draft) -> None:
    """And of one reason; a model that fails is named with its failure."""
    with pytest.raises(RuleError, match="nobody confirmed it"):
        draft([says(GOOD)], known(confirmed_by=""))
    with pytest.raises(RuleError, match="one reason"):
        draft([says(GOOD)], known(), known(reason=Reason.OS_ERROR))
    with pytest.raises(AgentError, match="HTTP 500"):
        draft([Reply(status=500)])
