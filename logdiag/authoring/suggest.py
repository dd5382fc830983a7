"""Proposes rules from confirmed incidents, with the words that their lines share as the pattern; and drafts a rule from
one line, for a person to finish.

A proposal has passed `logdiag rules test`, and fires on its incidents, on none of another reason and on no healthy log.
Stored lines are masked, so its examples have made-up values in place of the masks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from logdiag.authoring.gate import judged_drafts
from logdiag.authoring.rule_file import MASKS, Proposal, as_title, as_yaml, example_of, examples_of, free_id, rule_draft
from logdiag.errors import RuleError
from logdiag.judge.suspects.line_features import body_of
from logdiag.judge.suspects.wording import reasons_by_wording
from logdiag.memory.embedding import MASK
from logdiag.memory.incident import Helped, Incident, masked
from logdiag.memory.store import Store
from logdiag.model import Reason, Role
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook
from logdiag.settings.places import StrPath

_FEWEST = 2
# Two lines belong together when they share this much of the longer one's letters, and so many letters at least.
_SHARED = 0.6
_SHARED_LETTERS = 12
_MOST_QUIET = 3
_LONGEST_SIGNATURE = 400

_WHY = "Say in a sentence what happened, and what it makes others do."
_FEWEST_LETTERS = 4

_GAP = ""
_CLASS = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Warning|Interrupt|Exit):?")


class _Group(NamedTuple):
    """Incidents of one reason whose lines share `shape`: words, with `_GAP` where lines differ."""

    shape: tuple[str, ...]
    incidents: tuple[Incident, ...]


def suggest(
    store: Store,
    *,
    reason: Reason | None = None,
    folders: Sequence[StrPath] = (),
    healthy: Sequence[StrPath] = (),
) -> tuple[Proposal, ...]:
    """A rule for each kind of line that two or more confirmed incidents of one reason share and no narrow rule knows.

    `folders` are further rules in force, `healthy` logs on which nothing may fire. Raises LogdiagError.
    """
    confirmed = store.confirmed()
    known = [*confirmed, *store.shipped]
    book = RuleBook.load(folders)
    taken = {rule.id for rule in book.rules}

    def proposed(groups: Sequence[_Group]) -> list[Proposal]:
        judged = judged_drafts([_draft(group, known, taken) for group in groups], known, folders, healthy)
        taken.difference_update(item.id for item in judged if item.problems)
        return judged

    wanted = [item for item in confirmed if item.reason is not Reason.NONE and reason in (None, item.reason)]
    groups = [item for item in _groups(wanted) if len(item.incidents) >= _FEWEST and not _is_known(book, item)]
    judged = proposed(groups)
    # Where the shared words of a group are too general, each of its wordings gets a rule of its own.
    too_wide = [group for group, item in zip(groups, judged, strict=True) if item.problems]
    again = proposed(_by_wording([incident for group in too_wide for incident in group.incidents]))
    done = {identity for item in again for identity in item.incidents}
    first = [item for item in judged if not item.problems or not done.issuperset(item.incidents)]
    return tuple(sorted((*first, *again), key=lambda item: bool(item.problems)))


def _by_wording(incidents: Iterable[Incident]) -> list[_Group]:
    wordings: dict[tuple[Reason, str], list[Incident]] = {}
    for incident in incidents:
        wordings.setdefault((incident.reason, incident.signature), []).append(incident)
    groups = [_Group(_whole_words(signature), tuple(same)) for (_, signature), same in wordings.items()]
    return [group for group in groups if len(group.incidents) >= _FEWEST]


# --- what lines have in common ---


def _groups(incidents: Iterable[Incident]) -> list[_Group]:
    """The incidents in groups of one reason that share a shape; each is in one group."""
    groups: list[_Group] = []
    for incident in sorted(incidents, key=lambda item: (item.signature, item.id)):
        words = _whole_words(incident.signature)
        for index, group in enumerate(groups):
            if group.incidents[0].reason is incident.reason and (shape := _shared(group.shape, words)):
                groups[index] = _Group(shape, (*group.incidents, incident))
                break
        else:
            groups.append(_Group(words, (incident,)))
    return groups


def _whole_words(signature: str) -> tuple[str, ...]:
    """The words of a signature; one that was cut short loses its last."""
    words = signature.split(" ")
    return tuple(words[:-1] if len(signature) >= _LONGEST_SIGNATURE and len(words) > 1 else words)


def _shared(words: Sequence[str], other_words: Sequence[str]) -> tuple[str, ...] | None:
    """The words that both have in the same order, with a gap where either has others between. None if these are too
    few, or if the two differ in a number that masking kept because it tells failures apart."""
    matcher = SequenceMatcher(None, words, other_words, autojunk=False)
    shape: list[str] = []
    end, other_end = 0, 0
    for start, other_start, size in matcher.get_matching_blocks():
        if _numbers(words[end:start]) != _numbers(other_words[other_end:other_start]):
            return None
        if (start, other_start) != (end, other_end) and shape and shape[-1] != _GAP:
            shape.append(_GAP)
        shape += words[start : start + size]
        end, other_end = start + size, other_start + size
    while shape and shape[-1] == _GAP:
        shape.pop()
    least = max(_SHARED * max(_letters(words), _letters(other_words)), _SHARED_LETTERS)
    # The scan for many patterns needs letters to look for.
    literal = any(re.search(r"[A-Za-z_]{4}", MASK.sub(" ", word)) for word in shape)
    return tuple(shape) if literal and _letters(shape) >= least else None


def _numbers(words: Iterable[str]) -> list[str]:
    return [number for word in words for number in re.findall(r"(?<![\w.])\d+(?![\w.])", MASK.sub("", word))]


def _letters(words: Iterable[str]) -> int:
    """The letters of words, without the class of an exception, which every line of one reason may begin with."""
    return sum(sum(map(str.isalpha, MASK.sub("", word))) for word in words if not _CLASS.fullmatch(word))


# --- the rule ---


def _pattern(shape: Sequence[str]) -> str:
    """A pattern for a shape: words as they are, bounded classes for masks, up to 200 characters for a gap."""
    pattern, before = "", _GAP
    for word in shape:
        pattern += ".{0,200}" if word == _GAP else "" if before == _GAP else r"\s+"
        end = 0
        for match in MASK.finditer(word):
            pattern += _escaped_text(word[end : match.start()]) + MASKS[match[0]][0]
            end = match.end()
        pattern += _escaped_text(word[end:])
        before = word
    # A mask at either end adds nothing to the pattern.
    for mask, *_ in MASKS.values():
        pattern = pattern.removeprefix(mask + r"\s+").removesuffix(r"\s+" + mask)
    return pattern


def _escaped_text(text: str) -> str:
    return "".join(("\\" + sign if sign in r"\.^$*+?{}[]|()" else sign) if sign.isascii() else "." for sign in text)


def _draft(group: _Group, known: Iterable[Incident], taken: set[str]) -> Proposal:
    """The proposed rule of a group; title and explanation come from the causes that people wrote."""
    ordered = sorted(group.incidents, key=lambda item: (item.outcome is not Helped.WORKED, item.id))
    cause = next((item.cause for item in ordered if item.cause), "")
    title = " ".join(word for word in group.shape if word != _GAP and not MASK.search(word)) or "A known failure"
    return rule_draft(
        group.incidents,
        _pattern(group.shape),
        title=re.split(r"(?<=[.!?])\s|:\s", cause)[0].rstrip(".") if cause else title,
        why=cause or f"Seen before, and confirmed by {ordered[0].confirmed_by}.",
        quiet=near_wordings(group.incidents, known),
        taken=taken,
    )


def near_wordings(incidents: Sequence[Incident], known: Iterable[Incident]) -> list[str]:
    """Example lines of the known incidents of other reasons that share most words with these, which are of one."""
    words = {word for item in incidents for word in item.signature.lower().split()}
    scored = {
        item.signature: len(words & set(item.signature.lower().split()))
        for item in known
        if item.reason is not incidents[0].reason
    }
    best = sorted(scored, key=lambda text: (-scored[text], text))
    return [example_of(text) for text in best[:_MOST_QUIET] if scored[text] > 1]


def _is_known(book: RuleBook, group: _Group) -> bool:
    """Whether narrow rules give the group's reason on all its examples already."""
    rules = {rule.id: rule for rule in book.rules}
    for example in examples_of(group.incidents):
        finding = book.confirm_all(parse_line(example))
        if finding is None or finding.role is not Role.CAUSE or finding.reason is not group.incidents[0].reason:
            return False
        rule = rules[finding.rule]
        if finding.generality and finding.facts.get(rule.code_group or "", "") not in rule.rows:
            return False
    return True


