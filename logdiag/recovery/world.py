"""One member of a small world of nodes: a collective with the others, measured.

    ssh node-1 python3 - --hosts node-1,node-2 --rank 0 --port 29400 --megabytes 64 --seconds 60 --per-node 0 < world.py

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
# The most round trips that measure the latency, and the most seconds they take; how often data is moved to measure
# the bandwidth.
_TRIPS, _LONGEST = 50, 1.0
_TIMES = 5
# Byte offsets in the kernel's tcp_info of two counts of segments: sent again, and sent in all.
_RESENT, _SENT = 100, 136
_KINDS = ("tcp", "gloo", "nccl")  # from the least to the best; all members use the best that every one has
_ABILITIES = struct.Struct("BB")  # what a member sends of itself: the index of its best kind, and its GPUs


class _Doing:
    """What the member is doing, for the message when time is up; empty while its worker processes report."""

    now = "starting"


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

    def exchange(self, message: bytes) -> bytes:
        """Sends a message to the next member, and returns as long a one from the member before."""
        self._next.sendall(message)
        return self._received(len(message))

    def gathered(self, message: bytes) -> list[bytes]:
        """Returns the messages of all members, by rank. It returns only after every member has called it."""
        self._doing.now = f"waiting for a word from {self._before}"
        messages = [message]
        for _ in range(self._size - 1):
            messages.append(self.exchange(messages[-1]))
        return [messages[(self._rank - rank) % self._size] for rank in range(self._size)]

    def latency(self, first: bool) -> float:
        """Returns the seconds from one member to the next, which only the first measures, by a byte around the ring."""
        self._doing.now = f"waiting for an echo from {self._before}"
        trips: list[float] = []
        until = time.monotonic() + _LONGEST
        while first and len(trips) < _TRIPS and (not trips or time.monotonic() < until):
            started = time.monotonic()
            self.exchange(b"1")
            trips.append(time.monotonic() - started)
        if first:
            self.exchange(b"0")
            return _steady(trips) / self._size
        echo = b"1"
        while echo == b"1":
            echo = self._received(1)
            self._next.sendall(echo)
        return 0.0

    def bandwidth(self, size: int) -> float:
        """Returns the bytes a second, while `size` bytes go to the next member and as many come from the one before."""
        self._doing.now = f"moving data from {self._before} to {self._after}"
        buffer, left = bytearray(_PIECE), size
        started = time.monotonic()
        with ThreadPoolExecutor(1) as sender:
            sent = sender.submit(self._send, size)
            while left:
                got = self._previous.recv_into(buffer, min(left, _PIECE))
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
        """Returns the share of segments that TCP sent again, 0 to 1; None where the system does not count them."""
        if not hasattr(socket, "TCP_INFO"):
            return None
        info = self._next.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        if len(info) < _SENT + 4:
            return None
        again, sent = (struct.unpack_from("I", info, offset)[0] for offset in (_RESENT, _SENT))
        return float(again / max(sent, 1))

    def _received(self, size: int) -> bytes:
        message = self._previous.recv(size, socket.MSG_WAITALL)
        if len(message) < size:
            raise ConnectionError(f"{self._before} closed the connection")
        return message


def _steady(times: Sequence[float]) -> float:
    """The time at the first quarter: a busy machine makes many of them longer, a slow link all."""
    return sorted(times)[len(times) // 4]


def _connected(host: str, port: int, doing: _Doing) -> socket.socket:
    """Connects to a host, trying again until it answers: the other members may start later."""
    while True:
        try:
            end = socket.create_connection((host, port), timeout=5)
        except OSError as error:
            doing.now = f"connecting to {host} ({error.strerror or error})"
            time.sleep(0.1)
            continue
        end.settimeout(None)
        return end


def _over_ring(options: argparse.Namespace, doing: _Doing) -> dict[str, Any] | None:
    """Connects to the other members, and returns the figures of the best kind that all can do; None where worker
    processes measured and printed them."""
    hosts = options.hosts.split(",")
    ring = _Ring(hosts, options.rank, options.port, doing)
    kind, counts = shares(
        [_ABILITIES.unpack(word) for word in ring.gathered(_ABILITIES.pack(*_best_kind()))], options.per_node
    )
    if kind != "tcp":
        _by_processes(kind, options, doing, counts)
        return None
    latency = ring.latency(first=options.rank == 0)
    # The best of several: a busy machine slows some of them down, a slow link all.
    bandwidth = max(ring.bandwidth((options.megabytes << 20) // _TIMES) for _ in range(_TIMES))
    resent = ring.resent()
    ring.gathered(b"1")  # a member that leaves early breaks the others' connections
    return {"over": kind, "processes": len(hosts), "bandwidth": bandwidth, "latency": latency, "resent": resent}


def shares(best: Sequence[tuple[int, ...]], per_node: int) -> tuple[str, list[int]]:
    """The best kind that all members can do, and how many processes each starts: `per_node`, or for 0 one a GPU."""
    kind = _KINDS[min(number for number, _ in best)]
    if kind == "tcp":
        return kind, [1] * len(best)
    return kind, [per_node or (gpus if kind == "nccl" else 1) for _, gpus in best]


def _best_kind() -> tuple[int, int]:
    """Returns the index in _KINDS of the best that this machine can do, and its GPUs. A separate process looks: one
    that has used CUDA can no longer fork, and a torch that cannot be loaded, or that crashes, counts as none."""
    with contextlib.suppress(Exception), ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(_torch_here).result()
    return 0, 0


def _torch_here() -> tuple[int, int]:
    import torch

    if torch.cuda.is_available() and torch.distributed.is_nccl_available():
        return 2, torch.cuda.device_count()
    return int(torch.distributed.is_gloo_available()), 0


def _by_processes(kind: str, options: argparse.Namespace, doing: _Doing, counts: Sequence[int]) -> None:
    """Runs the collective by `counts` processes on the nodes. Raises ChildProcessError where one of this node's failed,
    and ends its others, which would wait for it."""
    host = options.hosts.split(",")[0]
    address = f"tcp://[{host}]:{options.port}" if ":" in host else f"tcp://{host}:{options.port}"
    doing.now, first = "", sum(counts[: options.rank])
    workers = []
    for local in range(counts[options.rank]):
        world = {"init_method": address, "rank": first + local, "world_size": sum(counts)}
        workers.append(multiprocessing.get_context("fork").Process(target=_worker, args=(kind, options, local, world)))
        workers[-1].start()
    while None in (ended := [worker.exitcode for worker in workers]) and not any(ended):
        time.sleep(0.02)
    for worker in workers:
        worker.kill()
        worker.join()
    if any(ended):
        raise ChildProcessError


def _worker(kind: str, options: argparse.Namespace, local: int, world: dict[str, Any]) -> None:
    """Runs one of a node's processes; the first of them prints the figures."""

    def measured(doing: _Doing) -> dict[str, Any] | None:
        figures = _over_torch(kind, options, doing, local, world)
        return None if local else figures

    os._exit(_measured_in_time(measured, options.until, f"{'GPU' if kind == 'nccl' else 'process'} {local}: "))


