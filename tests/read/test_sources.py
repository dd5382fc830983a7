"""Logs from files, folders, pipes and bytes, however they are compressed, coded or broken."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from logdiag import SourceError
from logdiag.model import Block
from logdiag.read.sources import Known, open_sources
from logdiag.read.streams import Stream
from tests.helpers import log_of, zstd

LINES = [f"line {number} of the log" for number in range(1, 2001)]
PLAIN = log_of(*LINES)


def read(stream: Stream) -> list[tuple[int, bytes]]:
    """(number, text) of each line of a stream."""
    return [
        (block.number_of(index), line)
        for block in stream.blocks()
        for index, line in enumerate(block.data.removesuffix(b"\n").split(b"\n"))
    ]


def read_bytes(data: bytes) -> list[tuple[int, bytes]]:
    """As `read`, for a log given as bytes."""
    return read(open_sources((data,))[0])


EXPECTED = [(number, line.encode()) for number, line in enumerate(LINES, 1)]

# --- one file ---


@pytest.mark.parametrize(
    "compress",
    [
        pytest.param(lambda data: data, id="plain"),
        pytest.param(gzip.compress, id="gz"),
        pytest.param(zstd.compress, id="zst"),
        pytest.param(lzma.compress, id="xz"),
        pytest.param(bz2.compress, id="bz2"),
        pytest.param(lambda data: gzip.compress(data[:9000]) + gzip.compress(data[9000:]), id="gz of two members"),
        pytest.param(lambda data: zstd.compress(data[:9000]) + zstd.compress(data[9000:]), id="zst of two frames"),
        pytest.param(lambda data: bz2.compress(data[:9000]) + bz2.compress(data[9000:]), id="bz2 of two streams"),
        pytest.param(lambda data: lzma.compress(data[:9000]) + lzma.compress(data[9000:]), id="xz of two streams"),
    ],
)
def test_a_file_is_decompressed_by_its_first_bytes(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """The name does not matter, and files appended to each other are read to the end."""
    path = tmp_path / "job.log"
    path.write_bytes(compress(PLAIN))
    assert read(open_sources((path,))[0]) == EXPECTED


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [(1, b"")]),
        (b"one", [(1, b"one")]),
        (b"one\ntwo", [(1, b"one"), (2, b"two")]),
        (b"one\r\ntwo\r\n", [(1, b"one"), (2, b"two")]),
        (b"\xef\xbb\xbfone\n", [(1, b"one")]),
        ("one\ntwö\n".encode("utf-16"), [(1, b"one"), (2, "twö".encode())]),
        (b"\xfe\xff" + "one\ntwö\n".encode("utf-16-be"), [(1, b"one"), (2, "twö".encode())]),
        (b"on\0\0\0e\n\0\0two\n", [(1, b"one"), (2, b"two")]),
        (b"\xff\xfe-not-utf16"[1:] + b"\xc3\n", [(1, b"\xfe-not-utf16\xc3")]),
        (b"\x1b[31;1mone\x1b[0m \x1b]8;;http://x\x07two\x1b]8;;\x1b\\\n", [(1, b"one two")]),
        (b"\x1b(Bone\x1b[2K\n", [(1, b"one")]),
    ],
    ids=[
        "nothing", "an empty line", "no newline", "last line without newline", "CRLF", "UTF-8 mark", "UTF-16 LE",
        "UTF-16 BE", "NUL runs", "invalid UTF-8", "colours and links", "other escapes",
    ],
)  # fmt: skip
def test_lines_are_clean_and_numbered(data: bytes, lines: list[tuple[int, bytes]]) -> None:
    """Codings and control bytes are gone before the later stages, the numbers are the file's own."""
    assert read_bytes(data) == lines


def test_parts_that_carriage_returns_overwrote_share_the_lines_number() -> None:
    """A progress bar is many lines with one number, and what follows keeps its own."""
    assert read_bytes(b"a\n 10%\r 20%\r 30%\nboom\n") == [
        (1, b"a"),
        (2, b" 10%"),
        (2, b" 20%"),
        (2, b" 30%"),
        (3, b"boom"),
    ]


def test_a_megabyte_long_line_is_one_line() -> None:
    """Long lines do not shift the numbers of those after them."""
    lines = read_bytes(b"first\n" + b"x" * 1_500_000 + b"\nboom\n")
    assert [(number, len(line)) for number, line in lines] == [(1, 5), (2, 1_500_000), (3, 4)]


def test_a_line_too_long_to_hold_is_cut_into_pieces_of_one_number() -> None:
    """A 12 MB line is read in bounded memory and the next line has the right number."""
    lines = read_bytes(b"first\n" + b"x" * 12_000_000 + b"\nboom\n")
    assert {number for number, _ in lines[1:-1]} == {2}
    assert sum(len(line) for number, line in lines if number == 2) == 12_000_000
    assert lines[-1] == (3, b"boom")


