"""The reason by a line's words: wordings that no rule knows, honest chances, broken weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from logdiag.errors import WeightsError
from logdiag.judge.suspects.wording import (
    WEIGHTS,
    cause_by_wording,
    end_by_wording,
    reasons_by_wording,
    terms_of,
    terms_of_end,
)
from logdiag.model import Reason

CARD, TABLE = "reasons.json", "reasons.words"


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
def test_a_wording_of_no_rule_tells_its_reason(text: str, reason: Reason) -> None:
    assert reason in [found for found, _ in reasons_by_wording(text)[:3]]


def test_chances_share_one_whole() -> None:
    """A line in well-known words is as good as sure; one whose words say little is not."""
    found = reasons_by_wording("torch.cuda.OutOfMemoryError: CUDA out of memory")
    assert found[0][0] is Reason.OUT_OF_MEMORY_ERROR
    assert found[0][1] > 0.7
    assert sum(chance for _, chance in found) == pytest.approx(1)
    assert [chance for _, chance in found] == sorted((chance for _, chance in found), reverse=True)
    assert reasons_by_wording("step could not be closed")[0][1] < 0.5


def test_a_healthy_job_is_no_reason_and_a_line_without_words_has_none() -> None:
    assert Reason.NONE not in [reason for reason, _ in reasons_by_wording("the store is full")]
    assert reasons_by_wording("\u16a0\u16a1") == ()


def test_words_are_found_in_names_and_count_in_pairs() -> None:
    """outOfMemory is three words, and `no such` another thing than its words apart."""
    assert {"out", "of", "memory", "out of", "of memory"} <= terms_of("outOfMemory")
    assert "no such" in terms_of("no such file")
    assert "no such" not in terms_of("such a file, no")


def test_words_of_a_cause_are_told_from_those_of_work() -> None:
    cause = cause_by_wording("the arena of chip 2 is out of memory: wants 3.50 GiB, holds 76.9 of 78.0 GiB")
    work = cause_by_wording("round 120 done, loss 2.31, 14.2 shards a second")
    assert cause > 0 > work
    assert cause_by_wording("\u16a0\u16a1") == 0


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder with a copy of the weights."""
    for name in (CARD, TABLE):
        shutil.copy(Path(WEIGHTS) / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("damage", ["{", "[]", '{"answers": ["Others"], "step": 1, "sharpness": 1, "biases": [0, 0]}'])
def test_a_broken_card_is_told(copied: Path, damage: str) -> None:
    (copied / CARD).write_text(damage)
    with pytest.raises(WeightsError, match=r"reasons\.json"):
        reasons_by_wording(("the store is full"), folder=copied)


def test_weights_that_name_an_unknown_reason_are_told(copied: Path) -> None:
    document = json.loads((copied / CARD).read_text())
    document["answers"][0] = "Gremlins"
    (copied / CARD).write_text(json.dumps(document))
    with pytest.raises(WeightsError, match=r"reasons\.json"):
        reasons_by_wording(("the store is full"), folder=copied)


def test_a_table_that_breaks_off_is_told(copied: Path) -> None:
    table = copied / TABLE
    table.write_bytes(table.read_bytes()[:-3])
    with pytest.raises(WeightsError, match="do not fit"):
        reasons_by_wording(("the store is full"), folder=copied)


def test_a_bad_end_is_told_from_a_good_one_by_the_words_of_the_last_lines() -> None:
    """Whatever the job's own words are: a table of statuses, or what is said last."""
    table = "information desk: out with "
    bad = end_by_wording([f"{table}r0 40, r1 21, r2 40", "error desk: the job stops here, gave up"])
    good = end_by_wording([f"{table}r0 0, r1 0, r2 0", "information desk: all rounds complete, result is saved"])
    assert bad > 0 > good


def test_of_a_number_at_the_end_only_counts_whether_it_may_be_a_status() -> None:
    assert terms_of_end(["code 7"]) == terms_of_end(["code 137"])
    assert terms_of_end(["code 7"]) != terms_of_end(["code 0"])
    assert terms_of_end(["code 7"]) != terms_of_end(["code 70123"])
