"""Where logs come from: files, folders, archives, standard input and open files, compressed or not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypeAlias, cast

from logdiag.errors import SourceError
from logdiag.read.decompression import archive_kind_of_file
from logdiag.read.flight_recorder import holds_dump
from logdiag.read.forms import Forms
from logdiag.read.names import in_order, is_log, node_in, places_by_folder, rank_in, ranks_of_siblings
from logdiag.read.streams import Limits, Stream

if TYPE_CHECKING:
    from _typeshed import SupportsRead

Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | SupportsRead[bytes] | TextIO | Known"
"""A path (a file, an archive or a job's folder), `-` for standard input, an open binary file, or the log as bytes."""


@dataclass(frozen=True, slots=True)
class Known:
    """A path or a log as bytes with what the caller knows of it: its `name` (empty: the path's own), its node and its
    rank."""

    source: str | bytes
    name: str = ""
    node: str | None = None
    rank: int | None = None


# So many things that cannot be read are named; more are counted.
_MOST_NAMED = 3


def limits_of(max_seconds: float | None, max_bytes: int | None) -> Limits:
    """The limits that a caller sets, None for no limit. Raises SourceError for what is no number above 0."""
    for name, value in (("max_seconds", max_seconds), ("max_bytes", max_bytes)):
        if value is not None and not (isinstance(value, (int, float)) and value > 0):
            raise SourceError(f"{name}={value!r}: not a number above 0; leave it out for no limit")
    endless = float("inf")
    return Limits(endless if max_bytes is None else max_bytes, endless if max_seconds is None else max_seconds)


def open_sources(sources: tuple[object, ...], limits: Limits | None = None, forms: Forms | None = None) -> list[Stream]:
    """The streams of one job, in order; the notes of the first name what of a folder or an archive cannot be read.
    `forms` are the user's own with the shipped ones.

    Raises SourceError for what is missing or unreadable, and for a folder or an archive without logs.
    """
    limits = limits or Limits()
    problems: list[str] = []
    by_path: dict[object, Stream] = {}
    for stream in chain.from_iterable(_streams_of(source, limits, problems) for source in sources):
        # A file that two sources name, or a link to it, is one log.
        by_path.setdefault(os.path.realpath(stream.path) if stream.path else len(by_path), stream)
    streams = list(by_path.values())
    siblings = ranks_of_siblings(stream.name for stream in streams)
    places = places_by_folder(stream.name for stream in streams)
    for index, stream in enumerate(streams):
        if stream.name in places and stream.rank is None and stream.node is None:
            stream.rank, stream.node = places[stream.name]
        stream.rank = siblings.get(stream.name) if stream.rank is None else stream.rank
        stream.index, stream.limits, stream.forms, stream.alone = index, limits, forms, len(streams) == 1
    if problems and streams:
        streams[0].complete = False
        streams[0].notes.extend(problems[:_MOST_NAMED])
        if len(problems) > _MOST_NAMED:
            streams[0].notes.append(f"{len(problems) - _MOST_NAMED:,} further files or folders were not read")
    return streams


def _stream(
    name: str,
    open: Callable[[], AbstractContextManager[Any]],
    own: str = "",
    size: int | None = None,
    path: str = "",
) -> Stream:
    """The stream of a log; `own` is the part of its path that may name its rank and node."""
    return Stream(0, name, open, rank_in(name, own) if own else None, node_in(own), size, path=path)


def _streams_of(source: object, limits: Limits, problems: list[str]) -> Iterator[Stream]:
    """The logs in a source; a sentence on each part of it that cannot be read is added to `problems`."""
    import io

    if isinstance(source, Known):
        for stream in _streams_of(source.source, limits, problems):
            rank = stream.rank if source.rank is None else source.rank
            yield replace(stream, name=source.name or stream.name, node=source.node or stream.node, rank=rank)
    elif isinstance(source, (bytes, bytearray)):
        content = bytes(source)
        yield from _streams_in_file(_stream("<bytes>", lambda: io.BytesIO(content)), limits, problems)
    elif isinstance(source, str) and source == "-":
        yield _stream("<stdin>", partial(open, 0, "rb", buffering=0, closefd=False))
    elif isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if os.path.isdir(path):
            for name in _logs_below(path, problems):
                own, size = os.path.relpath(name, path), os.path.getsize(name)
                yield _stream(name, partial(_open_file, name, limits), own, size, name)
            return
        if not os.path.exists(path):
            raise SourceError(f"{path}: no such file or folder; check the path")
        if not os.access(path, os.R_OK):
            raise SourceError(f"{path}: permission denied; make it readable for this user")
        own = "/".join(os.path.normpath(path).split(os.sep)[-2:])
        stream = _stream(path, partial(_open_file, path, limits), own, os.path.getsize(path), path)
        is_file = os.path.isfile(path)
        yield from _streams_in_file(stream, limits, problems) if is_file else (replace(stream, path=""),)
    elif isinstance(source, io.TextIOBase) and not hasattr(source, "buffer"):
        raise SourceError(f"{source!r}: text, not a log; open it in binary mode, or give bytes")
    elif hasattr(source, "read"):
        # What the caller opened stays the caller's to close.
        name = str(getattr(source, "name", "<stream>"))
        yield _stream(name, partial(nullcontext, getattr(source, "buffer", source)))
    else:
        raise SourceError(f"{source!r}: not a log; give a path, '-', an open file or bytes")


def _streams_in_file(stream: Stream, limits: Limits, problems: list[str]) -> Iterator[Stream]:
    """The logs in a file: those of an archive, or else the file itself."""
    open_file = cast("Callable[[], BinaryIO]", stream.open)
    kind = archive_kind_of_file(open_file)
    if kind is None:
        yield stream
        return
    from logdiag.read.archives import Archive

    archive = Archive(kind, open_file, limits.until)
    sentences = [f"{stream.name}: {problem}" for problem in archive.problems]
    if not archive.members:
        raise SourceError(
            sentences[0] if sentences else f"{stream.name}: holds no logs (*.log, *.out, stderr ...); unpack it first"
        )
    problems.extend(sentences)
    for member in archive.members:
        yield _stream(f"{stream.name}/{member.name}", partial(archive.open, member), member.name, member.size)


def _open_file(path: str, limits: Limits) -> BinaryIO:
    # Without a writer, a named pipe would hold up the opening itself.
    waits = os.O_NONBLOCK if limits.max_seconds != float("inf") and hasattr(os, "O_NONBLOCK") else 0
    try:
        descriptor = os.open(path, os.O_RDONLY | waits | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened ({error.strerror}); check the path and its permissions") from error
    return cast(BinaryIO, open(descriptor, "rb", buffering=0))


def _logs_below(folder: str, problems: list[str]) -> list[str]:
    """The logs of a job's folder in natural order; a sentence on each that cannot be read goes to `problems`."""
    if not os.access(folder, os.R_OK | os.X_OK):
        raise SourceError(f"{folder}: permission denied; make the folder readable for this user")
    before = len(problems)
    inside = os.path.realpath(folder) + os.sep
    logs: list[str] = []

    def unreadable(error: OSError) -> None:
        problems.append(f"{error.filename}: the folder was not read ({error.strerror}); make it readable for this user")

    for parent, folders, names in os.walk(folder, onerror=unreadable):
        logs_here = [name for name in names if is_log(name) or holds_dump(os.path.join(parent, name))]
        for path in (os.path.join(parent, name) for name in (*folders, *logs_here)):
            if os.path.islink(path) and not os.path.realpath(path).startswith(inside):
                problems.append(f"{path}: was not read, being a link out of the folder; name what it leads to")
            elif os.path.isfile(path) and not os.access(path, os.R_OK):
                problems.append(f"{path}: was not read (permission denied); make it readable for this user")
            elif os.path.isfile(path):
                logs.append(path)
    if not logs:
        raise SourceError(
            problems[before]
            if len(problems) > before
            else f"{folder}: holds no logs (*.log, *.out, *.err, *.txt, stdout, stderr ...); name the files themselves"
        )
    return sorted(logs, key=in_order)
