"""The baselines, each on the kind of log that it reads well and the kind that it does not."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from logdiag.evaluation.baselines import BASELINES, available, guess, reason_of_class
from logdiag.model import Action, Reason
from logdiag.rules import RuleBook
from tests.evaluation_helpers import KEY_ERROR_LOG, OOM_LOG, case_of, healthy, labelled, write_cases
from tests.helpers import run_logdiag

LAST_LINE, LAST_EXCEPTION, GREP, GPUALERT = BASELINES


@pytest.mark.parametrize(
    ("log", "code", "reason", "line"),
    [
        (KEY_ERROR_LOG, None, "KeyError", 36),
        (KEY_ERROR_LOG, 1, "KeyError", 36),
        (KEY_ERROR_LOG, 137, "OutOfMemoryError", 36),
        (KEY_ERROR_LOG, -9, "OutOfMemoryError", 36),
        (KEY_ERROR_LOG, 0, "none", None),
        (KEY_ERROR_LOG + "srun: task 3 ended\n", None, "none", None),
        (KEY_ERROR_LOG + "srun: task 3 ended\n", 1, "Others", 37),
    ],
)
def test_exit_code_or_last_line(book: RuleBook, log: str, code: int | None, reason: str, line: int | None) -> None:
    """A code that tells something wins; else what the last line that is not empty names."""
    said = guess(LAST_LINE, case_of(log=log, exit_code=code), book)
    assert said.reason.value == reason
    assert (said.root[1] if said.root else None) == line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("KeyError: 'caption'", "KeyError"),
        ("[rank3]: torch.OutOfMemoryError: CUDA out of memory.", "OutOfMemoryError"),
        ("2026-01-02 03:04:05 ERROR worker.py:7] ModuleNotFoundError: No module named 'widget'", "ImportError"),
        ("requests.exceptions.ReadTimeout: HTTPSConnectionPool", "ConnectionError"),
        ("(Worker pid=7) IndentationError: unexpected indent", "SyntaxError"),
        ("KeyboardInterrupt", "Others"),
        ("made.up.WidgetError: it jammed", "Others"),
        ("frame #0: c10::Error::Error(c10::SourceLocation) + 0x57", "none"),
        ("no KeyErrors were seen", "none"),
    ],
)
def test_last_exception(book: RuleBook, line: str, reason: str) -> None:
    """By the name of its class alone, wherever it stands in the line."""
    said = guess(LAST_EXCEPTION, case_of(log=f"ValueError: earlier\nfine\n{line}\n"), book)
    assert said.reason.value == (reason if reason != "none" else "ValueError")
    assert said.root
    assert said.root[1] == (3 if reason != "none" else 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal", "DataloaderKilled"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus", "CUDAError"),
        ("NVRM: Xid (PCI:0000:3b:00): 48, DBE", "ECCError"),
        ("Watchdog caught collective operation timeout", "NCCLTimeoutError"),
        ("error: connection refused", "ConnectionError"),
        ("OSError: [Errno 28] No space left on device", "OSError"),
        ("slurmstepd: error: Detected 1 oom_kill event", "OutOfMemoryError"),
        ("error: it broke", "Others"),
    ],
)
def test_keyword_grep(book: RuleBook, line: str, reason: str) -> None:
    """The first line that looks like an error, by the first keyword in it."""
    said = guess(GREP, case_of(log=f"step: 1\n{line}\nValueError: later\n"), book)
    assert (said.reason.value, said.root) == (reason, ("<bytes>", 2, line))


def test_a_healthy_log_without_scary_words_is_healthy_to_all(book: RuleBook) -> None:
    """And asks for nothing."""
    for name in (LAST_LINE, LAST_EXCEPTION, GREP):
        said = guess(name, case_of(log=healthy()["log"]), book)
        assert (said.reason, said.action, said.root) == (Reason.NONE, Action.NONE, None)


def test_actions_are_the_defaults_of_the_reason(book: RuleBook) -> None:
    """As the table of reasons has them, and no confidence is claimed."""
    said = guess(LAST_EXCEPTION, case_of(log=OOM_LOG), book)
    assert (said.action, said.confidence) == (Action.REDUCE_MEMORY, None)


def test_a_class_that_nobody_knows_is_others() -> None:
    """With or without its module."""
    assert reason_of_class("a.b.WidgetError") is Reason.OTHERS
    assert reason_of_class("botocore.exceptions.ClientError") is Reason.S3_STORAGE_ERROR


def test_baselines_stand_beside_us(tmp_path: Path) -> None:
    """Under the same names of metrics; one that is not installed is a note, not an error."""
    path = write_cases(tmp_path / "cases.jsonl", labelled(), healthy())
    document = json.loads(run_logdiag("eval", path, "--baselines", "--format", "json").stdout)
    names, notes = available()
    assert list(document["baselines"]) == list(names)
    assert document["notes"] == list(notes)
    assert (GPUALERT in names) == (find_spec("gpualert") is not None)
    assert len(notes) == (GPUALERT not in names)
    for metrics in document["baselines"].values():
        assert list(metrics) == list(document["metrics"])
        assert metrics["ece"] is None
    assert document["baselines"][LAST_EXCEPTION]["reason_accuracy"] == 1.0
    text = run_logdiag("eval", path, "--baselines").stdout.decode()
    assert "Beside the baselines" in text
    assert LAST_EXCEPTION in text


def test_gpualert_is_asked(book: RuleBook) -> None:
    """Where it is installed: every label of its classifier is mapped, and it is not judged on lines."""
    parse_errors = pytest.importorskip("gpualert.parse_errors")
    from logdiag.evaluation.baselines import _GPUALERT

    assert {label for _, label, _ in parse_errors.ERROR_PATTERNS} == set(_GPUALERT)
    assert guess(GPUALERT, case_of(log=OOM_LOG), book).reason is Reason.OUT_OF_MEMORY_ERROR
    assert guess(GPUALERT, case_of(log=OOM_LOG, exit_code=0), book).reason is Reason.NONE
    assert guess(GPUALERT, case_of(log=healthy()["log"]), book).reason is Reason.NONE
    assert not guess(GPUALERT, case_of(log=OOM_LOG), book).names_lines
