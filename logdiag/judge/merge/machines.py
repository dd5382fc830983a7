"""What of a machine's log counts for a job: faults that end jobs, on a machine of the job, when it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from logdiag.judge.merge.clocks import Window
from logdiag.model import Finding, Reason, Role
from logdiag.patterns import pattern_of
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

_ENDS_JOBS = "ends-jobs"
_TOLD = (Role.CAUSE, Role.SYMPTOM)
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
    told = [finding for finding in log.findings if finding.role in _TOLD]
    kinds = book.kinds_of([finding.line for finding in told])
    return tuple(finding for finding, found in zip(told, kinds, strict=True) if _ENDS_JOBS in found)


def faults_of_a_machine_alone(log: Survey, book: RuleBook) -> tuple[Finding, ...]:
    """The faults in a machine's log that was given without a job's: those of a sort that ends jobs, what the kernel
    or a daemon calls a cause or a symptom of one, and what is often harmless but comes again."""
    kinds = book.kinds_of([finding.line for finding in log.findings])
    hints = Counter(finding.rule for finding in log.findings if finding.role is Role.HINT)
    found = []
    for finding, of_line in zip(log.findings, kinds, strict=True):
        told = finding.role in _TOLD and not _OF_ONE_SPEAKER.isdisjoint(of_line)
        again = hints[finding.rule] > 1 and not finding.generality
        if told or (_ENDS_JOBS in of_line and finding.role in _TOLD):
            found.append(finding)
        elif _ENDS_JOBS in of_line and finding.role is Role.HINT and again:
            found.append(finding._replace(role=Role.SYMPTOM))
    return tuple(found)


def sifted(
    log: Survey, book: RuleBook, *, window: Window | None, nodes: Collection[str], shown: Collection[Reason]
) -> Sifted:
    """What of a machine's log counts for a job that failed in `window` on `nodes`, as far as either is known, and whose
    own logs show faults of the reasons `shown`.

    A fault of which neither the time nor the machine can be told counts where it explains what the job shows.
    """
    faults = faults_that_end_jobs(log, book)
    elsewhere = [fault for fault in faults if _is_elsewhere(_node_of(fault, log), nodes)]
    unplaced = [
        fault
        for fault in faults
        if (window is None or fault.line.time is None)
        and not _is_one_of(_node_of(fault, log), nodes)
        and not _explains(fault, shown, book)
    ]
    here = [fault for fault in faults if fault not in elsewhere and fault not in unplaced]
    then = [fault for fault in here if window is None or fault.line.time is None or window.holds(fault.line.time)]
    ahead = None
    if here and not then and window is not None:
        ahead = _zone(here, window)
        then = here if ahead is not None else []
    other_times = [fault for fault in here if fault not in then]
    told = [
        *(_sentence(unplaced, "of a machine and a time that cannot be held against the job's") if unplaced else ()),
        *(_sentence(elsewhere, "on a machine of which the job's logs say nothing") if elsewhere else ()),
        *(_sentence(other_times, "not at the time of the job's failure") if other_times else ()),
    ]
    return Sifted(tuple(then), tuple(told), ahead)


def name_among(node: str | None, nodes: Collection[str]) -> str | None:
    """The name by which a job knows a node: `node-004` for `node4`, the node's own where it knows none."""
    parts = _parts(node) if node else None
    return next((name for name in sorted(nodes) if parts and _parts(name) == parts), node)


def _is_one_of(node: str | None, nodes: Collection[str]) -> bool:
    parts = _parts(node) if node else None
    return parts is not None and parts in {_parts(name) for name in nodes}


def _explains(fault: Finding, shown: Collection[Reason], book: RuleBook) -> bool:
    entry = book.reasons.get(fault.reason)
    explained = {fault.reason, *fault.explains, *map(Reason, entry.explains if entry else ())}
    return not explained.isdisjoint(shown)


def _zone(faults: Sequence[Finding], window: Window) -> float | None:
    """By how much a machine's clock is ahead, where another zone explains that its fault is of another hour."""
    zones = (window.zone_of(fault.line.time) for fault in faults if fault.line.time is not None)
    return next((zone for zone in zones if zone is not None), None)


def _sentence(faults: Sequence[Finding], why: str) -> tuple[str]:
    first, more = faults[0], f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return (f"set aside: {first.title} ({first.line.source}:{first.line.number}{more}), {why}",)


def _node_of(fault: Finding, log: Survey) -> str | None:
    return fault.node or next((stream.node for stream in log.streams if stream.node), None)


def _is_elsewhere(node: str | None, nodes: Collection[str]) -> bool:
    """Whether a machine is surely none of a job's: its name is formed as theirs are, with a number that none has.

    In containers a job knows its hosts by other names, which says nothing.
    """
    own = _parts(node) if node else None
    others = {parts for name in nodes if (parts := _parts(name))}
    return own is not None and own not in others and own[0] in {word for word, _ in others}


def _parts(name: str) -> tuple[str, str] | None:
    found = _NUMBERED.fullmatch(name.lower().partition(".")[0])
    return (found[1], found[2]) if found else None
