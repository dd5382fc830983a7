"""Asking a model over real HTTP: it reads this log, answers, and is held to what the log says."""

from __future__ import annotations

import itertools
import json
import threading
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_ollama import ChatOllama

from logdiag import Diagnosis, diagnose
from logdiag.agent.consult import consult, prompt_for
from logdiag.agent.opinion import AgentSettings
from logdiag.model import Reason
from logdiag.rules import RuleBook
from tests.agent_helpers import NAME, SETTINGS, Asks, answer, chat, tool_results
from tests.chat_server import MODEL, ChatServer, Reply, calls, says
from tests.helpers import LOGS, log_of, steps

TOOL_NAMES = ("read_lines", "grep_log", "explain_code")


def test_a_model_that_answers_by_a_tool_call_is_heard(asks: Asks) -> None:
    """One request, one opinion, and notes of what was sent."""
    done, server = asks([calls("answer", **answer())])
    assert done.opinion is not None
    assert (done.opinion.reason, done.opinion.confidence) == (Reason.DATASET_LOADING_ERROR, 0.8)
    assert done.opinion.root is not None
    assert (done.opinion.root.number, done.opinion.root.rank) == (46, 3)
    assert len(server.requests) == 1
    assert done.trace.error == ""
    assert done.notes[-1].startswith("sent ")
    assert f"kB to {NAME}; hidden in it: " in done.notes[-1]
    assert done.notes[-1].endswith("0 secrets")


def test_what_is_sent_is_the_prompt_and_the_tools(asks: Asks, book: RuleBook, log: Path, diagnosis: Diagnosis) -> None:
    """The prompt that the consultation returns went out word for word; but for the nonce it is the one shown before."""
    done, server = asks([calls("answer", **answer())])
    system, user = (message["content"] for message in server.requests[0].body["messages"])
    assert done.prompt == f"--- system ---\n{system}\n--- user ---\n{user}\n"
    nonce = system.split("<log-")[1][:16]
    shown = prompt_for(diagnosis, (log,), SETTINGS, book=book)
    assert shown.replace(shown.split("<log-")[1][:16], nonce) == done.prompt
    assert [tool["function"]["name"] for tool in server.requests[0].body["tools"]] == [*TOOL_NAMES, "answer"]


def test_a_model_without_tool_calls_answers_in_words(asks: Asks) -> None:
    """JSON in a fence among other words."""
    done, _ = asks([says(f"The cause is plain.\n```json\n{json.dumps(answer())}\n```")])
    assert done.opinion is not None
    assert done.opinion.root is not None


def test_each_tool_reads_this_log(asks: Asks) -> None:
    """And what it returns is fenced and may be cited."""
    script = [
        calls("read_lines", source=1, first=10, last=12),
        calls("grep_log", pattern="SHARD 1[78] of"),
        calls("explain_code", kind="xid", code="79"),
        calls("answer", **answer(evidence=[{"source": 1, "number": 11, "quote": "[rank3] step: 11 loss"}])),
    ]
    done, server = asks(script)
    lines, found, code = tool_results(server)
    assert lines.split("\n")[1].startswith("s1:10 | [rank3] step: 10 loss")
    assert "s1:41 | [rank3] loader: shard 17" in found
    assert "fallen off the bus" in code
    assert all(text.startswith("<log-") for text in (lines, found))
    assert done.opinion is not None
    assert [line.number for line in done.opinion.evidence] == [11]
    kinds = done.trace.steps
    assert kinds.count("model") == 4
    assert [kind for kind in kinds if kind in TOOL_NAMES] == list(TOOL_NAMES)


def test_tools_refuse_in_words_and_the_conversation_goes_on(asks: Asks) -> None:
    """An unknown tool, wrong arguments, a place that is not there, a pattern that would take all memory."""
    done, server = asks(
        [
            calls("open_file", path="/etc/passwd"),
            calls("read_lines", source="/etc/passwd", first=1, last=9),
            calls("read_lines", source=7, first=1, last=9),
            calls("grep_log", pattern="((a{1000}){1000}){1000}"),
            calls("answer", **answer()),
        ]
    )
    unknown, wrong, nowhere, greedy = tool_results(server)
    assert "open_file is not a valid tool" in unknown
    assert "source" in wrong
    assert "there is no source 7; there are 1" in nowhere
    assert "stands for more than 20000 characters with its repeats" in greedy
    assert "root:" not in server.sent
    assert done.opinion is not None


