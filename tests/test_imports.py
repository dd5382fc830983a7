"""What is public, and what a small diagnosis does not load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import logdiag
from tests.helpers import LOGS, environment, log_of, run_logdiag, steps

HEAVY = {
    "pydantic", "pydantic_core", "yaml", "rich", "numpy", "pandas", "torch", "transformers",
    "sentence_transformers", "faiss", "langchain", "langchain_core", "openai", "sqlite3", "asyncio",
    "multiprocessing", "unittest", "http", "urllib.request", "ssl", "socket", "zstandard", "backports.zstd",
    "compression.zstd", "drain3", "importlib.metadata", "email", "sqlalchemy", "jinja2",
    "statistics", "pickle", "tarfile", "zipfile",
    # Of logdiag itself what only other logs, other options or larger ones need.
    "logdiag.agent.opinion", "logdiag.judge.suspects.good_run", "logdiag.judge.collectives.hung",
    "logdiag.judge.collectives.call_table",
    "logdiag.memory.nodes", "logdiag.judge.merge.machines", "logdiag.read.archives", "logdiag.read.pickles",
    "logdiag.scan.crew", "logdiag.scan.good_run", "logdiag.memory.good_runs",
}  # fmt: skip
if sys.platform == "linux":
    HEAVY.add("platformdirs")
# Of what a failure needs to be likened to past ones.
OF_THE_MEMORY = {"logdiag.memory.store", "logdiag.pipeline.opinions", "pathlib"}


def loaded_by(code: str, *arguments: str) -> set[str]:
    """The modules that a fresh process has loaded after running some code."""
    code += "\nimport sys, json\nsys.stderr.write(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        env=environment(),
        check=True,
        timeout=120,
        text=True,
    )
    return set(json.loads(done.stderr))


@pytest.fixture
def small_log(tmp_path: Path) -> str:
    """10 kB of log, with a warm cache to diagnose it with."""
    path = tmp_path / "job.log"
    path.write_bytes(
        log_of(*steps(1, 230), "torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
    )
    assert run_logdiag(path).returncode == 0
    return str(path)


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "markdown"])
def test_the_command_loads_nothing_heavy(small_log: str, form: str) -> None:
    """The second run of `logdiag small.log` in each format."""
    code = (
        "import sys\nfrom logdiag.cli.main import run\nsys.argv[1:] = sys.argv[1:] + ['--format', '"
        + form
        + "']\nrun()"
    )
    modules = loaded_by(code, small_log)
    assert "logdiag.judge.verdict" in modules
    assert modules & HEAVY == set()


def test_the_function_loads_nothing_heavy(small_log: str) -> None:
    """`from logdiag import diagnose` and one diagnosis; no command-line library either."""
    modules = loaded_by("import sys\nfrom logdiag import diagnose\ndiagnose(sys.argv[1])", small_log)
    assert modules & (HEAVY | {"click"}) == set()


def test_a_healthy_log_loads_no_memory(tmp_path: Path) -> None:
    """Where no past failures are kept, there is nothing to liken it to."""
    path = tmp_path / "healthy.log"
    path.write_bytes(log_of(*steps(1, 230), "training finished"))
    code = "import sys\nfrom logdiag import diagnose\nassert diagnose(sys.argv[1]).failed is False"
    assert loaded_by(code, str(path)) & (HEAVY | OF_THE_MEMORY) == set()


def test_importing_the_package_loads_no_engine() -> None:
    """A controller that only imports pays for the types."""
    assert loaded_by("import logdiag") & (HEAVY | {"click", "hyperscan", "regex"}) == set()


# The only modules that may import a library, so that its exceptions are mapped there and its weight is paid there.
IMPORTERS = {
    "yaml": {
        "agent/forms.py", "authoring/rule_file.py", "evaluation/baselines.py", "memory/corpus.py", "rules/tables.py",
    },
    "detect_secrets": {"agent/secret_forms.py"},
    "httpx": {"agent/connection.py"},
    "langchain": {"agent/failure_agent.py", "agent/models.py"},
    "pydantic": {
        "agent/answer.py", "evaluation/cases.py", "model/plain.py", "read/form_files.py",
        "recovery/policy.py", "rules/files.py", "rules/tables.py",
    },
    "hyperscan": {"rules/matcher.py"},
    "jinja2": {"report/as_html.py"},
    "kubernetes": {"read/clusters/k8s.py"},
    "platformdirs": {"settings/places.py"},
    "sqlalchemy": {"memory/database.py", "memory/nearest.py"},
    "sentence_transformers": {"memory/embedding.py"},
    "faiss": {"memory/nearest.py"},
    "click": {
        "cli/batch.py", "cli/clusters.py", "cli/evaluate.py", "cli/incidents.py",
        "cli/main.py", "cli/nodecheck.py", "cli/options.py", "cli/output.py", "cli/reference.py", "cli/rules.py",
        "cli/run.py",
    },
    "torch": {"recovery/saving.py", "recovery/world.py"},
    "rich": {"evaluation/page.py", "evaluation/table.py", "report/as_text.py"},
}  # fmt: skip


@pytest.mark.parametrize("module", IMPORTERS)
def test_each_library_is_imported_in_its_own_place(module: str) -> None:
    """Nowhere else, not even inside a function."""
    package = Path(logdiag.__file__).parent
    importing = re.compile(rf"^\s*(?:import|from) {module}\b", re.MULTILINE)
    paths = {str(path.relative_to(package)): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert {name for name, text in paths.items() if importing.search(text)} == IMPORTERS[module]


def test_the_public_names_are_these() -> None:
    """Adding one is a decision, removing one breaks someone."""
    assert logdiag.__all__ == [
        "Action",
        "AgentError",
        "Candidate",
        "Category",
        "Consequence",
        "Diagnosis",
        "Digest",
        "Evidence",
        "Line",
        "LogdiagError",
        "MemoryStoreError",
        "Reason",
        "Recovery",
        "RootCause",
        "RuleError",
        "Similar",
        "SourceError",
        "Support",
        "Suspect",
        "Times",
        "diagnose",
        "render",
    ]
    assert all(hasattr(logdiag, name) for name in logdiag.__all__)


def test_every_error_is_one_of_ours() -> None:
    """A caller catches LogdiagError and has all of them."""
    errors = [logdiag.AgentError, logdiag.MemoryStoreError, logdiag.RuleError, logdiag.SourceError]
    assert all(issubclass(error, logdiag.LogdiagError) for error in errors)
    assert issubclass(logdiag.LogdiagError, Exception)


def test_every_module_says_what_it_is_for() -> None:
    """It can be imported by itself and has a docstring; what its `__all__` names, if it has one, is there."""
    import importlib

    package = Path(logdiag.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.name == "__main__.py":
            continue
        name = ".".join(["logdiag", *path.relative_to(package).with_suffix("").parts]).removesuffix(".__init__")
        module = importlib.import_module(name)
        assert module.__doc__, name
        assert all(hasattr(module, public) for public in getattr(module, "__all__", ())), name


def test_the_sample_that_ships_is_there() -> None:
    """`make run` shows it."""
    assert (LOGS / "demo.log").stat().st_size > 10_000
