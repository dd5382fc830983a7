"""What the tests of the failure agent share: a log, its diagnosis, and answers to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from logdiag import Diagnosis, diagnose
from logdiag.agent.consult import consult
from logdiag.agent.opinion import AgentSettings, Consultation
from logdiag.rules import RuleBook
from tests.chat_server import MODEL, ChatServer, Script
from tests.helpers import log_of, steps, traceback_of

__all__ = [
    *("LOG_LINES", "NAME", "SETTINGS", "Asks", "answer", "asker", "chat", "job_log", "tool_results", "unexplained")
]

Asks = Callable[..., tuple[Consultation, ChatServer]]

NAME = f"openai:{MODEL}"
SETTINGS = AgentSettings(NAME, timeout=20.0)

# Line 46 is what broke; no rule knows it. Line 52 is what the rules see.
LOG_LINES = [
    *steps(1, 40, "[rank3] "),
    "[rank3] loader: shard 17 of corpus-b opened",
    "[rank3] loader: shard 18 of corpus-b opened",
    *steps(41, 3, "[rank3] "),
    "[rank3] feeder jammed: the conveyor of shard 18 does not turn",
    *traceback_of("RuntimeError: step 44 did not come to its end", prefix="[rank3] "),
]


def job_log(folder: Path) -> Path:
    """The log as a file."""
    path = folder / "job.log"
    path.write_bytes(log_of(*LOG_LINES))
    return path


def unexplained(book: RuleBook, path: Path) -> Diagnosis:
    """What rules say of the log."""
    return diagnose(path, rules=book)


def answer(number: int = 46, quote: str = "feeder jammed: the conveyor", **more: Any) -> dict[str, Any]:
    """A right answer about the log, but for what is given otherwise."""
    return {
        "reason": "DatasetLoadingError",
        "root_line": {"source": 1, "number": number, "quote": quote},
        "evidence": [{"source": 1, "number": 52, "quote": "RuntimeError: step 44 did not"}],
        "cause": "The loader's feeder jammed, and the step starved.",
        "would_prove": "Read shard 18 alone.",
        "confidence": 0.8,
        **more,
    }


def chat(server: ChatServer, **more: Any) -> ChatOpenAI:
    """LangChain's client of the scripted server."""
    return ChatOpenAI(model=MODEL, base_url=server.url, api_key=SecretStr("none"), max_retries=0, timeout=20, **more)


def asker(book: RuleBook, log: Path, diagnosis: Diagnosis) -> Asks:
    """Asks a scripted model about a log; gives what came of it, and the server with what it was sent."""

    def asked(script: Script, settings: AgentSettings = SETTINGS, **more: Any) -> tuple[Consultation, ChatServer]:
        with ChatServer(script) as server:
            return consult(diagnosis, (log,), settings, book=book, model=chat(server), **more), server

    return asked


def tool_results(server: ChatServer) -> list[str]:
    """What the tools returned, as the model got it."""
    return [message["content"] for message in server.requests[-1].body["messages"] if message["role"] == "tool"]
