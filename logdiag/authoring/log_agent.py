"""The Log Agent learns a job's regular output, so that the digests of its next runs leave it out.

A model proposes patterns for a few segments of a log, several times over. What enough samples agree on is judged by the
model once more, then by a gate without a model, and becomes a filter bound to the job's metadata.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, NamedTuple

from logdiag.agent.ask import Asker, objects_in
from logdiag.agent.forms import instructions
from logdiag.agent.outbound import learn_words
from logdiag.agent.redaction import PSEUDONYM, Redactor
from logdiag.authoring.gate import known_failures, problems_of, protected
from logdiag.authoring.rule_file import Proposal, as_yaml
from logdiag.errors import RuleError
from logdiag.memory.documents import printable
from logdiag.memory.incident import Incident
from logdiag.model import Line
from logdiag.read.prefixes import parse_line
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook

# The metadata of a job that a filter can be bound to.
_BOUND = ("name", "framework", "image", "user")

_SEGMENT = 60
_MOST_SEGMENTS = 4
_MOST_LINES = 200_000
_LONGEST_PATTERN = 300
_MOST_PATTERNS = 12
_MOST_EXAMPLES = 4

_LONGEST_LINE = 4096
# What stands in a filter's examples for names of these kinds.
_STAND_INS = {
    "host": "node-1",
    "user": "user",
    "ip": "192.0.2.17",
    "mac": "02:00:5e:10:00:01",
    "email": "user@example.org",
}

_PROPOSE, _JUDGE = (instructions(f"{name}_filters.txt", __file__) for name in ("propose", "judge"))


class _Kind(NamedTuple):
    """A pattern that was proposed, the lines of the segment that it matches, and how many samples agree on them."""

    title: str
    pattern: str
    lines: tuple[Line, ...]
    votes: int


def learn_filters(
    sources: Sequence[object],
    asker: Asker,
    name: str,
    *,
    book: RuleBook,
    job: Mapping[str, str],
    incidents: Sequence[Incident] = (),
    samples: int = 3,
) -> Iterator[Proposal]:
    """Filters for lines that no filter in force knows, each as soon as it is found. More than half of `samples` answers
    must agree.

    `name` is the model's, for the provenance; `job` is what the filters are bound to; no filter may drop a line of
    `incidents` or of the shipped ones. Raises RuleError for an unknown job, AgentError, and SourceError for the log.
    """
    bound = _binding(job)
    lines = _read(sources)
    kept, known = protected(lines, book), known_failures(book, incidents)
    redactor = asker.channel.redactor
    learn_words(redactor, job, lines)
    taken: set[str] = set()
    for segment in _segments(lines, kept, book):
        for kind in _judged(_agreed(segment, asker, samples), asker):
            proposal = _proposal(kind, bound, redactor, f"{name}, {kind.votes} of {samples} samples and its judgement")
            if proposal.id not in taken:
                taken.add(proposal.id)
                yield replace(proposal, problems=problems_of(proposal, lines, kept, known))


def _binding(job: Mapping[str, str]) -> dict[str, str]:
    """Patterns that the metadata of this job and of its next runs match: numbers vary, words do not."""
    bound = {
        key: "^" + re.sub(r"\d+", lambda _: r"\d+", re.escape(job[key]).replace("\\-", "-")) + "$"
        for key in _BOUND
        if job.get(key)
    }
    if not bound:
        raise RuleError("--job: nothing is known of the job that the filters are for; give --job name=NAME")
    return bound


def _read(sources: Sequence[object]) -> list[Line]:
    """The first lines of each source, parsed; as many as a job's regular output needs to show itself."""
    lines: list[Line] = []
    for stream in open_sources(tuple(sources)):
        for block in stream.blocks():
            for at, data in enumerate(block.data.removesuffix(b"\n").split(b"\n")):
                if len(lines) == _MOST_LINES:
                    return lines
                text, number = data[:_LONGEST_LINE].decode(errors="replace"), block.number_of(at)
                lines.append(parse_line(text, stream.name, number, position=len(lines), prefix=block.prefix))
    return lines


