"""What the agent may read of a log, and what codes mean."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

from logdiag import diagnose
from logdiag.agent.tools import explain_code
from logdiag.agent.view import LogView
from logdiag.rules import RuleBook
from tests.agent_helpers import LOG_LINES, job_log, unexplained
from tests.helpers import log_of, steps


@pytest.fixture
def view(book: RuleBook, tmp_path: Path) -> LogView:
    """The view of the shared log."""
    path = job_log(tmp_path)
    return LogView(unexplained(book, path), (path,))


def test_lines_are_read_from_the_file_as_they_are_numbered_there(view: LogView) -> None:
    """Also those that the digest left out."""
    excerpt = view.lines(1, 20, 22)
    assert [(line.number, line.text) for line in excerpt.lines] == [(n, LOG_LINES[n - 1]) for n in (20, 21, 22)]
    assert excerpt.lines[0].rank == 3
    assert excerpt.note == ""


def test_what_cannot_be_read_is_said(view: LogView) -> None:
    """A source that is not there, lines past the end, too many lines."""
    assert view.lines(2, 1, 3).note == "there is no source 2; there are 1"
    assert view.lines(1, 900, 910).note == "the log has no such lines, or they are too far to reach"
    assert view.lines(1, -5, 0).lines == ()
    assert len(view.lines(1, 1, 10**9, most=7).lines) == 7


def test_grep_finds_lines_that_the_digest_left_out(view: LogView) -> None:
    """It reads the file again, without regard to case."""
    assert [line.number for line in view.grep("STEP: (17|18) ").lines] == [17, 18]
    assert [line.number for line in view.grep("conveyor").lines] == [46]
    excerpt = view.grep("step", most=6)
    assert [line.number for line in excerpt.lines] == [1, 2, 3, 44, 45, 52]
    assert excerpt.note == "44 lines match; the first and the last 3 are shown"


def test_the_same_lines_are_read_through_an_envelope_and_compression(book: RuleBook, tmp_path: Path) -> None:
    """As the stages before read them: numbers are the file's own."""
    wrapped = [f'{{"log":"{line}\\n","stream":"stdout","time":"2026-01-01T00:00:00Z"}}' for line in steps(1, 30)]
    path = tmp_path / "pod.log.gz"
    path.write_bytes(gzip.compress(log_of(*wrapped)))
    view = LogView(diagnose(path, rules=book), (path,))
    assert [(line.number, line.message[:8]) for line in view.lines(1, 7, 8).lines] == [(7, "step: 7 "), (8, "step: 8 ")]
    assert [line.number for line in view.grep("step: 9 ").lines] == [9]


def test_of_a_pipe_only_the_kept_lines_are_left(book: RuleBook, tmp_path: Path) -> None:
    """An open file is not read twice."""
    path = job_log(tmp_path)
    with open(path, "rb") as file:
        diagnosis = diagnose(file, rules=book)
        view = LogView(diagnosis, (file,))
        assert view.lines(1, 46, 46).lines[0].text == LOG_LINES[45]
        assert "only lines worth keeping are left" in view.lines(1, 46, 46).note
        assert [line.number for line in view.grep("conveyor").lines] == [46]


def test_a_log_that_has_gone_since_leaves_its_digest(book: RuleBook, tmp_path: Path) -> None:
    """The view is still there."""
    path = job_log(tmp_path)
    diagnosis = unexplained(book, path)
    path.unlink()
    view = LogView(diagnosis, (path,))
    assert view.names == (str(path),)
    assert [line.number for line in view.grep("conveyor").lines] == [46]


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "((a{1000}){1000}){1000}",
            "",
            "x" * 4001,
            "(unclosed",
            "a{0,99999}",
            "(?:(?R))*",
            "(a)(?1)",
            "(?P<n>a)(?&n)",
        ),
        *("a*+b", "(?>a+)b", "(?:foo){e<=3}", "(a)?(?(1)b|c)"),
    ],
)
def test_a_pattern_that_cannot_be_searched_for_is_refused(view: LogView, pattern: str) -> None:
    """One that would take all memory to compile among them."""
    excerpt = view.grep(pattern)
    assert excerpt.lines == ()
    assert excerpt.note.startswith("the pattern ")


def test_a_pattern_that_runs_away_is_stopped(book: RuleBook, tmp_path: Path) -> None:
    """The search ends, and says that it did not see all."""
    path = tmp_path / "job.log"
    path.write_bytes(log_of("x" * 3000, *steps(1, 5)))
    view = LogView(diagnose(path, rules=book), (path,), read_seconds=1.0)
    began = time.monotonic()
    excerpt = view.grep("(x+x+)+y")
    assert time.monotonic() - began < 8
    assert excerpt.note == "source 1 was not searched to its end"


def test_a_search_ends_when_its_time_is_up(book: RuleBook, tmp_path: Path) -> None:
    """A log too large to be searched in time is searched in part."""
    path = tmp_path / "job.log"
    path.write_bytes(log_of(*steps(1, 60_000)))
    view = LogView(diagnose(path, rules=book), (path,), read_seconds=0.01)
    assert view.grep("never found").note == "source 1 was not searched to its end"


@pytest.mark.parametrize(
    ("kind", "code", "meaning"),
    [
        ("xid", "79", "fallen off the bus"),
        ("xid", "Xid 48", "(Xid 48)"),
        ("sxid", "20034", "SXid 20034"),
        ("errno", "28", "ENOSPC: No space left on device"),
        ("errno", "ECONNRESET", "errno 104 is ECONNRESET"),
        ("signal", "9", "SIGKILL"),
        ("signal", "SIGBUS", "shared memory"),
        ("exit", "137", "SIGKILL"),
        ("exit", "-6", "SIGABRT"),
        ("exit", "127", "program was not found"),
        ("exit", "74", "EX_IOERR in sysexits.h"),
        ("exit", "78", "the configuration is wrong"),
        ("exit", "139", "SIGSEGV"),
        ("exit", "247", "SIGKILL"),
        ("signal", "-15", "SIGTERM"),
        ("nccl", "6", "ncclRemoteError"),
        ("nccl", "ncclSystemError", "NCCL result 2"),
    ],
)
def test_a_code_is_explained(book: RuleBook, kind: str, code: str, meaning: str) -> None:
    """By number or by name."""
    assert meaning in explain_code(kind, code, book)


@pytest.mark.parametrize(
    ("kind", "code"), [("xid", "999999"), ("errno", "EVERYTHING"), ("signal", "200"), ("exit", "much"), ("nccl", "")]
)
def test_an_unknown_code_is_said_to_be_unknown(book: RuleBook, kind: str, code: str) -> None:
    """Nothing is guessed."""
    assert explain_code(kind, code, book).startswith(f"no meaning of {kind}")
    assert explain_code("weather", "1", book).startswith("'weather' is no kind of code")


def test_a_pattern_with_signs_that_only_look_refused_is_searched_for(view: LogView) -> None:
    """Escaped or in brackets they mean themselves."""
    for pattern in (r"c\+\+x", r"[*+]+x", r"a\{e<=2", "(?i)feeder|x"):
        assert "the pattern is" not in view.grep(pattern).note
