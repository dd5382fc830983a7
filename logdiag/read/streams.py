"""One log as blocks of whole lines, read once and within limits.

A block's bytes are what later stages scan: colours, NUL runs and carriage returns are gone, UTF-16 has become UTF-8,
envelopes are opened, and every line still knows its own number in the file. The notes of a stream name what cannot be
read, and the stream is not `complete`.
"""

from __future__ import annotations

import codecs
import os
import select
import stat
import time
from collections.abc import Callable, Container, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

from logdiag.errors import SourceError
from logdiag.model import Block, CommonPrefix, Line
from logdiag.read.blocks import Written, blocks_of, written_as_it_stands
from logdiag.read.decompression import broken_stream_errors, decompressed, kind_of_archive, looks_binary
from logdiag.read.flight_recorder import LARGEST_DUMP, is_dump, lines_of_dump
from logdiag.read.forms import Forms
from logdiag.read.names import Section, section_at
from logdiag.read.prefixes import parse_line

_HEAD_BYTES = 1 << 12


@dataclass
class Limits:
    """How much may be read of all streams together, in uncompressed bytes, and for how many seconds from now on.
    `noted` is true once a note says that a limit was reached."""

    max_bytes: float = float("inf")
    max_seconds: float = float("inf")
    bytes_read: int = 0
    noted: bool = False
    until: float = field(init=False)

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.max_seconds

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return min(self.max_bytes, self.max_seconds) < float("inf")

    def reached(self) -> str:
        """Which limit is reached, in words; empty for none."""
        if self.bytes_read >= self.max_bytes:
            return f"limit of {self.max_bytes:,} bytes"
        return f"limit of {self.max_seconds:g} seconds" if time.monotonic() >= self.until else ""


