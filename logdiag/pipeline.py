"""`diagnose`: the stages in order."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from logdiag.errors import MemoryStoreError, SourceError, WeightsError
from logdiag.judge.judgement import Judgement, judge
from logdiag.judge.merge.case import Case, case_of
from logdiag.judge.suspects.ranked import Ranking
from logdiag.judge.verdict import decide
from logdiag.judge.which_job import one_job, one_run
from logdiag.model import Change, Diagnosis, Digest, Ended
from logdiag.read.sources import Source, Stream, limits_of, open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes, filters_for
from logdiag.scan.survey import Survey, surveys
from logdiag.settings import check_model

if TYPE_CHECKING:
    from logdiag.agent.opinion import AgentSettings
    from logdiag.memory.store import Store
    from logdiag.opinions import Recalled
    from logdiag.scan.crew import Crew
    from logdiag.scan.good_run import GoodRun

Memory: TypeAlias = "Store | str | os.PathLike[str] | Literal[False] | None"
"""A store of past failures or its place; None for the one that `LOGDIAG_MEMORY` names, or else what ships with logdiag
alone; False for none at all. The user's own store, which the command asks, is read only where it is named."""

Folder: TypeAlias = "str | os.PathLike[str]"

# What is new since a good run: more is no news.
_MOST_CHANGES = 20
# A place that cannot be: it holds nothing, and nothing can be added.
_NOBODYS = os.path.join(os.devnull, "memory")
# Smaller logs are read before a further process is up.
_WORTH_A_CREW = 128 << 20


def diagnose(
    *sources: Source,
    rules: RuleBook | Folder | Sequence[Folder] | None = None,
    memory: Memory = None,
    remember: bool = False,
    llm: AgentSettings | str | None = None,
    callbacks: Sequence[Any] = (),
    first: Callable[[Diagnosis], None] | None = None,
    exit_code: int | None = None,
    job: Mapping[str, str] | None = None,
    baseline: Source | Sequence[Source] | None = None,
    run: int | None = None,
    max_seconds: float | None = None,
    max_bytes: int | None = None,
    workers: int = 0,
    advance: Callable[[Stream, int], None] | None = None,
) -> Diagnosis:
    """Diagnoses one job from its logs: what broke first, where, on what evidence, and what to do.

    `sources` are paths (files, or a job's folder), `-` for standard input, open binary files, or logs as bytes;
    several are the ranks and nodes of one job. `rules` is a folder of rules beside the shipped ones, several, or a
    RuleBook to reuse. `memory` holds past failures (see `Memory`); with `remember` this one is added, its id the
    answer's `incident`. `llm` is a language model (`provider:model`), or how to ask one, for where rules and memory
    are not sure; `first` is given the answer without it, `callbacks` are LangChain's. `exit_code` is the job's, `job`
    its metadata (name, user, framework, image). `baseline` is the log of a good run of the same job, or several: what
    it printed too weighs little; without it the latest good run counts that `remember` kept of the job's name. Of
    several runs in one log `run` is the one to answer for, from 1, None for the last.
    Reading ends after `max_seconds`, or `max_bytes` of uncompressed log, with a note; what was read is diagnosed.
    `workers` is how many further processes may read large files and many of them, where that saves time; none if left
    out, and none where reading has a limit. `advance` is told what was read.

    Raises SourceError and RuleError for what cannot be used; anything optional that is missing becomes a note.
    """
    if not sources:
        raise SourceError("no log was given; name a file or a folder, or pipe the job's output in")
    if llm:
        check_model(getattr(llm, "model", llm))
    if memory is None:
        memory = os.environ.get("LOGDIAG_MEMORY") or _NOBODYS
    clock = _Clock()
    book = (rules if isinstance(rules, RuleBook) else RuleBook.load(rules or ())).fresh()
    streams = open_sources(sources, limits_of(max_seconds, max_bytes), book.forms)
    clock.ended("load")
    shapes = Shapes(book, filters_for(book.filters, job or {}))
    with _crew(streams, book, workers) as crew:
        parts = surveys(streams, book, shapes, advance, crew)
    case = case_of(parts, book)
    clock.ended("read")
    notes = [*(note for stream in streams for note in stream.notes), *case.notes]
    found, kept = _answered_for(case, book, run, notes)
    suspects = _suspects(found, kept, notes)
    changes: tuple[Change, ...] = ()
    good = _good_run(baseline, book, notes) if baseline is not None else _kept_good_run(memory, job, exit_code, notes)
    if good is not None:
        found, suspects, changes = _since(good, found, kept, case.shapes, suspects, failed=bool(exit_code))
    judgement = judge(found, book, failed=None if exit_code is None else exit_code != 0, suspects=suspects)
    clock.ended("judgement")
    recalled = _recalled(found, judgement, book, memory, exit_code, suspects)
    clock.ended("memory")
    notes.extend(book.notes)
    decided = partial(
        decide,
        survey=found,
        digest=kept,
        book=book,
        source=", ".join(_name(source) for source in sources),
        exit_code=exit_code,
        recalled=recalled,
        suspects=suspects,
        logs=case.logs,
        changes=changes[:_MOST_CHANGES],
        notes=notes,
        stats=_stats(case, book, clock),
    )
    answer = decided(recalled.judgement if recalled else judgement)
    if llm:
        from logdiag.opinions import consulted

        answer = consulted(
            answer, sources, found, book, llm, decided, job=job, callbacks=callbacks, exit_code=exit_code, first=first
        )
    return _kept_in(memory, answer, job, case) if remember else answer


