"""Reads what lines tell of single processes of a job: which GPU and process id each has, which ended and how, which
speaks in a block, on which host, and which is which by its numbers in groups (`PP1_TP3` is rank 7 where four share
tensors). The words for it are rules, in `rules/context/`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

from logdiag.judge.kinds import Kinds, Told
from logdiag.model import Finding, Line, number_in
from logdiag.patterns import pattern_of

# 0000:3b:00.0   3b:00   (domain, bus, device, function)
_ADDRESS = pattern_of(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?")

# (Worker_DP1_PP0_TP3 pid=4711)   [2026-11-04 10:00:00 PP1 TP3]
_GROUP = pattern_of(r"(?<![A-Za-z])(DP|PP|TP|EP)[_-]?(\d{1,5})(?![\w-]*\.)")
# Data, pipeline, tensors: the last one is counted fastest.
_ORDER = ("DP", "PP", "TP")
_LINES_OF_A_REPORT, _ABOVE, _BELOW = 4, 6, 10
_T = TypeVar("_T")


def the_only(found: Collection[_T]) -> _T | None:
    """The only one of what was found; None for none or several."""
    return next(iter(found)) if len(found) == 1 else None


class Owners(NamedTuple):
    """Ranks by (node, PCI address) and by (node, process id). Where lines disagree, the one of the largest group of
    ranks counts: in a smaller group a process has another rank. The node is empty where a line names none."""

    gpus: Mapping[tuple[str, int], int]
    processes: Mapping[tuple[str, str], int]

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes with a known process."""
        return frozenset(node for node, _ in self.processes if node)

    def nodes_of(self, ranks: Collection[int]) -> set[str]:
        """The nodes on which any of some ranks runs."""
        return {node for (node, _), rank in self.processes.items() if node and rank in ranks}

    def of_gpu(self, node: str | None, address: str) -> int | None:
        """The rank that has the GPU at a PCI address of a node; None where it is not known."""
        number = _address_number(address)
        return None if node is None or number is None else self.gpus.get((node, number))

    def of_process(self, node: str | None, process: str) -> int | None:
        """The rank of a process of a node, called by its short name or in full; or of the only known
        process with this id; None where it is not known."""
        short = node.partition(".")[0] if node else None
        ranks = {
            rank
            for (of, number), rank in self.processes.items()
            if number == process and (not of or short is None or of.partition(".")[0] == short)
        }
        return the_only(ranks)


def owners_in(findings: Iterable[Finding]) -> Owners:
    """The owners that NCCL's lines name."""
    gpus: dict[tuple[str, int], int] = {}
    processes: dict[tuple[str, str], int] = {}
    for finding in sorted(findings, key=lambda finding: number_in(finding.facts.get("ranks", "")) or 0):
        facts = finding.facts
        rank, node = number_in(facts.get("rank", "")), facts.get("node") or finding.line.node
        if rank is None:
            continue
        if facts.get("pid"):
            processes[node or "", facts["pid"]] = rank
        if node and (address := _address_number(facts.get("pci", ""))) is not None:
            gpus[node, address] = rank
    return Owners(gpus, processes)


def _address_number(text: str) -> int | None:
    """A PCI address as one number, as NCCL prints it (`3b000`); None for another text."""
    lower = text.lower()
    if match := _ADDRESS.fullmatch(lower):
        domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
        return domain << 20 | bus << 12 | device << 4 | function
    return int(lower, 16) if re.fullmatch(r"[0-9a-f]{1,16}", lower) else None


def summary_of(kinds: Kinds) -> tuple[Told, ...]:
    """The entries of launchers' summaries, in their order: a part that names a node begins one, with which the next
    parts go on. `first` is among the facts of the one below the heading of the root cause."""
    entries: list[Told] = []
    heading: Mapping[str, str] = {}
    for part in kinds.told("summary"):
        if "first" in part.facts:
            heading = part.facts
        elif "node" in part.facts:
            entries.append(part._replace(facts={**heading, **part.facts}))
            heading = {}
        elif entries:
            entries[-1] = entries[-1]._replace(facts={**part.facts, **entries[-1].facts})
    return tuple(entries)


