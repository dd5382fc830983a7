"""`diagnose`: the stages in order."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from logdiag.causes import find_causes
from logdiag.errors import SourceError
from logdiag.filters import Shapes, digest, filters_for
from logdiag.model import Diagnosis
from logdiag.rules import RuleBook
from logdiag.sources import Stream, open_sources
from logdiag.survey import survey
from logdiag.verdict import decide

__all__ = ["diagnose"]


def diagnose(
    *sources: object,
    rules: RuleBook | Sequence[str | os.PathLike[str]] | None = None,
    exit_code: int | None = None,
    job: Mapping[str, str] | None = None,
    tee: bool = False,
    advance: Callable[[Stream, int], None] | None = None,
) -> Diagnosis:
    """Diagnoses one job from its logs: what broke first, where, on what evidence, and what to do.

    `sources` are paths (files, or a job's folder), `-` for standard input, open binary files, or logs as bytes;
    several are the ranks and nodes of one job. `rules` are folders of rules beside the shipped ones, or a RuleBook to
    reuse. `exit_code` is the job's, `job` its metadata (name, user, framework, image). `tee` passes standard input
    through; `advance` is told what was read.

    Raises SourceError and RuleError for what cannot be used; anything optional that is missing becomes a note.
    """
    if not sources:
        raise SourceError("no log was given; name a file or a folder, or pipe the job's output in")
    began = time.perf_counter()
    book = rules if isinstance(rules, RuleBook) else RuleBook.load(rules or ())
    streams = open_sources(sources, tee=tee)
    shapes = Shapes(book, filters_for(book.filters, job or {}))
    loaded = time.perf_counter()
    found = survey(streams, book, shapes, advance)
    read = time.perf_counter()
    causes = find_causes(found, book, failed=None if exit_code is None else exit_code != 0)
    kept = digest(found.lines, shapes, found.total_lines, found.total_bytes)
    ended = time.perf_counter()
    stats: dict[str, Any] = {
        "bytes": found.total_bytes,
        "lines": found.total_lines,
        "kept_lines": len(kept.lines),
        "seconds": round(ended - began, 6),
        "stages": {"load": round(loaded - began, 6), "read": round(read - loaded, 6), "causes": round(ended - read, 6)},
        "matcher": book.matcher.name,
    }
    return decide(
        causes,
        found,
        kept,
        book,
        source=", ".join(_name(source) for source in sources),
        exit_code=exit_code,
        notes=[note for stream in streams for note in stream.notes],
        stats=stats,
    )


def _name(source: object) -> str:
    """A source as the caller would call it."""
    if isinstance(source, (str, os.PathLike)):
        return "<stdin>" if source == "-" else os.fspath(source)
    return "<bytes>" if isinstance(source, (bytes, bytearray)) else str(getattr(source, "name", "<stream>"))
