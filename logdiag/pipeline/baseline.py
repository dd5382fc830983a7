"""A good run of the same job: where it is read or kept, and what was seen of a job in its light."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, cast

from logdiag.errors import MemoryStoreError
from logdiag.judge.merge.case import Case
from logdiag.judge.suspects.baselined import in_order_of_suspicion, weighed, without_weather
from logdiag.judge.which_job import Seen
from logdiag.model import Diagnosis
from logdiag.read.sources import Source, limits_of, open_sources
from logdiag.rules import RuleBook
from logdiag.scan.good_run import GoodRun, changes_since, good_run
from logdiag.scan.shapes import Shapes
from logdiag.scan.survey import surveys

if TYPE_CHECKING:
    from logdiag.memory.store import StoreOrPlace

# What is new since a good run: more is no news.
_MOST_CHANGES = 20


def good_run_of(baseline: Source | Sequence[Source], book: RuleBook, notes: list[str]) -> GoodRun:
    """What the logs of good runs tell; what could not be read of them is a note."""
    several = isinstance(baseline, Sequence) and not isinstance(baseline, (str, bytes, bytearray))
    logs = tuple(cast(Sequence[Source], baseline)) if several else (baseline,)
    streams = open_sources(logs, limits_of(None, None), book.forms)
    parts = surveys(streams, book, Shapes(book, ()))
    notes += [f"baseline: {note}" for stream in streams for note in stream.notes]
    shapes = {id(part.shapes): part.shapes for part in parts if part.shapes is not None}
    return good_run(shapes.values(), sum(part.total_lines for part in parts))


def kept_good_run(memory: StoreOrPlace, name: str, notes: list[str]) -> GoodRun | None:
    """What the memory keeps of the latest good run of a job of this name, with a note; None where it keeps none."""
    from logdiag.memory.good_runs import kept_good_run as kept_in

    good, day = kept_in(memory, name) or (None, "")
    if good is not None:
        notes.append(f"held against the good run of {name} that was kept on {day}")
    return good


def in_the_light_of(good: GoodRun, seen: Seen, shapes: Shapes, *, failed: bool) -> Seen:
    """What was seen of a job whose lines are of these `shapes`, with what changed since a good run, the most suspicious
    first; what that printed too weighs little."""
    survey, lines, suspects = seen.survey, seen.digest.lines, seen.suspects
    changes = changes_since(good, shapes, lines, survey.total_lines)
    ranking = cache(lambda: weighed(suspects(), survey.lines, good, changes, failed=failed))
    ordered = in_order_of_suspicion(changes, lines, ranking().scores)
    found = without_weather(survey, good, ordered)
    return Seen(found, seen.digest, ranking, ordered[:_MOST_CHANGES])


def kept_as_good(memory: StoreOrPlace, name: str, answer: Diagnosis, case: Case) -> Diagnosis:
    """The answer of a job that came to its end, with a note that what its lines look like is kept, or why not."""
    from logdiag.memory.good_runs import keep_good_run

    try:
        keep_good_run(memory, name, good_run([case.shapes], case.survey.total_lines))
    except MemoryStoreError as error:
        return replace(answer, notes=(*answer.notes, f"not kept as a good run: {error}"))
    return replace(answer, notes=(*answer.notes, f"kept as the latest good run of {name}"))
