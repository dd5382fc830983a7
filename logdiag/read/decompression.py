"""Takes the compression off a stream of bytes, several layers if there are several. The first bytes show the kind of
compression, and whether it is an archive."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, BinaryIO

CHUNK_BYTES = 1 << 20
"""So much is read at a time; where the last line in it ends, a block of lines ends."""
_SHORTEST_HEAD = 6
_HEAD_OF_AN_ARCHIVE = 512
_MOST_LAYERS = 4
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
# What opens a file that begins so.
_LIBRARIES = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "lzma", b"\x28\xb5\x2f\xfd": _ZSTD}
# Control bytes that text does not hold; NUL (holes of a truncated log), backspace, escape and white space are left out.
_CONTROL = bytes([*range(1, 7), *range(14, 27), *range(28, 32), 127])
_FEWEST_KINDS_OF_CONTROL = 8
_BINARY_SHARE = 0.02


def decompressed(raw: Any) -> Iterator[bytes]:
    """The bytes of an open file without their compression, each piece at once: a torn file loses only its end."""
    reader = decompressing(raw)
    while chunk := _read_some(reader, CHUNK_BYTES):
        yield chunk


def decompressing(raw: Any) -> Any:
    """An open file without its layers of compression. Raises OSError where there are too many."""
    reader = raw
    for _ in range(_MOST_LAYERS):
        head = _head(reader, _SHORTEST_HEAD, CHUNK_BYTES)
        reader = _Rewound(head, reader)
        library = next((name for begins, name in _LIBRARIES.items() if head.startswith(begins)), None)
        if library is None:
            return reader
        reader = import_module(library).open(reader)
    raise OSError(f"compressed {_MOST_LAYERS} times over or more; unpack it first")


def kind_of_archive(head: bytes) -> str | None:
    """`tar` or `zip` by the first 512 bytes of a file, None for anything else."""
    if head[257:262] == b"ustar":
        return "tar"
    return "zip" if head.startswith((b"PK\x03\x04", b"PK\x05\x06")) else None


def archive_kind_of_file(open_file: Callable[[], BinaryIO]) -> str | None:
    """The same as `kind_of_archive` for a file, without its compression."""
    with open_file() as raw:
        try:
            reader = decompressing(raw)
            head = _head(reader, _HEAD_OF_AN_ARCHIVE, _HEAD_OF_AN_ARCHIVE)
        except broken_stream_errors():
            return None
        return kind_of_archive(head)


def looks_binary(data: bytes) -> bool:
    """Whether the beginning of a log is no text in any encoding: many kinds of control bytes, and many of them."""
    without_nul = data.replace(b"\0", b"")
    rest = without_nul.translate(None, _CONTROL)
    if len(without_nul) - len(rest) <= _BINARY_SHARE * len(without_nul):
        return False
    return sum(sign in without_nul for sign in _CONTROL) >= _FEWEST_KINDS_OF_CONTROL


def broken_stream_errors() -> tuple[type[BaseException], ...]:
    """The exceptions that reading a broken stream raises."""
    errors: list[type[BaseException]] = [OSError, EOFError]
    known = (("zlib", "error"), ("lzma", "LZMAError"), (_ZSTD, "ZstdError"), ("tarfile", "TarError"))
    for module, name in (*known, ("zipfile", "BadZipFile")):
        if module in sys.modules:
            errors.append(getattr(sys.modules[module], name))
    return tuple(errors)


def _head(reader: Any, least: int, size: int) -> bytes:
    """The first bytes of a file, read by `size` at once until there are enough."""
    head: bytes = _read_some(reader, size)
    while 0 < len(head) < least and (more := _read_some(reader, size)):
        head += more
    return head


def _read_some(reader: Any, size: int) -> bytes:
    """What is there already, at most `size` bytes; empty at the end."""
    read = getattr(reader, "read1", reader.read)
    chunk: bytes = read(size)
    return chunk


class _Rewound:
    """A file whose first bytes, read already, come again."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return _read_some(self._rest, size)
        taken, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
        return taken if size >= 0 else taken + self._rest.read()

    read1 = read
