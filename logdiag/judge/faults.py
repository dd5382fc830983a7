"""From findings to faults: one thing that went wrong in one process, a whole chain of exceptions being one."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from logdiag.judge.kinds import Kinds
from logdiag.judge.tracebacks.chains import Link, RaisedException, Traceback, find_tracebacks, unmixed
from logdiag.judge.tracebacks.forms import HEADER, WARNED
from logdiag.model import CALM, Category, Finding, Line, LinePlace, Reason, Role, Support
from logdiag.patterns import pattern_of
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

_QUIET_LEVELS = CALM | {"WARNING"}
CATCH_ALL = "python/uncaught-exception"
# File ".../multiprocessing/process.py", line 314, in _bootstrap   (its head may have got among another's lines)
_OF_A_CHILD = pattern_of(r"multiprocessing[/\\\\]process\.py\", line \d+, in _bootstrap")
# File "train.py", line 12, in <module>   File "<frozen runpy>", line 198, in _run_module_as_main
_OUTERMOST = pattern_of(r"<module>|<frozen |\bin _?bootstrap|_bootstrap\b|\bin _wrap\b")
# File ".../site-packages/tool/native.py", line 85, in <module>   (which is imported, not run)
_OF_A_LIBRARY = pattern_of(r"(?:site|dist)-packages[/\\\\](?!\S*__main__\.py)\S+\", line \d+, in <module>")
# A sentence, not a ruler or a table's border.
_WORDS = pattern_of(r"[A-Za-z]{2,} +[A-Za-z]")


class Fault(NamedTuple):
    """One thing that went wrong in one process.

    `finding` names it, `findings` are all that belong to it. `died` says that the process ended by it, `quiet` that
    it was printed as a warning or less, `caught` that it is an exception that was only logged, `of_a_child` that a
    process ended which the program itself had started and may have started again. `within` is the outermost frame of
    an exception: where it was caught, or where the program began. `explains` are the reasons of what it makes other
    lines and ranks print, by its rule and by the table of reasons; `traits` what that table says of its reason.
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
        """Whether it is an exception that was caught on its way: its traceback begins where no program or thread
        does."""
        within = self.within
        return bool(within) and (_OUTERMOST.search(within) is None or _OF_A_LIBRARY.search(within) is not None)


def find_faults(survey: Survey, book: RuleBook, kinds: Kinds) -> list[Fault]:
    """Every finding in the fault it belongs to."""
    by_place: dict[LinePlace, Finding] = {f.line.place: f for f in survey.findings}
    steps = frozenset(step.place for step in survey.progress)
    faults: list[Fault] = []
    headers = {line.place for line in survey.lines if HEADER.search(line.text)}
    last_lines = {line.stream: line for line in survey.lines if line.text.strip()}
    for traceback in find_tracebacks(survey.lines, kinds, steps):
        places = [(traceback.stream, position) for position in traceback.code]
        for place in places:
            by_place.pop(place, None)  # source text is no evidence
        if traceback.exceptions:
            faults.extend(_chain_faults(traceback, by_place, book, kinds))
        elif _breaks_off(traceback, last_lines[traceback.stream], headers):
            faults.append(_cut_fault(last_lines[traceback.stream]))
    for crash in [finding for finding in by_place.values() if finding.ends]:
        faults.append(_crash_fault(crash, by_place))
    next_lines = {(line.stream, line.position - 1): line for line in survey.lines}
    faults += [_told_fault(finding, next_lines.get(place), book) for place, finding in by_place.items()]
    return [with_reason(fault, book) for fault in faults]


def _told_fault(finding: Finding, next_line: Line | None, book: RuleBook) -> Fault:
    """The fault of a line that no traceback and no crash took."""
    finding = _unmix(finding, book)
    if finding.role is Role.CAUSE and finding.line.level in ("DEBUG", "TRACE"):
        finding = finding._replace(role=Role.HINT)  # told to those who look for faults, not as one
    if _is_tools(finding) and next_line is not None and book.announces_retry(next_line):
        finding = finding._replace(role=Role.HINT)  # as where both stand on one line
    return Fault(finding, (finding,), died=False, quiet=finding.goes_on or _only_noted(finding))


def _crash_fault(crash: Finding, by_place: dict[LinePlace, Finding]) -> Fault:
    """A crash that a process reports of itself, named by the cause on the line below where there is one, and
    by what the exception says of itself."""
    line = crash.line
    del by_place[line.place]
    below = by_place.get((line.stream, line.position + 1))
    message = below is not None and below.role is not Role.HINT and below.line.message.lstrip().startswith("what(): ")
    if below is None or below.ends or not (message or _is_tools(below)):
        return Fault(crash, (crash,), died=True, quiet=False)
    del by_place[line.stream, line.position + 1]
    return Fault(below, (below, crash), died=True, quiet=False)


def _is_tools(finding: Finding) -> bool:
    """Whether a cause is told by a plain line, as a crash or a job script's tool does, not by a record."""
    return finding.role is Role.CAUSE and finding.line.level is None


def _only_noted(finding: Finding) -> bool:
    """Whether a finding is printed as a warning or less. What the kernel says of a GPU is as bad as it says, whatever
    collector passes it on, a machine's fault as bad as it is, though Python only warns of it, an exit status is one at
    whatever level it is logged, and what a person has confirmed as a cause is one."""
    if Support.SAME in finding.supports or (finding.role is Role.SYMPTOM and "exitcode" in finding.facts):
        return False
    line = finding.line
    warned = WARNED.search(line.text) is not None and finding.reason.category is not Category.INFRASTRUCTURE
    return (line.level in _QUIET_LEVELS or warned) and "Xid" not in line.text


