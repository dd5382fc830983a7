"""The Log Agent learns a job's regular output, so that the digests of its next runs leave it out.

A model proposes patterns for a few segments of a log, several times over. What enough samples agree on is judged by the
model once more, then by a gate without a model, and becomes a filter bound to the job's metadata.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from logdiag.agent.ask import Asker, objects_in
from logdiag.agent.forms import instructions
from logdiag.agent.outbound import learn_words
from logdiag.agent.redaction import PSEUDONYM, Redactor
from logdiag.authoring.filter_gate import Gate, protected
from logdiag.authoring.rule_file import Proposal, as_yaml
from logdiag.errors import RuleError
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

_PROPOSE, _JUDGE = (instructions(Path(__file__).with_name(f"{name}_filters.txt")) for name in ("propose", "judge"))


@dataclass(frozen=True, slots=True)
class _Kind:
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
    needed: int = 2,
) -> Iterator[Proposal]:
    """Filters for lines that no filter in force knows, each as soon as it is found.

    `name` is the model's, for the provenance; `book` is loaded with its proof; `job` is what the filters are bound to;
    no filter may drop a line of `incidents` or of the shipped ones. `needed` of `samples` answers must agree. Raises
    RuleError for an unknown job, AgentError, and SourceError for the log.
    """
    bound = _binding(job)
    lines = _read(sources)
    kept = protected(lines, book)
    gate = Gate(book, lines, kept, incidents)
    redactor = asker.channel.redactor
    learn_words(redactor, job, lines)
    taken: set[str] = set()
    for segment in _segments(lines, kept, book):
        for kind in _judged(_agreed(segment, asker, samples, needed), asker):
            proposal = _proposal(kind, bound, redactor, f"{name}, {kind.votes} of {samples} samples and its judgement")
            if proposal.id not in taken:
                taken.add(proposal.id)
                yield replace(proposal, problems=gate.problems(proposal))


# --- what is read ---


def _read(sources: Sequence[object]) -> list[Line]:
    """The first lines of each source, parsed; as many as a job's regular output needs to show itself."""
    lines: list[Line] = []
    for stream in open_sources(tuple(sources)):
        for block in stream.blocks():
            texts = block.data.removesuffix(b"\n").split(b"\n")
            lines += [
                parse_line(
                    text[:4096].decode(errors="replace"),
                    stream.name,
                    block.number_of(at),
                    position=len(lines),
                    prefix=block.prefix,
                )
                for at, text in enumerate(texts[: max(0, _MOST_LINES - len(lines))])
            ]
    return lines


