"""On which rank and node the root cause happened, where its own line does not say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logdiag.judge.faults import Event
from logdiag.model import Finding, Line, Reason, Role

__all__ = ["first_observed", "node_of", "rank_of"]

# The launcher's table:   host      : node-004
#                         rank      : 5 (local_rank: 5)
#                         exitcode  : -6 (pid: 812)
_TABLE_HOST = re.compile(r"\s*host {2,}: ([\w.-]{1,120})\s*$")
_TABLE_RANK = re.compile(r"\s*rank {2,}: (\d+) \(local_rank: \d+\)")
_TABLE_PROCESS = re.compile(r"\s*exitcode {2,}: -?\d+ \(pid: (\d+)\)")
# node-2:5776:5902 [0] transport/net_ib.cc:1296 NCCL WARN
_NCCL_DEVICE = re.compile(r"[\w.-]+:\d+:\d+ \[(\d+)\] ")
# Who speaks of these has peers on other nodes, whose lines may be missing: the number of its GPU is not its rank.
_BETWEEN_NODES = (Reason.NCCL_REMOTE_ERROR, Reason.NETWORK_ERROR)
_LAUNCHER = re.compile(r"torch[./]distributed[./](?:run|launcher|elastic)")
# -- Process 1 terminated with the following error:   RayTaskError(KeyError): ray::Worker.step() (..., repr=W[rank=1])
_SPAWNED = re.compile(
    r"-- Process (?P<spawned>\d{1,6}) terminated with the following error|"
    r"\bRayTaskError\b.{1,400}\[rank=(?P<actor>\d{1,6})\]\)"
)
# ValueError: shard 7 of the loom is torn   (others repeat what it says, not its class)
_CLASS = re.compile(r"^[\w.]{1,120}(?:Error|Exception): ")
_HEADER = "Traceback (most recent call last)"
_LEVELS_OF_TROUBLE = frozenset({"WARNING", "ERROR", "SEVERE", "CRITICAL", "FATAL"})
# Kept lines.
_LONGEST_TRACEBACK = 200
_SHORTEST_QUOTE, _LONGEST_QUOTE = 20, 300


@dataclass(frozen=True, slots=True)
class _Worker:
    """One entry of torchrun's summary."""

    host: str
    rank: int
    process: str


def rank_of(root: Event, events: Sequence[Event], explained: frozenset[Reason], lines: Sequence[Line]) -> int | None:
    """The rank of the root: the one that a collective waited for, where a report says so; the one that its line names;
    whose record an exception is printed below; the one that died of the same reason, or of one that the root explains;
    or the one that the launcher saw fail first, by its table or by its reports."""
    named = _awaited(root, events)
    if named is None:
        named = _named(root.finding, lines)
    if named is not None:
        return named
    raised_by, listed_first = _raised_by(root, lines), first_observed(lines)
    if raised_by is not None and root.caught:
        return raised_by
    for group in _kin(root, [event for event in events if event.died], explained):
        if ranks := {event.finding.rank for event in group} - {None}:
            return ranks.pop() if len(ranks) == 1 else listed_first if listed_first in ranks else None
    told = (listed_first, raised_by, _quoted_by(root.line, lines), _reported_first(root, events, lines))
    return next((rank for rank in told if rank is not None), None)


def _awaited(root: Event, events: Sequence[Event]) -> int | None:
    """The rank that a report of a collective's time-out calls missing (`absent`)."""
    if root.reason is not Reason.NCCL_TIMEOUT_ERROR:
        return None
    missing = (_number(event.finding, "absent") for event in events)
    return next((rank for rank in missing if rank is not None), None)


def _named(finding: Finding, lines: Sequence[Line]) -> int | None:
    """The rank that a line names: by itself, by its process and the launcher's table, by its pod and what that
    printed, by its node where each has one rank, or by the machine's or NCCL's number of a GPU on the only node."""
    if finding.rank is not None:
        return finding.rank
    if process := finding.facts.get("pid"):
        listed = {worker.rank for worker in _workers(lines) if worker.process == process}
        if len(listed) == 1:
            return listed.pop()
    if pod := finding.facts.get("pod"):
        spoke = {line.rank for line in lines if line.rank is not None and pod in line.speaker.split("/")}
        if len(spoke) == 1:
            return spoke.pop()
    if finding.node and (alone := _rank_of_each_node(lines).get(finding.node)) is not None:
        return alone
    nodes = {line.node for line in lines if line.node}
    # A machine counts its GPUs as a launcher counts its ranks; what a process sees of them it may call otherwise.
    if (gpu := _number(finding, "gpu")) is not None and len(nodes) <= 1:
        return gpu
    device = _NCCL_DEVICE.search(finding.line.text)
    return int(device[1]) if device and len(nodes) == 1 and finding.reason not in _BETWEEN_NODES else None