def _over_torch(
    kind: str, options: argparse.Namespace, doing: _Doing, local: int, world: dict[str, Any]
) -> dict[str, Any]:
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    doing.now = f"starting {kind}"
    device = torch.device("cuda", local) if kind == "nccl" else torch.device("cpu")
    if kind == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(kind, timeout=timedelta(seconds=options.seconds), **world)
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
    latency, count = _steady(seconds(1, _TRIPS)), options.megabytes << 18
    # What each node sends, by the usual ring: it goes through all processes of a node before it leaves it.
    moved = 2 * (size - 1) / size * count * 4
    bandwidth = moved / min(seconds(count, _TIMES))
    dist.destroy_process_group()
    return {"over": kind, "processes": size, "bandwidth": bandwidth, "latency": latency, "resent": None}


def _measured_in_time(measure: Callable[[_Doing], dict[str, Any] | None], until: float, who: str = "") -> int:
    """Runs a measurement and prints its figures or its error; ends the process when time is up. Returns the
    exit status."""
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
    numbers = {"rank": int, "port": int, "megabytes": int, "seconds": float, "per-node": int}
    for name, kind in {"hosts": str, **numbers}.items():
        parser.add_argument(f"--{name}", type=kind, required=True)
    options = parser.parse_args()
    options.until = time.monotonic() + options.seconds
    return _measured_in_time(lambda doing: _over_ring(options, doing), options.until)


if __name__ == "__main__":
    sys.exit(_main())
