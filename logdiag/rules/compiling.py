"""What is made of rules once and kept: the three matchers of a book, and which rule is narrower than which."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from logdiag.errors import RuleError
from logdiag.model import Role
from logdiag.rules.book import RuleBook, example_line
from logdiag.rules.literals import scan_form
from logdiag.rules.matcher import Matcher
from logdiag.rules.schema import Filter, Rule

if TYPE_CHECKING:
    from logdiag.read.forms import Forms
    from logdiag.rules.files import Parsed

_CALM = (Role.PROGRESS, Role.HARMLESS)
# They say of any line what it is beside what rules make of it, and are nobody's rivals.
_BESIDE_THE_RULES = (Role.KIND, Role.CALL)

Narrower = dict[int, frozenset[int]]
"""For each rule those that are narrower: it matches their examples, and they match none of its own."""


def healthy_text(book: RuleBook) -> str:
    """What healthy jobs print, as the examples show it."""
    calm = [rule for rule, role in zip(book.rules, book.roles, strict=True) if role in _CALM]
    lines = [line for rule in calm for line in rule.fires]
    return "\n".join([*lines, *(line for item in book.filters for line in item.drops)])


def compiled_matchers(book: RuleBook, healthy: str) -> tuple[Matcher, ...]:
    """One for what is scanned for, one for what softens a line, one for regular output; `healthy` is text as healthy
    jobs print it, beside what the rules' own examples show."""
    files = {item.id: item.file or item.id for item in book.entries}
    texts = (f"{healthy}\n{healthy_text(book)}".lower(), "", "")
    return tuple(
        _compiled([(files[name], pattern) for name, pattern in keys], text)
        for keys, text in zip(_keys(book), texts, strict=True)
    )


def _keys(book: RuleBook) -> tuple[list[tuple[str, str]], ...]:
    """For each of the three matchers: the rule or filter and the pattern that each number stands for."""
    scanned, softening, progress = (
        [(book.rules[index].id, pattern) for index, pattern in patterns]
        for patterns in (book.scanned, book.softening, book.progress)
    )
    return scanned, softening, [*progress, *book.drops]


def _compiled(patterns: Sequence[tuple[str, str]], healthy: str) -> Matcher:
    """A matcher for (file, pattern) pairs; raises RuleError naming the file of a pattern that cannot be scanned for."""
    forms = [scan_form(pattern, healthy) for _, pattern in patterns]
    try:
        return Matcher.compile(forms)
    except ValueError as error:
        for (file, pattern), form in zip(patterns, forms, strict=True):
            try:
                Matcher.compile([form])
            except ValueError as own:
                raise RuleError(f"{file}: match: {pattern}: {own}; rewrite the pattern") from own
        raise RuleError(f"rules: match: {error}; rewrite the pattern") from error


def narrower_in(book: RuleBook) -> Narrower:
    """Who is narrower than whom in a book."""
    return _asymmetric([_claimed(book, index, book.matcher) for index in range(len(book.rules))])


def _claimed(book: RuleBook, index: int, matcher: Matcher) -> set[int]:
    """The other rules that match an example of a rule, of those whose patterns the matcher looks for."""
    found: set[int] = set()
    for example in book.rules[index].fires if book.roles[index] not in _BESIDE_THE_RULES else ():
        line, frames = example_line(example, book.forms)
        rivals = {book.scanned[number][0] for number in matcher.on(line.text)} - found - {index}
        found.update(other for other in rivals if book.claims(other, line, frames))
    return found


def _asymmetric(claimed: Sequence[Collection[int]]) -> Narrower:
    """Who is narrower than whom, from which others claim each rule's examples."""
    narrower: dict[int, set[int]] = {}
    for index, others in enumerate(claimed):
        for other in others:
            if index not in claimed[other]:
                narrower.setdefault(other, set()).add(index)
    return {other: frozenset(narrow) for other, narrow in narrower.items()}


def joined(shipped: RuleBook, own: Parsed, kept: Callable[[Rule | Filter], bool], forms: Forms | None) -> RuleBook:
    """The shipped rules, with their examples, that are `kept`, and one's own; only these are compiled."""
    alone = RuleBook(own.rules, own.filters, narrower={}, forms=forms, healthy=healthy_text(shipped))
    rules = [*filter(kept, shipped.rules), *own.rules]
    filters = [*filter(kept, shipped.filters), *own.filters]
    keys = _keys(RuleBook(rules, filters, narrower={}, matchers=[Matcher((), "")] * len(shipped.matchers)))
    matchers = []
    for at, named in enumerate(keys):
        numbers = {key: number for number, key in enumerate(named)}
        parts = [
            part
            for book in (shipped, alone)
            for part in book.matchers[at].renumbered([numbers.get(key) for key in _keys(book)[at]])
        ]
        matchers.append(Matcher(parts, shipped.matchers[at].name))
    reasons, confidence = own.reasons or shipped.reasons, own.confidence or shipped.confidence
    book = RuleBook(rules, filters, reasons, confidence, {}, matchers, forms)
    book.narrower = _narrower_of_joined(book, shipped, alone)
    return book


def _narrower_of_joined(book: RuleBook, shipped: RuleBook, alone: RuleBook) -> Narrower:
    """Who is narrower than whom: known among the shipped rules, and found for each pair with one's own in it."""
    index_of = {rule.id: index for index, rule in enumerate(book.rules)}
    own = {index_of[rule.id] for rule in alone.rules}
    numbers = {key: number for number, key in enumerate(_keys(book)[0])}
    ours = Matcher(alone.matcher.renumbered([numbers[key] for key in _keys(alone)[0]]), alone.matcher.name)
    claimed = [_claimed(book, index, book.matcher if index in own else ours) for index in range(len(book.rules))]
    found = {other: set(narrow) for other, narrow in _asymmetric(claimed).items()}
    # A shipped rule that one's own replaces is not there any more.
    place = {at: now for at, rule in enumerate(shipped.rules) if (now := index_of.get(rule.id, -1)) not in {-1, *own}}
    for other, narrow in shipped.narrower.items():
        if other in place:
            found.setdefault(place[other], set()).update(place[index] for index in narrow if index in place)
    return {other: frozenset(narrow) for other, narrow in found.items()}
