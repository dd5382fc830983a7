"""Who kept the others waiting in a collective: constructed cases of 8 to 512 ranks, and single words of watchdogs.

The cases are those of `evals/collective_cases.py`; the largest are measured there, not here.
"""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from evals.collective_cases import Case, cases, constructed, told_apart, written
from logdiag import Diagnosis, diagnose
from logdiag.rules import RuleBook

MOST_RANKS = 64


def case_of(fault: str, form: str, size: int) -> Case:
    """One constructed case."""
    return constructed(fault, form, size, seed=7)


@pytest.mark.parametrize("case", [case for case in cases() if len(case.job) <= MOST_RANKS], ids=lambda case: case.name)
def test_five_faults_are_told_apart_in_six_forms(case: Case, tmp_path: Path) -> None:
    """Missing, slow, out of step, another size, a dead link: which it is, and which rank."""
    right, said = told_apart(case, tmp_path)
    assert right, said


def test_a_thousand_ranks_with_half_the_files_missing(tmp_path: Path, book: RuleBook) -> None:
    """The one that is late is named where its file is there, and ranks without a file are not blamed for that."""
    case = case_of("slow-rank", "files", 1024)
    written(case, tmp_path)
    for rank in range(1024):
        if rank % 2 != case.ranks[0] % 2:
            (tmp_path / f"rank_{rank}.log").unlink()
    answer = diagnose(tmp_path, rules=book, memory=False)
    assert (answer.kind, answer.collectives and answer.collectives.ranks) == ("slow-rank", case.ranks)


def test_half_the_dumps_are_missing(tmp_path: Path, book: RuleBook) -> None:
    """A rank whose dump shows that it is behind is named before all that left none."""
    case = case_of("slow-rank", "recorder", 64)
    written(case, tmp_path)
    for rank in range(64):
        if rank % 2 != case.ranks[0] % 2:
            (tmp_path / f"nccl_trace_rank_{rank}").unlink()
    answer = diagnose(tmp_path, rules=book, memory=False)
    assert answer.collectives is not None
    assert answer.collectives.ranks == case.ranks


WAITS = (
    "[rank{0}]:[E1104 03:12:11.104213000 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=1201, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600021 "
    "milliseconds before timing out.\n"
    "[rank{0}]:[E1104 03:12:11.105213000 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank {0}]  failure "
    "detected by watchdog at work sequence id: 1201 PG status: last enqueued work: 1204, last completed work: 1200\n"
)
STATUS = (
    "[rank{0}]:[E1104 03:12:11.1 ProcessGroupNCCL.cpp:2271] [PG ID {1} PG GUID {1}({2}) Rank {0}]{3} PG status: last "
    "enqueued work: {4}, last completed work: {5}\n"
)
FAILED = "  failure detected by watchdog at work sequence id: {}"


def told(log: str, book: RuleBook) -> Diagnosis:
    """The answer for a log."""
    return diagnose(log.encode(), rules=book, memory=False)


def test_the_sentence_names_the_rank_the_call_and_its_last_word(book: RuleBook) -> None:
    """As the desync report of torch and the rank's last line tell it."""
    log = "".join(f"[rank{rank}]: 2026-11-04 03:02:11,120 INFO step 1200 loss 2.1\n" for rank in range(16))
    log += "".join(WAITS.format(rank) for rank in range(16) if rank != 13)
    log += "\t     [13] finished collective #1200, but didn't join collective #1201 (count from 1)\n"
    answer = told(log, book)
    assert answer.summary.startswith(
        "Rank 13 never entered ALLREDUCE 1201 (it finished 1200 at 2026-11-04 03:02:11 and logged nothing since)"
    )
    assert answer.root_cause is not None
    assert (answer.root_cause.rank, answer.root_cause.rank_guessed) == (13, False)


def test_several_missing_ranks_are_one_verdict(book: RuleBook) -> None:
    """A node that is gone takes its ranks with it."""
    log = "".join(f"[rank{rank}]: 2026-11-04 03:02:11,120 INFO step 1200 loss 2.1\n" for rank in range(16))
    answer = told(log + "".join(WAITS.format(rank) for rank in range(8)), book)
    assert answer.collectives is not None
    assert answer.collectives.ranks == tuple(range(8, 16))


def test_one_excerpt_blames_nobody(book: RuleBook) -> None:
    """Where only some ranks' words are there, who is missing is not told."""
    assert told(WAITS.format(3) + WAITS.format(7), book).collectives is None


def test_numbers_that_were_never_set_say_nothing(book: RuleBook) -> None:
    """Old versions print `last completed NCCL work: 3525775802` before the first one is over."""
    log = "[rank7]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 7] Timeout at NCCL work: 1, last enqueued NCCL work: 1, "
    answer = told(log + "last completed NCCL work: 3525775802.\n", book)
    assert answer.collectives is None


def test_ranks_that_wait_for_each_other_are_out_of_step(book: RuleBook) -> None:
    """Half of a group wait in it, the other half in the group of all."""
    log = "".join(STATUS.format(rank, 0, "default_pg", FAILED.format(9), 9, 8) for rank in (0, 1))
    log += "".join(STATUS.format(rank, 1, "undefined", FAILED.format(5), 5, 4) for rank in (2, 3))
    log += "".join(STATUS.format(rank, 1, "undefined", "", 4, 4) for rank in (0, 1))
    log += "".join(STATUS.format(rank, 0, "default_pg", "", 8, 8) for rank in (2, 3))
    answer = told(log, book)
    assert answer.collectives is not None
    assert answer.collectives.kind == "desync"
    assert "while ranks" in answer.collectives.summary


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("RuntimeError: [Rank 0]: Rank 5 failed to pass monitoredBarrier in 600000 ms", 5),
        ("missing ranks: {3}", 3),
    ],
)
def test_reports_that_name_the_missing_rank_are_believed(line: str, rank: int, book: RuleBook) -> None:
    """Gloo's barrier, torchfrtrace."""
    answer = told(WAITS.format(0) + line + "\n", book)
    assert answer.collectives is not None
    assert answer.collectives.ranks == (rank,)


def test_the_node_of_a_missing_rank_is_its_own(tmp_path: Path, book: RuleBook) -> None:
    """Not that of the rank whose watchdog spoke."""
    case = case_of("missing-rank", "files", 16)
    written(case, tmp_path / "logs")
    for rank in range(16):
        folder = tmp_path / f"node-{rank // 8 + 1}"
        folder.mkdir(exist_ok=True)
        log = tmp_path / "logs" / f"rank_{rank}.log"
        if log.exists():
            shutil.move(log, folder)
    shutil.rmtree(tmp_path / "logs")
    answer = diagnose(tmp_path, rules=book, memory=False)
    assert answer.root_cause is not None
    assert (answer.root_cause.rank, answer.root_cause.node) == (case.ranks[0], f"node-{case.ranks[0] // 8 + 1}")


def test_words_that_contradict_each_other_end_in_an_answer(book: RuleBook) -> None:
    """A hundred logs of shuffled watchdogs' lines whose numbers are any."""
    words = next(rule.fires for rule in book.rules if rule.id == "context/collective-calls")
    rng = random.Random(5)

    def any_number(match: re.Match[str]) -> str:
        return match[0] if rng.random() < 0.6 else rng.choice(["0", "1", "3", "7", "999999", "9" * 17, "-1", ""])

    for _ in range(100):
        log = "\n".join(re.sub(r"\d+", any_number, rng.choice(words)) for _ in range(rng.randrange(1, 60)))
        answer = told(log, book)
        assert answer.collectives is None or answer.collectives.summary
