"""Makes the answer: did the job fail, why, how sure that is, and on what evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from logdiag.judge.confidence import confidence_in, supports_of
from logdiag.judge.faults import Fault
from logdiag.judge.judgement import Judgement
from logdiag.judge.merge.clocks import Clocks
from logdiag.judge.outcome import Outcome, how_it_ended
from logdiag.judge.progress.checkpoints import progress_of
from logdiag.judge.progress.course import course_of, marks_of
from logdiag.judge.progress.slow_jobs import slow_job
from logdiag.judge.progress.times import times_of
from logdiag.judge.ranks.rank import GUESSES, rank_from
from logdiag.judge.summary import summary_of
from logdiag.judge.suspects.ranked import Ranking
from logdiag.judge.which_job import Seen
from logdiag.model import (
    Candidate,
    Consequence,
    Diagnosis,
    Evidence,
    Finding,
    Line,
    Log,
    Reason,
    Recovery,
    Role,
    RootCause,
    Similar,
    Support,
    Suspect,
)
from logdiag.recovery.table import recover
from logdiag.rules import RuleBook
from logdiag.scan.survey import Survey

# Below this the answer says that it is not sure, and what to collect next.
SURE = 0.6
_MOST_EVIDENCE = 12
_MOST_SUSPECTS = 3
_CONTEXT_LINES = 3
_LONGEST_QUOTE = 200
_FAILED = {Outcome.FAILED: True, Outcome.HEALTHY: False, Outcome.NOT_KNOWN: None}


class Recalled(NamedTuple):
    """What the memory knows beside its findings: past failures like the root, a sentence on each node that failed more
    often than chance, and notes on what could not be asked."""

    similar: tuple[Similar, ...] = ()
    suspicious: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()


def decide(
    judgement: Judgement,
    seen: Seen,
    book: RuleBook,
    *,
    source: str,
    exit_code: int | None,
    recalled: Recalled,
    logs: tuple[Log, ...],
    notes: Sequence[str],
    stats: dict[str, object],
) -> Diagnosis:
    """The diagnosis for what was seen. `exit_code` is the job's, where the caller knows it; `recalled` is what the
    memory knows."""
    survey, root, failed = seen.survey, judgement.root, _FAILED[judgement.outcome]
    reason = root.reason if root else (Reason.OTHERS if failed else Reason.NONE)
    supports = supports_of(judgement)
    confidence = confidence_in(judgement, supports, book.confidence)
    unexplained = root is None or Support.BARE_SYMPTOM in supports
    unsure = failed is not False and (unexplained or confidence < SURE)
    recovery = recover(judgement, book, failed=failed, sure=confidence >= SURE, suspicious=tuple(recalled.suspicious))
    clocks, root_line = Clocks(survey.lines), root.line if root else None
    times = times_of(survey, root_line, clocks)
    whole = survey.complete and not survey.of_machines  # a machine's log shows no end of a job
    ended = how_it_ended(judgement.outcome, judgement.timeline, judgement.complaints, complete=whole)
    slow = slow_job(root, survey) if whole else None
    # Without a root the steps say what to collect.
    collect = [_to_collect(reason, book, unexplained=unexplained)] if unsure and root else []
    remarks = [*_of_memory(recalled, recovery), *collect, *([slow.words] if slow else [])]
    return Diagnosis(
        source=source,
        failed=failed,
        ended=ended,
        category=reason.category,
        reason=reason,
        confidence=round(confidence, 3),
        decided_by=_decided_by(root, failed),
        supports=supports,
        summary=summary_of(judgement, exit_code, ended, survey),
        times=times,
        progress=progress_of(survey, book, times, root_line, clocks),
        root_cause=_root_cause(root.finding, judgement, clocks) if root else None,
        evidence=_evidence(root, judgement, survey) if root else (),
        consequences=_consequences(judgement, survey),
        candidates=_candidates(root, judgement, confidence) if root else (),
        changes=seen.changes,
        suspects=_suspects(seen.suspects()) if failed is None or unsure else (),
        similar=recalled.similar,
        recovery=recovery,
        logs=logs,
        kind=_kind_of(judgement) or (slow.kind if slow else ""),
        collectives=judgement.collectives,
        notes=(*notes, *remarks, *_remarks(judgement, survey, clocks, confidence)),
        stats={**stats, "supports": [support.value for support in supports]},
        decisions=judgement.decisions,
        digest=seen.digest,
        marks=marks_of(judgement, survey),
    )


def _kind_of(judgement: Judgement) -> str:
    """The kind of a failure that its reason does not name, by the table of ranks or the root's rule; else empty."""
    root, table = judgement.root, judgement.collectives
    if root is not None and table is not None and root.reason is Reason.NCCL_TIMEOUT_ERROR:
        return table.kind
    return root.finding.failure_kind if root else ""


def _suspects(ranking: Ranking) -> tuple[Suspect, ...]:
    """The most suspicious lines, for an answer that is not sure."""
    best = ranking.lines[:_MOST_SUSPECTS]
    return tuple(
        Suspect(ranked.line.source, ranked.line.number, ranked.line.text, round(ranked.score, 3)) for ranked in best
    )


def _of_memory(recalled: Recalled, recovery: Recovery) -> Iterator[str]:
    """The notes of the memory."""
    yield from recalled.notes
    left_out = [node for node in recovery.exclude_nodes if node in recalled.suspicious]
    yield from (f"left out of the restart: {recalled.suspicious[node]}" for node in left_out)


