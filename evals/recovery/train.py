"""A small training job of real processes: each rank computes gradients with NumPy and sums them with others over TCP.

`python -m evals.recovery.train launch NODES PLAN` starts one rank a node and ends them all when one ends, as launchers
do. Each rank listens on, or calls from, its node's address (127.0.0.2, ...). A step is the same whenever it is made:
batch N is drawn from the seed N, and sums are taken in the order of the ranks. PLAN (JSON) says where the job saves,
how often, and which faults come at which step; a fault happens once, a bad batch stays bad. `inside` says that each
node is a network namespace of that name.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evals.namespaces import INSIDE
from logdiag.recovery.hook import resume

Plan = dict[str, Any]
_SIZE, _BATCH, _RATE = 64, 16, 0.05
# Seconds that a rank waits for another: the watchdog that logdiag is to be quicker than.
_WATCHDOG = 120.0
_PROGRAM = [sys.executable, "-m", "evals.recovery.train"]


class Ranks:
    """Sums arrays over all ranks: each sends its own to the first one, which sends back the sum."""

    def __init__(self, rank: int, nodes: list[str], port: int) -> None:
        self.rank, self.peers = rank, list[socket.socket]()
        if rank == 0:
            with socket.create_server((nodes[0], port)) as server:
                server.settimeout(_WATCHDOG)
                found: dict[int, socket.socket] = {}
                while len(found) < len(nodes) - 1:
                    peer, _ = server.accept()
                    peer.settimeout(_WATCHDOG)
                    found[struct.unpack("<i", _read(peer, 4))[0]] = peer
                self.peers = [found[number] for number in sorted(found)]
            return
        until = time.monotonic() + _WATCHDOG
        while True:
            try:
                peer = socket.create_connection((nodes[0], port), _WATCHDOG, (nodes[rank], 0))
                break
            except ConnectionRefusedError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
        peer.sendall(struct.pack("<i", rank))
        self.peers = [peer]

    def sum(self, own: np.ndarray) -> np.ndarray:
        """The sum over all ranks, in their order."""
        if self.rank == 0:
            for peer in self.peers:
                own = own + np.frombuffer(_read(peer, own.nbytes))
            for peer in self.peers:
                peer.sendall(own.tobytes())
            return own
        self.peers[0].sendall(own.tobytes())
        return np.frombuffer(_read(self.peers[0], own.nbytes))


class TorchRanks:
    """The same over `torch.distributed` with gloo, as torchrun sets it up."""

    def __init__(self) -> None:
        import torch.distributed

        torch.distributed.init_process_group("gloo")

    def sum(self, own: np.ndarray) -> np.ndarray:
        """The sum over all ranks."""
        import torch

        total = torch.from_numpy(own.copy())
        torch.distributed.all_reduce(total)
        return np.asarray(total.numpy())


def _read(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise ConnectionResetError(104, "Connection reset by peer")
        data += piece
    return data


def train(rank: int, nodes: list[str], ranks: Ranks | TorchRanks, plan: Plan) -> None:
    """All steps of one rank, from the checkpoint that the hook names."""
    order = resume()
    truth = np.random.default_rng(7).normal(size=_SIZE)
    weights, first = np.zeros(_SIZE), 0
    if order.checkpoint:
        with np.load(order.checkpoint) as saved:
            weights, first = saved["weights"], int(saved["step"])
    for step in range(first + 1, plan["steps"] + 1):
        if order.skips(step):
            continue
        happen(plan, step, rank, nodes[rank])
        inputs, wanted = batch(plan, step, rank, truth)
        error = inputs @ weights - wanted
        total = ranks.sum(np.append(inputs.T @ error / _BATCH, np.mean(error**2))) / len(nodes)
        weights = weights - _RATE * total[:-1]
        time.sleep(plan["seconds"])
        if rank == 0:
            print(f"step {step}/{plan['steps']} loss {total[-1]:.6g}", flush=True)
            if step % plan["save_every"] == 0:
                save(plan, step, weights)
    if rank == 0:
        final = float(np.mean((weights - truth) ** 2))
        Path(plan["folder"], "final").write_text(repr(final))
        print(f"final loss {final:.6g}", flush=True)
    happen(plan, plan["steps"] + 1, rank, nodes[rank])


def batch(plan: Plan, step: int, rank: int, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A batch of the data; a bad one has outliers, or numbers that are none."""
    inputs = np.random.default_rng([step, rank]).normal(size=(_BATCH, _SIZE))
    wanted = inputs @ truth
    for number, bad in enumerate(plan["bad_batches"]):
        if step in bad["steps"]:
            once(plan, f"bad-{number}", step)
            wanted = wanted + (np.nan if bad["kind"] == "nan" else 500.0)
    return inputs, wanted


def save(plan: Plan, step: int, weights: np.ndarray) -> None:
    """A checkpoint under a temporary name first, then in its place, then to the store."""
    path = Path(plan["folder"], "ckpt", f"step_{step}.npz")
    fault = next(
        (fault for fault in plan["faults"] if fault["step"] == step and fault["kind"] in ("torn", "disk")), None
    )
    if fault and once(plan, str(fault["number"]), step):
        np.savez(path, weights=weights, step=step)
        if fault["kind"] == "torn":
            path.write_bytes(path.read_bytes()[:400])
            os.kill(os.getpid(), signal.SIGKILL)
        content = path.read_bytes()
        path.unlink()
        Path("/dev/full").write_bytes(content)
    with path.with_suffix(".tmp").open("wb") as file:
        np.savez(file, weights=weights, step=step)
        os.fsync(file.fileno())
    path.with_suffix(".tmp").rename(path)
    if plan["store"]:
        urllib.request.urlopen(
            urllib.request.Request(plan["store"], path.read_bytes(), method="PUT"), timeout=10
        ).close()