def _crew(streams: Sequence[Stream], book: RuleBook, workers: int) -> AbstractContextManager[Crew | None]:
    """Further processes that read, where they are asked for and pay."""
    if workers < 2 or sum(stream.size or 0 for stream in streams) < _WORTH_A_CREW:
        return nullcontext()
    from logdiag.scan.crew import crew_for

    return crew_for(streams, book, workers, _WORTH_A_CREW) or nullcontext()


def _answered_for(case: Case, book: RuleBook, run: int | None, notes: list[str]) -> tuple[Survey, Digest]:
    """What was found and kept of the one run and the one job that are answered for; the others are a note each."""
    quietly = partial(_suspects, notes=[])
    found, kept, other_runs = one_run(case.survey, case.digest, book, run, quietly)
    found, kept, other_jobs = one_job(found, kept, book, quietly)
    notes += [told for told in (other_runs, other_jobs) if told]
    return found, kept


def _kept_in(memory: Memory, answer: Diagnosis, job: Mapping[str, str] | None, case: Case) -> Diagnosis:
    """The answer with the id under which its failure is remembered, or a note why it is not. Of a named job's run that
    came to its end it is kept what its lines look like."""
    if memory is False:
        return answer
    if memory == _NOBODYS:
        unkept = "this failure was not kept, for no memory is named; give memory= or set LOGDIAG_MEMORY"
        return replace(answer, notes=(*answer.notes, unkept))
    name = (job or {}).get("name")
    if name and memory is not None and answer.failed is False and answer.ended is Ended.CLEAN:
        from logdiag.memory.good_runs import keep_good_run
        from logdiag.scan.good_run import good_run

        try:
            keep_good_run(memory, name, good_run([case.shapes], case.survey.total_lines))
        except MemoryStoreError as error:
            return replace(answer, notes=(*answer.notes, f"not kept as a good run: {error}"))
        return replace(answer, notes=(*answer.notes, f"kept as the latest good run of {name}"))
    from logdiag.memory.remember import remembered

    return remembered(answer, memory, job)


def _suspects(found: Survey, kept: Digest, notes: list[str]) -> Callable[[], Ranking]:
    """Ranks the suspects when they are first asked for; that they cannot be ranked is a note."""

    @cache
    def ranked() -> Ranking:
        from logdiag.judge.suspects.ranking import ranking

        try:
            return ranking(found, kept)
        except WeightsError as problem:
            notes.append(f"no suspects were looked for: {problem}")
            return Ranking()

    return ranked


