"""Which `logdiag.toml` files are obeyed:

- one that the user names, instead of all others, and else the user's own, may set everything;
- the nearest in the working directory or above, up to the repository's root or the home folder, may set only what sends
  nothing and names no store;
- one that others own or may write to, and one further up, sets nothing, and a note says so.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from logdiag.errors import LogdiagError
from logdiag.settings.places import StrPath, config_file, why_foreign_path

FILE = "logdiag.toml"

# What a repository's file may set: nothing of this sends data, costs money or names where past failures are kept.
_HARMLESS = ("rules", "offline")
_ROOT_OF_A_REPOSITORY = (".git", ".hg")
_TOO_FAR_UP = "it lies above the repository, the home folder or the working directory"
_MOST_BYTES = 1 << 20


class ConfigFile(NamedTuple):
    """A `logdiag.toml` that was looked for: `state` is `obeyed`, `not there`, or `ignored: ` and why; `values` is what
    it sets, `notes` what the user should know."""

    path: str
    state: str
    values: Mapping[str, object] = {}
    notes: tuple[str, ...] = ()


def named_file(path: StrPath) -> ConfigFile:
    """Reads a file that the user names: it is obeyed, whoever owns it. Raises LogdiagError."""
    return ConfigFile(os.fspath(path), "obeyed", _values(os.path.join(os.getcwd(), path)))


def look_for(folder: StrPath) -> tuple[ConfigFile, ...]:
    """The user's own file, then those in a folder and above it; later values win. Raises LogdiagError."""
    files = []
    if users_path := config_file():
        there = os.path.lexists(users_path)
        files.append(_if_own(users_path) if there else ConfigFile(users_path, "not there"))
    chain = [os.path.abspath(folder)]
    while (above := os.path.dirname(chain[-1])) != chain[-1]:
        chain.append(above)
    allowed = _allowed_folders(chain)
    nearest = ""
    for parent in chain:
        path = os.path.join(parent, FILE)
        if path == users_path or not os.path.lexists(path):
            continue
        if nearest:
            file = ConfigFile(path, f"ignored: {nearest} is nearer")
        else:
            file = _of_repository(path) if parent in allowed else _ignored(path, _TOO_FAR_UP)
            nearest = path if file.state == "obeyed" else ""
        files.append(file)
    return tuple(files)


def _if_own(path: str) -> ConfigFile:
    why = _why_not(path)
    return _ignored(path, why) if why else ConfigFile(path, "obeyed", _values(path))


def _of_repository(path: str) -> ConfigFile:
    """Reads a file that was found in the working directory or above: keys that it may not set are left out."""
    file = _if_own(path)
    values, refused, notes = {}, [], list(file.notes)
    for name, value in file.values.items():
        if name not in _HARMLESS or (name == "offline" and value is not True):
            refused.append(name)
        elif name == "rules" and (foreign := _foreign_folders(value)):
            notes.append(f"{path}: rules: ignored, for {foreign}; name the folder with --rules if you trust it")
        else:
            values[name] = value
    if refused:
        may = "a file found there may set only rules, and offline = true"
        trusted = config_file() or "the environment"
        notes.append(f"{path}: {', '.join(refused)}: ignored, for {may}; move it to {trusted}")
    if "rules" in values:
        notes.append(f"the rules that {path} names are in force")
    return file._replace(values=values, notes=tuple(notes))


def _ignored(path: str, why: str) -> ConfigFile:
    note = f"{path}: ignored, for {why}; name it with --config if you trust it"
    return ConfigFile(path, f"ignored: {why}", {}, (note,))


def _allowed_folders(chain: Sequence[str]) -> set[str]:
    """The first folders up to the repository's root or the home folder; without either the first alone."""
    home = os.path.expanduser("~")
    for index, parent in enumerate(chain):
        if parent == home or any(os.path.lexists(os.path.join(parent, name)) for name in _ROOT_OF_A_REPOSITORY):
            return set(chain[: index + 1])
    return set(chain[:1])


def _why_not(path: str) -> str:
    """Says why a file is not to be obeyed: it is not the user's own, or no regular file; empty where it may be."""
    try:
        if why := why_foreign_path(path):
            return why
        if why := why_foreign_path(os.path.dirname(path)):
            return f"of its folder, {why}"
        return "" if os.path.isfile(path) else "it is no file"
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"


def _foreign_folders(value: object) -> str:
    """Which of the named folders is not the user's own, and why; empty when all are."""
    for folder in value if isinstance(value, list) else ():
        if isinstance(folder, str) and os.path.exists(folder) and (why := why_foreign_path(folder)):
            return f"of {folder}, {why}"
    return ""


def _values(path: str) -> dict[str, object]:
    """What a file says, relative paths in it meant from its folder."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
                raise LogdiagError(f"{path}: no file of settings, or one of more than {_MOST_BYTES} bytes; correct it")
            document = tomllib.loads(file.read(_MOST_BYTES).decode("utf-8"))
    except OSError as error:
        raise LogdiagError(f"{path}: cannot be read ({error.strerror}); make it readable or remove it") from error
    except (ValueError, RecursionError) as error:
        raise LogdiagError(f"{path}: not valid TOML ({error}); correct it there") from error
    return {name: _beside(os.path.dirname(path), name, value) for name, value in document.items()}


def _beside(folder: str, name: str, value: object) -> object:
    if name == "rules" and isinstance(value, list):
        return [os.path.join(folder, item) if isinstance(item, str) else item for item in value]
    if name == "memory" and isinstance(value, str) and "://" not in value:
        return os.path.join(folder, value)
    return value
