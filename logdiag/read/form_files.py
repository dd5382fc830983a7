"""Reads the files of log forms and puts the forms in order: a form that also fits another's sample is tried later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Literal

from pydantic import Field, RootModel

from logdiag.errors import RuleError
from logdiag.patterns import pattern_of
from logdiag.read.forms import Form, Forms, Keys, Sample
from logdiag.rules.folders import RuleFile, RuleFiles
from logdiag.rules.searching import check_size, wrong_with
from logdiag.rules.tables import Strict, all_of, line_with, load_yaml, validated

FIELDS = frozenset(
    ("rank", "node", "level", "speaker", "date", "us_date", "month", "day", "year", "month_day", "clock", "fraction")
)
"""What the groups of a pattern may be named."""
_Level = Literal["TRACE", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "FATAL"]
_PIECE = pattern_of(r"\{([a-z_]+)\}")
_ASCII = "".join(map(chr, range(32, 127)))
_KEYS = tuple(field.name for field in fields(Keys) if field.name != "samples")
_GUIDE = "docs/forms.md"
_DATES = frozenset({"date", "us_date", "month", "month_day"})
_PROBE_SECONDS = 0.2
_BLANK = pattern_of(r"[ \t]+")


class _Form(Strict):
    title: str
    pattern: str = Field(min_length=1)
    after: str | tuple[str, ...] = ()
    begins: str = ""
    rank_of: Literal["job", "group", "worker", ""] = ""
    relays: bool = False
    samples: list[Sample] = Field(min_length=1)


_Pieces = RootModel[dict[str, str]]
_Levels = RootModel[dict[_Level, list[str]]]


class _Keys(Strict):
    keys: dict[str, list[str]]
    samples: list[Sample]


@dataclass(slots=True)
class _Tables:
    """All that the files hold which were read so far."""

    forms: dict[str, Form]
    pieces: dict[str, str]
    levels: dict[str, str]
    keys: dict[str, tuple[str, ...]]
    samples: tuple[Sample, ...]


def _error_at(file: RuleFile, text: str, problem: str) -> RuleError:
    """An error that names the line of the file on which a text stands."""
    return RuleError(f"{file.path}:{line_with(file.content, text)}: {problem}")


def parse(folders: Sequence[RuleFiles]) -> Forms:
    """All forms of these folders, of which the first is the shipped one, in the order in which they are tried.

    A form of the same name replaces an earlier folder's; pieces, levels and keys are added to them. Raises RuleError
    with a line for each problem of each file: the file, the line, the reason and the remedy.
    """
    tables = _Tables({}, {}, {}, dict.fromkeys(_KEYS, ()), ())
    # The tables first: the patterns are made of pieces.
    in_order = (sorted(files.contents.values(), key=lambda file: file.id not in _TAKE) for files in folders)
    all_of(lambda file: _TAKE.get(file.id, _take_forms)(tables, file, load_yaml(file)), chain.from_iterable(in_order))
    check_size("forms", [form.pattern for form in tables.forms.values() if not form.shipped])
    forms = sorted(tables.forms.values(), key=lambda form: form.shipped)
    return _in_order(Forms(forms, tables.levels, Keys(**tables.keys, samples=tables.samples)))


def _take_pieces(tables: _Tables, file: RuleFile, document: dict[str, Any]) -> None:
    pieces = validated(_Pieces, file, document, guide=_GUIDE)
    for name, pattern in pieces.root.items():
        if not file.ships and name in tables.pieces:
            raise _error_at(file, f"{name}:", f"{name}: is a piece that ships with logdiag; give yours another name")
        tables.pieces[name] = pattern


def _take_levels(tables: _Tables, file: RuleFile, document: dict[str, Any]) -> None:
    levels = validated(_Levels, file, document, guide=_GUIDE)
    tables.levels.update((name.upper(), level) for level, names in levels.root.items() for name in names)


def _take_keys(tables: _Tables, file: RuleFile, document: dict[str, Any]) -> None:
    keys = {name: value for name, value in document.items() if name != "samples"}
    table = validated(_Keys, file, {"keys": keys, "samples": document.get("samples", [])}, guide=_GUIDE)
    for name, added in table.keys.items():
        if name not in tables.keys:
            raise _error_at(file, f"{name}:", f"{name}: is no list of keys; use one of {', '.join(_KEYS)}")
        tables.keys[name] = tuple(dict.fromkeys((*tables.keys[name], *added)))
    tables.samples += tuple(sample._replace(file=file.path) for sample in table.samples)


_TAKE = {"pieces": _take_pieces, "levels": _take_levels, "keys": _take_keys}


def _take_forms(tables: _Tables, file: RuleFile, document: dict[str, Any]) -> None:
    def take(name: str) -> None:
        entry = validated(_Form, file, document[name], [str(name)], guide=_GUIDE)
        tables.forms[f"{file.id}/{name}"] = _form(f"{file.id}/{name}", entry, tables.pieces, file)

    all_of(take, document)


def _form(identity: str, entry: _Form, pieces: dict[str, str], file: RuleFile) -> Form:
    """The form that an entry of a file describes. Raises RuleError for what is wrong with its pattern."""

    def error(problem: str) -> RuleError:
        return _error_at(file, entry.pattern, f"{identity}: {problem}")

    if unknown := [name for name in _PIECE.findall(entry.pattern) if name not in pieces]:
        raise error(f"{{{unknown[0]}}} is no piece; use one of {', '.join(pieces)}, or write it out")
    pattern = _PIECE.sub(lambda match: pieces[match[1]], entry.pattern)
    texts_before = [entry.after] if isinstance(entry.after, str) else entry.after
    before = "|".join(f"(?<={text})" for text in texts_before)
    before = f"(?:{before})" if len(texts_before) > 1 else before
    for pattern_text in (before + pattern, entry.begins):
        if problem := wrong_with(pattern_text):
            raise error(f"{pattern_text}: {problem}")
    import regex

    compiled = regex.compile(pattern)
    if unknown := sorted(set(compiled.groupindex) - FIELDS):
        raise error(f"the group {unknown[0]} is no field; use one of {', '.join(sorted(FIELDS))}")
    if not set(compiled.groupindex).isdisjoint(_DATES) and "clock" not in compiled.groupindex:
        raise error("a date needs the group clock; add it, or leave the date unnamed")
    return Form(
        id=identity,
        title=entry.title,
        pattern=before + pattern,
        begins=_beginnings(entry.begins, compiled),
        rank_of=entry.rank_of,
        relays=entry.relays,
        shipped=file.ships,
        samples=tuple(sample._replace(file=file.path) for sample in entry.samples),
        file=file.path,
    )


def _beginnings(declared: str, compiled: Any) -> str:
    """The characters that a pattern may begin with: those that match `declared`, else all that may start a match."""
    import regex

    extra = "".join(sorted({sign for sign in compiled.pattern if not sign.isascii()}))
    if declared:
        return "".join(sign for sign in _ASCII + extra if regex.fullmatch(declared, sign))
    return "".join(sign for sign in _ASCII + extra if compiled.fullmatch(sign, partial=True, timeout=_PROBE_SECONDS))


def rivals(forms: Forms, form: Form, sample: Sample) -> tuple[int, tuple[str, ...]]:
    """The first offset at which a form fits its own sample, and the names of all forms that fit there; none where it
    does not fit. A form is tried at every offset at which a row of forms may end."""
    reached, tried = [0], set[int]()
    while reached:
        offset = min(reached)
        reached.remove(offset)
        blank = _BLANK.match(sample.line, offset) if offset else None
        offset = blank.end() if blank else offset
        if offset in tried:
            continue
        tried.add(offset)
        fitting = list(forms.fitting(sample.line, offset))
        if any(rival.id == form.id for rival, _ in fitting):
            return offset, tuple(rival.id for rival, _ in fitting)
        reached += [match.end() for _, match in fitting]
    return 0, ()


def _in_order(forms: Forms) -> Forms:
    """Puts each form before those that fit its samples while it does not fit theirs; else the order stays."""
    fits: dict[str, set[str]] = {form.id: set() for form in forms.forms}
    for form in forms.forms:
        for sample in form.samples:
            fits[form.id].update(rivals(forms, form, sample)[1])
    earlier = {name: {rival for rival in fits if name in fits[rival] and rival not in fits[name]} for name in fits}
    left, ordered = {form.id: form for form in forms.forms}, []
    while left:
        ready = (name for name in left if earlier[name].isdisjoint(left))
        ordered.append(left.pop(next(ready, next(iter(left)))))
    return Forms(ordered, forms.levels, forms.keys)
