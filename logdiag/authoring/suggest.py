"""Proposes rules from confirmed incidents: what those of one reason have in common becomes a pattern.

A proposal passed `logdiag rules test`, and fires on its incidents, on none of another reason and on no healthy log.
Stored lines are masked, so its examples have made-up values in place of the masks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from logdiag.authoring.rule_file import Proposal, rule_draft
from logdiag.authoring.rule_gate import MASK, MASKS, Group, example_of, judged_drafts
from logdiag.memory.incident import PREFIX, Incident, Outcome
from logdiag.memory.store import Store
from logdiag.model import Reason, Role
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook

_FEWEST = 2
# Two lines belong together when they share this much of the longer one's letters, and so many letters at least.
_SHARED = 0.6
_SHARED_LETTERS = 12
_MOST_FIRES = 6
_MOST_QUIET = 3
_LONGEST_SIGNATURE = 400

_GAP = ""
_CLASS = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Warning|Interrupt|Exit):?")


def suggest(
    store: Store,
    *,
    reason: Reason | None = None,
    folders: Sequence[str | os.PathLike[str]] = (),
    healthy: Sequence[str | os.PathLike[str]] = (),
) -> tuple[Proposal, ...]:
    """A rule for each kind of line that two or more confirmed incidents of one reason share and no narrow rule knows.

    `folders` are further rules in force, `healthy` logs on which nothing may fire. Raises LogdiagError.
    """
    own = confirmed(store)
    others = [*own, *store.shipped]
    book = RuleBook.load(folders, proof=True)
    groups = [
        group
        for wanted in dict.fromkeys(item.reason for item in own if item.reason is not Reason.NONE)
        if reason in (None, wanted)
        for group in _groups([item for item in own if item.reason is wanted])
        if len(group.incidents) >= _FEWEST and not _known(book, group)
    ]
    taken = {rule.id for rule in book.rules}
    judged = judged_drafts(_drafts(groups, others, taken), groups, others, folders, healthy)
    # What is too wide in common may hold for each wording by itself.
    narrower = [
        part
        for group, item in zip(groups, judged, strict=True)
        if item.problems
        for part in _by_wording(group)
        if len(part.incidents) >= _FEWEST
    ]
    passed = [item for item in judged if not item.problems]
    taken |= {item.id for item in passed}
    again = judged_drafts(_drafts(narrower, others, taken), narrower, others, folders, healthy)
    done = {identity for item in again for identity in item.incidents}
    failed = [item for item in judged if item.problems and not done.issuperset(item.incidents)]
    return tuple(sorted((*passed, *again, *failed), key=lambda item: bool(item.problems)))


def confirmed(store: Store) -> list[Incident]:
    """What people confirmed, without what ships with logdiag; the latest first."""
    return [item for item in store.list() if item.confirmed_by and not item.id.startswith(PREFIX)]


# --- what lines have in common ---


def _groups(incidents: Iterable[Incident]) -> list[Group]:
    """Incidents that share a shape, each in one group."""
    groups: list[Group] = []
    for incident in sorted(incidents, key=lambda item: (item.signature, item.id)):
        words = _words(incident.signature)
        for at, group in enumerate(groups):
            shape = _shared(group.shape, words)
            if shape:
                groups[at] = Group(shape, (*group.incidents, incident))
                break
        else:
            groups.append(Group(words, (incident,)))
    return groups


def _words(signature: str) -> tuple[str, ...]:
    """The words of a signature; one that was cut short loses its last."""
    words = signature.split(" ")
    return tuple(words[:-1] if len(signature) >= _LONGEST_SIGNATURE and len(words) > 1 else words)


def _shared(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...] | None:
    """The words that both have in the same order, with a gap where either has others between; None for too few, or
    where they differ in a number that masking kept, because it tells failures apart."""
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    shape: list[str] = []
    at = (0, 0)
    for start, start_other, size in matcher.get_matching_blocks():
        if _numbers(one[at[0] : start]) != _numbers(other[at[1] : start_other]):
            return None
        if (start, start_other) != at and shape and shape[-1] != _GAP:
            shape.append(_GAP)
        shape += one[start : start + size]
        at = (start + size, start_other + size)
    while shape and shape[-1] == _GAP:
        shape.pop()
    least = max(_SHARED * max(_letters(one), _letters(other)), _SHARED_LETTERS)
    return tuple(shape) if _letters(shape) >= least and any(_literal(word) for word in shape) else None


def _numbers(words: Iterable[str]) -> list[str]:
    return [number for word in words for number in re.findall(r"(?<![\w.])\d+(?![\w.])", MASK.sub("", word))]


def _by_wording(group: Group) -> list[Group]:
    """A group for each signature."""
    return [
        Group(_words(text), tuple(item for item in group.incidents if item.signature == text))
        for text in group.signatures
    ]


def _letters(words: Iterable[str]) -> int:
    """The letters of words, without the class of an exception, which every line of one reason may begin with."""
    return sum(sum(map(str.isalpha, MASK.sub("", word))) for word in words if not _CLASS.fullmatch(word))


def _literal(word: str) -> bool:
    """Whether a word has a part that the scan for many patterns can look for."""
    return bool(re.search(r"[A-Za-z_]{4}", MASK.sub(" ", word)))


# --- the rule ---


def _pattern(shape: Sequence[str]) -> str:
    """A pattern for a shape: words as they are, bounded classes for masks, up to 200 characters for a gap."""
    parts, before = [], _GAP
    for word in shape:
        if word == _GAP:
            parts.append(".{0,200}")
        else:
            parts.append((r"\s+" if before != _GAP else "") + _escaped(word))
        before = word
    pattern = "".join(parts)
    # A mask at either end says nothing.
    for mask, *_ in MASKS.values():
        pattern = pattern.removeprefix(mask + r"\s+").removesuffix(r"\s+" + mask)
    return pattern


def _escaped(word: str) -> str:
    pieces = []
    place = 0
    for match in MASK.finditer(word):
        pieces += [_plain(word[place : match.start()]), MASKS[match[0]][0]]
        place = match.end()
    return "".join([*pieces, _plain(word[place:])])


def _plain(text: str) -> str:
    return "".join(("\\" + sign if sign in r"\.^$*+?{}[]|()" else sign) if sign.isascii() else "." for sign in text)


def pattern_of(signature: str) -> str:
    """A pattern for one masked line, whole."""
    return _pattern(_words(signature))


def _drafts(groups: Iterable[Group], others: Sequence[Incident], taken: set[str]) -> list[Proposal]:
    drafts: list[Proposal] = []
    for group in groups:
        drafts.append(_draft(group, others, taken.union(item.id for item in drafts)))
    return drafts


def _draft(group: Group, others: Iterable[Incident], taken: set[str]) -> Proposal:
    """A rule file for a group; the words come from what people wrote about the incidents."""
    told = sorted(group.incidents, key=lambda item: (item.outcome is not Outcome.WORKED, item.id))
    cause = next((item.cause for item in told if item.cause), "")
    return rule_draft(
        group.incidents,
        _pattern(group.shape),
        title=re.split(r"(?<=[.!?])\s|:\s", cause)[0].rstrip(".") if cause else _title_of(group),
        why=cause or f"Seen before, and confirmed by {told[0].confirmed_by}.",
        fires=list(dict.fromkeys(example_of(text) for text in group.signatures))[:_MOST_FIRES],
        quiet=[example_of(text) for text in near_wordings(group, others)],
        taken=taken,
    )


def _title_of(group: Group) -> str:
    return " ".join(word for word in group.shape if word != _GAP and not MASK.search(word)) or "A known failure"


def near_wordings(group: Group, others: Iterable[Incident]) -> list[str]:
    """The wordings of other reasons that share most words with the group's."""
    words = {word for signature in group.signatures for word in signature.lower().split()}
    scored = {
        item.signature: len(words & set(item.signature.lower().split()))
        for item in others
        if item.reason is not group.incidents[0].reason
    }
    best = sorted(scored, key=lambda text: (-scored[text], text))
    return [text for text in best[:_MOST_QUIET] if scored[text] > 1]


# --- what is known already ---


def _known(book: RuleBook, group: Group) -> bool:
    """Whether a rule that is not a general one gives the group's reason already."""
    rules = {rule.id: rule for rule in book.rules}
    for signature in group.signatures:
        finding = book.confirm_all(parse_line(example_of(signature)))
        if finding is None or finding.role is not Role.CAUSE or finding.reason is not group.incidents[0].reason:
            return False
        rule = rules[finding.rule]
        in_table = finding.facts.get(rule.code_group or "", "") in rule.rows
        if finding.generality and not in_table:
            return False
    return True
