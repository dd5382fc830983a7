"""Where no rule names the cause: the root from the most suspicious lines, and the reason from their words.

An answer from here is never sure, and never leads to an action that a scheduler may carry out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from logdiag.errors import WeightsError
from logdiag.judge.facts import Facts
from logdiag.judge.faults import CATCH_ALL, Fault
from logdiag.judge.kinds import Kinds
from logdiag.judge.recovered import ordinary_work_follows, places_of, steps_follow
from logdiag.judge.root import DISORDER
from logdiag.judge.suspects.ranked import RankedLine
from logdiag.judge.timeline import STEPS_OF_RECOVERY
from logdiag.judge.tracebacks.forms import FRAME_OF_ANY
from logdiag.model import CALM, DETAILS, Action, Finding, Line, LinePlace, Reason, Role, Support
from logdiag.rules.book import HARMLESS

RULE = "suspects"
"""The `rule` of a finding that no rule made."""


class _Bar(NamedTuple):
    """How suspicious a line must be to become the root: its `least` score, and `times` the root's own."""

    least: float
    times: float


_NOTHING_KNOWN = _Bar(0.0, 0.0)
# In place of a bare status, or of a class or symptom in software that no rule knows; in place of these elsewhere.
_IN_UNKNOWN_SOFTWARE, _IN_KNOWN_SOFTWARE = _Bar(0.33, 3.0), _Bar(0.6, 10.0)
# In place of any root, a line before it that is also so many times as suspicious as the second.
_ALONE, _TIMES_THE_SECOND = _Bar(0.3, 8.0), 4.0
# A line with this score may be the cause even if steps follow it.
_STRIKING = 0.7
# These decisions count the work of other ranks too, which go on for a while after one died, but not for so many steps.
_BY_WORK_THAT_FOLLOWS = frozenset({ordinary_work_follows.__name__, steps_follow.__name__})
_MANY_STEPS = 8
# From this chance on, a failure that only the caller knows of is taken to show in the log.
_SHOWN = 0.2
# So many suspects may be the cause.
_SUSPECTS = 3
# Exit codes of processes that another process killed, as launchers print them.
_KILLED = ("-9", "-15")
# So many suspects vote on the reason; the line that stands for the cause votes with at least this score.
_HEARD, _LEAST_HEARD = 5, 0.1
# A suspect that agrees with no other counts as if it agreed so much.
_LEAST_AGREEMENT = 0.1
# From these chances on, a reason from words is likely (two of three are right), and clear (nine of ten are).
_LIKELY, _CLEAR = 0.2, 0.4
# The reasons of rules that name none.
_NO_REASON = (Reason.OTHERS, Reason.RUNTIME_ERROR)


def knows_only_its_class(root: Fault) -> bool:
    """Whether the rule of a root knows only an exception's class or a symptom."""
    finding = root.finding
    return (finding.generality > 0 or finding.role is Role.SYMPTOM) and not finding.supports


def hint_among_the_suspects(facts: Facts) -> Fault | None:
    """The job failed, and of the most suspicious lines a rule knows one, as an often harmless one: it is the cause."""
    if facts.root is not None:
        return None
    hints = [fault for fault in facts.standing.broke if fault.finding.role is Role.HINT]
    by_place = {fault.line.place: fault for fault in hints if fault.reason is not Reason.OTHERS}
    suspects = (ranked.line.place for ranked in facts.suspects().lines[:_SUSPECTS])
    named = next((by_place[place] for place in suspects if place in by_place), None)
    return next((fault for fault in hints if named and fault.finding.rule == named.finding.rule), None)


def most_suspicious_though_survived(facts: Facts) -> Fault | None:
    """No rule names a cause of what broke, and the most suspicious line is one by its rule, but counted as survived
    because others worked on: it is the cause. In 4,500 labelled logs 11 more root lines are right, none fewer."""
    bar = _bar_before(facts)
    named = bar is _IN_KNOWN_SOFTWARE and facts.root is not None and facts.root.reason not in _NO_REASON
    first = None if bar is None or named else next(iter(facts.suspects().lines), None)
    if first is None:
        return None
    if len(facts.timeline.steps_after(first.line, any_rank=True, most=_MANY_STEPS)) == _MANY_STEPS:
        return None
    made = (made for made in facts.standing.decisions if made.name in _BY_WORK_THAT_FOLLOWS)
    if not any(decision.about and decision.about.place == first.line.place for decision in made):
        return None
    causes = (fault for fault in facts.standing.recovered if fault.finding.role is Role.CAUSE)
    fault = next((cause for cause in causes if cause.line.place == first.line.place), None)
    if fault is None:
        return None
    why = f"{fault.finding.why} Others worked on after it, but no line that stands out more tells why the job ended."
    supports = (Support.SUSPECT, Support.CLEAR_WORDS)
    return fault._replace(finding=fault.finding._replace(why=why.lstrip(), supports=supports))


