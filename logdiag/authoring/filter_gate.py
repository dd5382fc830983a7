"""What a learnt filter must pass, without any model: it drops regular output, and nothing that a reader may need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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
    within = False  # a traceback: its frames, the source line below each, and the line that ends it
    for line in lines:
        data = line.text.encode(errors="replace")
        patterns = tuple({number for _, _, numbers in book.scan(data) for number in numbers})
        finding = book.confirm(line, sorted(patterns)) if patterns else None
        fires = finding is not None and finding.role is not Role.HARMLESS
        loud = line.level is not None and line.level not in CALM
        frame = book.marks_of(patterns).frame
        found.append(fires or frame or within or loud or bool(_TELLING.search(line.text)))
        within = frame or (within and line.message.startswith((" ", "\t")))
    return found


def known_failures(book: RuleBook, incidents: Iterable[Incident]) -> list[Line]:
    """What no filter may drop in any log: the examples of all rules for failures, what filters keep, and the root lines
    of incidents and of the shipped ones. `book` is loaded with its proof."""
    texts = [text for rule in book.rules if Role(rule.role) not in _HEALTHY for text in rule.fires]
    texts += [text for item in book.filters for text in item.keeps]
    lines = [example_line(text)[0] for text in texts]
    return lines + [parse_line(example_of(item.signature)) for item in (*incidents, *load_corpus().incidents)]


def problems_of(
    proposal: Proposal, lines: Sequence[Line], kept: Sequence[bool], known: Sequence[Line]
) -> tuple[str, ...]:
    """Why a filter must not be used: what `protected` says of a log's `lines`, and `known_failures`; empty for one that
    may."""
    try:
        with in_a_folder([proposal]) as folder:
            alone = RuleBook([], parse(RuleFiles([folder])).filters)
    except RuleError as error:
        return (str(error),)
    if wrong := [f"{item.what}; {item.remedy}" for item in check(alone)]:
        return tuple(wrong)
    dropped = [at for at, line in enumerate(lines) if alone.filters_of(line)]
    if len(dropped) < _FEWEST:
        wrong.append(f"drops {len(dropped)} lines of the log; a filter is for what comes again")
    if line := next((lines[at] for at in dropped if kept[at]), None):
        wrong.append(f"drops {line.source}:{line.number}, which may matter: {line.text[:160]!r}")
    if line := next((line for line in known if alone.filters_of(line)), None):
        wrong.append(f"drops what a rule or a past incident knows as a failure: {line.text[:160]!r}")
    return tuple(wrong)
