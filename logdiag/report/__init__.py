"""The answer in the forms people and programs read; but for JSON a small module a form, with a function `document`."""

from __future__ import annotations

import os
from importlib import import_module

from logdiag.errors import LogdiagError
from logdiag.model import Diagnosis

__all__ = ["FORMATS", "render", "schema_text"]

FORMATS = ("text", "json", "jsonl", "markdown", "html", "sarif")


def render(diagnosis: Diagnosis, format: str = "text") -> str:
    """The answer as `text`, `json`, `jsonl` (one line), `markdown`, `html` or `sarif`, without a final newline;
    log text in it can do no harm to a terminal or a page. Raises LogdiagError for another format."""
    if format not in FORMATS:
        raise LogdiagError(f"format {format!r}: not known; give one of {', '.join(FORMATS)}")
    if format in ("json", "jsonl"):
        # In ASCII: nothing of a log can reach a terminal as a control character.
        return diagnosis.to_json(indent=2 if format == "json" else None)
    document: str = import_module(f"logdiag.report.as_{format}").document(diagnosis)
    return document


def schema_text() -> str:
    """The JSON Schema of an answer, as it ships."""
    with open(os.path.join(os.path.dirname(__file__), "diagnosis.schema.json"), encoding="utf-8") as file:
        return file.read()
