"""Hosts on one machine: network namespaces on a bridge, whose links can be cut, slow, late and lossy. Linux, as root.

A host is named by its address, so that names need not be resolved. A late or lossy link is a pair of TAP devices with
this file's own program between them, for not every kernel has netem.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["INSIDE", "LAUNCHER", "Hosts", "hosts", "why_not"]

INSIDE = ("ip", "netns", "exec")
"""Before a host's name and a command: runs it there."""

# Without site-packages, so that all measure over TCP: sixteen that load torch at once would wait for the processor.
LAUNCHER = f"{' '.join(INSIDE)} {{host}} {sys.executable} -S - {{member}}"
"""How a node check starts a member in a host."""
_TAP, _RAW, _SET = 0x0002, 0x1000, 0x400454CA
_FRAME = 65_536


class Hosts:
    """Hosts and what can be done to their links; `names` are their addresses, `here` is this machine's among them."""

    def __init__(self, count: int, megabits: float) -> None:
        number = os.getpid() % 60_000
        self._switch, self._own = f"switch-{number}", f"own{number}"
        network = f"10.{number // 250 + 1}.{number % 250}"
        self.names, self.here = tuple(f"{network}.{at}" for at in range(1, count + 1)), f"{network}.254"
        self._cables: list[subprocess.Popen[bytes]] = []
        self._megabits = megabits

    def make(self) -> None:
        """Makes the hosts and the bridge, in namespaces of their own."""
        _ip(*(f"netns add {name}" for name in (self._switch, *self.names)))
        _ip(f"-n {self._switch} link add bridge type bridge", f"-n {self._switch} link set bridge up")
        for at, name in enumerate(self.names):
            _ip(
                f"-n {self._switch} link add port{at} type veth peer name eth0 netns {name}",
                f"-n {self._switch} link set port{at} master bridge up",
            )
            self._address(name)
            self.slow(name, self._megabits)

        _ip(
            f"-n {self._switch} link add port type veth peer name {self._own} netns {os.getpid()}",
            f"-n {self._switch} link set port master bridge up",
            f"addr add {self.here}/24 dev {self._own}",
            f"link set {self._own} up",
        )

    def cut(self, name: str) -> None:
        """Nothing passes any more, though the link looks whole."""
        _ip(f"-n {self._switch} link set port{self.names.index(name)} nomaster")

    def slow(self, name: str, megabits: float) -> None:
        """What leaves the host leaves it at that rate; a queue before it waits and loses nothing."""
        _shape(name, "eth0", megabits)

    def disturb(self, name: str, *, late: float = 0.0, lost: float = 0.0) -> None:
        """Each frame comes so many seconds late, in both directions, and such a share of them never."""
        at = self.names.index(name)
        command = [sys.executable, __file__, f"port{at}a", f"port{at}b", str(late), str(lost)]
        cable = subprocess.Popen(
            ["ip", "netns", "exec", self._switch, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._cables.append(cable)
        assert cable.stdout is not None
        assert cable.stdout.readline() == b"ready\n"
        _ip(
            f"-n {self._switch} link del port{at}",
            f"-n {self._switch} link set port{at}a netns {name} name eth0",
            f"-n {self._switch} link set port{at}b master bridge up",
        )
        self._address(name)

    def close(self) -> None:
        """Ends the cables, by their input, and removes the hosts."""
        for cable in self._cables:
            cable.communicate()
        for name in (*self.names, self._switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def _address(self, name: str) -> None:
        _ip(f"-n {name} addr add {name}/24 dev eth0", f"-n {name} link set lo up", f"-n {name} link set eth0 up")


@contextmanager
def hosts(count: int, megabits: float = 100.0) -> Iterator[Hosts]:
    """So many hosts, removed at the end."""
    made = Hosts(count, megabits)
    try:
        made.make()
        yield made
    finally:
        made.close()


def why_not() -> str:
    """Why this machine cannot have such hosts; empty where it can."""
    name = f"probe-{os.getpid()}"
    try:
        _ip(f"netns add {name}", f"-n {name} link add probe0 type veth peer name probe1")
        _shape(name, "probe0", 1)
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces here: {error}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return ""


def _ip(*commands: str) -> None:
    for command in commands:
        _run(["ip", *command.split()])


def _shape(name: str, device: str, megabits: float) -> None:
    queue = f"tbf rate {megabits:g}mbit burst 32k latency 400ms"
    _run(["tc", "-n", name, "qdisc", "replace", "dev", device, "root", *queue.split()])


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _cable(first: str, second: str, late: float, lost: float) -> None:
    """Carries frames between two TAP devices until its standard input ends."""
    ends = []
    for name in (first, second):
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(end, _SET, struct.pack("16sH", name.encode(), _TAP | _RAW))
        ends.append(end)
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    print("ready", flush=True)
    chance = random.Random(first)
    under_way: list[tuple[float, int, int, bytes]] = []
    count = 0
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        for end in select.select([0, *ends], [], [], wait)[0]:
            if end == 0:
                return
            frame = os.read(end, _FRAME)
            if chance.random() >= lost:
                count += 1
                heapq.heappush(under_way, (time.monotonic() + late, count, other[end], frame))
        while under_way and under_way[0][0] <= time.monotonic():
            *_, end, frame = heapq.heappop(under_way)
            try:
                os.write(end, frame)
            except OSError:
                continue  # the other side is down


if __name__ == "__main__":
    _cable(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
