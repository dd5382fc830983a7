"""Labelled cases: what can be given, and what is said about broken ones."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdiag.errors import CaseError
from logdiag.evaluation.cases import last_lines, load_cases
from logdiag.model import Action, Reason
from tests.evaluation_helpers import KEY_ERROR_LOG, case_of, healthy, labelled, out_of_memory, write_cases
from tests.helpers import run_logdiag, zstd

# As much as is read at a time.
_PIECE = 1 << 18


def problems_of(*paths: Path) -> list[str]:
    """The lines of the complaint about case files."""
    with pytest.raises(CaseError) as caught:
        load_cases(paths)
    return str(caught.value).split("\n")


def test_a_case_is_read_with_all_its_labels(tmp_path: Path) -> None:
    """The first reading of each label stands first; keys that nobody knows are left alone."""
    path = write_cases(
        tmp_path / "cases.jsonl",
        labelled(
            also_ok=["ValueError"],
            also_root=["step: 3 "],
            also_action=["restart"],
            tags=["a", "b"],
            rank=3,
            node="node-7",
            split="dev",
            fault="missing key",
            exit_code=-9,
            sure=0.9,
            why="because",
            source="made up",
        ),
    )
    (case,) = load_cases([path]).cases
    assert case.reasons == (Reason.KEY_ERROR, Reason.VALUE_ERROR)
    assert case.roots == ("KeyError: 'caption'", "step: 3 ")
    assert case.actions == (Action.FIX_AND_RESUBMIT, Action.RESTART)
    assert (case.tags, case.rank, case.rank_known, case.node) == (("a", "b"), 3, True, "node-7")
    assert (case.split, case.fault, case.exit_code) == ("dev", "missing key", -9)
    assert case.source == KEY_ERROR_LOG.encode()


def test_a_rank_of_none_is_a_label(tmp_path: Path) -> None:
    """A rank that is left out is none."""
    path = write_cases(tmp_path / "cases.jsonl", labelled("a", rank=None), labelled("b"))
    assert [case.rank_known for case in load_cases([path]).cases] == [True, False]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("c.jsonl", bytes),
        ("c.jsonl.gz", gzip.compress),
        ("c.jsonl.xz", lzma.compress),
        ("c.jsonl.zst", zstd.compress),
        ("anything", lambda data: b"\xef\xbb\xbf" + data + b"\n\n"),
    ],
)
def test_case_files_may_be_compressed(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    """By what they hold, not by their name; a mark at the start and empty lines are no cases."""
    path = tmp_path / name
    path.write_bytes(pack(json.dumps(labelled()).encode() + b"\n"))
    case_set = load_cases([path])
    assert [case.id for case in case_set.cases] == ["key"]
    assert [file["name"] for file in case_set.files] == [name]


def test_a_folder_stands_for_its_case_files(tmp_path: Path) -> None:
    """Those directly in it, by name; other files and deeper folders are left alone."""
    write_cases(tmp_path / "b.jsonl", labelled("second"))
    write_cases(tmp_path / "a.jsonl", labelled("first"))
    write_cases(tmp_path / "deeper" / "c.jsonl", labelled("third"))
    (tmp_path / "card.md").write_text("how the cases were made")
    assert [case.id for case in load_cases([tmp_path]).cases] == ["first", "second"]


def test_a_log_may_be_a_file_or_a_folder_beside_the_case_file(tmp_path: Path) -> None:
    """Relative to the case file, compressed or not."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "one.log.zst").write_bytes(zstd.compress(KEY_ERROR_LOG.encode()))
    job = tmp_path / "logs" / "job"
    job.mkdir()
    (job / "rank_0.log").write_text("step: 1 loss: 3.0\n")
    (job / "rank_1.log").write_text(KEY_ERROR_LOG)
    path = write_cases(
        tmp_path / "cases.jsonl",
        labelled("file", log=..., log_file="logs/one.log.zst"),
        labelled("folder", log=..., log_file="logs/job"),
    )
    file, folder = load_cases([path]).cases
    assert (file.source, folder.source) == (str(tmp_path / "logs/one.log.zst"), str(job))
    assert list(file.lines())[35] == (str(tmp_path / "logs/one.log.zst"), 36, "KeyError: 'caption'")
    assert [line for line in folder.lines() if line[1] == 1] == [
        (str(job / "rank_0.log"), 1, "step: 1 loss: 3.0"),
        (str(job / "rank_1.log"), 1, "step: 1 loss: 2.9990 lr: 1e-04"),
    ]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"id": ...}, "id", "is missing"),
        ({"id": ""}, "id", "at least 1 character"),
        ({"reason": ...}, "reason", "is missing"),
        ({"reason": "KeyErr"}, "reason", 'not "KeyErr"'),
        ({"action": ...}, "action", "is missing"),
        ({"action": "pray"}, "action", 'not "pray"'),
        ({"category": ...}, "category", "is missing"),
        ({"category": "weather"}, "category", 'not "weather"'),
        ({"category": "framework"}, "category", "is not that of KeyError; write script"),
        ({"also_ok": ["ValueError", "Nope"]}, "also_ok.1", 'not "Nope"'),
        ({"also_action": ["nope"]}, "also_action.0", 'not "nope"'),
        ({"also_root": ["step: 999999"]}, "also_root.0", "is in no line of the log"),
        ({"log": ...}, "log", "is missing; give the output in log"),
        ({"log": "  \n"}, "log", "is empty"),
        ({"log": 7}, "log", "valid string"),
        ({"log_file": "job.log"}, "log_file", "keep one of them"),
        ({"log": ..., "log_file": "gone.log"}, "log_file", "no such file"),
        ({"root_line": ...}, "root_line", "is missing"),
        ({"root_line": ""}, "root_line", "is missing"),
        ({"root_line": "KeyError: 'image'"}, "root_line", "is in no line of the log"),
        ({"root_line": "\nKeyError"}, "root_line", "over several lines"),
        ({"rank": "3"}, "rank", "valid integer"),
        ({"rank": -1}, "rank", "greater than or equal to 0"),
        ({"tags": "slurm"}, "tags", "valid tuple"),
        ({"category": "none", "reason": "none", "action": "none"}, "root_line", "whose reason is none"),
    ],
)
def test_a_broken_label_is_named(tmp_path: Path, changes: dict[str, Any], field: str, words: str) -> None:
    """File, line, field, what is wrong, and a remedy."""
    path = write_cases(tmp_path / "cases.jsonl", healthy(), labelled(**changes))
    (problem,) = problems_of(path)
    assert problem.startswith(f"{path}:2: {field}: ")
    assert words in problem
    assert "; " in problem


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "is no JSON object"),
        (b"[]", "is no JSON object"),
        (b'{"id": "a", "id": "b"}', "a key is given twice"),
        (b'{"id": "\xff"}', "is no JSON object"),
        (b"[" * 100_000, "is no JSON object"),
    ],
)
def test_a_line_that_is_no_case_is_named(tmp_path: Path, line: bytes, words: str) -> None:
    """As anything else that is wrong."""
    path = tmp_path / "cases.jsonl"
    path.write_bytes(line + b"\n")
    (problem,) = problems_of(path)
    assert problem.startswith(f"{path}:1: case: ")
    assert words in problem


