"""What a learnt filter must pass, without any model: it drops regular output, and nothing that a reader may need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from logdiag.authoring.rule_file import Proposal, in_a_folder
from logdiag.authoring.rule_gate import example_of
from logdiag.errors import RuleError
from logdiag.memory.corpus import load_corpus
from logdiag.memory.incident import Incident
from logdiag.model import CALM, Line, Role
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook
from logdiag.rules.book import example_line
from logdiag.rules.check import check
from logdiag.rules.files import parse
from logdiag.rules.folders import RuleFiles

_TELLING = re.compile(
    r"(?i)error|exception|fail|fatal|abort|panic|traceback|\bwarn|\bkill|\boom|out of memory|corrupt|refused|"
    r"denied|timed?[ -]?out|unreachable|not found|no such|cannot|could not|can't|unable|invalid|illegal|lost|"
    r"exit(?:ed| ?code)|signal|segfault|core dumped|preempt|cancel|evict|drain|throttl|ecc\b|xid|nan\b|\binf\b|"
    r"overflow|diverge|"
    r"\bretry|\bstall|\bhang|hung\b|deadlock|mismatch|missing|unexpected|disconnect|reset by"
)
# Roles of rules whose examples no filter may drop: all but those that say that the job goes on.
_HEALTHY = (Role.PROGRESS, Role.HARMLESS)
_FEWEST = 3


def protected(lines: Sequence[Line], book: RuleBook) -> list[bool]:
    """For each line, whether no filter may drop it: a rule fires on it, it belongs to a traceback, or it speaks of
    trouble or at the level of a warning."""
    found: list[bool] = []
    within = False
    for line in lines:
        data = line.text.encode(errors="replace")
        patterns = tuple({number for _, _, numbers in book.scan(data) for number in numbers})
        frame = book.marks_of(patterns).frame
        finding = book.confirm(line, sorted(patterns)) if patterns else None
        fires = finding is not None and finding.role is not Role.HARMLESS
        # The source line below a frame, and the line that ends a traceback.
        below = within and not frame
        within = frame or (within and line.message.startswith((" ", "\t")))
        found.append(
            fires
            or frame
            or below
            or (line.level is not None and line.level not in CALM)
            or bool(_TELLING.search(line.text))
        )
    return found


@dataclass(frozen=True)
class Gate:
    """The book in force, loaded with its proof, the lines of a log with which of them are protected, and past incidents
    beside the shipped ones."""

    book: RuleBook
    lines: Sequence[Line]
    kept: Sequence[bool]
    incidents: Sequence[Incident] = ()

    def problems(self, proposal: Proposal) -> tuple[str, ...]:
        """Why a filter must not be used; empty for one that may."""
        try:
            with in_a_folder([proposal]) as folder:
                alone = RuleBook([], parse(RuleFiles([folder])).filters)
        except RuleError as error:
            return (str(error),)
        wrong = [f"{item.what}; {item.remedy}" for item in check(alone)]
        if wrong:
            return tuple(wrong)
        dropped = [at for at, line in enumerate(self.lines) if alone.filters_of(line)]
        if len(dropped) < _FEWEST:
            wrong.append(f"drops {len(dropped)} lines of the log; a filter is for what comes again")
        for at in dropped:
            if self.kept[at]:
                line = self.lines[at]
                wrong.append(f"drops {line.source}:{line.number}, which may matter: {line.text[:160]!r}")
                break
        known = next((line for line in self._known if alone.filters_of(line)), None)
        if known is not None:
            wrong.append(f"drops what a rule or a past incident knows as a failure: {known.text[:160]!r}")
        return tuple(wrong)

    @cached_property
    def _known(self) -> list[Line]:
        """The example lines of all rules for failures, what filters keep, and the incidents' root lines."""
        texts: Iterable[str] = (
            *(text for rule in self.book.rules if Role(rule.role) not in _HEALTHY for text in rule.fires),
            *(text for item in self.book.filters for text in item.keeps),
        )
        lines = [example_line(text)[0] for text in texts]
        return lines + [parse_line(example_of(item.signature)) for item in (*self.incidents, *load_corpus().incidents)]
