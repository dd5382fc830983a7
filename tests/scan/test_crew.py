"""Several processes read the logs of a job, and what they find is what one process finds."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import pytest

from evals.bench_kinds import kinds, write_kind
from logdiag.evaluation.cases import load_cases
from logdiag.read.sources import open_sources
from logdiag.read.streams import Stream
from logdiag.rules import RuleBook
from logdiag.scan.crew import Crew, crew_for
from logdiag.scan.shapes import Shapes
from logdiag.scan.survey import Survey, surveys
from tests.helpers import LOGS, ROOT, environment

BOOK = RuleBook.load()
_OF_THE_READ = {"streams", "shapes", "openings"}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="workers are processes as on Unix")


@contextmanager
def crew_of(streams: list[Stream], count: int) -> Iterator[Crew | None]:
    """A crew whose workers are all up."""
    crew = crew_for(streams, BOOK, count) if count else None
    if crew is None:
        yield None
        return
    with crew:
        until = time.monotonic() + 60
        while not all(worker.is_up for worker in crew._workers):
            assert time.monotonic() < until
            time.sleep(0.01)
        yield crew


def found_in(path: Path, workers: int, advance: Callable[[Crew], None] | None = None) -> tuple[list[object], list[str]]:
    """All that the later stages see of the logs in a folder, and the notes; `advance` is called after each block."""
    streams = open_sources((path,))
    shapes = Shapes(BOOK.fresh(), BOOK.filters)
    with crew_of(streams, workers) as crew:
        told = None if crew is None or advance is None else (lambda _stream, _count: advance(crew))
        found = surveys(streams, shapes.book, shapes, told, crew)
    counted = [(line, count, first) for line, count, first in shapes.counted()]
    read = [(stream.name, stream.bytes_read, stream.complete) for stream in streams]
    notes = [note for stream in streams for note in stream.notes]
    return [*map(_told, found), counted, shapes.unshaped, read], notes


def _told(survey: Survey) -> list[object]:
    openings = [(opening.stream.prefix, opening.texts) for opening in survey.openings]
    return [openings, *(getattr(survey, item.name) for item in fields(survey) if item.name not in _OF_THE_READ)]


def test_what_two_workers_find_of_many_files_is_what_one_process_finds(tmp_path: Path) -> None:
    """Labelled cases, samples, every kind of the bench, and files that only one process can read, as one job."""
    for at, case in enumerate(load_cases([ROOT / "evals" / "cases" / "dev.jsonl.zst"]).cases[::20]):
        (tmp_path / f"case{at}.log").write_text(case.log or "", encoding="utf-8")
    for path in LOGS.glob("*.log"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for name, kind in kinds().items():
        write_kind(tmp_path / f"{name}.log", kind, 1)
    text = (LOGS / "demo.log").read_bytes()
    (tmp_path / "packed.log.gz").write_bytes(gzip.compress(text * 20))
    records = (tmp_path / "JSON lines.log").read_bytes()
    (tmp_path / "records.log.gz").write_bytes(gzip.compress(records * 2))
    (tmp_path / "torn.log.gz").write_bytes(gzip.compress(text * 20)[:-200])
    (tmp_path / "marked.log").write_bytes(b"\xef\xbb\xbf" + text)
    (tmp_path / "wide.log").write_bytes(text.decode().encode("utf-16"))
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 50)
    (tmp_path / "empty.log").write_bytes(b"")
    assert found_in(tmp_path, 2) == found_in(tmp_path, 0)


RECORDS = ["JSON lines", "journald JSON", "journald export", "Kubernetes JSON in CRI"]


@pytest.mark.parametrize("name", ["Megatron and DeepSpeed", "tqdm", "every line different", *RECORDS])
def test_what_two_workers_find_of_a_large_file_is_what_one_process_finds(tmp_path: Path, name: str) -> None:
    """Where carriage returns split lines and where records are unwrapped too."""
    write_kind(tmp_path / "run.log", kinds()[name], 18)
    assert found_in(tmp_path, 2) == found_in(tmp_path, 0)


def test_a_line_longer_than_what_is_read_at_once_is_read_by_one_process(tmp_path: Path) -> None:
    """Where it begins only who reads from the start knows."""
    steps = b"".join(b"step %d loss 2.0\n" % at for at in range(500_000))
    (tmp_path / "run.log").write_bytes(steps + b"x" * 6_000_000 + b"\n" + steps + b"KeyError: 'caption'")
    assert found_in(tmp_path, 2) == found_in(tmp_path, 0)


@pytest.mark.parametrize("size", [1, 18])
def test_a_killed_worker_costs_a_note_and_nothing_else(tmp_path: Path, size: int) -> None:
    """What it had is read again, of many files and of a large one."""
    for at in range(12 if size == 1 else 1):
        write_kind(tmp_path / f"rank{at}.log", kinds()["HF Trainer"], size)

    def kill(crew: Crew) -> None:
        for worker in crew._workers[:1]:
            os.kill(worker.process.pid, signal.SIGKILL)

    found, notes = found_in(tmp_path, 2, kill)
    assert found == found_in(tmp_path, 0)[0]
    assert notes == ["a reading process ended before its time, as when memory runs out; this one read the rest"]


ASKED = """
import os, signal, sys
from logdiag import diagnose

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
children = []

def advance(stream, count):
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as told:
        children.append(len(told.read().split()))

for workers in (2, 1):
    answer = diagnose(sys.argv[1], memory=False, workers=workers, advance=advance)
    print(answer.root_cause.line, answer.notes, max(children))
    children.clear()
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are told as on Linux")
def test_a_host_that_ignores_its_childrens_ends_may_ask_for_workers(tmp_path: Path) -> None:
    """No name guards this script: a worker does not run it again. With one, no process is started."""
    log = tmp_path / "long.log"
    log.write_bytes(b"step 1 loss 2.0\n" * 9_000_000 + b"KeyError: 'caption'\n")
    script = tmp_path / "script.py"
    script.write_text(ASKED)
    done = subprocess.run([sys.executable, script, log], capture_output=True, text=True, env=environment(), timeout=120)
    assert done.stdout.splitlines() == ["9000001 () 2", "9000001 () 0"], done.stderr
