"""The cache of what takes long to compute: compiled rules, parsed incidents, their vectors. Without a usable cache
everything works, only slower. A file is trusted only if it and its folder are the user's own (see `places`), or if it
is part of the program: a wheel holds the shipped rules and log forms as they are kept here."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from itertools import chain
from mmap import ACCESS_READ, mmap
from typing import Any

from logdiag._version import __version__
from logdiag.settings.places import cache_folders, make_private, why_foreign, why_foreign_path

_FORM = "logdiag-cache/7"
_KEEP = 8
_MOST_BYTES = 256 << 20
_CHECK_SUM = 4
MARSHAL = 4
"""The version of marshal that every Python from 3.10 on reads, since a wheel may be built by another Python."""
# What a wheel brings along; missing in a checkout.
_SHIPPED = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "data", "compiled")
UNFINISHED = "logdiag-unfinished-"
"""The prefix of the name of a file that is still being written."""

# Unfinished files that are older were left by a process that died: writing takes far less.
_STALE_SECONDS = 3600


def read(name: str, origin: bytes) -> Any | None:
    """Returns the value that `write` kept under this name for the same `origin`; None where there is none."""
    file_name = _file_name(name, origin)
    for folder in chain((_SHIPPED,), usable_folders(make=False)):
        try:
            content = _content(os.path.join(folder, file_name), ships=folder is _SHIPPED)
            check_sum, body = content[:_CHECK_SUM], memoryview(content)[_CHECK_SUM:]
            if body and _check_sum_of(body) == check_sum:
                made_as, value = marshal.loads(body)
                if made_as == file_name:
                    with contextlib.suppress(OSError):
                        os.utime(os.path.join(folder, file_name))  # `_tidy` keeps what was used last
                    return value
        except (OSError, ValueError, EOFError, TypeError, MemoryError):
            continue
    return None


def write(name: str, origin: bytes, value: Any) -> None:
    """Keeps a value that marshal can write. Keeps nothing where it is too large or the folder cannot be written."""
    file_name = _file_name(name, origin)
    body = marshal.dumps((file_name, value), MARSHAL)
    if len(body) > _MOST_BYTES - _CHECK_SUM:
        return
    for folder in usable_folders():
        with contextlib.suppress(OSError):
            replace_file(os.path.join(folder, file_name), _check_sum_of(body) + body)
            _tidy(folder, name)


def usable_folders(*, make: bool = True) -> Iterator[str]:
    """The user's own folders, up to the first that can be written; with `make` a missing one is made."""
    for folder in cache_folders():
        try:
            if make:
                make_private(folder)
            if why_foreign_path(folder):
                continue
        except OSError:
            continue
        yield folder
        if os.access(folder, os.W_OK):
            return


def _file_name(name: str, origin: bytes) -> str:
    made_by = f"{_FORM} {__version__} {sys.byteorder}\0"
    return f"{name}-{hashlib.sha256(made_by.encode() + origin).hexdigest()[:32]}"


def _check_sum_of(body: bytes | memoryview) -> bytes:
    """Tells whole files from torn ones. Whoever may write here could make any sum right, so a quick one will do."""
    return zlib.crc32(body).to_bytes(_CHECK_SUM, "big")


def _content(path: str, *, ships: bool) -> bytes | mmap:
    """What a regular file holds that ships or is the user's own, judged by what was opened; nothing of another. It is
    mapped: what is made of it is a copy anyway."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if (not ships and why_foreign(status)) or not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return b""
        return mmap(file.fileno(), 0, access=ACCESS_READ) if status.st_size else b""


def replace_file(path: str, content: bytes | memoryview) -> None:
    """Writes a file for nobody but the user, whole or not at all. Raises OSError."""
    import tempfile

    handle, unfinished = tempfile.mkstemp(prefix=UNFINISHED, dir=os.path.dirname(path))
    try:
        with open(handle, "wb") as out:
            out.write(content)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def _tidy(folder: str, name: str) -> None:
    """Leaves the files of a name that were used last, and none that a dead process did not finish."""
    ours = re.compile(rf"{re.escape(name)}-[0-9a-f]{{8,32}}")
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # another process tidies at the same time
                files.append((entry.stat(follow_symlinks=False).st_mtime, entry.name, entry.path))
    kept = sorted(item for item in files if ours.fullmatch(item[1]))
    stale = time.time() - _STALE_SECONDS
    unfinished = [item for item in files if item[1].startswith(UNFINISHED) and item[0] < stale]
    for _, _, path in [*kept[:-_KEEP], *unfinished]:
        with contextlib.suppress(OSError):
            os.unlink(path)
