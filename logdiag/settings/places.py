"""Where a user's own files lie, and which files are the user's own: the user or root owns it, nobody else may write to
it, and the same holds for its folder."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import TypeAlias

from logdiag.errors import MemoryStoreError

StrPath: TypeAlias = str | os.PathLike[str]
"""The path of a file or a folder."""

_NAME = "logdiag"
_CONFIG = "logdiag.toml"
_ON_LINUX = {
    "user_cache_dir": ("XDG_CACHE_HOME", ".cache"),
    "user_config_dir": ("XDG_CONFIG_HOME", ".config"),
    "user_data_dir": ("XDG_DATA_HOME", ".local/share"),
}


def cache_folders() -> Iterator[str]:
    """Yields the folders for compiled rules, the best first: `LOGDIAG_CACHE` or the user's cache folder, then a folder
    of the user's own among the temporary files, in case the first cannot be used."""
    cache = os.environ.get("LOGDIAG_CACHE")
    if first := os.path.abspath(cache) if cache else _users_own("user_cache_dir"):
        yield first
    if hasattr(os, "getuid"):
        import tempfile

        yield os.path.join(tempfile.gettempdir(), f"{_NAME}-{os.getuid()}")


def default_memory() -> str:
    """Returns the default address of the store of past incidents: `LOGDIAG_MEMORY`, or a folder among the user's data.
    Raises MemoryStoreError for a user without a home."""
    if address := os.environ.get("LOGDIAG_MEMORY"):
        return address
    if folder := _users_own("user_data_dir"):
        return os.path.join(folder, "memory")
    raise MemoryStoreError("this account has no home folder for past incidents; name a place with LOGDIAG_MEMORY")


def config_file() -> str:
    """Returns the path of the user's own `logdiag.toml`, which need not exist; empty for a user without a home."""
    folder = _users_own("user_config_dir")
    return folder and os.path.join(folder, _CONFIG)


def _users_own(kind: str) -> str:
    """Returns the user's folder that platformdirs names; empty for a user without a home. Loading platformdirs takes as
    long as reading a small log, so its rules for Linux are repeated here."""
    if sys.platform == "linux":
        variable, default = _ON_LINUX[kind]
        folder, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
        if os.path.isabs(folder) or os.path.isabs(home):
            return os.path.join(folder if os.path.isabs(folder) else os.path.join(home, default), _NAME)
    import platformdirs

    try:
        return str(getattr(platformdirs, kind)(_NAME, appauthor=False))
    except RuntimeError:  # an account that is not in the system's list, with no HOME
        return ""


def without_password(address: str) -> str:
    """Returns an address fit to be shown: `postgresql://mira:...@db.internal/logdiag?...=...`; a folder unchanged."""
    if "://" not in address:
        return address
    return re.sub(r"\?.*", "?...=...", re.sub(r"(?<=://)([^:/@]*):.*@", r"\1:...@", address))


def make_private(folder: str) -> None:
    """Makes a folder that only the user may open, where it is missing. Raises OSError."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)


def why_foreign_path(path: str) -> str:
    """As `why_foreign`, for the file at a path, and for the link if the path is one. Raises OSError."""
    return why_foreign(os.lstat(path)) or why_foreign(os.stat(path))


def why_foreign(status: os.stat_result) -> str:
    """Says why a file is not the user's own; empty when it is, and on systems without user ids."""
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid not in (os.geteuid(), 0):
        return f"{_user(status.st_uid)} owns it"
    if stat.S_ISLNK(status.st_mode):
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "everybody may write to it"
    if status.st_mode & stat.S_IWGRP and not _is_group_of_one(status):
        return f"the group {status.st_gid} may write to it"
    return ""


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"the user {number}"


def _is_group_of_one(status: os.stat_result) -> bool:
    """Whether the file's group is its owner's alone, as many systems set users up: same name, no other members."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return group.gr_gid == owner.pw_gid and group.gr_name == owner.pw_name and not set(group.gr_mem) - {owner.pw_name}
