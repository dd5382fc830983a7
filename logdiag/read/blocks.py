"""From bytes to blocks of whole, clean lines: envelopes opened, colours, NUL runs and carriage returns gone.

Every line still knows its own number in the file.
"""

from __future__ import annotations

import re
from collections.abc import Container, Generator, Iterable, Iterator
from itertools import chain
from typing import BinaryIO, NamedTuple

from logdiag.model import Block, CommonPrefix
from logdiag.patterns import pattern_of
from logdiag.read.decompression import CHUNK_BYTES
from logdiag.read.envelopes import Envelope, recognise
from logdiag.read.forms import Forms
from logdiag.read.recorder_prefix import common_prefix
from logdiag.read.unwrapping import LONGEST_LINE, unwrapped

# The form of a log is learnt from so much of it.
_LEARNT_BYTES = 1 << 18
# A pipe hands over little at a time; that much is gathered before it is scanned.
_LEAST_BYTES = 1 << 17

_COLOUR = pattern_of(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>()][0-9A-Za-z]?)")
# [36m(RayTrainWorker pid=4711)[0m   ^[[31mERROR^[[0m   \u001b[31mERROR   (a page, a pager or a record took the escape)
_PRINTED_COLOUR = pattern_of(rb"(?:\x1b|\^\[|\\u001b|\\x1b|\\033)?\[[0-9;]{1,12}m")


def blocks_of(
    stream: int, chunks: Iterator[bytes], forms: Forms | None = None, settled: Container[bytes] = ()
) -> Generator[Block, int | None, None]:
    """The blocks of a stream. Who has counted a block's lines may send the count: it is not done again. `forms` are the
    user's own beside the shipped ones. Lines that are `settled` without their digits may be given so; see `Block`."""
    pieces = _whole_lines(chunks)
    first = next(pieces, None)
    if first is None:
        return
    pieces = chain([first], pieces)
    head = _head_of(first[0])
    envelope = recognise(head, forms)
    if envelope is not None:
        for block in _unwrapped_blocks(stream, pieces, envelope, forms, settled):
            yield block._replace(wrapped=tuple(head)) if block.offset == 0 else block
        return
    yield from plain_blocks(stream, pieces, _form_of(first[0], forms))


def form_of_plain(chunks: Iterator[bytes], raw: bytes, forms: Forms | None) -> Form | None:
    """The form of a file whose lines stand in it as they are; None where they are taken out of something. `raw` is how
    the file begins."""
    first = next(_whole_lines(chunks), None)
    if first is None or not raw.startswith(first[0]) or recognise(_head_of(first[0]), forms) is not None:
        return None
    return _form_of(first[0], forms)


def lines_between(raw: BinaryIO, start: int, end: int | None) -> tuple[int, list[bytes]]:
    """What the blocks of a plain file hold that begin in the chunks between two places, None for its end: the same as
    when it is read from its start. Before it the place of the first.

    Raises ValueError where a chunk holds no end of a line: then only who reads from the start knows.
    """
    raw.seek(max(start - CHUNK_BYTES, 0))
    before = _ends_a_line(raw.read(CHUNK_BYTES)) if start else b""
    started = before[before.rfind(b"\n") + 1 :]
    chunks = chain([started], _chunks_up_to(raw, end))
    pieces = [data for data, _ in _whole_lines(chunks)]
    if end is not None and pieces and not pieces[-1].endswith(b"\n"):
        pieces.pop()  # its line goes on
    return start - len(started), pieces


def _chunks_up_to(raw: BinaryIO, end: int | None) -> Iterator[bytes]:
    while (end is None or raw.tell() < end) and (chunk := raw.read(CHUNK_BYTES)):
        yield chunk if end is None and len(chunk) < CHUNK_BYTES else _ends_a_line(chunk)


def _ends_a_line(chunk: bytes) -> bytes:
    if b"\n" not in chunk:
        raise ValueError("no line ends here")
    return chunk


def _head_of(first: bytes) -> list[bytes]:
    return first[: 1 << 16].splitlines()


def plain_blocks(
    stream: int, pieces: Iterable[tuple[bytes, bool]], form: Form, offset: int = 0
) -> Generator[Block, int | None, None]:
    """Lines as blocks; see `blocks_of`. A piece of a line too long to be held comes with False."""
    number = 1
    for data, whole in pieces:
        block = _clean_block(stream, number, offset, data, None, form)
        counted = (yield block) if block.data else None
        if whole:
            regular = counted is not None and block.line_numbers is None
            number += counted if regular and counted else data.count(b"\n")
        offset += len(data)


