"""The rule book in force: from what was compiled before where nothing changed, else from the YAML files.

A wheel holds the shipped rules compiled. Rules of one's own are parsed and compiled alone and joined to them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from logdiag.model import Reason, Support
from logdiag.read.forms import Forms, compile_forms, own_forms
from logdiag.rules.book import RuleBook
from logdiag.rules.folders import Folder, RuleFiles, compiled_part, keep_compiled, own_files, shipped_folder
from logdiag.rules.matcher import Matcher
from logdiag.rules.schema import Filter, ReasonEntry, Rule
from logdiag.settings import cache as stored

_COMPILED, _PROOF_FILE = "rules", "proof"
# What proves a rule or a filter, and no diagnosis needs.
_PROOF = ("references", "fires", "quiet", "scenes", "drops", "keeps", "file")


def load(folders: Sequence[Folder], *, proof: bool) -> RuleBook:
    """What `RuleBook.load` gives. The shipped rules are read once in a process, one's own whenever they change."""
    own = own_files(folders)
    if not proof:
        named = tuple(os.fspath(folder) for folder in folders)
        return (_kept_with(own.fingerprint(paths=True), named) if own.contents else _kept_shipped()).fresh()
    shipped = RuleFiles([shipped_folder()])
    return _with_own(shipped, own, folders) if own.contents else _shipped_book(shipped, proof=True)


@cache
def _kept_shipped() -> RuleBook:
    return _shipped_book(RuleFiles([shipped_folder()]), proof=False)


@lru_cache(maxsize=2)
def _kept_with(own_fingerprint: bytes, folders: tuple[str, ...]) -> RuleBook:
    """The shipped rules and one's own, which have this fingerprint."""
    shipped, own = RuleFiles([shipped_folder()]), own_files(folders)
    origin = Matcher.made_by() + shipped.fingerprint() + own_fingerprint
    book = _restored(stored.read(_COMPILED, origin), own_forms(folders))
    if book is None:
        book = _with_own(shipped, own, folders)
        _keep(book, origin)
    return book


def _with_own(shipped: RuleFiles, own: RuleFiles, folders: Sequence[Folder]) -> RuleBook:
    """Own rules replace shipped ones of the same id, own files all rules of a shipped file of the same path."""
    from logdiag.rules.compiling import joined
    from logdiag.rules.files import parse

    parsed = parse(own)
    named = {item.id for entries in (parsed.rules, parsed.filters) for item in entries}
    replaced = {os.path.join(shipped_folder(), *name.split("/")) for name in own.contents}

    def kept(item: Rule | Filter) -> bool:
        return item.id not in named and os.path.splitext(item.file)[0] not in replaced

    return joined(_shipped_book(shipped, proof=True), parsed, kept, own_forms(folders))


def compile_shipped(folder: Folder) -> None:
    """Writes the shipped rules and log forms compiled into a folder, which a wheel holds as `data/compiled`."""
    from logdiag.rules.compiling import healthy_text

    shipped = RuleFiles([shipped_folder()])
    book, fingerprint = _parsed(shipped), shipped.fingerprint()
    keep_compiled(folder, _COMPILED, fingerprint, *_plain(book), Matcher.made_by(), healthy_text(book))
    keep_compiled(folder, _PROOF_FILE, fingerprint, _proof(book))
    compile_forms(folder)


def _shipped_book(shipped: RuleFiles, *, proof: bool) -> RuleBook:
    """From the wheel, else from the cache, else from the files."""
    fingerprint = shipped.fingerprint()
    origin = Matcher.made_by() + fingerprint
    compiled = compiled_part(_COMPILED, fingerprint)
    book = _restored(compiled[:2]) if compiled and compiled[2] == Matcher.made_by() else None
    book = book or _restored(stored.read(_COMPILED, origin))
    if book is None:
        # Another machine's wheel saves the reading of the files all the same.
        book = _from_plain(compiled[0], None, healthy=compiled[3]) if compiled else _parsed(shipped)
        _keep(book, origin)
    return _with_proof(book, shipped) if proof else book


def _parsed(files: RuleFiles) -> RuleBook:
    from logdiag.rules.files import parse

    return RuleBook(*parse(files))


def _keep(book: RuleBook, origin: bytes) -> None:
    plain, matchers = _plain(book)
    if None not in matchers:
        stored.write(_COMPILED, origin, (plain, matchers))


def _plain(book: RuleBook) -> tuple[dict[str, Any], list[Any]]:
    """A book without its proof as values that marshal writes, and its three matchers; for `_restored`."""
    plain = {
        "rules": [tuple(item._replace(references=(), fires=(), quiet=(), scenes=(), file="")) for item in book.rules],
        "filters": [tuple(item._replace(drops=(), keeps=(), file="")) for item in book.filters],
        "reasons": {reason.value: tuple(entry) for reason, entry in book.reasons.items()},
        "confidence": {support.value: weight for support, weight in book.confidence.items()},
        "narrower": {index: sorted(others) for index, others in book.narrower.items()},
        "words": book.words,
    }
    return plain, [matcher.dumped for matcher in book.matchers]


def _restored(found: Any | None, forms: Forms | None = None) -> RuleBook | None:
    """A book from what was kept of one; None where its matchers are not for this machine."""
    if found is None:
        return None
    plain, dumped = found
    matchers = [matcher for parts in dumped if parts is not None and (matcher := Matcher.restore(parts))]
    return _from_plain(plain, matchers, forms=forms) if len(matchers) == len(dumped) else None


def _from_plain(
    plain: dict[str, Any], matchers: Sequence[Matcher] | None, *, healthy: str = "", forms: Forms | None = None
) -> RuleBook:
    return RuleBook(
        [Rule._make(item) for item in plain["rules"]],
        [Filter._make(item) for item in plain["filters"]],
        {Reason(name): ReasonEntry._make(entry) for name, entry in plain["reasons"].items()},
        {Support(name): weight for name, weight in plain["confidence"].items()},
        {index: frozenset(others) for index, others in plain["narrower"].items()},
        matchers,
        forms,
        healthy,
        plain["words"],
    )


def _proof(book: RuleBook) -> dict[str, dict[str, Any]]:
    """Of each rule and filter what proves it, and its file below the shipped folder."""
    proofs = {}
    for item in book.entries:
        proof = {name: getattr(item, name) for name in _PROOF if name in item._fields}
        proofs[item.id] = proof | {"file": os.path.relpath(item.file, shipped_folder())}
    return proofs


def _with_proof(book: RuleBook, shipped: RuleFiles) -> RuleBook:
    """The shipped rules with the examples that a diagnosis does not need."""
    fingerprint = shipped.fingerprint()
    proofs = (compiled_part(_PROOF_FILE, fingerprint) or [stored.read(_PROOF_FILE, fingerprint)])[0]
    if proofs is None:
        proofs = _proof(book if any(rule.fires for rule in book.rules) else _parsed(shipped))
        stored.write(_PROOF_FILE, fingerprint, proofs)
    for proof in proofs.values():
        proof["file"] = os.path.join(shipped_folder(), proof["file"])
    rules = [rule._replace(**proofs[rule.id]) for rule in book.rules]
    filters = [item._replace(**proofs[item.id]) for item in book.filters]
    return RuleBook(rules, filters, book.reasons, book.confidence, book.narrower, book.matchers)