def first_observed(entries: Sequence[Told]) -> int | None:
    """The rank that the launcher saw fail first, by its last summary; None where no summary names one."""
    return next((entry.rank for entry in reversed(entries) if "first" in entry.facts and entry.rank is not None), None)


def ends_in(kinds: Kinds) -> list[Told]:
    """The reports of ended processes, in their order, each with what its next lines add."""
    found: list[Told] = []
    parts = [(told, topic) for topic in ("ended", "ended-further") for told in kinds.told(topic)]
    for told, topic in sorted(parts, key=lambda part: part[0].line.place):
        (stream, position), last = told.line.place, found[-1] if found else told
        if topic == "ended" and (not found or last.line.place != told.line.place):
            found.append(told)
        elif found and last.line.stream == stream and position - last.line.position <= _LINES_OF_A_REPORT:
            found[-1] = last._replace(facts={**told.facts, **last.facts})
    return found


def first_to_end(ends: Sequence[Told]) -> Told | None:
    """The first process that ended of itself, else the first that was stopped; None where none is named."""
    return next((end for end in ends if "stopped" not in end.facts), ends[0] if ends else None)


def speaker_beside(root: Line, kinds: Kinds) -> tuple[int | None, str | None]:
    """The rank and the node of the process that the root's line names as its own, else of the only one that a line of
    its block names; None for what that does not tell."""
    block = [
        told
        for told in kinds.told("speaker")
        if told.line.stream == root.stream
        and -_ABOVE <= told.line.position - root.position <= _BELOW
        and told.line.rank in (root.rank, None)
    ]
    own = [told for told in block if told.line.place == root.place]
    ranks, own_ranks = ({told.rank for told in of if told.rank is not None} for of in (block, own))
    nodes, own_nodes = ({told.node for told in of if told.node} for of in (block, own))
    return the_only(own_ranks or ranks), the_only(own_nodes or nodes)


def host_in_lines(root: Line, kinds: Kinds) -> str | None:
    """The host that the root's line names; else the only one that any line names, or that a shell's prompt shows; None
    for none or several."""
    told = kinds.told("host")
    of_root = {host.node for host in told if host.line.place == root.place}
    return the_only(of_root or {host.node for host in told} or {prompt.node for prompt in kinds.told("prompt")})


class _Numbers(NamedTuple):
    """The numbers of a process in its groups of data, pipeline and tensors, 0 where a line does not say."""

    data: int
    pipeline: int
    tensors: int


def rank_over_groups(line: Line, lines: Iterable[Line]) -> int | None:
    """The rank of the process that printed a line in the whole job; None where the line names a single group, and where
    the processes that `lines` name are not as many in each group."""
    own = _numbers_in(line)
    if own is None:
        return None
    known: set[_Numbers] = {numbers for other in lines if (numbers := _numbers_in(other))} | {own}
    sizes: list[int] = [max(column) + 1 for column in zip(*known, strict=True)]
    # Where data are split over the processes that share tensors, the number among those counts already over all.
    if len({numbers.tensors for numbers in known}) == len(known):
        return own.tensors
    if known != {_Numbers(*numbers) for numbers in product(*map(range, sizes))}:
        return None
    return (own.data * sizes[1] + own.pipeline) * sizes[2] + own.tensors


def _numbers_in(line: Line) -> _Numbers | None:
    """A process's numbers by the head of a line; None where it names less than two groups, or counts experts, which are
    numbered over all."""
    named = dict(_GROUP.findall(line.text[: line.starts[-1]])) if line.rank is not None else {}
    several = len(named) > 1 and "TP" in named and "EP" not in named
    return _Numbers(*(int(named.get(group, 0)) for group in _ORDER)) if several else None