class Form(NamedTuple):
    """What the first block tells of all: how colours are written, and what stands before every line."""

    colours: re.Pattern[bytes] | None
    prefix: CommonPrefix | None


def _form_of(first: bytes, forms: Forms | None) -> Form:
    # To look for colours without their escape in every block would take as long as all other cleaning.
    # Found from behind, which takes half as long where many brackets stand.
    colours = _PRINTED_COLOUR if first.rfind(b"[0m", 0, _LEARNT_BYTES) >= 0 else None
    plain = _without_colours(first[:_LEARNT_BYTES], colours)
    return Form(colours, common_prefix(plain.split(b"\n"), forms))


def _unwrapped_blocks(
    stream: int,
    pieces: Iterator[tuple[bytes, bool]],
    envelope: Envelope,
    forms: Forms | None,
    settled: Container[bytes],
) -> Iterator[Block]:
    """Unwrapped lines as blocks."""
    form: Form | None = None
    offset = 0
    first, *_ = next(pieces)
    # The sooner it is known what settles, the fewer records are taken apart.
    every = chain(_parts_of(first), (data for data, _ in pieces))
    for found in unwrapped(every, envelope, settled):
        data, sealed = b"\n".join(found.lines), found.sealed
        if b"\r" in data:  # lines will be split
            opened = (envelope.opened(sealed[at]) if at in sealed else line for at, line in enumerate(found.lines))
            data, sealed = b"\n".join(opened), {}
        form = form or _form_of(data, forms)
        block = _clean_block(stream, found.numbers[0], offset, data, tuple(found.numbers), form)
        yield block._replace(sealed=sealed, opened=envelope.opened) if sealed else block
        offset += len(data) + 1


def _parts_of(piece: bytes) -> Iterator[bytes]:
    """A piece in smaller ones of whole lines."""
    start = 0
    while start < len(piece):
        end = piece.find(b"\n", start + _LEARNT_BYTES) + 1 or len(piece)
        yield piece[start:end]
        start = end


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Chunks gathered to a useful size and cut after a newline; False with a piece of a line too long to be held."""
    parts: list[bytes] = []
    held = 0
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1 if held + len(chunk) >= _LEAST_BYTES else 0
        if cut:
            parts.append(chunk[:cut] if cut < len(chunk) else chunk)
            yield b"".join(parts) if len(parts) > 1 else parts[0], True
            parts, held = ([chunk[cut:]], len(chunk) - cut) if cut < len(chunk) else ([], 0)
        else:
            parts.append(chunk)
            held += len(chunk)
            if held > LONGEST_LINE:
                data = b"".join(parts)
                cut = data.rfind(b"\n") + 1
                yield data[:cut] or data, bool(cut)
                parts = [data[cut:]] if cut else []
                held = len(data) - cut if cut else 0
    if held:
        yield b"".join(parts), True


def _clean_block(
    stream: int, number: int, offset: int, data: bytes, numbers: tuple[int, ...] | None, form: Form
) -> Block:
    data = _without_colours(data, form.colours)
    if b"\x00" in data:
        data = data.replace(b"\x00", b"")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        if b"\r" in data:
            data, numbers = _split_carriage_returns(data, number, numbers)
    return Block(stream, number, offset, data, numbers, form.prefix)


def _without_colours(data: bytes, printed: re.Pattern[bytes] | None) -> bytes:
    if printed is not None:
        data = printed.sub(b"", data)
    return _COLOUR.sub(b"", data) if b"\x1b" in data else data


def _split_carriage_returns(data: bytes, number: int, numbers: tuple[int, ...] | None) -> tuple[bytes, tuple[int, ...]]:
    """Each part of a line that carriage returns wrote over becomes a line of its own, with the line's number."""
    split: list[bytes] = []
    split_numbers: list[int] = []
    for index, line in enumerate(data.removesuffix(b"\n").split(b"\n")):
        at = numbers[index] if numbers else number + index
        for part in line.split(b"\r"):
            if part or b"\r" not in line:
                split.append(part)
                split_numbers.append(at)
    return b"\n".join(split), tuple(split_numbers)
