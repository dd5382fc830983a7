"""A scripted chat server on loopback, for LangChain's real clients: OpenAI's protocol below `/v1`, Ollama's at `/api`.

    with ChatServer([calls("read_lines", source=1, first=3, last=5), says("{...}")]) as server:
        model = ChatOpenAI(model="scripted", base_url=server.url, api_key="none")
        ...
        assert "secret" not in server.sent

A script is replies in their order, of which the last one comes again and again, or a function from a request's body
to a reply. Every request is recorded.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["ChatServer", "Reply", "Request", "calls", "says"]

MODEL = "scripted"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says (`text`), calls (name and arguments, or arguments as raw text), or refuses; or how it fails.

    `status` other than 200 answers with an error of that code. `raw` is sent instead of a well-formed body.
    `delay` seconds pass before the answer, `drip` seconds between any two of its bytes; `hang` never answers, `cut`
    ends the connection in the middle of the answer. `usage` is tokens in and out.
    """

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any] | str], ...] = ()
    refusal: str | None = None
    status: int = 200
    raw: bytes | None = None
    delay: float = 0.0
    drip: float = 0.0
    hang: bool = False
    cut: bool = False
    usage: tuple[int, int] = (100, 10)
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived; `body` is empty where there was none."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes


Script = Sequence[Reply] | Callable[[dict[str, Any]], Reply]


def says(text: str | dict[str, Any], **more: Any) -> Reply:
    """A reply in words; a mapping is sent as JSON."""
    return Reply(text=text if isinstance(text, str) else json.dumps(text), **more)


def calls(name: str, /, **arguments: Any) -> Reply:
    """A reply that calls one tool."""
    return Reply(calls=((name, arguments),))


@dataclass
class ChatServer:
    """Serves a script until it is closed. `requests` are those that asked the model, in the order of arrival."""

    script: Script
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.chat = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> ChatServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of every client that waits, and of the port."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def origin(self) -> str:
        """Where it listens, which is what Ollama's client asks for."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """The base URL of OpenAI's protocol."""
        return f"{self.origin}/v1"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead LangChain's clients here."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": "none", "OLLAMA_HOST": self.origin}

    @property
    def sent(self) -> str:
        """All that was sent to the model, as text."""
        with self._lock:
            return "\n".join(request.raw.decode(errors="replace") for request in self.requests)

    def reply_to(self, request: Request) -> Reply:
        """Records a request and takes the script's next reply."""
        with self._lock:
            self.requests.append(request)
            count = len(self.requests)
        if callable(self.script):
            return self.script(request.body)
        return self.script[min(count, len(self.script)) - 1]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Who hangs is not waited for.
    block_on_close = False
    chat: ChatServer


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Tests need no access log."""

    def do_GET(self) -> None:
        """Lists the one model, in the protocol that asks."""
        body: dict[str, Any] = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "tests"}]}
        if self.path.startswith("/api"):
            body = {"models": [{"name": MODEL, "model": MODEL}]}
        self._send(200, "application/json", json.dumps(body).encode(), Reply())

    def do_POST(self) -> None:
        """Answers one request to the model as the script says."""
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.loads(raw or b"{}")
        reply = self.server.chat.reply_to(Request(self.path, dict(self.headers), body, raw))
        if reply.delay or reply.hang:
            self.server.chat.closing.wait(None if reply.hang else reply.delay)
        if reply.hang:
            return
        if reply.status != 200:
            error = {"error": {"message": f"scripted failure {reply.status}", "type": "scripted", "code": reply.status}}
            self._send(reply.status, "application/json", json.dumps(error).encode(), reply)
        elif reply.raw is not None:
            self._send(200, "application/json", reply.raw, reply)
        elif self.path.startswith("/api"):
            self._send(200, "application/x-ndjson", _ollama_body(reply), reply)
        elif body.get("stream"):
            self._send(200, "text/event-stream", _stream_body(reply), reply)
        else:
            self._send(200, "application/json", json.dumps(_openai_body(reply)).encode(), reply)

    def _send(self, status: int, kind: str, data: bytes, reply: Reply) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            if status == 429:
                self.send_header("Retry-After", "20")
            self.end_headers()
            if reply.cut:
                data = data[: len(data) // 2]
            pieces = [data[at : at + 1] for at in range(len(data))] if reply.drip else [data]
            for piece in pieces:
                if reply.drip and self.server.chat.closing.wait(reply.drip):
                    return
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            return  # the client has gone


def _arguments(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _openai_body(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal}
    if reply.calls:
        message["tool_calls"] = [
            {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": _arguments(arguments)}}
            for at, (name, arguments) in enumerate(reply.calls)
        ]
    ended = "tool_calls" if reply.calls else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": ended}],
        "usage": _usage(reply),
    }


def _usage(reply: Reply) -> dict[str, Any]:
    into, out = reply.usage
    usage: dict[str, Any] = {"prompt_tokens": into, "completion_tokens": out, "total_tokens": into + out}
    return usage if reply.cost is None else {**usage, "cost": reply.cost}


def _stream_body(reply: Reply) -> bytes:
    """The answer as server-sent events, words and arguments in pieces."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": reply.text[at : at + 7]} for at in range(0, len(reply.text), 7)]
    for at, (name, arguments) in enumerate(reply.calls):
        text = _arguments(arguments)
        head: dict[str, Any] = {"index": at, "id": f"call_{at}", "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": at, "function": {"arguments": text[start : start + 7]}}]}
            for start in range(0, len(text), 7)
        ]
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if reply.calls else "stop"}])
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    chunks = [{**common, "choices": choice} for choice in choices]
    chunks.append({**common, "choices": [], "usage": _usage(reply)})
    return b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks) + b"data: [DONE]\n\n"


def _ollama_body(reply: Reply) -> bytes:
    """Ollama's protocol: one message, and a line that ends it."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["tool_calls"] = [{"function": {"name": name, "arguments": said}} for name, said in reply.calls]
    into, out = reply.usage
    head = {"model": MODEL, "created_at": "2026-01-01T00:00:00Z"}
    last = {"done": True, "done_reason": "stop", "prompt_eval_count": into, "eval_count": out}
    rows = ({"message": message, "done": False}, {"message": {"role": "assistant", "content": ""}, **last})
    return b"".join(json.dumps({**head, **row}).encode() + b"\n" for row in rows)