# --- from a line ---


def new_rule(text: str, book: RuleBook, reason: Reason | None = None) -> tuple[str, str]:
    """The id and the YAML text of a rule that fires on a line. Without a reason it is guessed, from the rule that fires
    today or from the line's words. Raises RuleError for a line without words."""
    line = parse_line(text.strip())
    signature = masked(line)
    if not re.search(rf"[A-Za-z_]{{{_FEWEST_LETTERS}}}", signature):
        raise RuleError(f"{text!r}: holds no word of {_FEWEST_LETTERS} letters to know it by; give the whole line")
    pattern = _pattern(_whole_words(signature))
    if not re.search(pattern, line.message):
        pattern = re.escape(line.message)
    if reason is None:
        finding = book.confirm_all(line)
        by_words = next((found for found, _ in reasons_by_wording(body_of(line))), Reason.OTHERS)
        named = finding is not None and not finding.role.is_context and finding.reason is not Reason.OTHERS
        reason = finding.reason if finding and named else by_words
    document = {
        "reason": reason.value,
        "title": as_title(line.message),
        "why": _WHY,
        "match": [pattern],
        "examples": {"fires": [line.text]},
    }
    identity = free_id(re.sub(r"<\w+>|\d+", " ", signature), {rule.id for rule in book.rules})
    return identity, as_yaml(document)
