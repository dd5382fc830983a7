"""The lines of a log that a reader of a miss wants to see."""

from __future__ import annotations

from dataclasses import dataclass

from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case
from logdiag.evaluation.logs import last_lines
from logdiag.evaluation.scoring import Row

_AROUND = 5
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A line of the log; `labelled` and `answered` say whose root line it is."""

    source: str
    number: int
    text: str
    labelled: bool = False
    answered: bool = False


def excerpt(case: Case, row: Row) -> tuple[Excerpt, ...]:
    """The labelled and the answered root line, each with five lines on both sides; without either the end of the log.
    Empty for a log that went away."""
    try:
        return _chosen(case, row)
    except LogdiagError:
        return ()


def _chosen(case: Case, row: Row) -> tuple[Excerpt, ...]:
    found = next((line for line in case.lines() if case.roots[0] in line[2]), None) if case.roots else None
    labelled = found[:2] if found else None
    answered = (row.root_source or "", row.root_line) if row.root_line is not None else None
    places = [place for place in (labelled, answered) if place]
    if not places:
        return tuple(Excerpt(*line[:2], _cut(line[2], "")) for line in last_lines(case.lines(), _AROUND))
    return tuple(
        Excerpt(
            source,
            number,
            _cut(text, case.roots[0] if (source, number) == labelled else ""),
            labelled=(source, number) == labelled,
            answered=(source, number) == answered,
        )
        for source, number, text in case.lines()
        if any(source == near[0] and abs(number - near[1]) <= _AROUND for near in places)
    )


def _cut(text: str, around: str) -> str:
    """A long line reduced to the part that matters."""
    if len(text) <= _LONGEST:
        return text
    start = max(0, min(text.find(around) - 80, len(text) - _LONGEST)) if around else 0
    return ("\u2026" if start else "") + text[start : start + _LONGEST] + "\u2026"
