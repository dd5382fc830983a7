"""The tools of the failure agent. They read the logs of this diagnosis and what is known of codes, and nothing else."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from logdiag.agent.codes import KINDS, explain_code
from logdiag.agent.evidence import similar_words
from logdiag.agent.outbound import Channel
from logdiag.agent.view import Excerpt, LogView
from logdiag.memory.embedding import closest, load_embedder
from logdiag.memory.incident import masked
from logdiag.model import Line
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_MOST_LINES = 60
_MOST_MATCHES = 40
_MOST_NEAREST = 10
_MOST_RANKS = 64
# More than this many different lines take longer to embed than a question may wait.
_MOST_EMBEDDED = 2000


class LineSearch:
    """Finds lines by what they mean; made ready with the first question, which may come from several threads. Of lines
    that differ only in numbers and names the latest stands for all."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._given = lines
        self._embed = load_embedder().embed
        self._lock = threading.Lock()

    def nearest(self, query: str, most: int) -> list[Line]:
        """The lines that are most like a text, best first."""
        with self._lock:
            lines, vectors = self._ready
        return [lines[at] for _, at in closest(self._embed([masked(query)])[0], vectors, most)]

    @cached_property
    def _ready(self) -> tuple[list[Line], list[array[float]]]:
        latest: dict[str, Line] = {}
        for line in reversed(self._given):
            if len(latest) < _MOST_EMBEDDED:
                latest.setdefault(masked(line), line)
        vectors = self._embed(list(latest))
        # Without a letter or a digit a line has no vector.
        told = [pair for pair in zip(latest.values(), vectors, strict=True) if any(pair[1])]
        return [line for line, _ in told], [vector for _, vector in told]


def tools_for(view: LogView, search: LineSearch, channel: Channel, book: RuleBook) -> list[BaseTool]:
    """The tools for one conversation. What they return went through its channel."""
    from langchain_core.tools import StructuredTool

    def read_lines(source: int, first: int, last: int) -> str:
        return _rows(view.lines(source, first, last, _MOST_LINES), channel)

    def grep_log(pattern: str, source: int | None = None) -> str:
        return _rows(view.grep(channel.back(pattern), source, _MOST_MATCHES), channel)

    def search_log(words: str) -> str:
        return _rows(Excerpt(tuple(search.nearest(channel.back(words), _MOST_NEAREST))), channel)

    def ranks() -> str:
        return _ranks(view, channel)

    def similar_incidents() -> str:
        return channel.fenced(channel.text("\n".join(similar_words(view.diagnosis)) or "no similar incident is known"))

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
        (search_log, "search_log", "The lines whose meaning is nearest to some words."),
        (ranks, "ranks", "Each rank with its node and its last line."),
        (similar_incidents, "similar_incidents", "Past failures like this one, and whether their remedy worked."),
        (code, "explain_code", f"What a code means; `kind` is one of {', '.join(KINDS)}."),
    )
    return [StructuredTool.from_function(does, name=name, description=words) for does, name, words in described]


def _rows(excerpt: Excerpt, channel: Channel) -> str:
    rows = channel.fenced(channel.rows(excerpt.lines)) if excerpt.lines else "no lines"
    return rows + (f"\n({channel.text(excerpt.note)})" if excerpt.note else "")


def _ranks(view: LogView, channel: Channel) -> str:
    summaries = view.ranks()
    if not summaries:
        return "no line of these logs names a rank"
    rows: list[str] = []
    for item in summaries[:_MOST_RANKS]:
        node = item.node or "not named"
        rows.append(channel.text(f"rank {item.rank}, node {node}, {item.kept} lines worth reading, the last is:"))
        rows.append(channel.rows([item.last]))
    more = [f"and {len(summaries) - _MOST_RANKS} more ranks"] if len(summaries) > _MOST_RANKS else []
    return channel.fenced("\n".join(rows + more))
