"""The tools of the failure agent. They read the logs of this diagnosis and what is known of codes, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdiag.agent.codes import KINDS, explain_code
from logdiag.agent.outbound import Channel
from logdiag.agent.view import Excerpt, LogView
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_MOST_LINES = 60
_MOST_MATCHES = 40


def tools_for(view: LogView, channel: Channel, book: RuleBook) -> list[BaseTool]:
    """The tools for one conversation. What they return went through its channel."""
    from langchain_core.tools import StructuredTool

    def read_lines(source: int, first: int, last: int) -> str:
        return _rows(view.lines(source, first, last, _MOST_LINES), channel)

    def grep_log(pattern: str, source: int | None = None) -> str:
        return _rows(view.grep(channel.back(pattern), source, _MOST_MATCHES), channel)

    def code(kind: str, code: str) -> str:
        return channel.text(explain_code(kind, code, book))

    described = (
        (read_lines, "read_lines", f"Lines `first` to `last` of a source (1 for s1), at most {_MOST_LINES}."),
        (
            grep_log,
            "grep_log",
            f"How many lines a regular expression matches, and the first and last of them, at most {_MOST_MATCHES}; "
            "case is ignored.",
        ),
        (code, "explain_code", f"What a code means; `kind` is one of {', '.join(KINDS)}."),
    )
    return [StructuredTool.from_function(does, name=name, description=words) for does, name, words in described]


def _rows(excerpt: Excerpt, channel: Channel) -> str:
    rows = channel.fenced(channel.rows(excerpt.lines)) if excerpt.lines else "no lines"
    return rows + (f"\n({channel.text(excerpt.note)})" if excerpt.note else "")
