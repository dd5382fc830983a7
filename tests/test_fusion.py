"""Who decides, case by case: a model names what rules and memory left open, and loosens nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logdiag import Action, Category, Diagnosis, Reason, diagnose
from logdiag.agent.opinion import AgentSettings, leaves_open
from logdiag.read.sources import Source
from logdiag.rules import RuleBook
from tests.agent_helpers import NAME, answer, job_log
from tests.chat_server import ChatServer, Reply, calls
from tests.helpers import log_of, steps, traceback_of, watchdog

ECC = "NVRM: Xid (PCI:0000:3b:00): 48, pid=3121, An uncorrectable double bit error (DBE) has been detected on GPU"
UNKNOWN = "quartz.lattice.Fault: the third lattice sings"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ChatServer:
    """A scripted model; its script is set by the test."""
    server = ChatServer(lambda body: calls("answer"))
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


def ask(
    server: ChatServer,
    book: RuleBook,
    source: Source,
    *,
    when: str = "unsure",
    exit_code: int | None = None,
    **said: Any,
) -> Diagnosis:
    """The diagnosis of a log by rules and a model that answers so; without the memory, which has a test of its own."""
    server.script = lambda body: calls("answer", **answer(**said))
    with server:
        return diagnose(
            source, rules=book, memory=False, llm=AgentSettings(NAME, timeout=20.0, when=when), exit_code=exit_code
        )


def job(folder: Path, *lines: str) -> Path:
    """A log as a file."""
    path = folder / "lines.log"
    path.write_bytes(log_of(*lines))
    return path


def cited(number: int, text: str) -> dict[str, Any]:
    """An answer's root line, and nothing beside it."""
    return {"root_line": {"source": 1, "number": number, "quote": text}, "evidence": []}