def test_a_wrong_citation_goes_back_and_a_right_one_is_taken(asks: Asks) -> None:
    """The model is told which line, and why."""
    done, server = asks([calls("answer", **answer(number=9999)), says(answer(quote="made up words")), says(answer())])
    assert done.opinion is not None
    assert [why.split(":")[0] for why in done.trace.refusals] == ["line s1", "line s1"]
    last = server.requests[-1].body["messages"]
    assert "Refused: line s1:9999 was not shown to you" in last[-3]["content"]
    assert "does not say 'made up words'" in last[-1]["content"]
    assert done.trace.steps.count("refused") == 2


def test_a_line_read_by_one_vote_cannot_be_cited_by_another(asks: Asks) -> None:
    """What was shown is held per conversation."""
    cited = answer(evidence=[{"source": 1, "number": 11, "quote": "[rank3] step: 11 loss"}])
    seen: list[int] = []

    def script(body: dict[str, Any]) -> Reply:
        seen.append(len(body["messages"]))
        if len(seen) == 1:
            return calls("read_lines", source=1, first=10, last=12)
        return calls("answer", **cited)

    done, _ = asks(script, AgentSettings(NAME, timeout=90, votes=2, budget=500))
    assert done.opinion is not None
    assert done.opinion.agreed == 1
    assert set(done.trace.refusals) == {"line s1:11 was not shown to you: cite only lines that you have read"}


def test_votes_are_asked_at_the_same_time_and_counted(asks: Asks) -> None:
    """Two of three agree; none is answered before all three are asked."""
    asked = threading.Barrier(3)

    def script(body: dict[str, Any]) -> Reply:
        number = asked.wait(timeout=60)
        return Reply(calls=(("answer", answer(reason="KeyError") if number == 1 else answer()),))

    done, server = asks(script, AgentSettings(NAME, timeout=90, votes=3))
    assert len(server.requests) == 3, done.notes
    assert done.opinion is not None
    assert (done.opinion.reason, done.opinion.votes, done.opinion.agreed) == (Reason.DATASET_LOADING_ERROR, 3, 2)
    assert done.opinion.confidence == 0.8
    assert f"2 of 3 answers of the model {NAME} agree" in done.notes


def test_votes_that_are_split_decide_nothing(asks: Asks) -> None:
    """One each."""
    numbers = itertools.count()

    def script(body: dict[str, Any]) -> Reply:
        return calls("answer", **answer(reason="KeyError" if next(numbers) == 0 else "Others"))

    done, _ = asks(script, AgentSettings(NAME, timeout=90, votes=2))
    assert done.opinion is None, done.notes
    assert "gave answers that contradict each other" in done.notes[0]


def test_the_trace_counts_tokens_cost_and_time(asks: Asks) -> None:
    """As the server reports them."""
    script = [
        Reply(calls=(("explain_code", {"kind": "exit", "code": "1"}),), usage=(1000, 20), cost=0.25),
        Reply(calls=(("answer", answer()),), usage=(1500, 80), cost=0.5),
    ]
    done, _ = asks(script)
    assert (done.trace.tokens_in, done.trace.tokens_out, done.trace.cost) == (2500, 100, 0.75)
    assert done.trace.steps == ("model", "explain_code", "model", "answer")
    assert done.trace.seconds > 0


