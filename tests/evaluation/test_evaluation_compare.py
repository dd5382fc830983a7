"""Two evaluations side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logdiag.errors import CaseError
from logdiag.evaluation.compare import compare, read_rows
from tests.evaluation_helpers import healthy, labelled, out_of_memory, row_of, write_cases
from tests.helpers import rule_text, run_logdiag, write_rule

# One worker makes the evaluations, for all tests here.
pytestmark = pytest.mark.xdist_group("compare")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cases, a rule folder that spoils one of them, and an evaluation with and without it."""
    folder = tmp_path_factory.mktemp("compare")
    write_cases(folder / "cases.jsonl", labelled(), out_of_memory(), healthy())
    spoil = rule_text(reason="IndexError", match=["KeyError: 'caption'"], fires=["KeyError: 'caption'"])
    write_rule(folder / "rules", "script/spoil", spoil)
    for name, more in (("good", []), ("bad", ["--rules", str(folder / "rules")])):
        done = run_logdiag("eval", folder / "cases.jsonl", "--json", folder / f"{name}.json", *more)
        assert done.returncode == 0
    return folder


def test_the_same_again_is_no_regression(work: Path) -> None:
    """Nothing changed, status 0."""
    done = run_logdiag("eval", work / "cases.jsonl", "--compare", work / "good.json")
    assert done.returncode == 0
    assert "0 judgements changed, 0 regressions" in done.stdout.decode()


def test_what_was_right_and_is_wrong_is_a_regression(work: Path) -> None:
    """The case, what it was and what it is, the metrics that moved, and status 1."""
    done = run_logdiag("eval", work / "cases.jsonl", "--rules", work / "rules", "--compare", work / "good.json")
    text = done.stdout.decode()
    assert done.returncode == 1
    assert "REGRESSION  key  reason: was KeyError, is IndexError" in text
    moved = text.split("Metrics that moved")[1]
    assert "100.0%" in moved
    assert "66.7%" in moved
    assert "oom" not in moved


def test_what_was_wrong_and_is_right_is_none(work: Path) -> None:
    """It is shown, with status 0; in JSON too."""
    done = run_logdiag("eval", work / "cases.jsonl", "--compare", work / "bad.json", "--format", "json")
    comparison = json.loads(done.stdout)["comparison"]
    assert done.returncode == 0
    assert comparison["regressions"] == 0
    assert [(change["id"], change["what"], change["was"], change["now"]) for change in comparison["changes"]] == [
        ("key", "reason", "IndexError", "KeyError")
    ]
    assert comparison["metrics"]["reason_accuracy"] == [0.666667, 1.0]


def test_cases_of_one_side_are_named_and_not_counted(work: Path, tmp_path: Path) -> None:
    """Metrics are compared over the common cases alone."""
    path = write_cases(tmp_path / "cases.jsonl", out_of_memory(), labelled("brand new", reason="IndexError"))
    done = run_logdiag("eval", path, "--compare", work / "bad.json", "--format", "json")
    comparison = json.loads(done.stdout)["comparison"]
    assert (comparison["only_old"], comparison["only_new"]) == (["key", "healthy"], ["brand new"])
    assert (comparison["common"], comparison["metrics"], done.returncode) == (1, {}, 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("{", "is not JSON"),
        ("[]", "is no evaluation"),
        ('{"schema": "logdiag.diagnosis/1"}', "is no evaluation"),
        ('{"schema": "logdiag.evaluation/1", "metrics": {}, "intervals": {}}', "cases: "),
        ('{"schema": "logdiag.evaluation/1", "metrics": {}, "intervals": {}, "cases": [{"id": "a"}]}', "[0].split: "),
    ],
)
def test_a_file_that_is_no_evaluation_is_one_sentence(
    work: Path, tmp_path: Path, content: str | None, words: str
) -> None:
    """Said before anything is scored, with status 2."""
    old = tmp_path / "old.json"
    if content is not None:
        old.write_text(content)
    with pytest.raises(CaseError) as caught:
        read_rows(old)
    assert words in str(caught.value)
    done = run_logdiag("eval", work / "cases.jsonl", "--compare", old)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"logdiag: {caught.value}\n"
    assert str(caught.value).startswith(f"{old}: ")


def test_a_document_of_a_later_version_is_read(work: Path, tmp_path: Path) -> None:
    """Keys that are not known yet are left alone."""
    document: dict[str, Any] = json.loads((work / "good.json").read_text())
    document["later"] = 1
    document["cases"][0]["later"] = 2
    (tmp_path / "later.json").write_text(json.dumps(document))
    rows = read_rows(tmp_path / "later.json")
    assert [row.id for row in rows] == ["key", "oom", "healthy"]
    assert rows == read_rows(work / "good.json")


def test_a_case_whose_label_changed_is_marked() -> None:
    """Its judgement may have changed for that alone."""
    comparison = compare([row_of("KeyError", "KeyError")], [row_of("IndexError", "KeyError")])
    (change,) = (change for change in comparison.changes if change.what == "reason")
    assert change.regression
    assert change.relabelled


def test_another_wrong_answer_is_a_change_and_no_regression() -> None:
    """It was wrong before."""
    comparison = compare([row_of("KeyError", "TypeError")], [row_of("KeyError", "IndexError")])
    assert [(change.was, change.now) for change in comparison.changes] == [("TypeError", "IndexError")]
    assert comparison.regressions == 0
