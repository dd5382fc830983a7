"""A whole evaluation as plain values: the schema `logdiag.evaluation/1`, to which keys are only ever added."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

from logdiag._version import __version__
from logdiag.evaluation.cases import CaseSet
from logdiag.evaluation.metrics import by_reason, by_split, intervals, measure, reliability
from logdiag.evaluation.run import Result
from logdiag.rules.folders import read_folders

SCHEMA = "logdiag.evaluation/1"


def document_of(
    case_set: CaseSet, results: Sequence[Result], *, folders: Sequence[str] = (), notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Metrics, tables, rows, and what they were made by. The same cases and rules give the same document, but for
    seconds."""
    rows = [result.row for result in results]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "metrics": measure(rows),
        "intervals": intervals(rows),
        "by_reason": by_reason(rows),
        "by_split": by_split(rows),
        "reliability": reliability(rows),
    }
    names = results[0].baselines if results else {}
    if names:
        document["baselines"] = {name: measure([result.baselines[name] for result in results]) for name in names}
    document["notes"] = list(notes)
    document["made_by"] = {
        "logdiag": __version__,
        "python": platform.python_version(),
        "rules": read_folders(folders).fingerprint().hex(),
        "files": [{"name": file.name, "sha256": file.sha256} for file in case_set.files],
        "cases": len(rows),
    }
    document["cases"] = [row.to_dict() for row in rows]
    return document
