"""A case's log as it stands in its file: raw lines, only decompressed. A label may quote a line as the pipeline reads
it (without envelope and colours) or as it is in the file; both count."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from logdiag.errors import CaseError
from logdiag.read.decompression import broken_stream_errors, decompressed
from logdiag.read.sources import open_sources

RawLine = tuple[str, int, str]
"""The source as a diagnosis names it, the line's number, its text."""

Piece = tuple[str, int, bytes]
"""Whole lines of a log: their source, the number of the first, their bytes. Most pieces of a long log hold nothing
that is looked for, and a look at the bytes of all lines at once is much faster than one at each line."""


def log_files(path: str) -> list[str]:
    """The files that a diagnosis of `path` reads. Raises SourceError where there is nothing to read."""
    return [stream.name for stream in open_sources((path,))]


def text_pieces(text: str) -> Iterator[Piece]:
    """A log that a case holds itself."""
    yield "<bytes>", 1, encoded(text)


def file_pieces(path: str) -> Iterator[Piece]:
    """Every file of a job, one after the other. Raises CaseError for what cannot be unpacked."""
    for name in log_files(path):
        rest, number = b"", 1
        for chunk in unpacked(name):
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                rest += chunk
                continue
            data = rest + chunk[:cut]
            yield name, number, data
            number, rest = number + data.count(b"\n"), chunk[cut:]
        if rest:
            yield name, number, rest


def lines_in(pieces: Iterable[Piece]) -> Iterator[RawLine]:
    """Every line."""
    for source, first, data in pieces:
        for number, line in _numbered(first, data):
            yield source, number, _decoded(line)


def lines_with(pieces: Iterable[Piece], words: Sequence[bytes], *, fold: bool = False) -> Iterator[RawLine]:
    """The lines that hold one of `words`; `fold` looks for words in small letters whatever the line's letters."""
    for source, first, data in pieces:
        seen = data.lower() if fold else data
        if any(word in seen for word in words):
            for number, line in _numbered(first, data):
                seen = line.lower() if fold else line
                if any(word in seen for word in words):
                    yield source, number, _decoded(line)


def lines_between(pieces: Iterable[Piece], spans: Sequence[tuple[str, int, int]]) -> Iterator[RawLine]:
    """The lines of `spans`, each a source with its first and last line; a line in two of them comes once."""
    for source, first, data in pieces:
        last = first + data.count(b"\n")
        if any(name == source and low <= last and first <= high for name, low, high in spans):
            for number, line in _numbered(first, data):
                if any(name == source and low <= number <= high for name, low, high in spans):
                    yield source, number, _decoded(line)


def line_at(pieces: Iterable[Piece], source: str, number: int) -> str:
    """One line's text; empty where there is none."""
    return next((text for _, _, text in lines_between(pieces, [(source, number, number)])), "")


def last_lines(pieces: Iterable[Piece], count: int) -> list[RawLine]:
    """The last lines that are not blank."""
    held: deque[Piece] = deque()
    lines = 0
    for piece in pieces:
        held.append(piece)
        lines += _not_blank(piece)
        while lines - _not_blank(held[0]) >= count and len(held) > 1:
            lines -= _not_blank(held.popleft())
    return [line for line in lines_in(held) if line[2].strip()][-count:]


def missing_texts(path: str, texts: Iterable[str]) -> list[str]:
    """Those of `texts` that no line of a job holds; reading ends when all were seen. Raises CaseError as above."""
    wanted = {text: encoded(text) for text in texts}
    for _, _, data in file_pieces(path):
        wanted = {text: word for text, word in wanted.items() if word not in data}
        if not wanted:
            break
    return list(wanted)


def encoded(text: str) -> bytes:
    """A text as the bytes of a log."""
    return text.encode("utf-8", "replace")


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _numbered(first: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    return enumerate(data.removesuffix(b"\n").split(b"\n"), first)


def _not_blank(piece: Piece) -> int:
    return sum(bool(line.strip()) for line in piece[2].split(b"\n"))


def unpacked(path: str) -> Iterator[bytes]:
    """A file's bytes, decompressed by what its first bytes say. Raises CaseError when it is torn or mislabelled."""
    try:
        with open(path, "rb") as raw:
            yield from decompressed(raw)
    except Exception as error:
        if not isinstance(error, broken_stream_errors()):
            raise
        raise CaseError(f"{path}: cannot be read ({error}); check that it is whole and readable") from error
