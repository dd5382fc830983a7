"""Reads the agent's data beside this file: the forms of names (`identities.yaml`) and of secrets (`secrets.yaml`), the
meanings of codes (`codes.yaml`), the form of an answer (`answer.yaml`) and the model's `instructions.txt`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

_PIECE = re.compile(r"%(\w+)%")


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern, of which the groups named `hides` and `hides` + "2" are hidden, and `lines` as examples."""

    hides: str
    pattern: re.Pattern[str]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forms:
    """The content of a forms file: single patterns, lists of forms in order, and lists of words, each by name."""

    patterns: Mapping[str, re.Pattern[str]]
    forms: Mapping[str, tuple[Form, ...]]
    words: Mapping[str, tuple[str, ...]]


@cache
def data_of(file: str) -> dict[str, Any]:
    """The mapping in a YAML file of this package."""
    data: dict[str, Any] = yaml.safe_load(resources.files(__package__).joinpath(file).read_text(encoding="utf-8"))
    return data


def instructions(file: Path) -> str:
    """A model's instructions from a text file; each paragraph, which a blank line ends, becomes one line."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", file.read_text(encoding="utf-8").strip())


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
            name: tuple(Form(item["hides"], compiled(item["pattern"]), tuple(item["lines"])) for item in items)
            for name, items in data.get("forms", {}).items()
        },
        words,
    )
