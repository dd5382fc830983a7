"""Proposes rules from confirmed incidents: what those of one reason have in common becomes a pattern; and drafts one
from a line, for a person to go on with.

A proposal passed `logdiag rules test`, and fires on its incidents, on none of another reason and on no healthy log.
Stored lines are masked, so its examples have made-up values in place of the masks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from logdiag.authoring.gate import MASKS, example_of, judged_drafts
from logdiag.authoring.rule_file import Proposal, as_yaml, free_id, headline, rule_draft
from logdiag.errors import RuleError
from logdiag.judge.suspects.line_features import body_of
from logdiag.judge.suspects.wording import reasons_by_wording
from logdiag.memory.incident import Helped, Incident, masked
from logdiag.memory.store import Store
from logdiag.memory.tokenizer import MASK
from logdiag.model import Line, Reason, Role
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook
from logdiag.settings.places import StrPath

_FEWEST = 2
# Two lines belong together when they share this much of the longer one's letters, and so many letters at least.
_SHARED = 0.6
_SHARED_LETTERS = 12
_MOST_FIRES = 6
_MOST_QUIET = 3
_LONGEST_SIGNATURE = 400

_WHY = "Say in a sentence what happened, and what it makes others do."
_FEWEST_LETTERS = 4

_GAP = ""
_CLASS = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Warning|Interrupt|Exit):?")


@dataclass(frozen=True, slots=True)
class _Group:
    """Incidents of one reason whose lines have `shape` in common: words, and gaps between them."""

    shape: tuple[str, ...]
    incidents: tuple[Incident, ...]

    @property
    def examples(self) -> list[str]:
        """A line for each wording."""
        return list(dict.fromkeys(example_of(item.signature) for item in self.incidents))


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
    own = store.confirmed()
    known = [*own, *store.shipped]
    book = RuleBook.load(folders)
    taken = {rule.id for rule in book.rules}

    def proposed(groups: Sequence[_Group]) -> list[Proposal]:
        judged = judged_drafts([_draft(group, known, taken) for group in groups], known, folders, healthy)
        taken.difference_update(item.id for item in judged if item.problems)
        return judged

    reasons = [each for each in dict.fromkeys(item.reason for item in own) if each is not Reason.NONE]
    groups = [group for each in reasons if reason in (None, each) for group in _unknown(own, each, book)]
    judged = proposed(groups)
    # What is too wide in common may hold for each wording by itself.
    too_wide = [group for group, item in zip(groups, judged, strict=True) if item.problems]
    again = proposed(_by_wording([incident for group in too_wide for incident in group.incidents]))
    done = {identity for item in again for identity in item.incidents}
    first = [item for item in judged if not item.problems or not done.issuperset(item.incidents)]
    return tuple(sorted((*first, *again), key=lambda item: bool(item.problems)))


def _unknown(own: Sequence[Incident], reason: Reason, book: RuleBook) -> list[_Group]:
    """What enough incidents of a reason have in common and no rule knows."""
    groups = _groups([item for item in own if item.reason is reason])
    return [group for group in groups if len(group.incidents) >= _FEWEST and not _is_known(book, group)]


def _by_wording(incidents: Iterable[Incident]) -> list[_Group]:
    """Those that say the very same, where there are enough."""
    wordings: dict[tuple[Reason, str], list[Incident]] = {}
    for incident in incidents:
        wordings.setdefault((incident.reason, incident.signature), []).append(incident)
    return [_Group(_whole_words(said), tuple(them)) for (_, said), them in wordings.items() if len(them) >= _FEWEST]


# --- what lines have in common ---


def _groups(incidents: Iterable[Incident]) -> list[_Group]:
    """Incidents that share a shape, each in one group."""
    groups: list[_Group] = []
    for incident in sorted(incidents, key=lambda item: (item.signature, item.id)):
        words = _whole_words(incident.signature)
        for at, group in enumerate(groups):
            shape = _shared(group.shape, words)
            if shape:
                groups[at] = _Group(shape, (*group.incidents, incident))
                break
        else:
            groups.append(_Group(words, (incident,)))
    return groups


def _whole_words(signature: str) -> tuple[str, ...]:
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


def _draft(group: _Group, known: Iterable[Incident], taken: set[str]) -> Proposal:
    """A rule file for a group; the words come from what people wrote about the incidents."""
    told = sorted(group.incidents, key=lambda item: (item.outcome is not Helped.WORKED, item.id))
    cause = next((item.cause for item in told if item.cause), "")
    title = " ".join(word for word in group.shape if word != _GAP and not MASK.search(word)) or "A known failure"
    return rule_draft(
        group.incidents,
        _pattern(group.shape),
        title=re.split(r"(?<=[.!?])\s|:\s", cause)[0].rstrip(".") if cause else title,
        why=cause or f"Seen before, and confirmed by {told[0].confirmed_by}.",
        fires=group.examples[:_MOST_FIRES],
        quiet=near_wordings(group.incidents, known),
        taken=taken,
    )


def near_wordings(incidents: Sequence[Incident], known: Iterable[Incident]) -> list[str]:
    """A line for each of the known wordings of other reasons that share most words with incidents of one reason."""
    words = {word for item in incidents for word in item.signature.lower().split()}
    scored = {
        item.signature: len(words & set(item.signature.lower().split()))
        for item in known
        if item.reason is not incidents[0].reason
    }
    best = sorted(scored, key=lambda text: (-scored[text], text))
    return [example_of(text) for text in best[:_MOST_QUIET] if scored[text] > 1]


def _is_known(book: RuleBook, group: _Group) -> bool:
    """Whether a rule that is not a general one gives the group's reason already."""
    rules = {rule.id: rule for rule in book.rules}
    for example in group.examples:
        finding = book.confirm_all(parse_line(example))
        if finding is None or finding.role is not Role.CAUSE or finding.reason is not group.incidents[0].reason:
            return False
        rule = rules[finding.rule]
        if finding.generality and finding.facts.get(rule.code_group or "", "") not in rule.rows:
            return False
    return True


# --- from a line ---


def new_rule(text: str, book: RuleBook, reason: Reason | None = None) -> tuple[str, str]:
    """The id and the file of a rule that fires on a line. Without a reason it is guessed, by the rule that fires today
    or by the line's words. Raises RuleError for a line without words."""
    line = parse_line(text.strip())
    signature = masked(line)
    if not re.search(rf"[A-Za-z_]{{{_FEWEST_LETTERS}}}", signature):
        raise RuleError(f"{text!r}: holds no word of {_FEWEST_LETTERS} letters to know it by; give the whole line")
    pattern = _pattern(_whole_words(signature))
    if not re.search(pattern, line.message):
        pattern = re.escape(line.message)
    document = {
        "reason": (reason or _guessed(line, book)).value,
        "title": headline(line.message),
        "why": _WHY,
        "match": [pattern],
        "examples": {"fires": [line.text]},
    }
    identity = free_id(re.sub(r"<\w+>|\d+", " ", signature), {rule.id for rule in book.rules})
    return identity, as_yaml(document)


def _guessed(line: Line, book: RuleBook) -> Reason:
    finding = book.confirm_all(line)
    if finding is not None and not finding.role.is_context and finding.reason is not Reason.OTHERS:
        return finding.reason
    return next((found for found, _ in reasons_by_wording(body_of(line))), Reason.OTHERS)