def most_suspicious_line(facts: Facts) -> Fault | None:
    """No rule names a cause: of the lines that stand out most, by structure, meaning and words, the one that the others
    agree with."""
    root, bar = facts.root, _bar_before(facts)
    # The caller may know of a failure that this log does not show.
    unseen = root is None and facts.timeline.failed is not None and facts.suspects().failure < _SHOWN
    if bar is None or unseen:
        return None
    ranking, surely = facts.suspects(), bar is _IN_KNOWN_SOFTWARE
    no_cause = _places_of_no_cause(facts, surely=surely)
    suspects = (ranked for ranked in ranking.lines if ranked.line.place not in no_cause)
    causes = (ranked for ranked in suspects if _may_be_cause(ranked, facts, surely=surely))
    may_be = list(islice(causes, _SUSPECTS))
    score_of_root = ranking.scores.get(root.line.place, 0.0) if root else 0.0
    if not may_be or may_be[0].score < max(bar.least, bar.times * score_of_root):
        return None
    line = _most_agreed_with(may_be, facts)
    if root is not None and (line.place == root.line.place or _follows_from(root, line, facts.timeline.kinds)):
        return None
    if (known := _known_fault(line, facts)) is not None:
        return known
    reason, chance = _likeliest_reason(facts, line)
    finding = Finding(
        rule=RULE,
        line=line,
        role=Role.CAUSE,
        reason=reason,
        title="A failure in words that no rule knows",
        why="This line is the most suspicious by how it stands in the log; no rule knows its words.",
        action=_advice(reason, chance, line, facts),
        steps=("Read the most suspicious lines, and confirm or correct what broke (logdiag incidents correct).",),
        explains=frozenset(Reason),
        supports=_supports(chance),
    )
    return Fault(finding, (finding,), died=False, quiet=False, explains=finding.explains)


def stands_alone_before_the_root(facts: Facts) -> Fault | None:
    """A line before the root is far more suspicious than it, and than any other line: the root is a consequence. Of
    1,850 labelled failures that taught the ranking nothing 12 more root lines are right, none fewer."""
    root = facts.root
    if root is None or _is_well_known(root, facts):
        return None
    ranking = facts.suspects()
    if not ranking.lines:
        return None
    first, second = ranking.lines[0], sum(ranked.score for ranked in ranking.lines[1:2])
    bar = max(_ALONE.least, _ALONE.times * ranking.scores.get(root.line.place, 0.0), _TIMES_THE_SECOND * second)
    spared = (fault for fault in facts.standing.broke if fault.within and fault.finding.role is Role.HINT)
    survived = places_of((*facts.standing.recovered, *facts.standing.afterwards, *spared))
    ahead = root.line.position - first.line.position if first.line.stream == root.line.stream else 0
    if first.score < bar or ahead <= 0 or first.line.place in survived or _belongs_to(root, first.line):
        return None
    if _is_harmless(first.line, facts) or first.line.level in DETAILS:
        return None
    worked_on = len(facts.timeline.steps_after(first.line, any_rank=True)) >= STEPS_OF_RECOVERY
    if worked_on and first.line.level in CALM and ahead > DISORDER:
        return None
    if (known := _known_fault(first.line, facts)) is not None:
        return None if known.caught or known.reason in root.explains else known
    why = f"{root.finding.why} The line before it that stands out most by far tells what led to it.".lstrip()
    return root._replace(finding=root.finding._replace(line=first.line, why=why))


def _is_well_known(root: Fault, facts: Facts) -> bool:
    """Whether a narrow rule knows the root, in a log of which rules know more, and no machine's line it is."""
    of_machine = facts.timeline.kinds.is_a("machines-own", root.line)
    vague = root.finding.supports or knows_only_its_class(root)
    return not (vague or of_machine or facts.lines_of_unknown_software())


