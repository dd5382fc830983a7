"""Who decides: rules; the memory where they are silent, unsure or corrected by a person; a language model where neither
is sure. What memory and model say becomes findings beside those of the rules, judged in one way. A model never chooses
the action, and never makes automatic what was for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logdiag.errors import MemoryStoreError
from logdiag.judge.confidence import supports_of
from logdiag.judge.faults import Fault
from logdiag.judge.judgement import Judgement, judge
from logdiag.judge.outcome import Outcome
from logdiag.judge.suspects.stand_in import RULE as SUSPECTED
from logdiag.judge.verdict import Recalled
from logdiag.judge.which_job import Seen
from logdiag.memory.recall import alike, known, similar_to
from logdiag.memory.store import Store, StoreOrPlace, opened
from logdiag.model import TROUBLE, Action, Category, Diagnosis, Finding, Line, Reason, Recovery, Role, Support
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

if TYPE_CHECKING:
    from logdiag.agent.opinion import AgentSettings, Opinion

# How alike to a root a past failure must be (cosine) to say what it is, by what the rules' answer rests on. Measured by
# `python -m evals.recall`: below these, right answers of the rules became wrong.
_DOUBT = {Support.GENERAL: 0.5, Support.CATCH_ALL: 0.3, Support.SUSPECT: 0.3, Support.QUIET: 0.5, Support.HINT: 0.3}

_LONGEST_TITLE = 160
# Reasons that ranks print about a peer that is gone: they prove no fault of a machine.
_OF_PEERS = (Reason.NCCL_TIMEOUT_ERROR, Reason.NCCL_REMOTE_ERROR, Reason.CONNECTION_ERROR)
# A clean exit that a model cites must be among this many last lines, and at no level of trouble.
_LAST_LINES = 30

# The most seconds that a diagnosis spends on vectors of past failures that are not indexed yet, as after an import.
_PATIENCE = 1.0
_BEHIND = "past failures that were added lately are not searched yet; logdiag incidents search takes them in"


def recall(
    seen: Seen, judgement: Judgement, book: RuleBook, memory: StoreOrPlace, failed: bool | None
) -> tuple[Judgement, Recalled]:
    """Asks the memory for lines that people confirmed and, where the rules leave something open, for past failures with
    lines like the root. Returns the judgement with its findings, and what else it knows. Where the memory fails, a note
    says so and the rules decide."""
    suspicious: dict[str, str] = {}

    def judged_with(findings: Sequence[Finding]) -> Judgement:
        return judge(_with_findings(seen.survey, findings), book, failed=failed, suspects=seen.suspects)

    try:
        with opened(memory, patience=_PATIENCE) as store:
            remembered = known(seen.survey, store, book)
            if remembered:
                judgement = judged_with(remembered)
            if voted := _voted(judgement, store):
                judgement = judged_with([*remembered, voted])
            root = judgement.root
            if root and root.reason.category is Category.INFRASTRUCTURE and store.count():
                from logdiag.memory.nodes import node_records

                suspicious = {record.node: record.why for record in node_records(store) if record.suspicious}
            similar = similar_to(root.line, root.reason, store) if root else ()
            return judgement, Recalled(similar, suspicious, tuple(_gaps(store)))
    except MemoryStoreError as error:
        return judgement, Recalled((), suspicious, (f"the memory was not asked: {error}",))


def _gaps(store: Store) -> Iterator[str]:
    """Yields notes on incidents of the store that were not searched or could not be read."""
    if not store.searched_all:
        yield _BEHIND
    if ids := store.unreadable:
        count = f"{len(ids)} past incident{'s' if len(ids) > 1 else ''}"
        yield f"{count} could not be read and left out ({', '.join(ids[:3])}); logdiag incidents forget removes them"


def _voted(judgement: Judgement, store: Store) -> Finding | None:
    """Returns the finding of confirmed failures like the root, where the rules are unsure and name another reason; else
    None. A general rule is overruled only by a unanimous vote, and never from infrastructure to another category."""
    kind, root = supports_of(judgement)[0], judgement.root
    if root is None or kind not in _DOUBT or not store.count():
        return None
    voted = alike(root.line, _DOUBT[kind], store)
    guessed = Support.SUSPECT in root.finding.supports
    if voted is None or voted.reason is (Reason.OTHERS if guessed else root.reason):
        return None
    softer = root.reason.category is Category.INFRASTRUCTURE and voted.reason.category is not Category.INFRASTRUCTURE
    return None if kind is Support.GENERAL and (softer or Support.DIVIDED in voted.supports) else voted


def _with_findings(survey: Survey, findings: Sequence[Finding]) -> Survey:
    """Returns the survey with findings of the memory or a model, which replace those of rules on the same lines."""
    replaced = {finding.line.place for finding in findings}
    kept = [finding for finding in survey.findings if finding.line.place not in replaced]
    return replace(survey, findings=[*kept, *findings])


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
    failed: bool | None,
    first: Callable[[Diagnosis], None] | None,
) -> Diagnosis:
    """Returns the diagnosis after a model was asked, if it is to be asked; `first` is called with the one before. It is
    changed only where rules and memory left it open. `decide` makes a diagnosis of a judgement."""
    from logdiag.agent.consult import consult
    from logdiag.agent.opinion import AgentSettings, leaves_open

    settings = AgentSettings(llm) if isinstance(llm, str) else llm
    if settings.when != "always" and not leaves_open(before):
        return before
    if first:
        first(before)
    consultation = consult(before, sources, settings, book=book, job=job, callbacks=callbacks)
    opinion = consultation.opinion
    notes = [*before.notes, *consultation.notes]
    after = None
    if opinion is not None and _may_change(before, opinion, failed):
        if opinion.root is None or opinion.reason is Reason.NONE:
            judgement = _with_no_failure(before, survey, book, opinion)
        else:
            judgement = _with_its_root(before, survey, book, _finding(opinion, opinion.root, settings), failed)
        after = None if judgement is None else _with_the_models_word(before, decide(judgement), opinion)
    if opinion is not None and after is None:
        verdict = "agrees" if opinion.reason is before.reason else f"reads it as {opinion.reason.value}"
        notes.append(f"the model {settings.model} {verdict}: {opinion.cause}")
    trace = consultation.trace
    answer = after or before
    stats = {**answer.stats, "agent": trace._asdict(), "tokens": trace.tokens_in + trace.tokens_out, "cost": trace.cost}
    return replace(answer, notes=tuple(notes), stats=stats)


def _may_change(before: Diagnosis, opinion: Opinion, failed: bool | None) -> bool:
    """A model may name what was left open. It may not make a machine's fault a program's, apart from what ranks print
    of a peer and from a guess, and say of a job only then that it did not fail when nobody knows that it did."""
    from logdiag.agent.opinion import leaves_open, names_no_cause

    if not leaves_open(before) or (opinion.reason is Reason.NONE and (before.failed is False or failed)):
        return False
    guessed = before.decided_by == "suspects" or (names_no_cause(before) and before.reason in _OF_PEERS)
    if opinion.reason is Reason.NONE or guessed:
        return True
    return before.category is not Category.INFRASTRUCTURE or opinion.reason.category is Category.INFRASTRUCTURE


def _with_no_failure(before: Diagnosis, survey: Survey, book: RuleBook, opinion: Opinion) -> Judgement | None:
    """Judges again, for a job that a model says did not fail; None where its log shows no clean exit."""
    of_work = [item for item in survey.findings if item.role.is_context]
    healthy = judge(replace(survey, findings=of_work), book, failed=False)
    if not healthy.timeline.finished and not _is_later(opinion.root, before):
        return None
    healthy = healthy._replace(root=None, rank=None, node=None, outcome=Outcome.HEALTHY)
    return healthy._replace(consequences=(), independent=(), hints=(), complaints=())


def _with_its_root(
    before: Diagnosis, survey: Survey, book: RuleBook, named: Finding, failed: bool | None
) -> Judgement | None:
    """Judges again, with the line that a model names as the root; None where the job recovered from that line."""
    judgement = judge(_with_findings(survey, [named]), book, failed=before.failed or failed or None)
    ruled = before.root_cause is not None and before.root_cause.rule != SUSPECTED
    if any(fault.finding is named for fault in judgement.recovered) and judgement.root and ruled:
        return None  # the job worked on after it, and something else broke later
    others = (judgement.root, *judgement.consequences, *judgement.independent)
    return judgement._replace(
        root=Fault(named, (named,), died=False, quiet=False, explains=named.explains),
        rank=named.rank,
        node=named.node,
        consequences=tuple(fault for fault in others if fault is not None and fault.finding is not named),
        independent=(),
        complaints=(),
        outcome=Outcome.FAILED,
        recovered=tuple(fault for fault in judgement.recovered if fault.finding is not named),
    )


def _finding(opinion: Opinion, root: Line, settings: AgentSettings) -> Finding:
    """Returns a model's opinion as a finding on the line that it cites."""
    from logdiag.agent.opinion import UNITED

    title = opinion.cause.split(". ")[0].rstrip(".")[:_LONGEST_TITLE]
    return Finding(
        rule=f"agent/{settings.model}",
        line=root,
        role=Role.CAUSE,
        reason=opinion.reason,
        title=title or f"{opinion.reason.value}, says the model",
        why=opinion.cause,
        facts={} if opinion.rank is None else {"rank": str(opinion.rank)},
        explains=frozenset(Reason),
        supports=(Support.AGENT, Support.DIVIDED) if opinion.agreed < UNITED * opinion.votes else (Support.AGENT,),
    )


