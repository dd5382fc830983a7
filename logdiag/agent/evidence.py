"""What the model is shown: a bundle of lines and facts under a budget of tokens.

Built grep-first with a tail: the lines that the findings rest on with those around them, the end of each log, what
reads like a failure, and what came only once; then the facts that no single line tells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest

from logdiag.agent.view import LogView
from logdiag.model import Diagnosis, Line
from logdiag.report.words import rank_ranges

__all__ = ["Bundle", "evidence_of", "similar_words", "tokens_of"]

# Log text takes more tokens than prose: numbers, paths and identifiers.
_CHARACTERS_A_TOKEN = 3
_LONGEST_LINE = 400
_LONGEST_PREFIX = 12
_BEFORE, _AFTER = 4, 6
_LAST_LINES = 15
_FIRST_LINES = 3
_ALIKE = 2
_MOST_ROWS = 16
# What remains of the budget after each kind of line has been taken, in order.
_SHARE_OF_FINDINGS, _SHARE_OF_ENDS, _SHARE_OF_FAILURES, _SHARE_OF_RARE = 0.4, 0.6, 0.85, 1.0
_FAILURE = re.compile(
    r"(?i)\b(?:\w*error|\w*exception|fail(?:ed|ure|s)?|fatal|abort(?:ed|ing)?|killed|traceback|s?xid|time[d-]? ?-?out|"
    r"refused|denied|lost|unreachable|panic|segfault|oom|out of memory|no space|cannot|unable|terminated|signal|"
    r"exit(?:ed)?|corrupt\w*|invalid|mismatch|missing|not found|nan|unhealthy|uncorrectable|reset)\b"
)
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Bundle:
    """`lines` in the order of the logs, `counts` for those that stand for others, `facts` one a line, and an estimate
    of the tokens they take."""

    lines: tuple[Line, ...]
    counts: Mapping[tuple[str, int], int]
    facts: tuple[str, ...]
    tokens: int


def evidence_of(diagnosis: Diagnosis, view: LogView, budget: int, job: Mapping[str, str] | None = None) -> Bundle:
    """The bundle for a diagnosis in at most `budget` tokens. `job` is the job's metadata; its user is left out."""
    facts = tuple(_facts(diagnosis, view, job or {}, budget // 4 * _CHARACTERS_A_TOKEN))
    left = budget - sum(map(tokens_of, facts))
    chosen: dict[tuple[int, int], Line] = {}
    spent = 0
    groups = (
        (_SHARE_OF_FINDINGS, _around_findings(diagnosis, view)),
        (_SHARE_OF_ENDS, chain(_ends(diagnosis, _LAST_LINES), _beginnings(diagnosis))),
        (_SHARE_OF_FAILURES, _failures(diagnosis.digest.lines)),
        (_SHARE_OF_RARE, _rare(diagnosis)),
    )
    for share, lines in groups:
        for line in lines:
            cost = _tokens_of_line(line)
            if (line.stream, line.position) in chosen or not line.text.strip():
                continue
            if spent + cost > share * left:
                break
            chosen[(line.stream, line.position)] = line
            spent += cost
    ordered = tuple(chosen[place] for place in sorted(chosen))
    return Bundle(ordered, diagnosis.digest.counts, facts, spent + budget - left)


def tokens_of(text: str) -> int:
    """An upper estimate of the tokens of a text, by its length: no tokenizer is asked."""
    return len(text) // _CHARACTERS_A_TOKEN + 1


def similar_words(diagnosis: Diagnosis) -> list[str]:
    """Each similar incident as a sentence."""
    return [
        f"past incident {item.incident}: similarity {item.similarity:.2f}, reason {item.reason.value}, "
        f"outcome of its remedy: {item.outcome}, seen {item.seen_at or 'before'}"
        for item in diagnosis.similar[:_MOST_ROWS]
    ]


def _tokens_of_line(line: Line) -> int:
    return (min(len(line.text), _LONGEST_LINE) + _LONGEST_PREFIX) // _CHARACTERS_A_TOKEN + 1


def _around_findings(diagnosis: Diagnosis, view: LogView) -> Iterator[Line]:
    """The lines of the evidence, the root first, and then those around each."""
    roles = ("root", "context", "consequence")
    evidence = sorted(diagnosis.evidence, key=lambda item: roles.index(item.role) if item.role in roles else 3)
    found = [view.find(item.source, item.line, item.text) for item in evidence]
    known = [line for line in found if line is not None]
    yield from known
    for line in known:
        yield from view.around(line, _BEFORE, _AFTER)


def _ends(diagnosis: Diagnosis, most: int) -> Iterator[Line]:
    """The last lines of each log, the very last ones of all first."""
    by_stream: dict[int, list[Line]] = {}
    for line in diagnosis.digest.lines:
        by_stream.setdefault(line.stream, []).append(line)
    tails = [lines[: -most - 1 : -1] for lines in by_stream.values()]
    yield from (line for row in zip_longest(*tails) for line in row if line is not None)


def _beginnings(diagnosis: Diagnosis) -> Iterable[Line]:
    return diagnosis.digest.lines[:_FIRST_LINES]


def _failures(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines that read like a failure, from the first and from the last inwards; few of those that are alike."""
    alike: Counter[str] = Counter()
    found = [line for line in lines if _FAILURE.search(line.message[:_LONGEST_LINE])]
    for pair in zip(found, reversed(found), strict=True):
        for line in pair:
            shape = _DIGITS.sub("", line.message[:_LONGEST_LINE])
            alike[shape] += 1
            if alike[shape] <= _ALIKE:
                yield line


def _rare(diagnosis: Diagnosis) -> Iterator[Line]:
    """Lines that stand for no others, the latest first."""
    digest = diagnosis.digest
    return (line for line in reversed(digest.lines) if (line.source, line.number) not in digest.counts)


def _facts(diagnosis: Diagnosis, view: LogView, job: Mapping[str, str], longest: int) -> Iterator[str]:
    """What rules and memory know, the most telling first, in at most `longest` characters."""
    for fact in chain(
        _verdict(diagnosis, view), _sources(view, diagnosis), _job(job), similar_words(diagnosis), _ranks(view)
    ):
        longest -= len(fact) + 1
        if longest < 0:
            return
        yield fact


def _verdict(diagnosis: Diagnosis, view: LogView) -> Iterator[str]:
    if not diagnosis.failed:
        yield "rules: the log shows no failure"
    elif diagnosis.root_cause is None:
        yield "rules: the job failed, and no rule names the cause"
    else:
        root = diagnosis.root_cause
        line = view.find(root.source, root.line, root.text)
        place = f"s{line.stream + 1}:{line.number}" if line else "a line that was not kept"
        yield (
            f"rules: {diagnosis.reason.value} at {place} with confidence {diagnosis.confidence:.2f}: "
            f"{diagnosis.summary} (rule {root.rule})"
        )
    for item in diagnosis.consequences[:_MOST_ROWS]:
        ranks = f" on ranks {rank_ranges(item.ranks)}" if item.ranks else ""
        yield f"rules: {item.count}x {item.reason}{ranks}, taken for a consequence: {item.title}"
    for other in diagnosis.candidates:
        yield f"rules: it could also be {other.reason.value}, with {other.confidence:.2f}"


def _sources(view: LogView, diagnosis: Diagnosis) -> Iterator[str]:
    digest = diagnosis.digest
    yield f"the logs have {digest.total_lines} lines, of which {len(digest.lines)} are worth reading"
    for number, name in enumerate(view.names[:_MOST_ROWS], 1):
        yield f"source s{number} is {name}"
    if len(view.names) > _MOST_ROWS:
        yield f"there are {len(view.names)} sources"


def _job(job: Mapping[str, str]) -> Iterator[str]:
    return (f"the job's {name} is {value}" for name, value in job.items() if name != "user" and value)


def _ranks(view: LogView) -> Iterator[str]:
    ranks = view.ranks()
    for item in ranks[:_MOST_ROWS]:
        node = f" on {item.node}" if item.node else ""
        yield f"rank {item.rank}{node}: its last kept line is s{item.last.stream + 1}:{item.last.number}"
    if len(ranks) > _MOST_ROWS:
        yield f"{len(ranks)} ranks speak; the tool `ranks` lists them"
