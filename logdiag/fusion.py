"""Who decides: the rules, and the memory where they are silent or unsure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from logdiag.causes import Causes, find_causes
from logdiag.confidence import supports_of
from logdiag.errors import MemoryStoreError
from logdiag.memory.nodes import suspicious_nodes
from logdiag.memory.recall import Doubt, alike_lines, known_lines, similar_to
from logdiag.memory.store import Store, open_store
from logdiag.model import Category, Finding, Similar, Support
from logdiag.rules import RuleBook
from logdiag.survey import Survey

__all__ = ["Recalled", "recall"]

# How alike a past failure must be to say what the rules could not, by what their answer rests on. Measured by
# `python -m evals.recall`: below these, right answers of the rules became wrong or healthy jobs seemed to fail.
_DOUBT = {
    Support.NARROW: Doubt(exceptions=0.3),
    Support.GENERAL: Doubt(root=0.5, exceptions=0.3),
    Support.CATCH_ALL: Doubt(root=0.3, exceptions=0.3),
    Support.QUIET: Doubt(root=0.5, exceptions=0.3),
    Support.HINT: Doubt(root=0.3, exceptions=0.3, elsewhere=0.5),
    Support.SYMPTOM: Doubt(exceptions=0.3, elsewhere=0.6),
    Support.BARE_SYMPTOM: Doubt(exceptions=0.3, elsewhere=0.4),
    Support.EXIT_CODE: Doubt(exceptions=0.3, elsewhere=0.4),
    Support.SILENT: Doubt(elsewhere=0.5),
}

# After a large import a diagnosis gives past failures their vectors for so many seconds at most.
_PATIENCE = 1.0
_BEHIND = "past failures that were added lately are not searched yet; logdiag incidents search takes them in"


@dataclass(frozen=True, slots=True)
class Recalled:
    """The causes as they are with what the memory knows, past failures like the root, the nodes that failed more often
    than chance, and what could not be asked."""

    causes: Causes
    similar: tuple[Similar, ...] = ()
    suspicious: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def recall(
    survey: Survey,
    causes: Causes,
    book: RuleBook,
    memory: Store | str | os.PathLike[str] | None,
    *,
    exit_code: int | None,
) -> Recalled:
    """Asks the memory: for lines that people know, and where the rules leave something open for lines like past
    failures. What goes wrong with it is a note, and the rules decide."""
    recalled = Recalled(causes)
    try:
        with _opened(memory) as store:
            recalled = replace(recalled, causes=_with_memory(survey, causes, book, store, exit_code))
            root = recalled.causes.root
            if root is None:
                return recalled
            if root.reason.category is Category.INFRASTRUCTURE:
                recalled = replace(recalled, suspicious=suspicious_nodes(store))
            recalled = replace(recalled, similar=similar_to(root.line, root.reason, store))
            return recalled if store.searched_all else replace(recalled, notes=(_BEHIND,))
    except MemoryStoreError as error:
        return replace(recalled, notes=(f"the memory was not asked: {error}",))


def _with_memory(survey: Survey, causes: Causes, book: RuleBook, store: Store, exit_code: int | None) -> Causes:
    failed = None if exit_code is None else exit_code != 0
    found = known_lines(survey, store, book)
    if found:
        causes = find_causes(_replaced(survey, found), book, failed=failed)
    supports = supports_of(causes, failed=causes.root is not None or bool(failed), exit_code=exit_code)
    doubt = _doubt(causes, supports[0])
    alike = alike_lines(survey, causes, doubt, store) if doubt else ()
    return find_causes(_replaced(survey, [*found, *alike]), book, failed=failed) if alike else causes


def _doubt(causes: Causes, kind: Support) -> Doubt | None:
    """What an answer leaves open; a machine's fault that a rule names is not softened by what is only alike."""
    doubt = _DOUBT.get(kind)
    if doubt and kind is Support.GENERAL and causes.root and causes.root.reason.category is Category.INFRASTRUCTURE:
        return replace(doubt, root=None)
    return doubt


def _replaced(survey: Survey, found: Sequence[Finding]) -> Survey:
    """The survey with what the memory says of a line in the place of what a rule says of it."""
    places = {(finding.line.stream, finding.line.position) for finding in found}
    others = [finding for finding in survey.findings if (finding.line.stream, finding.line.position) not in places]
    return replace(survey, findings=[*others, *found])


@contextmanager
def _opened(memory: Store | str | os.PathLike[str] | None) -> Iterator[Store]:
    """The caller's store, which stays open, or one that is closed again."""
    if isinstance(memory, Store):
        yield memory
        return
    with open_store(memory, patience=_PATIENCE) as store:
        yield store
