"""Settings: what wins over what, and how wrong ones are told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logdiag.errors import LogdiagError
from logdiag.settings import Settings, load_settings
from tests.helpers import environment


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    """No model, and each value says that it is a default."""
    settings = load_settings(environ={}, folder=tmp_path)
    assert settings == Settings(origins=settings.origins, files=settings.files)
    assert [file.state for file in settings.files] == ["not there"]
    assert set(settings.origins.values()) == {"default"}
    assert not settings.may_ask


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    """Each of the three sets one value that the next one does not."""
    file = tmp_path / "own.toml"
    file.write_text('llm = "openai:file"\nvotes = 3\nbudget = 900\nllm_timeout = 5\noffline = true\n')
    environ = {"LOGDIAG_LLM": "openai:environment", "LOGDIAG_VOTES": "5"}
    settings = load_settings({"llm": "openai:flag", "votes": None, "config": file}, environ=environ, folder=tmp_path)
    assert (settings.llm, settings.votes, settings.budget, settings.llm_timeout) == ("openai:flag", 5, 900, 5.0)
    assert settings.origins["llm"] == "--llm"
    assert settings.origins["votes"] == "environment LOGDIAG_VOTES"
    assert settings.origins["budget"] == str(file)
    assert settings.origins["memory"] == "default"
    assert not settings.may_ask


def test_a_variable_that_is_no_setting_is_told(tmp_path: Path) -> None:
    """A slip of the pen is not silent."""
    (note,) = load_settings(environ={"LOGDIAG_LLMM": "x", "LOGDIAG_CACHE": "y"}, folder=tmp_path).notes
    assert note.startswith("environment LOGDIAG_LLMM: ignored, no such setting; known are LOGDIAG_BUDGET,")


def test_offline_forbids_a_store_on_the_network(tmp_path: Path) -> None:
    """A diagnosis goes on without it and says so; what is of no use without it is refused."""
    address = {"LOGDIAG_MEMORY": "postgresql://db.example/logdiag"}
    settings = load_settings({"offline": True}, environ=address, folder=tmp_path)
    assert settings.store is False
    assert "offline: past failures are not asked" in settings.notes[0]
    with pytest.raises(LogdiagError, match=r"offline is set \(--offline\), and the memory is on the network"):
        settings.store_or_refusal()
    assert load_settings({}, environ=address, folder=tmp_path).store == "postgresql://db.example/logdiag"
    assert load_settings({"offline": True, "memory": "/srv/x"}, environ={}, folder=tmp_path).store == "/srv/x"


def test_rules_in_the_environment_are_a_list_of_folders(tmp_path: Path) -> None:
    """Parted as PATH is."""
    settings = load_settings(environ={"LOGDIAG_RULES": os.pathsep.join(("one", "two"))}, folder=tmp_path)
    assert settings.rules == ("one", "two")


@pytest.mark.parametrize("word", ["always", "unsure", "never"])
def test_llm_also_says_when_to_ask(tmp_path: Path, word: str) -> None:
    """`--llm never` keeps the model that is set up, and does not ask it."""
    (tmp_path / "own.toml").write_text('llm = "ollama:llama3.1:8b"\n')
    settings = load_settings({"llm": word}, environ={"LOGDIAG_CONFIG": str(tmp_path / "own.toml")}, folder=tmp_path)
    assert (settings.llm, settings.llm_when) == ("ollama:llama3.1:8b", word)
    assert settings.may_ask == (word != "never")


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """Each with where it stands, its key, and what to give instead."""
    file = tmp_path / "own.toml"
    file.write_text('lmm = "openai:x"\nvotes = 2.5\noffline = "perhaps"\nrules = "ours"\n')
    environ = {"LOGDIAG_LLM": "gpt-5", "LOGDIAG_LLM_TIMEOUT": "soon", "LOGDIAG_BUDGET": "1"}
    with pytest.raises(LogdiagError) as caught:
        load_settings({"llm_when": "sometimes", "config": file}, environ=environ, folder=tmp_path)
    lines = str(caught.value).split("\n")
    assert len(lines) == 8
    assert lines[0].startswith(f"{file}: lmm: no such key; known are rules, memory, llm,")
    assert f"{file}: rules: 'ours' cannot be used; give a list of folders" in lines
    assert "environment LOGDIAG_LLM: llm: 'gpt-5' cannot be used; give provider:model, or one of" in str(caught.value)
    assert "--llm-when: llm_when: 'sometimes' cannot be used; give one of always, unsure, never" in lines


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    """With the place of the mistake."""
    (tmp_path / "logdiag.toml").write_text("llm = openai\n")
    with pytest.raises(LogdiagError, match=r"logdiag\.toml: not valid TOML \(.*line 1"):
        load_settings(environ={}, folder=tmp_path)


def test_without_a_file_no_toml_reader_is_loaded(tmp_path: Path) -> None:
    """Every run pays for what settings load."""
    code = "import sys, logdiag.settings as s; s.load_settings(environ={}); print('tomllib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), cwd=tmp_path, check=True
    )
    assert done.stdout.strip() == "False"
