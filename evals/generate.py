"""Writes the log of a 64-rank training run that ends with one GPU's memory error, as large as wanted.

    python -m evals.generate --megabytes 300 --out run.log

`write_ranks` writes such a run as one file a rank.

The same arguments always give the same bytes. Eight nodes of eight ranks print Megatron-like metrics, timers, NCCL
messages, harmless warnings and checkpoints; then rank 37 meets an uncorrectable ECC error, the other 63 ranks run into
the watchdog's time limit, and torchelastic prints its table. `generate.yaml` has the texts. Memory stays the same
whatever the size.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

__all__ = ["FAILED_RANK", "ROOT_TEXT", "Written", "write_log", "write_ranks"]

NODES = 8
RANKS_PER_NODE = 8
RANKS = NODES * RANKS_PER_NODE
FAILED_RANK = 37
ROOT_TEXT = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
START = datetime(2025, 11, 12, 18, 4, 11)
SECONDS_PER_STEP = 4.1
# A prime number of ready-made strings, so that walking through them does not fall into step with the ranks.
POOL = 4093
TEXTS: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Written:
    """What came out: the size, and where the root cause stands."""

    bytes: int
    lines: int
    root_line: int


class Numbers:
    """Ready-made strings of varying numbers: picking one is ten times faster than formatting it."""

    def __init__(self, seed: int) -> None:
        source = random.Random(seed)
        self._next = source.randrange(POOL)

        def pool(low: float, high: float, form: str) -> list[str]:
            return [format(source.uniform(low, high), form) for _ in range(POOL)]

        self.forward = pool(1180, 1260, ".2f")
        self.backward = pool(2350, 2490, ".2f")
        self.optimizer = pool(80, 97, ".2f")
        self.data = pool(0.2, 3.9, ".2f")
        self.tokens = pool(3650, 3990, ".1f")
        self.tflops = pool(395, 431, ".1f")
        self.allocated = pool(60100, 61900, ".1f")
        self.milliseconds = pool(0, 999, "03.0f")
        self.norm = pool(0.21, 0.48, ".3f")
        self.loss = pool(-0.01, 0.01, ".8f")

    def step(self) -> int:
        """Another place in the pools."""
        self._next = (self._next + 1619) % POOL
        return self._next


def text(name: str, rank: int = 0, **facts: Any) -> Iterator[str]:
    """The lines of one text, with the facts and with what is known of a rank: its place, host, process and prefixes."""
    node, local = divmod(rank, RANKS_PER_NODE)
    ranks = facts.setdefault("ranks", RANKS)
    host, process, peer = f"node-{node:03d}", 41200 + 131 * node + local, (rank + 1) % ranks
    # The prefix that torchrun gives to a worker's output: its place on its node.
    default = f"[default{local}]:"
    facts |= {
        "rank": rank, "node": node, "local": local, "host": host, "process": process, "default": default,
        "peer": peer, "peer_local": peer % RANKS_PER_NODE,
        "nccl": f"{default}{host}:{process}:{process + 620} [{local}] NCCL INFO ",
    }  # fmt: skip
    yield from (line.format(**facts) for line in TEXTS[name])


def clock(iteration: int) -> datetime:
    """When an iteration ended."""
    return START + timedelta(seconds=iteration * SECONDS_PER_STEP)


def beginning() -> Iterator[str]:
    """The start of the run: arguments, NCCL's set-up, the model."""
    yield from text("beginning", runner="W1112 18:02:51.402000 41102 torch/distributed/run.py:766]")
    for rank in range(RANKS):
        yield from text("beginning of a rank", rank)
    yield from text("first step")


