"""Labelled cases made up for the tests of the evaluation, and what may happen to a worker that diagnoses them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from logdiag.evaluation.cases import Case
from logdiag.evaluation.metrics import METRICS
from logdiag.evaluation.run import answer_case
from logdiag.evaluation.scoring import Answer, Row, judge
from logdiag.model import Action, Reason
from logdiag.rules import RuleBook
from tests.helpers import steps, traceback_of

KEY_ERROR_LOG = "\n".join([*steps(1, 30), *traceback_of("KeyError: 'caption'")]) + "\n"
OOM_LINE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
OOM_LOG = "\n".join([*steps(1, 30), *traceback_of(OOM_LINE)]) + "\n"
HEALTHY_LOG = "\n".join([*steps(1, 60), "Training finished."]) + "\n"


def labelled(identity: str = "key", **changes: Any) -> dict[str, Any]:
    """A case as it stands in a file: a KeyError, unless changed; a change to `...` leaves the key out."""
    case = {
        "id": identity,
        "log": KEY_ERROR_LOG,
        "category": "script",
        "reason": "KeyError",
        "root_line": "KeyError: 'caption'",
        "action": "fix_and_resubmit",
    }
    return {name: value for name, value in {**case, **changes}.items() if value is not ...}


def out_of_memory(identity: str = "oom", **changes: Any) -> dict[str, Any]:
    """A job that ran out of GPU memory."""
    case = {"log": OOM_LOG, "category": "framework", "reason": "OutOfMemoryError", "root_line": "CUDA out of memory"}
    return labelled(identity, **{**case, "action": "reduce_memory", **changes})


def healthy(identity: str = "healthy", **changes: Any) -> dict[str, Any]:
    """A job that came to its end."""
    case = {"log": HEALTHY_LOG, "category": "none", "reason": "none", "root_line": "", "action": "none"}
    return labelled(identity, **{**case, **changes})


def write_cases(path: Path, *cases: dict[str, Any]) -> Path:
    """Writes a case file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return path


def case_of(
    reasons: Sequence[Reason] = (Reason.KEY_ERROR,),
    actions: Sequence[Action] = (Action.FIX_AND_RESUBMIT,),
    roots: Sequence[str] = ("KeyError: 'caption'",),
    **changes: Any,
) -> Case:
    """A case as the evaluation holds it: a KeyError in a log of two lines, unless changed."""
    known: dict[str, Any] = {
        "id": "made-up",
        "category": reasons[0].category,
        "reason": reasons[0],
        "also_ok": reasons[1:],
        "action": actions[0],
        "also_action": actions[1:],
        "root_line": next(iter(roots), None),
        "also_root": roots[1:],
        "log": "step: 1 loss: 3.0\nKeyError: 'caption'\n",
    }
    return Case.model_validate({**known, **changes})


def answer(**changes: Any) -> Answer:
    """The right answer to `case_of()`, unless changed."""
    known: dict[str, Any] = {
        "reason": Reason.KEY_ERROR,
        "action": Action.FIX_AND_RESUBMIT,
        "confidence": 0.9,
        "decided_by": "rules",
        "root": ("<bytes>", 2, "KeyError: 'caption'"),
    }
    return Answer(**{**known, **changes})


def row_of(truth: str, answered: str, confidence: float | None = 0.9, **changes: Any) -> Row:
    """The row of a case of one reason that was answered with a reason."""
    reasons = tuple(Reason(name) for name in truth.split())
    roots = () if truth == "none" else ("KeyError: 'caption'",)
    case = case_of(id=changes.pop("id", "made-up"), reasons=reasons, roots=roots, **changes)
    root = None if answered == "none" else ("<bytes>", 2, "KeyError: 'caption'")
    return judge(case, answer(reason=Reason(answered), confidence=confidence, root=root), 0.01)


def without_seconds(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows without what differs from run to run."""
    return [{**asdict(row), "seconds": 0.0} for row in rows]


def accident(case: Case, book: RuleBook) -> Answer:
    """Diagnoses a case, unless its tag names an accident."""
    for tag in case.tags:
        if tag == "raises":
            raise ZeroDivisionError("the diagnosis broke")
        if tag == "exits":
            os._exit(7)
        if tag == "leaves":
            sys.exit(5)
        if tag == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
    return answer_case(case, book)


def below_interval(old: Mapping[str, Any], metrics: Mapping[str, float | None]) -> list[str]:
    """A sentence for each metric that is worse than the 95 % interval of an older document allows."""
    worse = []
    for name, (low, high) in old["intervals"].items():
        metric, value = METRICS.get(name), metrics.get(name)
        if metric is None:
            continue
        if value is None:
            worse.append(f"{name}: was measured in the baseline and is not any more")
        elif metric.less_is_better and value > high:
            worse.append(f"{name}: {value:.4f} is above {high:.4f}, the upper end of the baseline's 95 % interval")
        elif not metric.less_is_better and value < low:
            worse.append(f"{name}: {value:.4f} is below {low:.4f}, the lower end of the baseline's 95 % interval")
    return worse
