"""Makes the rule book: from what is kept of it if no file changed, else from the YAML files, compiled and kept anew.

A wheel holds the shipped rules as they are kept. The user's own rules are parsed and compiled alone, and joined to
them.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from logdiag.errors import RuleError
from logdiag.model import Action, Reason, Role, Support
from logdiag.read.forms import Forms, own_forms
from logdiag.rules.book import RuleBook, example_line
from logdiag.rules.folders import RuleFiles, shipped_folder
from logdiag.rules.matcher import Matcher, Part
from logdiag.rules.schema import Filter, ReasonEntry, Rule
from logdiag.settings import cache as stored
from logdiag.settings.places import StrPath

# What is kept of a book: its plain values, and its matchers, which hold for one kind of machine only.
_RULES, _MATCHERS = "rules", "matchers"
# Rules of these roles describe a line beside other rules, so they are not compared with them.
_BESIDE_THE_RULES = (Role.KIND, Role.CALL, Role.PROCESS)


def load(folders: Sequence[StrPath]) -> RuleBook:
    """The book for `RuleBook.load`. The shipped rules are read once a process, the user's own whenever they change."""
    own = RuleFiles(folders)
    named = tuple(os.fspath(folder) for folder in folders) if own.contents else ()
    return _book_with(own.fingerprint(paths=True), named).fresh()


@lru_cache(maxsize=3)
def _book_with(own_fingerprint: bytes, folders: tuple[str, ...]) -> RuleBook:
    """The book of the shipped rules and of the user's own in `folders`, whose fingerprint is the key of the cache."""
    shipped, own = RuleFiles([shipped_folder()]), RuleFiles(folders)
    if not folders:
        return _shipped_book(shipped)
    origin = shipped.fingerprint() + own_fingerprint
    return _kept(origin, partial(_with_own, shipped, own, folders), own_forms(folders))


def _shipped_book(shipped: RuleFiles) -> RuleBook:
    def parsed() -> RuleBook:
        from logdiag.rules.files import parse

        return RuleBook(*parse(shipped))

    return _kept(shipped.fingerprint(), parsed)


def _with_own(shipped: RuleFiles, own: RuleFiles, folders: Sequence[StrPath]) -> RuleBook:
    """Own rules replace shipped ones of the same id, own files all rules of a shipped file of the same path. Only own
    patterns are compiled."""
    from logdiag.rules.files import parse

    book, parsed = _shipped_book(shipped), parse(own)
    named = {*(rule.id for rule in parsed.rules), *(item.id for item in parsed.filters)}
    replaced = {os.path.join(shipped_folder(), *name.split("/")) for name in own.contents}

    def kept(item: Rule | Filter) -> bool:
        return item.id not in named and os.path.splitext(item.file)[0] not in replaced

    rules = [*filter(kept, book.rules), *parsed.rules]
    filters = [*filter(kept, book.filters), *parsed.filters]
    not_compiled = [Matcher((), "")] * len(book.matchers)
    both = RuleBook(rules, filters, narrower={}, matchers=not_compiled)
    alone = RuleBook(parsed.rules, parsed.filters, narrower={}, matchers=not_compiled)
    parts: list[list[Part]] = [[] for _ in not_compiled]
    for part_of, matchers in ((book, book.matchers), (alone, compiled_matchers(alone, healthy_text(both)))):
        for found, matcher, keys, keys_of_both in zip(parts, matchers, _keys(part_of), _keys(both), strict=True):
            numbers = {key: number for number, key in enumerate(keys_of_both)}
            found += matcher.renumbered([numbers.get(key) for key in keys])
    matchers = [Matcher(found, book.matcher.name) for found in parts]
    reasons, confidence = parsed.reasons or book.reasons, parsed.confidence or book.confidence
    words = words_of(both, known=book)
    return RuleBook(rules, filters, reasons, confidence, None, matchers, own_forms(folders), words)


def _keys(book: RuleBook) -> list[list[tuple[str, str]]]:
    """For each of a book's matchers: the id of the rule or filter and the pattern that each number stands for."""
    return [[(book.entries[index].id, pattern) for index, pattern in patterns] for patterns in book.groups]


# --- what is kept ---


def _kept(origin: bytes, make: Callable[[], RuleBook], forms: Forms | None = None) -> RuleBook:
    """The book that was made of files with these fingerprints. What is not kept of it is made, and kept."""
    made_by = Matcher.made_by() + origin
    plain, dumped = stored.read(_RULES, origin), stored.read(_MATCHERS, made_by)
    matchers = [matcher for parts in dumped or () if (matcher := Matcher.restore(parts))]
    if plain is not None and matchers:
        return _from_plain(plain, matchers, forms)
    book = make() if plain is None else _from_plain(plain, None, forms)
    if plain is None:
        stored.write(_RULES, origin, _plain(book))
    compiled = [matcher.dumped for matcher in book.matchers]
    if None not in compiled:
        stored.write(_MATCHERS, made_by, compiled)
    return book


