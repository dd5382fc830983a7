"""Makes real dumps of torch's flight recorder: four processes, Gloo, one of them out of step.

    python evals/record_dumps.py OUT     writes OUT/<fault>/nccl_trace_rank_<rank> (pickled) and OUT/<fault>-json/...

The dumps of `tests/data/dumps` come from it, with torch 2.13. Each process writes its dump while the others still wait.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

FAULTS = ("missing", "late", "size", "operation", "extra")
RANKS, STEPS = 4, 12
WAITED, TIMEOUT = 6.0, 120.0


def train(fault: str, rank: int, group: object) -> None:
    """The loop that goes wrong on one rank after some steps."""
    import torch
    import torch.distributed as dist

    def reduce(numbers: int) -> None:
        dist.all_reduce(torch.ones(numbers))

    for step in range(STEPS):
        if fault == "late" and rank == 2:
            time.sleep(0.6 if step < STEPS - 1 else 100)
        reduce(8)
        if step % 4 == 3:
            dist.all_gather([torch.ones(2) for _ in range(2)], torch.ones(2), group=group)
    if fault == "missing" and rank == 2:
        time.sleep(100)  # hung in its own code
    if fault == "size" and rank == 1:
        reduce(6)
    if fault == "operation" and rank == 1:
        dist.broadcast(torch.ones(8), 0)
    if fault == "extra" and rank == 3:
        reduce(1)
    if fault == "extra":
        time.sleep(100)
    reduce(8)
    reduce(8)


def work(fault: str, out: str, rank: int, port: int) -> None:
    """One process: it trains, and after a while its other thread writes what the recorder holds."""
    os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
    import torch.distributed as dist
    from torch._C import _distributed_c10d as recorder

    timeout = datetime.timedelta(seconds=TIMEOUT)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=RANKS, timeout=timeout)
    groups = [dist.new_group(ranks, timeout=timeout) for ranks in ([0, 1], [2, 3])]
    threading.Thread(target=train, args=(fault, rank, groups[rank // 2]), daemon=True).start()
    time.sleep(WAITED + 0.6 * STEPS * (fault == "late"))
    for form, dump in (("", recorder._dump_fr_trace()), ("-json", recorder._dump_fr_trace_json())):
        folder = Path(out, fault + form)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(dump if isinstance(dump, bytes) else dump.encode())
    os._exit(0)


def main() -> None:
    """All faults, one after the other."""
    context = multiprocessing.get_context("spawn")
    for number, fault in enumerate(FAULTS):
        port = 29_700 + number
        processes = [context.Process(target=work, args=(fault, sys.argv[1], rank, port)) for rank in range(RANKS)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()


if __name__ == "__main__":
    main()