def test_all_problems_of_all_files_are_listed(tmp_path: Path) -> None:
    """In their order; what is right beside them hides none."""
    first = write_cases(tmp_path / "a.jsonl", labelled("a", reason="Nope", action="pray"), labelled("b"))
    second = write_cases(tmp_path / "b.jsonl", labelled("b"), labelled("c", root_line="nowhere", category="none"))
    problems = problems_of(first, second, tmp_path / "gone.jsonl")
    assert [problem.split(": ")[0:2] for problem in problems] == [
        [f"{first}:1", "reason"],
        [f"{first}:1", "action"],
        [f"{second}:1", "id"],
        [f"{second}:2", "category"],
        [f"{second}:2", "root_line"],
        [str(tmp_path / "gone.jsonl"), "cannot be read ([Errno 2] No such file or directory"],
    ]


def test_an_id_given_twice_names_both_places(tmp_path: Path) -> None:
    """Also across files, and when the first is broken otherwise."""
    first = write_cases(tmp_path / "a.jsonl", labelled("same", action="pray"))
    second = write_cases(tmp_path / "b.jsonl", labelled("same"))
    problem = problems_of(first, second)[1]
    assert problem.startswith(f"{second}:1: id: 'same'")
    assert f"{first}:1" in problem


def test_files_without_cases_are_a_problem(tmp_path: Path) -> None:
    """A folder without case files, an empty file, a torn one."""
    (problem,) = problems_of(tmp_path)
    assert "holds no case file" in problem
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    (problem,) = problems_of(empty)
    assert "holds no case" in problem
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes(gzip.compress(json.dumps(labelled()).encode())[:-12])
    (problem,) = problems_of(torn)
    assert problem.startswith(f"{torn}: cannot be read")


