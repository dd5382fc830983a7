"""Where rule files lie, and what they hold; nothing here reads YAML, so a cached rule book stays cheap."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from typing import NamedTuple

from logdiag.errors import RuleError
from logdiag.settings.places import StrPath

# A folder that holds more is no folder of rules; the shipped one stays far below.
_MOST_FOLDERS, MOST_FILES = 10_000, 5_000
_MOST_BYTES, _MOST_BYTES_OF_A_FILE = 8 << 20, 256 << 10


class RuleFile(NamedTuple):
    """A file of rules, or of another table, in the folder it was found in; its id is its path below that folder."""

    path: str
    content: bytes
    id: str = ""
    folder: str = ""

    @property
    def ships(self) -> bool:
        """Whether it comes with logdiag."""
        return self.path.startswith(shipped_folder() + os.sep)


class RuleFiles:
    """The files of one or more folders of rules, by their ids, a later folder's file replacing an earlier one's of the
    same id; `contents` has those of a later folder last. Raises RuleError for what is no folder of rules."""

    def __init__(self, folders: Iterable[StrPath]) -> None:
        self.contents: dict[str, RuleFile] = {}
        read = 0
        for folder in map(_checked, folders):
            for identity, path in _yaml_files(folder):
                self.contents.pop(identity, None)
                self.contents[identity] = RuleFile(path, _content(path), identity, folder)
                read += len(self.contents[identity].content)
                if len(self.contents) > MOST_FILES or read > _MOST_BYTES:
                    most = f"{MOST_FILES} files or {_MOST_BYTES >> 20} MB"
                    raise RuleError(f"{folder}: holds more than {most} of rules; give the folder of rules alone")

    def fingerprint(self, *, paths: bool = False) -> bytes:
        """A hash of all ids and contents, with `paths` of all paths too."""
        digest = sha256()
        for identity, file in sorted(self.contents.items()):
            head = f"{identity}\0{file.path if paths else ''}\0{len(file.content)}\0"
            digest.update(os.fsencode(head) + file.content)
        return digest.digest()


@cache
def shipped_folder() -> str:
    """Where the rules that come with logdiag lie: inside the package, or beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    installed = os.path.join(package, "data", "rules")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), "rules")


def _checked(folder: object) -> str:
    if isinstance(folder, (str, os.PathLike)):
        path: str = os.fspath(folder)
        if "\0" not in path and os.path.isdir(path):
            return path
    raise RuleError(f"{folder!s}: no such folder of rules; give a folder that holds <topic>/<name>.yaml")


def _content(path: str) -> bytes:
    """The bytes of a rule file; a pipe or an endless device is none."""
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RuleError(f"{path}: is no file; remove it from the rules")
            if status.st_size > _MOST_BYTES_OF_A_FILE:
                raise RuleError(f"{path}: is larger than {_MOST_BYTES_OF_A_FILE >> 10} kB; split it")
            return file.read(status.st_size)
    except OSError as error:
        raise RuleError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def _unreadable(error: OSError) -> None:
    raise RuleError(f"{error.filename}: cannot be read ({error.strerror}); check its permissions") from error


def _yaml_files(folder: str) -> Iterator[tuple[str, str]]:
    """(id, path) of each rule file below a folder."""
    for number, (parent, folders, names) in enumerate(os.walk(folder, onerror=_unreadable)):
        if number >= _MOST_FOLDERS:
            raise RuleError(f"{folder}: holds more than {_MOST_FOLDERS} folders; give the folder of rules alone")
        folders.sort()
        below = parent[len(folder) :].strip(os.sep).replace(os.sep, "/")
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)
            if suffix in (".yaml", ".yml"):
                yield f"{below}/{stem}" if below else stem, os.path.join(parent, name)
