"""The answer in the forms people and programs read; one small module a form, but for JSON."""

from __future__ import annotations

import os

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
    if format == "markdown":
        from logdiag.report.as_markdown import to_markdown

        return to_markdown(diagnosis)
    if format == "html":
        from logdiag.report.as_html import to_html

        return to_html(diagnosis)
    if format == "sarif":
        from logdiag.report.as_sarif import to_sarif

        return to_sarif(diagnosis)
    from logdiag.report.as_text import to_plain

    return to_plain(diagnosis)


def schema_text() -> str:
    """The JSON Schema of an answer, as it ships."""
    with open(os.path.join(os.path.dirname(__file__), "diagnosis.schema.json"), encoding="utf-8") as file:
        return file.read()