def _to_collect(reason: Reason, book: RuleBook, *, unexplained: bool) -> str:
    wanted = "; ".join(book.entry_of(reason).collect) or "the other ranks' logs and the node's kernel log"
    return f"{'the cause is not in this log' if unexplained else 'not sure'}; collect next: {wanted}"


def _remarks(judgement: Judgement, survey: Survey, clocks: Clocks, confidence: float) -> Iterator[str]:
    """Notes on the judgement: guesses, recoveries, later programs, complaints."""
    by = rank_from(judgement.decisions)
    if by is not None and by.name in GUESSES:
        yield f"rank {judgement.rank} is a guess: {by.because[0].lower()}{by.because[1:].rstrip('.')}"
    if judgement.root and (course := course_of(judgement, clocks)):
        yield course
    if judgement.root and judgement.root.finding.trial:
        yield f"the rule {judgement.root.finding.rule} is on trial: a model wrote it and no person has accepted it"
    names = Counter(fault.finding.title for fault in judgement.recovered)
    for title, count in names.most_common(3):
        yield f"recovered from: {title} ({count}x)"
    if judgement.afterwards:
        later = ", ".join(dict.fromkeys(fault.finding.title for fault in judgement.afterwards))
        yield f"after the job had ended, another program of its script failed too: {later}"
    if survey.uncounted:
        count = sum(survey.uncounted.values())
        yield f"{count:,} further lines like those found were counted, not looked at one by one"
    if judgement.complaints and confidence < SURE:
        line = judgement.complaints[0]
        yield f"no rule knows what {line.source} says in line {line.number}: {line.message.strip()[:_LONGEST_QUOTE]}"


def _decided_by(root: Fault | None, failed: bool | None) -> str:
    if root is not None and root.finding.supports:
        named = {Support.AGENT: "agent", Support.SUSPECT: "suspects"}
        return named.get(root.finding.supports[0], "memory")
    return "rules" if root or failed is False else "none"


def _root_cause(finding: Finding, judgement: Judgement, clocks: Clocks) -> RootCause:
    line, clocked = finding.line, clocks.near(finding.line, of_process=True)
    by = rank_from(judgement.decisions)
    return RootCause(
        line.source,
        line.number,
        line.text,
        judgement.rank,
        judgement.node,
        clocked.clock if clocked else None,
        finding.rule,
        rank_from=by.because if by else None,
        rank_guessed=by is not None and by.name in GUESSES,
    )


def _consequences(judgement: Judgement, survey: Survey) -> tuple[Consequence, ...]:
    """Consequences folded by reason and title, those that were only counted included, the most frequent first. What the
    root's own rank says of the same is none."""
    counted = dict(survey.uncounted)
    folded: dict[tuple[str, str], tuple[int, set[int]]] = {}
    for fault in judgement.consequences:
        if judgement.root and _is_of_the_root(fault, judgement.root, judgement.rank):
            continue
        key = (fault.reason.value, fault.finding.title)
        count, ranks = folded.get(key, (0, set()))
        more = counted.pop(fault.finding.rule, 0)
        folded[key] = (count + 1 + more, ranks | fault.ranks)
    ordered = sorted(folded.items(), key=lambda item: -item[1][0])
    return tuple(Consequence(reason, title, count, tuple(sorted(ranks))) for (reason, title), (count, ranks) in ordered)


def _is_of_the_root(fault: Fault, root: Fault, rank: int | None) -> bool:
    """Whether a fault repeats the root: its reason, on the same rank, or without a rank but with the same title."""
    ranks = fault.ranks
    same = ranks == {rank} if ranks else fault.finding.title == root.finding.title
    return fault.reason is root.reason and same


def _evidence(root: Fault, judgement: Judgement, survey: Survey) -> tuple[Evidence, ...]:
    """The root line with the lines around it, what else belongs to it, and the first of each kind of consequence."""
    first: dict[str, Finding] = {}
    for fault in judgement.consequences:
        first.setdefault(fault.finding.rule, fault.finding)
    lines = [
        ("root", root.line, root.finding.rule),
        *(("context", finding.line, finding.rule) for finding in root.findings),
        *(("context", line, None) for line in survey.lines if _is_near(line, root.line)),
        *(("consequence", finding.line, finding.rule) for finding in first.values()),
    ]
    chosen: dict[tuple[bool, str, int, int], Evidence] = {}
    for role, line, rule in lines:
        # In the order of the log: the lines of one record have one number, and the root's source comes first.
        order = line.source != root.line.source, line.source, line.number, line.position
        if len(chosen) < _MOST_EVIDENCE:
            chosen.setdefault(order, Evidence(line.source, line.number, line.text, role, rule))
    return tuple(chosen[order] for order in sorted(chosen))


def _is_near(line: Line, root: Line) -> bool:
    """Whether a line that is not blank stands just above or below the root."""
    return (
        line.stream == root.stream
        and 0 < abs(line.position - root.position) <= _CONTEXT_LINES
        and bool(line.text.strip())
    )


def _candidates(root: Fault, judgement: Judgement, confidence: float) -> tuple[Candidate, ...]:
    """Other possible reasons, which share the confidence that the root leaves; a cause counts twice."""
    weights: Counter[Reason] = Counter()
    causes = [finding for finding in root.findings if finding.role is Role.CAUSE]
    for finding in (*causes, *(fault.finding for fault in judgement.independent)):
        weights[finding.reason] += 2 if finding.role is Role.CAUSE else 1
    weights.update(fault.reason for fault in judgement.consequences if fault.reason is not Reason.NONE)
    del weights[root.reason]
    total = sum(weights.values()) + 2
    return tuple(
        Candidate(reason, round((1 - confidence) * weight / total, 3)) for reason, weight in weights.most_common(4)
    )
