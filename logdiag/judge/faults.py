"""From findings to faults: one thing that went wrong in one process, a whole chain of exceptions being one."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from logdiag.judge.kinds import Kinds
from logdiag.judge.tracebacks.chains import Link, RaisedException, Traceback, find_tracebacks
from logdiag.judge.tracebacks.forms import HEADER, OUTERMOST, WARNED
from logdiag.model import CALM, DETAILS, Category, Finding, Line, LinePlace, Reason, Role, Support
from logdiag.patterns import pattern_of
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

_QUIET_LEVELS = CALM | {"WARNING"}
CATCH_ALL = "python/uncaught-exception"
# File ".../multiprocessing/process.py", line 314, in _bootstrap   (its header may stand among the lines of another)
_OF_A_CHILD = pattern_of(r"multiprocessing[/\\\\]process\.py\", line \d+, in _bootstrap")
# File ".../site-packages/tool/native.py", line 85, in <module>   (which is imported, not run)
_OF_A_LIBRARY = pattern_of(r"(?:site|dist)-packages[/\\\\](?!\S*__main__\.py)\S+\", line \d+, in <module>")
# A sentence, not a ruler or a table's border.
_WORDS = pattern_of(r"[A-Za-z]{2,} +[A-Za-z]")


class Fault(NamedTuple):
    """One thing that went wrong in one process.

    `finding` names it, `findings` are all that belong to it. `died` means that the process ended by it, `quiet` that
    it was printed as a warning or less, `caught` that it is an exception that was only logged, `of_a_child` that the
    process which ended was a child of the program, which may have started it again. `within` is the outermost frame of
    an exception, empty for none: where it was caught, or where the program began. `explains` are the reasons of lines
    that it makes this and other ranks print, by its rule and by the table of reasons; `traits` are those of its reason
    in that table.
    """

    finding: Finding
    findings: tuple[Finding, ...]
    died: bool
    quiet: bool
    caught: bool = False
    of_a_child: bool = False
    within: str = ""
    explains: frozenset[Reason] = frozenset()
    traits: frozenset[str] = frozenset()

    @property
    def reason(self) -> Reason:
        """The reason of the finding that names it."""
        return self.finding.reason

    @property
    def line(self) -> Line:
        """The line that names it."""
        return self.finding.line

    @property
    def ranks(self) -> set[int]:
        """The ranks that its findings name."""
        return {finding.rank for finding in self.findings if finding.rank is not None}

    @property
    def handled(self) -> bool:
        """Whether it is an exception that was caught: its outermost frame is not where a program or a thread begins."""
        within = self.within
        return bool(within) and (OUTERMOST.search(within) is None or _OF_A_LIBRARY.search(within) is not None)


def find_faults(survey: Survey, book: RuleBook, kinds: Kinds) -> list[Fault]:
    """The faults that all findings of a survey make; each finding belongs to one."""
    by_place: dict[LinePlace, Finding] = {f.line.place: f for f in survey.findings}
    steps = frozenset(step.place for step in survey.progress)
    faults: list[Fault] = []
    headers = {line.place for line in survey.lines if HEADER.search(line.text)}
    last_lines = {line.stream: line for line in survey.lines if line.text.strip()}
    for traceback in find_tracebacks(survey.lines, kinds, steps):
        source_lines = [(traceback.stream, position) for position in traceback.code]
        for place in source_lines:
            by_place.pop(place, None)  # source text is no evidence
        if traceback.exceptions:
            faults.extend(_chain_faults(traceback, by_place, book, kinds))
        elif _breaks_off(traceback, last_lines[traceback.stream], headers):
            faults.append(_cut_fault(last_lines[traceback.stream]))
    for crash in [finding for finding in by_place.values() if finding.ends]:
        faults.append(_crash_fault(crash, by_place))
    next_lines = {(line.stream, line.position - 1): line for line in survey.lines}
    faults += [_fault_of_line(finding, next_lines.get(place), book) for place, finding in by_place.items()]
    return [with_reason(fault, book) for fault in faults]


def _fault_of_line(finding: Finding, next_line: Line | None, book: RuleBook) -> Fault:
    """The fault of a line that belongs to no traceback and no crash."""
    if _is_a_detail(finding):
        finding = finding._replace(role=Role.HINT)
    if _is_plain_cause(finding) and next_line is not None and book.announces_retry(next_line):
        finding = finding._replace(role=Role.HINT)  # a failure that is retried, as where one line says both
    return Fault(finding, (finding,), died=False, quiet=finding.goes_on or _only_noted(finding))


def _crash_fault(crash: Finding, by_place: dict[LinePlace, Finding]) -> Fault:
    """The fault of a crash that a process reports of itself. A cause on the line below names it: the exception's
    `what()`, or a plain line. Both lines are removed from `by_place`."""
    line = crash.line
    del by_place[line.place]
    below = by_place.get((line.stream, line.position + 1))
    is_what = below is not None and below.role is not Role.HINT and below.line.message.lstrip().startswith("what(): ")
    if below is None or below.ends or not (is_what or _is_plain_cause(below)):
        return Fault(crash, (crash,), died=True, quiet=False)
    del by_place[line.stream, line.position + 1]
    return Fault(below, (below, crash), died=True, quiet=False)


def _is_plain_cause(finding: Finding) -> bool:
    """Whether a cause stands on a plain line without a level, as crashes and tools of a job script print it."""
    return finding.role is Role.CAUSE and finding.line.level is None


def _is_a_detail(finding: Finding) -> bool:
    """Whether a cause is a detail for debugging, not a report of a failure."""
    return finding.role is Role.CAUSE and finding.line.level in DETAILS


def _only_noted(finding: Finding) -> bool:
    """Whether a finding was printed as a warning or less, and that level counts. It does not for an exit status or a
    signal, nor for a cause that a person confirmed, nor for a kernel's Xid, whose level is that of a collector.
    Python's warnings do not count as such for a fault of the infrastructure."""
    tells_the_end = finding.role is Role.SYMPTOM and not finding.facts.keys().isdisjoint(("exitcode", "signal"))
    if Support.SAME in finding.supports or tells_the_end:
        return False
    line = finding.line
    warned = WARNED.search(line.text) is not None and finding.reason.category is not Category.INFRASTRUCTURE
    return (line.level in _QUIET_LEVELS or warned) and "Xid" not in line.text


