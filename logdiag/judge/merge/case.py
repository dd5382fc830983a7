"""Makes one case of many sources: which lines of each log are judged depends on its kind of log."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from logdiag.judge.merge.offsets import ahead_in_words, offsets_of, set_right
from logdiag.model import Digest, Line, Log, Role
from logdiag.rules import RuleBook
from logdiag.scan.kinds_of_log import JOB_OUTPUT, KindOfLog
from logdiag.scan.shapes import Shapes, digest
from logdiag.scan.survey import Survey, joined

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
    kinds = [_kind_of_log(part, book) for part in parts]
    jobs = [part for part, kind in zip(parts, kinds, strict=True) if kind.is_a_jobs]
    notes: list[str] = []
    ahead: dict[int, float] = {}
    if jobs:
        others = [part for part, kind in zip(parts, kinds, strict=True) if not kind.is_a_jobs]
        machines = {part.streams[0].index for part, kind in zip(parts, kinds, strict=True) if kind.whose == "machine"}
        jobs, others = _by_one_clock(jobs, others, ahead, notes)
        whole = _with_machines(joined(jobs), others, machines, book, ahead, notes)
    else:
        alone = _of_machines_alone(parts, book)
        # If some logs show a fault, only these are judged.
        whole = joined([log for log in alone if log.findings] or alone)
        whole.of_machines = True
    whole.complete = all(part.complete for part in parts)
    logs = tuple(_log_of(part, kind, ahead) for part, kind in zip(parts, kinds, strict=True))
    shapes = _shapes_of(jobs or parts)
    kept = digest(whole.lines, shapes, whole.total_lines, whole.total_bytes)
    return Case(whole, kept, shapes, logs, tuple(notes))


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


def _of_machines_alone(parts: Sequence[Survey], book: RuleBook) -> list[Survey]:
    """Machines' logs without a job's beside them: of their findings only faults that end jobs, and causes."""
    from logdiag.judge.merge.machines import faults_of_a_machine_alone

    return [replace(part, findings=list(faults_of_a_machine_alone(part, book)), progress=[]) for part in parts]


def _by_one_clock(
    jobs: list[Survey], others: list[Survey], ahead: dict[int, float], notes: list[str]
) -> tuple[list[Survey], list[Survey]]:
    """A job's logs and the others by the clock of most nodes. Adds to `ahead`, by stream, the seconds by which the
    clock of a log was ahead, and to `notes` a sentence."""
    offsets = offsets_of(jobs)
    if not offsets.ahead:
        return jobs, others
    of_machines = offsets.of_machines(others)
    notes.append(offsets.note())
    ahead |= offsets.of_logs() | of_machines.of_logs()
    return [set_right(part, offsets) for part in jobs], [set_right(part, of_machines) for part in others]


def _with_machines(
    job: Survey,
    others: Sequence[Survey],
    machines: Container[int],
    book: RuleBook,
    ahead: dict[int, float],
    notes: list[str],
) -> Survey:
    """A job's survey with the faults of `machines` that count for it. Adds to `ahead`, by stream, the seconds by which
    their clocks seem to be ahead, and to `notes` what was set aside."""
    if not others:
        return job
    from logdiag.judge.merge.machines import Sifted, name_among, sifted
    from logdiag.judge.merge.window import window_of

    window = window_of(job)
    nodes = {line.node for line in job.lines if line.node} | {stream.node for stream in job.streams if stream.node}
    nodes |= {finding.facts["node"] for finding in job.places if "node" in finding.facts}
    shown = {finding.reason for finding in job.findings if finding.role.is_failure}
    added = []
    for part in others:
        stream, counting = part.streams[0], Sifted((), ())
        if stream.index in machines:
            counting = sifted(part, book, window=window, nodes=nodes, shown=shown)
        notes += counting.set_aside
        if counting.ahead is not None:
            ahead[stream.index] = ahead.get(stream.index, 0.0) + counting.ahead
            words = ahead_in_words(counting.ahead, "the job's")
            notes.append(f"the clock of {stream.name} is taken to be {words}")
        placed = partial(_placed, node_of=partial(name_among, nodes=nodes), ahead=counting.ahead or 0.0)
        near = {finding.line.position + by for finding in counting.findings for by in range(-_AROUND, _AROUND + 1)}
        lines = [placed(line) for line in part.lines if line.position in near]
        findings = [finding._replace(line=placed(finding.line)) for finding in counting.findings]
        added.append(Survey(part.streams, findings, lines=lines))
    return joined([job, *added])


def _placed(line: Line, node_of: Callable[[str | None], str | None], ahead: float) -> Line:
    """A machine's line with the job's name for its node, by the job's clock, and of no rank, whatever its folder."""
    time = None if line.time is None else line.time - ahead
    return line._replace(rank=None, node=node_of(line.node), time=time)


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
