"""Writes the log of a 64-rank training run that ends with one GPU's memory error, as large as wanted.

    python evals/generate.py --megabytes 300 --out run.log

The same arguments always give the same bytes. Eight nodes of eight ranks print Megatron-like metrics, timers, NCCL
messages, harmless warnings and checkpoints; then rank 37 meets an uncorrectable ECC error, the other 63 ranks run into
the watchdog's time limit, and torchelastic prints its table. Memory stays the same whatever the size.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

__all__ = ["FAILED_RANK", "ROOT_TEXT", "Written", "write_log"]

NODES = 8
RANKS_PER_NODE = 8
RANKS = NODES * RANKS_PER_NODE
FAILED_RANK = 37
ROOT_TEXT = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
SITE = "/usr/local/lib/python3.11/site-packages"
START = datetime(2025, 11, 12, 18, 4, 11)
SECONDS_PER_STEP = 4.1
# A prime number of ready-made strings, so that walking through them does not fall into step with the ranks.
POOL = 4093


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


def clock(iteration: int) -> datetime:
    """When an iteration ended."""
    return START + timedelta(seconds=iteration * SECONDS_PER_STEP)


def host(rank: int) -> str:
    return f"node-{rank // RANKS_PER_NODE:03d}"


def process(rank: int) -> int:
    return 41200 + 131 * (rank // RANKS_PER_NODE) + rank % RANKS_PER_NODE


def default(rank: int) -> str:
    """The prefix that torchrun gives to a worker's output: its place on its node."""
    return f"[default{rank % RANKS_PER_NODE}]:"


def nccl(rank: int, message: str) -> str:
    pid, device = process(rank), rank % RANKS_PER_NODE
    return f"{default(rank)}{host(rank)}:{pid}:{pid + 620} [{device}] NCCL INFO {message}"


def beginning() -> Iterator[str]:
    """The start of the run: arguments, NCCL's set-up, the model."""
    runner = "W1112 18:02:51.402000 41102 torch/distributed/run.py:766]"
    yield f"{runner} "
    yield f"{runner} *****************************************"
    yield (
        f"{runner} Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your "
        "system being overloaded, please further tune the variable for optimal performance in your application as "
        "needed. "
    )
    yield f"{default(0)}using world size: {RANKS}, data-parallel size: 8, tensor-model-parallel size: 8"
    yield f"{default(0)}------------------------ arguments ------------------------"
    for name, value in (("micro_batch_size", 2), ("num_layers", 96), ("seq_length", 4096), ("train_iters", 900000)):
        yield f"{default(0)}  {name} {'.' * (47 - len(name))} {value}"
    yield f"{default(0)}-------------------- end of arguments ---------------------"
    for rank in range(RANKS):
        yield nccl(rank, f"Bootstrap: Using eth0:10.4.{rank // RANKS_PER_NODE}.17<0>")
        yield nccl(rank, "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]; OOB eth0")
        for channel in range(4):
            peer = (rank + 1) % RANKS
            yield nccl(rank, f"Channel {channel:02d}/0 : {rank}[{rank % 8}] -> {peer}[{peer % 8}] via P2P/CUMEM")
        yield nccl(rank, "Connected all rings, use ring PXN 0 GDR 1")
        yield nccl(rank, f"ncclCommInitRank comm 0x55d0{rank:02x}8a10 rank {rank} nranks {RANKS} - Init COMPLETE")
    yield f"{default(0)}done with setup ..."
    yield f"{default(0)}training ..."


