"""The Log Agent: what a job prints regularly becomes a filter, bound to the job, that can drop nothing of worth."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from logdiag import diagnose
from logdiag.agent.ask import Asker
from logdiag.authoring.gate import protected
from logdiag.authoring.log_agent import learn_filters
from logdiag.authoring.rule_file import Proposal, accept
from logdiag.errors import AgentError, RuleError
from logdiag.rules import RuleBook
from logdiag.rules.check import check
from tests.agent_helpers import NAME, chat
from tests.chat_server import ChatServer, Reply, Script, says
from tests.helpers import book_of, log_of, parsed, rule_text, run_logdiag, steps, traceback_of, write_rule
from tests.memory_helpers import incident

JOB = {"name": "loom-sft-17", "framework": "torch"}
SPINS = [f"[loom] spindle {at} at node-{at % 4}: torque {at % 7}.{at}1 Nm, thread ok" for at in range(40)]
CARDS = [f"carding pass {at} of 900 took {at % 9}.2 ms" for at in range(20)]
GOOD = r"^\[loom\] spindle \d{1,9} at \S{1,80}: torque \d{1,9}\.\d{1,9} Nm"
CARDING = r"carding pass \d{1,9} of \d{1,9} took"

Learn = Callable[..., tuple[tuple[Proposal, ...], ChatServer]]


def filters(*patterns: str) -> Reply:
    """An answer that proposes these patterns."""
    return says({"filters": [{"title": f"Kind {at}", "pattern": text} for at, text in enumerate(patterns)]})


def scripted(samples: Sequence[Reply], accepted: Sequence[Any] = range(1, 20)) -> Script:
    """A model whose samples are these in turn, and whose judgement is `accepted`."""
    asked: list[int] = []

    def reply(body: dict[str, Any]) -> Reply:
        if "accepted" in body["messages"][0]["content"]:
            return says({"accepted": list(accepted)})
        asked.append(1)
        return samples[(len(asked) - 1) % len(samples)]

    return reply


@pytest.fixture
def learn(book: RuleBook, tmp_path: Path) -> Learn:
    """Learns from a log of these lines with a scripted model; gives the proposals and the server."""

    def learnt(script: Script, *lines: str, **more: Any) -> tuple[tuple[Proposal, ...], ChatServer]:
        log = tmp_path / "job.log"
        log.write_bytes(log_of(*lines))
        with ChatServer(script) as server:
            asker = Asker(chat(server), more.pop("seconds", 120))
            given = {"book": book, "job": JOB, **more}
            return tuple(learn_filters([log], asker, NAME, **given)), server

    return learnt


def test_what_samples_agree_on_becomes_a_filter_of_the_job(learn: Learn, tmp_path: Path) -> None:
    """The file passes `rules test`, says where it comes from, and is used by the next run of the job, without a model,
    and by no other job."""
    found, server = learn(scripted([filters(GOOD)]), *SPINS, *CARDS)
    (proposal,) = found
    assert (proposal.problems, proposal.votes) == ((), 3)
    assert "node-1:" in proposal.text
    assert "<host" not in proposal.text
    assert all(f"node-{at}" not in server.sent for at in range(4))
    folder = tmp_path / "rules"
    file = accept(proposal, folder)
    text = file.read_text()
    assert text.startswith("# Learnt from job.log:1-")
    assert f"by {NAME}, 3 of 3 samples" in text
    assert r"name: ^loom-sft-\d+$" in text
    alone = book_of(folder)
    assert check(alone) == []
    next_run = log_of(*SPINS[::-1], *SPINS)
    for name, dropped in (("loom-sft-18", True), ("other-job", False)):
        answer = diagnose(next_run, rules=alone, memory=False, job={"name": name, "framework": "torch"})
        assert (proposal.id in answer.digest.dropped_by) == dropped
    with pytest.raises(RuleError, match="is there already"):
        accept(proposal, folder)


def test_too_few_votes_give_nothing(learn: Learn) -> None:
    """One of three samples proposes it; patterns agree when they match the same lines."""
    once, _ = learn(scripted([filters(GOOD), filters(CARDING), filters("no such line")]), *SPINS)
    assert once == ()
    alike, _ = learn(scripted([filters(GOOD), filters(r"\[loom\] spindle"), filters("no such line")]), *SPINS)
    assert [item.votes for item in alike] == [2]


@pytest.mark.parametrize("accepted", [[], ["1"], "1", [7]], ids=["none", "text", "no list", "another"])
def test_what_the_judging_call_does_not_accept_is_dropped(learn: Learn, accepted: Any) -> None:
    """Whatever the samples say."""
    found, server = learn(scripted([filters(GOOD)], accepted), *SPINS)
    assert found == ()
    assert len(server.requests) > 3


TROUBLE = {
    "an error": "[loom] spindle 7 at node-3: torque error, thread torn",
    "a level": "2026-11-04 10:00:00,123 WARNING [loom] spindle 8 at node-2: torque 3.1 Nm",
    "a known failure": "NVRM: Xid (PCI:0000:3b:00): 48, pid=3121, An uncorrectable double bit error [loom] spindle",
    "an end of a traceback": "\n".join(traceback_of("LoomFault: [loom] spindle 12 at rest")),
}


@pytest.mark.parametrize("kind", TROUBLE)
def test_a_pattern_that_drops_trouble_is_refused(learn: Learn, kind: str) -> None:
    """Though the model and its judge agree: the gate asks neither, and looks at the whole log."""
    (found,), _ = learn(scripted([filters(r"\[loom\] spindle")]), *SPINS, *TROUBLE[kind].split("\n"))
    assert any("which may matter" in problem for problem in found.problems), found
    with pytest.raises(RuleError, match="did not pass"):
        accept(found, "unused")


@pytest.mark.parametrize("pattern", [".", r"\w", "(?:)", r"\d", r"[a-z]{2,9}", r"^.{0,400}$"])
def test_a_pattern_that_is_too_wide_is_refused(learn: Learn, pattern: str) -> None:
    """It matches what rules and past incidents know as failures, also where this log holds none."""
    found, _ = learn(scripted([filters(pattern + "{1,3}" if len(pattern) == 1 else pattern)]), *SPINS)
    assert all(item.problems for item in found), found


def test_a_pattern_that_can_run_away_is_refused(learn: Learn) -> None:
    """It is proved on hard lines, as every rule is."""
    found, _ = learn(scripted([filters(r"\[loom\] spindle|(?:a+a+)+!$")]), *SPINS)
    assert found
    assert all(any("takes too long" in problem for problem in item.problems) for item in found), found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "{",
        '{"filters": 3}',
        '{"filters": [3, null, {"pattern": 7}]}',
        '{"filters": [{"pattern": "(["}]}',
    ],
)
def test_answers_without_form_give_nothing(learn: Learn, text: str) -> None:
    """And raise nothing."""
    assert learn(scripted([says(text)]), *SPINS)[0] == ()


def test_words_of_the_model_cannot_break_the_file(learn: Learn, tmp_path: Path) -> None:
    """A title with quotes, line ends and YAML of its own; an id of letters and digits only."""
    title = "It's\nmatch: ['.']\njob: {}\n../../x"
    reply = says({"filters": [{"title": title, "pattern": GOOD}]})
    (found,), _ = learn(scripted([reply]), *SPINS)
    assert found.problems == ()
    assert found.id == "filters/learnt-it-s-match-job-x"
    assert accept(found, tmp_path / "rules").parent == tmp_path / "rules" / "filters"
    (item,) = book_of(tmp_path / "rules").filters
    assert (item.id, item.drop) == (found.id, (GOOD,))
    assert item.job["name"] == r"^loom-sft-\d+$"


def test_no_secret_is_sent_or_stored(learn: Learn) -> None:
    """A token in regular output is neither in a request nor in the file."""
    value = "".join(Random(3).choices("abcdefghkmnp23456789", k=24)) + "x7"
    lines = [f"[loom] spindle {at} token={value} turns" for at in range(30)]
    found, server = learn(scripted([filters(r"\[loom\] spindle \d{1,9} token=\S{1,99} turns")]), *lines)
    assert found
    assert value not in server.sent
    assert all(value not in item.text for item in found)


def test_a_pattern_that_drops_a_past_incident_is_refused(learn: Learn) -> None:
    """A failure that the team remembers is no regular output, whatever its words."""
    past = incident("[loom] spindle 12 at rest: the weft is white")
    (found,), _ = learn(scripted([filters(r"\[loom\] spindle")]), *SPINS, incidents=[past])
    assert any("knows as a failure: '[loom] spindle" in problem for problem in found.problems), found


def test_what_is_known_already_is_not_asked(learn: Learn) -> None:
    """A log of progress and known chatter sends nothing."""
    found, server = learn(
        scripted([filters(".{1,9}")]), *["Setting OMP_NUM_THREADS environment variable for each process"] * 9
    )
    assert (found, server.requests) == ((), [])


def test_without_job_or_model_it_says_so(learn: Learn) -> None:
    """A filter that held for every job is not learnt; a model that fails is named with its failure."""
    with pytest.raises(RuleError, match="give --job name=NAME"):
        learn(scripted([filters(GOOD)]), *SPINS, job={})
    with pytest.raises(AgentError, match="HTTP 429"):
        learn([Reply(status=429)], *SPINS)
    with pytest.raises(AgentError, match=r"did not answer within 0\.5 s"):
        learn([Reply(hang=True)], *SPINS, seconds=0.5)


def test_protected_lines_are_those_a_reader_may_need(book: RuleBook) -> None:
    """Findings, tracebacks with their source lines, warnings; not steps and settings."""
    lines = parsed(
        [
            "step: 12 loss: 2.31",
            *traceback_of("LoomFault: spindle at rest"),
            "step: 13 loss: 2.30",
            "retrying the upload",
            json.dumps({"level": "ERROR", "message": "loom"}),
            "hidden_size .......... 5120",
        ]
    )
    assert protected(lines, book) == [False, *[True] * 6, False, True, True, False]


def test_the_command_learns_and_the_next_run_uses_it(tmp_path: Path) -> None:
    """`rules learn-filters --accept` writes what passed, says what did not, and exits 1 for that; the job's next digest
    leaves these lines out, names the filter in its receipt and keeps the failure, and no model is asked. Another job's
    digest is as before."""
    log, folder = tmp_path / "loom.log", tmp_path / "rules"
    log.write_bytes(log_of(*SPINS, *CARDS, "carding pass 20 of 900 took an error"))
    with ChatServer(scripted([filters(GOOD, CARDING)])) as server:
        options: list[str | Path] = ["--rules", folder, "--job", "name=loom-sft-17", "--llm", NAME, "--samples", "1"]
        done = run_logdiag("rules", "learn-filters", log, *options, "--accept", env=server.environment)
        asked = len(server.requests)
        file = folder / "filters" / "learnt-kind-0.yaml"
        assert (done.returncode, done.stdout.decode().strip()) == (1, str(file)), done.stderr.decode()
        assert "filters/learnt-kind-1 (1 of 1 samples) did not pass:" in done.stderr.decode()
        assert "which may matter" in done.stderr.decode()
        log.write_bytes(log_of("begin", *SPINS, *SPINS, *steps(1, 90), *traceback_of("LoomFault: at rest")))
        next_run, other = (
            run_logdiag("--rules", folder, "--job", f"name={name}", "--digest", log, env=server.environment)
            for name in ("loom-sft-18", "gears-1")
        )
    assert len(server.requests) == asked
    assert "filters/learnt-kind-0" in next_run.stdout.decode()
    assert "spindle" not in next_run.stdout.decode()
    assert "LoomFault: at rest" in next_run.stdout.decode()
    assert "spindle" in other.stdout.decode()
    assert "learnt-kind" not in other.stdout.decode()


def test_a_filter_that_several_segments_ask_for_is_proposed_once(learn: Learn) -> None:
    """The next run's file would be the same."""
    found, server = learn(scripted([filters(GOOD)]), *SPINS * 20)
    assert (len(found), len(server.requests) > 4) == (1, True)


