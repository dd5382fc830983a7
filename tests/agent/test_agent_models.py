"""Models by name, `logdiag config`, and what it says of a model that does not answer."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from logdiag import __version__
from logdiag.agent.ask import Asker
from logdiag.agent.connection import Connection
from logdiag.agent.models import failure_of, load_model
from logdiag.cli.reference import setting_rows
from logdiag.errors import AgentError
from logdiag.settings import load_settings
from tests.agent_helpers import NAME
from tests.chat_server import ChatServer, Reply, says
from tests.helpers import environment


def config(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own."""
    code = (
        "import sys\nimport click\n"
        "from logdiag.cli.reference import config\nfrom logdiag.errors import LogdiagError\n"
        "try:\n    config(standalone_mode=False)\n"
        "except LogdiagError as error:\n    click.echo(f'logdiag: {error}', err=True); sys.exit(2)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment(env),
        cwd=cwd,
        check=False,
        timeout=60,
    )


def connection() -> Connection:
    """One for ten seconds."""
    return Connection(time.monotonic() + 10)


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_a_model_is_found_by_the_providers_own_variables(monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    """The address and the key are not ours to ask for."""
    with ChatServer([says("yes")]) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        assert load_model(f"{provider}:scripted", connection()).invoke("hello").text == "yes"
    assert all(request.body["model"] == "scripted" for request in server.requests)


def test_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM, SGLang and llama.cpp ask for none."""
    with ChatServer([says("yes")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        assert load_model(NAME, connection()).invoke("hello").text == "yes"


def test_without_a_key_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the provider that asks for it."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AgentError, match=f"--llm {NAME}: no key; set OPENAI_API_KEY"):
        load_model(NAME, connection())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpt-5", "not provider:model; for instance openai:gpt-5 or ollama:"),
        ("openai:", "not provider:model"),
        ("perplexity:sonar", "the provider's package is missing: pip install langchain-perplexity"),
        ("opnai:gpt-5", "LangChain knows no provider opnai; check its spelling"),
    ],
)
def test_a_wrong_name_says_what_to_do(name: str, said: str) -> None:
    """One sentence with the remedy."""
    with pytest.raises(AgentError) as caught:
        load_model(name, connection())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_langchain_the_install_line_is_named(tmp_path: Path) -> None:
    """A process in which LangChain cannot be imported."""
    (tmp_path / "langchain").mkdir()
    (tmp_path / "langchain" / "__init__.py").write_text("raise ImportError('not installed')\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from logdiag.agent.connection import Connection\n"
        "from logdiag.agent.models import load_model\n"
        "from logdiag.errors import AgentError\n"
        "try: load_model('openai:x', Connection(0.0))\n"
        "except AgentError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.strip() == "a language model needs LangChain: pip install 'logdiag[agent]'"


def test_an_unknown_failure_is_told_in_one_line() -> None:
    """Whatever a client raises."""
    assert failure_of(RuntimeError("odd\nsecond line")) == "failed (RuntimeError: odd)"
    assert failure_of(TimeoutError()) == "did not answer in time"
    assert failure_of(ConnectionRefusedError()).startswith("could not be reached")


@pytest.mark.parametrize("reply", [Reply(status=429), Reply(hang=True), Reply(raw=b"no")])
def test_a_question_ends_in_time_and_says_why(monkeypatch: pytest.MonkeyPatch, reply: Reply) -> None:
    """With the model's name."""
    with ChatServer([reply]) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        began = time.monotonic()
        with pytest.raises(AgentError, match=f"the model {NAME} "):
            Asker(NAME, 1.5).texts("Answer.", "yes?")
        assert time.monotonic() - began < 8


def test_config_shows_each_value_and_its_origin(tmp_path: Path) -> None:
    """From a file and the environment."""
    (tmp_path / "own.toml").write_text('votes = 3\nmemory = "postgresql://mira:s3cr3t@db/logdiag?password=s3cr3t"\n')
    done = config(
        "--config",
        str(tmp_path / "own.toml"),
        cwd=tmp_path,
        env={"LOGDIAG_LLM": "openai:x", "LOGDIAG_LLM_TIMEOUT": "7", "LOGDIAG_MEMORY": "", "OPENAI_API_KEY": "s3cr3t"},
    )
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines()}
    assert shown["votes"] == f"3 {tmp_path / 'own.toml'}"
    assert shown["llm"] == "openai:x environment LOGDIAG_LLM"
    assert shown["llm_timeout"] == "7 environment LOGDIAG_LLM_TIMEOUT"
    assert shown["budget"] == "6000 default"
    assert shown["memory"].startswith("postgresql://mira:...@db/logdiag?...=... ")
    assert shown["OPENAI_API_KEY"] == "set environment"
    assert "s3cr3t" not in done.stdout
    assert done.returncode == 0


def test_variables_of_other_providers_are_not_listed(tmp_path: Path) -> None:
    """Only what the model in force goes by."""
    settings = load_settings({"llm": "ollama:x"}, environ={}, folder=tmp_path)
    listed = setting_rows(settings, {"OPENAI_API_KEY": "x", "OLLAMA_HOST": "h", "HOME": "/"})
    assert [name for name, _, origin in listed if origin == "environment"] == ["OLLAMA_HOST"]


def test_config_shows_the_places_and_what_is_installed(tmp_path: Path) -> None:
    """The store that is in force though nothing names it, the cache, the version and each extra."""
    env = {"LOGDIAG_MEMORY": "", "XDG_DATA_HOME": str(tmp_path / "data"), "LOGDIAG_CACHE": str(tmp_path / "cache")}
    shown = config(cwd=tmp_path, env=env).stdout.splitlines()
    words = {tuple(row.split()[:2]) for row in shown}
    assert ("memory", str(tmp_path / "data" / "logdiag" / "memory")) in words
    assert ("cache", str(tmp_path / "cache")) in words
    assert ("version", __version__) in words
    assert {row.split()[1] for row in shown if row.startswith("extra ")} == {
        "memory", "memory-models", "team", "agent", "ollama",
    }  # fmt: skip
