"""`logdiag eval`, run as people run it, and the workers behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logdiag.errors import RuleError
from logdiag.evaluation.cases import load_cases
from logdiag.evaluation.metrics import METRICS
from logdiag.evaluation.run import evaluate
from tests.evaluation_helpers import (
    accident,
    healthy,
    labelled,
    out_of_memory,
    without_seconds,
    write_cases,
)
from tests.helpers import SHARED, rule_text, run_logdiag, write_rule

DEV = SHARED / "reallogs" / "dev.jsonl"

THREE = (labelled(split="dev"), out_of_memory(split="dev"), healthy(split="held-back"))


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A KeyError, an OutOfMemoryError, a healthy job."""
    return write_cases(tmp_path_factory.mktemp("cases") / "cases.jsonl", *THREE)


@pytest.fixture(scope="module")
def document(cases: Path) -> dict[str, Any]:
    """The evaluation of them, as JSON."""
    done = run_logdiag("eval", cases, "--format", "json")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


# --- what is printed ---


def test_the_document_has_its_schema(document: dict[str, Any], cases: Path) -> None:
    """Metrics under their names, rows in the order of the cases, and what they were made by."""
    assert document["schema"] == "logdiag.evaluation/1"
    assert list(document["metrics"]) == list(METRICS)
    assert document["metrics"]["reason_accuracy"] == 1.0
    assert document["metrics"]["root_line_hit"] == 1.0
    assert document["metrics"]["root_line_survival"] == 1.0
    assert document["metrics"]["first_rank_hit"] is None
    assert [row["id"] for row in document["cases"]] == ["key", "oom", "healthy"]
    assert document["by_split"]["dev"]["n"] == 2
    assert document["made_by"]["cases"] == 3
    assert document["made_by"]["files"][0]["name"] == cases.name
    assert "baselines" not in document
    assert str(cases.parent) not in json.dumps(document)


def test_the_same_cases_give_the_same_document(document: dict[str, Any], cases: Path) -> None:
    """But for seconds; however many processes."""
    again = json.loads(run_logdiag("eval", cases, "--format", "json", "--jobs", "1").stdout)
    for one in (document, again):
        for row in one["cases"]:
            row["seconds"] = 0
        for metrics in (one["metrics"], *one["by_split"].values()):
            metrics.update(latency_p50=0, latency_p95=0)
    assert again == document


def test_tables_are_printed_for_people(cases: Path) -> None:
    """Metrics with intervals, reasons, and misses; nothing of a log steers the terminal or reads as markup."""
    path = write_cases(
        cases.parent / "wrong.jsonl", *THREE, labelled("[bold]id\x1b[31m", reason="IndexError", also_root=["KeyError"])
    )
    done = run_logdiag("eval", path)
    text = done.stdout.decode()
    assert done.returncode == 0
    assert text.startswith("4 cases: 3 failed, 1 healthy\n")
    assert "75.0%" in text
    assert "30.1% to 95.4%" in text
    assert "[bold]id\\x1b[31m" in text
    assert "reason: IndexError, answered KeyError" in text
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_the_document_is_written_beside_the_table(cases: Path, tmp_path: Path) -> None:
    """The document, while the table goes to standard output."""
    done = run_logdiag("eval", cases, "--json", tmp_path / "out.json")
    assert b"Reason right" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())["metrics"]["reason_accuracy"] == 1.0


def test_only_a_split_is_measured_when_asked(cases: Path) -> None:
    """As if the file held no other case."""
    done = run_logdiag("eval", cases, "--split", "held-back", "--format", "json")
    assert [row["id"] for row in json.loads(done.stdout)["cases"]] == ["healthy"]


def test_rules_of_ones_own_are_measured(cases: Path, tmp_path: Path) -> None:
    """And make another document: their bytes are in `made_by`."""
    write_rule(
        tmp_path,
        "script/own",
        rule_text(reason="IndexError", match=["KeyError: 'caption'"], fires=["KeyError: 'caption'"]),
    )
    plain = json.loads(run_logdiag("eval", cases, "--format", "json").stdout)
    own = json.loads(run_logdiag("eval", cases, "--format", "json", "--rules", tmp_path).stdout)
    assert (plain["cases"][0]["reason"], own["cases"][0]["reason"]) == ("KeyError", "IndexError")
    assert plain["made_by"]["rules"] != own["made_by"]["rules"]


def test_a_place_that_cannot_be_written_is_said_first(cases: Path, tmp_path: Path) -> None:
    """One sentence, status 2, before anything is scored."""
    done = run_logdiag("eval", cases, "--json", tmp_path / "gone" / "file")
    assert done.returncode == 2
    assert done.stdout == b""
    assert str(tmp_path / "gone") in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1


