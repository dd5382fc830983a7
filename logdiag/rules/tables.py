"""The one strict reader of YAML tables: rules, catalogues, filters, log forms and policies come through here.

A key given twice, a wrong key and a wrong value are refused, with the file, the line and the remedy; all problems of a
file at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from logdiag.errors import RuleError
from logdiag.rules.folders import RuleFile

_LONGEST_CAUSE = 200
_Model = TypeVar("_Model", bound=BaseModel)
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a rule, a filter or a form: where it is, what is wrong, and the remedy."""

    file: str
    line: int
    rule: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.what}; {self.remedy}"


def problem_at(file: str, rule: str, text: str, what: str, remedy: str) -> Problem:
    """A problem of a rule, on the line of its file that holds `text`."""
    return Problem(file, line_with(_content(file), text, below(rule)), rule, what, remedy)


@lru_cache(maxsize=8)
def _content(file: str) -> bytes:
    with contextlib.suppress(OSError), open(file, "rb") as opened:
        return opened.read()
    return b""


class Strict(BaseModel):
    """A table that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, and whose errors name the line of what cannot be read."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, TypeError, OverflowError, LookupError, AttributeError) as error:
            what = f"{getattr(error, 'reason', None) or error}"[:_LONGEST_CAUSE]
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from error


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        wrong = "" if isinstance(key, Hashable) else "a key must be a word, no list and no mapping"
        if wrong or key in seen:
            what = wrong or f"the key {key!r} is given twice; keep one"
            raise yaml.constructor.ConstructorError(None, None, what, key_node.start_mark)
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_yaml(file: RuleFile) -> dict[str, Any]:
    """The mapping that a file holds. Raises RuleError naming the file, the line and the remedy."""
    loader = None
    try:
        loader = _Loader(file.content.decode("utf-8"))
        document = loader.get_single_data()
    except UnicodeDecodeError as error:
        raise RuleError(f"{file.path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except RecursionError as error:
        line = loader.get_mark().line + 1 if loader else 1
        raise RuleError(
            f"{file.path}:{line}: not valid YAML: nested too deeply; see rules/README.md for the form"
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or str(error)
        raise RuleError(f"{file.path}{where}: not valid YAML: {what}; quote patterns with single quotes") from error
    if not isinstance(document, dict):
        raise RuleError(f"{file.path}: holds no mapping; see rules/README.md for the form of a rule")
    return document


def validated(
    model: type[_Model], file: RuleFile, document: Any, at: Sequence[str] = (), guide: str = "rules/README.md"
) -> _Model:
    """A document as a `model`; `at` are the keys that lead to it in its file, `guide` is the page that explains its
    form. Raises RuleError with all problems."""
    try:
        return model.model_validate(document, context=file)
    except ValidationError as error:
        problems = []
        for item in error.errors():
            names = [*at, *map(str, item["loc"])]
            what = item["msg"].removeprefix("Value error, ")
            position = f"{file.path}:{line_of(file.content, names)}: {'.'.join(names) or 'file'}"
            problems.append(f"{position}: {what}; see {guide} for the allowed form")
        raise RuleError("\n".join(problems)) from error


def all_of(make: Callable[[_Item], _Made], items: Iterable[_Item]) -> list[_Made]:
    """The result of `make` for each item. Raises RuleError with the problems of all items."""
    made: list[_Made] = []
    problems: list[str] = []
    for item in items:
        try:
            made.append(make(item))
        except RuleError as error:
            problems.append(str(error))
    if problems:
        raise RuleError("\n".join(problems))
    return made


def below(identity: str) -> tuple[str, ...]:
    """Keys that lead to a rule in a file of several; `section_of` ignores them where the rule has a file of its own."""
    return "rules", "rows", identity.rpartition("/")[2]


def line_of(content: bytes, names: Sequence[str]) -> int:
    """The line in a valid file, from 1, to which these keys and indices lead; see `section_of`."""
    return section_of(content, names)[0]


@lru_cache(maxsize=8)
def _tree(content: bytes) -> yaml.Node | None:
    return yaml.compose(content, Loader=yaml.SafeLoader)


def section_of(content: bytes, names: Sequence[str]) -> tuple[int, int]:
    """The first and the last line, from 1, of the value to which these keys and indices lead in a valid file. Keys that
    do not exist are ignored, so that a missing key gives the section in which it is missing."""
    node = _tree(content)
    first, last = 1, len(content.splitlines())
    for name in names:
        entries: list[tuple[yaml.Node, yaml.Node]] = []
        if isinstance(node, yaml.MappingNode):
            entries = [(key, value) for key, value in node.value if key.value == name]
        elif isinstance(node, yaml.SequenceNode) and name.isdigit():
            entries = [(value, value) for value in node.value[int(name) :][:1]]
        for key, value in entries:
            node, first = value, key.start_mark.line + 1
            last = value.end_mark.line + (1 if value.end_mark.column else 0)
    return first, last


def line_with(content: bytes, text: str, names: Sequence[str] = ()) -> int:
    """The first line below these keys, from 1, that holds a text, as it is or as quoted in YAML; if none does, the line
    of the last key."""
    first = line_of(content, names)
    wanted = (text, text.strip().rpartition("\n")[2].strip().replace("'", "''"))
    lines = content.decode("utf-8", errors="replace").splitlines()
    below_keys = enumerate(lines[first - 1 :], first)
    matches = (number for number, line in below_keys if any(part in line for part in wanted))
    return next(matches, first)
