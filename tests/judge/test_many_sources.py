"""One case from many sources: a folder of ranks, a node's kernel log, a scheduler's record."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.read.names import node_in
from logdiag.rules import RuleBook
from tests.helpers import log_of, traceback_of

BOOK = RuleBook.load()
BUSES = ("1b", "3b", "4c", "5d")
GPU_3 = "Error: Detected 4 volatile double-bit ECC error(s) in GPU 3. Drain the GPU and reset it or reboot the node."
LOST = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
BEGAN = datetime(2026, 11, 22, 2, 50)
FAILED = datetime(2026, 11, 22, 3, 2, 41)
SACCT = log_of(
    "JobID           JobName      State ExitCode               Start                 End        NodeList",
    "------------ ---------- ---------- -------- ------------------- ------------------- ---------------",
    "4711              train     FAILED      1:0 2026-11-22T02:49:00 2026-11-22T03:13:10  node-[000-003]",
    "4711.0           python     FAILED      1:0 2026-11-22T02:49:03 2026-11-22T03:13:09  node-[000-003]",
)


def xid(bus: str, *, process: int, ahead: int = 0) -> list[str]:
    """A node's kernel log in which a GPU fails for good, by a clock that is so many hours ahead."""
    at = FAILED + timedelta(hours=ahead)
    stamp = f"[{at:%a %b %d %H:%M:%S %Y}]"
    gone = f"NVRM: Xid (PCI:0000:{bus}:00): 48, pid={process}, name=python, An uncorrectable double bit error (DBE)"
    return [f"{stamp} usb 1-1: new high-speed USB device number 4 using xhci_hcd", f"{stamp} {gone}"]


def rank_log(rank: int, ranks: int = 16, *, dies: bool) -> list[str]:
    """The output of one of four ranks a node: the one that dies is silent, the others time out ten minutes later."""
    node, gpu, process = f"node-{rank // 4:03d}", rank % 4, 3000 + rank
    told = f"rank {rank} nranks {ranks} cudaDev {gpu} nvmlDev {gpu} busId {BUSES[gpu]}000 commId 0xabc - Init COMPLETE"
    lines = [f"{node}:{process}:{process + 90} [{gpu}] NCCL INFO comm 0x55d0{rank:02x} {told}"]
    for second in range(0, 760, 10):
        at = BEGAN + timedelta(seconds=second)
        lines.append(f"{at:%Y-%m-%d %H:%M:%S},123 INFO iteration {second}/ 5000 | lm loss: 2.1")
    timed_out = f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1201, OpType=ALLREDUCE)"
    return lines if dies else [*lines, f"[rank{rank}]:[E1122 03:12:53.123456 ProcessGroupNCCL.cpp:632] {timed_out}"]


def answered(folder: Path, kernel: list[str], *, dead: int = 9, names: str = "rank_{}.log") -> Diagnosis:
    """The answer for sixteen ranks, the kernel log of the third node, and the scheduler's record."""
    run = folder / "run"
    run.mkdir()
    for rank in range(16):
        (run / names.format(rank)).write_bytes(log_of(*rank_log(rank, dies=rank == dead)))
    (folder / "dmesg-node2.txt").write_bytes(log_of(*kernel))
    (folder / "sacct.txt").write_bytes(SACCT)
    return diagnose(run, folder / "dmesg-node2.txt", folder / "sacct.txt", rules=BOOK, memory=False)


def test_a_gpu_leads_to_its_rank(tmp_path: Path) -> None:
    """The dead rank printed nothing; its GPU's address in the kernel log is the one that NCCL told it to have."""
    said = answered(tmp_path, xid("3b", process=0))
    root = said.root_cause
    assert root is not None
    assert (said.reason.value, root.rank, root.node) == ("ECCError", 9, "node-002")
    assert "GPU by its PCI address" in (root.rank_from or "")
    assert not root.rank_guessed
    assert said.recovery.exclude_nodes == ("node-002",)


def test_a_process_leads_to_its_rank(tmp_path: Path) -> None:
    """Of another GPU than NCCL tells of, as under a partitioned one, the process still is the rank's."""
    root = answered(tmp_path, xid("ff", process=3009)).root_cause
    assert root is not None
    assert root.rank == 9
    assert "names a process" in (root.rank_from or "")


def test_what_nccl_told_at_the_start_says_on_which_node_a_rank_failed(tmp_path: Path) -> None:
    """Its own error names neither; the file's name tells the rank."""
    for rank in range(16):
        raised = traceback_of("KeyError: 'caption'") if rank == 9 else []
        (tmp_path / f"rank_{rank}.log").write_bytes(log_of(*rank_log(rank, dies=True), *raised))
    root = diagnose(tmp_path, rules=BOOK, memory=False).root_cause
    assert root is not None
    assert (root.rank, root.node) == (9, "node-002")


