"""Which `logdiag.toml` is obeyed, and in what: by whose it is and where it lies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logdiag.errors import LogdiagError
from logdiag.settings import load_settings
from logdiag.settings.places import cache_folders, config_file, default_memory, without_password

EVERYTHING = 'llm = "openai:x"\nllm_when = "always"\nmemory = "kept"\nvotes = 15\nrules = ["ours"]\noffline = true\n'


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's own file lies."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "logdiag").mkdir(parents=True)
    return tmp_path / "config" / "logdiag" / "logdiag.toml"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository's root."""
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    return tmp_path / "repository"


def test_the_users_own_file_may_set_everything(own_file: Path, tmp_path: Path) -> None:
    """Its relative paths are meant from its own folder."""
    own_file.write_text(EVERYTHING)
    settings = load_settings(environ={}, folder=tmp_path)
    assert (settings.llm, settings.llm_when, settings.votes) == ("openai:x", "always", 15)
    assert settings.memory == str(own_file.parent / "kept")
    assert settings.rules == (str(own_file.parent / "ours"),)
    assert settings.notes == ()


def test_a_repositorys_file_may_set_what_sends_nothing_and_names_no_store(own_file: Path, repository: Path) -> None:
    """It serves all its folders; for the rest a note says where it belongs."""
    (repository / "logdiag.toml").write_text(EVERYTHING)
    inner = repository / "a" / "b"
    inner.mkdir(parents=True)
    settings = load_settings(environ={}, folder=inner)
    assert settings.rules == (str(repository / "ours"),)
    assert settings.offline
    assert (settings.llm, settings.llm_when, settings.memory, settings.votes) == ("", "unsure", "", 1)
    refused, in_force = settings.notes
    assert f"{repository / 'logdiag.toml'}: llm, llm_when, memory, votes: ignored" in refused
    assert str(own_file) in refused
    assert "are in force" in in_force


def test_a_repositorys_file_cannot_take_offline_back(own_file: Path, repository: Path) -> None:
    """The user's own word for no network stands."""
    own_file.write_text("offline = true\n")
    (repository / "logdiag.toml").write_text("offline = false\n")
    assert load_settings(environ={}, folder=repository).offline


def test_a_file_above_the_repository_sets_nothing(repository: Path) -> None:
    """It lies there for others, or was planted: a note says that it was seen."""
    (repository.parent / "logdiag.toml").write_text('rules = ["planted"]\n')
    settings = load_settings(environ={}, folder=repository)
    assert settings.rules == ()
    (note,) = settings.notes
    assert note.startswith(f"{repository.parent / 'logdiag.toml'}: ignored, for it lies above the repository")
    assert [file.state[:7] for file in settings.files] == ["not the", "ignored"]


def test_without_a_repository_only_the_working_directory_counts(tmp_path: Path) -> None:
    """In a folder of logs, say."""
    (tmp_path / "logdiag.toml").write_text("offline = true\n")
    (tmp_path / "logs").mkdir()
    assert load_settings(environ={}, folder=tmp_path).offline
    assert not load_settings(environ={}, folder=tmp_path / "logs").offline


def test_the_nearest_of_a_repositorys_files_counts_alone(repository: Path) -> None:
    """The other is listed with why, and no note is made of it."""
    (repository / "logdiag.toml").write_text('rules = ["far"]\n')
    (repository / "inner").mkdir()
    (repository / "inner" / "logdiag.toml").write_text('rules = ["near"]\n')
    settings = load_settings(environ={}, folder=repository / "inner")
    assert settings.rules == (str(repository / "inner" / "near"),)
    assert settings.files[-1].state.endswith("is nearer")
    assert len(settings.notes) == 1


def writable_by_all(file: Path) -> str:
    """Everybody may change it."""
    file.chmod(0o666)
    return "everybody may write to it"


def in_a_folder_writable_by_all(file: Path) -> str:
    """Everybody may put another in its place."""
    file.parent.chmod(0o777)
    return "of its folder, everybody may write to it"


def of_another(file: Path) -> str:
    """Somebody else wrote it."""
    os.chown(file, 65534, 65534)
    return "owns it"


def a_link_of_another(file: Path) -> str:
    """Somebody else chose which of our files it is."""
    file.rename(file.with_name("mine"))
    file.symlink_to("mine")
    os.chown(file, 65534, 65534, follow_symlinks=False)
    return "owns it"


def a_pipe(file: Path) -> str:
    """Reading it would wait for ever."""
    file.unlink()
    os.mkfifo(file)
    return "it is no file"


needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")


@pytest.mark.parametrize(
    "plant",
    [
        writable_by_all,
        in_a_folder_writable_by_all,
        a_pipe,
        pytest.param(of_another, marks=needs_root),
        pytest.param(a_link_of_another, marks=needs_root),
    ],
)
@pytest.mark.parametrize("place", ["own", "repository"])
def test_a_file_that_another_may_have_written_sets_nothing(
    own_file: Path, repository: Path, plant: Callable[[Path], str], place: str
) -> None:
    """Wherever it lies; a note names it and says why."""
    file = own_file if place == "own" else repository / "logdiag.toml"
    file.write_text(EVERYTHING)
    why = plant(file)
    settings = load_settings(environ={}, folder=repository)
    assert set(settings.origins.values()) == {"default"}
    (note,) = settings.notes
    assert note.startswith(f"{file}: ignored, for")
    assert why in note


def test_rules_that_another_may_have_written_are_not_named_by_a_repository(repository: Path) -> None:
    """A rule decides what is done about a failure."""
    (repository / "ours").mkdir()
    (repository / "ours").chmod(0o777)
    (repository / "logdiag.toml").write_text('rules = ["ours"]\n')
    settings = load_settings(environ={}, folder=repository)
    assert settings.rules == ()
    assert f"of {repository / 'ours'}, everybody may write to it" in settings.notes[0]


def test_a_file_that_the_user_names_stands_in_the_place_of_all_others(
    own_file: Path, repository: Path, tmp_path: Path
) -> None:
    """Whoever may write to it: it is the user's word."""
    own_file.write_text("votes = 3\n")
    (repository / "logdiag.toml").write_text('rules = ["ours"]\n')
    named = tmp_path / "named.toml"
    named.write_text('llm = "openai:named"\nmemory = "postgresql://db.example/logdiag"\n')
    named.chmod(0o666)
    settings = load_settings({"config": str(named)}, environ={}, folder=repository)
    assert (settings.llm, settings.memory) == ("openai:named", "postgresql://db.example/logdiag")
    assert (settings.votes, settings.rules) == (1, ())
    with pytest.raises(LogdiagError, match=r"none\.toml: cannot be read"):
        load_settings({"config": str(tmp_path / "none.toml")}, environ={}, folder=repository)


@pytest.mark.parametrize("content", [b"x = " + b"[" * 100_000, b"x" * 2_000_000, b"\xff", b"a = 1\na = 2\n"])
def test_a_file_that_is_no_settings_is_one_sentence(own_file: Path, tmp_path: Path, content: bytes) -> None:
    """However it is broken."""
    own_file.write_bytes(content)
    with pytest.raises(LogdiagError, match=rf"^{own_file}: [^\n]*correct it[^\n]*$"):
        load_settings(environ={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("/srv/jobs@night:1", "/srv/jobs@night:1"),
        ("postgresql://mira@db/jobs", "postgresql://mira@db/jobs"),
        ("postgresql://mira:s3cr3t@db/jobs?password=s3cr3t", "postgresql://mira:...@db/jobs?...=..."),
        ("postgresql://mira:s3@cr/3t@db/jobs", "postgresql://mira:...@db/jobs"),
        ("postgresql://[::1", "postgresql://[::1"),
    ],
)
def test_an_address_is_shown_without_its_password(place: str, shown: str) -> None:
    """Also where the password has signs that should have been escaped, or the address is none."""
    assert without_password(place) == shown


@pytest.mark.parametrize("home", [None, "", "relative", "/", "/home/mira/"])
@pytest.mark.parametrize("named", [None, "", "  ", "/srv/mira/xdg", "relative/xdg", "/srv/with blank "])
def test_the_users_own_folders_are_those_of_platformdirs(
    monkeypatch: pytest.MonkeyPatch, named: str | None, home: str | None
) -> None:
    """Whatever the environment names: on Linux they are found without the library."""
    import platformdirs

    monkeypatch.delenv("LOGDIAG_MEMORY", raising=False)
    monkeypatch.delenv("LOGDIAG_CACHE", raising=False)
    said = {"HOME": home, **dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), named)}
    for name, value in said.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert next(cache_folders()) == platformdirs.user_cache_dir("logdiag", appauthor=False)
    assert config_file() == platformdirs.user_config_dir("logdiag", appauthor=False) + "/logdiag.toml"
    assert default_memory() == platformdirs.user_data_dir("logdiag", appauthor=False) + "/memory"