def _segments(lines: Sequence[Line], kept: Sequence[bool], book: RuleBook) -> list[list[Line]]:
    """Up to `_MOST_SEGMENTS` stretches of the log, evenly spread, of lines that nothing in force knows."""
    new = [
        line
        for line, keep in zip(lines, kept, strict=True)
        if not keep and line.message.strip() and not book.filters_of(line) and not book.is_progress(line)
    ]
    starts = range(0, len(new), _SEGMENT)
    chosen = [starts[len(starts) * at // _MOST_SEGMENTS] for at in range(_MOST_SEGMENTS)] if starts else []
    return [new[start : start + _SEGMENT] for start in dict.fromkeys(chosen)]


# --- what the model says ---


def _agreed(segment: Sequence[Line], asker: Asker, samples: int, needed: int) -> list[_Kind]:
    """What enough samples propose: patterns agree when they match the same lines of the segment."""
    shown = asker.fenced(line.text for line in segment)
    answers = asker.texts(_PROPOSE.format(nonce=asker.channel.nonce), f"Lines of the log:\n{shown}", samples)
    votes: Counter[tuple[int, ...]] = Counter()
    said: dict[tuple[int, ...], tuple[str, str]] = {}
    for text in answers:
        own: dict[tuple[int, ...], tuple[str, str]] = {}
        for title, pattern in _proposed(text):
            matched = _matched(pattern, segment)
            if matched and (matched not in own or len(pattern) < len(own[matched][1])):
                own[matched] = title, pattern
        votes.update(own.keys())
        said = own | said
    return [
        _Kind(*said[matched], tuple(segment[at] for at in matched), count)
        for matched, count in votes.most_common()
        if count >= needed
    ]


def _judged(kinds: list[_Kind], asker: Asker) -> list[_Kind]:
    """Those kinds that the model, shown only some of their lines, calls regular."""
    if not kinds:
        return []
    parts = [
        f"Kind {number}:\n{asker.fenced(line.text for line in kind.lines[:_MOST_EXAMPLES])}"
        for number, kind in enumerate(kinds, 1)
    ]
    (answer,) = asker.texts(_JUDGE.format(nonce=asker.channel.nonce), "\n".join(parts))
    accepted = [number for item in objects_in(answer, "accepted") for number in _numbers(item["accepted"])]
    return [kind for number, kind in enumerate(kinds, 1) if number in accepted]


def _numbers(value: Any) -> list[int]:
    return [number for number in value if isinstance(number, int)] if isinstance(value, list) else []


def _proposed(text: str) -> list[tuple[str, str]]:
    """(title, pattern) of each filter in an answer; a pseudonym in a pattern stands for any word."""
    found: list[tuple[str, str]] = []
    for item in objects_in(text, "filters"):
        entries = item["filters"] if isinstance(item["filters"], list) else []
        for entry in entries[:_MOST_PATTERNS]:
            title, pattern = (entry.get("title"), entry.get("pattern")) if isinstance(entry, dict) else (None, None)
            if isinstance(pattern, str) and 4 <= len(pattern) <= _LONGEST_PATTERN:
                pattern = PSEUDONYM.sub(r"\\S{1,120}", pattern.replace("\\-", "-"))
                found.append((str(title or "Regular output")[:90], pattern))
    return found


def _matched(pattern: str, segment: Sequence[Line]) -> tuple[int, ...]:
    """The lines of a segment that a pattern matches; none for a pattern that cannot be used."""
    import regex

    try:
        compiled = regex.compile(pattern)
        return tuple(at for at, line in enumerate(segment) if compiled.search(line.text, timeout=0.05))
    except (regex.error, TimeoutError, ValueError, RecursionError):
        return ()


# --- what becomes of it ---


def _proposal(kind: _Kind, bound: Mapping[str, str], redactor: Redactor, provenance: str) -> Proposal:
    """The filter file of a kind; its examples are lines of the log with made-up names."""
    # Lines that differ most in length differ most.
    ordered = sorted(kind.lines, key=lambda line: len(line.text))
    picked = [ordered[0], ordered[len(ordered) // 2], ordered[-1]]
    examples = list(dict.fromkeys(_made_up(redactor.hide(line.text)) for line in picked))
    first, last = kind.lines[0], kind.lines[-1]
    where = f"{os.path.basename(first.source)}:{first.number}-{last.number}"
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    learnt = f"# Learnt from {_plain(_made_up(redactor.hide(where)))} on {today} by {_plain(provenance)}.\n"
    text = as_yaml(
        {
            "title": _made_up(redactor.hide(kind.title)),
            "drop": [kind.pattern],
            "job": dict(bound),
            "examples": {"drops": examples, "keeps": []},
        }
    )
    words = re.findall(r"[a-z0-9]+", kind.title.lower())[:5] or ["output"]
    return Proposal(f"filters/learnt-{'-'.join(words)}", learnt + text, votes=kind.votes)


def _binding(job: Mapping[str, str]) -> dict[str, str]:
    """Patterns that the metadata of this job and of its next runs match: numbers vary, words do not."""
    bound = {
        key: "^" + re.sub(r"\d+", lambda _: r"\d+", re.escape(job[key]).replace("\\-", "-")) + "$"
        for key in _BOUND
        if job.get(key)
    }
    if not bound:
        raise RuleError(
            "--job: nothing is known of the job, and a learnt filter holds only for its job; give --job name=NAME"
        )
    return bound


_STAND_INS = {
    "host": "node-1",
    "user": "user",
    "ip": "192.0.2.17",
    "mac": "02:00:5e:10:00:01",
    "email": "user@example.org",
}


def _made_up(text: str) -> str:
    """Hidden text with made-up names in place of pseudonyms."""
    return PSEUDONYM.sub(lambda match: _STAND_INS.get(match["kind"], "hidden"), text)


def _plain(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)