def _is_harmless(line: Line, facts: Facts) -> bool:
    """Whether a rule calls a line harmless, or gives its code that role in a table of codes."""
    by_rule = facts.book.confirm_all(line)
    return facts.timeline.kinds.is_a(HARMLESS, line) or (by_rule is not None and by_rule.role is Role.HARMLESS)


def _known_fault(line: Line, facts: Facts) -> Fault | None:
    """The fault on a line whose reason a rule names, with the support of a sure suspect; None for none."""
    on_line = (fault for fault in facts.standing.failures if fault.line.place == line.place)
    known = next((fault for fault in on_line if fault.reason not in _NO_REASON), None)
    return known._replace(finding=known.finding._replace(supports=_supports(_CLEAR))) if known else None


def named_by_its_words(facts: Facts) -> Fault | None:
    """No rule knows more of the root than that something was raised, ended or was printed last: its words, and those of
    the most suspicious lines, name the reason; in software that rules know, only clear ones."""
    root = facts.root
    if root is None or root.reason not in _NO_REASON or root.finding.supports or _was_ended(root, facts.timeline.kinds):
        return None
    # A traceback that breaks off names nothing.
    if root.finding.role is not (Role.CAUSE if root.finding.rule == CATCH_ALL else Role.SYMPTOM):
        return None
    bare = _names_no_cause(root, facts.timeline.kinds)
    reason, chance = _likeliest_reason(facts, root.line, None if bare else root.reason)
    if reason in _NO_REASON or chance < (_LIKELY if facts.unknown_software else _CLEAR):
        return None
    why = f"{root.finding.why} No rule knows more of it; the reason is what the most suspicious lines tell.".lstrip()
    named = root.finding._replace(
        reason=reason, why=why, action=_advice(reason, chance, root.line, facts), supports=_supports(chance)
    )
    return root._replace(finding=named)


def _bar_before(facts: Facts) -> _Bar | None:
    """How suspicious a line must be to become the root in place of a rule's; None where a rule names a cause."""
    if facts.root is None:
        return _NOTHING_KNOWN
    bare = _names_no_cause(facts.root, facts.timeline.kinds)
    if not bare and not knows_only_its_class(facts.root):
        return None
    return _IN_UNKNOWN_SOFTWARE if bare or facts.unknown_software else _IN_KNOWN_SOFTWARE


def _follows_from(root: Fault, line: Line, kinds: Kinds) -> bool:
    """Whether a line tells what came of the root: a kernel itself reports the root, and a program or a person printed
    the line; or it stands below the exception by which a process had ended, one whose reason a rule knows."""
    below = line.stream == root.line.stream and line.position > root.line.position
    ended = root.died and root.reason not in _NO_REASON
    return (below and ended) or (kinds.is_a("machines-own", root.line) and not kinds.is_a("machines-own", line))


def _names_no_cause(root: Fault, kinds: Kinds) -> bool:
    """Whether a root reports only an end: a status, a launcher's report, a line that no rule knows."""
    bare = root.finding.role is Role.SYMPTOM or root.finding.role is Role.HINT or root.quiet
    return root.reason is Reason.OTHERS and bare and not root.finding.supports and not _was_ended(root, kinds)


def _was_ended(root: Fault, kinds: Kinds) -> bool:
    """Whether a root is a signal or a stop from outside, which may have left no other cause in the log."""
    signalled = "signal" in root.finding.facts or root.finding.facts.get("exitcode") in _KILLED
    return signalled or kinds.is_a("stop-from-outside", root.line)


def _places_of_no_cause(facts: Facts, *, surely: bool) -> set[LinePlace]:
    """The places of findings that rules know to be no cause; in place of a root that a rule names in software that it
    knows (`surely`), those of all findings."""
    standing = facts.standing
    symptoms = {finding.line.place for finding in facts.survey.findings if finding.role is Role.SYMPTOM}
    return symptoms | places_of((*standing.recovered, *standing.afterwards, *(standing.failures if surely else ())))