def test_blocks_hold_whole_lines_and_know_their_place(tmp_path: Path) -> None:
    """Every block but the last ends with a newline, and its first line's number is right."""
    path = tmp_path / "job.log"
    path.write_bytes(b"".join(b"line %d %s\n" % (number, b"x" * 90) for number in range(1, 60_001)))
    blocks: list[Block] = list(open_sources((path,))[0].blocks())
    assert len(blocks) > 1
    assert all(block.data.endswith(b"\n") for block in blocks)
    assert [int(block.data.split(b" ", 2)[1]) for block in blocks] == [block.first_line for block in blocks]
    assert b"".join(block.data for block in blocks) == path.read_bytes()


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """A .zst of 60 MB is read in a few blocks' worth of memory."""
    path = tmp_path / "job.log.zst"
    path.write_bytes(zstd.compress(PLAIN * 1300))
    tracemalloc.start()
    count = sum(block.data.count(b"\n") for block in open_sources((path,))[0].blocks())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 2000 * 1300
    assert peak < 30_000_000


# --- streams that break ---


@pytest.mark.parametrize(
    "compress",
    [gzip.compress, zstd.compress, lzma.compress, bz2.compress],
    ids=["gz", "zst", "xz", "bz2"],
)
def test_a_torn_file_is_read_as_far_as_it_came_and_says_so(compress: Callable[[bytes], bytes]) -> None:
    """What is there is diagnosed; a note names the file and how far it came."""
    noise = b"".join(os.urandom(40).hex().encode() + b"\n" for _ in range(60_000))
    whole = compress(noise)
    stream = open_sources((whole[: len(whole) * 3 // 4],))[0]
    lines = read(stream)
    assert [line for _, line in lines[:1000]] == noise.splitlines()[:1000]
    assert not stream.complete
    assert len(stream.notes) == 1
    assert "<bytes>" in stream.notes[0]


class BreakingPipe(io.RawIOBase):
    """A file whose disk goes away after some reads."""

    name = "job.log"

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)

    def read(self, size: int = -1) -> bytes:
        if not self.parts:
            raise OSError(5, "Input/output error")
        return self.parts.pop(0)


def test_an_open_file_that_breaks_midway_is_read_as_far_as_it_came() -> None:
    """An input/output error in the middle ends the log there."""
    stream = open_sources((BreakingPipe(b"one\ntwo\n", b"three\nfo"),))[0]
    assert read(stream) == [(1, b"one"), (2, b"two"), (3, b"three"), (4, b"fo")]
    assert not stream.complete
    assert "Input/output error" in stream.notes[0]


def test_a_file_that_breaks_at_once_is_an_error() -> None:
    """Nothing read is nothing to diagnose."""
    with pytest.raises(SourceError, match=r"job\.log.*Input/output error"):
        read(open_sources((BreakingPipe(),))[0])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.log.gz", b"\x1f\x8b" + b"this is not gzip at all"),
        ("a.log.xz", b"\xfd7zXZ\x00" + b"nor is this xz" * 3),
        ("a.log.bz2", b"BZh9" + b"nor is this bzip2" * 3),
        ("a.log.zst", b"\x28\xb5\x2f\xfd" + b"nor zstandard" * 3),
    ],
)
def test_a_corrupt_compressed_file_is_an_error_with_its_path(tmp_path: Path, name: str, data: bytes) -> None:
    """One sentence with the path, nothing of the decompressor's own exceptions."""
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(SourceError) as caught:
        read(open_sources((path,))[0])
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# --- folders ---


def make(folder: Path, *names: str) -> None:
    """Files with these names, each holding its own name."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n", encoding="utf-8")


def test_a_folder_gives_its_logs_in_natural_order(tmp_path: Path) -> None:
    """Rank 10 comes after rank 2; what is no log is left out."""
    make(tmp_path, "rank_10.log", "rank_2.log", "model.pt", "config.json", "train.py", "notes.md")
    streams = open_sources((tmp_path,))
    assert [Path(stream.name).name for stream in streams] == ["rank_2.log", "rank_10.log"]
    assert [stream.rank for stream in streams] == [2, 10]


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("attempt_0/3/stderr.log", 3),
        ("attempt_1/12/stdout.log", 12),
        ("attempt_0/3/error.json", 3),
        ("rank_3.log", 3),
        ("rank-12.err", 12),
        ("task7.out", 7),
        ("job-4711-t5.err", 5),
        ("log/workerlog.3", 3),
        ("worker_3.log", 3),
        ("train.log.rank3", 3),
        ("worker-3.log", None),
        ("slurm-4711.out", None),
        ("4711.out", None),
        ("train.log", None),
    ],
)
def test_the_rank_is_read_from_each_naming(tmp_path: Path, name: str, rank: int | None) -> None:
    """torchelastic's folders and the usual file names tell the rank; a job number is none."""
    make(tmp_path, name)
    assert [stream.rank for stream in open_sources((tmp_path,))] == [rank]


