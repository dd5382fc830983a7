"""Which faults of a machine's log count for a job: those that end jobs, on one of its machines, when it failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence, Set
from typing import NamedTuple

from logdiag.judge.faults import reasons_explained
from logdiag.judge.merge.window import Window
from logdiag.model import Finding, Reason, Role
from logdiag.patterns import pattern_of
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

_ENDS_JOBS = "ends-jobs"
# Logs of the kernel, a card's agent or a scheduler's daemon alone, without services that have failures of their own.
_OF_ONE_SPEAKER = frozenset({"kernel-log", "dcgm-output", "fabric-manager-log", "slurm-daemon-log", "platform-log"})
# node-004.cluster.local   (its number, and what stands before it)
_NUMBERED = pattern_of(r"([a-z][a-z_-]*?)[-_]?0*(\d+)")


class Sifted(NamedTuple):
    """The findings of one machine's log that count, a sentence for each reason why others do not, and by how many
    seconds its clock seems to be ahead of the job's; None for not at all."""

    findings: tuple[Finding, ...] = ()
    set_aside: tuple[str, ...] = ()
    ahead: float | None = None


def faults_that_end_jobs(log: Survey, book: RuleBook) -> tuple[Finding, ...]:
    """The faults in a machine's log of a sort that ends jobs."""
    failures = [finding for finding in log.findings if finding.role.is_failure]
    kinds = book.kinds_of([finding.line for finding in failures])
    return tuple(finding for finding, kinds_of_line in zip(failures, kinds, strict=True) if _ENDS_JOBS in kinds_of_line)


def faults_of_a_machine_alone(log: Survey, book: RuleBook) -> tuple[Finding, ...]:
    """The faults in a machine's log that was read without a job's: those of a sort that ends jobs, causes and symptoms
    in logs of the kernel or a daemon, and repeated hints."""
    kinds = book.kinds_of([finding.line for finding in log.findings])
    hints = Counter(finding.rule for finding in log.findings if finding.role is Role.HINT)
    counting = []
    for finding, of_line in zip(log.findings, kinds, strict=True):
        by_daemon = finding.role.is_failure and not _OF_ONE_SPEAKER.isdisjoint(of_line)
        again = hints[finding.rule] > 1 and not finding.generality
        if by_daemon or (_ENDS_JOBS in of_line and finding.role.is_failure):
            counting.append(finding)
        elif _ENDS_JOBS in of_line and finding.role is Role.HINT and again:
            counting.append(finding._replace(role=Role.SYMPTOM, goes_on=False))
    return tuple(counting)


def sifted(log: Survey, book: RuleBook, *, window: Window | None, nodes: Collection[str], shown: Set[Reason]) -> Sifted:
    """What of a machine's log counts for a job that failed in `window` (None: not known) on `nodes`, and whose own logs
    show faults of the reasons `shown`.

    A fault whose time and machine are both not known counts if it explains one of these reasons.
    """
    on_nodes, aside = list[Finding](), defaultdict[str, list[Finding]](list)
    for fault in faults_that_end_jobs(log, book):
        node = fault.node or next((stream.node for stream in log.streams if stream.node), None)
        is_one_of_them = _is_among(node, nodes)
        untimed = window is None or fault.line.time is None
        if is_one_of_them is False:
            aside["on a machine of which the job's logs say nothing"].append(fault)
        elif is_one_of_them is None and untimed and shown.isdisjoint({fault.reason, *reasons_explained(fault, book)}):
            aside["of a machine and a time that cannot be held against the job's"].append(fault)
        else:
            on_nodes.append(fault)
    timely = [fault for fault in on_nodes if window is None or fault.line.time is None or window.holds(fault.line.time)]
    ahead = _zone(on_nodes, window) if on_nodes and not timely and window is not None else None
    timely = timely if ahead is None else on_nodes
    if at_other_times := [fault for fault in on_nodes if fault not in timely]:
        aside["not at the time of the job's failure"] = at_other_times
    return Sifted(tuple(timely), tuple(_sentence(faults, why) for why, faults in aside.items()), ahead)


def name_among(node: str | None, nodes: Collection[str]) -> str | None:
    """The name by which a job knows a node: `node-004` for `node4`, the node's own where it knows none."""
    parts = _parts(node)
    return next((name for name in sorted(nodes) if parts and _parts(name) == parts), node)


def _is_among(node: str | None, nodes: Collection[str]) -> bool | None:
    """Whether a machine is one of a job's; None if its name does not show it, for in containers hosts have other names.
    It is surely none of them if its name has their form with a number that none of them has."""
    machine, others = _parts(node), {parts for name in nodes if (parts := _parts(name))}
    if machine is None or machine in others:
        return None if machine is None else True
    return False if machine[0] in {word for word, _ in others} else None


def _zone(faults: Sequence[Finding], window: Window) -> float | None:
    """The seconds by which a machine's clock is ahead, if another time zone explains its fault's time; else None."""
    zones = (window.zone_of(fault.line.time) for fault in faults if fault.line.time is not None)
    return next((zone for zone in zones if zone is not None), None)


def _sentence(faults: Sequence[Finding], why: str) -> str:
    first, more = faults[0], f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return f"set aside: {first.title} ({first.line.source}:{first.line.number}{more}), {why}"


def _parts(name: str | None) -> tuple[str, str] | None:
    match = _NUMBERED.fullmatch(name.lower().partition(".")[0]) if name else None
    return (match[1], match[2]) if match else None
