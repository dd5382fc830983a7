"""Computes what is cached of a rule book: its three matchers, and which rules are narrower than which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from logdiag.errors import RuleError
from logdiag.model import Role
from logdiag.rules.book import RuleBook, example_line
from logdiag.rules.literals import scan_form
from logdiag.rules.matcher import Matcher, Part
from logdiag.rules.schema import Filter, Rule

if TYPE_CHECKING:
    from logdiag.read.forms import Forms
    from logdiag.rules.files import Parsed

# Rules of these roles describe a line beside other rules, so they are not compared with them.
_BESIDE_THE_RULES = (Role.KIND, Role.CALL, Role.PROCESS)

Narrower = dict[int, frozenset[int]]
"""For each rule the narrower ones: the rule matches their examples, and they match none of the rule's."""


def healthy_text(book: RuleBook) -> str:
    """The examples of calm rules and of filters, as text that healthy jobs print."""
    calm = [rule for rule, role in zip(book.rules, book.roles, strict=True) if role.is_calm]
    lines = [line for rule in calm for line in rule.fires]
    return "\n".join([*lines, *(line for item in book.filters for line in item.drops)])


def compiled_matchers(book: RuleBook, healthy: str) -> tuple[Matcher, ...]:
    """Three matchers: of the scanned patterns, of those that soften a line, and of regular output. `healthy` is text
    that healthy jobs print."""
    files = {item.id: item.file or item.id for item in book.entries}
    texts = (healthy.lower(), "", "")
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
    """The narrower rules of each rule in a book, by which rules match the examples of which."""
    matching = [_others_matching(book, index) for index in range(len(book.rules))]
    narrower: dict[int, set[int]] = {}
    for index, others in enumerate(matching):
        for other in others:
            if index not in matching[other]:
                narrower.setdefault(other, set()).add(index)
    return {other: frozenset(narrow) for other, narrow in narrower.items()}


def _others_matching(book: RuleBook, index: int) -> set[int]:
    """The other rules that match an example of a rule."""
    found: set[int] = set()
    for example in book.rules[index].fires if book.roles[index] not in _BESIDE_THE_RULES else ():
        line, frames = example_line(example, book.forms)
        rivals = {book.scanned[number][0] for number in book.matcher.on(line.text)} - found - {index}
        found.update(other for other in rivals if book.claims(other, line, frames))
    return found


def joined(shipped: RuleBook, own: Parsed, kept: Callable[[Rule | Filter], bool], forms: Forms | None) -> RuleBook:
    """A book of the shipped rules for which `kept` is true and of the user's own; only own patterns are compiled."""
    rules = [*filter(kept, shipped.rules), *own.rules]
    filters = [*filter(kept, shipped.filters), *own.filters]
    not_compiled = [Matcher((), "")] * len(shipped.matchers)
    both = RuleBook(rules, filters, narrower={}, matchers=not_compiled)
    alone = RuleBook(own.rules, own.filters, narrower={}, matchers=not_compiled)
    parts: list[list[Part]] = [[] for _ in not_compiled]
    for book, matchers in ((shipped, shipped.matchers), (alone, compiled_matchers(alone, healthy_text(both)))):
        for found, matcher, keys, keys_of_both in zip(parts, matchers, _keys(book), _keys(both), strict=True):
            numbers = {key: number for number, key in enumerate(keys_of_both)}
            found += matcher.renumbered([numbers.get(key) for key in keys])
    name = shipped.matcher.name
    reasons, confidence = own.reasons or shipped.reasons, own.confidence or shipped.confidence
    return RuleBook(rules, filters, reasons, confidence, None, [Matcher(found, name) for found in parts], forms)
