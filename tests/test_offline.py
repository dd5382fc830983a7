"""`--offline` means no connection at all: counted in the process and by who listens."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.helpers import LOGS, run_logdiag

# Python's own connections, told by the interpreter; the listener sees those that libraries make below it.
COUNTER = """
import os, sys

def seen(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        with open(os.environ["SEEN"], "a") as out:
            print(event, arguments[-1], file=out)

sys.addaudithook(seen)
"""


@contextmanager
def listener() -> Iterator[tuple[int, list[int]]]:
    """A port on loopback, and the ports of those who called it: each call is hung up on."""
    callers: list[int] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:

        def hang_up() -> None:
            with suppress(OSError):  # the server is closed
                while True:
                    connection, (_, port) = server.accept()
                    callers.append(port)
                    connection.close()

        thread = Thread(target=hang_up)
        thread.start()
        try:
            yield server.getsockname()[1], callers
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def called(tmp_path: Path, *arguments: str | Path, **more: str) -> tuple[bool, list[str], str, str]:
    """Whether the listener was called, what the interpreter saw, and what the command printed."""
    (tmp_path / "sitecustomize.py").write_text(COUNTER, encoding="utf-8")
    seen = tmp_path / "seen"
    seen.write_text("", encoding="utf-8")
    with listener() as (port, callers):
        env = {
            "PYTHONPATH": f"{tmp_path}:{Path(__file__).resolve().parents[1]}",
            "SEEN": str(seen),
            "PGPASSWORD": "victimsecret",
            "PGCONNECT_TIMEOUT": "2",
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_API_KEY": "x",
            "LANGSMITH_ENDPOINT": f"http://127.0.0.1:{port}",
            "LOGDIAG_MEMORY": f"postgresql://bob@127.0.0.1:{port}/x",
            "LOGDIAG_LLM": "openai:m",
            "LOGDIAG_LLM_WHEN": "always",
            "LOGDIAG_LLM_TIMEOUT": "9",
            **more,
        }
        done = run_logdiag(*arguments, env=env)
        return bool(callers), seen.read_text().splitlines(), done.stdout.decode(), done.stderr.decode()


def test_offline_opens_no_connection(tmp_path: Path) -> None:
    """With a store, a model and tracing set up, the answer is that of the rules, and a note says why."""
    connected, seen, out, err = called(tmp_path, "--offline", LOGS / "demo.log", "--format", "json")
    assert not connected
    assert seen == []
    assert json.loads(out)["reason"] == "ECCError"
    assert "past failures are not asked, for their store is on the network (environment LOGDIAG_MEMORY)" in err


@pytest.mark.parametrize("missing", ["LOGDIAG_MEMORY", "LOGDIAG_LLM"])
def test_without_offline_both_would_be_asked(tmp_path: Path, missing: str) -> None:
    """The control: the listener sees the store alone, and the model alone."""
    # The deadline is for loading the model's client too, which takes long on a busy machine.
    more = {"LOGDIAG_LLM_TIMEOUT": "30", missing: ""}
    connected, _, out, _ = called(tmp_path, LOGS / "demo.log", "--format", "json", **more)
    assert connected
    assert json.loads(out)["reason"] == "ECCError"


@pytest.mark.parametrize(
    "arguments", [("incidents", "list"), ("rules", "suggest"), ("--show-prompt", str(LOGS / "demo.log"))]
)
def test_no_other_command_opens_one_either(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """What needs the store is refused in one sentence."""
    connected, seen, _, err = called(tmp_path, *arguments, LOGDIAG_OFFLINE="1")
    assert not connected
    assert seen == []
    assert "offline" in err
    assert "Traceback" not in err


def test_a_planted_file_reaches_no_stranger(tmp_path: Path) -> None:
    """Not the password, and not the log; the answer is as without it."""
    with listener() as (port, callers):
        planted = tmp_path / "shared"
        (planted / "logs").mkdir(parents=True)
        (planted / "logdiag.toml").write_text(
            f'memory = "postgresql://attacker@127.0.0.1:{port}/x"\nllm = "openai:m"\nllm_when = "always"\n',
            encoding="utf-8",
        )
        planted.chmod(0o777)
        env = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "PGPASSWORD": "secret"}
        for folder in (planted, planted / "logs"):
            done = run_logdiag(LOGS / "demo.log", "--format", "json", env=env, cwd=folder)
            assert json.loads(done.stdout)["reason"] == "ECCError"
            assert b"logdiag.toml: ignored, for" in done.stderr
        assert not callers
