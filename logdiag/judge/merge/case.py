"""Makes one case of many sources: which lines of each log are judged depends on its kind of log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from logdiag.judge.merge.offsets import ahead_in_words, offsets_of, set_right
from logdiag.model import Digest, Line, Log, Role
from logdiag.rules import RuleBook
from logdiag.scan.kinds_of_log import JOB_OUTPUT, KindOfLog
from logdiag.scan.shapes import Shapes, digest
from logdiag.scan.survey import Survey, joined

if TYPE_CHECKING:
    from logdiag.judge.merge.machines import Sifted

# Lines of a machine's log that are kept on either side of one of its faults.
_AROUND = 3


class Case(NamedTuple):
    """What is judged: the survey and the digest of the job's own logs, with the faults of machines that count for it.
    `logs` has the kind of each log, `notes` what was set aside; `shapes` count the job's own lines."""

    survey: Survey
    digest: Digest
    shapes: Shapes
    logs: tuple[Log, ...]
    notes: tuple[str, ...]


def case_of(parts: Sequence[Survey], book: RuleBook) -> Case:
    """The case that the surveys of single logs make together."""
    parts, silent = _without_heartbeats(parts)
    kinds = [_kind_of_log(part, book) for part in parts]
    jobs = [part for part, kind in zip(parts, kinds, strict=True) if kind.is_a_jobs]
    others = [(part, kind) for part, kind in zip(parts, kinds, strict=True) if not kind.is_a_jobs]
    ahead: dict[int, float] = {}
    notes: list[str] = []
    if jobs:
        whole, ahead, notes = _with_machines(jobs, others, book)
    else:
        whole = _of_machines_alone(parts, book)
    whole.complete = all(part.complete for part in parts)
    logs = tuple(_log_of(part, kind, ahead) for part, kind in zip(parts, kinds, strict=True))
    shapes = _shapes_of(jobs or parts)
    kept = digest(whole.lines, shapes, whole.total_lines, whole.total_bytes)
    return Case(whole, kept, shapes, logs, (*silent, *notes))


def _without_heartbeats(parts: Sequence[Survey]) -> tuple[list[Survey], list[str]]:
    """The surveys without what goes on alone at a log's end, and a sentence for each that had such lines."""
    notes = [
        f"{part.streams[0].name}: from line {part.silent_from + 1} on only regular lines go on, such as a sidecar's, "
        "which tell nothing of the job"
        for part in parts
        if part.silent_from is not None
    ]
    judged = [part if part.silent_from is None else part.only(part.is_before_the_silence) for part in parts]
    return judged, notes


def _kind_of_log(part: Survey, book: RuleBook) -> KindOfLog:
    """The kind of a log. One with steps, or with a fault on a line that no machine prints, is a job's."""
    kind = part.kind or JOB_OUTPUT
    if kind.is_a_jobs or not (part.progress or _has_a_programs_fault(part, kind, book)):
        return kind
    return JOB_OUTPUT


def _has_a_programs_fault(part: Survey, kind: KindOfLog, book: RuleBook) -> bool:
    """Whether a machine's log has a fault on a line that no machine prints, such as a console that a job prints to."""
    if kind.whose != "machine" or kind.by_envelope:
        return False  # within an envelope lines do not show who printed them
    reported = [finding.line for finding in part.findings if finding.role in (Role.CAUSE, Role.SYMPTOM, Role.FINISHED)]
    machines = {rule.id.rpartition("/")[2] for rule in book.rules if rule.id.startswith("context/logs/machine/")}
    bare = [line._replace(starts=(0,)) for line in reported]
    return any(
        not line.text.startswith((" ", "\t")) and machines.isdisjoint(found) and "syslog-form" not in found
        for line, found in zip(bare, book.kinds_of(bare), strict=True)
    )


def _of_machines_alone(parts: Sequence[Survey], book: RuleBook) -> Survey:
    """Machines' logs without a job's beside them, of their findings only faults that end jobs, and causes. If some logs
    show a fault, only these are judged."""
    from logdiag.judge.merge.machines import faults_of_a_machine_alone

    alone = [replace(part, findings=list(faults_of_a_machine_alone(part, book)), progress=[]) for part in parts]
    whole = joined([log for log in alone if log.findings] or alone)
    whole.of_machines = True
    return whole


def _with_machines(
    jobs: Sequence[Survey], others: Sequence[tuple[Survey, KindOfLog]], book: RuleBook
) -> tuple[Survey, dict[int, float], list[str]]:
    """A job's survey by the clock of most nodes, with the faults of machines that count for it; by stream, the seconds
    by which the clock of a log seems to be ahead; and sentences on what was set right and what was set aside."""
    offsets = offsets_of(jobs)
    of_machines = offsets.of_machines([part for part, _ in others])
    ahead, notes = {**offsets.of_logs(), **of_machines.of_logs()}, [*offsets.notes()]
    job = joined([set_right(part, offsets) for part in jobs])
    if not others:
        return job, ahead, notes
    from logdiag.judge.merge.machines import Sifted, sifted
    from logdiag.judge.merge.window import window_of

    window, nodes = window_of(job), _nodes_of(job)
    shown = {finding.reason for finding in job.findings if finding.role.is_failure}
    added = []
    for part, kind in others:
        right, stream, counting = set_right(part, of_machines), part.streams[0], Sifted()
        if kind.whose == "machine":
            counting = sifted(right, book, window=window, nodes=nodes, shown=shown)
        notes += counting.set_aside
        if counting.ahead is not None:
            ahead[stream.index] = ahead.get(stream.index, 0.0) + counting.ahead
            words = ahead_in_words(counting.ahead, "the job's")
            notes.append(f"the clock of {stream.name} is taken to be {words}")
        added.append(_as_of_the_job(right, counting, nodes))
    return joined([job, *added]), ahead, notes


def _nodes_of(job: Survey) -> set[str]:
    named = {line.node for line in job.lines} | {stream.node for stream in job.streams}
    named |= {finding.facts.get("node") for finding in job.places}
    return {node for node in named if node}


def _as_of_the_job(part: Survey, counting: Sifted, nodes: Collection[str]) -> Survey:
    """Of a machine's log what counts for a job, and the lines near it: of no rank, whatever its folder, with the job's
    name for the node, by the job's clock."""
    from logdiag.judge.merge.machines import name_among

    def placed(line: Line) -> Line:
        time = None if line.time is None else line.time - (counting.ahead or 0.0)
        return line._replace(rank=None, node=name_among(line.node, nodes), time=time)

    near = {finding.line.position + by for finding in counting.findings for by in range(-_AROUND, _AROUND + 1)}
    lines = [placed(line) for line in part.lines if line.position in near]
    findings = [finding._replace(line=placed(finding.line)) for finding in counting.findings]
    return Survey(part.streams, findings, lines=lines)


def _log_of(part: Survey, kind: KindOfLog, ahead: dict[int, float]) -> Log:
    stream = part.streams[0]
    name = "rank-output" if kind == JOB_OUTPUT and stream.rank is not None else kind.name
    return Log(stream.name, name, kind.whose, part.total_lines, stream.rank, stream.node, ahead.get(stream.index))


def _shapes_of(parts: Sequence[Survey]) -> Shapes:
    """The shapes of several surveys as one."""
    every = list({id(part.shapes): part.shapes for part in parts if part.shapes is not None}.values())
    whole = copy(every[0])
    whole.shapes = [shape for shapes in every for shape in shapes.shapes]
    whole.unshaped = sum(shapes.unshaped for shapes in every)
    return whole
