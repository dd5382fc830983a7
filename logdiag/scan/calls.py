"""What ranks say of their collectives: of each rank and process group the latest words, while the log is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from logdiag.model import Line
from logdiag.rules.searching import Match

# Of one rank in one group; of all whose lines name the same.
_MOST_OF_A_RANK, _MOST_SPEAKERS = 64, 1 << 16
_MOST_FORMS = 4096
# These facts say who speaks, and of which group.
_WHO = ("node", "pid", "comm", "rank", "group", "pg", "group_rank")
_NUMBERS_ALIKE = bytes.maketrans(b"012345678abcdef", b"9" * 15)

Patterns = tuple[int, ...]
CallLine = tuple[int, int, bytes, Patterns]
"""Position, number and text of a line, and the patterns that may match on it."""


class Call(NamedTuple):
    """What one line tells of a rank's collectives: `facts` by the names in `rules/context/collective-calls.yaml`."""

    line: Line
    facts: dict[str, str]


class _Form(NamedTuple):
    """What is known of lines that differ in numbers alone, of base 10 or 16: how to tell who speaks, whether that is a
    process, and the latest lines by who spoke, of all forms that name the same."""

    who: Callable[[bytes], object]
    is_a_process: bool
    latest: dict[object, deque[CallLine]]


class Calls:
    """The latest calls of one log by who speaks. `matched` gives what the patterns find on a text, and is asked of each
    form of line once and of what is kept. `parsed` gives the line at a position of the log, with its number and its
    bytes; it is slow, and asked only for what is kept."""

    def __init__(
        self, matched: Callable[[Patterns, str], Sequence[Match]], parsed: Callable[[int, int, bytes], Line]
    ) -> None:
        self._matched, self._parsed = matched, parsed
        self._forms: dict[tuple[Patterns, bytes], _Form] = {}
        self._latest: dict[tuple[str, ...], dict[object, deque[CallLine]]] = {}

    def add(self, lines: Iterable[CallLine]) -> None:
        """Remembers lines on which patterns of calls may match."""
        for line in lines:
            position, number, text, patterns = line
            form = self._forms.get((patterns, text.translate(_NUMBERS_ALIKE))) if text.isascii() else None
            if form is None and (form := self._new_form(text, patterns)) is None:
                continue
            who = form.who(text)
            if not form.is_a_process:
                # Whoever names neither its process nor its rank is told by what stands before the line.
                who = self._parsed(position, number, text).rank, who
            latest = form.latest.get(who)
            if latest is None:
                if len(form.latest) >= _MOST_SPEAKERS:
                    continue
                latest = form.latest[who] = deque(maxlen=_MOST_OF_A_RANK)
            latest.append(line)

    def __iter__(self) -> Iterator[Call]:
        """In the order of the log."""
        kept = (call for speakers in self._latest.values() for calls in speakers.values() for call in calls)
        for position, number, text, patterns in sorted(kept, key=itemgetter(0)):
            facts, _ = self._facts_and_places(text, patterns)
            if facts:
                yield Call(self._parsed(position, number, text), facts)

    def _new_form(self, text: bytes, patterns: Patterns) -> _Form | None:
        """The form of a line, None where nothing matches."""
        facts, places = self._facts_and_places(text, patterns)
        if not facts:
            return None
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        told = [places[name] for name in _WHO if name in places]
        form = _Form(
            itemgetter(*(told or [slice(0)])),
            not facts.keys().isdisjoint(("pid", "rank")),
            self._latest.setdefault(tuple(facts), {}),
        )
        self._forms[patterns, text.translate(_NUMBERS_ALIKE)] = form
        return form

    def _facts_and_places(self, text: bytes, patterns: Patterns) -> tuple[dict[str, str], dict[str, slice]]:
        """What the patterns find on a line, and where in it."""
        facts: dict[str, str] = {}
        places: dict[str, slice] = {}
        said = text.decode(errors="replace")
        for match in self._matched(patterns, said):
            for name, value in match.groupdict().items():
                if value:
                    facts[name], places[name] = value, slice(*match.span(name))
        return facts, places
