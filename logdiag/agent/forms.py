"""Reads what lies as data beside the code: forms of names and of secrets, tables, and a model's instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_PIECE = re.compile(r"%(\w+)%")


class Form(NamedTuple):
    """A pattern, whose groups are hidden, and `lines` as examples."""

    pattern: re.Pattern[str]
    lines: tuple[str, ...]


class Forms(NamedTuple):
    """The content of a forms file: single patterns, lists of forms in order, and lists of words, each by name."""

    patterns: Mapping[str, re.Pattern[str]]
    forms: Mapping[str, tuple[Form, ...]]
    words: Mapping[str, tuple[str, ...]]


@cache
def data_of(file: str, beside: str = __file__) -> dict[str, Any]:
    """The mapping in a YAML file beside a module."""
    data: dict[str, Any] = yaml.safe_load(Path(beside).with_name(file).read_text(encoding="utf-8"))
    return data


def instructions(file: str, beside: str = __file__) -> str:
    """A model's instructions from a text file beside a module; of each paragraph one line is made."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", Path(beside).with_name(file).read_text(encoding="utf-8").strip())


def read_forms(file: str) -> Forms:
    """The forms of a file of this package. In a pattern %name% is a piece, or a list of words to choose from."""
    data = data_of(file)
    words = {name: tuple(items) for name, items in data["words"].items()}
    pieces = data["pieces"] | {name: "|".join(items) for name, items in words.items()}

    def compiled(pattern: str) -> re.Pattern[str]:
        while _PIECE.search(pattern):
            pattern = _PIECE.sub(lambda match: pieces[match[1]].strip(), pattern)
        return re.compile(pattern.strip(), re.VERBOSE)

    return Forms(
        {name: compiled(pattern) for name, pattern in data["patterns"].items()},
        {
            name: tuple(Form(compiled(item["pattern"]), tuple(item["lines"])) for item in items)
            for name, items in data.get("forms", {}).items()
        },
        words,
    )
