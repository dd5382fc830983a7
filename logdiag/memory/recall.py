"""What the memory says of a failure: lines that people know already, lines like them, and what helped last time.

A failure that a person confirmed is known from then on: a line with its fingerprint is a cause like those that rules
name. Where the rules are silent or unsure, the confirmed failures most alike to a line vote on its reason, each with
its cosine squared and a weight that falls with its age. What the memory says are findings like those of rules, so that
recoveries, consequences, ranks and nodes are told apart the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from logdiag.judge.judgement import Judgement
from logdiag.memory.corpus import PREFIX
from logdiag.memory.incident import Incident, Outcome, fingerprint, masked
from logdiag.memory.rows import now
from logdiag.memory.store import Store
from logdiag.model import Action, Category, Finding, Line, Reason, Role, Similar, Support
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

__all__ = ["RULE", "Doubt", "alike_lines", "known_lines", "similar_to"]

RULE = "memory/"
"""What the `rule` of a finding begins with that comes from the memory; the id of the incident follows."""

# Of recurrences, 93.8 % come within 20 days: what is older than that speaks with about half the weight.
_DECAY_DAYS = 20 / -math.log(1 - 0.938)
_WHEN_OLD = 0.5
_OUTCOME_WEIGHT = {Outcome.WORKED: 1.0, Outcome.UNKNOWN: 0.95, Outcome.DID_NOT: 0.9}
_UNCONFIRMED = 0.9
_OF_ANOTHER_REASON = 0.5

_VOTERS = 8
# Voters are picked out of so many, because what nobody confirmed has no vote.
_NEAREST = 24
# Below this share of the votes for the winner they are divided.
_UNITED = 2 / 3
_SUPPORT_FROM = ((0.8, Support.NEARLY_SAME), (0.5, Support.ALIKE), (-1.0, Support.FAINTLY_ALIKE))

_MOST_SIMILAR = 3
_LEAST_SIMILAR = 0.3
# A signature with fewer letters says too little to know a failure by.
_FEWEST_LETTERS = 8
# So many lines that no rule knows are looked up at most: the last ones, which tell of the end.
_MOST_LINES = 200
_MOST_EXCEPTIONS = 8
# From so many lines on NumPy is faster than no NumPy, its loading included.
_FEW_LINES = 4
# What frameworks and launchers say of any failure.
_WRAPPERS = frozenset({Reason.RUNTIME_ERROR, Reason.CALLED_PROCESS_ERROR, Reason.OTHERS})
_ORDINARY = frozenset({"TRACE", "DEBUG", "INFO", "NOTICE"})


@dataclass(frozen=True, slots=True)
class Doubt:
    """What the rules leave open, and how alike a past failure must be (cosine) to speak: `root` of the line that they
    took for the root, `exceptions` of other exceptions that no rule knows, `elsewhere` of lines that none fires on.
    None: nothing is left open there. `united` asks for votes that are not divided, `machine` for the
    reason of a machine's fault; `own` leaves elsewhere out what ships, which other people's clusters said."""

    root: float | None = None
    united: bool = False
    machine: bool = False
    exceptions: float | None = None
    elsewhere: float | None = None
    own: bool = False


def known_lines(survey: Survey, store: Store, book: RuleBook) -> tuple[Finding, ...]:
    """A finding for each line whose failure a person has confirmed. Raises MemoryStoreError."""
    if not store.count():
        return ()
    prints: dict[str, list[Line]] = {}
    for line in survey.lines:
        signature = masked(line)
        if _tells(signature):
            prints.setdefault(fingerprint(signature), []).append(line)
    ruled = {(finding.line.stream, finding.line.position): finding for finding in survey.findings}
    found = []
    for known, incident in store.known(prints).items():
        for line in prints[known]:
            rule = ruled.get((line.stream, line.position))
            symptom = rule is not None and rule.role is Role.SYMPTOM
            if (
                rule
                and (symptom or rule.role is Role.CAUSE)
                and (rule.reason, _action(rule, book)) == _advice(incident)
            ):
                continue
            named = _finding(line, incident, incident.reason, (Support.SAME,))
            # What others say of a failure stays that: where a cause is in the log too, it comes first.
            found.append(replace(named, role=Role.SYMPTOM) if symptom else named)
    return tuple(found)


def alike_lines(survey: Survey, judgement: Judgement, doubt: Doubt, store: Store) -> tuple[Finding, ...]:
    """Findings for lines that are like confirmed failures, where the rules leave something open.

    Raises MemoryStoreError.
    """
    asked: list[tuple[Line, Reason | None, float]] = []
    if judgement.root is not None and doubt.root is not None:
        asked.append((judgement.root.line, judgement.root.reason, doubt.root))
    if doubt.exceptions is not None:
        asked += [(line, Reason.OTHERS, doubt.exceptions) for line in _unknown_exceptions(judgement)]
    if doubt.elsewhere is not None and (store.count() or not doubt.own):
        asked += [(line, None, doubt.elsewhere) for line in _unnamed_lines(survey, judgement)]
    if len(asked) > _FEW_LINES:
        store.load()
    voted = [(_voted(line, least, store, own=doubt.own and said is None), said) for line, said, least in asked]
    return tuple(
        finding
        for finding, said in voted
        if finding is not None
        and finding.reason is not said
        and not (doubt.united and Support.DIVIDED in finding.supports)
        and (not doubt.machine or finding.reason.category is Category.INFRASTRUCTURE)
    )


def similar_to(line: Line, reason: Reason, store: Store) -> tuple[Similar, ...]:
    """The past failures most like the one that a line names, the most useful first: ranked by similarity, age and
    outcome, those of another reason than was found behind. Raises MemoryStoreError."""
    signature = masked(line)
    scored = [(1.0, incident) for incident in store.by_fingerprint(fingerprint(signature), _MOST_SIMILAR)]
    seen = {incident.id for _, incident in scored}
    scored += [(score, incident) for score, incident in store.nearest(signature, _NEAREST) if incident.id not in seen]
    at = now()

    def rank(item: tuple[float, Incident]) -> float:
        return -item[0] * _usefulness(item[1], at) * (1.0 if item[1].reason is reason else _OF_ANOTHER_REASON)

    ranked = sorted(scored, key=rank)
    return tuple(
        Similar(
            incident=incident.id,
            similarity=round(min(score, 1.0), 3),
            reason=incident.reason,
            action=incident.action,
            outcome=incident.outcome.value,
            seen_at=incident.seen_at,
            node=incident.node,
            words=_words(incident),
        )
        for score, incident in ranked[:_MOST_SIMILAR]
        if score >= _LEAST_SIMILAR
    )


def _unknown_exceptions(judgement: Judgement) -> list[Line]:
    """The last lines of other tracebacks whose exception no narrow rule knows, the first of each kind."""
    events = [event for event in (*judgement.independent, *judgement.consequences) if event.died]
    lines = [event.line for event in events if event.finding.generality and event.reason is Reason.OTHERS]
    return list({masked(line): line for line in reversed(lines)}.values())[-_MOST_EXCEPTIONS:]


def _unnamed_lines(survey: Survey, judgement: Judgement) -> list[Line]:
    """The lines that may name a cause that no rule knows: not those of findings, tracebacks and steps, nor ordinary
    ones, nor those that come after the root."""
    named = {
        (finding.line.stream, finding.line.position) for finding in survey.findings if finding.role is not Role.HINT
    }
    named.update((step.stream, step.position) for step in survey.progress)
    tells = judgement.root is not None and judgement.root.reason is not Reason.OTHERS
    last = judgement.root.line if tells and judgement.root else None
    lines = [
        line
        for line in survey.lines
        if (line.stream, line.position) not in named
        and line.level not in _ORDINARY
        and not (last and line.stream == last.stream and line.position > last.position)
        and not line.message.startswith((" ", "\t"))
        and _tells(line.message)
    ]
    distinct = {masked(line): line for line in reversed(lines[-_MOST_LINES:])}
    return list(distinct.values())[::-1]


def _voted(line: Line, least: float, store: Store, *, own: bool) -> Finding | None:
    """What the confirmed failures most alike to a line say of it; None when none is alike enough, or with `own` when
    the nearest is one that ships."""
    found = [(score, item) for score, item in store.nearest(masked(line), _NEAREST) if item.confirmed_by][:_VOTERS]
    if own and found and found[0][1].id.startswith(PREFIX):
        return None
    if not found or found[0][0] < least:
        return None
    at = now()
    votes: dict[Reason, float] = {}
    for score, incident in found:
        votes[incident.reason] = votes.get(incident.reason, 0.0) + max(score, 0.0) ** 2 * _recency(incident, at)
    reason = max(votes, key=lambda item: votes[item])
    speaker = found[0][1]
    if speaker.reason is not reason:
        return None  # the nearest one and the others disagree
    kind = next(support for least_score, support in _SUPPORT_FROM if found[0][0] >= least_score)
    divided = votes[reason] < _UNITED * sum(votes.values())
    named = _finding(line, speaker, reason, (kind, Support.DIVIDED) if divided else (kind,))
    # Of a failure that is only alike, what is known of its reason holds, not what helped that once.
    return replace(named, action=None, steps=(), generality=1)


def _finding(line: Line, incident: Incident, reason: Reason, supports: tuple[Support, ...]) -> Finding:
    action, failed = incident.action, incident.outcome is Outcome.DID_NOT
    title = incident.cause.split(". ")[0].rstrip(".") or f"{reason.value}, as in incident {incident.id}"
    return Finding(
        rule=RULE + incident.id,
        line=line,
        role=Role.CAUSE,
        reason=reason,
        title=title,
        why=_words(incident)[:1].upper() + _words(incident)[1:] + ".",
        action=None if failed or action is Action.NONE else action,
        action_before_progress=None,
        steps=(incident.remedy,) if incident.remedy and not failed else (),
        explains=_WRAPPERS,
        supports=supports,
    )


def _tells(text: str) -> bool:
    return sum(character.isalpha() for character in text) >= _FEWEST_LETTERS


def _action(rule: Finding, book: RuleBook) -> Action | None:
    entry = book.reasons.get(rule.reason)
    return rule.action or (Action(entry.action) if entry else None)


def _advice(incident: Incident) -> tuple[Reason, Action]:
    return incident.reason, incident.action


def _recency(incident: Incident, at: str) -> float:
    """1 for what was just seen, falling to `_WHEN_OLD`; what ships with logdiag has no time and counts as old."""
    if not incident.seen_at:
        return _WHEN_OLD
    days = max(0.0, (_time(at) - _time(incident.seen_at)).total_seconds() / 86_400)
    return _WHEN_OLD + (1 - _WHEN_OLD) * math.exp(-days / _DECAY_DAYS)


def _usefulness(incident: Incident, at: str) -> float:
    confirmed = 1.0 if incident.confirmed_by else _UNCONFIRMED
    return _recency(incident, at) * _OUTCOME_WEIGHT[incident.outcome] * confirmed


def _time(text: str) -> datetime:
    read = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return read if read.tzinfo else read.replace(tzinfo=timezone.utc)


def _words(incident: Incident) -> str:
    """What was done last time, and whether it helped, as the beginning of a sentence."""
    when = "elsewhere"
    if incident.seen_at:
        seen = _time(incident.seen_at)
        when = f"last time, on {seen.day} {seen:%B %Y}"
    without = f"without {incident.node}" if incident.node else "without the node"
    doing = {
        Action.RESTART: "restarting",
        Action.RESTART_EXCLUDING_NODE: f"restarting {without}",
        Action.ROLLBACK_AND_SKIP: "rolling back and skipping the batch",
        Action.RETRY_LATER: "trying again later",
        Action.REDUCE_MEMORY: "using less memory",
        Action.FIX_AND_RESUBMIT: "fixing it",
    }.get(incident.action, "what was done")
    remedy = f": {incident.remedy.rstrip('.')}" if incident.remedy else ""
    if incident.outcome is Outcome.WORKED:
        return f"{when}, {doing} worked{remedy}"
    if incident.outcome is Outcome.DID_NOT:
        return f"{when}, {doing} did not help{remedy}"
    return f"{when}; the advice was {incident.action.value}{remedy}" if incident.action is not Action.NONE else when
