"""Findings and similar incidents from the memory of past failures.

A line with the wording of a confirmed failure is a cause like those of rules. Where rules are unsure of the root, the
most similar confirmed failures vote on its reason, by cosine squared and age. What ships and what nobody confirmed has
no vote.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from logdiag.memory.documents import moment, now
from logdiag.memory.incident import Helped, Incident, fingerprint, frames_before, masked, same_frames, skeleton
from logdiag.memory.store import Store
from logdiag.model import Action, Finding, Line, Reason, Role, Similar, Support
from logdiag.patterns import pattern_of
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

RULE = "memory/"
"""The `rule` of a finding from the memory is this and the id of the incident."""

# Of recurrences, 93.8 % come within 20 days: what is older than that has about half the weight.
_DECAY_DAYS = 20 / -math.log(1 - 0.938)
_WHEN_OLD = 0.5
_OUTCOME_WEIGHT = {Helped.WORKED: 1.0, Helped.UNKNOWN: 0.95, Helped.DID_NOT: 0.9}
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
# What is left of a signature without names must say more than that to know a failure by.
_FEWEST_LOOSE_LETTERS = 14
_WORD = pattern_of(r"[^\W\d_]{3,}")
# Of so many confirmed failures each is known in a looser wording too: the latest.
_MOST_CONFIRMED = 500
# So many kept lines are looked up among what people confirmed: the last ones, which tell of the end.
_MOST_LOOKED_UP = 20_000
# Reasons that frameworks and launchers give for any failure.
_WRAPPERS = frozenset({Reason.RUNTIME_ERROR, Reason.CALLED_PROCESS_ERROR, Reason.OTHERS})


def known(survey: Survey, store: Store, book: RuleBook) -> tuple[Finding, ...]:
    """A finding for each kept line that matches a failure confirmed in this store, whatever its numbers, hosts and
    paths; none for a line of which a rule says the same. Raises MemoryStoreError."""
    if not store.count():
        return ()
    by_rules = {finding.line.place: finding for finding in survey.findings}
    findings = []
    for line, incident, support in _matches(survey, store):
        finding = _finding(line, incident, (support,))
        if incident.outcome is not Helped.DID_NOT:
            # The action of the reason's table stays the table's, which also knows what to do before the first step.
            tabled = incident.action in (Action.NONE, book.entry_of(incident.reason).action)
            steps = (incident.remedy,) if incident.remedy else ()
            finding = finding._replace(action=None if tabled else incident.action, steps=steps)
        if (rule := by_rules.get(line.place)) and rule.role.is_failure:
            action = rule.action or book.entry_of(rule.reason).action
            if rule.reason is incident.reason and incident.action in (action, Action.NONE):
                continue
            # A line that the rules call a symptom or hint stays one: a cause elsewhere in the log comes first.
            finding = finding._replace(role=rule.role)
        findings.append(finding)
    return tuple(findings)


def similar_to(line: Line, reason: Reason, store: Store) -> tuple[Similar, ...]:
    """The past failures most similar to a line, the most useful first: by similarity, age, outcome, confirmation, and
    whether they have its `reason`. Raises MemoryStoreError."""
    signature = masked(line)
    scored = [(1.0, incident) for incident in store.by_fingerprint(fingerprint(signature), _MOST_SIMILAR)]
    seen = {incident.id for _, incident in scored}
    scored += [(score, incident) for score, incident in store.nearest(signature, _NEAREST) if incident.id not in seen]

    def usefulness(item: tuple[float, Incident]) -> float:
        score, incident = item
        confirmed = 1.0 if incident.confirmed_by else _UNCONFIRMED
        same = 1.0 if incident.reason is reason else _OF_ANOTHER_REASON
        return score * _recency(incident) * _OUTCOME_WEIGHT[incident.outcome] * confirmed * same

    ranked = sorted(scored, key=usefulness, reverse=True)
    return tuple(
        Similar(
            incident=incident.id,
            similarity=round(min(score, 1.0), 3),
            reason=incident.reason,
            action=incident.action,
            outcome=incident.outcome.value,
            seen_at=incident.seen_at,
            node=incident.node,
            words=_remedy_in_words(incident),
            provenance=incident.provenance if not incident.seen_at else "",
        )
        for score, incident in ranked[:_MOST_SIMILAR]
        if score >= _LEAST_SIMILAR
    )


def _matches(survey: Survey, store: Store) -> Iterator[tuple[Line, Incident, Support]]:
    """Kept lines with the confirmed incident of the same signature, or else of the same words in the same order."""
    confirmed = store.confirmed(_MOST_CONFIRMED)
    all_of_them = len(confirmed) < _MOST_CONFIRMED
    lines = _lines_by_signature(survey, _longest_words(confirmed) if all_of_them else frozenset())
    exact = store.known(fingerprint(signature) for signature in lines) if lines else {}
    loose: dict[str, list[Incident]] = {}
    for incident in confirmed:
        words = skeleton(incident.signature)
        if _has_letters(words.replace("<n>", ""), _FEWEST_LOOSE_LETTERS):
            loose.setdefault(words, []).append(incident)
    for signature, occurrences in lines.items():
        same = exact.get(fingerprint(signature), ())
        nearly = loose.get(skeleton(signature), ()) if loose and not same else ()
        incidents = same or nearly
        with_frames = any(item.frames for item in incidents)
        for line in occurrences if incidents else ():
            frames = frames_before(survey.lines, line) if with_frames else ()
            # The latest incident that can have been raised by the same frames.
            match = next((item for item in incidents if same_frames(signature, item.frames, frames)), None)
            if match is not None:
                yield line, match, Support.SAME if same else Support.NEARLY_SAME


def _longest_words(confirmed: Sequence[Incident]) -> frozenset[str]:
    """The longest word of each incident, which every matching line has; empty if any incident has no word."""
    skeletons = (skeleton(incident.signature) for incident in confirmed)
    # The last word may be cut short.
    whole = [_WORD.findall((text.rpartition(" ")[0] or text).replace("<n>", " ")) for text in skeletons]
    return frozenset(max(words, key=len) for words in whole) if all(whole) else frozenset()


def _lines_by_signature(survey: Survey, words: frozenset[str]) -> Mapping[str, list[Line]]:
    """The kept lines by signature, without steps: those with enough letters and, if there are any, one of `words`."""
    steps = {step.place for step in survey.progress}
    found: dict[str, list[Line]] = {}
    ordinary = set()
    for line in survey.lines[-_MOST_LOOKED_UP:]:
        # Masking takes long: most lines share no word with what is known.
        if words and words.isdisjoint(_WORD.findall(line.message.lower())):
            continue
        signature = masked(line)
        if line.place in steps:
            ordinary.add(signature)
        elif _has_letters(signature):
            found.setdefault(signature, []).append(line)
    return {signature: lines for signature, lines in found.items() if signature not in ordinary}


def alike(line: Line, least: float, store: Store) -> Finding | None:
    """The finding for which the confirmed failures most similar to a line vote; None if none reaches the cosine
    `least`, or the most similar one loses the vote. Raises MemoryStoreError."""
    signature = masked(line)
    near = store.nearest(signature, _NEAREST, own=True)
    # `_matches` already refused those of the same signature: they were raised elsewhere.
    voters = [
        (score, item) for score, item in near if item.confirmed_by and item.signature.lower() != signature.lower()
    ][:_VOTERS]
    if not voters or voters[0][0] < least:
        return None
    votes: dict[Reason, float] = {}
    for score, incident in voters:
        votes[incident.reason] = votes.get(incident.reason, 0.0) + max(score, 0.0) ** 2 * _recency(incident)
    reason = max(votes, key=lambda item: votes[item])
    nearest = voters[0][1]
    if nearest.reason is not reason:
        return None  # the nearest one and the others disagree
    similarity = next(support for score, support in _SUPPORT_FROM if voters[0][0] >= score)
    divided = votes[reason] < _UNITED * sum(votes.values())
    # A similar failure gives its reason, but not its remedy, which may not help here.
    return _finding(line, nearest, (similarity, Support.DIVIDED) if divided else (similarity,))._replace(generality=1)


def _finding(line: Line, incident: Incident, supports: tuple[Support, ...]) -> Finding:
    """A finding on a line from an incident, with nothing of the incident's own job."""
    day = _day(incident.history[-1].at if incident.history else incident.seen_at)
    title = incident.cause.split(". ")[0].rstrip(".") or f"{incident.reason.value}, as in incident {incident.id}"
    when = f" on {day}" if day else ""
    says = f"{incident.confirmed_by} said so of incident {incident.id}{when}; {_remedy_in_words(incident)}."
    return Finding(
        rule=RULE + incident.id,
        line=line,
        role=Role.CAUSE,
        reason=incident.reason,
        title=title,
        why=says[:1].upper() + says[1:],
        explains=_WRAPPERS,
        supports=supports,
    )