def test_eval_is_in_the_help() -> None:
    """With the form of a case."""
    assert b"\n  eval " in run_logdiag("--help").stdout
    text = run_logdiag("eval", "--help").stdout.decode()
    for name in ("root_line", "log_file", "also_ok", "--compare", "--baselines"):
        assert name in text
    assert run_logdiag("eval").returncode == 2


# --- accidents ---


def test_a_crash_is_the_row_of_its_case(tmp_path: Path) -> None:
    """An exception, an exit, `sys.exit`, a signal: each is named, and every other case is answered in its place."""
    tags = ["raises", "fine", "exits", "is killed", "fine", "leaves", "fine"]
    path = write_cases(tmp_path / "cases.jsonl", *(labelled(f"{at}", tags=[tag]) for at, tag in enumerate(tags)))
    counted: list[None] = []
    results = evaluate(load_cases([path]).cases, jobs=2, diagnose_case=accident, advance=lambda: counted.append(None))
    rows = [result.row for result in results]
    assert [row.id for row in rows] == [str(at) for at in range(len(tags))]
    assert [row.tags[0] for row in rows if row.error is None] == ["fine"] * 3
    assert all(row.reason_right for row in rows if row.error is None)
    errors = {row.tags[0]: row.error or "" for row in rows}
    assert errors["raises"].startswith("ZeroDivisionError: the diagnosis broke (evaluation_helpers.py:")
    assert errors["exits"] == errors["is killed"] == "its process died"
    assert errors["leaves"].startswith("SystemExit: 5 (")
    assert len(counted) == len(tags)


def test_more_processes_give_the_same_rows(tmp_path: Path) -> None:
    """In the order of the cases."""
    kinds = (labelled, out_of_memory, healthy)
    made = [make(f"{make.__name__} {at}") for at in range(3) for make in kinds]
    path = write_cases(tmp_path / "cases.jsonl", *made)
    cases = load_cases([path]).cases
    one = without_seconds(result.row for result in evaluate(cases, jobs=1))
    three = without_seconds(result.row for result in evaluate(cases, jobs=3))
    assert one == three
    assert [row["id"] for row in one] == [case.id for case in cases]


def test_broken_rules_are_said_once(tmp_path: Path) -> None:
    """By the caller's process, before a worker is started."""
    write_rule(tmp_path / "rules", "framework/a", "title: [")
    path = write_cases(tmp_path / "cases.jsonl", labelled())
    with pytest.raises(RuleError, match="not valid YAML"):
        evaluate(load_cases([path]).cases, folders=[str(tmp_path / "rules")])


def test_a_log_that_vanishes_is_an_error_of_its_case(tmp_path: Path) -> None:
    """After the cases were read."""
    log = tmp_path / "job.log"
    log.write_text(labelled()["log"])
    path = write_cases(tmp_path / "cases.jsonl", labelled("gone", log=..., log_file="job.log"), labelled("here"))
    cases = load_cases([path]).cases
    log.unlink()
    gone, here = (result.row for result in evaluate(cases, jobs=1))
    assert "no such file" in (gone.error or "")
    assert here.reason_right


def test_logs_in_files_are_judged_like_logs_in_cases(tmp_path: Path) -> None:
    """A file, and a folder of ranks whose second file holds the root."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "rank_0.log").write_text(healthy()["log"])
    (tmp_path / "job" / "rank_1.log").write_text(labelled()["log"])
    (tmp_path / "one.log").write_text(labelled()["log"])
    path = write_cases(
        tmp_path / "cases.jsonl",
        labelled("file", log=..., log_file="one.log"),
        labelled("folder", log=..., log_file="job", rank=1),
    )
    rows = [result.row for result in evaluate(load_cases([path]).cases, jobs=1)]
    assert [(row.reason_right, row.root_right, row.survived, row.error) for row in rows] == [
        (True, True, True, None)
    ] * 2
    assert rows[1].rank_right is True


@pytest.mark.slow
@pytest.mark.skipif(not DEV.exists(), reason="the labelled failures are not here")
def test_real_failures_are_judged_as_the_development_test_judges_them() -> None:
    """The same shares as tests/test_dev_logs.py counts, and no labelled line lost by the filters."""
    metrics = json.loads(run_logdiag("eval", DEV, "--format", "json").stdout)["metrics"]
    assert metrics["reason_accuracy"] >= 0.93
    assert metrics["root_line_hit"] >= 0.93
    assert metrics["action_accuracy"] >= 0.88
    assert metrics["false_alarm_rate"] == 0
    assert metrics["root_line_survival"] == 1
