"""Where no rule names the cause: the most suspicious line stands for it, and its words for the reason.

An answer from here is never sure, and never leads to an action that a scheduler may carry out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from logdiag.errors import WeightsError
from logdiag.judge.faults import CATCH_ALL, Fault
from logdiag.judge.kinds import Kinds
from logdiag.judge.suspects.ranked import RankedLine, Ranking
from logdiag.model import Action, Finding, Line, Reason, Role, Support
from logdiag.rules import RuleBook

RULE = "suspects"
"""What stands as the `rule` of a finding that no rule made."""

# A line is believed before a status or a launcher's word only if it is so suspicious, and so many times more ...
_LEAST = (0.33, 3.0)
# ... before a rule's class or symptom, in software that no rule knows, if it is this ...
_CLEAR = (0.5, 5.0)
SURE = 0.92, 20.0
"""... and in other software, if it is this. Steps that follow say nothing against so suspicious a line."""
# Exit codes of processes that another one ended, as launchers print them.
_KILLED = ("-9", "-15")
# Words are clear if the reason is so likely by them: nine of ten such are right.
_CLEAR_CHANCE = 0.75
_MOST_LINES = 400
ENOUGH_LINES = 40
"""In so many lines a rule knows some line of public software."""


def names_no_cause(root: Fault, kinds: Kinds) -> bool:
    """Whether a root says only that something ended: a status, a launcher's word, a line that no rule knows. A signal
    came from outside: it may be all there is to know."""
    signalled = "signal" in root.finding.facts or root.finding.facts.get("exitcode") in _KILLED
    if signalled or kinds.is_a("stop-from-outside", root.line):
        return False
    bare = root.finding.role is Role.SYMPTOM or root.finding.role is Role.HINT or root.quiet
    return root.reason is Reason.OTHERS and bare and not root.finding.supports


def knows_only_its_class(root: Fault) -> bool:
    """Whether the rule of a root knows no more than an exception's class, or what a failure makes others print."""
    finding = root.finding
    return (finding.generality > 0 or finding.role is Role.SYMPTOM) and not finding.supports


def bar_before(root: Fault | None, kinds: Kinds, lines: Sequence[Line], book: RuleBook) -> tuple[float, float] | None:
    """How suspicious a line has to be, and how many times more than the root that a rule names, to stand before it;
    None where the rule names a cause."""
    if root is None:
        return 0.0, 0.0
    if names_no_cause(root, kinds):
        return _LEAST
    if not knows_only_its_class(root):
        return None
    return _CLEAR if is_unknown_software(lines, book) else SURE


def unknown_lines(lines: Sequence[Line], book: RuleBook) -> int:
    """How many lines were looked at, of a log that holds no line of work or of regular output that any rule knows; 0
    where a rule knows one."""
    printed = [line for line in lines if line.text.strip()][:_MOST_LINES]
    known = (book.is_progress(line) or bool(book.filters_of(line)) for line in printed)
    return 0 if any(known) else len(printed)


def is_unknown_software(lines: Sequence[Line], book: RuleBook) -> bool:
    """Whether no rule knows a line of a log that is long enough to hold one of public software's."""
    return unknown_lines(lines, book) >= ENOUGH_LINES


def most_suspicious_line(
    root: Fault | None, ranking: Ranking, bar: tuple[float, float], is_no_cause: Callable[[RankedLine], bool]
) -> Fault | None:
    """No rule names a cause: the line that stands out most, by its structure, its meaning and its words."""
    best = next((ranked for ranked in ranking.lines if not is_no_cause(ranked)), None)
    if best is None or not _is_better(best, root, ranking, bar):
        return None
    reason, supports = _told(best.line)
    finding = Finding(
        rule=RULE,
        line=best.line,
        role=Role.CAUSE,
        reason=reason,
        title="A failure in words that no rule knows",
        why="This line is the most suspicious by how it stands in the log; no rule knows its words.",
        action=_advice(supports),
        steps=("Read the most suspicious lines, and confirm or correct what broke (logdiag incidents correct).",),
        explains=frozenset(Reason),
        supports=supports,
    )
    return Fault(finding, (finding,), died=False, quiet=False, explains=finding.explains)


def named_by_its_words(root: Fault, without: Collection[str]) -> Fault | None:
    """No rule knows more of the line than that it was raised or printed last: its words name the reason."""
    unnamed = root.finding.rule == CATCH_ALL and root.reason is Reason.OTHERS
    # A traceback that breaks off names nothing.
    if not unnamed or root.finding.role is not Role.CAUSE or named_by_its_words.__name__ in without:
        return None
    reason, supports = _told(root.line)
    if reason is Reason.OTHERS or Support.CLEAR_WORDS not in supports:
        return None
    return root._replace(finding=root.finding._replace(reason=reason, action=_advice(supports), supports=supports))


def _told(line: Line) -> tuple[Reason, tuple[Support, ...]]:
    """The reason that a line's words tell, and what that rests on; Others where no word is known, where it is one word
    alone, or the weights are broken."""
    from logdiag.judge.suspects.line_features import body_of
    from logdiag.judge.suspects.wording import reasons_by_wording

    body, reason, chance = body_of(line), Reason.OTHERS, 0.0
    with suppress(WeightsError):
        if len(body.split()) > 1:
            reason, chance = next(iter(reasons_by_wording(body)), (reason, chance))
    return reason, (Support.SUSPECT, *[Support.CLEAR_WORDS] * (chance >= _CLEAR_CHANCE))


def _advice(supports: Collection[Support]) -> Action | None:
    """What to advise a person: what the reason's table says, where the words are clear; else to look."""
    return None if Support.CLEAR_WORDS in supports else Action.FIX_AND_RESUBMIT


def _is_better(best: RankedLine, root: Fault | None, ranking: Ranking, bar: tuple[float, float]) -> bool:
    if root is None:
        return True
    if (best.line.stream, best.line.position) == (root.line.stream, root.line.position):
        return False
    own = ranking.scores.get((root.line.stream, root.line.position), 0.0)
    least, times = bar
    return best.score >= max(least, times * own)
