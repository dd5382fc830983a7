"""What the model is shown: lines and facts within a budget of tokens, and the prompt that they make with the model's
instructions and the meanings of the reasons.

First the lines of findings and suspects with those around them, then the end of each log, what reads like a failure,
and what came only once. Of lines that repeat, the first ones are shown.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, zip_longest
from typing import NamedTuple

from logdiag.agent.forms import instructions
from logdiag.agent.opinion import names_no_cause
from logdiag.agent.outbound import Channel
from logdiag.agent.view import LogView
from logdiag.memory.recall import RULE as MEMORY
from logdiag.model import (
    TROUBLE,
    Category,
    Diagnosis,
    Digest,
    Line,
    LineInFile,
    LinePlace,
    Place,
    Reason,
    RootCause,
    Support,
)
from logdiag.model.plain import rank_ranges
from logdiag.report.words import TELLING
from logdiag.rules import ReasonEntry

# Log text takes more tokens than prose: numbers, paths and identifiers.
_CHARACTERS_A_TOKEN = 3
_LONGEST_LINE = 400
_LONGEST_PREFIX = 12
_BEFORE, _AFTER = 4, 6
_AROUND_A_SUSPECT = 2
_LAST_LINES = 15
_FIRST_LINES = 3
# Lines that differ only in numbers: so many of them are shown, the first one always, and how many there are.
_ALIKE = 3
_MOST_ROWS = 16
# 12   0x7f3a   3f2b8c1e-5a7d: the parts in which otherwise equal lines differ
_VARYING = re.compile(r"\b(?:0x[0-9a-f]+|[0-9a-f]{8,}(?:-[0-9a-f]{4,})*)\b|\d+")

_NO_FAILURE = "no failure: the log shows that the job came to its end, or nothing that failed"

_SYSTEM = instructions("instructions.txt") + "\n\nThe reasons:\n{reasons}"
_USER = """\
What is known of the job:
{facts}

Lines of its logs:
{lines}

