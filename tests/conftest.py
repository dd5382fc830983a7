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


def pytest_unconfigure(config: pytest.Config) -> None:
    """The controller removes what it made."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["LOGDIAG_CACHE"], ignore_errors=True)


@pytest.fixture(scope="session")
def book() -> RuleBook:
    """The shipped rules."""
    return RuleBook.load()


@pytest.fixture(scope="session")
def proof_book() -> RuleBook:
    """The shipped rules with their examples."""
    return RuleBook.load(proof=True)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rule cache that only this test uses."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOGDIAG_CACHE", str(folder))
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
