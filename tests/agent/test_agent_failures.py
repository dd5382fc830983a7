"""A model that fails, lies, hangs or goes on for ever: the diagnosis stands, in time, with a note."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from logdiag import Diagnosis
from logdiag.agent.consult import consult
from logdiag.agent.failure_agent import ROUNDS
from logdiag.agent.opinion import AgentSettings
from logdiag.rules import RuleBook
from tests.agent_helpers import NAME, SETTINGS, Asks, answer, chat, tool_results
from tests.chat_server import ChatServer, Reply, calls, says
from tests.helpers import environment

HELD_BACK = "gave no answer that holds, 3 times"
FAILURES = {
    "401": (Reply(status=401), "refused the key (HTTP 401); set the provider's key", ""),
    "404": (Reply(status=404), "is not known to its server (HTTP 404)", ""),
    "400": (Reply(status=400), "refused the request (HTTP 400)", ""),
    "429": (Reply(status=429), "is over its rate limit (HTTP 429)", ""),
    "500": (Reply(status=500), "failed on its server (HTTP 500)", ""),
    "cut": (Reply(text="x" * 200, cut=True), "could not be reached, or the connection broke", ""),
    "no body": (Reply(raw=b""), "answered with something that is no chat answer", ""),
    "not JSON": (Reply(raw=b"<html>hello</html>"), "answered with something that is no chat answer", ""),
    "no choices": (Reply(raw=b'{"choices": []}'), "failed (", ""),
    "other JSON": (Reply(raw=b"[1, 2]"), "failed (", ""),
    "empty": (says(""), HELD_BACK, "there is no answer: call the tool `answer`"),
    "words": (says("It is the weather."), HELD_BACK, "there is no answer: call the tool `answer`"),
    "wrong schema": (calls("answer", verdict="bad"), HELD_BACK, "the answer does not have the form asked for: reason"),
    "broken call": (Reply(calls=(("answer", '{"reason": "Key'),)), HELD_BACK, "the arguments of answer are not valid"),
    "made up": (calls("answer", **answer(number=31337)), HELD_BACK, "line s1:31337 was not shown to you"),
    "misquoted": (calls("answer", **answer(quote="![x](http://evil.example)")), HELD_BACK, "line s1:46 does not say"),
    "refusal": (Reply(refusal="I cannot help with that."), "declined to answer", ""),
    "endless": (calls("explain_code", kind="exit", code="1"), f"did not come to an answer in {ROUNDS} turns", ""),
    "none": (calls("answer", **answer(reason="none")), HELD_BACK, "the reason `none` cannot be given"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_model_that_fails_leaves_a_note_and_no_opinion(asks: Asks, kind: str) -> None:
    """Each way to fail; the note names the model, says what happened and who decided, in none of the model's words."""
    reply, said, refused = FAILURES[kind]
    done, server = asks([reply])
    assert done.opinion is None
    assert done.notes[0].startswith(f"the model {NAME} ")
    assert said in done.notes[0]
    assert done.notes[0].endswith("; rules and memory decided")
    assert done.trace.error
    assert all(why.startswith(refused) for why in done.trace.refusals)
    assert len(done.trace.refusals) == (3 if refused else 0)
    assert "evil" not in "".join(done.notes)
    assert len(server.requests) <= ROUNDS


@pytest.mark.parametrize("kind", ["429", "500", "cut", "refusal"])
def test_a_failed_request_is_not_tried_again(asks: Asks, kind: str) -> None:
    """Neither by the client nor by the agent: retries would eat the time."""
    _, server = asks([FAILURES[kind][0]])
    assert len(server.requests) == 1


@pytest.mark.parametrize("reply", [Reply(hang=True), Reply(text="x" * 300, drip=0.05), Reply(delay=12)])
def test_the_deadline_holds_whatever_the_server_does(asks: Asks, reply: Reply) -> None:
    """Silence, an answer that drips, one that comes too late."""
    began = time.monotonic()
    done, _ = asks([reply], AgentSettings(NAME, timeout=1.5))
    assert time.monotonic() - began < 8  # a busy machine is slow, and each of the three takes longer
    assert done.notes[0] == f"the model {NAME} did not answer within 1.5 s; rules and memory decided"


def test_turns_that_each_come_in_time_do_not_add_up(asks: Asks) -> None:
    """One deadline for the whole conversation, not for each request."""
    began = time.monotonic()
    done, _ = asks(
        [Reply(calls=(("explain_code", {"kind": "exit", "code": "1"}),), delay=1.4)], AgentSettings(NAME, timeout=1.6)
    )
    assert time.monotonic() - began < 8
    assert done.opinion is None


