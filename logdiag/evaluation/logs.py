"""A case's log as it stands in its file: raw lines, only decompressed.

A label may quote a line as it is there, or as the pipeline reads it (without envelope and colours).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from logdiag.errors import CaseError
from logdiag.read.decompression import broken_stream_errors, decompressed
from logdiag.read.sources import open_sources

RawLine = tuple[str, int, str]
"""The source as a diagnosis names it, the line's number, its text."""


def log_files(path: str) -> list[str]:
    """The files that a diagnosis of `path` reads. Raises SourceError where there is nothing to read."""
    return [stream.name for stream in open_sources((path,))]


def text_lines(text: str) -> Iterator[RawLine]:
    """The lines of a log that a case holds itself."""
    return _numbered("<bytes>", encoded(text))


def file_lines(path: str) -> Iterator[RawLine]:
    """The lines of every file of a job, one after the other. Raises CaseError for what cannot be unpacked."""
    for name in log_files(path):
        yield from _numbered(name, b"".join(unpacked(name)))


def _numbered(name: str, data: bytes) -> Iterator[RawLine]:
    for number, line in enumerate(data.decode("utf-8", "replace").removesuffix("\n").split("\n"), 1):
        yield name, number, line


def last_lines(lines: Iterable[RawLine], count: int) -> list[RawLine]:
    """The last lines that are not blank."""
    return list(deque((line for line in lines if line[2].strip()), maxlen=count))


def encoded(text: str) -> bytes:
    """A text as the bytes of a log."""
    return text.encode("utf-8", "replace")


def unpacked(path: str) -> Iterator[bytes]:
    """A file's bytes, decompressed by what its first bytes say. Raises CaseError when it is torn or mislabelled."""
    try:
        with open(path, "rb") as raw:
            yield from decompressed(raw)
    except Exception as error:
        if not isinstance(error, broken_stream_errors()):
            raise
        raise CaseError(f"{path}: cannot be read ({error}); check that it is whole and readable") from error
