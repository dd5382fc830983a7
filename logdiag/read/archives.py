"""Reads the logs in a tar (compressed or not) or zip archive as those of a folder, without unpacking it to disk.

A tar is read from front to back: once for the list of its logs, once for their text. Links, devices and names that
lead out of a folder mean nothing here, since nothing is written.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from logdiag.errors import SourceError
from logdiag.read.decompression import broken_stream_errors, decompressing
from logdiag.read.names import in_order, is_log

_MOST_MEMBERS = 20_000
_MOST_LOGS = 5_000
# Bytes of a tar that are passed for the list of its logs: they must be decompressed too.
_MOST_PASSED_BYTES = 16 << 30
_TAR_BYTES = 1 << 16
_LONGEST_NAME = 64 << 10
_LONGEST_SHOWN_NAME = 400


@dataclass(frozen=True, slots=True)
class Member:
    """One log in an archive: its index among all members, its cleaned name, and its size in bytes."""

    index: int
    name: str
    size: int


@dataclass
class Archive:
    """The logs of an archive of this `kind` (`tar` or `zip`); `problems` are sentences on what of it cannot be read.

    Reading ends at `until` (seconds of the monotonic clock); half of the time until then may go into the list of logs.
    """

    kind: str
    open_file: Callable[[], BinaryIO]
    until: float
    members: list[Member] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _opened: _Tar | _Zip | None = None

    def __post_init__(self) -> None:
        now = time.monotonic()
        try:
            with closing(self._reader(now + (self.until - now) / 2, _MOST_PASSED_BYTES)) as listed:
                for count, member in enumerate(listed.members()):
                    if count >= _MOST_MEMBERS or len(self.members) >= _MOST_LOGS:
                        most = f"more than {_MOST_LOGS:,} logs, or {_MOST_MEMBERS:,} files"
                        self.problems.append(f"{most}; the rest was not read")
                        break
                    if isinstance(member, str):
                        self.problems.append(member)
                    elif is_log(member.name):
                        self.members.append(member)
        except SourceError:
            raise
        except Exception as error:  # whatever a broken archive leads its reader to
            self.problems.append(f"breaks off ({error})")
        if self.kind == "zip":
            self.members.sort(key=lambda member: in_order(member.name))

    @contextmanager
    def open(self, member: Member) -> Iterator[Any]:
        """An open file over one log. Raises OSError, EOFError or what else a torn archive makes its readers raise."""
        if isinstance(self._opened, _Tar) and self._opened.index >= member.index:
            self.close()  # a tar is not read backwards
        self._opened = self._opened or self._reader(self.until)
        reader = self._opened.open(member)
        try:
            yield reader
        finally:
            # A reader that stopped within a log will read no further.
            if member is self.members[-1] or not _at_end(reader):
                self.close()

    def close(self) -> None:
        """Lets go of the file; it is opened again when needed."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _reader(self, until: float, most: float = float("inf")) -> _Tar | _Zip:
        raw = self.open_file()
        try:
            return _Zip(raw) if self.kind == "zip" else _Tar(raw, until, most)
        except Exception:
            raw.close()
            raise


def _at_end(reader: Any) -> bool:
    try:
        return not reader.read(1)
    except broken_stream_errors():
        return False


def _cleaned(name: str) -> str:
    """A member's name as a path that stays where it is, without characters that a terminal would obey."""
    shown = "".join("?" if unicodedata.category(sign).startswith("C") else sign for sign in name)
    parts = [part for part in shown.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[-_LONGEST_SHOWN_NAME:]


class _Bounded:
    """A file of which no more than so many bytes are read, and nothing once it is late."""

    def __init__(self, reader: Any, until: float, most: float) -> None:
        self._reader, self._until, self._left = reader, until, most

    def read(self, size: int) -> bytes:
        if self._left <= 0:
            raise OSError(f"more than {_MOST_PASSED_BYTES >> 30} GiB")
        if time.monotonic() > self._until:
            raise TimeoutError("the time limit was reached")
        self._left -= size
        data: bytes = self._reader.read(size)
        return data


class _Tar:
    """A tar that is read from front to back; `index` is that of its current member."""

    def __init__(self, raw: BinaryIO, until: float, most: float) -> None:
        import tarfile

        class Head(tarfile.TarInfo):
            """Raises EOFError for what is neither a whole head nor the end, and for one that would fill the memory."""

            @classmethod
            def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Head:
                try:
                    head = super().frombuf(buf, encoding, errors)
                except tarfile.HeaderError as error:
                    if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                        raise
                    raise EOFError("the archive ends between two files") from error
                if head.size < 0 or (head.size > _LONGEST_NAME and head.type in b"LKxgX"):
                    raise EOFError(f"a head of {head.size:,} bytes")
                return head

        self.index = -1
        self.close = raw.close
        file: Any = _Bounded(decompressing(raw), until, most)
        # What it reads is closed with `raw`.
        self._tar: Any = tarfile.open(  # noqa: SIM115
            fileobj=file, mode="r|", bufsize=_TAR_BYTES, encoding="utf-8", tarinfo=Head
        )

    def _next(self) -> Any:
        """The next member; None at the end. What the library keeps of those before is not needed."""
        self._tar.members.clear()
        self._tar.pax_headers.clear()
        self.index += 1
        return self._tar.next()

    def members(self) -> Iterator[Member | str]:
        """Each log, or a sentence on what cannot be read."""
        while (info := self._next()) is not None:
            if info.issparse():
                yield f"{_cleaned(info.name)} is stored as a sparse file and was not read"
            elif info.isreg():
                yield Member(self.index, _cleaned(info.name), info.size)

    def open(self, member: Member) -> Any:
        info = None
        while self.index < member.index and (info := self._next()):
            pass
        if info is None:
            raise EOFError("the archive has changed")
        reader: Any = self._tar.extractfile(info)
        return reader.raw


class _Zip:
    """A zip, any member of which can be opened."""

    def __init__(self, raw: BinaryIO) -> None:
        from zipfile import ZipFile

        self._zip = ZipFile(raw)
        self.close = raw.close

    def members(self) -> Iterator[Member | str]:
        """As those of a tar."""
        for index, info in enumerate(self._zip.infolist()):
            name = _cleaned(info.filename)
            if info.flag_bits & 1:
                yield f"{name} is encrypted and was not read"
            elif not info.is_dir():
                yield Member(index, name, info.file_size)

    def open(self, member: Member) -> Any:
        return self._zip.open(self._zip.infolist()[member.index])