def step_lines(iteration: int, numbers: Numbers, prefixes: list[str]) -> Iterator[str]:
    """What each rank says about one iteration."""
    second = f"{clock(iteration):%Y-%m-%d %H:%M:%S},"
    begin = f" INFO pretrain.step: iteration {iteration} | forward-compute: "
    pick = numbers.step()
    # The loop that writes nearly all of the file: only ready-made strings in it.
    for rank_prefix in prefixes:
        pick = (pick + 1619) % POOL
        yield (
            f"{rank_prefix}{second}{numbers.milliseconds[pick]}{begin}{numbers.forward[pick]} ms | "
            f"backward-compute: {numbers.backward[pick]} ms | optimizer: {numbers.optimizer[pick]} ms | "
            f"batch-generator: {numbers.data[pick]} ms | tokens/s: {numbers.tokens[pick]} | "
            f"TFLOP/s: {numbers.tflops[pick]} | allocated: {numbers.allocated[pick]} MB | reserved: 70144.0 MB"
        )


def metrics(iteration: int, numbers: Numbers) -> Iterator[str]:
    """Megatron's line for one iteration, which the last rank prints."""
    pick = numbers.step()
    yield from text(
        "metrics",
        at=clock(iteration),
        step=iteration,
        samples=iteration * 1024,
        loss=1.7 + 9.0 / (1 + iteration / 400) + float(numbers.loss[pick]),
        elapsed=SECONDS_PER_STEP * 1000 + float(numbers.norm[pick]) * 100,
        tflops=numbers.tflops[pick],
        rate=3e-4 / (1 + iteration / 1e5),
        norm=numbers.norm[pick],
    )


def resource_lines(iteration: int, numbers: Numbers) -> Iterator[str]:
    """What each rank's monitor says now and then: keys and values without blanks between them."""
    for rank in range(RANKS):
        pick = numbers.step()
        picked = {name: pool[pick] for name, pool in vars(numbers).items() if isinstance(pool, list)}
        ms = numbers.milliseconds[pick]
        yield from text("resources of a rank", rank, at=clock(iteration), step=iteration, ms=ms, **picked)


def timers(numbers: Numbers) -> Iterator[str]:
    """Megatron's table of timers."""
    yield "[default7]:(min, max) time across ranks (ms):"
    pools = (
        ("forward-backward", numbers.backward),
        ("forward-compute", numbers.forward),
        ("batch-generator", numbers.data),
        ("all-grads-sync", numbers.optimizer),
        ("optimizer-inner-step", numbers.optimizer),
    )
    for name, pool in pools:
        low, high = sorted((pool[numbers.step()], pool[numbers.step()]), key=float)
        yield f"[default7]:    {name} {'.' * (48 - len(name))}: ({low}, {high})"


def steps(numbers: Numbers) -> Iterator[tuple[int, list[str]]]:
    """The healthy part, one iteration after the other, without end."""
    prefixes = [f"[default{rank % RANKS_PER_NODE}]:[rank{rank}] " for rank in range(RANKS)]
    iteration = 0
    while True:
        iteration += 1
        lines = [*step_lines(iteration, numbers, prefixes), *metrics(iteration, numbers)]
        if iteration % 5 == 0:
            lines.extend(resource_lines(iteration, numbers))
        if iteration % 10 == 0:
            lines.extend(timers(numbers))
            rank = numbers.step() % RANKS
            ms, later_ms = (numbers.milliseconds[numbers.step()] for _ in range(2))
            lines.extend(text("warnings", rank, at=clock(iteration), ms=ms, later_ms=later_ms))
        if iteration % 20 == 0:
            for rank in range(RANKS):
                lines.extend(text("communicator of a rank", rank, pick=numbers.step()))
        if iteration % 200 == 0:
            lines.extend(text("checkpoint", step=iteration))
        yield iteration, lines


def failure(iteration: int) -> Iterator[str]:
    """The end of the run."""
    yield from last_words(FAILED_RANK, iteration)
    for rank in [rank for rank in range(RANKS) if rank != FAILED_RANK]:
        yield from last_words(rank, iteration)
    yield from launcher(clock(iteration) + timedelta(minutes=10, seconds=6))