def test_a_hanging_server_does_not_hold_up_the_end_of_the_program(log: Path) -> None:
    """A fresh process that loads everything and asks: no answer at its deadline, and then it ends."""
    code = (
        "import sys, time\n"
        "from logdiag import diagnose\n"
        "from logdiag.rules import RuleBook\n"
        "from logdiag.agent.consult import consult\n"
        "from logdiag.agent.opinion import AgentSettings\n"
        "book = RuleBook.load(); found = diagnose(sys.argv[1], rules=book)\n"
        "began = time.monotonic()\n"
        f"done = consult(found, (sys.argv[1],), AgentSettings('{NAME}', timeout=2.0), book=book)\n"
        "print(time.monotonic() - began, time.time(), done.notes[0])\n"
    )
    with ChatServer([Reply(hang=True)]) as server:
        done = subprocess.run(
            [sys.executable, "-c", code, log],
            capture_output=True,
            text=True,
            env=environment(server.environment),
            timeout=60,
            check=True,
        )
        ended = time.time()
    seconds, answered, note = done.stdout.strip().split(" ", 2)
    assert float(seconds) < 10
    assert ended - float(answered) < 20
    assert note == f"the model {NAME} did not answer within 2 s; rules and memory decided"
    assert done.stderr == ""


def test_an_address_where_nothing_listens_is_told(book: RuleBook, log: Path, diagnosis: Diagnosis) -> None:
    """At once, not after the deadline."""
    with ChatServer([]) as server:
        model = chat(server)
    began = time.monotonic()
    done = consult(diagnosis, (log,), SETTINGS, book=book, model=model)
    assert time.monotonic() - began < 5
    assert "could not be reached" in done.notes[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nosuch:model", "could not be asked: --llm nosuch:model: LangChain knows no provider nosuch"),
        ("perplexity:model", "could not be asked: --llm perplexity:model: the provider's package is missing: pip"),
        ("model", "could not be asked: --llm model: not provider:model"),
    ],
)
def test_a_model_that_is_set_up_wrongly_is_a_note(
    book: RuleBook, log: Path, diagnosis: Diagnosis, name: str, said: str
) -> None:
    """And nothing is said to have been sent."""
    done = consult(diagnosis, (log,), AgentSettings(name, timeout=20), book=book)
    assert done.opinion is None
    assert len(done.notes) == 1
    assert said in done.notes[0]


def test_the_votes_that_came_in_time_decide(asks: Asks) -> None:
    """One of three hangs: the others are heard at the deadline."""
    numbers = itertools.count()

    def script(body: dict[str, Any]) -> Reply:
        return Reply(hang=True) if next(numbers) == 0 else calls("answer", **answer())

    done, _ = asks(script, AgentSettings(NAME, timeout=15.0, votes=3))
    assert done.opinion is not None
    assert (done.opinion.votes, done.opinion.agreed) == (3, 2), done.notes
    assert any(note.startswith("not every conversation with the model") for note in done.notes)


def test_too_many_tokens_end_the_conversation(asks: Asks) -> None:
    """A model that goes on and on is stopped by its bill too."""
    done, server = asks([Reply(calls=(("explain_code", {"kind": "exit", "code": "1"}),), usage=(60_000, 10))])
    assert "did not come to an answer within 100,000 tokens" in done.notes[0]
    assert len(server.requests) == 2


def test_a_flood_of_tool_calls_in_one_turn_is_cut_off(asks: Asks) -> None:
    """Two dozen are answered; the others are not even begun."""
    flood = Reply(calls=tuple(("explain_code", {"kind": "exit", "code": "1"}) for _ in range(2000)))
    began = time.thread_time()
    done, server = asks([flood, calls("explain_code", kind="exit", code="1"), calls("answer", **answer())])
    results = tool_results(server)
    assert len(results) == 25
    assert sum("No more tool calls" in text for text in results) == 1
    assert time.thread_time() - began < 4
    assert done.opinion is not None


@pytest.mark.parametrize("usage", [(-(10**18), 0), (10**400, 0), (0, 0)])
def test_the_budget_does_not_trust_the_servers_counts(asks: Asks, usage: tuple[int, int]) -> None:
    """Texts that are longer than the budget end the conversation, whatever the server says that they took."""
    long = Reply(text="x" * 500_000, calls=(("explain_code", {"kind": "exit", "code": "1"}),), usage=usage)
    done, server = asks([long])
    assert "did not come to an answer within 100,000 tokens" in done.notes[0]
    assert len(server.requests) <= 3
    assert 0 <= done.trace.tokens_in <= 10**9
