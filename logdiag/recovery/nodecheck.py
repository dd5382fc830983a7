"""Which nodes are bad, by two rounds of small worlds that run a collective.

Round one pairs all nodes; those of a world that failed or was slow are suspects. Round two pairs each suspect with a
node that passed; who fails or is slow again is bad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high, median_low

# Slow is less than half the usual bandwidth; late is four times the usual latency and half a millisecond more, to allow
# for a busy machine; lossy is more than one segment in a hundred sent again, and four times the usual share.
_SLOW, _LATE, _PAUSE, _LOSSY, _TIMES_LOSSY = 0.5, 4.0, 0.0005, 0.01, 4.0

World = tuple[str, ...]
"""The nodes that run one collective together: two, or three."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a world measured: over what, by how many processes, bytes a second that each node sends, seconds, and the
    share of segments that were sent again (None where it is not known)."""

    over: str
    processes: int
    bandwidth: float
    latency: float
    resent: float | None


@dataclass(frozen=True, slots=True)
class WorldResult:
    """How a world ended: its figures, or why there are none."""

    world: World
    figures: Figures | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Usual:
    """The medians of a round, with which each world is compared; `per_node` are the processes on each node."""

    per_node: float
    bandwidth: float
    latency: float
    resent: float


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check: the nodes that passed, the bad ones with what is wrong with each, and those not known to
    be either. `waves` are the outcomes in the order in which worlds ran: the first wave is round one, all others are
    round two."""

    good: tuple[str, ...]
    bad: Mapping[str, str]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    usual: Usual | None
    waves: tuple[tuple[WorldResult, ...], ...]


def check(nodes: Sequence[str], run: Callable[[Sequence[World]], Sequence[WorldResult]]) -> Check:
    """The whole test; `run` runs worlds at the same time and gives their outcomes in the same order."""
    first = tuple(run(first_round(nodes)))
    usual = usual_of(first)
    good = [node for outcome in first if not complaint(outcome, usual) for node in outcome.world]
    if not good:
        what = "no world passed, so it is not known which nodes are bad; check the launcher and the ports first"
        return Check((), {}, tuple(nodes), (f"{what} ({first[0].why})",), usual, (first,))
    waves = tuple(tuple(run(wave)) for wave in second_round([node for node in nodes if node not in good], good))
    # The suspect is the last of its world.
    complaints = {outcome.world[-1]: complaint(outcome, usual) for wave in waves for outcome in wave}
    bad = {node: why for node, why in complaints.items() if why}
    notes = () if usual else ("one world alone gave figures: there was nothing to compare its speed with",)
    return Check(tuple(node for node in nodes if node not in bad), bad, (), notes, usual, (first, *waves))


def first_round(nodes: Sequence[str]) -> list[World]:
    """Puts all nodes into worlds of two neighbours in the list; the last world has three where their number is odd."""
    starts = range(0, len(nodes) - 1, 2)
    return [tuple(nodes[start : len(nodes) if start == starts[-1] else start + 2]) for start in starts]


def usual_of(outcomes: Sequence[WorldResult]) -> Usual | None:
    """Returns the medians of the figures, of two middle ones the better; None where fewer than two worlds have
    figures."""
    measured = [outcome.figures for outcome in outcomes if outcome.figures]
    if len(measured) < 2:
        return None
    return Usual(
        median_high(outcome.figures.processes / len(outcome.world) for outcome in outcomes if outcome.figures),
        median_high(figures.bandwidth for figures in measured),
        median_low(figures.latency for figures in measured),
        median_low(figures.resent or 0.0 for figures in measured),
    )


def complaint(outcome: WorldResult, usual: Usual | None) -> str:
    """Says what is wrong with a world; empty where it passed."""
    figures = outcome.figures
    if figures is None:
        return outcome.why or "it gave no figures"
    if usual is None:
        return ""
    problems = []
    if figures.processes < usual.per_node * len(outcome.world):
        problems.append(
            f"few GPUs: {figures.processes} on {len(outcome.world)} nodes, usual are {usual.per_node:g} a node"
        )
    if figures.bandwidth < _SLOW * usual.bandwidth:
        problems.append(f"slow: {figures.bandwidth / 1e6:.3g} MB/s, usual are {usual.bandwidth / 1e6:.3g}")
    if figures.latency > _LATE * usual.latency + _PAUSE:
        problems.append(f"late: {figures.latency * 1e3:.3g} ms, usual are {usual.latency * 1e3:.3g}")
    if figures.resent is not None and figures.resent > max(_LOSSY, _TIMES_LOSSY * usual.resent):
        problems.append(f"lossy: {figures.resent:.1%} of its segments were sent again, usual are {usual.resent:.1%}")
    return "; ".join(problems)


def second_round(suspects: Sequence[str], good: Sequence[str]) -> list[list[World]]:
    """Pairs each suspect with one of the nodes that passed, in several waves where suspects outnumber those."""
    return [
        list(zip(good, suspects[start : start + len(good)], strict=False))  # the good node comes first, as rank 0
        for start in range(0, len(suspects), len(good))
    ]