def metrics(iteration: int, numbers: Numbers) -> str:
    """Megatron's line for one iteration, which the last rank prints."""
    at, pick = clock(iteration), numbers.step()
    loss = 1.7 + 9.0 / (1 + iteration / 400) + float(numbers.loss[pick])
    elapsed = SECONDS_PER_STEP * 1000 + float(numbers.norm[pick]) * 100
    return (
        f"{default(RANKS - 1)} [{at:%Y-%m-%d %H:%M:%S}] iteration {iteration:8d}/  900000 | "
        f"consumed samples: {iteration * 1024:12d} | elapsed time per iteration (ms): {elapsed:.1f} | "
        f"throughput per GPU (TFLOP/s/GPU): {numbers.tflops[pick]} | "
        f"learning rate: {3e-4 / (1 + iteration / 1e5):.6E} | "
        f"global batch size:  1024 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {numbers.norm[pick]} | "
        f"number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


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


def resource_lines(iteration: int, numbers: Numbers) -> Iterator[str]:
    """What each rank's monitor says now and then: keys and values without blanks between them."""
    second = f"{clock(iteration):%Y-%m-%dT%H:%M:%S}"
    for rank in range(RANKS):
        pick = numbers.step()
        yield (
            f"{default(rank)}time={second}.{numbers.milliseconds[pick]}Z level=info msg=resources rank={rank} "
            f"host={host(rank)} step={iteration} gpu_mem_mb={numbers.allocated[pick]} tflops={numbers.tflops[pick]} "
            f"tokens_per_s={numbers.tokens[pick]} fwd_ms={numbers.forward[pick]} bwd_ms={numbers.backward[pick]} "
            f"grad_norm={numbers.norm[pick]}"
        )


def timers(numbers: Numbers) -> Iterator[str]:
    """Megatron's table of timers."""
    prefix = default(RANKS - 1)
    yield f"{prefix}(min, max) time across ranks (ms):"
    pools = (
        ("forward-backward", numbers.backward),
        ("forward-compute", numbers.forward),
        ("batch-generator", numbers.data),
        ("all-grads-sync", numbers.optimizer),
        ("optimizer-inner-step", numbers.optimizer),
    )
    for name, pool in pools:
        low, high = sorted((pool[numbers.step()], pool[numbers.step()]), key=float)
        yield f"{prefix}    {name} {'.' * (48 - len(name))}: ({low}, {high})"


def warnings(iteration: int, numbers: Numbers) -> Iterator[str]:
    """Lines that look worse than they are."""
    rank = numbers.step() % RANKS
    at = clock(iteration)
    yield (
        f"{default(rank)}{SITE}/torch/autograd/graph.py:825: UserWarning: Grad strides do not match bucket view "
        f"strides. This may indicate grad was not created according to the gradient layout contract, or that the "
        f"param's strides changed since DDP was constructed.  This is not an error, but may impair performance."
    )
    yield (
        f"{default(rank)}[rank{rank}]:W{at:%m%d %H:%M:%S}.{numbers.milliseconds[numbers.step()]}000 {process(rank)} "
        f"torch/_dynamo/convert_frame.py:906] [8/8] torch._dynamo hit config.recompile_limit (8)"
    )
    yield (
        f"{default(0)}{at:%Y-%m-%d %H:%M:%S},{numbers.milliseconds[numbers.step()]} WARNING urllib3.connectionpool: "
        f"Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken by "
        f"'ReadTimeoutError(\"Read timed out. (read timeout=20)\")': /files/gpt/metrics"
    )


def communicators(numbers: Numbers) -> Iterator[str]:
    """NCCL tells of a communicator that each rank opens."""
    for rank in range(RANKS):
        comm, device = f"0x7f3c{numbers.step():08x}", rank % RANKS_PER_NODE
        yield nccl(
            rank, f"comm {comm} rank {rank} nRanks {RANKS} nNodes {NODES} localRanks 8 localRank {device} MNNVL 0"
        )


def checkpoint(iteration: int) -> Iterator[str]:
    """A checkpoint is saved."""
    target = "/checkpoints/gpt"
    yield f"{default(0)}saving checkpoint at iteration {iteration:7d} to {target} in torch_dist format"
    yield f"{default(0)}  successfully saved checkpoint from iteration {iteration:7d} to {target} [ t 1/8, p 1/8 ]"


def steps(numbers: Numbers) -> Iterator[tuple[int, list[str]]]:
    """The healthy part, one iteration after the other, without end."""
    prefixes = [f"{default(rank)}[rank{rank}] " for rank in range(RANKS)]
    iteration = 0
    while True:
        iteration += 1
        lines = list(step_lines(iteration, numbers, prefixes))
        lines.append(metrics(iteration, numbers))
        if iteration % 5 == 0:
            lines.extend(resource_lines(iteration, numbers))
        if iteration % 10 == 0:
            lines.extend(timers(numbers))
            lines.extend(warnings(iteration, numbers))
        if iteration % 20 == 0:
            lines.extend(communicators(numbers))
        if iteration % 200 == 0:
            lines.extend(checkpoint(iteration))
        yield iteration, lines


def traceback_lines() -> Iterator[str]:
    """The failing rank's traceback; its last line is the root cause, the three after it are advice."""
    frames = (
        ("/workspace/pretrain_gpt.py", 294, "<module>", "pretrain(train_valid_test_datasets_provider, model_provider)"),
        (
            "/workspace/megatron/training/training.py",
            721,
            "pretrain",
            "iteration, num_floating_point_operations = train(",
        ),
        ("/workspace/megatron/training/training.py", 2092, "train", "loss_dict, skipped_iter = train_step("),
        ("/workspace/megatron/training/training.py", 1188, "train_step", "losses_reduced = forward_backward_func("),
        (
            "/workspace/megatron/core/pipeline_parallel/schedules.py",
            493,
            "forward_backward_no_pipelining",
            "backward_step(",
        ),
        (
            f"{SITE}/torch/autograd/graph.py",
            825,
            "_engine_run_backward",
            "return Variable._execution_engine.run_backward(",
        ),
    )
    yield "Traceback (most recent call last):"
    for path, line, function, code in frames:
        yield f'  File "{path}", line {line}, in {function}'
        yield f"    {code}"
    yield ROOT_TEXT
    yield (
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect."
    )
    yield "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    yield "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    yield ""


def watchdog(rank: int, at: datetime, sequence: int) -> Iterator[str]:
    """What ProcessGroupNCCL says when a collective does not end in time."""
    nanoseconds = f"{rank * 7919 % 999983:06d}{rank * 13 % 999:03d}"
    begin = f"{default(rank)}[rank{rank}]:[E{at:%m%d %H:%M:%S}.{nanoseconds} ProcessGroupNCCL.cpp"
    group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    caught = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, "
        f"NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for {600000 + rank * 37 % 99} milliseconds "
        f"before timing out."
    )
    yield f"{begin}:632] {caught}"
    yield (
        f"{begin}:2268] {group}  failure detected by watchdog at work sequence id: {sequence} PG status: "
        f"last enqueued work: {sequence + 3}, last completed work: {sequence - 1}"
    )
    yield (
        f"{begin}:684] [Rank {rank}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of "
        f"CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."
    )
    yield f"{begin}:698] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down."
    yield f"{begin}:1901] {group} Process group watchdog thread terminated with exception: {caught}"


