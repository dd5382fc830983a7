"""Records that are not taken apart, because one like them was, hold the lines that they would hold taken apart."""

from __future__ import annotations

import io
import json
import random
from itertools import pairwise

import pytest

from logdiag.read.blocks import blocks_of, pieces_between, written_as_it_stands
from logdiag.read.decompression import CHUNK_BYTES
from logdiag.scan.lines import BlockLines, ShapedBlock
from tests.helpers import log_of

DIGITS = b"0123456789"
SAID = ("step {} loss 2.{}", "rank {} saved {} shards", "worker-{} lost: exit code {}", "port {}", "", "{}", "a\nb {}")


class AllBut:
    """All lines, less those in which one of these words stands, or what is no text."""

    def __init__(self, *words: bytes) -> None:
        self.words = (*words, b"\0")

    def __contains__(self, line: object) -> bool:
        return isinstance(line, bytes) and not any(word in line for word in self.words)


def record_of(form: str, source: random.Random, at: int) -> bytes:
    """One record, now and then an odd one."""
    said = source.choice(SAID).format(source.randrange(2000), source.randrange(90))
    if source.random() < 0.02:
        return source.choice((b"", b"fatal: the runtime died 3", b'{"msg": "torn', b"  {}", b"12"))
    if form == "export":
        priority = source.choice("67") if source.random() < 0.9 else "3"
        fields = f"__CURSOR=s={source.randrange(1 << 60):x}\n__REALTIME_TIMESTAMP={17724384e8 + at:.0f}\n"
        fields += f"_HOSTNAME=node-{at % 3}\nPRIORITY={priority}\n" * source.choice((1, 1, 1, 0))
        message = said.replace("\n", " ").encode()
        if source.random() < 0.05:
            return fields.encode() + b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n"
        return fields.encode() + b"MESSAGE=" + message + b"\n_PID=%d\n" % source.randrange(50_000)
    if form == "container":
        flag = "P" if source.random() < 0.05 else "F"
        return f"2026-03-02T08:00:00.{at:09d}Z stdout {flag} ".encode() + said.replace("\n", " ").encode()
    if form == "docker":
        long = source.random() < 0.01
        told = {"log": "x" * 16_384 if long else f"{said}\n", "time": f"2026-03-02T08:00:00.{at:09d}Z"}
        return json.dumps(told).encode()
    if form == "journal":
        entry = {"__CURSOR": f"s={source.randrange(1 << 60):x}", "__REALTIME_TIMESTAMP": str(1772438400000000 + at)}
        return json.dumps({**entry, "PRIORITY": source.choice("6663"), "MESSAGE": said}).encode()
    if form == "plain":
        return " ".join([said] * 8).replace("\n", " ").encode()
    if form == "wrapped":
        return f"{at} {said} {said} ".replace("\n", " ").encode().ljust(80, b"x")[: source.choice((80, 80, 40))]
    level = source.choice((30, 30, 30, 40, 50, "info", source.randrange(9000)))
    return json.dumps({"level": level, "ts": 1772438400 + at, "rank": at % 4, "msg": said, "status": at % 3}).encode()


@pytest.mark.parametrize("form", ["logger", "journal", "docker", "container", "export"])
@pytest.mark.parametrize("unlike", [(), (b"loss",), (b"ERROR", b"worker")])
def test_what_is_passed_over_holds_what_it_would_hold_taken_apart(form: str, unlike: tuple[bytes, ...]) -> None:
    """Each line and its number, wherever the pieces of the file are cut and whichever lines are settled."""
    source = random.Random(f"{form}{unlike}")
    first = [record_of(form, random.Random(1), 0)] * 25
    data = log_of(*(record.decode() for record in [*first, *(record_of(form, source, at) for at in range(4000))]))
    pieces = [data[start : start + 150_000] for start in range(0, len(data), 150_000)]
    expected = [
        (block.number_of(at), line)
        for block in blocks_of(0, iter(pieces))
        for at, line in enumerate(block.data.split(b"\n"))
    ]
    found, sealed = [], 0
    for block in blocks_of(0, iter(pieces), settled=AllBut(*unlike)):
        lines = BlockLines(ShapedBlock(block, [], {}))
        sealed += sum(map(block.sealed.holds, range(len(block.sealed.places))))
        for at, line in enumerate(block.data.split(b"\n")):
            found.append((block.number_of(at), lines[at]))
            assert line in (lines[at], lines[at].translate(None, DIGITS))
    assert found == expected
    assert sealed > 800


FORMS = ["logger", "journal", "docker", "container", "export", "wrapped", "plain"]


@pytest.mark.parametrize("form", FORMS)
def test_the_parts_of_a_file_are_what_it_is_read_whole(form: str) -> None:
    """Wherever a part begins: a message that an envelope split, an entry or a line that goes on belongs to one part."""
    source = random.Random(form)
    first = [record_of(form, random.Random(1), 0)] * 25
    data = b"".join(record + b"\n" for record in [*first, *(record_of(form, source, at) for at in range(30_000))])
    assert len(data) > 3 * CHUNK_BYTES // 2
    chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    written = written_as_it_stands(iter(chunks), io.BytesIO(data), ())
    assert written is not None
    assert (written.envelope is None) == (form == "plain")
    found, line, end = [], 0, 0
    for start, until in pairwise([*range(0, len(data), CHUNK_BYTES), None]):
        place, pieces = pieces_between(io.BytesIO(data), start or 0, until, written.envelope)
        assert place == end
        end += sum(map(len, pieces))
        for block in written.blocks(0, ((piece, True) for piece in pieces), place):
            numbers = [line + block.number_of(at) for at in range(len(block.data.split(b"\n")))]
            found.append((block.data, numbers))
        line += sum(piece.count(b"\n") for piece in pieces)
    assert end == len(data)
    whole = [
        (block.data, [block.number_of(at) for at in range(len(block.data.split(b"\n")))])
        for block in blocks_of(0, iter(chunks))
    ]
    assert found == whole
