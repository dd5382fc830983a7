"""Who decides: the rules; the memory where they are silent or unsure, or where a person corrected them; a language
model where neither is sure.

What memory and model say becomes findings among those of the rules, so that one mechanism tells recoveries,
consequences, ranks and nodes apart. A model names what was left open. It never chooses the action: that is the table's,
and never one that a scheduler may carry out where the answer without the model was for a person.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from logdiag.agent.opinion import leaves_open
from logdiag.agent.votes import UNITED
from logdiag.errors import MemoryStoreError
from logdiag.judge.confidence import supports_of
from logdiag.judge.judgement import Judgement, judge
from logdiag.memory.nodes import suspicious_nodes
from logdiag.memory.recall import Doubt, alike_lines, known_lines, similar_to
from logdiag.memory.store import Store, open_store
from logdiag.model import Action, Category, Diagnosis, Finding, Reason, Recovery, Role, Similar, Support
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

if TYPE_CHECKING:
    from logdiag.agent.opinion import AgentSettings, Consultation, Opinion

__all__ = ["Recalled", "consulted", "leaves_open", "recall", "settle"]

# How alike a past failure must be to say what the rules could not, by what their answer rests on. Measured by
# `python -m evals.recall`: below these, right answers of the rules became wrong or healthy jobs seemed to fail.
_DOUBT = {
    Support.NARROW: Doubt(exceptions=0.3),
    Support.GENERAL: Doubt(root=0.5, united=True, exceptions=0.3),
    Support.CATCH_ALL: Doubt(root=0.3, exceptions=0.3),
    Support.QUIET: Doubt(root=0.5, exceptions=0.3),
    Support.HINT: Doubt(root=0.3, exceptions=0.3, elsewhere=0.5),
    Support.SYMPTOM: Doubt(exceptions=0.3, elsewhere=0.6, own=True),
    Support.BARE_SYMPTOM: Doubt(exceptions=0.3, elsewhere=0.6),
    Support.EXIT_CODE: Doubt(exceptions=0.3, elsewhere=0.4),
    Support.SILENT: Doubt(elsewhere=0.75),
    Support.COMPLAINING: Doubt(elsewhere=0.75),
}

_LONGEST_TITLE = 160

# After a large import a diagnosis gives past failures their vectors for so many seconds at most.
_PATIENCE = 1.0
_BEHIND = "past failures that were added lately are not searched yet; logdiag incidents search takes them in"


@dataclass(frozen=True, slots=True)
class Recalled:
    """The causes as they are with what the memory knows, past failures like the root, the nodes that failed more often
    than chance, and what could not be asked."""

    judgement: Judgement
    similar: tuple[Similar, ...] = ()
    suspicious: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def recall(
    survey: Survey,
    judgement: Judgement,
    book: RuleBook,
    memory: Store | str | os.PathLike[str] | None,
    *,
    exit_code: int | None,
) -> Recalled:
    """Asks the memory: for lines that people know, and where the rules leave something open for lines like past
    failures. What goes wrong with it is a note, and the rules decide."""
    recalled = Recalled(judgement)
    try:
        with _opened(memory) as store:
            recalled = replace(recalled, judgement=_with_memory(survey, judgement, book, store, exit_code))
            root = recalled.judgement.root
            if root is None:
                return recalled
            if root.reason.category is Category.INFRASTRUCTURE:
                recalled = replace(recalled, suspicious=suspicious_nodes(store))
            recalled = replace(recalled, similar=similar_to(root.line, root.reason, store))
            return recalled if store.searched_all else replace(recalled, notes=(_BEHIND,))
    except MemoryStoreError as error:
        return replace(recalled, notes=(f"the memory was not asked: {error}",))


def _with_memory(
    survey: Survey, judgement: Judgement, book: RuleBook, store: Store, exit_code: int | None
) -> Judgement:
    failed = None if exit_code is None else exit_code != 0
    found = known_lines(survey, store, book)
    if found:
        judgement = judge(_replaced(survey, found), book, failed=failed)
    supports = supports_of(judgement)
    doubt = _doubt(judgement, supports[0])
    alike = alike_lines(survey, judgement, doubt, store) if doubt else ()
    return judge(_replaced(survey, [*found, *alike]), book, failed=failed) if alike else judgement


def _doubt(judgement: Judgement, kind: Support) -> Doubt | None:
    """What an answer leaves open; a machine's fault that a rule names is not softened by what is only alike."""
    doubt = _DOUBT.get(kind)
    if (
        doubt
        and kind is Support.GENERAL
        and judgement.root
        and judgement.root.reason.category is Category.INFRASTRUCTURE
    ):
        return replace(doubt, machine=True)
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


