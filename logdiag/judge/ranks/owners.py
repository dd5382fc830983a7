"""Which rank has which GPU and which process of which node, as NCCL tells when it starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from logdiag.model import Finding, number_in
from logdiag.patterns import pattern_of

# 0000:3b:00.0   3b:00   (domain, bus, device, function)
_ADDRESS = pattern_of(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?")


class Owners(NamedTuple):
    """Ranks by (node, PCI address) and by (node, process id). A rank of which two lines tell different things is of a
    smaller group of ranks: the largest group counts."""

    gpus: Mapping[tuple[str, int], int]
    processes: Mapping[tuple[str, str], int]

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes of which something is told."""
        return frozenset(node for node, _ in self.processes)

    def nodes_of(self, ranks: Collection[int]) -> set[str]:
        """The nodes on which ranks are."""
        return {node for (node, _), rank in self.processes.items() if rank in ranks}

    def of_gpu(self, node: str | None, address: str) -> int | None:
        """The rank that has the GPU at a PCI address; None where that is not told."""
        number = _address(address)
        return None if node is None or number is None else self.gpus.get((node, number))

    def of_process(self, node: str | None, process: str) -> int | None:
        """The rank that a process of a node is; None where that is not told."""
        return None if node is None else self.processes.get((node, process))


def owners_in(places: Iterable[Finding]) -> Owners:
    """The owners that NCCL's lines tell."""
    gpus: dict[tuple[str, int], int] = {}
    processes: dict[tuple[str, str], int] = {}
    for place in sorted(places, key=lambda place: number_in(place.facts.get("ranks", "")) or 0):
        facts = place.facts
        rank, node = number_in(facts.get("rank", "")), facts.get("node") or place.line.node
        if rank is None or not node:
            continue
        if facts.get("pid"):
            processes[node, facts["pid"]] = rank
        if (address := _address(facts.get("pci", ""))) is not None:
            gpus[node, address] = rank
    return Owners(gpus, processes)


def _address(text: str) -> int | None:
    """A PCI address as one number, as NCCL prints it (`3b000`); None for another text."""
    lower = text.lower()
    if found := _ADDRESS.fullmatch(lower):
        domain, bus, device, function = (int(part or "0", 16) for part in found.groups())
        return domain << 20 | bus << 12 | device << 4 | function
    return int(lower, 16) if re.fullmatch(r"[0-9a-f]{1,16}", lower) else None