def test_what_the_rules_left_open_is_named_by_the_model(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """The reason and the line are the model's, the rank is that line's, and the answer says who decided."""
    log = job(tmp_path, *steps(1, 9), *traceback_of(UNKNOWN))
    alone = diagnose(log, rules=book, memory=False)
    number = 9 + len(traceback_of(UNKNOWN))
    after = ask(server, book, log, **cited(number, UNKNOWN))
    assert leaves_open(alone)
    assert alone.reason is Reason.OTHERS
    assert (after.reason, after.decided_by) == (Reason.DATASET_LOADING_ERROR, "agent")
    assert after.root_cause is not None
    assert (after.root_cause.line, after.root_cause.rule) == (number, f"agent/{NAME}")
    assert after.confidence <= 0.8, "never more than the model itself says"
    assert after.stats["tokens"] > 0
    assert "To be sure: Read shard 18 alone." in after.recovery.steps


@pytest.mark.parametrize("ending", [[ECC], traceback_of("ZeroDivisionError: division by zero")], ids=["ecc", "code"])
def test_a_sure_rule_is_not_overruled(ending: list[str], server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """Asked all the same, the model's other reading is a note; the verdict is the rules' in every field."""
    log = job(tmp_path, *steps(1, 9), "feeder jammed: the conveyor", *ending)
    alone = diagnose(log, rules=book, memory=False)
    after = ask(server, book, log, when="always", **cited(10, "feeder jammed: the conveyor"))
    assert (after.reason, after.root_cause, after.recovery, after.confidence, after.decided_by) == (
        alone.reason, alone.root_cause, alone.recovery, alone.confidence, "rules",
    )  # fmt: skip
    assert any("reads it as DatasetLoadingError" in note for note in after.notes)


def test_a_sure_answer_asks_nobody(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """By default a model is asked only where rules and memory are unsure."""
    ask(server, book, job(tmp_path, *steps(1, 9), ECC))
    assert server.requests == []


def test_a_finished_job_asks_nobody(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """Nor is a healthy log a question."""
    after = ask(server, book, job(tmp_path, *steps(1, 30), "Training completed."))
    assert server.requests == []
    assert after.failed is False


def test_a_fault_of_a_machine_is_not_softened(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """Even where the rules are unsure, what they took for a machine's fault does not become the program's."""
    warning = "2026-11-21 10:00:01,000 WARNING controller.py:100] The cluster is preempted by its owner."
    log = job(tmp_path, *steps(1, 9), "feeder jammed: the conveyor", warning)
    alone = diagnose(log, rules=book, memory=False)
    after = ask(server, book, log, when="always", **cited(10, "feeder jammed: the conveyor"))
    assert alone.category is Category.INFRASTRUCTURE
    assert (after.reason, after.recovery) == (alone.reason, alone.recovery)


def test_a_stop_does_not_become_a_restart(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """A reason whose remedy a scheduler could carry out changes the words, not who may act."""
    log = job(tmp_path, *steps(1, 9), *traceback_of(UNKNOWN))
    alone = diagnose(log, rules=book, memory=False)
    number = 9 + len(traceback_of(UNKNOWN))
    after = ask(server, book, log, reason="NodeFailure", **cited(number, UNKNOWN))
    assert (alone.recovery.action, alone.recovery.automatic) == (Action.FIX_AND_RESUBMIT, False)
    assert after.reason is Reason.NODE_FAILURE
    assert (after.recovery.action, after.recovery.automatic) == (Action.FIX_AND_RESUBMIT, False)
    assert after.recovery.exclude_nodes == ()
    assert "a person decides" in after.recovery.why


def test_where_no_failure_was_seen_a_model_gives_work_to_a_person_only(
    server: ChatServer, book: RuleBook, tmp_path: Path
) -> None:
    """A silent log may be called failed by a model, but nothing follows by itself."""
    log = job(tmp_path, "loader: shard 17 opened", "feeder jammed: the conveyor of shard 18 does not turn")
    after = ask(server, book, log, reason="CUDAError", **cited(2, "feeder jammed: the conveyor of shard 18"))
    assert (after.failed, after.decided_by) == (True, "agent")
    assert after.recovery.automatic is False


def test_a_known_exit_code_cannot_be_talked_away(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """The job is known to have failed; a model that sees no failure in its log does not change that."""
    log = job(tmp_path, "loader: shard 17 opened", "loader: shard 18 opened")
    alone = diagnose(log, rules=book, memory=False, exit_code=1)
    after = ask(server, book, log, exit_code=1, reason="none", root_line=None, evidence=[])
    assert (after.failed, after.reason, after.decided_by) == (True, alone.reason, alone.decided_by)
    assert after.decided_by != "agent"


def test_the_confidence_is_never_above_the_models_own(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """A guess stays a guess."""
    log = job(tmp_path, *steps(1, 9), *traceback_of(UNKNOWN))
    number = 9 + len(traceback_of(UNKNOWN))
    assert ask(server, book, log, confidence=0.2, **cited(number, UNKNOWN)).confidence == 0.2


def test_a_failure_cannot_be_talked_away(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """The reason `none` for a failed job changes nothing."""
    log = job(tmp_path, *steps(1, 9), *traceback_of(UNKNOWN))
    alone = diagnose(log, rules=book, memory=False)
    after = ask(server, book, log, reason="none", root_line=None, evidence=[])
    assert (after.failed, after.reason, after.recovery) == (True, alone.reason, alone.recovery)


@pytest.mark.parametrize("last", [UNKNOWN, "quartz.lattice.ShardFault: the lattice shard could not be decoded"])
def test_a_line_that_the_job_survived_is_no_cause(
    last: str, server: ChatServer, book: RuleBook, tmp_path: Path
) -> None:
    """What the model names must stand up to how the log goes on, whether or not the last words name a reason."""
    survived = "ERROR feeder jammed: the conveyor of shard 18 does not turn"
    log = job(tmp_path, *steps(1, 9), survived, *steps(10, 30), *traceback_of(last))
    after = ask(server, book, log, **cited(10, survived))
    assert after.root_cause is None or after.root_cause.line != 10


def test_the_first_answer_comes_before_the_model_is_asked(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """Whoever waits has the answer of rules and memory while the model thinks."""
    order: list[str] = []

    def script(body: dict[str, Any]) -> Reply:
        order.append("asked")
        return calls("answer", **answer())

    server.script = script
    with server:
        diagnose(
            job_log(tmp_path), rules=book, memory=False, llm=AgentSettings(NAME, when="always"),
            first=lambda answer: order.append(answer.decided_by),
        )  # fmt: skip
    assert order[:2] == ["rules", "asked"]


@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_model_that_fails_leaves_the_verdict(status: int, server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """The answer is that of rules and memory, with one note about the model."""
    log = job(tmp_path, *steps(1, 9), *traceback_of(UNKNOWN))
    alone = diagnose(log, rules=book, memory=False)
    server.script = lambda body: Reply(status=status)
    with server:
        after = diagnose(log, rules=book, memory=False, llm=AgentSettings(NAME, timeout=5.0))
    assert (after.reason, after.confidence, after.recovery) == (alone.reason, alone.confidence, alone.recovery)
    assert sum("rules and memory decided" in note for note in after.notes) == 1


def test_what_peers_print_may_be_explained_by_a_program(server: ChatServer, book: RuleBook, tmp_path: Path) -> None:
    """A collective's time-out is a symptom: the line that says why one rank stayed away is taken for the cause."""
    waiting = [watchdog(rank) for rank in (0, 1, 2)]
    log = job(tmp_path, *steps(1, 9), "[rank3] feeder jammed: the conveyor does not turn", *waiting)
    alone = diagnose(log, rules=book, memory=False)
    after = ask(server, book, log, rank=3, **cited(10, "feeder jammed: the conveyor"))
    assert alone.reason is Reason.NCCL_TIMEOUT_ERROR
    assert (after.reason, after.decided_by) == (Reason.DATASET_LOADING_ERROR, "agent")
    assert after.root_cause is not None
    assert (after.root_cause.line, after.root_cause.rank) == (10, 3)
    assert not after.recovery.automatic or alone.recovery.automatic