def _segments(lines: Sequence[Line], kept: Sequence[bool], book: RuleBook) -> list[list[Line]]:
    """Up to `_MOST_SEGMENTS` pieces of the log, evenly spread, without protected lines and lines that rules know."""
    new = [
        line
        for line, keep in zip(lines, kept, strict=True)
        if not keep and line.message.strip() and not book.filters_of(line) and not book.is_progress(line)
    ]
    starts = range(0, len(new), _SEGMENT)
    chosen = [starts[len(starts) * part // _MOST_SEGMENTS] for part in range(_MOST_SEGMENTS)] if starts else []
    return [new[start : start + _SEGMENT] for start in dict.fromkeys(chosen)]


def _agreed(segment: Sequence[Line], asker: Asker, samples: int) -> list[_Kind]:
    """The kinds that more than half of the samples propose; patterns agree if they match the same lines."""
    shown = asker.fenced(line.text for line in segment)
    answers = asker.texts(_PROPOSE.format(nonce=asker.channel.nonce), f"Lines of the log:\n{shown}", samples)
    proposed = [_proposed(text, segment) for text in answers]
    votes = Counter(matched for filters in proposed for matched in filters)
    wording = {matched: words for filters in reversed(proposed) for matched, words in filters.items()}
    return [
        _Kind(*wording[matched], tuple(segment[index] for index in matched), count)
        for matched, count in votes.most_common()
        if count > samples // 2
    ]


def _proposed(text: str, segment: Sequence[Line]) -> dict[tuple[int, ...], tuple[str, str]]:
    """(title, pattern) of the filters in an answer, by the indices of the lines that they match; of those with the same
    lines the shortest pattern. A pseudonym in a pattern matches any word; unusable patterns are left out."""
    import regex

    filters: dict[tuple[int, ...], tuple[str, str]] = {}
    for entry in _listed(text, "filters")[:_MOST_PATTERNS]:
        pattern = entry.get("pattern") if isinstance(entry, dict) else None
        if not isinstance(pattern, str) or not 4 <= len(pattern) <= _LONGEST_PATTERN:
            continue
        pattern = PSEUDONYM.sub(r"\\S{1,120}", pattern.replace("\\-", "-"))
        try:
            compiled = regex.compile(pattern)
            matched = tuple(index for index, line in enumerate(segment) if compiled.search(line.text, timeout=0.05))
        except (regex.error, TimeoutError, ValueError, RecursionError):
            continue
        if matched and (matched not in filters or len(pattern) < len(filters[matched][1])):
            filters[matched] = str(entry.get("title") or "Regular output")[:90], pattern
    return filters


def _judged(kinds: list[_Kind], asker: Asker) -> list[_Kind]:
    """Those kinds that the model, shown only some of their lines, calls regular."""
    if not kinds:
        return []
    parts = [
        f"Kind {number}:\n{asker.fenced(line.text for line in kind.lines[:_MOST_EXAMPLES])}"
        for number, kind in enumerate(kinds, 1)
    ]
    (answer,) = asker.texts(_JUDGE.format(nonce=asker.channel.nonce), "\n".join(parts))
    accepted = _listed(answer, "accepted")
    return [kind for number, kind in enumerate(kinds, 1) if number in accepted]


def _listed(text: str, key: str) -> list[Any]:
    return [entry for item in objects_in(text, key) if isinstance(item[key], list) for entry in item[key]]


def _proposal(kind: _Kind, bound: Mapping[str, str], redactor: Redactor, provenance: str) -> Proposal:
    """The filter file of a kind; its examples are lines of the log with made-up names."""

    def made_up(text: str) -> str:
        return PSEUDONYM.sub(lambda match: _STAND_INS.get(match["kind"], "hidden"), redactor.hide(text))

    # Lines that differ most in length differ most.
    ordered = sorted(kind.lines, key=lambda line: len(line.text))
    picked = [ordered[0], ordered[len(ordered) // 2], ordered[-1]]
    first, last = kind.lines[0], kind.lines[-1]
    where = made_up(f"{os.path.basename(first.source)}:{first.number}-{last.number}")
    learnt = f"Learnt from {where} on {datetime.now(timezone.utc):%Y-%m-%d} by {provenance}."
    examples = {"drops": list(dict.fromkeys(made_up(line.text) for line in picked)), "keeps": []}
    document = {"title": made_up(kind.title), "drop": [kind.pattern], "job": dict(bound), "examples": examples}
    words = re.findall(r"[a-z0-9]+", kind.title.lower())[:5] or ["output"]
    text = f"# {printable(learnt)}\n{as_yaml(document)}"
    return Proposal(f"filters/learnt-{'-'.join(words)}", text, votes=kind.votes)