def table_entry(rank: int, at: datetime, code: str, reason: str) -> Iterator[str]:
    yield f"  time      : {at:%Y-%m-%d_%H:%M:%S}"
    yield f"  host      : {host(rank)}"
    yield f"  rank      : {rank} (local_rank: {rank % RANKS_PER_NODE})"
    yield f"  exitcode  : {code} (pid: {process(rank)})"
    yield "  error_file: <N/A>"
    yield f"  traceback : {reason}"


def launcher(at: datetime) -> Iterator[str]:
    """torchelastic's end: it names whoever it saw first, which is not who failed first."""
    api = "torch/distributed/elastic/multiprocessing/api.py"
    for rank in range(1, RANKS_PER_NODE):
        yield f"W{at:%m%d %H:%M:%S}.118000 41102 {api}:900] Sending process {process(rank)} closing signal SIGTERM"
    yield (
        f"E{at:%m%d %H:%M:%S}.907000 41102 {api}:874] failed (exitcode: -6) local_rank: 0 (pid: {process(0)}) "
        f"of binary: /usr/bin/python3"
    )
    yield "Traceback (most recent call last):"
    yield '  File "/usr/local/bin/torchrun", line 8, in <module>'
    yield "    sys.exit(main())"
    yield f'  File "{SITE}/torch/distributed/launcher/api.py", line 270, in launch_agent'
    yield "    raise ChildFailedError("
    yield "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    yield "=" * 60
    yield "pretrain_gpt.py FAILED"
    yield "-" * 60
    yield "Failures:"
    for index, rank in enumerate(range(1, RANKS_PER_NODE), start=1):
        yield f"[{index}]:"
        yield from table_entry(rank, at, "-6", f"Signal 6 (SIGABRT) received by PID {process(rank)}")
    yield "-" * 60
    yield "Root Cause (first observed failure):"
    yield "[0]:"
    yield from table_entry(0, at, "-6", f"Signal 6 (SIGABRT) received by PID {process(0)}")
    yield "=" * 60


def failure(iteration: int) -> Iterator[str]:
    """The end of the run."""
    at = clock(iteration) + timedelta(seconds=2)
    for text in traceback_lines():
        yield f"{default(FAILED_RANK)}[rank{FAILED_RANK}]: {text}"
    later = at + timedelta(minutes=10)
    for rank in range(RANKS):
        if rank != FAILED_RANK:
            yield from watchdog(rank, later, iteration * 6 + 11)
    yield from launcher(later + timedelta(seconds=4))


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
    print(
        f"{arguments.out}: {written.bytes / 1e6:.0f} MB, {written.lines} lines, root cause on line "
        f"{written.root_line}, {seconds:.1f} s",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
