"""The answer as SARIF 2.1.0, which code hosts and editors show beside the lines: the root line, or the suspicious ones.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from logdiag._version import __version__
from logdiag.model import Diagnosis, Place
from logdiag.report.words import action_words, suspects_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SUSPICIOUS = "suspicious-line"


def to_sarif(diagnosis: Diagnosis) -> str:
    """One run with one result for a root line, else one for each suspicious line; none for a healthy log."""
    results = [*_of_root(diagnosis), *_of_suspects(diagnosis)]
    rules = dict.fromkeys(result["ruleId"] for result in results)
    driver = {"name": "logdiag", "version": __version__, "rules": [{"id": name} for name in rules]}
    run = {"tool": {"driver": driver}, "results": results, "invocations": [{"executionSuccessful": True}]}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _of_root(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    root = diagnosis.root_cause
    if root is None:
        return []
    others = [item for item in diagnosis.evidence if item.role == "consequence"]
    said = f"{diagnosis.reason.value}: {diagnosis.summary} What to do: {action_words(diagnosis.recovery)}."
    return [
        {
            "ruleId": root.rule,
            "level": "error",
            "message": {"text": said},
            "locations": [_location(root)],
            "relatedLocations": [{"id": at, **_location(item)} for at, item in enumerate(others, 1)],
            "properties": {"confidence": diagnosis.confidence, "rank": root.rank, "node": root.node},
        }
    ]


def _of_suspects(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    if diagnosis.root_cause is not None:
        return []
    return [
        {
            "ruleId": _SUSPICIOUS,
            "level": "warning",
            "message": {"text": item.text},
            "locations": [_location(item)],
            "properties": {"score": item.score},
        }
        for item in suspects_of(diagnosis)
    ]


def _location(place: Place) -> dict[str, Any]:
    path = quote(place.source.encode(errors="replace"))
    uri = f"file://{path}" if path.startswith("/") else path
    region = {"startLine": place.line, "snippet": {"text": place.text}}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
