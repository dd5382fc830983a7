"""`diagnose`: the stages in order."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from logdiag.errors import SourceError
from logdiag.judge.judgement import Judgement, judge
from logdiag.judge.merge.case import Case, case_of
from logdiag.judge.verdict import Recalled, decide
from logdiag.judge.which_job import Seen, one_job, one_run, seen_in
from logdiag.model import Diagnosis, Ended
from logdiag.read.sources import Source, limits_of, open_sources
from logdiag.read.streams import Stream
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes, filters_for
from logdiag.scan.survey import surveys
from logdiag.settings import check_model

if TYPE_CHECKING:
    from logdiag.agent.opinion import AgentSettings
    from logdiag.memory.store import StoreOrPlace
    from logdiag.scan.crew import Crew
    from logdiag.scan.good_run import GoodRun
    from logdiag.settings.places import StrPath

Memory: TypeAlias = "StoreOrPlace | Literal[False] | None"
"""A store of past failures or its address; None for the one that `LOGDIAG_MEMORY` names, or else what ships with
logdiag alone; False for none at all. The user's own store, which the command asks, is read only where it is named."""

# An address of a store that cannot exist: it holds nothing, and nothing can be added.
_NO_STORE = os.path.join(os.devnull, "memory")
# In bytes: smaller logs are read before a further process has started.
_WORTH_A_CREW = 128 << 20