def _may_be_cause(ranked: RankedLine, facts: Facts, *, surely: bool) -> bool:
    """Whether a suspect may be the cause. It may not if it is a part of the root, if it went well later, or if its
    process worked on after it, unless it is very suspicious. In place of a root that a rule names in software that it
    knows (`surely`), neither a calm line nor one of another rank than the launcher saw fail first may be."""
    line, timeline = ranked.line, facts.timeline
    if _belongs_to(facts.root, line) or facts.went_well_later(line):
        return False
    another = line.rank is not None and timeline.first_observed not in (None, line.rank)
    if surely and (another or line.level in CALM):
        return False
    return ranked.score >= _STRIKING or len(timeline.steps_after(line)) < STEPS_OF_RECOVERY


def _belongs_to(root: Fault | None, line: Line) -> bool:
    """Whether a line is a frame of a traceback, or the class right above the root's text."""
    above = root is not None and line.place == (root.line.stream, root.line.position - 1)
    return (above and line.message.rstrip().endswith(":")) or FRAME_OF_ANY.match(line.message) is not None


def _most_agreed_with(suspects: Sequence[RankedLine], facts: Facts) -> Line:
    """Of the most suspicious lines, the one whose words best agree with the reason that all vote for.

    Consequences of a cause speak of other things too: on authors left out of all training 8 of 333 more root lines are
    right than if the most suspicious line is taken.
    """
    votes = _votes(facts, suspects[0].line, Reason.OTHERS)

    def weight(ranked: RankedLine) -> float:
        agreement = sum(chance * votes[reason] for reason, chance in _reasons_of(ranked.line))
        return ranked.score * (agreement + _LEAST_AGREEMENT) ** 2

    return max(suspects, key=weight).line


def _likeliest_reason(facts: Facts, line: Line, known: Reason | None = Reason.OTHERS) -> tuple[Reason, float]:
    """The reason with the most of `_votes`, and its chance, 0 to 1; Others if no word is known or weights are broken.

    The cause is one of the suspects: on authors left out of all training 8 of 100 more reasons are right than by the
    words of the line alone.
    """
    return max(_votes(facts, line, known).items(), key=lambda vote: vote[1], default=(Reason.OTHERS, 0.0))


def _votes(facts: Facts, line: Line, known: Reason | None) -> Mapping[Reason, float]:
    """The chance of each reason, 0 to 1, by the words of a line and of the most suspicious lines.

    A line's vote weighs the square root of its score; `known`, the reason that a rule names for it, weighs as much as
    its words. With None, for a bare end, the line has no vote. Faults that were survived, and those of a later program,
    have none either.
    """
    ranking = facts.suspects()
    weight = math.sqrt(max(ranking.scores.get(line.place, 0.0), _LEAST_HEARD))
    left_out = {line.place} | places_of((*facts.standing.recovered, *facts.standing.afterwards))
    others = (other for other in ranking.lines[:_HEARD] if other.line.place not in left_out)
    heard = [(math.sqrt(other.score), _reasons_of(other.line)) for other in others]
    if known is not None:
        heard.append((weight, _reasons_of(line)))
    if known not in (None, Reason.OTHERS):
        heard.append((weight, ((known, 1.0),)))
    votes = defaultdict[Reason, float](float)
    for weight, reasons in heard:
        for reason, chance in reasons:
            votes[reason] += weight * chance
    total = sum(votes.values()) or 1.0
    return defaultdict(float, {reason: vote / total for reason, vote in votes.items()})


def _reasons_of(line: Line) -> tuple[tuple[Reason, float], ...]:
    """The reasons that the words of a line may mean, with their chances; none for a line of one word, or if the weights
    are broken."""
    from logdiag.judge.suspects.line_features import body_of
    from logdiag.judge.suspects.wording import reasons_by_wording

    body = body_of(line)
    with suppress(WeightsError):
        return reasons_by_wording(body) if len(body.split()) > 1 else ()
    return ()


def _supports(chance: float) -> tuple[Support, ...]:
    """What an answer of such a chance rests on."""
    return (Support.SUSPECT, *[Support.CLEAR_WORDS] * (chance >= _CLEAR))


def _advice(reason: Reason, chance: float, line: Line, facts: Facts) -> Action | None:
    """The action for a person: what the line's words tell of this reason; None, for that of the table of reasons, where
    the reason is likely; else to look."""
    by_words = facts.book.entry_of(reason).by_words.items()
    told = next((action for kind, action in by_words if facts.timeline.kinds.is_a(kind, line)), None)
    if told is not None:
        return told
    return None if chance >= _LIKELY else Action.FIX_AND_RESUBMIT
