"""Which GPU and which process of which node is of which rank, by what NCCL and launchers print at the start."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from logdiag.model import Finding, number_in
from logdiag.patterns import pattern_of

# 0000:3b:00.0   3b:00   (domain, bus, device, function)
_ADDRESS = pattern_of(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?")


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
        return ranks.pop() if len(ranks) == 1 else None


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
