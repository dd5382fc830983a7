"""Judges what was right about one answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from logdiag.evaluation.cases import Case
from logdiag.model import Action, Diagnosis, Reason


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a diagnosis or a baseline for a log. `kept` are the digest's lines as (source, number, text), None
    without a digest. A baseline that names no lines or no ranks is not judged on them."""

    reason: Reason
    action: Action
    confidence: float | None
    decided_by: str
    root: tuple[str, int, str] | None = None
    rank: int | None = None
    node: str | None = None
    names_lines: bool = True
    names_ranks: bool = True
    kept: tuple[tuple[str, int, str], ...] | None = None
    lines: int | None = None
    tokens: int | None = None
    cost: float | None = None
    supports: tuple[str, ...] = ()
    suspects: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One case: its label (`true_...`), its answer, and what was right of it.

    A judgement is None where the case has no such label. With an `error` every judgement is wrong. `seconds` is the
    diagnosis alone; `supports` what its confidence rests on.
    """

    id: str
    split: str | None
    fault: str | None
    tags: tuple[str, ...]
    true_reason: str
    accepted_reasons: tuple[str, ...]
    true_category: str
    true_root: str | None
    true_rank: int | None
    true_node: str | None
    true_action: str
    accepted_actions: tuple[str, ...]
    reason: str | None
    category: str | None
    confidence: float | None
    decided_by: str | None
    root_source: str | None
    root_line: int | None
    root_text: str | None
    rank: int | None
    node: str | None
    action: str | None
    reason_right: bool
    category_right: bool
    root_right: bool | None
    rank_right: bool | None
    node_right: bool | None
    action_right: bool
    false_restart: bool
    false_stop: bool
    survived: bool | None
    lines: int | None
    kept_lines: int | None
    kept_share: float | None
    seconds: float
    tokens: int | None = None
    cost: float | None = None
    supports: tuple[str, ...] = ()
    root_among_suspects: bool | None = None
    error: str | None = None

    @property
    def healthy(self) -> bool:
        """Whether the label says that the log shows no failure."""
        return self.true_reason == Reason.NONE.value

    @property
    def missed(self) -> dict[str, str]:
        """What was missed, with the label and the answer in words: a crash alone, or every respect that is wrong."""
        if self.error:
            return {"crash": f"crash: {self.error}"}
        sure = f" ({self.confidence:.2f})" if self.confidence is not None else ""
        if self.healthy and not self.reason_right:
            return {"false alarm": f"false alarm: {self.reason}{sure} on a healthy job"}
        root = "not found" if self.root_line is None else f"answered line {self.root_line}"
        respects = (
            ("reason", self.reason_right, f"{' or '.join(self.accepted_reasons)}, answered {self.reason}{sure}"),
            ("root line", self.root_right, root),
            ("rank", self.rank_right, f"{_word(self.true_rank)}, answered {_word(self.rank)}"),
            ("node", self.node_right, f"{self.true_node}, answered {_word(self.node)}"),
            ("action", self.action_right, f"{' or '.join(self.accepted_actions)}, answered {self.action}"),
        )
        return {respect: f"{respect}: {words}" for respect, right, words in respects if right is False}


def answer_of(diagnosis: Diagnosis) -> Answer:
    """The diagnosis, reduced to what is judged."""
    root, digest, stats = diagnosis.root_cause, diagnosis.digest, diagnosis.stats
    return Answer(
        reason=diagnosis.reason,
        action=diagnosis.recovery.action,
        confidence=diagnosis.confidence,
        decided_by=diagnosis.decided_by,
        root=(root.source, root.line, root.text) if root else None,
        rank=root.rank if root else None,
        node=root.node if root else None,
        kept=tuple((line.source, line.number, line.text) for line in digest.lines),
        lines=digest.total_lines,
        tokens=stats.get("tokens"),
        cost=stats.get("cost"),
        supports=tuple(stats.get("supports", ())),
        suspects=tuple((item.source, item.line, item.text) for item in diagnosis.suspects),
    )


def judge(case: Case, answer: Answer, seconds: float) -> Row:
    """The answer held against the label."""
    automatic = answer.action.automatic
    wanted = {action.automatic for action in case.actions}
    rank_labelled = case.rank_known and not case.healthy and answer.names_ranks
    node_labelled = case.node is not None and not case.healthy and answer.names_ranks
    kept = None if answer.kept is None else len(answer.kept)
    named = answer.root is not None and _is_root(case, answer.root)
    suspected = named or any(_is_root(case, line) for line in answer.suspects)
    return Row(
        **_truth(case),
        reason=answer.reason.value,
        category=answer.reason.category.value,
        confidence=answer.confidence,
        decided_by=answer.decided_by,
        root_source=answer.root[0] if answer.root else None,
        root_line=answer.root[1] if answer.root else None,
        root_text=answer.root[2] if answer.root else None,
        rank=answer.rank,
        node=answer.node,
        action=answer.action.value,
        reason_right=answer.reason in case.reasons,
        category_right=answer.reason.category in {reason.category for reason in case.reasons},
        # A healthy log has no such line.
        root_right=(case.healthy if answer.root is None else named) if answer.names_lines else None,
        rank_right=answer.rank in case.ranks if rank_labelled else None,
        node_right=answer.node == case.node if node_labelled else None,
        action_right=answer.action in case.actions,
        false_restart=automatic and True not in wanted,
        false_stop=not automatic and wanted == {True} and not case.healthy,
        survived=None if answer.kept is None or case.healthy else _survived(case, answer.kept),
        lines=answer.lines,
        kept_lines=kept,
        kept_share=round(kept / answer.lines, 6) if kept is not None and answer.lines else None,
        seconds=round(seconds, 6),
        tokens=answer.tokens,
        cost=answer.cost,
        supports=answer.supports,
        root_among_suspects=suspected if answer.names_lines and not case.healthy else None,
    )


def failed_row(case: Case, error: str, seconds: float) -> Row:
    """The row of a case that got no answer: wrong in every respect that is judged, with a confidence of 0."""
    row = judge(case, Answer(Reason.OTHERS, Action.NONE, 0.0, ""), seconds)
    judged = ("reason_right", "category_right", "root_right", "rank_right", "action_right")
    wrong: dict[str, Any] = {name: False for name in judged if getattr(row, name) is not None}
    wrong["survived"] = None if case.healthy else False
    return replace(row, reason=None, category=None, decided_by=None, action=None, error=error, **wrong)


def _truth(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "split": case.split,
        "fault": case.fault,
        "tags": case.tags,
        "true_reason": case.reasons[0].value,
        "accepted_reasons": tuple(reason.value for reason in case.reasons),
        "true_category": case.reasons[0].category.value,
        "true_root": case.roots[0] if case.roots else None,
        "true_rank": case.rank,
        "true_node": case.node,
        "true_action": case.actions[0].value,
        "accepted_actions": tuple(action.value for action in case.actions),
    }


def _is_root(case: Case, line: tuple[str, int, str]) -> bool:
    """The labelled text stands in a line."""
    source, number, text = line
    if any(root in text for root in case.roots):
        return True
    # A label may quote what cleaning took away: colours, or the envelope around the line.
    raw = next((line[2] for line in case.lines() if line[:2] == (source, number)), "")
    return any(root in raw for root in case.roots)


def _survived(case: Case, kept: tuple[tuple[str, int, str], ...]) -> bool:
    """The labelled line is among those kept."""
    label = case.roots[0]
    if any(label in text for _, _, text in kept):
        return True
    places = {(source, number) for source, number, _ in kept}
    return any(label in text and (source, number) in places for source, number, text in case.lines())


def _word(value: object) -> str:
    return "none" if value is None else str(value)
