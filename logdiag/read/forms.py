"""Tries log forms on lines: how launchers, schedulers and loggers write the head of a line.

The forms are data, in `rules/forms/` and in `forms/` of a user's own folders. `form_files` reads and orders them. Read
forms are kept in the wheel or the cache; a pattern is compiled when the first line begins with a character that it may
begin with.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from logdiag.patterns import pattern_of
from logdiag.settings import cache as kept
from logdiag.settings.places import StrPath

if TYPE_CHECKING:
    from logdiag.rules.searching import Searcher

Match = Any
"""The match of a form: of `re` or of `regex`."""
_Matcher = Callable[[str, int], Match | None]

# exit_code   ExitCode   error.message   errorMessage   @timestamp
_JOINTS = pattern_of(r"[@_.-]")
_NAME = "forms"


@lru_cache(maxsize=4096)
def folded(key: str) -> str:
    """A key in lower case without what joins its words; a key of a single letter as it is."""
    bare = _JOINTS.sub("", key).lower()
    return bare if len(bare) > 1 else key


class Sample(NamedTuple):
    """A line, and what must be read off its head: `time` is the clock's text, `message` the text behind the head. The
    sample stands in `file`."""

    line: str
    message: str
    rank: int | None = None
    node: str | None = None
    time: str | None = None
    level: str | None = None
    speaker: str = ""
    file: str = ""


class Form(NamedTuple):
    """One way to begin a line; `docs/forms.md` explains each field.

    `pattern` is complete, with what must stand before it; `begins` are the characters that it may begin with. `rank_of`
    is `job` or `group` if the rank is known to be counted within one of them, and `worker` if it counts only where the
    line names no other rank. A level before a form that `relays` is not the line's own. `samples` and `file` are the
    proof, which no diagnosis needs.
    """

    id: str
    title: str
    pattern: str
    begins: str
    rank_of: str = ""
    relays: bool = False
    shipped: bool = False
    samples: tuple[Sample, ...] = ()
    file: str = ""


@dataclass(frozen=True, eq=False)
class Keys:
    """What the keys of records in JSON and in `key=value` mean; `rules/forms/keys.yaml` has one list a field. In each
    the first key that a record has counts, but in `pair_texts` the last one. Case, and what joins the words of a key,
    make no difference (`exit_code`, `ExitCode`, `@level`), unless it is a single letter."""

    messages: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    envelopes: tuple[str, ...] = ()
    pair_texts: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()

    def one_of(self, field: str) -> str:
        """A pattern for any key of a field, in any case; a single letter as it is."""
        keys: tuple[str, ...] = getattr(self, field)
        letters = [key for key in keys if len(key) == 1]
        return "|".join((f"(?i:{'|'.join(re.escape(key) for key in keys if key not in letters)})", *letters))

    @cached_property
    def opened(self) -> frozenset[str]:
        """The keys of nested objects whose own keys count as the record's."""
        return frozenset(self.nested)

    @cached_property
    def in_json(self) -> Mapping[str, re.Pattern[str]]:
        """By field `"level": "WARNING"`, `"rank": 3` and `"time": "2026-11-04 10:00:00"`."""
        time = r'"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)'
        values = {"levels": '"([A-Za-z]{1,11})"', "ranks": r"(\d{1,6})\b", "times": time}
        return {name: re.compile(rf'"[@_]?(?:{self.one_of(name)})": ?{value}') for name, value in values.items()}

    @cached_property
    def pair_level(self) -> re.Pattern[str]:
        """`level=error`"""
        return re.compile(rf'(?:^| )[@_]?(?:{self.one_of("levels")})="?[A-Za-z]')

    @cached_property
    def in_pairs(self) -> Mapping[str, tuple[str, ...]]:
        """The keys that are looked up in `key=value` pairs, folded, by the field that they stand for."""
        fields = ("levels", "nodes", "ranks", "times", "pair_texts")
        return {name: tuple(map(folded, getattr(self, name))) for name in fields}