def _is_later(line: Line | None, before: Diagnosis) -> bool:
    """Whether a line that a model cites as a clean exit comes after the root, among the last lines of its log."""
    root = before.root_cause
    if line is None or (root is not None and root.source == line.source and root.line >= line.number):
        return False
    last = [item for item in before.digest.lines if item.stream == line.stream][-_LAST_LINES:]
    return line.level not in (*TROUBLE, "WARNING") and any(item.position == line.position for item in last)


def _with_the_models_word(before: Diagnosis, after: Diagnosis, opinion: Opinion) -> Diagnosis:
    """Returns the new diagnosis, at most as sure as the model. Its action is automatic only if the former one was."""
    steps = (f"To be sure: {opinion.would_prove}",) if opinion.would_prove and after.failed else ()
    recovery = replace(after.recovery, steps=(*steps, *after.recovery.steps))
    if recovery.automatic and not before.recovery.automatic:
        kept = before.recovery.action if before.failed else Action.FIX_AND_RESUBMIT
        why = f"{recovery.why} {recovery.action.value} would follow, but only a model says so: a person decides."
        recovery = Recovery(kept, False, (), recovery.steps, why)
    sure = round(min(after.confidence, opinion.confidence), 3)
    failed = opinion.reason is not Reason.NONE
    return replace(after, failed=failed, recovery=recovery, confidence=sure, decided_by="agent")