def _rank_of_each_node(lines: Sequence[Line]) -> dict[str, int]:
    """The rank of each node, where every rank from 0 on has spoken and each node has one."""
    pairs = {(line.node, line.rank) for line in lines if line.node and line.rank is not None}
    ranks = {node: rank for node, rank in pairs if node}
    one_each = len(ranks) == len(pairs) > 1 and set(ranks.values()) == set(range(len(pairs)))
    return {node: rank for node, rank in ranks.items() if rank is not None} if one_each else {}


def _kin(root: Event, died: Sequence[Event], explained: frozenset[Reason]) -> Iterable[Sequence[Event]]:
    """What processes died of: the root's reason, causes before what peers say, or a cause that the root explains."""
    same = [event for event in died if event.reason is root.reason]
    yield [event for event in same if event.finding.role is root.finding.role]
    yield [event for event in died if event.reason in explained and event.finding.role is Role.CAUSE]
    yield same


def _raised_by(root: Event, lines: Sequence[Line]) -> int | None:
    """The rank that is said to have raised an exception, by what stands above its traceback: the report of
    torch.multiprocessing, the traceback's own head, or the record of which it is a part."""
    if not (root.died or root.caught):
        return None
    above = [line for line in lines if line.stream == root.line.stream and line.position < root.line.position]
    for line in reversed(above[-_LONGEST_TRACEBACK:]):
        if spawned := _SPAWNED.search(line.text):
            return int(spawned["spawned"] or spawned["actor"])
        if line.rank is not None or line.level is not None:
            return line.rank if line.level in _LEVELS_OF_TROUBLE or _HEADER in line.text else None
    return None


def _quoted_by(said: Line, lines: Sequence[Line]) -> int | None:
    """The one rank of which another line repeats the words of this one."""
    words = _CLASS.sub("", said.message.strip())[:_LONGEST_QUOTE]
    if len(words) < _SHORTEST_QUOTE:
        return None
    ranks = {line.rank for line in lines if line.rank is not None and words in line.text}
    return ranks.pop() if len(ranks) == 1 else None


def _reported_first(root: Event, events: Sequence[Event], lines: Sequence[Line]) -> int | None:
    """The rank of which a launcher first reports that its process ended, where its rules find one in the report
    (`ended`, or `local_rank` where there is one node); else the number of the device that the root names, unless it
    is 0, as which many a process sees its only one."""
    one_node = len({line.node for line in lines if line.node}) <= 1
    # A task that is a launcher is no rank.
    told = "local_rank" if any(_LAUNCHER.search(line.text) for line in lines) else "ended"
    for event in (root, *events):
        if (told == "ended" or one_node) and (ended := _number(event.finding, told)) is not None:
            return ended
    device = _number(root.finding, "device")
    return device if device and one_node else None


def _number(finding: Finding, fact: str) -> int | None:
    """A fact that is a number; a rule, which may be a user's own, can catch anything under a fact's name."""
    told = finding.facts.get(fact, "")
    return int(told) if re.fullmatch(r"\d{1,6}", told) else None


def first_observed(lines: Sequence[Line]) -> int | None:
    """The rank that the launcher saw fail first: the last entry of its summary."""
    return next((worker.rank for worker in reversed(list(_workers(lines)))), None)


def node_of(root: Event, rank: int | None, lines: Sequence[Line]) -> str | None:
    """The node of the root: named on its line, by other lines of its rank, by the launcher's table, or the only one."""
    if root.finding.node:
        return root.finding.node
    if rank is not None:
        named = {line.node for line in lines if line.rank == rank and line.node}
        named |= {worker.host for worker in _workers(lines) if worker.rank == rank}
        if len(named) == 1:
            return named.pop()
    every = {line.node for line in lines if line.node}
    return every.pop() if len(every) == 1 else None


def _workers(lines: Sequence[Line]) -> Iterable[_Worker]:
    """The entries of torchrun's summary, which names the host before the rank and the process after it."""
    host, rank = "", -1
    for line in lines:
        if named := _TABLE_HOST.match(line.message):
            host, rank = named[1], -1
        elif host and (numbered := _TABLE_RANK.match(line.message)):
            rank = int(numbered[1])
            yield _Worker(host, rank, "")
        elif rank >= 0 and (process := _TABLE_PROCESS.match(line.message)):
            yield _Worker(host, rank, process[1])
            host, rank = "", -1