def _chain_faults(
    traceback: Traceback, by_place: dict[LinePlace, Finding], book: RuleBook, kinds: Kinds
) -> Iterable[Fault]:
    """A fault for each chain of a traceback; an exception without a link to the last one is of another process."""
    chain: list[tuple[RaisedException, list[Finding]]] = []
    for exception in traceback.exceptions:
        if chain and exception.link is Link.FIRST:
            yield _fault_of(chain, traceback, book, kinds)
            chain = []
        chain.append((exception, _findings_of(exception, by_place, book)))
    if chain:
        yield _fault_of(chain, traceback, book, kinds)


def _findings_of(exception: RaisedException, by_place: dict[LinePlace, Finding], book: RuleBook) -> list[Finding]:
    """The findings of an exception: of its own line first, then of its message; removes them from `by_place`."""
    line = exception.line
    of_line = by_place.pop(line.place, None)
    remembered = of_line is not None and bool(of_line.supports)
    below = None if remembered else _finding_below(exception, book)
    if below is not None:
        of_line = below
    elif exception.text and not remembered:
        of_line = book.confirm_all(line._replace(text=exception.text, starts=(0,)))
        of_line = of_line and of_line._replace(line=line)
    elif of_line is None or book.asks_for_frames(of_line.rule):
        of_line = book.confirm_all(line, "\n".join(exception.frames)) or of_line
    findings = [of_line or _uncaught_finding(exception)]
    for part in exception.message:
        place = part.place
        finding = by_place.get(place)
        if finding is not None and finding.role is Role.CAUSE:
            findings.append(by_place.pop(place))
    return findings


def _finding_below(exception: RaisedException, book: RuleBook) -> Finding | None:
    """The cause that rules find if an exception's text begins on the line below its class, at that line; else None."""
    head = exception.line.text.rstrip()
    first = exception.message[0] if exception.message else None
    if first is None or not head.endswith(f"{exception.name}:") or not _WORDS.search(first.message):
        return None
    text = f"{exception.name}: {first.message.strip()}"
    confirmed = book.confirm_all(exception.line._replace(text=text, starts=(0,)), "\n".join(exception.frames))
    return confirmed._replace(line=first) if confirmed and confirmed.role is Role.CAUSE else None


