"""One member of a small world of nodes: a collective with the others, measured.

    ssh node-1 python3 - --hosts node-1,node-2 --rank 0 < world.py

It is sent to nodes where logdiag is not installed, so it needs Python 3.8 and nothing else. Where all members have
torch it measures an all_reduce: over NCCL by one process for each GPU of each node, where no GPU is over gloo. Else it
measures a ring over plain TCP.

Prints one line, MARK and then JSON: `over`, `processes` (of the whole world), `bandwidth` (bytes a second that each
node sends), `latency` (seconds) and `resent` (the share of segments that TCP had to send again, null where nobody
counts it). Its exit status is 0 only if all of it went well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

MARK = "logdiag-world "
_PIECE = 1 << 20
# Round trips for the latency: so many at most, within so many seconds. Times that data is moved for the bandwidth.
_TRIPS, _LONGEST = 50, 1.0
_TIMES = 5
# Where the kernel's tcp_info counts segments: sent again, and sent at all.
_RESENT, _SENT = 100, 136
_KINDS = ("tcp", "gloo", "nccl")  # all members can do what the least of them can
_WORD = struct.Struct("BB")  # of a member: its best kind, and how many GPUs it has


class _Ring:
    """Connections to the next member and from the one before, each at its port."""

    def __init__(self, hosts: Sequence[str], rank: int, port: int, doing: _Doing) -> None:
        self._size, self._rank, self._doing = len(hosts), rank, doing
        self._after, self._before = hosts[(rank + 1) % len(hosts)], hosts[rank - 1]
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        server = socket.create_server(
            ("", port + 1 + rank), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=4
        )
        doing.now = f"connecting to {self._after}"
        self._next = _connected(self._after, port + 1 + (rank + 1) % len(hosts), doing)
        doing.now = f"waiting for {self._before} to connect"
        self._previous, _ = server.accept()
        server.close()
        for end in (self._next, self._previous):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def turn(self, word: bytes) -> bytes:
        """Passes a word on and takes one of the same length."""
        self._next.sendall(word)
        return self._received(len(word))

    def gathered(self, own: bytes) -> list[bytes]:
        """The words of all members, by rank; after it all of them are there."""
        self._doing.now = f"waiting for a word from {self._before}"
        words = [own]
        for _ in range(self._size - 1):
            words.append(self.turn(words[-1]))
        return [words[(self._rank - rank) % self._size] for rank in range(self._size)]

    def latency(self, first: bool) -> float:
        """The seconds from one member to the next; known to the first, who sends a byte round, 0 else."""
        self._doing.now = f"waiting for an echo from {self._before}"
        trips: list[float] = []
        until = time.monotonic() + _LONGEST
        while first and len(trips) < _TRIPS and (not trips or time.monotonic() < until):
            started = time.monotonic()
            self.turn(b"1")
            trips.append(time.monotonic() - started)
        if first:
            self.turn(b"0")
            return _steady(trips) / self._size
        word = b"1"
        while word == b"1":
            word = self._received(1)
            self._next.sendall(word)
        return 0.0

    def bandwidth(self, size: int) -> float:
        """Bytes a second while so many go to the next member and come from the one before."""
        self._doing.now = f"moving data from {self._before} to {self._after}"
        place, left = bytearray(_PIECE), size
        started = time.monotonic()
        with ThreadPoolExecutor(1) as other:
            sent = other.submit(self._send, size)
            while left:
                got = self._previous.recv_into(place, min(left, _PIECE))
                if not got:
                    raise ConnectionError(f"{self._before} closed the connection")
                left -= got
            sent.result()
        return size / (time.monotonic() - started)

    def _send(self, size: int) -> None:
        piece = bytes(_PIECE)
        for start in range(0, size, _PIECE):
            self._next.sendall(piece[: size - start])

    def resent(self) -> float | None:
        """The share of segments that were sent again; None where the system does not tell."""
        if not hasattr(socket, "TCP_INFO"):
            return None
        info = self._next.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        if len(info) < _SENT + 4:
            return None
        again, sent = (struct.unpack_from("I", info, at)[0] for at in (_RESENT, _SENT))
        return float(again / max(sent, 1))

    def _received(self, size: int) -> bytes:
        word = self._previous.recv(size, socket.MSG_WAITALL)
        if len(word) < size:
            raise ConnectionError(f"{self._before} closed the connection")
        return word


def _steady(times: Sequence[float]) -> float:
    """A quarter of the times were shorter: a busy machine makes many of them longer, a late link all."""
    return sorted(times)[len(times) // 4]


class _Doing:
    """What the member does, for the word that is its last when time is up; empty where its processes say it."""

    now = "starting"


def _connected(host: str, port: int, doing: _Doing) -> socket.socket:
    """A connection, tried until there is one: the others may start later."""
    while True:
        try:
            end = socket.create_connection((host, port), timeout=5)
        except OSError as error:
            doing.now = f"connecting to {host} ({error.strerror or error})"
            time.sleep(0.1)
            continue
        end.settimeout(None)
        return end


def _over_ring(said: argparse.Namespace, doing: _Doing) -> dict[str, Any] | None:
    """Meets the other members, and measures by the best that all can do; None where processes of their own did."""
    hosts = said.hosts.split(",")
    ring = _Ring(hosts, said.rank, said.port, doing)
    kind, counts = shares([_WORD.unpack(word) for word in ring.gathered(_WORD.pack(*_best_kind()))], said.per_node)
    if kind != "tcp":
        _by_processes(kind, said, doing, counts)
        return None
    latency = ring.latency(first=said.rank == 0)
    # At its best: a busy machine costs some of the times, a slow link all of them.
    bandwidth = max(ring.bandwidth((said.megabytes << 20) // _TIMES) for _ in range(_TIMES))
    resent = ring.resent()
    ring.gathered(b"1")  # who leaves early breaks the others' connections
    return {"over": kind, "processes": len(hosts), "bandwidth": bandwidth, "latency": latency, "resent": resent}


def shares(best: Sequence[tuple[int, ...]], per_node: int) -> tuple[str, list[int]]:
    """What all members can do, from the best kind and the GPUs of each, and how many processes each starts: one for
    each GPU, unless a number is given."""
    kind = _KINDS[min(number for number, _ in best)]
    if kind == "tcp":
        return kind, [1] * len(best)
    return kind, [per_node or (gpus if kind == "nccl" else 1) for _, gpus in best]


def _best_kind() -> tuple[int, int]:
    """The best that this machine can, and its GPUs. A process of its own looks: whoever has used CUDA cannot fork, and
    a torch that cannot be loaded, or dies of it, is none."""
    with contextlib.suppress(Exception), ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(_torch_here).result()
    return 0, 0


def _torch_here() -> tuple[int, int]:
    import torch

    if not torch.distributed.is_available():
        return 0, 0
    if torch.cuda.is_available() and torch.distributed.is_nccl_available():
        return 2, torch.cuda.device_count()
    return int(torch.distributed.is_gloo_available()), 0


def _by_processes(kind: str, said: argparse.Namespace, doing: _Doing, counts: Sequence[int]) -> None:
    """The collective by so many processes on each node. Raises ChildProcessError where one of this node's failed, and
    ends the others, which would wait for it."""
    host = said.hosts.split(",")[0]
    address = f"tcp://[{host}]:{said.port}" if ":" in host else f"tcp://{host}:{said.port}"
    doing.now, first = "", sum(counts[: said.rank])
    workers = []
    for local in range(counts[said.rank]):
        world = {"init_method": address, "rank": first + local, "world_size": sum(counts)}
        workers.append(multiprocessing.get_context("fork").Process(target=_worker, args=(kind, said, local, world)))
        workers[-1].start()
    while None in (ended := [each.exitcode for each in workers]) and not any(ended):
        time.sleep(0.02)
    for each in workers:
        each.kill()
        each.join()
    if any(ended):
        raise ChildProcessError


def _worker(kind: str, said: argparse.Namespace, local: int, world: dict[str, Any]) -> None:
    """One of a node's processes; the first of them prints the figures."""

    def measured(doing: _Doing) -> dict[str, Any] | None:
        figures = _over_torch(kind, said, doing, local, world)
        return None if local else figures

    os._exit(_measured_in_time(measured, said.until, f"{'GPU' if kind == 'nccl' else 'process'} {local}: "))


