"""Loads the rule book: from what is kept of it if no file changed, else from the YAML files.

A wheel holds the shipped rules as they are kept. The user's own rules are parsed and compiled alone, and joined to
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from logdiag.model import Action, Reason, Support
from logdiag.read.forms import Forms, own_forms
from logdiag.rules.book import RuleBook
from logdiag.rules.folders import RuleFiles, own_files, shipped_folder
from logdiag.rules.matcher import Matcher
from logdiag.rules.schema import Filter, ReasonEntry, Rule
from logdiag.settings import cache as stored
from logdiag.settings.places import StrPath

# What is kept of a book: its plain values, and its matchers, which hold for one kind of machine only.
_RULES, _MATCHERS = "rules", "matchers"


def load(folders: Sequence[StrPath]) -> RuleBook:
    """The book for `RuleBook.load`. The shipped rules are read once a process, the user's own whenever they change."""
    own = own_files(folders)
    named = tuple(os.fspath(folder) for folder in folders)
    return (_kept_with(own.fingerprint(paths=True), named) if own.contents else _kept_shipped()).fresh()


@cache
def _kept_shipped() -> RuleBook:
    return _shipped_book(RuleFiles([shipped_folder()]))


@lru_cache(maxsize=2)
def _kept_with(own_fingerprint: bytes, folders: tuple[str, ...]) -> RuleBook:
    """The book of the shipped rules and of the user's own in `folders`, whose fingerprint is the key of the cache."""
    shipped, own = RuleFiles([shipped_folder()]), own_files(folders)
    origin = shipped.fingerprint() + own_fingerprint
    return _kept(origin, partial(_with_own, shipped, own, folders), own_forms(folders))


def _with_own(shipped: RuleFiles, own: RuleFiles, folders: Sequence[StrPath]) -> RuleBook:
    """Own rules replace shipped ones of the same id, own files all rules of a shipped file of the same path."""
    from logdiag.rules.compiling import joined
    from logdiag.rules.files import parse

    parsed = parse(own)
    named = {item.id for entries in (parsed.rules, parsed.filters) for item in entries}
    replaced = {os.path.join(shipped_folder(), *name.split("/")) for name in own.contents}

    def kept(item: Rule | Filter) -> bool:
        return item.id not in named and os.path.splitext(item.file)[0] not in replaced

    return joined(_shipped_book(shipped), parsed, kept, own_forms(folders))


def _shipped_book(shipped: RuleFiles) -> RuleBook:
    return _kept(shipped.fingerprint(), partial(_parsed, shipped))


def _parsed(files: RuleFiles) -> RuleBook:
    from logdiag.rules.files import parse

    return RuleBook(*parse(files))


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
    return (
        entry.action.value,
        early and early.value,
        tuple(reason.value for reason in entry.explains),
        words,
        *entry[4:],
    )


def _entry(
    action: str, early: str | None, explains: Sequence[str], words: Mapping[str, str], *others: Any
) -> ReasonEntry:
    """An entry from its plain values."""
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
