"""Reads the files of log forms and puts the forms in order: a form that fits another's sample is tried after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Literal

from pydantic import Field, RootModel

from logdiag.errors import RuleError
from logdiag.patterns import pattern_of
from logdiag.read.forms import Form, Forms, Keys, Sample
from logdiag.rules import limits
from logdiag.rules.folders import RuleFile, RuleFiles
from logdiag.rules.tables import Strict, all_of, line_with, load_yaml, validated

FIELDS = frozenset(
    ("rank", "node", "level", "speaker", "date", "us_date", "month", "day", "year", "month_day", "clock", "fraction")
)
"""What the groups of a pattern may be named."""
_Level = Literal["TRACE", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "FATAL"]
_PIECE = pattern_of(r"\{([a-z_]+)\}")
_PRINTED = "".join(map(chr, range(32, 127)))
_KEYS = tuple(field.name for field in fields(Keys) if field.name != "samples")
_GUIDE = "docs/forms.md"
_DATES = frozenset({"date", "us_date", "month", "month_day"})
_PROBE_SECONDS = 0.2
_BLANK = pattern_of(r"[ \t]+")


class _Sample(Strict):
    line: str = Field(min_length=1)
    message: str
    rank: int | None = None
    node: str | None = None
    time: str | None = None
    level: _Level | None = None
    speaker: str = ""


class _Form(Strict):
    title: str
    pattern: str = Field(min_length=1)
    after: str | tuple[str, ...] = ()
    begins: str = ""
    rank_of: Literal["job", "group", "worker", ""] = ""
    relays: bool = False
    samples: list[_Sample] = Field(min_length=1)


_Pieces = RootModel[dict[str, str]]
_Levels = RootModel[dict[_Level, list[str]]]


class _Keys(Strict):
    keys: dict[str, list[str]]
    samples: list[_Sample]


@dataclass(slots=True)
class _Read:
    """What the files read so far hold."""

    forms: dict[str, Form]
    pieces: dict[str, str]
    levels: dict[str, str]
    keys: dict[str, tuple[str, ...]]
    samples: tuple[Sample, ...]


def _wrong(file: RuleFile, text: str, what: str) -> RuleError:
    """What is wrong with a text of a file."""
    return RuleError(f"{file.path}:{line_with(file.content, text)}: {what}")


def parse(folders: Sequence[RuleFiles]) -> Forms:
    """All forms of these folders, of which the first is the shipped one, in the order in which they are tried.

    A form of the same name replaces an earlier folder's; pieces, levels and keys are added to them. Raises RuleError
    with a line for each problem of each file: the file, the line, the reason and the remedy.
    """
    read = _Read({}, {}, {}, dict.fromkeys(_KEYS, ()), ())
    # The tables first: the patterns are made of pieces.
    each = (sorted(files.contents.values(), key=lambda file: file.id not in _TABLES) for files in folders)
    all_of(lambda file: _TABLES.get(file.id, _take_forms)(read, file, load_yaml(file)), chain.from_iterable(each))
    own = [form.pattern for form in read.forms.values() if not form.shipped]
    if sum(map(limits.size, own)) > limits.LARGEST:
        most = f"{limits.LARGEST:,} characters with their repeats"
        raise RuleError(f"forms: the {len(own):,} patterns of your own stand for more than {most}; bound them lower")
    forms = sorted(read.forms.values(), key=lambda form: form.shipped)
    return _in_order(Forms(forms, read.levels, Keys(**read.keys, samples=read.samples)))


def _take_pieces(read: _Read, file: RuleFile, document: dict[str, Any]) -> None:
    pieces = validated(_Pieces, file, document, guide=_GUIDE)
    for name, pattern in pieces.root.items():
        if not file.ships and name in read.pieces:
            raise _wrong(file, f"{name}:", f"{name}: is a piece that ships with logdiag; give yours another name")
        read.pieces[name] = pattern


def _take_levels(read: _Read, file: RuleFile, document: dict[str, Any]) -> None:
    levels = validated(_Levels, file, document, guide=_GUIDE)
    read.levels.update((name.upper(), level) for level, names in levels.root.items() for name in names)


def _take_keys(read: _Read, file: RuleFile, document: dict[str, Any]) -> None:
    keys = {name: value for name, value in document.items() if name != "samples"}
    found = validated(_Keys, file, {"keys": keys, "samples": document.get("samples", [])}, guide=_GUIDE)
    for name, added in found.keys.items():
        if name not in read.keys:
            raise _wrong(file, f"{name}:", f"{name}: is no list of keys; use one of {', '.join(_KEYS)}")
        read.keys[name] = tuple(dict.fromkeys((*read.keys[name], *added)))
    read.samples += tuple(_sample(sample, file.path) for sample in found.samples)


_TABLES = {"pieces": _take_pieces, "levels": _take_levels, "keys": _take_keys}


def _take_forms(read: _Read, file: RuleFile, document: dict[str, Any]) -> None:
    def take(name: str) -> None:
        given = validated(_Form, file, document[name], [str(name)], guide=_GUIDE)
        read.forms[f"{file.id}/{name}"] = _form(f"{file.id}/{name}", given, read.pieces, file)

    all_of(take, document)


def _form(identity: str, given: _Form, pieces: dict[str, str], file: RuleFile) -> Form:
    unknown = [name for name in _PIECE.findall(given.pattern) if name not in pieces]
    if unknown:
        known = ", ".join(pieces)
        raise _wrong(
            file, given.pattern, f"{identity}: {{{unknown[0]}}} is no piece; use one of {known}, or write it out"
        )
    pattern = _PIECE.sub(lambda match: pieces[match[1]], given.pattern)
    places = [given.after] if isinstance(given.after, str) else given.after
    before = "|".join(f"(?<={place})" for place in places)
    before = f"(?:{before})" if len(places) > 1 else before
    for written in (before + pattern, given.begins):
        if wrong := limits.wrong_with(written):
            raise _wrong(file, given.pattern, f"{identity}: {written}: {wrong}")
    import regex

    compiled = regex.compile(pattern)
    if unknown := sorted(set(compiled.groupindex) - FIELDS):
        fields = ", ".join(sorted(FIELDS))
        raise _wrong(file, given.pattern, f"{identity}: the group {unknown[0]} is no field; use one of {fields}")
    if not set(compiled.groupindex).isdisjoint(_DATES) and "clock" not in compiled.groupindex:
        raise _wrong(
            file, given.pattern, f"{identity}: a date needs the group clock; add it, or leave the date unnamed"
        )
    return Form(
        id=identity,
        title=given.title,
        pattern=before + pattern,
        begins=_beginnings(given.begins, compiled),
        rank_of=given.rank_of,
        relays=given.relays,
        shipped=file.ships,
        samples=tuple(_sample(sample, file.path) for sample in given.samples),
        file=file.path,
    )


def _sample(given: _Sample, path: str) -> Sample:
    return Sample(**given.model_dump(), file=path)


def _beginnings(declared: str, compiled: Any) -> str:
    """The characters that a pattern may begin with: those declared, or all that may go on to a match."""
    import regex

    others = "".join(sorted({sign for sign in compiled.pattern if not sign.isascii()}))
    if declared:
        return "".join(sign for sign in _PRINTED + others if regex.fullmatch(declared, sign))
    return "".join(sign for sign in _PRINTED + others if compiled.fullmatch(sign, partial=True, timeout=_PROBE_SECONDS))


def rivals(forms: Forms, form: Form, sample: Sample) -> tuple[int, tuple[str, ...]]:
    """The first place where a form fits its own sample, and all forms that fit there; none where it does not fit.
    Wherever any row of forms ends, the next may stand."""
    reached, looked_at = [0], set[int]()
    while reached:
        place = min(reached)
        reached.remove(place)
        blank = _BLANK.match(sample.line, place) if place else None
        place = blank.end() if blank else place
        if place in looked_at:
            continue
        looked_at.add(place)
        fitting = forms.every(sample.line, place)
        if any(other.id == form.id for other, _ in fitting):
            return place, tuple(other.id for other, _ in fitting)
        reached += [match.end() for _, match in fitting]
    return 0, ()


def _in_order(forms: Forms) -> Forms:
    """The forms, each before those that fit its samples but whose samples it does not fit; else as they came."""
    fits: dict[str, set[str]] = {form.id: set() for form in forms.forms}
    for form in forms.forms:
        for sample in form.samples:
            fits[form.id].update(rivals(forms, form, sample)[1])
    first = {name: {other for other in fits if name in fits[other] and other not in fits[name]} for name in fits}
    left, ordered = {form.id: form for form in forms.forms}, []
    while left:
        free = (name for name in left if first[name].isdisjoint(left))
        ordered.append(left.pop(next(free, next(iter(left)))))
    return Forms(ordered, forms.levels, forms.keys)
