"""Nodes on which jobs fail more often than by chance.

If all N nodes were alike, the k of n failures on one node would follow a binomial law with probability 1/N. As the
worst node is picked afterwards, probabilities are corrected by Holm's method (A Simple Sequentially Rejective Multiple
Test Procedure, Scandinavian Journal of Statistics 6, 1979). A node with two failures and a corrected p below 0.05 is
suspicious. Without the cluster's size N counts the nodes that failed, which only makes the test more careful.

Only infrastructure failures count, since a script's error is always printed by the same first rank; one a job and node;
imported ones when they were confirmed here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from logdiag.memory.documents import moment, now, utc
from logdiag.memory.incident import Incident
from logdiag.memory.store import Store
from logdiag.model import Category

_LEVEL = 0.05
_FEWEST = 2
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """How often a node failed first: `failures` of its infrastructure in the last `days`, one for each job; the names
    of its `jobs` as far as known; the ids of all its `incidents`. `probability` is that of so many failures by chance,
    `corrected` after Holm."""

    node: str
    failures: int
    jobs: tuple[str, ...]
    incidents: tuple[str, ...]
    reasons: dict[str, int]
    last_seen: str
    probability: float
    corrected: float
    days: float

    @property
    def why(self) -> str:
        """Why it is suspicious, in a sentence."""
        named = ", ".join((*self.jobs[:_MOST_NAMED], *["..."][: len(self.jobs) > _MOST_NAMED]))
        return (
            f"node {self.node} failed first in {self.failures} jobs of the last {self.days:g} days"
            f"{f' ({named})' if named else ''}, more often than chance (p {self.corrected:.2g});"
            " logdiag incidents nodes shows all"
        )

    @property
    def suspicious(self) -> bool:
        """Whether so many failures are more than chance."""
        return self.failures >= _FEWEST and self.corrected < _LEVEL


def node_records(
    store: Store, days: float = 30.0, *, nodes: int | None = None, until: str | None = None
) -> tuple[NodeRecord, ...]:
    """Every node that failed in the `days` before `until` (ISO 8601, now if left out), the most suspicious first;
    `nodes` is the cluster's size. Raises MemoryStoreError."""
    end = utc(until or "") or now()
    by_node: dict[str, list[Incident]] = {}
    for incident in store.list(since=utc((moment(end) - timedelta(days=days)).isoformat())):
        foreign = incident.imported and not incident.confirmed_by
        if incident.node and not foreign and (incident.seen_at <= end or not until):
            by_node.setdefault(incident.node, []).append(incident)
    failures = {node: len(_independent(found)) for node, found in by_node.items()}
    chances = _chances(failures, max(nodes or 0, len(by_node)))
    records = [
        NodeRecord(
            node=node,
            failures=failures[node],
            jobs=tuple(dict.fromkeys(item.job_name for item in found if item.job_name)),
            incidents=tuple(item.id for item in found),
            reasons=dict(Counter(item.reason.value for item in found).most_common()),
            last_seen=found[0].seen_at,
            probability=chances[node][0],
            corrected=chances[node][1],
            days=days,
        )
        for node, found in by_node.items()
    ]
    return tuple(sorted(records, key=lambda item: (item.corrected, item.probability, -item.failures, item.node)))


def _chances(failures: Mapping[str, int], size: int) -> dict[str, tuple[float, float]]:
    """For each node the probability of its failures by chance alone, in a cluster of `size` nodes; and the same
    corrected for testing that many nodes."""
    total = sum(failures.values())
    by_count = {count: tail(total, count, 1 / size) for count in set(failures.values())}
    chances, worst = {}, 0.0
    for index, (node, count) in enumerate(sorted(failures.items(), key=lambda item: by_count[item[1]])):
        # Sorted upwards, the i-th of N (from 0) is multiplied by N - i, and none is below the one before.
        worst = max(worst, min(1.0, by_count[count] * (size - index)))
        chances[node] = by_count[count], worst
    return chances


def tail(trials: int, successes: int, probability: float) -> float:
    """The probability of so many successes or more in independent trials."""
    if successes <= 0 or probability >= 1:
        return 1.0
    terms = (
        math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(count + 1)
            - math.lgamma(trials - count + 1)
            + count * math.log(probability)
            + (trials - count) * math.log1p(-probability)
        )
        for count in range(successes, trials + 1)
    )
    return min(1.0, math.fsum(terms))


def _independent(found: Iterable[Incident]) -> set[str]:
    """The infrastructure failures of a node, one a job; where the job is not known, one a piece of a log."""
    return {
        f"job {item.job_name}" if item.job_name else item.content or item.id
        for item in found
        if item.reason.category is Category.INFRASTRUCTURE
    }
