"""The settings in force, and where each value came from. Flags win over the environment (`LOGDIAG_*`), that over
`logdiag.toml` (see `config_files`), that over defaults.

    settings = load_settings({"llm": "openai:gpt-5"})     # flags; None stands for "not set"
    settings.votes, settings.origins["votes"]             # 3, "logdiag.toml"
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from logdiag.errors import AgentError, LogdiagError
from logdiag.settings.config_files import FILE, ConfigFile, look_for, named_file
from logdiag.settings.places import StrPath

__all__ = ["FILE", "KEYS", "WHEN", "Settings", "check_model", "load_settings"]

WHEN = ("always", "unsure", "never")
# Set in the environment without being a key of the file.
_OTHER_VARIABLES = ("LOGDIAG_CACHE", "LOGDIAG_CONFIG")

Entry = tuple[str, str, object]
"""One value that is set somewhere: its origin (a file, a variable or a flag), its key, and the value."""


class Settings(NamedTuple):
    """The values in force.

    `rules` are folders of one's own rules, `memory` the incident store (empty: the default one), `llm` a model as
    `provider:model`, `llm_when` when it is asked, `llm_timeout` its seconds altogether, `votes` how many answers are
    compared, `budget` the tokens of log it is shown. `offline` forbids every network access. `origins` says where
    values came from, `files` what became of each settings file, `notes` what the user should know.
    """

    rules: tuple[str, ...] = ()
    memory: str = ""
    llm: str = ""
    llm_when: str = "unsure"
    llm_timeout: float = 30.0
    votes: int = 1
    budget: int = 6000
    offline: bool = False
    origins: Mapping[str, str] = {}
    files: tuple[ConfigFile, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def may_ask(self) -> bool:
        """Whether a model is set up and may be asked at all."""
        return bool(self.llm) and self.llm_when != "never" and not self.offline

    @property
    def store(self) -> str | Literal[False] | None:
        """The address of the store of past failures; None for the default one, False where `offline` forbids it."""
        return False if self.offline and "://" in self.memory else self.memory or None

    def check_online(self, forbidden: str) -> None:
        """Raises LogdiagError where `offline` is set; its sentence ends with `forbidden`."""
        if self.offline:
            raise LogdiagError(f"offline is set ({self.origins['offline']}); {forbidden}")

    def store_or_refusal(self) -> str | None:
        """As `store`, for commands that need one: raises LogdiagError where `offline` forbids to ask it."""
        address = self.store
        if address is False:
            memory, offline = self.origins["memory"], self.origins["offline"]
            raise LogdiagError(f"offline is set ({offline}), and the memory is on the network ({memory}); change one")
        return address


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    folder: StrPath = ".",
) -> Settings:
    """Returns the settings in force in a folder. `flags` come from the command line; `config` among them, or
    `LOGDIAG_CONFIG`, is a file to read instead of those that are looked for. `llm` may also be always, unsure or never:
    when to ask; as a flag it may be several. Raises LogdiagError with all problems, each with its origin and key."""
    flags = dict(flags or {})
    path = flags.pop("config", None) or environ.get("LOGDIAG_CONFIG")
    files = (named_file(str(path)),) if path else look_for(folder)
    values, origins = _values(_entries(files, environ, flags))
    origins = dict.fromkeys(KEYS, "default") | origins
    notes = (*(note for file in files for note in file.notes), *_unknown_variables(environ))
    settings = Settings(**values, origins=origins, files=files, notes=notes)
    if settings.store is False:
        note = f"offline: past failures are not asked, for their store is on the network ({origins['memory']})"
        settings = settings._replace(notes=(*notes, note))
    return settings


def check_model(name: object) -> None:
    """Raises AgentError for what does not name a model as `provider:model`."""
    try:
        _model(name)
    except (TypeError, ValueError) as error:
        raise AgentError(f"llm: {name!r} cannot be used; give provider:model") from error


def _values(entries: Iterable[Entry]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the value in force of each key that is set, and its origin; later entries win. Raises LogdiagError."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, name, value in entries:
        key = "llm_when" if name == "llm" and value in WHEN else name
        if key not in _READERS:
            known = ", ".join(_READERS)
            problems.append(f"{origin}: {key}: no such key; known are {known}")
            continue
        read, wanted = _READERS[key]
        try:
            values[key] = read(value)
            origins[key] = origin
        except (TypeError, ValueError):
            problems.append(f"{origin}: {name}: {value!r} cannot be used; give {wanted}")
    if problems:
        raise LogdiagError("\n".join(problems))
    return values, origins


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    known = {*(f"LOGDIAG_{name.upper()}" for name in _READERS), *_OTHER_VARIABLES}
    for variable in sorted(environ):
        # The variables that `logdiag run` sets for a job are no settings.
        if variable.startswith("LOGDIAG_") and not variable.startswith("LOGDIAG_RUN") and variable not in known:
            yield f"environment {variable}: ignored, no such setting; known are {', '.join(sorted(known))}"


def _entries(files: Iterable[ConfigFile], environ: Mapping[str, str], flags: Mapping[str, object]) -> Iterator[Entry]:
    """Yields all values that are set, those that win last."""
    for file in files:
        yield from ((file.path, name, value) for name, value in file.values.items())
    for name in _READERS:
        variable = f"LOGDIAG_{name.upper()}"
        if text := environ.get(variable):
            yield f"environment {variable}", name, text.split(os.pathsep) if name == "rules" else text
    for name, value in flags.items():
        values = value if name == "llm" and isinstance(value, tuple) else (value,)
        yield from ((f"--{name.replace('_', '-')}", name, item) for item in values if item is not None and item != ())


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
        result = number(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
        if result is None or not low <= result <= high or (not isinstance(value, str) and result != value):
            raise ValueError
        return result

    return read


_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")


def _yes_or_no(value: object) -> bool:
    word = str(value).lower()
    if word not in _YES + _NO:
        raise ValueError
    return word in _YES


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
KEYS = tuple(_READERS)
"""The names of the settings, in the order in which they are shown."""
