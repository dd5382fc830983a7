"""Each named decision decides in a scene of its own, and the answer is another one without it."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.ablation import decisions
from logdiag import diagnose
from logdiag.judge.judgement import judge
from logdiag.judge.merge.case import case_of
from logdiag.judge.outcome import Outcome
from logdiag.model import Line, Reason
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes, filters_for
from logdiag.scan.survey import surveys
from tests.helpers import DATA, diagnosed

SCENES: list[dict[str, Any]] = yaml.safe_load((DATA / "scenes.yaml").read_text(encoding="utf-8"))
JOB_LOG = "job.log"


@dataclass(frozen=True)
class Answer:
    """What is compared of a scene."""

    failed: bool | None
    reason: str
    root: str | int | None
    rank: int | None


def place_of(source: str, number: int) -> str | int:
    """A line as scenes write it."""
    name = Path(source).name
    return number if name.startswith(JOB_LOG) else f"{name}:{number}"


def place(line: Line) -> str | int:
    """A line as scenes write it."""
    return place_of(line.source, line.number)


def written(scene: dict[str, Any], folder: Path) -> list[str]:
    """The logs of a scene as files; `times` says how often a line comes."""
    job, times = folder / JOB_LOG, scene.get("times", {})
    lines = enumerate(scene["log"].splitlines(keepends=True), 1)
    job.write_text("".join(line * times.get(number, 1) for number, line in lines), encoding="utf-8")
    if scene.get("cut_gzip"):
        # Two members: the second one is cut, so what stands in the first is read.
        job = folder / f"{JOB_LOG}.gz"
        job.write_bytes(gzip.compress(scene["log"].encode()) + gzip.compress(b"step: 4 loss: 2.9311\n")[:-12])
    for name, text in scene.get("beside", {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    return [str(job), *(str(folder / name) for name in scene.get("beside", {}))]


def answer_without(name: str, logs: list[str], book: RuleBook, exit_code: int | None) -> Answer:
    """The answer with one decision switched off."""
    parts = surveys(open_sources(tuple(logs)), book, Shapes(book, filters_for(book.filters, {})))
    found = case_of(parts, book).survey
    failed = None if exit_code is None else exit_code != 0
    made = judge(found, book, failed=failed, without=frozenset({name}))
    told = {Outcome.FAILED: True, Outcome.HEALTHY: False, Outcome.NOT_KNOWN: None}[made.outcome]
    reason = made.root.reason if made.root else Reason.OTHERS if told else Reason.NONE
    return Answer(told, reason.value, place(made.root.line) if made.root else None, made.rank if made.root else None)


def test_every_decision_has_a_scene() -> None:
    """One each, and no scene is of a decision that is gone."""
    assert Counter(scene["decision"] for scene in SCENES) == Counter(decisions().keys())


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene["decision"])
def test_decision_decides_in_its_scene(scene: dict[str, Any], book: RuleBook, tmp_path: Path) -> None:
    """The answer is the one that the scene tells, it says which decision made it, and is another without that one."""
    logs, exit_code = written(scene, tmp_path), scene.get("exit_code")
    told = diagnose(*logs, rules=book, memory=False, exit_code=exit_code)
    root = told.root_cause
    at = place_of(root.source, root.line) if root else None
    rank = root.rank if root else None
    # What a line means in no known words is learnt anew with every log that teaches it.
    reason = scene["answer"]["reason"] if scene.get("guessed") else told.reason.value
    answer = Answer(told.failed, reason, at, rank)
    made = [(step.name, place(step.about) if step.about else None, step.outcome) for step in told.decisions]
    assert answer == Answer(**scene["answer"]), made
    assert (scene["decision"], scene.get("line"), scene["says"]) in made
    assert answer_without(scene["decision"], logs, book, exit_code) != answer


def test_a_cut_summary_does_not_tell_who_failed_first(book: RuleBook) -> None:
    """The entry that torchrun calls the first failure comes last; where the log ends above it, no other is taken."""
    raised = ["Traceback (most recent call last):", '  File "/srv/job/train.py", line 88, in <module>', "KeyError: 'a'"]
    entry = ["[1]:", "  host      : gpu-7", "  rank      : 6 (local_rank: 6)", "  exitcode  : 1 (pid: 813)"]
    first = ["[0]:", "  host      : gpu-7", "  rank      : 5 (local_rank: 5)", "  exitcode  : 1 (pid: 812)"]
    cut = diagnosed(book, *raised, "Failures:", *entry)
    whole = diagnosed(book, *raised, "Failures:", *entry, "Root Cause (first observed failure):", *first)
    assert [told.root_cause and told.root_cause.rank for told in (cut, whole)] == [None, 5]


def test_a_crash_that_a_process_tells_of_itself_is_not_survived_by_how_its_log_reads(book: RuleBook) -> None:
    """In the scene of `all_was_survived` a crash stands in place of a class."""
    scene = next(scene for scene in SCENES if scene["decision"] == "all_was_survived")
    lines = scene["log"].splitlines()
    crash = "#  SIGSEGV (0xb) at pc=0x00007f1c0a0b0c0d, pid=8123, tid=8124"
    lines[scene["line"] - 1] = crash
    answer = diagnosed(book, *lines)
    assert answer.failed
    assert answer.root_cause is not None
    assert answer.root_cause.text == crash