def test_a_log_file_that_cannot_be_used_is_a_problem(tmp_path: Path) -> None:
    """Empty, torn, a folder without logs, or without the labelled line."""
    (tmp_path / "empty.log").touch()
    (tmp_path / "torn.log.zst").write_bytes(zstd.compress(KEY_ERROR_LOG.encode())[:-8])
    (tmp_path / "folder").mkdir()
    (tmp_path / "other.log").write_text("step: 1\n")
    names = ["empty.log", "torn.log.zst", "folder", "other.log"]
    path = write_cases(tmp_path / "cases.jsonl", *(labelled(name, log=..., log_file=name) for name in names))
    words = ["is empty", "cannot be read", "holds no logs", "is in no line of the log"]
    problems = problems_of(path)
    assert len(problems) == len(words)
    for problem, expected in zip(problems, words, strict=True):
        assert expected in problem


def test_lines_of_a_file_are_numbered_as_they_stand(tmp_path: Path) -> None:
    """A blank line, bytes that are no text, a last line without its end."""
    path = tmp_path / "job.log"
    path.write_bytes(b"step: 1\n\n\xff\nKeyError: 'caption'")
    lines = list(case_of(log=None, log_file=str(path)).lines())
    assert [(number, text) for _, number, text in lines] == [
        (1, "step: 1"), (2, ""), (3, "\ufffd"), (4, "KeyError: 'caption'")
    ]  # fmt: skip
    assert [number for _, number, _ in last_lines(lines, 2)] == [3, 4]


def test_only_the_cases_of_a_split(tmp_path: Path) -> None:
    """A split that no case has is a mistake, and those there are get named."""
    path = write_cases(tmp_path / "cases.jsonl", labelled("a", split="dev"), out_of_memory("b", split="held-back"))
    assert [case.id for case in load_cases([path], "held-back").cases] == ["b"]
    with pytest.raises(CaseError, match="dev, held-back"):
        load_cases([path], "test")


def test_the_command_scores_nothing_when_a_case_is_broken(tmp_path: Path) -> None:
    """Every problem on standard error, nothing on standard output, no file written, status 2."""
    path = write_cases(tmp_path / "cases.jsonl", labelled("a", reason="Nope"), labelled("b"), labelled("b"))
    done = run_logdiag("eval", path, "--json", tmp_path / "out.json")
    said = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert done.stdout == b""
    assert not (tmp_path / "out.json").exists()
    assert len(said) == 2
    assert said[0].startswith(f"logdiag: {path}:1: reason: ")
    assert said[1].startswith(f"{path}:3: id: ")
