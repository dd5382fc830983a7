"""Two evaluations side by side: what changed, case by case, and whether anything that was right is wrong now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from logdiag.errors import CaseError
from logdiag.evaluation.metrics import METRICS, measure
from logdiag.evaluation.scoring import Row
from logdiag.model.plain import read_plain
from logdiag.settings.places import StrPath

SCHEMA = "logdiag.evaluation/1"
# What is judged of a case: how it is called, its judgement, and the field that answers it.
_JUDGED = (
    ("reason", "reason_right", "reason"),
    ("root line", "root_right", "root_line"),
    ("rank", "rank_right", "rank"),
    ("node", "node_right", "node"),
    ("action", "action_right", "action"),
    ("kept root line", "survived", "survived"),
)
# These say how fast the machine was and what a model charged, not how good the answers are.
_NOT_QUALITY = frozenset({"latency_p50", "latency_p95", "tokens", "cost"})


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A judgement of one case that is another now. `relabelled` says that the case's label changed too, `regression`
    that what was right is wrong now."""

    id: str
    what: str
    was: Any
    now: Any
    was_right: bool | None
    now_right: bool | None
    relabelled: bool
    regression: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """All changes, the cases of only one side, and the metrics (old, new) over the common cases that moved."""

    common: int
    changes: tuple[CaseChange, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    metrics: dict[str, tuple[float | None, float | None]]

    @property
    def regressions(self) -> int:
        """How many changes are for the worse."""
        return sum(change.regression for change in self.changes)


def read_rows(path: StrPath) -> list[Row]:
    """The rows of an evaluation that was written before. Raises CaseError when the file holds none."""
    remedy = "give a file that logdiag eval --json wrote"
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read())
    except OSError as error:
        raise CaseError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    except ValueError as error:
        raise CaseError(f"{path}: is not JSON; {remedy}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise CaseError(f"{path}: is no evaluation of the schema {SCHEMA}; {remedy}")
    rows, problems = read_plain(list[Row], document.get("cases"))
    if rows is None:
        raise CaseError(f"{path}: cases: {problems[0]}; {remedy}")
    return rows


def compare(old: Sequence[Row], new: Sequence[Row]) -> Comparison:
    """What is another judgement now, over the cases that both have."""
    before, after = {row.id: row for row in old}, {row.id: row for row in new}
    common = [row.id for row in new if row.id in before]
    was, now = measure([before[name] for name in common]), measure([after[name] for name in common])
    return Comparison(
        common=len(common),
        changes=tuple(change for name in common for change in _changes(before[name], after[name])),
        only_old=tuple(name for name in before if name not in after),
        only_new=tuple(name for name in after if name not in before),
        metrics={
            name: (was[name], now[name]) for name in METRICS if name not in _NOT_QUALITY and was[name] != now[name]
        },
    )


def _changes(old: Row, new: Row) -> list[CaseChange]:
    """The judgements that changed, or whose answer is another though still right or still wrong."""
    relabelled = _label(old) != _label(new)
    changes = []
    for respect, judgement, field in _JUDGED:
        was_right, now_right = getattr(old, judgement), getattr(new, judgement)
        was, now = (row.error if row.error and field != "survived" else getattr(row, field) for row in (old, new))
        if was_right != now_right or (was != now and was_right is False):
            worse = was_right is True and now_right is False
            changes.append(CaseChange(new.id, respect, was, now, was_right, now_right, relabelled, worse))
    return changes


def _label(row: Row) -> tuple[object, ...]:
    return (row.accepted_reasons, row.true_root, row.true_rank, row.true_node, row.accepted_actions)