class Forms:
    """The forms in force, in the order in which they are tried; what loggers call their levels; what keys mean."""

    def __init__(self, forms: Sequence[Form], levels: Mapping[str, str], keys: Keys) -> None:
        self.forms = tuple(forms)
        self.levels = levels
        self.keys = keys
        self.all_shipped = all(form.shipped for form in self.forms)
        self._compiled: dict[str, _Matcher] = {}
        self._beginning: dict[str, tuple[tuple[Form, _Matcher], ...]] = {}

    def fitting(self, text: str, offset: int) -> Iterator[tuple[Form, Match]]:
        """The forms that fit a text at an offset, in their order, each with its match."""
        first = text[offset : offset + 1]
        for form, match_at in self._beginning.get(first) or self._with(first):
            match = match_at(text, offset)
            if match and match.end() > offset:
                yield form, match

    def fresh(self) -> Forms:
        """The same forms for a new diagnosis, of which none has been passed over for being slow."""
        return self if self.all_shipped else Forms(self.forms, self.levels, self.keys)

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for each form that was passed over because its pattern took too long."""
        named = ((form.id, (form.pattern,)) for form in self.forms)
        return () if self.all_shipped else tuple(self._own_patterns.notes("form", named))

    def _with(self, first: str) -> tuple[tuple[Form, _Matcher], ...]:
        """The forms that may begin with a character."""
        if first not in self._beginning:
            # Characters that no form begins with are not remembered: there are too many of them.
            forms = tuple((form, self.matcher(form)) for form in self.forms if first and first in form.begins)
            if not forms:
                return ()
            self._beginning[first] = forms
        return self._beginning[first]

    def matcher(self, form: Form) -> _Matcher:
        """The function that matches a form at an offset of a text; only a user's own pattern needs a time limit."""
        if form.id not in self._compiled:
            shipped = pattern_of(form.pattern).match if form.shipped else None
            self._compiled[form.id] = shipped or partial(self._own_patterns.at, form.pattern)
        return self._compiled[form.id]

    @cached_property
    def _own_patterns(self) -> Searcher:
        """A searcher with a time limit for the user's own patterns."""
        from logdiag.rules.searching import Searcher

        return Searcher(form.pattern for form in self.forms if not form.shipped)


@cache
def shipped_forms() -> Forms:
    """The forms that come with logdiag."""
    return load_forms()


def own_forms(folders: Iterable[StrPath]) -> Forms | None:
    """The shipped forms and those of the folders that have a `forms/`; None where no folder has one."""
    with_forms = [folder for folder in folders if os.path.isdir(os.path.join(os.fspath(folder), "forms"))]
    return load_forms(with_forms) if with_forms else None


def load_forms(folders: Iterable[StrPath] = (), *, proof: bool = False) -> Forms:
    """The shipped forms and those in `forms/` of these folders, taken from the cache if they are there.

    With `proof` they keep their samples. Raises RuleError with all problems of all files.
    """
    from logdiag.rules.folders import RuleFiles, shipped_folder

    own_folders = [path for folder in folders if os.path.isdir(path := os.path.join(os.fspath(folder), "forms"))]
    files = [RuleFiles([folder]) for folder in (os.path.join(shipped_folder(), "forms"), *own_folders)]
    origin = b"".join(forms_of_folder.fingerprint() for forms_of_folder in files)
    stored = None if proof else kept.read(_NAME, origin)
    if stored is not None:
        forms, levels, keys = stored
        return Forms([Form(*form) for form in forms], levels, Keys(**keys))
    from logdiag.read.form_files import parse

    loaded = parse(files)
    rows = [tuple(form._replace(samples=(), file="")) for form in loaded.forms]
    kept.write(_NAME, origin, (rows, dict(loaded.levels), {**vars(loaded.keys), "samples": ()}))
    return loaded