def _uncaught_finding(exception: RaisedException) -> Finding:
    """The finding of an exception that no rule knows."""
    return Finding(
        rule=CATCH_ALL,
        line=exception.line,
        role=Role.CAUSE,
        reason=Reason.OTHERS,
        title=f"Uncaught {exception.name.rsplit('.', 1)[-1]}",
        why="The program raised an exception that nothing in it handled.",
        facts={"exception": exception.name},
        generality=1,
    )


def _breaks_off(traceback: Traceback, last: Line, headers: Container[LinePlace]) -> bool:
    """Whether the log ends within the traceback by which the process ended."""
    begun = (traceback.stream, min(traceback.code)) in headers
    return begun and last.position in traceback.code and not traceback.logged


def _cut_fault(last: Line) -> Fault:
    """The fault of a traceback that the end of the log cut before its exception; its line is the last one."""
    finding = Finding(
        rule=CATCH_ALL,
        line=last,
        role=Role.SYMPTOM,
        reason=Reason.OTHERS,
        title="An exception whose name is missing",
        why="The log ends within a traceback, before it says which exception was raised.",
        steps=("Look for the rest of this traceback: the log was cut, or copied in part.",),
        generality=1,
    )
    return Fault(finding, (finding,), died=True, quiet=False)


def _fault_of(
    chain: list[tuple[RaisedException, list[Finding]]], traceback: Traceback, book: RuleBook, kinds: Kinds
) -> Fault:
    named = [(exception, _best(findings, book)) for exception, findings in chain]
    _, root = named[max(range(len(named)), key=lambda index: (_naming(index, named, kinds), -index))]
    findings = tuple(finding for _, group in chain for finding in group)
    if (traceback.ignored and root.role is Role.CAUSE) or (traceback.logged and _is_a_detail(root)):
        root = root._replace(role=Role.HINT)
    outermost = next(iter(chain[-1][0].frames), "").partition("\n")[0]
    died = not traceback.spared and not traceback.logged and root.role is not Role.HINT
    return Fault(
        root,
        findings,
        died=died,
        quiet=traceback.spared or (traceback.warned and root.role is Role.CAUSE),
        caught=traceback.logged,
        of_a_child=_OF_A_CHILD.search(outermost) is not None,
        within=outermost,
    )


def _best(findings: list[Finding], book: RuleBook) -> Finding:
    """The finding that names an exception: preferably unexplained, a cause, of a narrow rule, the first."""
    explained = {
        id(consequence)
        for finding in findings
        for consequence in findings
        if consequence.reason is not finding.reason and consequence.reason in reasons_explained(finding, book)
    }

    def weight(item: tuple[int, Finding]) -> tuple[bool, bool, bool, int]:
        index, finding = item
        return id(finding) not in explained, finding.role is Role.CAUSE, finding.generality == 0, -index

    return max(enumerate(findings), key=weight)[1]


def _naming(index: int, named: list[tuple[RaisedException, Finding]], kinds: Kinds) -> int:
    """How well the exception at an index of a chain names the cause, -1 to 3; the earlier of equals is the root."""
    exception, finding = named[index]
    later = named[index + 1][0] if index + 1 < len(named) else None
    if later is not None and later.link is Link.RELAYED:
        return 0 if finding.role is Role.CAUSE else -1
    if finding.role is not Role.CAUSE:
        return 0
    if later is not None and kinds.is_a("socket-exception", exception.line):
        return 1
    if finding.generality == 0:
        return 3
    # An exception raised in place of a failed look-up says more, unless it only repeats its text.
    replaced = later is not None and kinds.is_a("looked-up", exception.line) and not _repeats(later, exception)
    return 1 if replaced else 2


def _repeats(later: RaisedException, exception: RaisedException) -> bool:
    """Whether an exception ends with the whole text of an earlier one, which is more than its class or one name."""
    text = exception.line.text.partition(exception.name)[2].lstrip(": ")
    return _WORDS.search(text) is not None and later.line.text.endswith(text)


def with_reason(fault: Fault, book: RuleBook) -> Fault:
    """The fault with what it explains and the traits of its reason, by the table of reasons."""
    traits = frozenset(book.entry_of(fault.reason).traits)
    return fault._replace(explains=reasons_explained(fault.finding, book), traits=traits)


def reasons_explained(finding: Finding, book: RuleBook) -> frozenset[Reason]:
    """The reasons of lines that a finding makes this and other ranks print, by its rule and by the table of reasons."""
    return finding.explains.union(book.entry_of(finding.reason).explains)