class _Recorder(BaseCallbackHandler):
    """A tracer of one's own."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_chat_model_start(self, *args: Any, **more: Any) -> None:
        self.names.append("model")

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **more: Any) -> None:
        self.names.append(serialized["name"])


def test_callbacks_of_langchain_see_every_step(asks: Asks) -> None:
    """A user's tracer gets the model's turns and the tools."""
    recorder = _Recorder()
    asks([calls("explain_code", kind="exit", code="1"), calls("answer", **answer())], callbacks=(recorder,))
    assert recorder.names == ["model", "explain_code", "model", "answer"]


def test_a_streaming_client_is_served_too(book: RuleBook, log: Path, diagnosis: Diagnosis) -> None:
    """Words and arguments come in pieces."""
    with ChatServer([calls("read_lines", source=1, first=10, last=12), calls("answer", **answer())]) as server:
        done = consult(diagnosis, (log,), SETTINGS, book=book, model=chat(server, streaming=True))
    assert done.opinion is not None
    assert server.requests[0].body["stream"] is True
    assert done.trace.tokens_in == 200


def test_ollamas_protocol_is_spoken(book: RuleBook, log: Path, diagnosis: Diagnosis) -> None:
    """By LangChain's client of Ollama."""
    with ChatServer([calls("explain_code", kind="exit", code="1"), calls("answer", **answer())]) as server:
        model = ChatOllama(model=MODEL, base_url=server.origin, client_kwargs={"timeout": 20})
        done = consult(diagnosis, (log,), AgentSettings("ollama:scripted", timeout=20), book=book, model=model)
    assert done.opinion is not None
    assert {request.path for request in server.requests} == {"/api/chat"}


def test_names_and_secrets_stay_here_and_names_come_back(book: RuleBook, tmp_path: Path) -> None:
    """In the prompt, in what tools return, and in the answer."""
    token = "hf_" + "qW3rT7yU9i" * 3 + "Zx1C"
    path = tmp_path / "job.log"
    hidden = f"2026-01-01 00:00:00 [node-17] ada@example.org pushed with HF_TOKEN={token}"
    path.write_bytes(log_of(*steps(1, 60), hidden, "[node-17] feeder jammed: the conveyor does not turn", "Killed"))
    found = diagnose(path, rules=book)

    def script(body: dict[str, Any]) -> Reply:
        if len(body["messages"]) == 2:
            return calls("grep_log", pattern="HF_TOKEN|jammed")
        row = next(row for row in body["messages"][-1]["content"].split("\n") if "jammed" in row)
        name = row.partition("| ")[2].split("]")[0] + "]"
        return calls("answer", **answer(62, f"{name} feeder jammed", cause=f"{name} jammed", evidence=[]))

    with ChatServer(script) as server:
        done = consult(found, (path,), SETTINGS, book=book, model=chat(server), job={"name": "feed"})
    assert done.opinion is not None
    assert done.opinion.cause == "[node-17] jammed"
    assert done.opinion.root is not None
    assert done.opinion.root.text.startswith("[node-17] feeder")
    assert token not in server.sent
    assert "ada@example.org" not in server.sent
    assert "[node-17]" not in server.sent
    assert "1 secret" in done.notes[-1]
    assert "1 host" in done.notes[-1]


def test_a_grounded_finding_is_not_called_healthy(book: RuleBook) -> None:
    """`none` is refused where a rule named a cause, and taken where only the exit code says that the job failed."""
    path = LOGS / "demo.log"
    quiet = answer(reason="none", root_line=None, evidence=[])
    healthy = log_of(*steps(1, 40))
    with ChatServer([calls("answer", **quiet)]) as server:
        found = consult(diagnose(path, rules=book), (path,), SETTINGS, book=book, model=chat(server))
        ended = diagnose(healthy, rules=book, exit_code=1)
        taken = consult(ended, (healthy,), SETTINGS, book=book, model=chat(server))
    assert found.opinion is None
    assert taken.opinion is not None
    assert taken.opinion.reason is Reason.NONE


def test_an_empty_log_can_be_asked_about(book: RuleBook) -> None:
    """There is nothing to cite, so there is no opinion."""
    with ChatServer([calls("answer", **answer())]) as server:
        done = consult(diagnose(b"", rules=book, exit_code=1), (b"",), SETTINGS, book=book, model=chat(server))
    assert done.opinion is None
    assert "was not shown to you" in done.trace.refusals[0]
