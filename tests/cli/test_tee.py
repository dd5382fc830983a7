"""`job | logdiag --tee` never harms the job, and its diagnosis survives a failing copy and a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.helpers import environment, log_of, traceback_of

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals and pipes as on Unix")

COMMAND = [sys.executable, "-m", "logdiag", "--tee", "--no-memory"]
# Seconds in which a busy machine has answered too.
PATIENCE = 100
# Far more than a pipe holds, so that a reader that stops is noticed.
JOB = [
    sys.executable,
    "-c",
    "for step in range(300): print('step', step, 'x' * 2000, flush=True)\nrow = {}\nrow['caption']\n",
]
FAILED = log_of("step 1", *traceback_of("KeyError: 'caption'"))


@contextmanager
def piped(stdout: IO[bytes] | int) -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """The job and the command that reads it, as a shell would start `job 2>&1 | logdiag --tee`."""
    with (
        subprocess.Popen(JOB, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment()) as job,
        subprocess.Popen(COMMAND, stdin=job.stdout, stdout=stdout, stderr=subprocess.PIPE, env=environment()) as reader,
    ):
        assert job.stdout is not None
        job.stdout.close()
        yield job, reader


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_under_the_copy_does_not_end_the_job() -> None:
    """The job ends by its own fault, the log is read to its end, and one note tells of the copy."""
    with open("/dev/full", "wb") as full, piped(full) as (job, reader):
        report = reader.communicate(timeout=PATIENCE)[1].decode()
        assert job.wait(PATIENCE) == 1
    assert report.startswith("FAILED  script / KeyError")
    assert report.count("copy to standard output broke off (No space left on device)") == 1
    assert "breaks off after" not in report


def test_a_reader_that_goes_does_not_end_the_job() -> None:
    """`| head -1` closes the pipe: the copy stops, not the reading."""
    with piped(subprocess.PIPE) as (job, reader):
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.read(10)
        reader.stdout.close()
        report = reader.stderr.read().decode()
        assert job.wait(PATIENCE) == 1
        assert reader.wait(PATIENCE) == 0
    assert report.startswith("FAILED  script / KeyError")
    assert "copy to standard output broke off (Broken pipe)" in report


@contextmanager
def reading() -> Iterator[subprocess.Popen[bytes]]:
    """The command, with the failed log read and its input still open."""
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(FAILED)
        seen = b""
        while len(seen) < len(FAILED):
            seen += process.stdout.read(len(FAILED) - len(seen))
        late = threading.Timer(PATIENCE, process.kill)
        late.start()
        yield process
        late.cancel()
        process.kill()


def report_of(process: subprocess.Popen[bytes]) -> str:
    """The report, which comes while the input is still open."""
    assert process.stderr is not None
    report = ""
    while "lines worth reading" not in report:
        line = process.stderr.readline().decode()
        assert line, report
        report += line
    return report


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_diagnoses_what_was_read(number: signal.Signals) -> None:
    """Ctrl-C at a hang, SIGTERM at the time limit: the report comes at once and says why it ends there."""
    with reading() as process:
        process.send_signal(number)
        report = report_of(process)
        assert report.startswith("FAILED  script / KeyError")
        assert f"interrupted by {number.name}" in report


def test_after_a_signal_the_job_may_still_print() -> None:
    """A job that saves its checkpoint on SIGTERM writes into an open pipe, and its words are passed on."""
    with reading() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        report_of(process)
        process.stdin.write(b"saved step 2\n")
        process.stdin.close()
        assert process.stdout.read() == b"saved step 2\n"
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(("second", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_second_signal_ends_it(second: signal.Signals, status: int) -> None:
    """Whoever insists is obeyed, though the input is still open."""
    with reading() as process:
        process.send_signal(signal.SIGTERM)
        report_of(process)
        time.sleep(0.2)
        process.send_signal(second)
        assert process.wait(PATIENCE) == status


def test_wrong_rules_do_not_end_the_job(tmp_path: Path) -> None:
    """An error of the diagnosis is no reason to close the job's pipe: all is passed on, and the status is 2."""
    data = log_of(*(f"step {number} {'x' * 500}" for number in range(1000)))
    done = subprocess.run(
        [*COMMAND, "--rules", str(tmp_path / "none")],
        input=data,
        capture_output=True,
        env=environment(),
        timeout=PATIENCE,
    )
    assert done.stdout == data
    assert done.returncode == 2
    assert b"none" in done.stderr
