"""What later decisions look at: a case with its faults sorted, and what is computed only if rules name no cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from logdiag.judge.faults import Fault
from logdiag.judge.recovered import Standing, went_well_after
from logdiag.judge.suspects.ranked import Ranking
from logdiag.judge.timeline import Timeline
from logdiag.model import Line, LinePlace
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

_MOST_LINES = 400
ENOUGH_LINES = 40
"""Of so many lines of public software, rules know at least one."""


class Facts(NamedTuple):
    """A case. `suspects` are the ranking of its lines, with the chance that the log shows a failure, and
    `lines_of_unknown_software` as the function of that name says; both cost time, so they are asked late.

    `root` is the root found so far, None for none, `complaints` are lines of trouble that no rule knows, `progressed`
    says whether steps were made before the root, or at all, None where the log is too short to tell. `survived` are the
    places of faults that the job survived, warnings included."""

    survey: Survey
    book: RuleBook
    timeline: Timeline
    standing: Standing
    suspects: Callable[[], Ranking]
    lines_of_unknown_software: Callable[[], int]
    root: Fault | None = None
    complaints: Sequence[Line] = ()
    progressed: bool | None = None
    survived: AbstractSet[LinePlace] = frozenset()

    @property
    def unknown_software(self) -> bool:
        """Whether no rule knows a line of a log that is long enough to hold one of public software's."""
        return self.lines_of_unknown_software() >= ENOUGH_LINES

    @property
    def reads_well(self) -> bool:
        """Whether no rule knows the software, and its log reads like a good run's."""
        return self.unknown_software and self.suspects().reads_well

    def went_well_later(self, line: Line) -> bool:
        """Whether a later line says of what a line, or the last line of its words, names that it went well."""
        printed = reversed(self.timeline.printed.get(line.stream, ()))
        last = next((alike for alike in printed if alike.wording == line.wording), line)
        return any(went_well_after(last, self.timeline))


def lines_of_unknown_software(lines: Sequence[Line], book: RuleBook) -> int:
    """How many lines were looked at, if a rule knows none of them for work or regular output; 0 if one does."""
    printed = [line for line in lines if line.text.strip()][:_MOST_LINES]
    known = (book.is_progress(line) or bool(book.filters_of(line)) for line in printed)
    return 0 if any(known) else len(printed)