def consulted(
    before: Diagnosis,
    sources: Sequence[object],
    survey: Survey,
    book: RuleBook,
    llm: AgentSettings | str,
    decide: Callable[[Judgement], Diagnosis],
    *,
    job: Mapping[str, str] | None,
    callbacks: Sequence[Any],
    first: Callable[[Diagnosis], None] | None,
) -> Diagnosis:
    """The diagnosis after a model was asked, if it is to be asked; `first` is given the one before."""
    from logdiag.agent.consult import consult
    from logdiag.agent.opinion import AgentSettings

    settings = AgentSettings(llm) if isinstance(llm, str) else llm
    if settings.when != "always" and not leaves_open(before):
        return before
    if first:
        first(before)
    consultation = consult(before, sources, settings, book=book, job=job, callbacks=callbacks)
    return settle(before, survey, book, consultation, settings, decide)


def settle(
    before: Diagnosis,
    survey: Survey,
    book: RuleBook,
    consultation: Consultation,
    settings: AgentSettings,
    decide: Callable[[Judgement], Diagnosis],
) -> Diagnosis:
    """The diagnosis after a model was asked: changed only where rules and memory left it open. `decide` makes a
    diagnosis of judgement."""
    opinion = consultation.opinion
    notes = [*before.notes, *consultation.notes]
    after = before
    if opinion is not None and opinion.reason is not before.reason:
        if _may_change(before, opinion):
            after = _changed(before, survey, book, opinion, settings, decide)
        if after is before:
            notes.append(f"the model {settings.model} reads it as {opinion.reason.value}: {opinion.cause}")
    elif opinion is not None:
        notes.append(f"the model {settings.model} agrees: {opinion.cause}")
    trace = consultation.trace
    stats = {**after.stats, "agent": asdict(trace), "tokens": trace.tokens_in + trace.tokens_out, "cost": trace.cost}
    return replace(after, notes=tuple(notes), stats=stats)


def _may_change(before: Diagnosis, opinion: Opinion) -> bool:
    """A model may name what was left open; it may neither say that a failed job did not fail, nor make a machine's
    fault a program's."""
    if opinion.reason is Reason.NONE or not leaves_open(before):
        return False
    machine = before.category is Category.INFRASTRUCTURE
    return not machine or opinion.reason.category is Category.INFRASTRUCTURE


def _changed(
    before: Diagnosis,
    survey: Survey,
    book: RuleBook,
    opinion: Opinion,
    settings: AgentSettings,
    decide: Callable[[Judgement], Diagnosis],
) -> Diagnosis:
    """The diagnosis with what a model named as the cause; the one before where the log shows that this was survived."""
    assert opinion.root is not None
    named = Finding(
        rule=f"agent/{settings.model}",
        line=opinion.root,
        role=Role.CAUSE,
        reason=opinion.reason,
        title=opinion.cause.split(". ")[0].rstrip(".")[:_LONGEST_TITLE] or f"{opinion.reason.value}, says the model",
        why=opinion.cause,
        explains=frozenset(Reason),
        supports=(Support.AGENT, Support.DIVIDED) if opinion.agreed < UNITED * opinion.votes else (Support.AGENT,),
    )
    judgement = judge(_replaced(survey, [named]), book, failed=before.failed or None)
    if judgement.root is None or not judgement.root.finding.supports:
        return before
    after = decide(judgement)
    steps = (f"To be sure: {opinion.would_prove}",) if opinion.would_prove else ()
    recovery = replace(after.recovery, steps=(*steps, *after.recovery.steps))
    if recovery.automatic and not before.recovery.automatic:
        kept = before.recovery.action if before.failed else Action.FIX_AND_RESUBMIT
        why = f"{recovery.why} {recovery.action.value} would follow, but only a model says so: a person decides."
        recovery = Recovery(kept, False, (), recovery.steps, why)
    return replace(after, recovery=recovery, confidence=round(min(after.confidence, opinion.confidence), 3))
