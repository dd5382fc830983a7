"""The command with a language model: who speaks first, what is shown, and that nothing holds it up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.agent.opinion import AgentSettings
from logdiag.cli.main import report_on
from logdiag.cli.output import Printing
from tests.agent_helpers import NAME, answer
from tests.chat_server import ChatServer, Reply, calls
from tests.helpers import log_of, run_logdiag, steps, traceback_of

UNKNOWN = "quartz.lattice.Fault: the third lattice sings"
NUMBER = 9 + len(traceback_of(UNKNOWN))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A failure that no rule names."""
    path = tmp_path / "job.log"
    path.write_bytes(log_of(*steps(1, 9), *traceback_of(UNKNOWN)))
    return path


def right(body: Mapping[str, Any]) -> Reply:
    """A model that knows it."""
    return calls("answer", **answer(root_line={"source": 1, "number": NUMBER, "quote": UNKNOWN}, evidence=[]))


def test_the_report_comes_first_and_the_models_after_it(log: Path) -> None:
    """The text has both: the answer of rules and memory, then the one that the model led to."""
    with ChatServer(right) as server:
        done = run_logdiag("--llm", NAME, "--no-memory", "-v", log, env=server.environment)
    first, _, second = done.stdout.decode().partition("read in ")
    assert "FAILED  script / Others" in first
    assert "FAILED  framework / DatasetLoadingError" in second
    assert "hidden in it" in second
    assert f"asking {NAME} ..." in done.stderr.decode()
    assert "tokens in" in done.stderr.decode()


def test_json_has_one_answer_with_what_asking_took(log: Path) -> None:
    """Machines get the last word only, with steps, tokens and seconds."""
    with ChatServer(right) as server:
        done = run_logdiag("--llm", NAME, "--no-memory", "--format", "json", log, env=server.environment)
    found = json.loads(done.stdout)
    assert (found["decided_by"], found["reason"]) == ("agent", "DatasetLoadingError")
    assert found["stats"]["agent"]["steps"][0] == "model"
    assert found["stats"]["tokens"] == found["stats"]["agent"]["tokens_in"] + found["stats"]["agent"]["tokens_out"]


@pytest.mark.parametrize("extra", [["--offline"], ["--llm", "never"]], ids=["offline", "never"])
def test_a_model_that_may_not_be_asked_is_not(log: Path, extra: list[str]) -> None:
    """--offline and --llm never win over a model that is named."""
    with ChatServer(right) as server:
        done = run_logdiag("--llm", NAME, *extra, "--format", "json", log, env=server.environment)
    assert server.requests == []
    assert json.loads(done.stdout)["decided_by"] != "agent"


def test_the_environment_and_a_file_name_the_model(log: Path, tmp_path: Path) -> None:
    """LOGDIAG_LLM does what --llm does, and the user's own logdiag.toml too."""
    with ChatServer(right) as server:
        by_variable = run_logdiag("--format", "json", log, env={**server.environment, "LOGDIAG_LLM": NAME})
        (tmp_path / "logdiag").mkdir()
        (tmp_path / "logdiag" / "logdiag.toml").write_text(f'llm = "{NAME}"\n')
        by_file = run_logdiag("--format", "json", log, env={**server.environment, "XDG_CONFIG_HOME": str(tmp_path)})
    assert json.loads(by_variable.stdout)["decided_by"] == "agent"
    assert json.loads(by_file.stdout)["decided_by"] == "agent"


def test_the_prompt_is_shown_and_nothing_is_sent(log: Path) -> None:
    """--show-prompt prints the evidence with its line numbers, and stops."""
    with ChatServer(right) as server:
        done = run_logdiag("--llm", NAME, "--show-prompt", log, env=server.environment)
    assert server.requests == []
    assert f"s1:{NUMBER} | {UNKNOWN}" in done.stdout.decode()
    assert b"FAILED" not in done.stdout


def test_a_model_that_hangs_costs_its_time_and_no_more(log: Path) -> None:
    """The answer is there a second after the deadline at the latest, whole processes compared."""
    began = time.monotonic()
    alone = run_logdiag("--format", "json", log)
    without = time.monotonic() - began
    with ChatServer([Reply(delay=60)]) as server:
        began = time.monotonic()
        done = run_logdiag("--llm", NAME, "--llm-timeout", "3", "--format", "json", log, env=server.environment)
        took = time.monotonic() - began
    assert took < without + 3 + 1
    found, expected = json.loads(done.stdout), json.loads(alone.stdout)
    assert (found["reason"], found["confidence"]) == (expected["reason"], expected["confidence"])
    assert f"the model {NAME} did not answer within 3 s; rules and memory decided" in found["notes"]


def test_an_unreachable_model_is_a_note(log: Path) -> None:
    """Nobody listens there."""
    env = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "none"}
    done = run_logdiag("--llm", NAME, "--llm-timeout", "10", "--format", "json", log, env=env)
    assert done.returncode == 0
    assert any("rules and memory decided" in note for note in json.loads(done.stdout)["notes"])


def test_eval_measures_with_and_without_the_model(log: Path, tmp_path: Path) -> None:
    """Side by side on the same cases, with tokens; the labels decide who was right."""
    case = {
        "id": "one", "log": log.read_text(), "category": "framework", "reason": "DatasetLoadingError",
        "root_line": UNKNOWN, "action": "fix_and_resubmit",
    }  # fmt: skip
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps(case) + "\n")
    with ChatServer(right) as server:
        done = run_logdiag("eval", cases, "--llm", NAME, "--format", "json", env=server.environment)
    found = json.loads(done.stdout)
    assert found["metrics"]["reason_accuracy"] == 1
    assert found["metrics"]["tokens"] > 0
    assert found["baselines"]["rules alone"]["reason_accuracy"] == 0


def test_of_the_notes_after_a_model_only_the_new_ones_are_told(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever they stand: what a cluster has to say comes last, behind what the model left."""

    def ask(first: Callable[[Diagnosis], None]) -> Diagnosis:
        answer = replace(diagnose(log, memory=False), notes=("one pod is gone",))
        first(answer)
        return replace(answer, notes=("the model did not answer", "one pod is gone"))

    report_on(ask, {"llm": AgentSettings(NAME), "remember": False}, Printing(form="text"))
    told = capsys.readouterr().out
    assert told.count("one pod is gone") == 1
    assert "Note: the model did not answer" in told