def _good_run(baseline: Source | Sequence[Source], book: RuleBook, notes: list[str]) -> GoodRun:
    """What the logs of good runs tell; what could not be read of them is a note."""
    from logdiag.scan.good_run import good_run

    several = isinstance(baseline, Sequence) and not isinstance(baseline, (str, bytes, bytearray))
    logs: tuple[object, ...] = tuple(cast(Sequence[Source], baseline)) if several else (baseline,)
    streams = open_sources(logs, limits_of(None, None), book.forms)
    parts = surveys(streams, book, Shapes(book, ()))
    notes += [f"baseline: {note}" for stream in streams for note in stream.notes]
    shapes = {id(part.shapes): part.shapes for part in parts if part.shapes is not None}
    return good_run(shapes.values(), sum(part.total_lines for part in parts))


def _kept_good_run(
    memory: Memory, job: Mapping[str, str] | None, exit_code: int | None, notes: list[str]
) -> GoodRun | None:
    """What the memory keeps of the latest good run of a job of this name; nothing where the job came to a good end."""
    name = (job or {}).get("name")
    if not name or not memory or memory == _NOBODYS or exit_code == 0:
        return None
    from logdiag.memory.good_runs import kept_good_run

    kept = kept_good_run(memory, name)
    if kept is None:
        return None
    notes.append(f"held against the good run of {name} that was kept on {kept[1]}")
    return kept[0]


def _since(
    good: GoodRun, found: Survey, kept: Digest, shapes: Shapes, suspects: Callable[[], Ranking], *, failed: bool
) -> tuple[Survey, Callable[[], Ranking], tuple[Change, ...]]:
    """What was found and the suspects in the light of a good run, and what changed since, the most suspicious first."""
    from logdiag.judge.suspects.baselined import in_order_of_suspicion, weighed, without_weather
    from logdiag.scan.good_run import changes_since

    changes = changes_since(good, shapes, kept.lines, found.total_lines)
    ranking = cache(lambda: weighed(suspects(), found.lines, good, changes, failed=failed))
    ordered = in_order_of_suspicion(changes, kept.lines, ranking().scores)
    return without_weather(found, good, ordered), ranking, ordered


def _recalled(
    found: Survey,
    judgement: Judgement,
    book: RuleBook,
    memory: Memory,
    exit_code: int | None,
    suspects: Callable[[], Ranking],
) -> Recalled | None:
    """What the memory makes of it; its parts are loaded only where it has something to say: what ships with logdiag
    is only likened to a root."""
    kept = not isinstance(memory, (str, os.PathLike)) or "://" in os.fspath(memory) or os.path.exists(memory)
    if memory is False or (judgement.root is None and not kept):
        return None
    from logdiag.opinions import recall

    return recall(found, judgement, book, memory, exit_code=exit_code, suspects=suspects)


def _stats(case: Case, book: RuleBook, clock: _Clock) -> dict[str, Any]:
    """How much was read, how much of it is kept, and how long it took."""
    return {
        "bytes": sum(stream.bytes_read for stream in case.survey.streams),
        "lines": sum(log.lines for log in case.logs),
        "kept_lines": len(case.digest.lines),
        "seconds": clock.seconds,
        "stages": clock.stages,
        "matcher": book.matcher.name,
    }


class _Clock:
    """How long each stage took, in seconds."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self._began = self._last = time.perf_counter()

    def ended(self, stage: str) -> None:
        now = time.perf_counter()
        self.stages[stage] = round(now - self._last, 6)
        self._last = now

    @property
    def seconds(self) -> float:
        return round(self._last - self._began, 6)


def _name(source: object) -> str:
    """A source as the caller would call it."""
    if isinstance(source, (str, os.PathLike)):
        return "<stdin>" if source == "-" else os.fspath(source)
    return "<bytes>" if isinstance(source, (bytes, bytearray)) else str(getattr(source, "name", "<stream>"))