def test_the_answer_says_how_long_before_the_others_it_came(tmp_path: Path) -> None:
    """By the clocks of all logs: the kernel's with its year, torch's without."""
    said = answered(tmp_path, xid("3b", process=0))
    assert any('612 s before "Collective ALLREDUCE timed out" (15 ranks)' in note for note in said.notes)


def test_another_time_zone_is_taken_off(tmp_path: Path) -> None:
    """A kernel log in local time, eight hours ahead: the seconds between stay the same, and the zone is said."""
    said = answered(tmp_path, xid("3b", process=0, ahead=8))
    assert said.reason.value == "ECCError"
    assert any("612 s before" in note for note in said.notes)
    assert any("8 h ahead of the job's" in note for note in said.notes)


def test_every_log_of_the_case_is_named(tmp_path: Path) -> None:
    """Sixteen ranks, a kernel log with its node, a scheduler's record."""
    kinds = [(log.kind, log.whose) for log in answered(tmp_path, xid("3b", process=0)).logs]
    assert kinds == [("rank-output", "job")] * 16 + [("kernel-log", "machine"), ("slurm-record", "scheduler")]


@pytest.mark.parametrize(("state", "failed"), [("FAILED      1:0", True), ("COMPLETED   0:0", False)])
def test_the_schedulers_record_says_whether_the_job_failed(state: str, failed: bool) -> None:
    """A job's output that just stops amid work, and the row of the job in the scheduler's record."""
    job = log_of(*rank_log(0, dies=True))
    record = SACCT.replace(b"FAILED      1:0", state.encode())
    assert diagnose(job, record, rules=BOOK, memory=False).failed is failed


def test_one_file_for_all_ranks_still_maps_gpus(tmp_path: Path) -> None:
    """What NCCL tells of each rank is remembered though the lines are alike and not kept."""
    job = [line for rank in range(16) for line in rank_log(rank, dies=rank == 9)]
    said = diagnose(log_of(*job), log_of(*xid("3b", process=0)), rules=BOOK, memory=False)
    assert said.root_cause is not None
    # The kernel log names no node: of four with such a GPU none can be told.
    assert said.root_cause.rank is None
    (tmp_path / "dmesg-node2.txt").write_bytes(log_of(*xid("3b", process=0)))
    (tmp_path / "job.out").write_bytes(log_of(*job))
    told = diagnose(tmp_path, rules=BOOK, memory=False).root_cause
    assert told is not None
    assert told.rank == 9


@pytest.mark.parametrize(
    ("path", "node"),
    [
        ("dmesg-node3.txt", "node3"),
        ("logs/kern_gpu-node12.log", "gpu-node12"),
        ("journal-worker-4.log", "worker-4"),
        ("node-004.log", "node-004"),
        ("slurm-4711.out", None),
    ],
)
def test_a_files_name_tells_its_node(path: str, node: str | None) -> None:
    """Words that say what kind of log it is are no part of the node's name."""
    assert node_in(path) == node


def test_a_guessed_rank_is_called_a_guess() -> None:
    """The machine's number of a GPU stands for the rank only because nothing speaks against it; a prefix is sure."""
    lines = [f"step: {step} loss: 2.1" for step in range(30)]
    said = diagnose(log_of(*lines, GPU_3), rules=BOOK, memory=False)
    assert said.root_cause is not None
    assert (said.root_cause.rank, said.root_cause.rank_guessed) == (3, True)
    assert any(note.startswith("rank 3 is a guess: on the only node") for note in said.notes)
    sure = diagnose(log_of(*lines, f"[rank5]: {LOST}"), rules=BOOK, memory=False)
    assert sure.root_cause is not None
    assert (sure.root_cause.rank, sure.root_cause.rank_guessed) == (5, False)
    assert not any("is a guess" in note for note in sure.notes)


def test_of_many_files_each_keeps_fewer_last_lines_and_the_answer_is_that_of_few(tmp_path: Path) -> None:
    """400 ranks, of which one fails: what is judged does not grow with their number, root and rank are those of 8."""
    answers = []
    for ranks in (8, 400):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        for rank in range(ranks):
            end = LOST if rank == 5 else "tick"
            (folder / f"rank{rank}.log").write_bytes(log_of(*rank_log(rank, ranks, dies=True), *["tick"] * 40, end))
        answers.append(diagnose(folder, rules=BOOK, memory=False))
    few, many = answers
    assert many.root_cause is not None
    assert few.root_cause is not None
    assert (many.reason, many.root_cause.rank, many.root_cause.text) == (few.reason, 5, LOST)
    assert few.stats["kept_lines"] / 8 > 2 * many.stats["kept_lines"] / 400