@pytest.mark.parametrize(
    "name",
    [
        "train.log", "slurm-4711.out", "slurm-4711.err", "output.txt", "stdout", "stderr", "job.o4711", "job.e4711",
        "train.log.1", "train.log.gz", "rank0.err.zst", "worker-0a1b2c-01000000-4711.out", "raylet.err", "dmesg",
        "nohup.out", "console.log.xz", "workerlog.3", "train.log.rank3",
    ],
)  # fmt: skip
def test_each_usual_log_name_is_found_in_a_folder(tmp_path: Path, name: str) -> None:
    """Slurm, PBS, Ray, rotated and compressed names."""
    make(tmp_path, f"deep/er/{name}", "checkpoint.bin")
    assert [Path(stream.name).name for stream in open_sources((tmp_path,))] == [name]


def test_the_node_is_read_from_a_files_name(tmp_path: Path) -> None:
    """A file or folder named after a machine tells which one speaks."""
    make(tmp_path, "node-004.log", "host-3/stdout.log")
    assert {stream.node for stream in open_sources((tmp_path,))} == {"node-004", "host-3"}


def test_several_paths_are_one_job_in_the_order_given(tmp_path: Path) -> None:
    """Streams are numbered through over files, folders and bytes."""
    make(tmp_path, "b.log", "sub/a.log")
    streams = open_sources((tmp_path / "b.log", tmp_path / "sub", b"raw\n"))
    assert [stream.index for stream in streams] == [0, 1, 2]
    assert [Path(stream.name).name for stream in streams] == ["b.log", "a.log", "<bytes>"]


# --- what cannot be used ---


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    """The path and the remedy stand in one sentence."""
    with pytest.raises(SourceError, match=r"gone\.log: no such file"):
        open_sources((tmp_path / "gone.log",))


def test_a_folder_without_logs_is_an_error_that_names_it(tmp_path: Path) -> None:
    """An empty folder, and one that holds other things."""
    with pytest.raises(SourceError, match="holds no logs"):
        open_sources((tmp_path,))
    make(tmp_path, "model.safetensors")
    with pytest.raises(SourceError, match="holds no logs"):
        open_sources((tmp_path,))


def test_a_dangling_link_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A link to nowhere is a missing file."""
    (tmp_path / "job.log").symlink_to(tmp_path / "gone")
    with pytest.raises(SourceError, match=r"job\.log"):
        open_sources((tmp_path / "job.log",))


def test_a_thing_that_is_no_log_is_an_error() -> None:
    """The sentence says what may be given instead."""
    with pytest.raises(SourceError, match="give a path"):
        open_sources((42,))


def test_an_open_file_and_a_text_file_are_read_as_bytes(tmp_path: Path) -> None:
    """A file opened as text is read through its buffer."""
    path = tmp_path / "job.log"
    path.write_bytes(b"one\n\xfftwo\n")
    with path.open("rb") as raw, path.open(encoding="utf-8") as text:
        assert read(open_sources((raw,))[0]) == [(1, b"one"), (2, b"\xfftwo")]
        assert read(open_sources((text,))[0]) == [(1, b"one"), (2, b"\xfftwo")]


def test_a_pipe_that_hands_over_single_bytes_is_read_whole() -> None:
    """Small reads change nothing."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as out:
        out.write(PLAIN[:3000])

    class OneByOne(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return os.read(reader, 1)

    lines = read(open_sources((OneByOne(),))[0])
    os.close(reader)
    assert b"\n".join(line for _, line in lines) == PLAIN[:3000].removesuffix(b"\n")


def test_what_stands_above_a_given_folder_names_no_node(tmp_path: Path) -> None:
    """A run's folder may be called as a node is; a folder below it, and that of a file, are its own."""
    run = tmp_path / "worker-3" / "trial-on-host-1"
    (run / "gpu-node-7").mkdir(parents=True)
    (run / "job.log").write_text("step 1\n")
    (run / "gpu-node-7" / "stderr.log").write_text("step 1\n")
    assert [stream.node for stream in open_sources((str(run),))] == [None, "gpu-node-7"]
    assert [stream.node for stream in open_sources((str(run / "gpu-node-7" / "stderr.log"),))] == ["gpu-node-7"]


def test_what_is_known_of_a_source_wins_over_its_name(tmp_path: Path) -> None:
    """A cluster knows a log's name, node and rank better than its path; what it does not say the path still tells."""
    path = tmp_path / "node-4_rank7.log"
    path.write_bytes(b"a\n")
    sources = (Known(str(path), node="cn2"), Known(b"b\n", "events of job/train"), Known(str(path.parent), rank=3))
    streams = open_sources(sources[:2])
    assert [(stream.name, stream.node, stream.rank) for stream in streams] == [
        (str(path), "cn2", 7),
        ("events of job/train", None, None),
    ]
    assert [block.data for block in streams[1].blocks()] == [b"b\n"]
    assert [(stream.node, stream.rank) for stream in open_sources(sources[2:])] == [("node-4", 3)]
