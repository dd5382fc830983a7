"""On which rank the root happened, where its own line does not say."""

from __future__ import annotations

import pytest

from logdiag.rules import RuleBook
from tests.helpers import diagnosed, steps, traceback_of
from tests.test_causes import API, LAUNCHER, rank_of


def test_the_rank_of_a_line_without_one_is_found_elsewhere(book: RuleBook) -> None:
    """By the launcher's table of processes, by NCCL's device on a single node, or by the one rank that died of it."""
    killed = [line.replace("exitcode: 1", "exitcode: -9").replace(": 1 (pid", ": -9 (pid") for line in LAUNCHER]
    assert rank_of(diagnosed(book, *steps(1, 20), *killed)) == 0
    nccl = (
        "gpu017:4790:4801 [3] transport/net_ib.cc:2451 NCCL WARN NET/IB: Got completion from peer 10.0.0.5<48206> with "
    )
    nccl += "status=12 opcode=0 len=0 vendor err 129 (Recv)"
    assert rank_of(diagnosed(book, *steps(1, 20), nccl)) == 3
    asserted = (
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1553: indexSelectLargeIndex: block: [1,0,0], thread: [3,0,0]"
    )
    asserted += " Assertion `srcIndex < srcSelectDimSize` failed."
    died = traceback_of("torch.AcceleratorError: CUDA error: device-side assert triggered", prefix="[rank5]: ")
    assert rank_of(diagnosed(book, *steps(1, 20), asserted, *died)) == 5


BOOM = traceback_of("KeyError: 'a caption of the loom'")

# What else is in the log, above and below a traceback without a prefix, and the rank that it tells.
TOLD = {
    "spawned": (["-- Process 3 terminated with the following error:"], [], 3),
    "the head's prefix": (
        ["[2026-03-11 18:14:40 TP2] Scheduler hit an exception: Traceback (most recent call last):"],
        [],
        2,
    ),
    "the record": (["2026-03-11 18:14:40,104 ERROR [rank 5] loom: the step failed"], [], 5),
    "a record of its words": (
        [],
        ["[2026-03-11 18:14:41] CRITICAL [loom:9, rank=6] KeyError: 'a caption of the loom'"],
        6,
    ),
    "the scheduler": ([], ["srun: error: node-04: task 7: Exited with exit code 1"], 7),
    "of several tasks": ([], ["srun: error: node-04: tasks 0-3: Exited with exit code 1"], None),
    "the first task": (
        [],
        [f"srun: error: node-04: task {task}: Exited with exit code 1" for task in (2, 0, 1)],
        2,
    ),
    "mpirun": ([], ["mpirun noticed that process rank 4 with PID 71 on node node-04 exited on signal 9 (Killed)."], 4),
    "the worker": (
        [],
        [f"E0311 18:14:44.104000 4711 {API}:869] failed (exitcode: 1) local_rank: 1 (pid: 4713) of binary: python"],
        1,
    ),
    "a task that is a launcher": (
        [],
        [f"W0311 18:14:44.104000 4711 {API}:753] Sending process 71", "srun: error: node-04: task 7: Killed"],
        None,
    ),
    "nobody": ([], [], None),
    "a step above": (["[rank5]: step 21 loss 2.0"], [], None),
}


@pytest.mark.parametrize("told", TOLD)
def test_a_traceback_without_a_prefix_gets_the_rank_that_others_tell(told: str, book: RuleBook) -> None:
    """By its head, by the record or report around it, or by who is said to have ended first."""
    above, below, rank = TOLD[told]
    boom = BOOM[1:] if "Traceback" in "".join(above) else BOOM
    answer = diagnosed(book, *steps(1, 20), *above, *boom, *below)
    assert (answer.reason.value, rank_of(answer)) == ("KeyError", rank)


def test_the_table_of_the_launcher_is_believed_before_a_record_above(book: RuleBook) -> None:
    """An uncaught exception may follow another rank's record."""
    record = "2026-03-11 18:14:40,104 ERROR [rank 5] loom: a request failed"
    assert rank_of(diagnosed(book, *steps(1, 20), record, "the shuttle is empty", *BOOM, *LAUNCHER)) == 0


@pytest.mark.parametrize(("device", "rank"), [(3, 3), (0, None)])
def test_the_device_that_is_full_tells_the_rank_unless_it_may_be_everybodys_first(
    device: int, rank: int | None, book: RuleBook
) -> None:
    """On one node, device and rank are the same; but a process that sees one device calls it 0."""
    full = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {device} has a total capacity"
    assert rank_of(diagnosed(book, *steps(1, 20), *traceback_of(full))) == rank


def test_two_ranks_that_say_the_same_are_no_answer(book: RuleBook) -> None:
    """Neither is guessed."""
    quotes = [f"[rank{rank}]: INFO the step ended with KeyError: 'a caption of the loom'" for rank in (1, 2)]
    assert rank_of(diagnosed(book, *steps(1, 20), *BOOM, *quotes)) is None
