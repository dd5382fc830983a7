"""Every test run has a rule cache of its own, shared by its workers and the processes they start."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from logdiag import Diagnosis
from logdiag.rules import RuleBook
from logdiag.rules.folders import shipped_folder
from tests.helpers import ROOT

if TYPE_CHECKING:
    from tests.agent_helpers import Asks

settings.register_profile("logdiag", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("logdiag")


def pytest_configure(config: pytest.Config) -> None:
    """The controller makes the cache folder; workers inherit it by the environment."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for name in [name for name in os.environ if name.startswith("LOGDIAG_")]:
            del os.environ[name]
        os.environ["LOGDIAG_CACHE"] = tempfile.mkdtemp(prefix="logdiag-tests-")
        # Nobody's own settings: a folder that is never made.
        os.environ["XDG_CONFIG_HOME"] = os.path.join(os.environ["LOGDIAG_CACHE"], "config")
        # Nobody's own incidents: a folder that is never made.
        os.environ["LOGDIAG_MEMORY"] = os.path.join(os.environ["LOGDIAG_CACHE"], "memory")
        # Compiled here once, so that no worker and no process of a test compiles them again.
        RuleBook.load()
        shutil.copytree(os.environ["LOGDIAG_CACHE"], os.path.join(os.environ["LOGDIAG_CACHE"], "shipped"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """The controller removes what it made."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["LOGDIAG_CACHE"], ignore_errors=True)


@pytest.fixture(scope="session")
def book() -> RuleBook:
    """The shipped rules."""
    return RuleBook.load()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rule cache that only this test uses."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOGDIAG_CACHE", str(folder))
    return folder


@pytest.fixture
def shipped_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As `own_cache`, with the shipped rules in it."""
    folder = shutil.copytree(os.path.join(os.environ["LOGDIAG_CACHE"], "shipped"), tmp_path / "cache")
    monkeypatch.setenv("LOGDIAG_CACHE", str(folder))
    return folder


# Topics, with the forms of lines, and with every kind of file: rules, families, filters and tables.
_SOME = ("context", "cuda", "filters", "forms", "launchers", "nccl", "nvidia", "python")


@pytest.fixture(scope="session")
def some_rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of the shipped rules, for tests of the machinery: compiled in a fifth of the time that all of them take."""
    folder = tmp_path_factory.mktemp("some") / "rules"
    for topic in _SOME:
        shutil.copytree(Path(shipped_folder(), topic), folder / topic)
    for table in Path(shipped_folder()).glob("*.yaml"):
        shutil.copy(table, folder)
    return folder


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, some_rules: Path) -> Path:
    """A folder of modules in which logdiag is installed with these rules."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "logdiag", folder / "logdiag", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(some_rules, folder / "logdiag" / "data" / "rules")
    return folder


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """A shell tells what it puts into the background to ignore Ctrl-C; the processes of these tests are to obey it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# --- a model that is asked about one log; LangChain is loaded where one is asked ---


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The shared log."""
    from tests.agent_helpers import job_log

    return job_log(tmp_path)


@pytest.fixture
def diagnosis(book: RuleBook, log: Path) -> Diagnosis:
    """What the rules say of it."""
    from tests.agent_helpers import unexplained

    return unexplained(book, log)


@pytest.fixture
def asks(book: RuleBook, log: Path, diagnosis: Diagnosis) -> Asks:
    """Asks a scripted model about the shared log."""
    from tests.agent_helpers import asker

    return asker(book, log, diagnosis)
