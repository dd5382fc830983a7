"""What happened in which process: the marks of a timeline."""

from __future__ import annotations

from collections.abc import Iterator

from logdiag.judge.faults import Fault
from logdiag.judge.judgement import Judgement
from logdiag.model import Mark, Role
from logdiag.scan.survey import Survey


def marks_of(judgement: Judgement, survey: Survey) -> tuple[Mark, ...]:
    """The root first, then what followed it, other faults, clean ends, checkpoints and steps."""
    root = judgement.root
    marks = [Mark("root", root.line, root.finding.title, judgement.rank, judgement.node)] if root else []
    for kind, faults in (
        ("consequence", judgement.consequences),
        ("apart", judgement.independent),
        ("recovered", judgement.recovered),
    ):
        marks += [mark for fault in faults for mark in _of_fault(kind, fault)]
    ends = (finding for finding in survey.findings if finding.role is Role.FINISHED)
    marks += [Mark("end", end.line, end.title, end.line.rank, end.line.node) for end in ends]
    marks += [Mark("checkpoint", line, line.message.strip(), line.rank, line.node) for line in survey.checkpoints]
    marks += [Mark("step", line, "", line.rank, line.node) for line in survey.progress]
    return tuple(marks)


def _of_fault(kind: str, fault: Fault) -> Iterator[Mark]:
    finding = fault.finding
    if finding.role is not Role.HINT:
        yield Mark(kind, finding.line, finding.title, finding.rank, finding.node)
