"""From bytes to blocks of whole, clean lines: envelopes opened, colours, NUL runs and carriage returns gone.

Every line still knows its own number in the file.
"""

from __future__ import annotations

import re
from collections.abc import Container, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from logdiag.model import Block, CommonPrefix
from logdiag.read.envelopes import Unwrap, opened, recognise
from logdiag.read.forms import Forms
from logdiag.read.recorder_prefix import common_prefix

__all__ = ["blocks_of"]

_BLOCK_BYTES = 1 << 20
# A pipe hands over little at a time; that much is gathered before it is scanned.
_LEAST_BYTES = 1 << 17
# A line longer than this is cut into pieces that share its number; a line must fit into memory more than once.
_LONGEST_LINE = 4 << 20

_COLOUR = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>()][0-9A-Za-z]?)")
# [36m(RayTrainWorker pid=4711)[0m   ^[[31mERROR^[[0m   \u001b[31mERROR   (a page, a pager or a record took the escape)
_PRINTED_COLOUR = re.compile(rb"(?:\x1b|\^\[|\\u001b|\\x1b|\\033)?\[[0-9;]{1,12}m")


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
    head = first[0][: 1 << 16].splitlines()
    unwrap = recognise(head, forms)
    if unwrap is not None:
        for block in _unwrapped_blocks(stream, _numbered(pieces), unwrap, forms, settled):
            yield replace(block, wrapped=tuple(head)) if block.offset == 0 else block
        return
    number, offset = 1, 0
    form = _form_of(first[0], forms)
    for data, whole in pieces:
        block = _clean_block(stream, number, offset, data, None, form)
        counted = (yield block) if block.data else None
        if whole:
            regular = counted is not None and block.line_numbers is None
            number += counted if regular and counted else data.count(b"\n")
        offset += len(data)


@dataclass(frozen=True, slots=True)
class _Form:
    """What the first block tells of all: how colours are written, and what stands before every line."""

    colours: re.Pattern[bytes] | None
    prefix: CommonPrefix | None


def _form_of(first: bytes, forms: Forms | None) -> _Form:
    # To look for colours without their escape in every block would take as long as all other cleaning.
    # Found from behind, which takes half as long where many brackets stand.
    colours = _PRINTED_COLOUR if first.rfind(b"[0m", 0, _BLOCK_BYTES) >= 0 else None
    plain = _without_colours(first[:_BLOCK_BYTES], colours)
    return _Form(colours, common_prefix(plain.split(b"\n"), forms))


def _numbered(pieces: Iterator[tuple[bytes, bool]]) -> Iterator[tuple[int, bytes]]:
    number = 1
    for data, whole in pieces:
        for line in data.removesuffix(b"\n").split(b"\n"):
            yield number, line
            number += whole


def _unwrapped_blocks(
    stream: int, lines: Iterator[tuple[int, bytes]], unwrap: Unwrap, forms: Forms | None, settled: Container[bytes]
) -> Iterator[Block]:
    """Gathers unwrapped lines into blocks."""
    form: _Form | None = None
    offset = 0
    opening = partial(opened, unwrap=unwrap)
    for gathered in _gathered(unwrap(lines, settled)):
        numbers = tuple([at for at, _, _ in gathered])
        data = b"\n".join([line for _, line, _ in gathered])
        sealed = {index: raw for index, (_, _, raw) in enumerate(gathered) if raw}
        if b"\r" in data:  # lines will be split
            data, sealed = b"\n".join([opening(raw) if raw else line for _, line, raw in gathered]), {}
        form = form or _form_of(data, forms)
        block = _clean_block(stream, numbers[0], offset, data, numbers, form)
        yield replace(block, sealed=sealed, opened=opening) if sealed else block
        offset += len(data) + 1


def _gathered(lines: Iterator[tuple[int, bytes, bytes]]) -> Iterator[list[tuple[int, bytes, bytes]]]:
    gathered: list[tuple[int, bytes, bytes]] = []
    size = 0
    for line in lines:
        gathered.append(line)
        size += len(line[1]) + 1
        if size >= _BLOCK_BYTES:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


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
            if held > _LONGEST_LINE:
                data = b"".join(parts)
                cut = data.rfind(b"\n") + 1
                yield data[:cut] or data, bool(cut)
                parts = [data[cut:]] if cut else []
                held = len(data) - cut if cut else 0
    if held:
        yield b"".join(parts), True


def _clean_block(
    stream: int, number: int, offset: int, data: bytes, numbers: tuple[int, ...] | None, form: _Form
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
