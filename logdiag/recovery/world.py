"""One member of a small world of nodes: a collective with the others, measured.

    ssh node-1 python3 - --hosts node-1,node-2 --rank 0 < world.py

It is sent to nodes where logdiag is not installed, so it needs Python 3.8 and nothing else. Where all members have
torch it measures an all_reduce over NCCL or gloo, else a ring over plain TCP. Under torchrun the world is torchrun's.

Prints one line, MARK and then JSON: `over`, `bandwidth` (bytes a second), `latency` (seconds) and `resent` (the share
of segments that TCP had to send again, null where nobody counts it). Its exit status is 0 only if all of it went well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

MARK = "logdiag-world "
_PIECE = 1 << 20
# Round trips for the latency: so many at most, within so many seconds. Times that data is moved for the bandwidth.
_TRIPS, _LONGEST = 50, 1.0
_TIMES = 5
# Where the kernel's tcp_info counts segments: sent again, and sent at all.
_RESENT, _SENT = 100, 136
_KINDS = (b"t", b"g", b"n")  # plain TCP, gloo, NCCL; all members can do what the least of them can
_NAMES = {b"t": "tcp", b"g": "gloo", b"n": "nccl"}


class _Ring:
    """Connections to the next member and from the one before, each at its port."""

    def __init__(self, hosts: Sequence[str], rank: int, port: int, doing: _Doing) -> None:
        self._size, self._doing = len(hosts), doing
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
        """Passes one byte on and takes one."""
        self._next.sendall(word)
        return self._received()

    def least(self, own: bytes) -> bytes:
        """The least kind of all members; after it all of them are there."""
        self._doing.now = f"waiting for a word from {self._before}"
        words = [own]
        for _ in range(self._size - 1):
            words.append(self.turn(words[-1]))
        return min(words, key=_KINDS.index)

    def latency(self, first: bool) -> float:
        """The usual seconds from one member to the next; known to the first, who sends a byte round, 0 else."""
        self._doing.now = f"waiting for an echo from {self._before}"
        trips: list[float] = []
        until = time.monotonic() + _LONGEST
        while first and len(trips) < _TRIPS and (not trips or time.monotonic() < until):
            started = time.monotonic()
            self.turn(b"1")
            trips.append(time.monotonic() - started)
        if first:
            self.turn(b"0")
            return statistics.median(trips) / self._size
        word = b"1"
        while word == b"1":
            word = self._received()
            self._next.sendall(word)
        return 0.0

    def bandwidth(self, size: int) -> float:
        """Bytes a second while so many go to the next member and come from the one before."""
        self._doing.now = f"moving data from {self._before} to {self._after}"
        piece, place = memoryview(bytes(_PIECE)), memoryview(bytearray(_PIECE))
        to_send = to_receive = size
        started = time.monotonic()
        while to_send or to_receive:
            ready, free, _ = select.select(
                [self._previous] if to_receive else [], [self._next] if to_send else [], []
            )  # fmt: skip
            if ready:
                got = self._previous.recv_into(place, min(to_receive, _PIECE))
                if not got:
                    raise ConnectionError(f"{self._before} closed the connection")
                to_receive -= got
            if free:
                to_send -= self._next.send(piece[: min(to_send, _PIECE)], socket.MSG_DONTWAIT)
        return size / (time.monotonic() - started)

    def resent(self) -> float | None:
        """The share of segments that were sent again; None where the system does not tell."""
        if not hasattr(socket, "TCP_INFO"):
            return None
        info = self._next.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        if len(info) < _SENT + 4:
            return None
        again, sent = (struct.unpack_from("I", info, at)[0] for at in (_RESENT, _SENT))
        return float(again / max(sent, 1))

    def _received(self) -> bytes:
        word = self._previous.recv(1)
        if not word:
            raise ConnectionError(f"{self._before} closed the connection")
        return word


class _Doing:
    """What the member does, for the word that is its last when time is up."""

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


def _over_ring(said: argparse.Namespace, doing: _Doing) -> dict[str, Any]:
    hosts = said.hosts.split(",")
    ring = _Ring(hosts, said.rank, said.port, doing)
    kind = ring.least(_best_kind())
    if kind != b"t":
        host = f"[{hosts[0]}]" if ":" in hosts[0] else hosts[0]
        world = {"init_method": f"tcp://{host}:{said.port}", "rank": said.rank, "world_size": len(hosts)}
        return _over_torch(_NAMES[kind], said, doing, world)
    latency = ring.latency(first=said.rank == 0)
    # At its best: a busy machine costs some of the times, a slow link all of them.
    bandwidth = max(ring.bandwidth((said.megabytes << 20) // _TIMES) for _ in range(_TIMES))
    resent = ring.resent()
    ring.least(kind)  # who leaves early breaks the others' connections
    return {"over": "tcp", "bandwidth": bandwidth, "latency": latency, "resent": resent}


def _best_kind() -> bytes:
    """The best that this machine can: torch that cannot be loaded is none."""
    with contextlib.suppress(Exception):
        import torch

        if torch.distributed.is_available():
            if torch.cuda.is_available() and torch.distributed.is_nccl_available():
                return b"n"
            return b"g" if torch.distributed.is_gloo_available() else b"t"
    return b"t"


def _over_torch(kind: str, said: argparse.Namespace, doing: _Doing, world: dict[str, Any]) -> dict[str, Any]:
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    doing.now = f"starting {kind}"
    local = int(os.environ.get("LOCAL_RANK", "0"))
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
    latency, count = statistics.median(seconds(1, _TRIPS)), said.megabytes << 18
    moved = 2 * (size - 1) / size * count * 4  # what each rank sends, by the usual ring
    bandwidth = moved / min(seconds(count, _TIMES))
    figures = {"over": kind, "bandwidth": bandwidth, "latency": latency, "resent": None}
    dist.destroy_process_group()
    return figures


def _main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", default="")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--port", type=int, default=29400)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    said = parser.parse_args()
    doing = _Doing()

    def too_late() -> None:
        print(f"not done after {said.seconds:g} s: {doing.now}", file=sys.stderr, flush=True)
        os._exit(1)

    # A collective that hangs cannot be interrupted, only left.
    watchdog = threading.Timer(said.seconds, too_late)
    watchdog.daemon = True
    watchdog.start()
    try:
        if "TORCHELASTIC_RUN_ID" in os.environ:
            kind = _NAMES[_best_kind()]
            figures = _over_torch(kind, said, doing, {"init_method": "env://"})
        else:
            figures = _over_ring(said, doing)
    except Exception as error:
        print(f"{doing.now}: {error or type(error).__name__}", file=sys.stderr, flush=True)
        return 1
    print(MARK + json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
