"""The reason by meaning: words that no rule knows, humble chances, broken weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from logdiag.errors import WeightsError
from logdiag.judge.meaning import CARD, MOST_SURE, reasons_by_meaning
from logdiag.model import Line, Reason
from logdiag.read.prefixes import parse_line


def line(text: str, position: int = 0) -> Line:
    return parse_line(text, "job.log", position + 1, position=position)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("the arena of chip 2 is out of memory: wants 3.50 GiB, holds 76.9 of 78.0 GiB", Reason.OUT_OF_MEMORY_ERROR),
        ("nobody picked up at grader.corp:9443, connection refused by the host", Reason.CONNECTION_ERROR),
        ("prelude /ship/prelude.ml is nowhere: no such file", Reason.FILE_NOT_FOUND_ERROR),
        ("may not write under /nest: permission denied for this user", Reason.PERMISSION_ERROR),
        ("card 3: two-bit memory upset that correction cannot repair, ECC word is lost", Reason.ECC_ERROR),
    ],
)
def test_a_wording_of_no_rule_means_its_reason(text: str, reason: Reason) -> None:
    assert reason in [found for found, _ in reasons_by_meaning(line(text), ())[:3]]


def test_meaning_alone_is_never_sure() -> None:
    found = reasons_by_meaning(line("torch.cuda.OutOfMemoryError: CUDA out of memory"), ())
    assert found[0][0] is Reason.OUT_OF_MEMORY_ERROR
    assert found[0][1] <= MOST_SURE
    assert [chance for _, chance in found] == sorted((chance for _, chance in found), reverse=True)


def test_a_healthy_job_is_no_reason_and_a_line_without_words_has_none() -> None:
    assert Reason.NONE not in [reason for reason, _ in reasons_by_meaning(line("the store is full"), ())]
    assert reasons_by_meaning(line("\u4e00\u4e01"), ()) == ()


def test_lines_around_count_and_those_of_other_streams_do_not() -> None:
    bare = line("step could not be closed", 10)
    beside = line("bucket s3://runs: access to the object store was denied", 9)
    alone = dict(reasons_by_meaning(bare, ()))
    near = dict(reasons_by_meaning(bare, [beside]))
    assert near[Reason.S3_STORAGE_ERROR] > alone[Reason.S3_STORAGE_ERROR]
    elsewhere = parse_line(beside.text, "node.log", 10, stream=1, position=9)
    assert dict(reasons_by_meaning(bare, [elsewhere])) == alone


@pytest.mark.parametrize("damage", ["{", "[]", '{"reasons": ["Others"], "step": 1, "rows": [[1]], "biases": [0]}'])
def test_broken_weights_are_told(tmp_path: Path, damage: str) -> None:
    card = tmp_path / "reasons.json"
    card.write_text(damage)
    with pytest.raises(WeightsError, match=r"reasons\.json"):
        reasons_by_meaning(line("the store is full"), (), card=card)


def test_weights_that_name_an_unknown_reason_are_told(tmp_path: Path) -> None:
    card = Path(shutil.copy(CARD, tmp_path / "reasons.json"))
    document = json.loads(card.read_text())
    document["reasons"][0] = "Gremlins"
    card.write_text(json.dumps(document))
    with pytest.raises(WeightsError, match=r"reasons\.json"):
        reasons_by_meaning(line("the store is full"), (), card=card)
