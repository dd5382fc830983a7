"""Reading takes no more time, bytes and memory than the caller allows, and says what it left out."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from logdiag import SourceError, diagnose
from logdiag.judge.judgement import judge
from logdiag.model import Finding, Line
from logdiag.read.sources import limits_of, open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes
from logdiag.scan.survey import Survey, survey
from tests.helpers import log_of, run_logdiag, steps, traceback_of

BOOK = RuleBook.load()
LINES = log_of(*steps(1, 2000))


def surveyed(*sources: object, seconds: float | None = None, most: int | None = None) -> tuple[Survey, list[str]]:
    """What the read finds within the limits, and all notes."""
    streams = open_sources(sources, limits_of(seconds, most))
    found = survey(streams, BOOK, Shapes(BOOK, BOOK.filters))
    return found, [note for stream in streams for note in stream.notes]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_reading_ends_at_the_most_bytes(compress: Callable[[bytes], bytes]) -> None:
    """The uncompressed bytes count, over all logs together, and one note says where it ended."""
    found, notes = surveyed(compress(LINES), compress(LINES), compress(LINES), most=len(LINES) + 1000)
    assert [stream.bytes_read for stream in found.streams] == [len(LINES), 1000, 0]
    assert [stream.complete for stream in found.streams] == [True, False, False]
    assert not found.complete
    assert len(notes) == 1
    assert f"limit of {len(LINES) + 1000:,} bytes was reached after 1,000 bytes" in notes[0]


def test_a_log_of_just_the_most_bytes_is_whole() -> None:
    """Only what is left out is told, in the log that it is left out of."""
    assert surveyed(LINES, most=len(LINES))[0].complete
    found, notes = surveyed(LINES, b"step 1\n", most=len(LINES))
    assert not found.complete
    assert len(notes) == 1
    assert "was not read" in notes[0]


def test_a_bomb_ends_in_time() -> None:
    """Some kilobytes that unpack to gigabytes."""
    bomb = bz2.compress(LINES) + 40 * bz2.compress(bytes(50 << 20))
    began = time.monotonic()
    found, notes = surveyed(bomb, seconds=0.5)
    assert time.monotonic() - began < 20
    assert not found.complete
    assert "limit of 0.5 seconds" in notes[0]
    found, notes = surveyed(bomb, most=5_000_000)
    assert found.total_bytes == 5_000_000
    assert "limit of 5,000,000 bytes" in notes[0]


def test_a_bomb_in_an_archive_ends_in_time(tmp_path: Path) -> None:
    """What stands beside the logs has to be unpacked too, and is not waited for either."""
    name = tmp_path / "model.bin"
    with name.open("wb") as out:
        out.truncate(800 << 20)
    (tmp_path / "job.log").write_bytes(LINES)
    archive = tmp_path / "x.tar.gz"
    subprocess.run(["tar", "czf", archive, "-C", tmp_path, "job.log", "model.bin"], check=True)
    name.unlink()
    began = time.monotonic()
    found, notes = surveyed(archive, seconds=0.8)
    assert time.monotonic() - began < 20
    assert found.total_bytes == len(LINES)
    assert not found.complete
    assert "the time limit was reached" in notes[0]


@pytest.mark.parametrize("buffered", [False, True])
def test_a_pipe_that_never_closes_ends_in_time(buffered: bool) -> None:
    """What came is diagnosed, also what a buffered file holds back already."""
    reader, writer = os.pipe()
    os.write(writer, b"first\n" + LINES[:500] + log_of(*traceback_of("KeyError: 'caption'")))
    with os.fdopen(writer, "wb"), os.fdopen(reader, "rb", buffering=-1 if buffered else 0) as source:
        if buffered:
            assert source.readline() == b"first\n"
        began = time.monotonic()
        answer = diagnose(source, rules=BOOK, memory=False, max_seconds=0.5)
        assert time.monotonic() - began < 20
        assert not source.closed
    assert answer.reason.value == "KeyError"
    assert any("limit of 0.5 seconds was reached" in note for note in answer.notes)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes as on Unix")
def test_a_named_pipe_without_a_writer_ends_in_time(tmp_path: Path) -> None:
    """The opening is not waited for either."""
    os.mkfifo(tmp_path / "job.log")
    with pytest.raises(SourceError, match=r"job\.log: .*limit of 0.3 seconds"):
        diagnose(tmp_path / "job.log", rules=BOOK, memory=False, max_seconds=0.3)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes as on Unix")
def test_a_named_pipe_is_read_to_its_end_within_the_limit(tmp_path: Path) -> None:
    """Its writer comes late and goes early."""
    os.mkfifo(tmp_path / "job.log")
    script = f"import time; time.sleep(0.5); open({str(tmp_path / 'job.log')!r}, 'wb').write({LINES!r})"
    with subprocess.Popen([sys.executable, "-c", script]):
        found, notes = surveyed(tmp_path / "job.log", seconds=30)
    assert (found.total_bytes, found.complete, notes) == (len(LINES), True, [])


@pytest.mark.parametrize(
    "wrong", [{"max_bytes": 0}, {"max_seconds": -1}, {"max_bytes": "many"}, {"max_seconds": float("nan")}]
)
def test_a_limit_that_is_none_is_an_error(wrong: dict[str, Any]) -> None:
    """One sentence with its name."""
    with pytest.raises(SourceError, match=next(iter(wrong))):
        diagnose(LINES, rules=BOOK, memory=False, **wrong)


def test_the_command_has_both_limits(tmp_path: Path) -> None:
    """The note stands in the report, and a healthy beginning is not called healthy."""
    log = tmp_path / "job.log"
    log.write_bytes(LINES + log_of(*traceback_of("KeyError: 'caption'")))
    done = run_logdiag("--no-memory", "--exit-code", "--max-bytes", "20000", log)
    assert "limit of 20,000 bytes was reached" in done.stdout.decode()
    assert done.returncode == 13
    done = run_logdiag("--no-memory", "--max-seconds", "0.000001", log)
    assert done.returncode == 2 or "limit of 1e-06 seconds" in done.stdout.decode()


class Endless(io.RawIOBase):
    """Lines of 60 MB each, with a short one between them."""

    def __init__(self, lines: int) -> None:
        self.pieces = [b"start\n", *([b"x" * (1 << 20)] * 60 + [b"\nstep 1\n"]) * lines]

    def read(self, size: int = -1) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def test_endless_lines_take_little_memory() -> None:
    """They are cut while they are read, and what is kept of them is short."""
    source = Endless(4)
    tracemalloc.start()
    found, notes = surveyed(source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.total_bytes > 240 << 20
    assert found.complete
    assert not notes
    assert [line.number for line in found.lines if line.text == "step 1"] == [3, 5, 7, 9]
    assert peak < 60_000_000


def test_frames_of_tracebacks_are_not_taken_apart_while_reading(book: RuleBook) -> None:
    """No rule fires on them: only the last line of each traceback is confirmed."""
    asked: list[str] = []

    class Counting(RuleBook):
        """A book that tells what it was asked to confirm."""

        def confirm(self, line: Line, patterns: Iterable[int], frames: str = "") -> Finding | None:
            asked.append(line.text)
            return super().confirm(line, patterns, frames)

    counting = Counting.__new__(Counting)
    counting.__dict__.update(book.fresh().__dict__)
    text = log_of(*(line for number in range(2000) for line in traceback_of(f"KeyError: 'part {number}'")))
    found = survey(open_sources((text,)), counting, Shapes(counting, ()))
    assert asked
    assert len(found.findings) == len({finding.line.position for finding in found.findings})
    assert not [line for line in asked if "File" in line or "Traceback" in line]


def tracebacks(count: int) -> bytes:
    """So many, each in words of its own."""
    told = ((number, line) for number in range(count) for line in traceback_of(f"KeyError: 'part {number}'"))
    return log_of(*(line.replace("line 71", f"line {number}") for number, line in told))


def test_a_flood_of_tracebacks_is_judged_in_time() -> None:
    """Reading may be ended by the caller, the judgement may not: what is judged is bounded, and a note says so."""
    found, notes = surveyed(tracebacks(12_000))
    assert len(found.lines) == 24_000
    assert any("of each log the first and the last" in note for note in notes)
    begun = time.process_time()
    judgement = judge(found, BOOK)
    assert time.process_time() - begun < 6.0
    assert judgement.root is not None


def test_the_logs_of_many_ranks_are_judged_in_time_together() -> None:
    """Each rank keeps its first and last lines, one with few keeps all, and the latest finding of each is known."""
    few = log_of(*steps(1, 5), *traceback_of("ValueError: of few"))
    found, notes = surveyed(*[tracebacks(600)] * 30, few)
    assert 20_000 < len(found.lines) <= 24_000
    assert any("of each log the first and the last" in note for note in notes)
    of_stream = Counter(line.stream for line in found.lines)
    assert of_stream[30] == few.count(b"\n")
    assert min(of_stream[stream] for stream in range(30)) > 700
    latest = {finding.line.stream for finding in found.findings if "part 599" in finding.line.text}
    assert latest == set(range(30))
    assert max(Counter(finding.line.stream for finding in found.findings).values()) < 300
    assert sum(found.uncounted.values()) > 10_000


def test_a_long_log_that_is_read_whole_has_no_such_note() -> None:
    """Steps are not worth keeping one by one."""
    assert surveyed(log_of(*steps(1, 60_000)))[1] == []