def once(plan: Plan, name: str, step: int) -> bool:
    """Whether a fault is to happen now: it writes down when it did, and never happens again."""
    try:
        with Path(plan["folder"], f"fault-{name}").open("x") as file:
            json.dump({"at": time.time(), "step": step}, file)
    except FileExistsError:
        return False
    return True


def happen(plan: Plan, step: int, rank: int, node: str) -> None:
    """The fault of this step and rank, if there is one."""
    for fault in plan["faults"]:
        mine = (fault["step"], fault["rank"]) == (step, rank) and fault["kind"] in FAULTS
        if mine and once(plan, str(fault["number"]), step):
            FAULTS[fault["kind"]](plan, node)


def _xid(node: str, text: str) -> None:
    """What a machine's kernel says of a broken GPU; the call into its driver then never returns."""
    print(f"{time.strftime('%b %d %H:%M:%S')} {node} kernel: NVRM: Xid (PCI:0000:3b:00): {text}", flush=True)
    time.sleep(1e6)


def _cut() -> None:
    """All connections to other ranks are gone; this one does not notice."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            link = socket.socket(fileno=os.dup(int(name)))
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.shutdown(socket.SHUT_RDWR)
    time.sleep(1e6)


def _cut_link(plan: Plan) -> None:
    """The node's link goes down and stays so: nobody is told, and whoever is started there reaches no other."""
    if not plan["inside"]:
        _cut()
    subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
    time.sleep(1e6)


def _kill_logdiag() -> None:
    """kill -9 for the process that watches this job."""
    process = os.getpid()
    while b"\0logdiag\0run\0" not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(process, signal.SIGKILL)
    time.sleep(1e6)


def _out_of_memory() -> None:
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
    np.ones(1 << 30)


def _break_newest(plan: Plan) -> None:
    newest = max(Path(plan["folder"], "ckpt").glob("step_*.npz"), key=lambda path: int(path.stem[5:]))
    os.truncate(newest, newest.stat().st_size // 2)
    os.kill(os.getpid(), signal.SIGKILL)


def _words() -> None:
    print("the lattice would not settle: flux 0.31 is off by two turns", flush=True)
    sys.exit(3)


def _bug() -> None:
    print(final_accuracy)  # type: ignore[name-defined]  # noqa: F821 - the bug


FAULTS: dict[str, Callable[[Plan, str], object]] = {
    "kill": lambda plan, node: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda plan, node: os.kill(os.getpid(), signal.SIGSTOP),
    "stall": lambda plan, node: time.sleep(1e6),
    "cut": lambda plan, node: _cut(),
    "link": lambda plan, node: _cut_link(plan),
    "lost": lambda plan, node: _xid(node, "79, pid=4711, name=python, GPU has fallen off the bus."),
    "memory": lambda plan, node: _xid(node, "48, pid=4711, An uncorrectable double bit error (DBE) has occurred"),
    "oom": lambda plan, node: _out_of_memory(),
    "break": lambda plan, node: _break_newest(plan),
    "store": lambda plan, node: urllib.request.urlopen(plan["store"] + "?down=3", b"").close(),
    "words": lambda plan, node: _words(),
    "supervisor": lambda plan, node: _kill_logdiag(),
    "bug": lambda plan, node: _bug(),
}


def launch(nodes: list[str], plan: str) -> int:
    """Starts a rank on each node; when one fails the others are ended, and a table says which was first."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [*_PROGRAM, "rank", ",".join(nodes), plan, str(port)]
    inside = json.loads(Path(plan).read_text())["inside"]
    ranks = [
        subprocess.Popen([*([*INSIDE, node] if inside else []), *words, str(rank)]) for rank, node in enumerate(nodes)
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        while not any(rank.poll() for rank in ranks):
            if all(rank.poll() == 0 for rank in ranks):
                return 0
            time.sleep(0.02)
        time.sleep(0.2)
        failed = next(number for number, rank in enumerate(ranks) if rank.returncode)
        status, process = ranks[failed].returncode, ranks[failed].pid
        signalled = (
            f"Signal {-status} ({signal.Signals(-status).name}) received by PID {process}" if status < 0 else "above"
        )
        rows = {"host": nodes[failed], "rank": f"{failed} (local_rank: 0)", "exitcode": f"{status} (pid: {process})"}
        print("Root Cause (first observed failure):\n[0]:", file=sys.stderr)
        for name, value in {**rows, "traceback": signalled}.items():
            print(f"  {name:<10}: {value}", file=sys.stderr, flush=True)
        return 1
    finally:
        for rank in ranks:
            rank.kill()


def main() -> None:
    """`launch NODES PLAN`, or one rank: `rank NODES PLAN PORT RANK`, or `torch NODES PLAN` under torchrun."""
    what, names, file, *more = sys.argv[1:]
    nodes = names.split(",")
    if what == "launch":
        sys.exit(launch(nodes, file))
    rank = int(more[1] if more else os.environ["RANK"])
    ranks = Ranks(rank, nodes, int(more[0])) if more else TorchRanks()
    train(rank, nodes, ranks, json.loads(Path(file).read_text()))


if __name__ == "__main__":
    main()
