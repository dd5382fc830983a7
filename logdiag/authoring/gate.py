"""What every proposal must pass, in which no model has a say. A rule fires on its incidents, on none of another reason,
on no healthy log, and leaves the examples of all other rules to them. A filter drops regular output, and nothing that a
reader may need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from logdiag.authoring.rule_file import Proposal, example_of, in_a_folder
from logdiag.errors import RuleError
from logdiag.memory.corpus import load_corpus
from logdiag.memory.incident import Incident
from logdiag.model import CALM, Line, Role
from logdiag.read.prefixes import parse_line
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.rules.book import example_line
from logdiag.rules.check import check
from logdiag.rules.files import parse
from logdiag.rules.folders import RuleFiles
from logdiag.settings.places import StrPath

_TELLING = re.compile(
    r"(?i)error|exception|fail|fatal|abort|panic|traceback|\bwarn|\bkill|\boom|out of memory|corrupt|refused|"
    r"denied|timed?[ -]?out|unreachable|not found|no such|cannot|could not|can't|unable|invalid|illegal|lost|"
    r"exit(?:ed| ?code)|signal|segfault|core dumped|preempt|cancel|evict|drain|throttl|ecc\b|xid|nan\b|\binf\b|"
    r"overflow|diverge|"
    r"\bretry|\bstall|\bhang|hung\b|deadlock|mismatch|missing|unexpected|disconnect|reset by"
)
# A filter must drop so many lines of the log it was learnt from.
_FEWEST = 3


def judged_drafts(
    drafts: Sequence[Proposal],
    incidents: Iterable[Incident],
    folders: Sequence[StrPath],
    healthy: Sequence[StrPath],
) -> list[Proposal]:
    """The drafts with the problems of each. `incidents` are those that they were made from, and all others."""
    if not drafts:
        return []
    with in_a_folder(drafts) as folder:
        alone = RuleBook(parse(RuleFiles([folder])).rules)
        book = RuleBook.load([*folders, folder])
    names = {draft.id for draft in drafts}
    problems = [(item.rule, f"{item.what}; {item.remedy}") for item in check(book, names)]
    for owner, example in ((rule.id, example) for rule in book.rules if rule.id in names for example in rule.fires):
        line, _ = example_line(example, book.forms)
        if book.is_progress(line) or book.filters_of(line):
            problems.append((owner, f"its example {line.text!r} is what healthy jobs print"))
    problems += _against_logs(alone, healthy)
    known = {item.id: item for item in incidents}
    for draft in drafts:
        problems += [(draft.id, problem) for problem in _against_incidents(alone, draft, known)]
    return [replace(draft, problems=tuple(text for name, text in problems if name == draft.id)) for draft in drafts]


def _against_incidents(book: RuleBook, draft: Proposal, incidents: Mapping[str, Incident]) -> Iterator[str]:
    """The problems of a drafted rule on incidents: silent on its own, or firing on one of another reason."""
    index = next(at for at, rule in enumerate(book.rules) if rule.id == draft.id)

    def fires(incident: Incident) -> list[bool]:
        examples = (example_of(incident.signature, variant) for variant in (0, 1))
        return [book.claims(index, parse_line(example), "") for example in examples]

    for name in draft.incidents:
        if not all(fires(incidents[name])):
            yield f"does not fire on its incident {name}"
    for item in incidents.values():
        if item.reason.value != book.rules[index].reason and any(fires(item)):
            yield f"fires on incident {item.id}, which is {item.reason.value}"


def _against_logs(book: RuleBook, logs: Sequence[StrPath]) -> Iterator[tuple[str, str]]:
    """The first line of each healthy log that a rule fires on: the rule's id and what is wrong."""
    seen: set[tuple[str, str]] = set()
    for stream in open_sources(tuple(logs), forms=book.forms) if logs else ():
        for block in stream.blocks():
            for start, end, _ in book.scan(block.data):
                line = parse_line(block.data[start:end].decode(errors="replace"), prefix=block.prefix)
                finding = book.confirm_all(line)
                if finding is not None and (finding.rule, stream.name) not in seen:
                    seen.add((finding.rule, stream.name))
                    number = block.number_of(block.data.count(b"\n", 0, start))
                    yield finding.rule, f"fires on the healthy log {stream.name}:{number}: {line.text[:160]!r}"


# --- filters ---


def protected(lines: Sequence[Line], book: RuleBook) -> list[bool]:
    """For each line, True if no filter may drop it: a rule fires on it, it belongs to a traceback, it has a word for
    trouble, or its level is WARNING or above."""
    flags: list[bool] = []
    within = False  # a traceback: its frames, the source line below each, and the line that ends it
    for line in lines:
        patterns = tuple(sorted(book.matcher.on(line.text)))
        finding = book.confirm(line, patterns)
        fires = finding is not None and finding.role is not Role.HARMLESS
        loud = line.level is not None and line.level not in CALM
        frame = book.marks_of(patterns).frame
        flags.append(fires or frame or within or loud or bool(_TELLING.search(line.text)))
        within = frame or (within and line.message.startswith((" ", "\t")))
    return flags


def known_failures(book: RuleBook, incidents: Iterable[Incident]) -> list[Line]:
    """Lines that no filter may drop in any log: the examples of all rules for failures, the lines that filters keep,
    and the root lines of `incidents` and of the shipped ones. `book` is loaded with its proof."""
    texts = [text for rule in book.rules if not Role(rule.role).is_calm for text in rule.fires]
    texts += [text for item in book.filters for text in item.keeps]
    lines = [example_line(text)[0] for text in texts]
    return lines + [parse_line(example_of(item.signature)) for item in (*incidents, *load_corpus().incidents)]


def problems_of(
    proposal: Proposal, lines: Sequence[Line], kept: Sequence[bool], known: Sequence[Line]
) -> tuple[str, ...]:
    """Why a filter must not be used; empty if it may be. `lines` are a log's, `kept` is `protected` of them, and
    `known` are the `known_failures`."""
    try:
        with in_a_folder([proposal]) as folder:
            alone = RuleBook([], parse(RuleFiles([folder])).filters)
    except RuleError as error:
        return (str(error),)
    if wrong := [f"{item.what}; {item.remedy}" for item in check(alone)]:
        return tuple(wrong)
    dropped = [index for index, line in enumerate(lines) if alone.filters_of(line)]
    if len(dropped) < _FEWEST:
        wrong.append(f"drops {len(dropped)} lines of the log; a filter is for what comes again")
    if line := next((lines[index] for index in dropped if kept[index]), None):
        wrong.append(f"drops {line.source}:{line.number}, which may matter: {line.text[:160]!r}")
    if line := next((line for line in known if alone.filters_of(line)), None):
        wrong.append(f"drops what a rule or a past incident knows as a failure: {line.text[:160]!r}")
    return tuple(wrong)
