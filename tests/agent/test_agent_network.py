"""What a model's server can do to the connection: send it elsewhere, never end, answer in a bomb, drip; and tracing."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from logdiag import Diagnosis
from logdiag.agent.connection import MOST_BYTES
from logdiag.agent.consult import consult
from logdiag.agent.opinion import AgentSettings, Consultation
from logdiag.rules import RuleBook
from tests.agent_helpers import answer
from tests.chat_server import MODEL, ChatServer, calls
from tests.helpers import environment

Answers = Callable[[BaseHTTPRequestHandler], None]
PROVIDERS = ("openai", "ollama")


@contextmanager
def raw_server(answers: Answers) -> Iterator[tuple[str, list[bytes]]]:
    """A server whose every answer is written by a function; its address, and what it was sent."""
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            try:
                answers(self)
            except OSError:
                return  # the client has gone

        def log_message(self, format: str, *args: object) -> None:
            """Tests need no access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", got
    finally:
        server.shutdown()
        server.server_close()


Asked = Callable[..., Consultation]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, book: RuleBook, log: Path, diagnosis: Diagnosis) -> Asked:
    """Asks the model at an address, by its provider's own variables, as the command does."""

    def ask(origin: str, provider: str = "openai", timeout: float = 20.0) -> Consultation:
        variables = {"OPENAI_BASE_URL": f"{origin}/v1", "OPENAI_API_KEY": "none", "OLLAMA_HOST": origin}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings = AgentSettings(f"{provider}:{MODEL}", timeout=timeout)
        return consult(diagnosis, (log,), settings, book=book)

    return ask


def head(handler: BaseHTTPRequestHandler, status: int = 200, **headers: str) -> None:
    """The head of an answer."""
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirect_is_not_followed(asked: Asked, provider: str, status: int) -> None:
    """The prompt reaches the address that was set, and no other."""
    with ChatServer([calls("answer", **answer())]) as elsewhere:

        def away(handler: BaseHTTPRequestHandler) -> None:
            head(handler, status, Location=f"{elsewhere.origin}{handler.path}", Content_Length="0")

        with raw_server(away) as (origin, got):
            done = asked(origin, provider)
    assert len(got) == 1
    assert elsewhere.requests == []
    assert done.opinion is None
    assert f"sends on to another address (HTTP {status}), which is not followed" in done.notes[0]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", ["endless", "bomb"])
def test_an_endless_or_compressed_answer_is_broken_off(asked: Asked, provider: str, kind: str) -> None:
    """At a few MB of decoded text, long before the deadline, and the server is hung up on."""
    bomb = gzip.compress(b" " * 200_000_000, 1)
    sent: list[int] = []
    gone = threading.Event()

    def answers(handler: BaseHTTPRequestHandler) -> None:
        head(handler, Content_Encoding="gzip" if kind == "bomb" else "identity")
        try:
            for at in range(100_000):
                piece = bomb[at * 65536 : (at + 1) * 65536] if kind == "bomb" else b" " * 65536
                handler.wfile.write(piece)
                sent.append(len(piece))
        finally:
            gone.set()

    began = time.monotonic()
    with raw_server(answers) as (origin, _):
        done = asked(origin, provider)
        assert time.monotonic() - began < 15
        assert kind == "bomb" or gone.wait(5), "the client still reads"
    assert done.opinion is None
    assert "its answer is longer than 4 MB" in done.notes[0]
    assert sum(sent) < MOST_BYTES + 20_000_000


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", ["drip", "stall", "silence"])
def test_at_the_deadline_the_connection_is_closed(asked: Asked, provider: str, kind: str) -> None:
    """Whatever the server is doing, the thread that reads is let go with the answer."""
    closed = threading.Event()

    def answers(handler: BaseHTTPRequestHandler) -> None:
        if kind != "silence":
            head(handler, Content_Length="1000000")
            handler.wfile.write(b" ")
        if kind == "drip":
            for _ in range(100):
                time.sleep(0.1)
                try:
                    handler.wfile.write(b" ")
                except OSError:
                    closed.set()
                    return
        elif handler.connection.recv(1) == b"":
            closed.set()

    before = threading.active_count()
    with raw_server(answers) as (origin, _):
        began = time.monotonic()
        done = asked(origin, provider, timeout=4.0)
        took = time.monotonic() - began
        assert closed.wait(2), "the connection is still open"
    assert took < 5
    assert "did not answer within 4 s" in done.notes[0]
    for _ in range(40):
        if threading.active_count() <= before:
            break
        time.sleep(0.1)
    assert threading.active_count() <= before, "a thread still waits for the server"


def test_an_answer_that_was_compressed_unasked_is_read(asked: Asked) -> None:
    """Some gateways compress whatever is asked for."""
    said = {"role": "assistant", "content": json.dumps(answer())}
    body = {
        "id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": said}],
    }  # fmt: skip
    text = json.dumps(body)

    def answers(handler: BaseHTTPRequestHandler) -> None:
        packed = gzip.compress(text.encode())
        head(handler, Content_Encoding="gzip", Content_Length=str(len(packed)))
        handler.wfile.write(packed)

    with raw_server(answers) as (origin, _):
        done = asked(origin)
    assert done.opinion is not None, done.notes


def test_another_compression_is_refused(asked: Asked) -> None:
    """It was not asked for."""
    with raw_server(lambda handler: head(handler, Content_Encoding="br", Content_Length="0")) as (origin, _):
        done = asked(origin)
    assert "compressed in a way that was not asked for (br)" in done.notes[0]


# A process of its own: LangChain's tracer reads the environment once, and keeps what it read.
TRACED = """
import sys
from logdiag import diagnose
from logdiag.agent.consult import consult
from logdiag.agent.opinion import AgentSettings
from logdiag.rules import RuleBook
from langchain_core.tracers.langchain import wait_for_all_tracers
log, model = sys.argv[1:]
book = RuleBook.load()
settings = AgentSettings(model, timeout=20.0)
consult(diagnose(log, rules=book, memory=False), (log,), settings, book=book)
wait_for_all_tracers()
"""


def test_the_environment_alone_does_not_trace(log: Path) -> None:
    """Many clusters set these variables for everybody: nothing goes to the tracing service."""

    def answers(handler: BaseHTTPRequestHandler) -> None:
        head(handler, Content_Length="2")
        handler.wfile.write(b"{}")

    with (
        raw_server(answers) as (origin, got),
        ChatServer([calls("explain_code", kind="exit", code="1"), calls("answer", **answer())]) as server,
    ):
        variables = {"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": "x", "LANGSMITH_PROJECT": "p"}
        variables |= {"LANGSMITH_ENDPOINT": origin, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        code = [sys.executable, "-c", TRACED, str(log), f"openai:{MODEL}"]
        subprocess.run(code, env=environment(variables), capture_output=True, timeout=120, check=True)
    assert (got, len(server.requests)) == ([], 2)
