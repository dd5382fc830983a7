"""Complaints in words that no rule knows: the cause may be among them, so an answer that does not rest on them is less
sure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from logdiag.judge.kinds import Kinds
from logdiag.judge.tracebacks import forms
from logdiag.model import CALM, TROUBLE, Line
from logdiag.patterns import pattern_of
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

MOST_COMPLAINTS = 2
# Of a log without a root cause only the end tells whether it ended badly.
_LAST_LINES = 30
_MOST_LOOKED_AT = 200
# Headers of tracebacks: their last line says more, and ignored exceptions were survived.
_HEADS = (forms.HEADER, forms.CAUSE, forms.CONTEXT)
# Source text and frames: Python's, a notebook's (---> 12), those in a box, and native ones (#3 and frame #3).
_CODE = pattern_of(r"\s{2}|\t|[|│] |-{1,5}> ?\d|#\d{1,3}[ :]|frame #\d|Exception raised from ")
# Last error:   Exception during training:   (the message comes below)
_ANNOUNCEMENT = pattern_of(r":\s*$")
_TELLING = 60


def unexplained(survey: Survey, book: RuleBook, kinds: Kinds, root: Line | None) -> tuple[Line, ...]:
    """Complaints that no rule knows, one of each kind: before the root cause the nearest first, in a log without one
    those after the last step, among the last lines. At most MOST_COMPLAINTS."""
    known = {finding.line.place for finding in survey.findings}
    complaints: dict[str, Line] = {}
    complaining = (
        line
        for line in (_last(survey) if root is None else _before(survey.lines, root))
        if line.place not in known and _complains(line, kinds)
    )
    for line in islice(complaining, _MOST_LOOKED_AT):
        if not book.knows(line):
            complaints.setdefault(line.wording[:_TELLING], line)
        if len(complaints) == MOST_COMPLAINTS:
            break
    return tuple(complaints.values())


def _before(lines: Sequence[Line], root: Line) -> Iterable[Line]:
    """The lines before the root in its file, and all lines of other files, the last one first."""
    return (line for line in reversed(lines) if line.stream != root.stream or line.position < root.position)


def _last(survey: Survey) -> Iterable[Line]:
    """The last lines of each file that come after its last step, the last one first."""
    left: dict[int, int] = {}
    worked: dict[int, int] = {}
    for step in survey.progress:
        worked[step.stream] = max(step.position, worked.get(step.stream, -1))
    for line in reversed(survey.lines):
        left[line.stream] = left.get(line.stream, 0) + 1
        if left[line.stream] <= _LAST_LINES and line.position > worked.get(line.stream, -1):
            yield line


def _complains(line: Line, kinds: Kinds) -> bool:
    text = line.message
    if line.level in CALM or _CODE.match(text) or _ANNOUNCEMENT.search(text):
        return False
    if any(head.search(text) for head in _HEADS) or kinds.is_a("exception-ignored", line):
        return False
    return line.level in TROUBLE or kinds.is_a("complaint", line)