def last_words(rank: int, iteration: int) -> Iterator[str]:
    """How one rank ends: the failed one by its traceback, any other by the watchdog ten minutes later."""
    default = f"[default{rank % RANKS_PER_NODE}]:"
    if rank == FAILED_RANK:
        yield from (f"{default}[rank{rank}]: {line}" for line in text("traceback", root=ROOT_TEXT))
        return
    at = clock(iteration) + timedelta(minutes=10, seconds=2)
    sequence = iteration * 6 + 11
    nanoseconds = f"{rank * 7919 % 999983:06d}{rank * 13 % 999:03d}"
    (caught,) = text("caught", rank, sequence=sequence, ran=600000 + rank * 37 % 99)
    yield from text(
        "watchdog of a rank",
        rank,
        head=f"{default}[rank{rank}]:[E{at:%m%d %H:%M:%S}.{nanoseconds} ProcessGroupNCCL.cpp",
        caught=caught,
        sequence=sequence,
        enqueued=sequence + 3,
        completed=sequence - 1,
    )


def launcher(at: datetime) -> Iterator[str]:
    """torchelastic's last words."""
    for rank in range(1, RANKS_PER_NODE):
        yield from text("launcher signals a rank", rank, at=at)
    yield from text("launcher fails", at=at)
    for rank in range(1, RANKS_PER_NODE):
        yield from text("launcher names a rank", rank, index=rank, at=at)
    yield from text("launcher names the first")
    yield from text("launcher names a rank", 0, index=0, at=at)
    yield "=" * 60


def write_log(path: Path, megabytes: float, seed: int = 7, progress: Callable[[int], None] | None = None) -> Written:
    """Write the log to `path`; its size is `megabytes` million bytes, give or take one iteration."""
    numbers = Numbers(seed)
    wanted = int(megabytes * 1e6) - sum(len(line) + 1 for line in failure(1))
    size = count = last = root = 0
    with path.open("wb", buffering=1 << 20) as stream:

        def put(lines: list[str]) -> None:
            nonlocal size, count
            block = ("\n".join(lines) + "\n").encode("ascii")
            stream.write(block)
            size += len(block)
            count += len(lines)

        put(list(beginning()))
        for iteration, lines in steps(numbers):
            if size >= wanted:
                break
            put(lines)
            last = iteration
            if progress and iteration % 1000 == 0:
                progress(size)
        end = list(failure(last))
        root = count + 1 + next(number for number, line in enumerate(end) if line.endswith(ROOT_TEXT))
        put(end)
    return Written(size, count, root)


def write_ranks(folder: Path, sizes: Sequence[float], seed: int = 7) -> None:
    """Write what each rank of such a run prints to a file of its own, of so many million bytes: `rank_12.log`."""
    numbers = Numbers(seed)
    for rank, megabytes in enumerate(sizes):
        left = megabytes * 1e6
        with (folder / f"rank_{rank}.log").open("wb", buffering=1 << 20) as stream:
            lines, iteration = [*text("beginning of a rank", rank, ranks=len(sizes))], 0
            while left > 0:
                iteration += 1
                lines += step_lines(iteration, numbers, [f"[default{rank % RANKS_PER_NODE}]:[rank{rank}] "])
                if iteration % 20 == 0:
                    lines += text("communicator of a rank", rank, pick=numbers.step(), ranks=len(sizes))
                left -= stream.write("".join(f"{line}\n" for line in lines).encode("ascii"))
                lines = []
            stream.write("".join(f"{line}\n" for line in last_words(rank, iteration)).encode("ascii"))


def main() -> None:
    """Read the arguments, write the file, say where the root cause stands."""
    parser = argparse.ArgumentParser(description="Write the log of a 64-rank training run that fails at its end.")
    parser.add_argument("--megabytes", type=float, default=300.0, help="size in million bytes (default: 300)")
    parser.add_argument("--out", type=Path, required=True, help="where to write it")
    parser.add_argument("--seed", type=int, default=7, help="other numbers, the same story (default: 7)")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    written = write_log(arguments.out, arguments.megabytes, arguments.seed)
    seconds = time.perf_counter() - begun
    size, root = f"{written.bytes / 1e6:.0f} MB, {written.lines} lines", f"root cause on line {written.root_line}"
    print(f"{arguments.out}: {size}, {root}, {seconds:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