def _unmix(finding: Finding, book: RuleBook) -> Finding:
    """A finding on a line into which two processes wrote the same exception."""
    said = unmixed(finding.line.message) if finding.rule == CATCH_ALL else ""
    named = book.confirm_all(finding.line._replace(text=said, starts=(0,))) if said else None
    return named._replace(line=finding.line) if named else finding


def _chain_faults(
    traceback: Traceback, by_place: dict[LinePlace, Finding], book: RuleBook, kinds: Kinds
) -> Iterable[Fault]:
    """A chain of exceptions as one fault; a second exception without a link is another process's, mixed in."""
    chain: list[tuple[RaisedException, list[Finding]]] = []
    for exception in traceback.exceptions:
        if chain and exception.link is Link.FIRST:
            yield _fault_of(chain, traceback, book, kinds)
            chain = []
        chain.append((exception, _findings_of(exception, by_place, book)))
    if chain:
        yield _fault_of(chain, traceback, book, kinds)


def _findings_of(exception: RaisedException, by_place: dict[LinePlace, Finding], book: RuleBook) -> list[Finding]:
    """What the rules say of an exception: of its own line first, then of the lines of its message."""
    line = exception.line
    own = by_place.pop(line.place, None)
    remembered = own is not None and bool(own.supports)
    below = None if remembered else _told_below(exception, book)
    if below is not None:
        own = below
    elif exception.said and not remembered:
        own = book.confirm_all(line._replace(text=exception.said, starts=(0,)))
        own = own and own._replace(line=line)
    elif own is None or book.asks_for_frames(own.rule):
        own = book.confirm_all(line, "\n".join(exception.frames)) or own
    found = [own or _unnamed(exception)]
    for part in exception.message:
        place = part.place
        finding = by_place.get(place)
        if finding is not None and finding.role is Role.CAUSE:
            found.append(by_place.pop(place))
    return found


def _told_below(exception: RaisedException, book: RuleBook) -> Finding | None:
    """What the rules say of an exception whose text only begins on the line below its class, at that line."""
    head = exception.line.text.rstrip()
    first = exception.message[0] if exception.message else None
    if first is None or not head.endswith(f"{exception.name}:") or not _WORDS.search(first.message):
        return None
    said = f"{exception.name}: {first.message.strip()}"
    told = book.confirm_all(exception.line._replace(text=said, starts=(0,)), "\n".join(exception.frames))
    return told._replace(line=first) if told and told.role is Role.CAUSE else None


def _unnamed(exception: RaisedException) -> Finding:
    """An exception that no rule knows."""
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
    """Whether the log ends within a traceback of what the process ended by."""
    begun = (traceback.stream, min(traceback.code)) in headers
    return begun and last.position in traceback.code and not traceback.logged


def _cut_fault(last: Line) -> Fault:
    """A traceback with which the log ends before it names its exception: its last line stands for it."""
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
    _, root = named[max(range(len(named)), key=lambda place: (_telling(place, named, kinds), -place))]
    findings = tuple(finding for _, group in chain for finding in group)
    if traceback.ignored and root.role is Role.CAUSE:
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
    """The finding that names an exception: one that explains another, a narrow one before a general, the exception's
    own line first."""
    explained = {
        id(other)
        for finding in findings
        for other in findings
        if other.reason is not finding.reason and other.reason in reasons_explained(finding, book)
    }

    def weight(item: tuple[int, Finding]) -> tuple[bool, bool, bool, int]:
        place, finding = item
        return id(finding) not in explained, finding.role is Role.CAUSE, finding.generality == 0, -place

    return max(enumerate(findings), key=weight)[1]


def _telling(place: int, named: list[tuple[RaisedException, Finding]], kinds: Kinds) -> int:
    """How well one exception of a chain names the cause; the earlier of equals is the root."""
    exception, finding = named[place]
    later = named[place + 1][0] if place + 1 < len(named) else None
    if later is not None and later.link is Link.RELAYED:
        return 0 if finding.role is Role.CAUSE else -1
    if finding.role is not Role.CAUSE:
        return 0
    if later is not None and kinds.is_a("socket-exception", exception.line):
        return 1
    if finding.generality == 0:
        return 3
    # What is raised instead after a look-up says more, if not the same again.
    replaced = later is not None and kinds.is_a("looked-up", exception.line) and not _repeats(later, exception)
    return 1 if replaced else 2


def _repeats(later: RaisedException, exception: RaisedException) -> bool:
    """Whether an exception says word for word what an earlier one said, not only its class or a name."""
    said = exception.line.text.partition(exception.name)[2].lstrip(": ")
    return _WORDS.search(said) is not None and later.line.text.endswith(said)


def with_reason(fault: Fault, book: RuleBook) -> Fault:
    """A fault with what the table of reasons says of its own."""
    traits = frozenset(book.entry_of(fault.reason).traits)
    return fault._replace(explains=reasons_explained(fault.finding, book), traits=traits)


def reasons_explained(finding: Finding, book: RuleBook) -> frozenset[Reason]:
    """What a finding makes other lines and ranks print: by its rule, and by the table of reasons."""
    return finding.explains.union(book.entry_of(finding.reason).explains)