@dataclass
class Stream:
    """One log: its name, the rank and node in its name, and its blocks, to be read once.

    While reading, `notes` fills with what a reader of the answer should know, and `complete` becomes False where
    something was not read; `bytes_read` counts uncompressed bytes. The only stream of a job is `alone`. `forms` are
    the user's own with the shipped ones, None for the shipped ones alone. `path` is that of a file that another process
    may open too, empty where there is none. `prefix` is what stands before every line, known from the first block
    on. `sections` fills with the ranks and nodes that headings name for the lines
    below them.
    """

    index: int
    name: str
    open: Callable[[], AbstractContextManager[Any]]
    rank: int | None = None
    node: str | None = None
    size: int | None = None
    limits: Limits = field(default_factory=Limits)
    notes: list[str] = field(default_factory=list)
    bytes_read: int = 0
    complete: bool = True
    alone: bool = False
    forms: Forms | None = None
    path: str = ""
    prefix: CommonPrefix | None = None
    sections: list[Section] = field(default_factory=list)

    def blocks(self, settled: Container[bytes] = ()) -> Generator[Block, int | None, None]:
        """The log in blocks of whole lines. A consumer that has counted a block's lines can `send()` the count, to save
        counting twice. Lines of an envelope whose text without digits is in `settled` may stay sealed; see `Block`.

        A stream that breaks midway ends there and is no longer `complete`. Raises SourceError when nothing could be
        read of a stream that is alone.
        """
        if reached := self.limits.reached():
            self.complete = False
            if not self.limits.noted:
                self.limits.noted = True
                self._miss(f"{self.name}: was not read, nor any log after it: the {reached} was reached")
            return
        yield from blocks_of(self.index, self._chunks(), self.forms, settled)

    def line(self, position: int, number: int, text: bytes) -> Line:
        """A line of the stream. A rank or node that it does not name has the heading above it or the file's name."""
        decoded = text.decode(errors="replace")
        line = parse_line(decoded, self.name, number, stream=self.index, position=position, prefix=self.prefix)
        section = section_at(self.sections, position) if self.sections else None
        for source in (section, self):
            if source and ((line.rank is None and source.rank is not None) or (line.node is None and source.node)):
                rank = source.rank if line.rank is None else line.rank
                line = line._replace(rank=rank, node=line.node or source.node)
        return line

    def written(self, settled: Container[bytes]) -> Written | None:
        """How the lines of a file are written; None where the file does not hold them as they are, as if compressed."""
        with self.open() as raw:
            return written_as_it_stands(self._chunks(), raw, settled)

    def _chunks(self) -> Iterator[bytes]:
        try:
            with self.open() as raw:
                size = _size_of(raw)
                yield from self._within_limits(_decoded(_text_of(self.name, decompressed(_Patient(raw, self.limits)))))
                left = _size_of(raw)
                if size is not None and left is not None and left < (before := max(size, raw.tell())):
                    self.note_cut(before, left)
        except SourceError as error:
            self._give_up(str(error), error)
        except Exception as error:  # whose types are known only once a decompressor was loaded
            if not isinstance(error, (*broken_stream_errors(), NotImplementedError)):
                raise
            if self.bytes_read:
                self._miss(
                    f"{self.name}: breaks off after {self.bytes_read:,} bytes ({error}); diagnosed as far as it came"
                )
            else:
                self._give_up(
                    f"{self.name}: cannot be read ({error}); check that the file is whole and not mislabelled", error
                )

    def _within_limits(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            taken = chunk
            if self.limits.bytes_read + len(chunk) > self.limits.max_bytes:
                taken = chunk[: int(self.limits.max_bytes) - self.limits.bytes_read]
            self.bytes_read += len(taken)
            self.limits.bytes_read += len(taken)
            yield taken
            if (reached := self.limits.reached()) and (taken is not chunk or next(chunks, b"")):
                self.limits.noted = True
                self._miss(
                    f"{self.name}: the {reached} was reached after {self.bytes_read:,} bytes of it; what follows, and "
                    "every log after it, was not read"
                )
                return

    def note_cut(self, before: int, left: int) -> None:
        """Notes that the file had more bytes before."""
        self._miss(
            f"{self.name}: was cut down from {before:,} to {left:,} bytes while it was read; what it held in between "
            "is missing"
        )

    def _miss(self, note: str) -> None:
        self.complete = False
        self.notes.append(note)

    def _give_up(self, sentence: str, error: Exception) -> None:
        """Notes that nothing could be read. Raises SourceError where there is no other log."""
        if self.alone:
            raise SourceError(sentence) from error
        self._miss(sentence)


def _size_of(raw: Any) -> int | None:
    """The size of an open regular file in bytes; None for anything else."""
    try:
        status = os.fstat(raw.fileno())
        raw.tell()
    except (AttributeError, OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class _Patient:
    """A file whose reads wait no longer than until a time limit. If it cannot be polled, the limit is only checked
    between two reads."""

    def __init__(self, raw: Any, limits: Limits) -> None:
        self._limits = limits
        # A buffered file waits until its buffer is full; `read1` gives what is there.
        self._read = getattr(raw, "read1", raw.read)
        self._poll = None if limits.max_seconds == float("inf") else _poll_of(raw)

    def read(self, size: int = -1) -> bytes:
        while True:
            if time.monotonic() >= self._limits.until:
                raise TimeoutError(f"the {self._limits.reached()} was reached")
            left = self._limits.until - time.monotonic()
            if self._poll is None or self._poll(max(0.0, left) * 1000):
                return cast(bytes, self._read(size))


def _poll_of(raw: Any) -> Callable[[float], Any] | None:
    """How to wait for a pipe, a terminal or a socket, in milliseconds; None for what is always ready."""
    if hasattr(raw, "poll"):
        return cast("Callable[[float], Any]", raw.poll)
    try:
        descriptor = raw.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    if not hasattr(select, "poll") or _size_of(raw) is not None:
        return None
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    if not hasattr(raw, "peek"):
        return waiting.poll
    blocking = os.get_blocking(descriptor)
    os.set_blocking(descriptor, False)
    try:
        # What a buffered file took from its pipe before it was passed on.
        held = [raw.peek(1)]
    finally:
        os.set_blocking(descriptor, blocking)
    return lambda milliseconds: (held and held.pop()) or waiting.poll(milliseconds)


def _text_of(name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The chunks, or the lines of a flight recorder's dump. Raises SourceError if the first chunks are of no log."""
    held = b""
    try:
        for chunk in chunks:
            held += chunk
            if len(held) >= _HEAD_BYTES:
                break
    except Exception:  # whatever broke the stream off, what came before it is read
        yield _checked(name, held)
        raise
    if not is_dump(held[:_HEAD_BYTES]):
        yield _checked(name, held)
        yield from chunks
        return
    whole = bytearray(held)
    for chunk in chunks:
        whole += chunk
        if len(whole) > LARGEST_DUMP:
            raise SourceError(f"{name}: a dump of more than {LARGEST_DUMP:,} bytes; record fewer entries, or cut it")
    yield from lines_of_dump(bytes(whole), name)


def _checked(name: str, head: bytes) -> bytes:
    kind = kind_of_archive(head)
    if kind:
        raise SourceError(f"{name}: a {kind} archive; unpack it, or name its file instead of a pipe")
    if looks_binary(head[:_HEAD_BYTES]):
        raise SourceError(f"{name}: binary data, not a log; give the log itself, as text or as .gz, .zst, .xz or .bz2")
    return head


def _decoded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """UTF-16 with a byte order mark as UTF-8; everything else as it is, less UTF-8's own mark."""
    first = next(chunks, b"")
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        texts = codecs.iterdecode(chain([first], chunks), "utf-16", errors="replace")
        yield from (text.encode(errors="replace") for text in texts)
        return
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from chunks
