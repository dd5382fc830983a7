"""The answer in the forms people and programs read; one small module a form."""

from __future__ import annotations

from logdiag.model import Diagnosis

__all__ = ["FORMATS", "render"]

FORMATS = ("text", "json", "jsonl", "markdown")


def render(diagnosis: Diagnosis, form: str) -> str:
    """The answer in one of FORMATS, without a final newline; log text in it can do no harm."""
    if form in ("json", "jsonl"):
        from logdiag.report.as_json import to_json

        return to_json(diagnosis, one_line=form == "jsonl")
    if form == "markdown":
        from logdiag.report.as_markdown import to_markdown

        return to_markdown(diagnosis)
    from logdiag.report.as_text import to_plain

    return to_plain(diagnosis)
