"""The answer as SARIF 2.1.0, which code hosts and editors show beside the lines: the root line, or the suspicious ones.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from logdiag._version import __version__
from logdiag.model import Diagnosis, Place
from logdiag.report.words import action_words, suspects_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SUSPICIOUS = "suspicious-line"


def document(diagnosis: Diagnosis) -> str:
    """One run with one result for a root line, else one for each suspicious line; none for a healthy log."""
    results = list(_results(diagnosis))
    rules = dict.fromkeys(result["ruleId"] for result in results)
    driver = {"name": "logdiag", "version": __version__, "rules": [{"id": name} for name in rules]}
    run = {"tool": {"driver": driver}, "results": results, "invocations": [{"executionSuccessful": True}]}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _results(diagnosis: Diagnosis) -> Iterator[dict[str, Any]]:
    root = diagnosis.root_cause
    if root is None:
        for item in suspects_of(diagnosis):
            yield _result("warning", _SUSPICIOUS, item.text, item) | {"properties": {"score": item.score}}
        return
    consequences = [item for item in diagnosis.evidence if item.role == "consequence"]
    message = f"{diagnosis.reason.value}: {diagnosis.summary} What to do: {action_words(diagnosis.recovery)}."
    yield _result("error", root.rule, message, root) | {
        "relatedLocations": [{"id": number, **_location(item)} for number, item in enumerate(consequences, 1)],
        "properties": {"confidence": diagnosis.confidence, "rank": root.rank, "node": root.node},
    }


def _result(level: str, rule: str, text: str, shown: Place) -> dict[str, Any]:
    return {"ruleId": rule, "level": level, "message": {"text": text}, "locations": [_location(shown)]}


def _location(shown: Place) -> dict[str, Any]:
    path = quote(shown.source.encode(errors="replace"))
    uri = f"file://{path}" if path.startswith("/") else path
    region = {"startLine": shown.line, "snippet": {"text": shown.text}}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