def test_what_was_learnt_before_the_model_fails_is_kept(tmp_path: Path) -> None:
    """The filter of the first segment is written, and the failure at the second is named."""
    log, folder = tmp_path / "loom.log", tmp_path / "rules"
    log.write_bytes(log_of(*SPINS * 20))
    with ChatServer([filters(GOOD), says({"accepted": [1]}), Reply(status=401)]) as server:
        options: list[str | Path] = ["--rules", folder, "--job", "name=loom-sft-17", "--llm", NAME, "--samples", "1"]
        done = run_logdiag("rules", "learn-filters", log, *options, "--accept", env=server.environment)
    assert len(server.requests) == 3
    assert done.returncode == 2
    assert "HTTP 401" in done.stderr.decode()
    assert done.stdout.decode().split() == [str(folder / "filters" / "learnt-kind-0.yaml")]


def test_what_the_filter_does_not_know_stays_in_the_digest(tmp_path: Path) -> None:
    """A line of the same shape with another number, the lines around a failure, and the last lines."""
    rule = (
        "title: T\ndrop: ['^loom \\d+ ended with 0$']\njob: {name: loom}\nexamples: {drops: ['loom 7 ended with 0']}\n"
    )
    write_rule(tmp_path, "filters/loom", rule)
    write_rule(tmp_path, "framework/torn", rule_text(match=["the weft tore"], fires=["the weft tore"]))
    regular = [f"loom {at} ended with 0" for at in range(100)]
    lines = ["loom 3 ended with 0", "loom 4 ended with 9", *regular, "the weft tore", *regular]
    digest = diagnose(log_of(*lines), rules=book_of(tmp_path), memory=False, job={"name": "loom"}).digest
    numbers = [line.number for line in digest.lines]
    assert numbers == [2, *range(93, 120), *range(144, 204)]
    assert digest.dropped_by == {"filters/loom": len(lines) - len(numbers)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--job", "name=loom", "--offline"], "offline is set (--offline)"),
        (["--job", "colour"], "not KEY=VALUE; give for instance name=pretrain"),
    ],
    ids=["offline", "job"],
)
def test_the_command_refuses_what_it_cannot_do(tmp_path: Path, options: list[str], said: str) -> None:
    """Exit 2 with one sentence, before anything is asked."""
    with ChatServer(scripted([filters(GOOD)])) as server:
        done = run_logdiag("rules", "learn-filters", tmp_path, "--llm", NAME, *options, env=server.environment)
    assert (done.returncode, done.stdout, server.requests) == (2, b"", [])
    assert said in done.stderr.decode()
