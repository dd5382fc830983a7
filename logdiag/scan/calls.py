"""Keeps the latest lines about collectives of each rank and process group, while the log is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from logdiag.model import Line
from logdiag.rules.searching import Match
from logdiag.scan.lines import Patterns

# So many lines of one rank in one group; so many ranks whose lines have the same facts.
_MOST_OF_A_RANK, _MOST_SPEAKERS = 64, 1 << 16
_MOST_FORMS = 4096
# These facts name the process that printed the line, and its group.
_OF_SPEAKER = ("node", "pid", "comm", "rank", "group", "pg", "group_rank")
_NUMBERS_ALIKE = bytes.maketrans(b"012345678abcdef", b"9" * 15)

CallLine = tuple[int, int, bytes, Patterns]
"""Position, number and text of a line, and the patterns that may match on it."""


class Call(NamedTuple):
    """One line about a rank's collectives: `facts` by the names in `rules/context/collective-calls.yaml`."""

    line: Line
    facts: dict[str, str]


class _Form(NamedTuple):
    """What lines have in common that differ in numbers alone, of base 10 or 16. `speaker_of` cuts out of a line's bytes
    what names its process and group; `is_a_process` is true if that names a process. `latest` has the latest lines by
    speaker, of all forms with the same facts."""

    speaker_of: Callable[[bytes], object]
    is_a_process: bool
    latest: dict[object, deque[CallLine]]


class Calls:
    """The latest calls of one log by speaker. `matched` gives the matches of patterns on a text; it is called once for
    each form of line, and for the lines that are kept. `parsed` makes a line of its position, number and bytes; it is
    slow, and called for lines that are kept only."""

    def __init__(
        self, matched: Callable[[Patterns, str], Sequence[Match]], parsed: Callable[[int, int, bytes], Line]
    ) -> None:
        self._matched, self._parsed = matched, parsed
        # None for the forms of lines on which nothing matches.
        self._forms: dict[tuple[Patterns, bytes], _Form | None] = {}
        self._latest: dict[tuple[str, ...], dict[object, deque[CallLine]]] = {}

    def add(self, lines: Iterable[CallLine]) -> None:
        """Remembers lines on which patterns of calls may match."""
        for line in lines:
            position, number, text, patterns = line
            form = self._form_of(text, patterns)
            if form is None:
                continue
            speaker = form.speaker_of(text)
            if not form.is_a_process:
                # A line that names neither its process nor its rank may have the rank in its prefix.
                speaker = self._parsed(position, number, text).rank, speaker
            latest = form.latest.get(speaker)
            if latest is None:
                if len(form.latest) >= _MOST_SPEAKERS:
                    continue
                latest = form.latest[speaker] = deque(maxlen=_MOST_OF_A_RANK)
            latest.append(line)

    def __iter__(self) -> Iterator[Call]:
        """In the order of the log."""
        kept = (call for speakers in self._latest.values() for calls in speakers.values() for call in calls)
        for position, number, text, patterns in sorted(kept, key=itemgetter(0)):
            facts, _ = self._facts_and_spans(text, patterns)
            if facts:
                yield Call(self._parsed(position, number, text), facts)

    def _form_of(self, text: bytes, patterns: Patterns) -> _Form | None:
        """The form of a line, None where nothing matches. Beyond ASCII a byte is no character: spans would be shifted,
        and the form is made for this line alone."""
        if not text.isascii():
            return self._new_form(text, patterns)
        form = patterns, text.translate(_NUMBERS_ALIKE)
        if form not in self._forms:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            self._forms[form] = self._new_form(text, patterns)
        return self._forms[form]

    def _new_form(self, text: bytes, patterns: Patterns) -> _Form | None:
        facts, spans = self._facts_and_spans(text, patterns)
        if not facts:
            return None
        of_speaker = [spans[name] for name in _OF_SPEAKER if name in spans]
        return _Form(
            itemgetter(*(of_speaker or [slice(0)])),
            not facts.keys().isdisjoint(("pid", "rank")),
            self._latest.setdefault(tuple(facts), {}),
        )

    def _facts_and_spans(self, text: bytes, patterns: Patterns) -> tuple[dict[str, str], dict[str, slice]]:
        """What the patterns find on a line, by name, and the span of each value in its text."""
        facts: dict[str, str] = {}
        spans: dict[str, slice] = {}
        decoded = text.decode(errors="replace")
        for match in self._matched(patterns, decoded):
            for name, value in match.groupdict().items():
                if value:
                    facts[name], spans[name] = value, slice(*match.span(name))
        return facts, spans
