"""`logdiag rules draft`, and rules on trial, which count for less."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from logdiag import diagnose
from logdiag.errors import RuleError
from logdiag.judge.confidence import confidence_of
from logdiag.memory.incident import Helped, Incident
from logdiag.model import Action, Reason, Support
from logdiag.rules import RuleBook
from logdiag.rules.files import parse
from logdiag.rules.folders import RuleFiles
from tests.agent_helpers import NAME
from tests.chat_server import ChatServer, says
from tests.helpers import log_of, rule_text, run_logdiag, steps, write_rule
from tests.memory_helpers import incident, letters_store

LOOM = "LoomFault: the weft of lane 7 tore"
BUNDLE = "BundleFault: shard 3 of bundle 'ab' is unsealed at /srv/ab/3"
DRAFT = {
    "title": "A data bundle is unsealed",
    "why": "A bundle's seal is broken; the rank that opens it fails.",
    "pattern": r"BundleFault: shard \d{1,9} of bundle .{1,80} is unsealed",
    "explains": [],
    "quiet": ["BundleFault: shard 3 of bundle 'ab' is sealed"],
}


def trial_rule(
    folder: Path, name: str, reason: str = "RuntimeError", match: str = "the weft of lane", **more: str
) -> Path:
    """A rule on trial for a line of the loom."""
    return write_rule(folder, f"framework/{name}", rule_text(reason, [match], [match], trial="true", **more))


def confirmed(text: str, reason: Reason, by: str = "mira", window: tuple[str, ...] = ()) -> Incident:
    """An incident as a person left it."""
    told = {"action": Action.RETRY_LATER, "outcome": Helped.WORKED, "cause": "It was torn."}
    return replace(incident(text, reason, confirmed_by=by, window=window, **told), id="i-7f3a")


@pytest.fixture
def weights(tmp_path: Path) -> dict[Support, float]:
    """The shipped weights: what a team's own file without any leaves."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "confidence.yaml").write_text("weights: {}\n")
    return parse(RuleFiles([tmp_path / "own"])).confidence


def test_an_answer_of_a_rule_on_trial_is_less_sure(weights: dict[Support, float], tmp_path: Path) -> None:
    """Same log, same rule but for the mark; what it rests on says so, and so does a note."""
    folder = tmp_path / "rules"
    file = trial_rule(folder, "loom")
    log = log_of(*steps(1, 20), LOOM)

    def answered() -> tuple[float, list[str], str]:
        answer = diagnose(log, rules=RuleBook(parse(RuleFiles([folder])).rules, confidence=weights), memory=False)
        assert answer.reason is Reason.RUNTIME_ERROR
        return answer.confidence, answer.stats["supports"], " ".join(answer.notes)

    on_trial, supports, said = answered()
    file.write_text(file.read_text().replace("trial: true\n", ""))
    accepted, plain, silent = answered()
    assert "framework/loom is on trial" in said
    assert "trial" not in silent
    assert on_trial < accepted
    assert supports == [*plain, "trial"]


def test_a_teams_weights_may_leave_some_to_the_shipped_ones(weights: dict[Support, float], tmp_path: Path) -> None:
    """A file from before there were rules on trial still works; a kind without any weight changes nothing."""
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "confidence.yaml").write_text("weights: {narrow: 2.0}\n")
    assert set(weights) == set(Support)
    assert weights[Support.TRIAL] < 0
    own = parse(RuleFiles([folder])).confidence
    assert own == weights | {Support.NARROW: 2.0}
    assert confidence_of([Support.NARROW, Support.TRIAL], {Support.NARROW: 2.0}) == confidence_of([Support.NARROW], own)
    (folder / "confidence.yaml").write_text("weights: {narrow: 2.0, nonsense: 1}\n")
    with pytest.raises(RuleError, match="nonsense"):
        parse(RuleFiles([folder]))


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A store with one confirmed incident, `i-7f3a`."""
    with letters_store(tmp_path / "memory") as store:
        window = ("opening the bundle of mira@example.org",)
        store.add(confirmed(BUNDLE, Reason.DATASET_LOADING_ERROR, window=window))
    return tmp_path / "memory"


def test_a_draft_that_passed_is_in_force(memory: Path, tmp_path: Path) -> None:
    """`rules draft --accept` writes it, the next log is diagnosed by it, and no name left the machine."""
    folder, log = tmp_path / "rules", tmp_path / "job.log"
    log.write_bytes(log_of(*steps(1, 20), BUNDLE))
    with ChatServer([says(DRAFT)]) as server:
        asked: list[str | Path] = ["--llm", NAME, "--memory", memory, "--rules", folder]
        done = run_logdiag("rules", "draft", "i-7f3a", *asked, "--accept", env=server.environment)
    file = folder / "own" / "a-data-bundle-is-unsealed.yaml"
    assert (done.returncode, done.stdout.decode().strip()) == (0, str(file)), done.stderr.decode()
    assert "opening the bundle of" in server.sent
    assert "mira@example.org" not in server.sent
    answer = json.loads(run_logdiag("--rules", folder, "--no-memory", "--format", "json", log).stdout)
    assert (answer["reason"], answer["root_cause"]["rule"]) == (
        "DatasetLoadingError",
        "own/a-data-bundle-is-unsealed",
    )


def test_a_draft_that_does_not_pass_is_not_written(memory: Path, tmp_path: Path) -> None:
    """Exit 1, with what is wrong with it; without --accept one that passes would only be printed."""
    with ChatServer([says({**DRAFT, "pattern": "no such words"})]) as server:
        asked: list[str | Path] = ["--llm", NAME, "--memory", memory, "--rules", tmp_path / "rules", "--accept"]
        done = run_logdiag("rules", "draft", "i-7f3a", *asked, env=server.environment)
    assert (done.returncode, done.stdout) == (1, b""), done.stderr.decode()
    assert "own/a-data-bundle-is-unsealed did not pass:" in done.stderr.decode()
    assert list((tmp_path / "rules").iterdir()) == []


REFUSED: Mapping[str, tuple[list[str], str]] = {
    "no model": ([], "no model is set up; name one with --llm provider:model, LOGDIAG_LLM or logdiag.toml"),
    "offline": (["--llm", NAME, "--offline"], "offline is set (--offline); no model may be asked"),
    "never": (["--llm", "never"], "no model is set up"),
    "no folder": (["--llm", NAME, "--accept"], "--accept needs a folder to write to; give --rules DIR once"),
    "no incident": (["--llm", NAME], "i-none: no such incident"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_drafted_is_refused_with_one_sentence(kind: str, tmp_path: Path) -> None:
    """Before anything is asked."""
    options, said = REFUSED[kind]
    with ChatServer([says(DRAFT)]) as server:
        done = run_logdiag("rules", "draft", "i-none", "--memory", tmp_path, *options, env=server.environment)
    assert (done.returncode, done.stdout, server.requests) == (2, b"", [])
    assert said in done.stderr.decode()
    assert len(done.stderr.decode().splitlines()) == 1