def _has_letters(text: str, least: int = _FEWEST_LETTERS) -> bool:
    return sum(character.isalpha() for character in text) >= least


def _recency(incident: Incident) -> float:
    """1 for what was just seen, falling to `_WHEN_OLD`; what ships with logdiag has no time and counts as old."""
    if not incident.seen_at:
        return _WHEN_OLD
    days = max(0.0, (moment(now()) - moment(incident.seen_at)).total_seconds() / 86_400)
    return _WHEN_OLD + (1 - _WHEN_OLD) * math.exp(-days / _DECAY_DAYS)


def _day(text: str) -> str:
    """The day of a time, as people write it: 3 November 2026."""
    return f"{moment(text).day} {moment(text):%B %Y}" if text else ""


def _remedy_in_words(incident: Incident) -> str:
    """What is known to help, or what was done last time and whether it helped, as the beginning of a sentence."""
    remedy = f": {incident.remedy.rstrip('.')}" if incident.remedy else ""
    if not incident.seen_at:
        return f"known remedy ({incident.provenance}){remedy or f': {incident.action.value}'}"
    when = f"last time, on {_day(incident.seen_at)}"
    doing = {
        Action.RESTART: "restarting",
        Action.RESTART_EXCLUDING_NODE: "restarting without the node",
        Action.ROLLBACK_AND_SKIP: "rolling back and skipping the batch",
        Action.RETRY_LATER: "trying again later",
        Action.REDUCE_MEMORY: "using less memory",
        Action.FIX_AND_RESUBMIT: "fixing it",
    }.get(incident.action, "what was done")
    if incident.outcome is not Helped.UNKNOWN:
        return f"{when}, {doing} {'worked' if incident.outcome is Helped.WORKED else 'did not help'}{remedy}"
    advice = f"; the advice was {incident.action.value}" if incident.action is not Action.NONE else ""
    return f"{when}{advice}{remedy}"
