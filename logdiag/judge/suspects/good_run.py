"""What was seen of a job in the light of a good run of it: what that printed too broke nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from logdiag.judge.suspects.ranked import RankedLine, Ranking
from logdiag.judge.which_job import Seen
from logdiag.model import TROUBLE, Change, Line, LinePlace, Role
from logdiag.scan.good_run import GoodRun, changes_since
from logdiag.scan.shapes import Shapes, words_of
from logdiag.scan.survey import Survey

# What a line counts that the good run printed too, and one that only comes far more often now.
_KNOWN, _MORE_OFTEN = 0.02, 0.5
# What follows from a failure is new too: each kind of new line counts so much of the one before it.
_LATER = 0.9
# The chance that a log shows its failure where the caller knows of one and there is anything new.
_SHOWN = 0.5
_MOST_SUSPECTS = 10
# What is new since a good run: more is no news.
_MOST_CHANGES = 20


def in_the_light_of(good: GoodRun, seen: Seen, shapes: Shapes, *, failed: bool) -> Seen:
    """What was seen of a job whose lines are of these `shapes`, with what changed since a good run, the most suspicious
    first; what that printed too weighs little. `failed` says that the caller knows of a failure."""
    survey, lines, suspects = seen.survey, seen.digest.lines, seen.suspects
    changes = changes_since(good, shapes, lines, survey.total_lines)
    ranking = cache(lambda: _weighed(suspects(), survey.lines, good, changes, failed=failed))
    ordered = _in_order_of_suspicion(changes, lines, ranking().scores)
    found = _without_weather(survey, good, ordered)
    return Seen(found, seen.digest, ranking, ordered[:_MOST_CHANGES])


def _weighed(
    ranking: Ranking, lines: Sequence[Line], good: GoodRun, changes: Sequence[Change], *, failed: bool
) -> Ranking:
    """A ranking of suspects whose known lines count little, and new ones the more, the earlier they came; all scores
    together stay what they were."""
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


def _without_weather(survey: Survey, good: GoodRun, changes: Sequence[Change]) -> Survey:
    """What was found, where trouble that the good run survived too counts only when there is nothing better; all as it
    was where nothing is new."""
    more = {change.in_file for change in changes if change.times_more is not None}
    if len(more) == len(changes):
        return survey

    def weather(line: Line) -> bool:
        return line.in_file not in more and good.knows(line)

    lines = [
        line._replace(level="WARNING") if line.level in TROUBLE and weather(line) else line for line in survey.lines
    ]
    findings = [
        finding._replace(role=Role.HINT) if finding.role.is_failure and weather(finding.line) else finding
        for finding in survey.findings
    ]
    return replace(survey, lines=lines, findings=findings)


def _weights(lines: Sequence[Line], good: GoodRun, changes: Sequence[Change]) -> dict[LinePlace, float]:
    """What each line counts, by stream and position."""
    more = {change.in_file for change in changes}
    new: dict[bytes, float] = {}
    weights: dict[LinePlace, float] = {}
    for line in lines:
        if good.knows(line):
            weight = _MORE_OFTEN if line.in_file in more else _KNOWN
        else:
            weight = new.setdefault(words_of(line.message), _LATER ** len(new))
        weights[line.place] = weight
    return weights


def _in_order_of_suspicion(
    changes: Sequence[Change], lines: Sequence[Line], scores: Mapping[LinePlace, float]
) -> tuple[Change, ...]:
    """What changed, the most suspicious first."""
    places = {line.in_file: line.place for line in reversed(lines)}
    return tuple(sorted(changes, key=lambda one: -scores.get(places.get(one.in_file, (-1, -1)), 0.0)))
