"""What of a machine's log counts for a job: faults that end jobs, on a machine of the job, when it failed."""

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
# Logs in which the kernel, a card's agent or a scheduler's daemon speaks, and no service that fails in its own way.
_OF_ONE_SPEAKER = frozenset({"kernel-log", "dcgm-output", "fabric-manager-log", "slurm-daemon-log", "platform-log"})
# node-004.cluster.local   (its number, and what stands before it)
_NUMBERED = pattern_of(r"([a-z][a-z_-]*?)[-_]?0*(\d+)")


class Sifted(NamedTuple):
    """What of one machine's log counts, why the rest of its faults does not (a sentence each), and by how many seconds
    its clock seems to be ahead of the job's."""

    findings: tuple[Finding, ...]
    set_aside: tuple[str, ...]
    ahead: float | None = None


def faults_that_end_jobs(log: Survey, book: RuleBook) -> tuple[Finding, ...]:
    """The faults in a machine's log of a sort that ends jobs."""
    told = [finding for finding in log.findings if finding.role.is_failure]
    kinds = book.kinds_of([finding.line for finding in told])
    return tuple(finding for finding, found in zip(told, kinds, strict=True) if _ENDS_JOBS in found)


def faults_of_a_machine_alone(log: Survey, book: RuleBook) -> tuple[Finding, ...]:
    """The faults in a machine's log that was given without a job's: those of a sort that ends jobs, what the kernel
    or a daemon calls a cause or a symptom of one, and what is often harmless but comes again."""
    kinds = book.kinds_of([finding.line for finding in log.findings])
    hints = Counter(finding.rule for finding in log.findings if finding.role is Role.HINT)
    found = []
    for finding, of_line in zip(log.findings, kinds, strict=True):
        told = finding.role.is_failure and not _OF_ONE_SPEAKER.isdisjoint(of_line)
        again = hints[finding.rule] > 1 and not finding.generality
        if told or (_ENDS_JOBS in of_line and finding.role.is_failure):
            found.append(finding)
        elif _ENDS_JOBS in of_line and finding.role is Role.HINT and again:
            found.append(finding._replace(role=Role.SYMPTOM, goes_on=False))
    return tuple(found)


def sifted(log: Survey, book: RuleBook, *, window: Window | None, nodes: Collection[str], shown: Set[Reason]) -> Sifted:
    """What of a machine's log counts for a job that failed in `window` on `nodes`, as far as either is known, and whose
    own logs show faults of the reasons `shown`.

    A fault of which neither the time nor the machine can be told counts where it explains what the job shows.
    """
    here, aside = list[Finding](), defaultdict[str, list[Finding]](list)
    for fault in faults_that_end_jobs(log, book):
        node = fault.node or next((stream.node for stream in log.streams if stream.node), None)
        is_one_of_them = _is_among(node, nodes)
        untimed = window is None or fault.line.time is None
        if is_one_of_them is False:
            aside["on a machine of which the job's logs say nothing"].append(fault)
        elif is_one_of_them is None and untimed and shown.isdisjoint({fault.reason, *reasons_explained(fault, book)}):
            aside["of a machine and a time that cannot be held against the job's"].append(fault)
        else:
            here.append(fault)
    then = [fault for fault in here if window is None or fault.line.time is None or window.holds(fault.line.time)]
    ahead = _zone(here, window) if here and not then and window is not None else None
    then = then if ahead is None else here
    if others := [fault for fault in here if fault not in then]:
        aside["not at the time of the job's failure"] = others
    return Sifted(tuple(then), tuple(_sentence(faults, why) for why, faults in aside.items()), ahead)


def name_among(node: str | None, nodes: Collection[str]) -> str | None:
    """The name by which a job knows a node: `node-004` for `node4`, the node's own where it knows none."""
    parts = _parts(node)
    return next((name for name in sorted(nodes) if parts and _parts(name) == parts), node)


def _is_among(node: str | None, nodes: Collection[str]) -> bool | None:
    """Whether a machine is one of a job's. It surely is none if its name is formed as theirs are, with a number that
    none has; any other name does not tell: in containers a job knows its hosts by other names."""
    own, others = _parts(node), {parts for name in nodes if (parts := _parts(name))}
    if own is None or own in others:
        return None if own is None else True
    return False if own[0] in {word for word, _ in others} else None


def _zone(faults: Sequence[Finding], window: Window) -> float | None:
    """By how much a machine's clock is ahead, where another zone explains that its fault is of another hour."""
    zones = (window.zone_of(fault.line.time) for fault in faults if fault.line.time is not None)
    return next((zone for zone in zones if zone is not None), None)


def _sentence(faults: Sequence[Finding], why: str) -> str:
    first, more = faults[0], f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return f"set aside: {first.title} ({first.line.source}:{first.line.number}{more}), {why}"


def _parts(name: str | None) -> tuple[str, str] | None:
    found = _NUMBERED.fullmatch(name.lower().partition(".")[0]) if name else None
    return (found[1], found[2]) if found else None
