"""Where rule files lie, and what they hold; nothing here reads YAML, so a cached rule book stays
cheap."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from logdiag.errors import RuleError

__all__ = ["RuleFiles", "read_folders", "shipped_folder"]


class RuleFiles:
    """The rule files of one or more folders, a later folder's file replacing an earlier one's of the same id."""

    def __init__(self, folders: list[Path]) -> None:
        self.contents: dict[str, tuple[Path, bytes]] = {}
        for folder in folders:
            for identity, path in _yaml_files(folder):
                try:
                    with open(path, "rb", buffering=0) as file:
                        self.contents[identity] = (path, file.read())
                except OSError as error:
                    raise RuleError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error

    def everything(self) -> bytes:
        """Every path and every byte, as one."""
        return b"\0".join(
            part
            for identity, (path, content) in sorted(self.contents.items())
            for part in (identity.encode(errors="surrogateescape"), os.fsencode(path), content)
        )


def read_folders(extra: list[Path]) -> RuleFiles:
    """The shipped rules and those of `extra` folders, unparsed."""
    for folder in extra:
        if not folder.is_dir():
            raise RuleError(f"{folder}: no such folder of rules; give a folder that holds <category>/<name>.yaml")
    return RuleFiles([shipped_folder(), *extra])


def shipped_folder() -> Path:
    """Where the rules that come with logdiag lie: inside the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "data" / "rules"
    return installed if installed.is_dir() else package.parent / "rules"


def _yaml_files(folder: Path) -> Iterator[tuple[str, Path]]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)
            if suffix in (".yaml", ".yml"):
                path = Path(parent, name)
                yield os.path.relpath(os.path.join(parent, stem), folder).replace(os.sep, "/"), path
