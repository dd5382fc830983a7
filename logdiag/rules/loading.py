"""Loads the rule book: compiled from the wheel or the cache if no file changed, else from the YAML files.

A wheel holds the shipped rules compiled. The user's own rules are parsed and compiled alone, and joined to them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from logdiag.model import Action, Reason, Support
from logdiag.read.forms import Forms, compile_forms, own_forms
from logdiag.rules.book import RuleBook
from logdiag.rules.folders import RuleFiles, compiled_part, keep_compiled, own_files, shipped_folder
from logdiag.rules.matcher import Matcher
from logdiag.rules.schema import Filter, ReasonEntry, Rule
from logdiag.settings import cache as stored
from logdiag.settings.places import StrPath

_COMPILED = "rules"


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
    origin = Matcher.made_by() + shipped.fingerprint() + own_fingerprint
    book = _restored(stored.read(_COMPILED, origin), own_forms(folders))
    if book is None:
        book = _with_own(shipped, own, folders)
        _keep(book, origin)
    return book


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


def compile_shipped(folder: StrPath) -> None:
    """Writes the shipped rules and log forms compiled into a folder, which a wheel holds as `data/compiled`."""
    shipped = RuleFiles([shipped_folder()])
    keep_compiled(folder, _COMPILED, shipped.fingerprint(), *_plain(_parsed(shipped)), Matcher.made_by())
    compile_forms(folder)


def _shipped_book(shipped: RuleFiles) -> RuleBook:
    """The book of the shipped rules: from the wheel, else from the cache, else from the files."""
    fingerprint, made_by = shipped.fingerprint(), Matcher.made_by()
    compiled = compiled_part(_COMPILED, fingerprint)
    book = _restored(compiled[:2]) if compiled and compiled[2] == made_by else None
    book = book or _restored(stored.read(_COMPILED, made_by + fingerprint))
    if book is None:
        # A wheel for another kind of machine still saves reading the YAML files.
        book = _from_plain(compiled[0], None, None) if compiled else _parsed(shipped)
        _keep(book, made_by + fingerprint)
    return book


def _parsed(files: RuleFiles) -> RuleBook:
    from logdiag.rules.files import parse

    return RuleBook(*parse(files))


def _keep(book: RuleBook, origin: bytes) -> None:
    plain, matchers = _plain(book)
    if None not in matchers:
        stored.write(_COMPILED, origin, (plain, matchers))


def _plain(book: RuleBook) -> tuple[dict[str, Any], list[Any]]:
    """A book as values that marshal writes, and its three matchers; for `_restored`. The files of shipped rules are
    named from their folder, which lies elsewhere where a wheel is installed."""

    def tuple_of(item: Rule | Filter) -> tuple[Any, ...]:
        return (*item[:-1], os.path.relpath(item.file, shipped_folder()) if item.shipped else item.file)

    plain = {
        "rules": list(map(tuple_of, book.rules)),
        "filters": list(map(tuple_of, book.filters)),
        "reasons": {reason.value: _plain_entry(entry) for reason, entry in book.reasons.items()},
        "confidence": {support.value: weight for support, weight in book.confidence.items()},
        "narrower": {index: sorted(others) for index, others in book.narrower.items()},
        "words": book.words,
    }
    return plain, [matcher.dumped for matcher in book.matchers]


def _plain_entry(entry: ReasonEntry) -> tuple[Any, ...]:
    early = entry.action_before_progress
    return entry.action.value, early and early.value, tuple(reason.value for reason in entry.explains), *entry[3:]


def _entry(action: str, early: str | None, explains: Sequence[str], *others: Any) -> ReasonEntry:
    """An entry from its plain values."""
    return ReasonEntry(Action(action), Action(early) if early else None, tuple(map(Reason, explains)), *others)


def _restored(cached: Any | None, forms: Forms | None = None) -> RuleBook | None:
    """A book from its cached values; None without them, or if the matchers are for another kind of machine."""
    if cached is None:
        return None
    plain, dumped = cached
    matchers = [matcher for parts in dumped if parts is not None and (matcher := Matcher.restore(parts))]
    return _from_plain(plain, matchers, forms) if len(matchers) == len(dumped) else None


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
