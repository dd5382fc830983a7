"""The rule book in force: from what was compiled before where nothing changed, else from the YAML files.

A wheel holds the shipped rules compiled. Rules of one's own are parsed and compiled alone and joined to them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from logdiag import cache as stored
from logdiag.model import Reason, Support
from logdiag.read.forms import Forms, compile_forms, own_forms
from logdiag.rules.book import RuleBook, asymmetric
from logdiag.rules.folders import Folder, RuleFiles, compiled_part, keep_compiled, own_files, shipped_folder
from logdiag.rules.matcher import Matcher
from logdiag.rules.schema import Filter, ReasonEntry, Rule, proof_of, to_plain

if TYPE_CHECKING:
    from logdiag.rules.files import Parsed

__all__ = ["compile_shipped", "load"]

_Proved = TypeVar("_Proved", Rule, Filter)
_MATCHERS = 3
_COMPILED, _PROOF_FILE = "rules", "proof"


def load(folders: Sequence[Folder], *, proof: bool) -> RuleBook:
    """What `RuleBook.load` gives. The shipped rules are read once in a process, one's own whenever they change."""
    own = own_files(folders)
    if not proof:
        named = tuple(os.fspath(folder) for folder in folders)
        return (_kept_with(own.everything(paths=True), named) if own.contents else _kept_shipped()).fresh()
    shipped = RuleFiles([shipped_folder()])
    return _with_own(shipped, own, folders) if own.contents else _shipped_book(shipped, proof=True)


@cache
def _kept_shipped() -> RuleBook:
    return _shipped_book(RuleFiles([shipped_folder()]), proof=False)


@lru_cache(maxsize=2)
def _kept_with(content: bytes, folders: tuple[str, ...]) -> RuleBook:
    """The shipped rules and one's own, whose bytes these are."""
    shipped, own, forms = RuleFiles([shipped_folder()]), own_files(folders), own_forms(folders)
    origin = Matcher.made_by() + shipped.everything() + b"\0own\0" + content
    book = _restored(stored.read(_COMPILED, origin), forms)
    if book is None:
        book = _with_own(shipped, own, folders)
        _keep(book, origin)
    return book


def _with_own(shipped: RuleFiles, own: RuleFiles, folders: Sequence[Folder]) -> RuleBook:
    from logdiag.rules.files import parse

    return _joined(_shipped_book(shipped, proof=True), parse(own), own, own_forms(folders))


def compile_shipped(folder: Folder) -> None:
    """Writes the shipped rules and log forms compiled into a folder, which a wheel holds as `data/compiled`."""
    shipped = RuleFiles([shipped_folder()])
    book = _parsed(shipped)
    content = shipped.everything()
    databases = [matcher.serialized for matcher in book.matchers]
    keep_compiled(folder, _COMPILED, content, _plain(book), databases, Matcher.made_by(), book.healthy_text)
    keep_compiled(folder, _PROOF_FILE, content, _proof(book))
    compile_forms(folder)


def _shipped_book(shipped: RuleFiles, *, proof: bool) -> RuleBook:
    """From the wheel, else from the cache, else from the files."""
    content = shipped.everything()
    origin = Matcher.made_by() + content
    compiled = compiled_part(_COMPILED, content)
    book = _restored(compiled[:2]) if compiled and compiled[2] == Matcher.made_by() else None
    book = book or _restored(stored.read(_COMPILED, origin))
    if book is None:
        # Another machine's wheel saves the reading of the files all the same.
        book = _from_plain(compiled[0], None, compiled[3]) if compiled else _parsed(shipped)
        _keep(book, origin)
    return _with_proof(book, shipped) if proof else book


def _parsed(files: RuleFiles) -> RuleBook:
    from logdiag.rules.files import parse

    return RuleBook(*parse(files))


def _keep(book: RuleBook, origin: bytes) -> None:
    databases = [matcher.serialized for matcher in book.matchers]
    if all(databases):
        stored.write(_COMPILED, origin, (_plain(book), databases))


def _restored(found: Any | None, forms: Forms | None = None) -> RuleBook | None:
    """A book from what was kept of one; None where its matchers are not for this machine."""
    if found is None:
        return None
    plain, databases = found
    matchers = [matcher for database in databases if (matcher := Matcher.restore(database))]
    return _from_plain(plain, matchers, forms=forms) if len(matchers) == _MATCHERS else None


