"""Where logs come from: files, folders, standard input and open files, compressed or not, as blocks of whole lines.

A block's bytes are what later stages scan: colours, NUL runs and carriage returns are gone, UTF-16 has become UTF-8,
envelopes are opened, and every line still knows its own number in the file.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from logdiag.errors import SourceError
from logdiag.model import Block
from logdiag.read.blocks import blocks_of

__all__ = ["Source", "Stream", "open_sources"]

Source = "str | os.PathLike[str] | BinaryIO | bytes"
"""A path (a file or a job's folder), `-` for standard input, an open binary file, or the log itself as bytes."""

_PIECE_BYTES = 1 << 20

_LOG_NAME = re.compile(
    r"(?i)(?:\.(?:log|out|err|txt|stdout|stderr|jsonl?|o\d+|e\d+)(?:\.\d+)?|(?:^|[._-])(?:log|stdout|stderr|dmesg|syslog|messages|console|"
    r"output|nohup)(?:[._-]?\d+)?)(?:\.(?:gz|zst|xz|bz2))?$"
)
# rank_3.log   rank-12.err   worker3.out   log.4   attempt_0/3/stderr.log   slurm-4711_3.out   job-4711-t5.err
_RANK_IN_NAME = re.compile(r"(?i)(?:^|[^a-z])(?:global_?rank|rank|task|proc|process|t)[_.-]?(\d{1,5})(?:\D|$)")
_ELASTIC = re.compile(r"(?:^|/)attempt_\d+/(\d+)/[^/]+$")
# node-004.log   gpu-node12.out   host-3/stdout
_NODE_IN_NAME = re.compile(
    r"(?i)(?:^|[/_.-])((?:[a-z]+-)*(?:node|host|gpu-?node|worker|ip)-?\d[\w-]*?)(?=\.|/|_rank|$)"
)


@dataclass
class Stream:
    """One log: its name, what its name tells of rank and node, and its blocks, to be read once.

    `notes` fills while reading with what a reader of the answer should know; `bytes_read` counts uncompressed bytes.
    """

    index: int
    name: str
    open: Callable[[], BinaryIO]
    rank: int | None = None
    node: str | None = None
    size: int | None = None
    tee: BinaryIO | None = None
    notes: list[str] = field(default_factory=list)
    bytes_read: int = 0
    complete: bool = True

    def blocks(self) -> Generator[Block, int | None, None]:
        """The log in blocks of whole lines. Who has counted a block's lines may send the count: it is not done again.

        A stream that breaks midway ends there and is no longer `complete`. Raises SourceError when nothing could be
        read.
        """
        with self.open() as raw:
            yield from blocks_of(self.index, self._chunks(raw))

    def _chunks(self, raw: BinaryIO) -> Iterator[bytes]:
        try:
            passed: Any = _Tee(raw, self.tee) if self.tee else raw
            for chunk in _decoded(_decompressed(passed)):
                self.bytes_read += len(chunk)
                yield chunk
        except Exception as error:
            if not isinstance(error, _broken_stream_errors()):
                raise
            if not self.bytes_read:
                raise SourceError(
                    f"{self.name}: cannot be read ({error}); check that the file is whole and not mislabelled"
                ) from error
            self.complete = False
            self.notes.append(
                f"{self.name}: breaks off after {self.bytes_read:,} bytes ({error}); diagnosed as far as it came"
            )


def open_sources(sources: tuple[object, ...], *, tee: bool = False) -> list[Stream]:
    """The streams of one job, in order. Raises SourceError for what is missing, unreadable, or a folder without
    logs."""
    streams: list[Stream] = []
    for source in sources:
        for name, opener, path in _openers(source):
            shown = path or name
            elastic = _ELASTIC.search(shown)
            in_name = elastic or _RANK_IN_NAME.search(os.path.basename(shown))
            node = _NODE_IN_NAME.search(_own_name(source, path)) if path else None
            streams.append(
                Stream(
                    index=len(streams),
                    name=name,
                    open=opener,
                    rank=int(in_name[1]) if in_name and path else None,
                    node=node[1] if node else None,
                    size=os.path.getsize(path) if path else None,
                    tee=sys.stdout.buffer if tee and name == "<stdin>" else None,
                )
            )
    return streams


def _own_name(source: object, path: str) -> str:
    """The part of a path that may name a node: below the folder that was given, or a file's own name and folder. What
    stands above is the user's, a run's or this machine's."""
    given = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    if isinstance(given, str) and os.path.isdir(given):
        return os.path.relpath(path, given)
    return "/".join(os.path.normpath(path).split(os.sep)[-2:])


def _openers(source: object) -> Iterator[tuple[str, Callable[[], BinaryIO], str | None]]:
    """(name, how to open it, path or None) for each log that a source holds."""
    import io

    if isinstance(source, (bytes, bytearray)):
        content = bytes(source)
        yield "<bytes>", lambda: io.BytesIO(content), None
    elif source == "-":
        yield "<stdin>", _stdin, None
    elif isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if os.path.isdir(path):
            for name in _logs_below(path):
                yield name, _file_opener(name), name
        else:
            _check_readable(path)
            yield path, _file_opener(path), path
    elif hasattr(source, "read"):
        yield str(getattr(source, "name", "<stream>")), lambda: _binary(source), None
    else:
        raise SourceError(f"{source!r}: not a log; give a path, '-', an open file or bytes")


def _stdin() -> BinaryIO:
    unbuffered: Any = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115 (the caller closes it)
    return cast(BinaryIO, unbuffered)


def _binary(source: object) -> BinaryIO:
    return cast(BinaryIO, getattr(source, "buffer", source))


def _file_opener(path: str) -> Callable[[], BinaryIO]:
    def opener() -> BinaryIO:
        try:
            unbuffered: Any = open(path, "rb", buffering=0)  # noqa: SIM115 (the caller closes it)
            return cast(BinaryIO, unbuffered)
        except OSError as error:
            raise SourceError(
                f"{path}: cannot be opened ({error.strerror}); check the path and its permissions"
            ) from error

    return opener


def _check_readable(path: str) -> None:
    if not os.path.exists(path):
        raise SourceError(f"{path}: no such file or folder; check the path")
    if not os.access(path, os.R_OK):
        raise SourceError(f"{path}: permission denied; make it readable for this user")


def _logs_below(folder: str) -> list[str]:
    """The files of a job's folder that are logs, in natural order."""
    if not os.access(folder, os.R_OK | os.X_OK):
        raise SourceError(f"{folder}: permission denied; make the folder readable for this user")
    found = [
        os.path.join(parent, name)
        for parent, folders, names in os.walk(folder)
        for name in names
        if _LOG_NAME.search(name) and os.path.isfile(os.path.join(parent, name))
    ]
    logs = [path for path in found if not path.endswith(".json") or os.path.basename(path).endswith("error.json")]
    if not logs:
        raise SourceError(
            f"{folder}: holds no logs (*.log, *.out, *.err, *.txt, stdout, stderr ...); name the files themselves"
        )
    for path in logs:
        _check_readable(path)
    # torchelastic's error.json repeats what the log beside it says in its place.
    return sorted(logs, key=lambda path: (_natural(os.path.dirname(path)), path.endswith(".json"), _natural(path)))


def _natural(path: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", path) if part]


def _decompressed(raw: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file, decompressed by what its first bytes say."""
    head = _read_head(raw, 6)
    rewound: Any = _Rewound(head, raw)
    if head.startswith(b"\x1f\x8b"):
        import gzip

        with gzip.GzipFile(fileobj=rewound) as unpacked:
            yield from _read_all(unpacked)
    elif head.startswith(b"BZh"):
        import bz2

        with bz2.BZ2File(rewound) as unpacked:
            yield from _read_all(unpacked)
    elif head.startswith(b"\xfd7zXZ\x00"):
        import lzma

        with lzma.LZMAFile(rewound) as unpacked:
            yield from _read_all(unpacked)
    elif head.startswith(b"\x28\xb5\x2f\xfd"):
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        with zstd.ZstdFile(rewound) as unpacked:
            yield from _read_all(unpacked)
    else:
        yield head
        yield from _read_all(raw)


def _read_head(raw: BinaryIO, size: int) -> bytes:
    head = b""
    while len(head) < size and (more := raw.read(size - len(head))):
        head += more
    return head


def _read_all(reader: Any) -> Iterator[bytes]:
    """Reads on in pieces that are there already, so that what comes before a tear is not lost with it."""
    read = getattr(reader, "read1", reader.read)
    while chunk := read(_PIECE_BYTES):
        yield chunk


class _Tee:
    """A file that passes on what is read from it, at once."""

    def __init__(self, raw: BinaryIO, copy: BinaryIO) -> None:
        self._raw, self._copy = raw, copy

    def read(self, size: int = -1) -> bytes:
        chunk = self._raw.read(size)
        self._copy.write(chunk)
        self._copy.flush()
        return chunk


class _Rewound:
    """A file whose first bytes, read already, come again."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1) -> bytes:
        if self._head:
            taken, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
            return taken if size >= 0 else taken + self._rest.read()
        return self._rest.read(size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return False


def _broken_stream_errors() -> tuple[type[BaseException], ...]:
    """What a stream that ends or turns bad midway raises."""
    errors: list[type[BaseException]] = [OSError, EOFError]
    zstd = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    for module, name in (("zlib", "error"), ("lzma", "LZMAError"), (zstd, "ZstdError")):
        if module in sys.modules:
            errors.append(getattr(sys.modules[module], name))
    return tuple(errors)


def _decoded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """UTF-16 with a byte order mark as UTF-8; everything else as it is, less UTF-8's own mark."""
    first = next(chunks, b"")
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if first.startswith(mark):
            decoder = codecs.getincrementaldecoder(name)(errors="replace")
            yield decoder.decode(first[2:]).encode(errors="replace")
            for chunk in chunks:
                yield decoder.decode(chunk).encode(errors="replace")
            yield decoder.decode(b"", final=True).encode(errors="replace")
            return
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from chunks
