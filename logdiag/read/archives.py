"""Reads the logs in a tar (compressed or not) or zip archive as those of a folder, without unpacking it to disk.

A tar is read from front to back: once for the list of its logs, once for their text. Links, devices and names that
lead out of a folder mean nothing here, since nothing is written.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from logdiag.read.decompression import broken_stream_errors, decompressing
from logdiag.read.names import in_order, is_log

_BLOCK = 512
_PIECE_BYTES = 1 << 20
_MOST_MEMBERS = 20_000
_MOST_LOGS = 5_000
# Bytes of a tar that are skipped between its logs: they must be decompressed too.
_MOST_PASSED_BYTES = 16 << 30
_LONGEST_NAME = 64 << 10
_LONGEST_SHOWN_NAME = 400


@dataclass(frozen=True, slots=True)
class Member:
    """One log in an archive: its index among all members, its cleaned name, and its size in bytes."""

    index: int
    name: str
    size: int


class _Pass(Protocol):
    """An archive that is open for reading; `members` gives each log, or a sentence on what cannot be read."""

    def members(self) -> Iterator[Member | str]: ...

    def open(self, member: Member) -> Any: ...

    def close(self) -> None: ...


@dataclass
class Archive:
    """The logs of an archive; `problems` are sentences on what of it cannot be read."""

    open_file: Callable[[], BinaryIO]
    kind: str
    until: float
    members: list[Member] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _pass: _Pass | None = None

    @contextmanager
    def open(self, member: Member) -> Iterator[Any]:
        """An open file over one log. Raises OSError, EOFError or what else a torn archive makes its readers raise."""
        self._pass = self._pass or _open_pass(self.kind, self.open_file(), self.until)
        reader = self._pass.open(member)
        if reader is None:  # the pass is behind it already
            self.close()
            self._pass = _open_pass(self.kind, self.open_file(), self.until)
            reader = self._pass.open(member)
        try:
            yield reader
        finally:
            # A reader that stopped within a log will read no further.
            if member is self.members[-1] or not _at_end(reader):
                self.close()

    def close(self) -> None:
        """Lets go of the file; it is opened again when needed."""
        if self._pass is not None:
            self._pass.close()
            self._pass = None


def archive_of(kind: str, open_file: Callable[[], BinaryIO], until: float) -> Archive:
    """A file as an archive of this `kind` (`tar` or `zip`), with the list of its logs. Reading ends at `until` (seconds
    of the monotonic clock), and half of the time until then may go into the list."""
    archive = Archive(open_file, kind, until)
    count = 0
    listed = None
    try:
        now = time.monotonic()
        listed = _open_pass(kind, open_file(), now + (until - now) / 2)
        for member in listed.members():
            count += 1
            if count > _MOST_MEMBERS or len(archive.members) >= _MOST_LOGS:
                archive.problems.append(
                    f"more than {_MOST_LOGS:,} logs, or {_MOST_MEMBERS:,} files; the rest was not read"
                )
                break
            if isinstance(member, str):
                archive.problems.append(member)
            elif is_log(member.name):
                archive.members.append(member)
    except Exception as error:
        if not isinstance(error, (*broken_stream_errors(), ValueError, NotImplementedError)):
            raise
        archive.problems.append(f"breaks off ({error})")
    finally:
        if listed is not None:
            listed.close()
    if kind == "zip":
        archive.members.sort(key=lambda member: in_order(member.name))
    return archive


def _at_end(reader: Any) -> bool:
    try:
        return not reader.read(1)
    except broken_stream_errors():
        return False


def _open_pass(kind: str, raw: BinaryIO, until: float) -> _Pass:
    try:
        return _Zip(raw) if kind == "zip" else _Tar(raw, until)
    except Exception:
        raw.close()
        raise


def _cleaned(name: str) -> str:
    """A member's name as a path that stays where it is, without characters that a terminal would obey."""
    shown = "".join("?" if unicodedata.category(sign).startswith("C") else sign for sign in name)
    parts = [part for part in shown.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[-_LONGEST_SHOWN_NAME:]


class _Tar:
    """A tar that is read from front to back. It is itself the open file over its current member."""

    def __init__(self, raw: BinaryIO, until: float) -> None:
        self._raw, self._until = raw, until
        self._reader = decompressing(raw)
        self._index = -1
        self._left = self._padding = self._passed = 0

    def members(self) -> Iterator[Member | str]:
        while (header := self._next()) is not None:
            name, size, kind = header
            if kind == b"S":
                yield f"{_cleaned(name)} is stored as a sparse file; it and what follows was not read"
                return
            if kind in (b"0", b"\0", b"7"):
                yield Member(self._index, _cleaned(name), size)

    def open(self, member: Member) -> _Tar | None:
        if self._index >= member.index:
            return None
        while self._index < member.index:
            if self._next() is None:
                raise EOFError("the archive has changed")
        return self

    def close(self) -> None:
        self._raw.close()

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            return b""
        chunk: bytes = self._reader.read(min(self._left, size) if size >= 0 else self._left)
        if not chunk:
            raise EOFError("the archive ends within this file")
        self._left -= len(chunk)
        return chunk

    def _next(self) -> tuple[str, int, bytes] | None:
        """Name, size and kind of the next member; None at the end."""
        from tarfile import TarInfo

        long_name, long_size = "", -1
        while True:
            self._skip()
            header = self._exactly(_BLOCK)
            if not header:
                raise EOFError("the archive ends between two files")
            if not header.strip(b"\0"):
                return None
            info = TarInfo.frombuf(header, "utf-8", "replace")
            # Links, devices and folders may name a size and hold nothing.
            holds = info.type not in (b"1", b"2", b"3", b"4", b"5", b"6")
            self._left = (long_size if long_size >= 0 else info.size) if holds else 0
            if self._left < 0:
                raise EOFError("a file of negative size")
            self._padding = -self._left % _BLOCK
            if info.type not in (b"L", b"x", b"g", b"K"):
                self._index += 1
                return long_name or info.name, self._left, info.type
            if info.type == b"g" or self._left > _LONGEST_NAME:
                continue
            data = self._exactly(self._left)
            self._left = 0
            if info.type == b"L":
                long_name = data.rstrip(b"\0").decode(errors="replace")
            elif info.type == b"x":
                long_name, long_size = _extended(data, long_name)

    def _skip(self) -> None:
        """Skips the rest of a member and the padding of its last block."""
        rest, self._left, self._padding = self._left + self._padding, 0, 0
        while rest:
            chunk = self._reader.read(min(rest, _PIECE_BYTES))
            if not chunk:
                raise EOFError("the archive ends within a file")
            rest -= len(chunk)
            self._passed += len(chunk)
            if self._passed > _MOST_PASSED_BYTES:
                raise OSError(f"more than {_MOST_PASSED_BYTES >> 30} GiB")
            if time.monotonic() > self._until:
                raise TimeoutError("the time limit was reached")

    def _exactly(self, size: int) -> bytes:
        """The next `size` bytes; empty at the end. Raises EOFError for fewer."""
        data = b""
        while len(data) < size and (chunk := self._reader.read(size - len(data))):
            data += chunk
        if 0 < len(data) < size:
            raise EOFError("the archive ends within a file's head")
        return data


def _extended(records: bytes, name: str) -> tuple[str, int]:
    """Name and size by records such as `27 path=logs/rank_0.log`; the name as it was, and -1, where they have none."""
    size = -1
    for record in records.split(b"\n"):
        key, equals, value = record.partition(b" ")[2].partition(b"=")
        if equals and key == b"path":
            name = value.decode(errors="replace")
        elif equals and key == b"size" and value.isdigit():
            size = int(value[:18])
    return name, size


class _Zip:
    """A zip, any member of which can be opened."""

    def __init__(self, raw: BinaryIO) -> None:
        from zipfile import ZipFile

        self._raw = raw
        self._zip = ZipFile(raw)

    def members(self) -> Iterator[Member | str]:
        for index, info in enumerate(self._zip.infolist()):
            name = _cleaned(info.filename)
            if info.flag_bits & 1:
                yield f"{name} is encrypted and was not read"
            elif not info.is_dir():
                yield Member(index, name, info.file_size)

    def open(self, member: Member) -> Any:
        return self._zip.open(self._zip.infolist()[member.index])

    def close(self) -> None:
        self._raw.close()
