"""What ranks say of their collectives: of each rank and process group the latest words, while the log is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from logdiag.model import Line
from logdiag.rules.searching import Match

# Of one rank in one group, and of all of one log.
_MOST_OF_A_RANK, _MOST_SPEAKERS = 64, 1 << 16
_MOST_FORMS = 4096
# These facts say who speaks, and of which group.
_WHO = ("node", "pid", "comm", "rank", "group", "pg", "group_rank")
_NUMBERS_ALIKE = bytes.maketrans(b"012345678abcdef", b"9" * 15)

Patterns = tuple[int, ...]


class Call(NamedTuple):
    """What one line tells of a rank's collectives: `facts` by the names in `rules/context/collective-calls.yaml`."""

    line: Line
    facts: dict[str, str]


class _Form(NamedTuple):
    """Where lines that differ in numbers alone, of base 10 or 16, say who speaks; all `names` of what they say."""

    who: tuple[slice | None, ...]
    names: tuple[str, ...]

    @property
    def names_a_process(self) -> bool:
        return "pid" in self.names or "rank" in self.names


class Calls:
    """The latest calls of one log by who speaks. `matched` gives what the patterns find on a text, and is asked of each
    form of line once and of what is kept. `parsed` gives the line at a position of the log, with its number and its
    bytes; it is slow, and asked only for what is kept."""

    def __init__(
        self, matched: Callable[[Patterns, str], Sequence[Match]], parsed: Callable[[int, int, bytes], Line]
    ) -> None:
        self._matched, self._parsed = matched, parsed
        self._forms: dict[tuple[Patterns, bytes], _Form | None] = {}
        self._latest: dict[tuple[object, ...], deque[tuple[int, int, bytes, Patterns]]] = {}

    def add(self, position: int, number: int, text: bytes, patterns: Patterns) -> None:
        """Remembers a line on which patterns of calls may match."""
        form = self._form_of(text, patterns)
        if form is None:
            return
        # Whoever names neither its process nor its rank is told by what stands before the line.
        spoke = None if form.names_a_process else self._parsed(position, number, text).rank
        who = (spoke, form.names, *[place and text[place] for place in form.who])
        latest = self._latest.get(who)
        if latest is None:
            if len(self._latest) >= _MOST_SPEAKERS:
                return
            latest = self._latest[who] = deque(maxlen=_MOST_OF_A_RANK)
        latest.append((position, number, text, patterns))

    def __iter__(self) -> Iterator[Call]:
        """In the order of the log."""
        kept = (call for calls in self._latest.values() for call in calls)
        for position, number, text, patterns in sorted(kept, key=lambda call: call[0]):
            facts, _ = self._told(text, patterns)
            if facts:
                yield Call(self._parsed(position, number, text), facts)

    def _form_of(self, text: bytes, patterns: Patterns) -> _Form | None:
        """The form of a line, None where nothing matches."""
        key = patterns, text.translate(_NUMBERS_ALIKE)
        form = self._forms.get(key)
        if form is not None and text.isascii():
            return form
        facts, places = self._told(text, patterns)
        if not facts:
            return None
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        form = self._forms[key] = _Form(tuple(map(places.get, _WHO)), tuple(facts))
        return form

    def _told(self, text: bytes, patterns: Patterns) -> tuple[dict[str, str], dict[str, slice]]:
        """What the patterns find on a line, and where in it."""
        facts: dict[str, str] = {}
        places: dict[str, slice] = {}
        said = text.decode(errors="replace")
        for match in self._matched(patterns, said):
            for name, value in match.groupdict().items():
                if value:
                    facts[name], places[name] = value, slice(*match.span(name))
        return facts, places
