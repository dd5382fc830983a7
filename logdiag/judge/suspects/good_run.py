"""Compares a job with a good run of it: a line that the good run printed too broke nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from logdiag.judge.suspects.ranked import RankedLine, Ranking
from logdiag.judge.which_job import Seen
from logdiag.model import TROUBLE, Change, Line, LinePlace, Role
from logdiag.scan.good_run import GoodRun, changes_since
from logdiag.scan.shapes import Shapes, words_of
from logdiag.scan.survey import Survey

# The weight of a line that the good run printed too, and of one that now comes far more often.
_KNOWN, _MORE_OFTEN = 0.02, 0.5
# Consequences of a failure are new too: each kind of new line weighs this share of the one before it.
_LATER = 0.9
# The least chance that a log shows the failure, if the caller knows of one and anything is new.
_SHOWN = 0.5
_MOST_SUSPECTS = 10
# At most so many changes since the good run are reported.
_MOST_CHANGES = 20


def in_the_light_of(good: GoodRun, seen: Seen, shapes: Shapes, *, failed: bool) -> Seen:
    """What was seen of a job, with its changes since a good run, the most suspicious first; lines that the good run
    printed too weigh little. `shapes` are those of the job's lines, `failed`: the caller knows of a failure."""
    survey, lines, suspects = seen.survey, seen.digest.lines, seen.suspects
    changes = changes_since(good, shapes, lines, survey.total_lines)
    ranking = cache(lambda: _weighed_ranking(suspects(), survey.lines, good, changes, failed=failed))
    places, scores = {line.in_file: line.place for line in reversed(lines)}, ranking().scores
    ordered = sorted(changes, key=lambda change: -scores.get(places.get(change.in_file, (-1, -1)), 0.0))
    without_known = _without_known_trouble(survey, good, ordered)
    return Seen(without_known, seen.digest, ranking, tuple(ordered[:_MOST_CHANGES]))


def _weighed_ranking(
    ranking: Ranking, lines: Sequence[Line], good: GoodRun, changes: Sequence[Change], *, failed: bool
) -> Ranking:
    """The ranking with lines that the good run knows weighed down, and new lines the less, the later they came. The sum
    of all scores stays the same."""
    weights = _weights(lines, good, changes)
    scores = {place: score * weights.get(place, 1.0) for place, score in ranking.scores.items()}
    before, after = sum(ranking.scores.values()), sum(scores.values())
    if not after:
        return ranking
    scores = {place: min(score * before / after, 1.0) for place, score in scores.items()}
    by_place = {line.place: line for line in lines}
    first: dict[bytes, RankedLine] = {}
    for place in sorted(scores, key=lambda place: -scores[place]):
        if (line := by_place.get(place)) is not None:
            first.setdefault(words_of(line.message), RankedLine(line, scores[place]))
        if len(first) == _MOST_SUSPECTS:
            break
    failure = max(ranking.failure, _SHOWN) if failed and changes else ranking.failure
    return ranking._replace(lines=tuple(first.values()), scores=scores, failure=failure)


def _without_known_trouble(survey: Survey, good: GoodRun, changes: Sequence[Change]) -> Survey:
    """The survey with trouble that the good run survived too made warnings and hints; unchanged if nothing is new."""
    more_often = {change.in_file for change in changes if change.times_more is not None}
    if len(more_often) == len(changes):
        return survey

    def is_known(line: Line) -> bool:
        return line.in_file not in more_often and good.knows(line)

    lines = [
        line._replace(level="WARNING") if line.level in TROUBLE and is_known(line) else line for line in survey.lines
    ]
    findings = [
        finding._replace(role=Role.HINT) if finding.role.is_failure and is_known(finding.line) else finding
        for finding in survey.findings
    ]
    return replace(survey, lines=lines, findings=findings)


def _weights(lines: Sequence[Line], good: GoodRun, changes: Sequence[Change]) -> dict[LinePlace, float]:
    """The weight of each line, by stream and position."""
    more_often = {change.in_file for change in changes}
    new: dict[bytes, float] = {}
    weights: dict[LinePlace, float] = {}
    for line in lines:
        if good.knows(line):
            weight = _MORE_OFTEN if line.in_file in more_often else _KNOWN
        else:
            weight = new.setdefault(words_of(line.message), _LATER ** len(new))
        weights[line.place] = weight
    return weights