def _plain(book: RuleBook) -> dict[str, Any]:
    """A book as values that marshal writes, but for its matchers. The files of shipped rules are named from their
    folder, which lies elsewhere where a wheel is installed."""

    def tuple_of(item: Rule | Filter) -> tuple[Any, ...]:
        return (*item[:-1], os.path.relpath(item.file, shipped_folder()) if item.shipped else item.file)

    return {
        "rules": list(map(tuple_of, book.rules)),
        "filters": list(map(tuple_of, book.filters)),
        "reasons": {reason.value: _plain_entry(entry) for reason, entry in book.reasons.items()},
        "confidence": {support.value: weight for support, weight in book.confidence.items()},
        "narrower": {index: sorted(others) for index, others in book.narrower.items()},
        "words": book.words,
    }


def _plain_entry(entry: ReasonEntry) -> tuple[Any, ...]:
    early, words = entry.action_before_progress, {kind: action.value for kind, action in entry.by_words.items()}
    explains = tuple(reason.value for reason in entry.explains)
    return (entry.action.value, early and early.value, explains, words, *entry[4:])


def _entry(
    action: str, early: str | None, explains: Sequence[str], words: Mapping[str, str], *others: Any
) -> ReasonEntry:
    by_words = {kind: Action(told) for kind, told in words.items()}
    return ReasonEntry(
        Action(action), Action(early) if early else None, tuple(map(Reason, explains)), by_words, *others
    )


def _from_plain(plain: dict[str, Any], matchers: Sequence[Matcher] | None, forms: Forms | None) -> RuleBook:
    folder = shipped_folder()
    return RuleBook(
        [Rule._make([*values, os.path.join(folder, file)]) for *values, file in plain["rules"]],
        [Filter._make([*values, os.path.join(folder, file)]) for *values, file in plain["filters"]],
        {Reason(name): _entry(*values) for name, values in plain["reasons"].items()},
        {Support(name): weight for name, weight in plain["confidence"].items()},
        {index: frozenset(others) for index, others in plain["narrower"].items()},
        matchers,
        forms,
        plain["words"],
    )


# --- what is computed of the rules ---


def healthy_text(book: RuleBook) -> str:
    """The examples of calm rules and of filters, as text that healthy jobs print."""
    calm = [rule for rule, role in zip(book.rules, book.roles, strict=True) if role.is_calm]
    lines = [line for rule in calm for line in rule.fires]
    return "\n".join([*lines, *(line for item in book.filters for line in item.drops)])


def compiled_matchers(book: RuleBook, healthy: str) -> list[Matcher]:
    """A matcher for each of a book's groups of patterns. `healthy` is text that healthy jobs print."""
    return [_compiled(book, *group) for group in zip(book.groups, (healthy.lower(), "", ""), strict=True)]


def _compiled(book: RuleBook, patterns: Sequence[tuple[int, str]], healthy: str) -> Matcher:
    """A matcher for patterns of a book; raises RuleError naming the file of one that cannot be scanned for."""
    from logdiag.rules.literals import scan_form

    forms = [scan_form(pattern, healthy) for _, pattern in patterns]
    try:
        return Matcher.compile(forms)
    except ValueError as error:
        for (index, pattern), form in zip(patterns, forms, strict=True):
            try:
                Matcher.compile([form])
            except ValueError as own:
                file = book.entries[index].file or book.entries[index].id
                raise RuleError(f"{file}: match: {pattern}: {own}; rewrite the pattern") from own
        raise RuleError(f"rules: match: {error}; rewrite the pattern") from error


def words_of(book: RuleBook, known: RuleBook | None = None) -> tuple[bytes, ...]:
    """The words that a line's shape must hold for a book's scanned patterns to fire, packed by `marshal`: with its
    hexadecimal numbers, and without them. Those of patterns that the book `known` has too are taken from there."""
    from logdiag.rules.literals import Needed, needed_for

    patterns, packed = [pattern for _, pattern in book.scanned], list[bytes]()
    for hex in (False, True):
        there = Needed(*marshal.loads(known.words[hex])) if known else Needed([], [], [])
        by_pattern = there.by_pattern([pattern for _, pattern in known.scanned] if known else [])
        packed.append(marshal.dumps(tuple(needed_for(patterns, hex=hex, known=by_pattern)), stored.MARSHAL))
    return tuple(packed)


def narrower_in(book: RuleBook) -> dict[int, frozenset[int]]:
    """For each rule of a book the narrower ones: the rule matches their examples, and they match none of the rule's."""
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
