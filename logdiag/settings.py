"""What is in force, and where each value came from.

    settings = load_settings({"llm": "openai:gpt-5"})     # flags, of which None stands for "not given"
    settings.votes, settings.origins["votes"]             # 3, "logdiag.toml"

Flags win over the environment (`LOGDIAG_*`), that over the nearest `logdiag.toml` in the working directory or above it,
and that over the defaults.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from logdiag.errors import LogdiagError

__all__ = ["FILE", "WHEN", "Settings", "load_settings"]

FILE = "logdiag.toml"
WHEN = ("always", "unsure", "never")


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force.

    `rules` are folders of rules of one's own, `memory` the incident store, empty for the default one. `llm` is a
    model as `provider:model`, empty for none, `llm_when` when it is asked, `llm_timeout` the seconds it may take
    altogether, `votes` how many answers are held against each other, `budget` the tokens of log it is shown.
    `offline` forbids every network access. `origins` says where each value came from.
    """

    rules: tuple[str, ...] = ()
    memory: str = ""
    llm: str = ""
    llm_when: str = "unsure"
    llm_timeout: float = 30.0
    votes: int = 1
    budget: int = 6000
    offline: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def may_ask(self) -> bool:
        """Whether a model is set up and may be asked at all."""
        return bool(self.llm) and self.llm_when != "never" and not self.offline


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    folder: str | os.PathLike[str] = ".",
) -> Settings:
    """The settings in force in a folder.

    `flags` are what the command line says, None for what it leaves open. `llm` may also be one of always, unsure and
    never, everywhere: it then says when to ask. Raises LogdiagError with all problems at once, each naming the file or
    variable and the key.
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, name, value in (*_from_file(folder, problems), *_from_environment(environ), *_from_flags(flags or {})):
        key, said = ("llm_when", value) if name == "llm" and value in WHEN else (name, value)
        if key not in _READERS:
            known = ", ".join(_READERS)
            problems.append(f"{origin}: {key}: no such key; known are {known}")
            continue
        read, wanted = _READERS[key]
        try:
            values[key] = read(said)
            origins[key] = origin
        except (TypeError, ValueError):
            problems.append(f"{origin}: {name}: {value!r} cannot be used; give {wanted}")
    if problems:
        raise LogdiagError("\n".join(problems))
    for item in fields(Settings):
        if item.name != "origins":
            origins.setdefault(item.name, "default")
    return Settings(**values, origins=origins)


def _from_flags(flags: Mapping[str, object]) -> Iterator[tuple[str, str, object]]:
    for name, value in flags.items():
        if value is not None and value != ():
            yield f"--{name.replace('_', '-')}", name, value


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, object]]:
    for name in _READERS:
        variable = f"LOGDIAG_{name.upper()}"
        if value := environ.get(variable):
            yield f"environment {variable}", name, value.split(os.pathsep) if name == "rules" else value


def _from_file(folder: str | os.PathLike[str], problems: list[str]) -> Iterator[tuple[str, str, object]]:
    path = _nearest_file(Path(folder).absolute())
    if path is None:
        return
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(f"{path}: cannot be read ({error.strerror}); make it readable or remove it")
        return
    except ValueError as error:
        problems.append(f"{path}: not valid TOML ({error}); correct it there")
        return
    for name, value in document.items():
        yield str(path), name, _beside(path.parent, name, value)


def _nearest_file(folder: Path) -> Path | None:
    found = (parent / FILE for parent in (folder, *folder.parents))
    return next((path for path in found if path.is_file()), None)


def _beside(folder: Path, name: str, value: object) -> object:
    """Relative paths in a file are meant from the file's folder."""
    if name == "rules" and isinstance(value, list):
        return [str(folder / item) if isinstance(item, str) else item for item in value]
    if name == "memory" and isinstance(value, str) and "://" not in value:
        return str(folder / value)
    return value


def _folders(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(item, (str, os.PathLike)) for item in value):
        return tuple(os.fspath(item) for item in value if item)
    raise TypeError


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def _model(value: object) -> str:
    provider, colon, model = _text(value).partition(":")
    if value and not (provider and colon and model):
        raise ValueError
    return _text(value)


def _when(value: object) -> str:
    if value in WHEN:
        return str(value)
    raise ValueError


def _between(low: float, high: float, number: Callable[[Any], Any]) -> Callable[[object], Any]:
    def read(value: object) -> Any:
        said = number(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
        if said is None or not low <= said <= high or (not isinstance(value, str) and said != value):
            raise ValueError
        return said

    return read


def _yes_or_no(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("1", "true", "yes"):
        return True
    if str(value).lower() in ("0", "false", "no"):
        return False
    raise ValueError


_READERS: dict[str, tuple[Callable[[object], Any], str]] = {
    "rules": (_folders, "a list of folders"),
    "memory": (_text, "a folder or a postgresql:// address"),
    "llm": (_model, f"provider:model, or one of {', '.join(WHEN)}"),
    "llm_when": (_when, f"one of {', '.join(WHEN)}"),
    "llm_timeout": (_between(0.1, 3600, float), "seconds between 0.1 and 3600"),
    "votes": (_between(1, 15, int), "a whole number from 1 to 15"),
    "budget": (_between(500, 200_000, int), "a whole number of tokens from 500 to 200000"),
    "offline": (_yes_or_no, "true or false"),
}
