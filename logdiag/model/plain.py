"""Frozen types as plain values, and plain values as frozen types again."""

from __future__ import annotations

import json
from collections.abc import Container, Hashable, Iterable, Mapping
from enum import Enum
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar, cast

from logdiag.errors import LogdiagError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

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
    """A dataclass out of what `plain` gave, without the keys that are `left_out`.

    Raises LogdiagError with all problems at once, each with the path of its field.
    """
    remedy = "give what to_dict() or --format json wrote"
    found_schema = document.get("schema") if isinstance(document, Mapping) else None
    if found_schema != schema:
        raise LogdiagError(f"{schema}: schema: {found_schema!r} is not {schema!r}; {remedy}")
    fields = {key: value for key, value in cast(Any, document).items() if key not in left_out}
    read, problems = read_plain(kind, fields)
    if read is None:
        raise LogdiagError("\n".join(f"{schema}: {problem}; {remedy}" for problem in problems))
    return read


def read_plain(kind: type[T], document: object) -> tuple[T | None, list[str]]:
    """Reads a dataclass from what `plain` gave. Returns it, or None and the problems, each with the path of its field.
    A field with a default may be missing; unknown keys are ignored."""
    from pydantic import ValidationError

    try:
        json.dumps(document, allow_nan=False)
        return _reader(cast(Any, kind)).validate_python(document), []
    except ValidationError as error:
        return None, [f"{_path(item['loc'])}: {item['msg'][:200]}" for item in error.errors(include_url=False)]
    except (TypeError, ValueError, RecursionError) as error:
        return None, [f"all of it: is no JSON ({error})"]


@cache
def _reader(kind: Hashable) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(cast(Any, kind))


def _path(keys: tuple[int | str, ...]) -> str:
    """evidence[1].line"""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".") or "all of it"


def rank_ranges(ranks: Iterable[int]) -> str:
    """Ranks as ranges: `0-4, 6-63`."""
    parts = []
    # Consecutive ranks have the same difference to their index.
    for _, group in groupby(enumerate(sorted(set(ranks))), key=lambda item: item[1] - item[0]):
        run = [rank for _, rank in group]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(parts)