def _from_plain(
    plain: dict[str, Any], matchers: Sequence[Matcher] | None, healthy: str = "", forms: Forms | None = None
) -> RuleBook:
    return RuleBook(
        [Rule(**item) for item in plain["rules"]],
        [Filter(**item) for item in plain["filters"]],
        {Reason(name): ReasonEntry(**entry) for name, entry in plain["reasons"].items()},
        {Support(name): weight for name, weight in plain["confidence"].items()},
        {int(index): frozenset(others) for index, others in plain["narrower"].items()},
        matchers,
        forms,
        healthy,
        plain["words"],
    )


def _plain(book: RuleBook) -> dict[str, Any]:
    return {
        "rules": [to_plain(rule) for rule in book.rules],
        "filters": [to_plain(item) for item in book.filters],
        "reasons": {reason.value: to_plain(entry) for reason, entry in book.reasons.items()},
        "confidence": {support.value: weight for support, weight in book.confidence.items()},
        "narrower": {str(index): sorted(others) for index, others in book.narrower.items()},
        "words": book.words,
    }


def _proof(book: RuleBook) -> dict[str, dict[str, Any]]:
    folder = shipped_folder()
    return {item.id: {**proof_of(item), "file": os.path.relpath(item.file, folder)} for item in book.entries}


def _with_proof(book: RuleBook, shipped: RuleFiles) -> RuleBook:
    """The shipped rules with the examples that a diagnosis does not need."""
    content = shipped.everything()
    shown = (compiled_part(_PROOF_FILE, content) or [stored.read(_PROOF_FILE, content)])[0]
    if shown is None:
        shown = _proof(_parsed(shipped)) if not any(rule.fires for rule in book.rules) else _proof(book)
        stored.write(_PROOF_FILE, content, shown)

    def shows(item: _Proved) -> _Proved:
        proof = shown[item.id]
        return replace(item, **{**proof, "file": os.path.join(shipped_folder(), proof["file"])})

    rules, filters = [shows(rule) for rule in book.rules], [shows(item) for item in book.filters]
    return RuleBook(rules, filters, book.reasons, book.confidence, book.narrower, book.matchers)


def _joined(shipped: RuleBook, own: Parsed, files: RuleFiles, forms: Forms | None) -> RuleBook:
    """The shipped rules, with their examples, and one's own, whose files replace those of the same id."""

    named = {item.id for entries in (own.rules, own.filters) for item in entries}
    replaced = {os.path.join(shipped_folder(), *name.split("/")) for name in files.contents}

    def kept(item: Rule | Filter) -> bool:
        return item.id not in named and os.path.splitext(item.file)[0] not in replaced

    alone = RuleBook(own.rules, own.filters, narrower={}, forms=forms, healthy=shipped.healthy_text)
    rules = [*(rule for rule in shipped.rules if kept(rule)), *own.rules]
    filters = [*(item for item in shipped.filters if kept(item)), *own.filters]
    nothing = [Matcher((), "")] * _MATCHERS
    keys = RuleBook(rules, filters, narrower={}, matchers=nothing).pattern_keys
    matchers = []
    for at in range(_MATCHERS):
        numbers = {key: number for number, key in enumerate(keys[at])}
        parts = [
            part
            for book in (shipped, alone)
            for part in book.matchers[at].renumbered([numbers.get(key) for key in book.pattern_keys[at]])
        ]
        matchers.append(Matcher(parts, shipped.matchers[at].name))
    reasons, confidence = own.reasons or shipped.reasons, own.confidence or shipped.confidence
    book = RuleBook(rules, filters, reasons, confidence, {}, matchers, forms)
    book.narrower = _narrower_of_joined(book, shipped, alone)
    return book


def _narrower_of_joined(book: RuleBook, shipped: RuleBook, alone: RuleBook) -> dict[int, frozenset[int]]:
    """Who is narrower than whom: known among the shipped rules, and found for each pair with one's own in it."""
    index_of = {rule.id: index for index, rule in enumerate(book.rules)}
    own = {index_of[rule.id] for rule in alone.rules}
    numbers = {key: number for number, key in enumerate(book.pattern_keys[0])}
    ours = Matcher(alone.matcher.renumbered([numbers[key] for key in alone.pattern_keys[0]]), alone.matcher.name)
    claimed = [book.claimed(index, None if index in own else ours) for index in range(len(book.rules))]
    found = {other: set(narrow) for other, narrow in asymmetric(claimed).items()}
    # A shipped rule that one's own replaces is not there any more.
    place = {at: now for at, rule in enumerate(shipped.rules) if (now := index_of.get(rule.id, -1)) not in {-1, *own}}
    for other, narrow in shipped.narrower.items():
        if other in place:
            found.setdefault(place[other], set()).update(place[index] for index in narrow if index in place)
    return {other: frozenset(narrow) for other, narrow in found.items()}