def diagnose(
    *sources: Source,
    rules: RuleBook | StrPath | Sequence[StrPath] | None = None,
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
    RuleBook to reuse. `memory` holds past failures (see `Memory`); with `remember` this one is added, and its id is the
    answer's `incident`. `llm` is a language model (`provider:model`), or how to ask one, for where rules and memory
    are not sure; `first` is called with the answer without it, `callbacks` are LangChain's. `exit_code` is the job's,
    `job` its metadata (name, user, framework, image). `baseline` is the log of a good run of the same job, or several:
    what it printed too weighs little; without it the latest good run counts that `remember` kept of the job's name. Of
    several runs in one log `run` is the one to answer for, from 1; None for the last that tells how it ended. Reading
    ends after `max_seconds`, or `max_bytes` of uncompressed log, with a note; what was read is diagnosed. `workers` is
    how many further processes may read large files and many of them, where that saves time; none if left out, and none
    where reading has a limit. `advance` is called with a stream and the bytes read of it so far.

    Raises SourceError and RuleError for what cannot be used; anything optional that is missing becomes a note.
    """
    if not sources:
        raise SourceError("no log was given; name a file or a folder, or pipe the job's output in")
    if llm:
        check_model(getattr(llm, "model", llm))
    if memory is None:
        memory = os.environ.get("LOGDIAG_MEMORY") or _NO_STORE
    finished_at = {"": time.perf_counter()}
    failed = None if exit_code is None else exit_code != 0
    book = (rules if isinstance(rules, RuleBook) else RuleBook.load(rules or ())).fresh()
    streams = open_sources(sources, limits_of(max_seconds, max_bytes), book.forms)
    finished_at["load"] = time.perf_counter()
    shapes = Shapes(book, filters_for(book.filters, job or {}))
    with _crew(streams, book, workers) as crew:
        case = case_of(surveys(streams, book, shapes, advance, crew), book)
    finished_at["read"] = time.perf_counter()
    notes = [*(note for stream in streams for note in stream.notes), *case.notes]
    seen = seen_in(case.survey, case.digest, notes)
    seen = one_run(seen, book, run, notes)
    seen = one_job(seen, book, notes)
    good = _good_run(baseline, memory, job, exit_code, book, notes)
    seen = seen if good is None else _compared(seen, good, case, failed)
    judgement = judge(seen.survey, book, failed=failed, suspects=seen.suspects)
    finished_at["judgement"] = time.perf_counter()
    judgement, recalled = _recalled(seen, judgement, book, memory, failed)
    finished_at["memory"] = time.perf_counter()
    notes += book.notes
    decided = partial(
        decide,
        seen=seen,
        book=book,
        source=", ".join(map(_name, sources)),
        exit_code=exit_code,
        recalled=recalled,
        logs=case.logs,
        notes=notes,
        stats=_stats(case, book, finished_at),
    )
    answer = decided(judgement)
    if llm:
        from logdiag.pipeline.opinions import consulted

        answer = consulted(
            answer, sources, seen.survey, book, llm, decided, job=job, callbacks=callbacks, failed=failed, first=first
        )
    return _kept_in(memory, answer, job, case) if remember else answer


def _crew(streams: Sequence[Stream], book: RuleBook, workers: int) -> AbstractContextManager[Crew | None]:
    """Returns processes that help to read; none where they are not asked for or would not save time."""
    if workers < 2 or sum(stream.size or 0 for stream in streams if stream.path) < _WORTH_A_CREW:
        return nullcontext()
    from logdiag.scan.crew import crew_for

    return crew_for(streams, book, workers) or nullcontext()


def _good_run(
    baseline: Source | Sequence[Source] | None,
    memory: StoreOrPlace | Literal[False],
    job: Mapping[str, str] | None,
    exit_code: int | None,
    book: RuleBook,
    notes: list[str],
) -> GoodRun | None:
    """Returns the good run to compare with: `baseline`, else the latest that was kept of the job's name; None for
    neither, or where the job ended with exit code 0."""
    if baseline is not None:
        from logdiag.scan.good_run import good_run_of

        return good_run_of(baseline, book, notes)
    name = (job or {}).get("name")
    if not name or not memory or memory == _NO_STORE or exit_code == 0:
        return None
    from logdiag.memory.good_runs import kept_good_run

    good, day = kept_good_run(memory, name) or (None, "")
    if good is not None:
        notes.append(f"held against the good run of {name} that was kept on {day}")
    return good


def _compared(seen: Seen, good: GoodRun, case: Case, failed: bool | None) -> Seen:
    """Returns what was seen, held against a good run."""
    from logdiag.judge.suspects.good_run import in_the_light_of

    return in_the_light_of(good, seen, case.shapes, failed=bool(failed))


def _recalled(
    seen: Seen, judgement: Judgement, book: RuleBook, memory: StoreOrPlace | Literal[False], failed: bool | None
) -> tuple[Judgement, Recalled]:
    """Returns the judgement with what the memory knows. The memory's libraries are loaded only where they are of use:
    shipped incidents are only compared with a root."""
    is_folder = isinstance(memory, (str, os.PathLike)) and "://" not in os.fspath(memory)
    nothing_kept = is_folder and not os.path.exists(str(memory))
    if memory is False or (judgement.root is None and nothing_kept):
        return judgement, Recalled()
    from logdiag.pipeline.opinions import recall

    return recall(seen, judgement, book, memory, failed)


def _kept_in(
    memory: StoreOrPlace | Literal[False], answer: Diagnosis, job: Mapping[str, str] | None, case: Case
) -> Diagnosis:
    """Keeps the failure, and returns the answer with its id, or with a note why it was not kept. Of a named job's run
    with a clean exit, the shapes of its lines are kept as a good run."""
    if memory is False:
        return answer
    if memory == _NO_STORE:
        unkept = "this failure was not kept, for no memory is named; give memory= or set LOGDIAG_MEMORY"
        return replace(answer, notes=(*answer.notes, unkept))
    name = (job or {}).get("name")
    if name and answer.failed is False and answer.ended is Ended.CLEAN:
        from logdiag.memory.good_runs import kept_as_good
        from logdiag.scan.good_run import good_run

        return kept_as_good(memory, name, good_run([case.shapes], case.survey.total_lines), answer)
    from logdiag.memory.remember import remembered

    return remembered(answer, memory, job)


def _stats(case: Case, book: RuleBook, finished_at: Mapping[str, float]) -> dict[str, Any]:
    """How much was read and kept, and the seconds of each stage; `finished_at` is when each ended."""
    stages = {name: round(ended - began, 6) for (_, began), (name, ended) in pairwise(finished_at.items())}
    return {
        "bytes": sum(stream.bytes_read for stream in case.survey.streams),
        "lines": sum(log.lines for log in case.logs),
        "kept_lines": len(case.digest.lines),
        "seconds": round(sum(stages.values()), 6),
        "stages": stages,
        "matcher": book.matcher.name,
    }


def _name(source: object) -> str:
    """A source as the caller would call it."""
    if isinstance(source, (str, os.PathLike)):
        return "<stdin>" if source == "-" else os.fspath(source)
    return "<bytes>" if isinstance(source, (bytes, bytearray)) else str(getattr(source, "name", "<stream>"))