What broke first? Answer with the tool `answer`."""

# The longer sentences of the instructions: an answer that repeats one of them is not shown.
INSTRUCTION_SENTENCES = tuple(
    part for part in " ".join(_SYSTEM.split()).split(". ") if len(part) > 40 and "{" not in part
)


class Bundle(NamedTuple):
    """What the model is shown: `lines` in the order of the logs; `counts`, how many lines a line stands for, if more
    than one; `facts`, one sentence each."""

    lines: tuple[Line, ...]
    counts: Mapping[LineInFile, int]
    facts: tuple[str, ...]


def evidence_of(diagnosis: Diagnosis, view: LogView, budget: int, job: Mapping[str, str] | None = None) -> Bundle:
    """The bundle for a diagnosis in at most `budget` tokens. `job` is the job's metadata; its user is left out."""
    digest = diagnosis.digest
    facts = tuple(_facts(diagnosis, view, job or {}, budget // 4 * _CHARACTERS_A_TOKEN))
    left = budget - sum(map(tokens_of, facts))
    suspects = _kept_lines(view, diagnosis.suspects)
    root = _kept_lines(view, [diagnosis.root_cause] if diagnosis.root_cause else [])
    near_suspects = (near for line in suspects for near in view.around(line, _AROUND_A_SUSPECT, _AROUND_A_SUSPECT))
    # Up to which share of the budget each kind of line is taken.
    groups = (
        (0.4, chain(root, suspects, _around_findings(diagnosis, view))),
        (0.55, near_suspects),
        (0.7, chain(_ends(digest.lines), digest.lines[:_FIRST_LINES])),
        (0.88, _failures(digest.lines)),
        (1.0, (line for line in reversed(digest.lines) if line.in_file not in digest.counts)),
    )
    return Bundle(*_chosen(digest, [(share * left, group) for share, group in groups]), facts)


def _chosen(
    digest: Digest, groups: Iterable[tuple[float, Iterable[Line]]]
) -> tuple[tuple[Line, ...], dict[LineInFile, int]]:
    """The lines of the groups, each with the first line like it, until so many tokens as stand with the group are
    spent: in the order of the logs, with the number of all lines like them. Of lines that differ only in numbers the
    first few are taken."""
    kept = Counter(map(_shape, digest.lines))
    first = {_shape(line): line for line in reversed(digest.lines)}
    taken: dict[LinePlace, Line] = {}
    shown: Counter[str] = Counter()
    spent = 0
    for most, lines in groups:
        for line in (line for item in lines for line in (first[_shape(item)], item)):
            if line.place in taken or not line.text.strip() or shown[_shape(line)] >= _ALIKE:
                continue
            cost = (min(len(line.text), _LONGEST_LINE) + _LONGEST_PREFIX) // _CHARACTERS_A_TOKEN + 1
            if spent + cost > most:
                break
            taken[line.place] = line
            shown[_shape(line)] += 1
            spent += cost
    many = {shape: max(digest.counts.get(first[shape].in_file, 0), kept[shape]) for shape in shown}
    counts = {first[shape].in_file: many[shape] for shape in shown if many[shape] > shown[shape]}
    return tuple(taken[place] for place in sorted(taken)), counts


def tokens_of(text: str) -> int:
    """An upper estimate of the tokens of a text, by its length: no tokenizer is asked."""
    return len(text) // _CHARACTERS_A_TOKEN + 1


def _shape(line: Line) -> str:
    return _VARYING.sub("0", line.message[:_LONGEST_LINE]) or line.text[:_LONGEST_LINE]


def _kept_lines(view: LogView, places: Iterable[Place]) -> list[Line]:
    lines = (view.find(item) for item in places)
    return [line for line in lines if line is not None]


def _around_findings(diagnosis: Diagnosis, view: LogView) -> Iterator[Line]:
    """The lines of the evidence, the root first, then the lines around each."""
    roles = ("root", "context", "consequence")
    evidence = sorted(diagnosis.evidence, key=lambda item: (*roles, item.role).index(item.role))
    cited = _kept_lines(view, evidence)
    yield from cited
    for line in cited:
        yield from view.around(line, _BEFORE, _AFTER)


def _ends(lines: Iterable[Line]) -> Iterator[Line]:
    """The last lines of each log, the very last ones of all first."""
    by_stream: dict[int, deque[Line]] = {}
    for line in lines:
        by_stream.setdefault(line.stream, deque(maxlen=_LAST_LINES)).appendleft(line)
    yield from (line for row in zip_longest(*by_stream.values()) for line in row if line is not None)


def _failures(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines that read like a failure or are logged as one, from the first and from the last inwards."""
    found = [
        line
        for line in lines
        if line.level in TROUBLE or line.level == "WARNING" or TELLING.search(line.message[:_LONGEST_LINE])
    ]
    for pair in zip(found, reversed(found), strict=True):
        yield from pair


def _facts(diagnosis: Diagnosis, view: LogView, job: Mapping[str, str], longest: int) -> Iterator[str]:
    """What rules and memory know, the most important first, in at most `longest` characters."""
    of_job = (f"the job's {name} is {value}" for name, value in job.items() if name != "user" and value)
    similar = (
        f"past incident {item.incident}: similarity {item.similarity:.2f}, reason {item.reason.value}, "
        f"outcome of its remedy: {item.outcome}, seen {item.seen_at or 'before'}"
        for item in diagnosis.similar[:_MOST_ROWS]
    )
    for fact in chain(_verdict(diagnosis, view), _sources(view, diagnosis), of_job, similar, _ranks(diagnosis)):
        longest -= len(fact) + 1
        if longest < 0:
            return
        yield fact


def _verdict(diagnosis: Diagnosis, view: LogView) -> Iterator[str]:
    """The verdict of rules and memory. Words that people wrote are left out: only those of rules are sent."""
    has_people_words = any((item.rule or "").startswith(MEMORY) for item in diagnosis.evidence)
    if diagnosis.failed is None:
        yield "rules: the log does not tell whether the job failed"
    elif not diagnosis.failed:
        yield "rules: the log shows no failure"
    elif diagnosis.root_cause is None:
        yield "rules: the job failed, and no rule names the cause"
    else:
        root = diagnosis.root_cause
        yield _of_root(diagnosis, root, _label(view.find(root)), "" if has_people_words else f" {diagnosis.summary}")
    for item in diagnosis.consequences[:_MOST_ROWS]:
        ranks = f" on ranks {rank_ranges(item.ranks)}" if item.ranks else ""
        title = "" if has_people_words else f": {item.title}"
        yield f"rules: {item.count}x {item.reason}{ranks}, taken for a consequence{title}"
    for other in diagnosis.candidates:
        yield f"rules: it could also be {other.reason.value}"
    if labels := [_label(line) for line in _kept_lines(view, diagnosis.suspects)]:
        yield f"lines that stand out by how they stand in the log, whatever they say: {', '.join(labels)}"


def _of_root(diagnosis: Diagnosis, root: RootCause, label: str, summary: str) -> str:
    """What rules or the memory conclude about the root line, whose label is such as `s1:123`."""
    sure = f"about {diagnosis.confidence:.0%} of such answers are right"
    if root.rule.startswith(MEMORY):
        return f"memory: {diagnosis.reason.value} at {label}, as a past failure with such a line; {sure}"
    if names_no_cause(diagnosis):
        source = f"{diagnosis.summary} rule {root.rule}"
        return f"rules: no cause known; {label} only shows that the job failed ({source})"
    if Support.SUSPECT in diagnosis.supports:
        return f"rules: no rule knows {label}; its words suggest {diagnosis.reason.value}, which is a guess"
    return f"rules: {diagnosis.reason.value} at {label};{summary} {sure} (rule {root.rule})"


def _label(line: Line | None) -> str:
    return f"s{line.stream + 1}:{line.number}" if line else "a line that was not kept"


def _sources(view: LogView, diagnosis: Diagnosis) -> Iterator[str]:
    digest = diagnosis.digest
    yield f"the logs have {digest.total_lines} lines, of which {len(digest.lines)} are worth reading"
    for number, name in enumerate(view.names[:_MOST_ROWS], 1):
        yield f"source s{number} is {name}"
    if len(view.names) > _MOST_ROWS:
        yield f"there are {len(view.names)} sources"


def _ranks(diagnosis: Diagnosis) -> Iterator[str]:
    last = {line.rank: line for line in diagnosis.digest.lines if line.rank is not None}
    nodes = {line.rank: line.node for line in diagnosis.digest.lines if line.node}
    for rank in sorted(last)[:_MOST_ROWS]:
        node = f" on {nodes[rank]}" if rank in nodes else ""
        yield f"rank {rank}{node}: its last kept line is {_label(last[rank])}"
    if len(last) > _MOST_ROWS:
        yield f"{len(last)} ranks speak"


class Prompt(NamedTuple):
    """The two messages that begin a conversation, as they leave the machine."""

    system: str
    user: str

    def __str__(self) -> str:
        return f"--- system ---\n{self.system}\n--- user ---\n{self.user}\n"


def prompt_of(bundle: Bundle, channel: Channel, rounds: int, reasons: Mapping[Reason, ReasonEntry]) -> Prompt:
    """The prompt for a bundle; `reasons` gives the meaning of each reason. All that comes from the job goes through the
    channel and is fenced."""
    rows: list[str] = []
    for category in Category:
        rows.append(f"{category.value}:")
        for reason in [reason for reason in Reason if reason.category is category]:
            rows.append(f"- {reason.value}: {reasons[reason].for_models if reason in reasons else _NO_FAILURE}")
    user = _USER.format(
        facts=channel.fenced(channel.text("\n".join(bundle.facts))),
        lines=channel.fenced(channel.rows(bundle.lines, bundle.counts)),
    )
    return Prompt(_SYSTEM.format(nonce=channel.nonce, rounds=rounds, reasons="\n".join(rows)), user)
