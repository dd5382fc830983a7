"""Frozen types as plain values, and plain values as frozen types again."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Container, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from logdiag.errors import LogdiagError

__all__ = ["from_plain", "plain", "rank_ranges", "read_plain"]

T = TypeVar("T")


def plain(value: Any) -> Any:
    """A value as JSON holds it: enums as their values, tuples as lists, dataclasses as objects."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def from_plain(kind: type[T], document: object, *, schema: str, left_out: Container[str] = ()) -> T:
    """A dataclass out of what `plain` gave, as `read_plain` reads it, without the keys that are `left_out`.

    Raises LogdiagError with all problems at once, each with the path of its field.
    """
    remedy = "give what to_dict() or --format json wrote"
    named = document.get("schema") if isinstance(document, Mapping) else None
    if named != schema:
        raise LogdiagError(f"{schema}: schema: {named!r} is not {schema!r}; {remedy}")
    told = {key: value for key, value in typing.cast(Any, document).items() if key not in left_out}
    read, problems = read_plain(kind, told)
    if read is None:
        raise LogdiagError("\n".join(f"{schema}: {problem}; {remedy}" for problem in problems))
    return read


def read_plain(kind: type[T], document: object) -> tuple[T | None, list[str]]:
    """A dataclass out of what `plain` gave, or None and what is wrong, each with the path of its field. A field with a
    default may be missing, further keys are not read."""
    problems: list[str] = []
    read = _read(kind, document, "", problems)
    return (None if problems else read), problems


def _read(kind: Any, value: Any, at: str, problems: list[str]) -> Any:
    if kind is Any:
        return value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        present = next(item for item in arguments if item is not type(None))
        return None if value is None else _read(present, value, at, problems)
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(_read(arguments[0], item, f"{at}[{index}]", problems) for index, item in enumerate(value))
    if is_dataclass(kind) and isinstance(value, Mapping):
        return _read_fields(kind, value, at, problems)
    if origin in (dict, Mapping) and isinstance(value, Mapping) and arguments[1] is not Any:
        return {key: _read(arguments[1], item, f"{at}.{key}", problems) for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            problems.append(f"{at}: {str(value)[:40]!r} is none of {', '.join(str(item.value) for item in kind)}")
            return None
    if not _is(origin or kind, value):
        problems.append(f"{at or 'all of it'}: {type(value).__name__} is not {_name(kind)}")
    return value


def _is(kind: type, value: object) -> bool:
    """Whether a plain value is of a plain type; a whole number is a float too, true and infinity are no numbers."""
    if kind is tuple or is_dataclass(kind):
        return False
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if kind is float else kind)


def _read_fields(kind: Any, value: Mapping[str, Any], at: str, problems: list[str]) -> Any:
    hints = _hints(kind)
    given: dict[str, Any] = {}
    before = len(problems)
    for item in fields(kind):
        path = f"{at}.{item.name}" if at else item.name
        if item.name in value:
            given[item.name] = _read(hints[item.name], value[item.name], path, problems)
        elif item.default is MISSING and item.default_factory is MISSING:
            problems.append(f"{path}: is missing")
    return kind(**given) if len(problems) == before else None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _name(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if origin is tuple:
        return "a list"
    return "an object" if is_dataclass(kind) or origin is dict else str(getattr(kind, "__name__", kind))


def rank_ranges(ranks: Iterable[int]) -> str:
    """Ranks as ranges: `0-4, 6-63`."""
    parts: list[str] = []
    first = last = None
    for rank in [*sorted(set(ranks)), None]:
        if last is not None and rank == last + 1:
            last = rank
            continue
        if first is not None:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = rank
    return ", ".join(parts)