def _over_torch(
    kind: str, said: argparse.Namespace, doing: _Doing, local: int, world: dict[str, Any]
) -> dict[str, Any]:
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    doing.now = f"starting {kind}"
    device = torch.device("cuda", local) if kind == "nccl" else torch.device("cpu")
    if kind == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(kind, timeout=timedelta(seconds=said.seconds), **world)
    size = dist.get_world_size()

    def seconds(count: int, times: int) -> list[float]:
        taken = []
        for _ in range(times + 1):  # the first one makes the connections
            values = torch.ones(count, device=device)
            dist.barrier()
            started = time.monotonic()
            dist.all_reduce(values)
            wrong = int((values != size).sum())
            taken.append(time.monotonic() - started)
            if wrong:
                raise ArithmeticError(f"{wrong} of {count} sums of an all_reduce over {kind} are wrong")
        return taken[1:]

    doing.now = f"an all_reduce over {kind}"
    latency, count = _steady(seconds(1, _TRIPS)), said.megabytes << 18
    # What each node sends, by the usual ring: it goes through all processes of a node before it leaves it.
    moved = 2 * (size - 1) / size * count * 4
    bandwidth = moved / min(seconds(count, _TIMES))
    dist.destroy_process_group()
    return {"over": kind, "processes": size, "bandwidth": bandwidth, "latency": latency, "resent": None}


def _measured_in_time(measure: Callable[[_Doing], dict[str, Any] | None], until: float, who: str = "") -> int:
    """Measures against the clock, and prints what came of it. The exit status."""
    doing = _Doing()

    def too_late() -> None:
        if doing.now:
            print(f"{who}time is up: {doing.now}", file=sys.stderr, flush=True)
        os._exit(1)

    # A collective that hangs cannot be interrupted, only left.
    watchdog = threading.Timer(until - time.monotonic(), too_late)
    watchdog.daemon = True
    watchdog.start()
    try:
        figures = measure(doing)
    except Exception as error:
        if doing.now:
            print(f"{who}{doing.now}: {error or type(error).__name__}", file=sys.stderr, flush=True)
        return 1
    if figures:
        print(MARK + json.dumps(figures), flush=True)
    return 0


def _main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", default="")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--port", type=int, default=29400)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--per-node", type=int, default=0, help="processes on each node; 0: one for each GPU")
    said = parser.parse_args()
    said.until = time.monotonic() + said.seconds
    return _measured_in_time(lambda doing: _over_ring(said, doing), said.until)


if __name__ == "__main__":
    sys.exit(_main())
