"""Clocks of two nodes that differ are set right by what both log at one moment, and only where enough of it agrees."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.rules import RuleBook
from tests.helpers import log_of

BEGAN = datetime(2026, 11, 22, 3, 0)
LOST = "RuntimeError: CUDA error: misaligned address"


def stamp(second: float, ahead: float) -> str:
    at = BEGAN + timedelta(seconds=second + ahead)
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}"


def node_log(node: int, *, ahead: float, dies: float, late: float = 0.0, digits: int = 5, seed: int = 1) -> list[str]:
    """Two ranks of a node, a step a second, each with the loss of all ranks; the second rank dies at `dies` seconds."""
    losses, jitter = random.Random(seed), random.Random(node)
    told = []
    for step in range(12):
        loss = f"{2 + losses.random():.{digits}f}"
        for rank in (2 * node, 2 * node + 1):
            clock = stamp(step + jitter.random() / 10 + late, ahead)
            told.append(f"{clock} INFO [rank{rank}] step {step} loss {loss}")
    return [*told, f"{stamp(dies, ahead)} ERROR [rank{2 * node + 1}] {LOST}"]


def answered(folder: Path, book: RuleBook, *nodes: list[str], more: dict[str, bytes] | None = None) -> Diagnosis:
    """The answer for one log a node, `node-0.log` and so on, and `more` logs."""
    logs = {f"node-{at}.log": log_of(*lines) for at, lines in enumerate(nodes)} | (more or {})
    for name, log in logs.items():
        (folder / name).write_bytes(log)
    return diagnose(folder, rules=book, memory=False)


def told(answer: Diagnosis) -> list[str]:
    return [note for note in answer.notes if note.startswith("clocks differ")]


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (37.0, "node-1 is 37 s ahead of node-0"),
        (-37.0, "node-1 is 37 s behind node-0"),
        (3600.0, "node-1 is 1 h ahead of node-0, as in another time zone"),
    ],
)
def test_the_rank_that_broke_first_is_told_by_clocks_set_right(
    ahead: float, words: str, tmp_path: Path, book: RuleBook
) -> None:
    """Rank 1 of the first node dies five seconds before or after rank 3, whichever the wrong clock hides."""
    first, then = (15.0, 20.0) if ahead < 0 else (20.0, 15.0)
    answer = answered(tmp_path, book, node_log(0, ahead=0, dies=first), node_log(1, ahead=ahead, dies=then))
    assert answer.root_cause is not None
    assert answer.root_cause.rank == (1 if ahead < 0 else 3)
    assert [log.ahead_seconds for log in answer.logs] == [None, pytest.approx(ahead, abs=0.2)]
    assert told(answer) == [f"clocks differ and were set right: {words} (12 moments that both logged)"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"ahead": 0.0}, id="the clocks agree"),
        pytest.param({"ahead": 0.0, "late": 0.8}, id="a node is late by less than a step"),
        pytest.param({"ahead": 37.0, "seed": 2}, id="a job of its own, with other losses"),
        pytest.param({"ahead": 37.0, "digits": 1}, id="losses that are alike by chance"),
    ],
)
def test_clocks_are_kept_where_nothing_well_founded_tells(
    other: dict[str, float], tmp_path: Path, book: RuleBook
) -> None:
    digits = int(other.get("digits", 5))
    lines = node_log(
        1, ahead=other["ahead"], dies=25, late=other.get("late", 0), digits=digits, seed=int(other.get("seed", 1))
    )
    answer = answered(tmp_path, book, node_log(0, ahead=0, dies=20, digits=digits), lines)
    assert told(answer) == []
    assert [log.ahead_seconds for log in answer.logs] == [None, None]
    assert answer.root_cause is not None
    assert answer.root_cause.rank == 1


def communicators(node: int, ahead: float) -> list[str]:
    """What torchrun and NCCL tell of one round and two communicators, and torch of a collective that hung."""
    comm = f"comm 0x5{node} rank {node} nranks 2 cudaDev 0 busId 1b000 commId 0x{{}} - Init"
    nccl = f"node-{node}:99:99 [0] NCCL INFO {comm}"
    joined = (
        f"The node 'node{node}_9_0' has joined round 0 of the rendezvous 'job' as rank {node} in a world of size 2."
    )
    hung = "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=60000) ran for {} milliseconds"
    waited = 60_000 + 500 * node
    return [
        f"{stamp(1.0, ahead)} INFO {joined}",
        f"{stamp(2.0 - node, ahead)} {nccl.format('a')} START",
        *(f"{stamp(second, ahead)} {nccl.format(name)} COMPLETE" for second, name in ((3.2, "a"), (4.1, "b"))),
        f"{stamp(90 + waited / 1000, ahead)} ERROR [rank{node}] [Rank {node}] Watchdog caught collective operation"
        f" timeout: {hung.format(waited)} before timing out.",
    ]


def test_a_round_communicators_and_a_hung_collective_are_moments_too(tmp_path: Path, book: RuleBook) -> None:
    """No step is logged. That a communicator was begun is no moment, and each node waited for its own time."""
    answer = answered(tmp_path, book, communicators(0, 0), communicators(1, 37))
    assert [log.ahead_seconds for log in answer.logs] == [None, pytest.approx(37, abs=0.2)]
    assert "(4 moments that both logged)" in told(answer)[0]


def test_two_moments_are_too_few(tmp_path: Path, book: RuleBook) -> None:
    answer = answered(tmp_path, book, communicators(0, 0)[:3], communicators(1, 37)[:3])
    assert told(answer) == []


def test_the_kernel_log_of_a_node_has_its_wrong_clock(tmp_path: Path, book: RuleBook) -> None:
    """Five seconds before the rank's error, where the job's own clock of that node is 37 s ahead as the kernel's is."""
    at = BEGAN + timedelta(seconds=15 + 37)
    xid = f"[{at:%a %b %d %H:%M:%S %Y}] NVRM: Xid (PCI:0000:1b:00): 48, pid=9, An uncorrectable double bit error (DBE)"
    logs = {"dmesg-node-1.txt": log_of(xid)}
    answer = answered(tmp_path, book, node_log(0, ahead=0, dies=30), node_log(1, ahead=37, dies=20), more=logs)
    assert answer.reason.value == "ECCError"
    assert answer.logs[0].ahead_seconds == pytest.approx(37, abs=0.2)
    assert any("the root cause came 5 s before" in note for note in answer.notes), answer.notes
