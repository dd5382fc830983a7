"""logdiag within another program: threads, event loops, forked processes, and what callers pass by mistake."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.rules import RuleBook
from tests.helpers import LOGS, environment

DEMO = LOGS / "demo.log"


def told(answer: Diagnosis) -> tuple[str, int, str]:
    """What must be the same, however it was asked."""
    assert answer.root_cause is not None
    return answer.reason.value, answer.root_cause.line, answer.recovery.action.value


@pytest.fixture(scope="module")
def expected(book: RuleBook) -> tuple[str, int, str]:
    """The answer of one call alone."""
    return told(diagnose(DEMO, rules=book, memory=False))


def test_one_rule_book_serves_many_threads_at_once(book: RuleBook, expected: tuple[str, int, str]) -> None:
    """8 threads, 8 diagnoses each."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: told(diagnose(DEMO, rules=book, memory=False)), range(64)))
    assert answers == [expected] * 64


def test_many_threads_at_once_need_no_rule_book_of_their_own(expected: tuple[str, int, str]) -> None:
    """32 threads: the rules are kept between calls, whoever calls."""
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: told(diagnose(DEMO, memory=False)), range(64)))
    assert answers == [expected] * 64


def test_one_rule_book_serves_an_event_loop(book: RuleBook, expected: tuple[str, int, str]) -> None:
    """Through asyncio's threads."""

    async def ask_all() -> list[Diagnosis]:
        return await asyncio.gather(*(asyncio.to_thread(diagnose, DEMO, rules=book, memory=False) for _ in range(8)))

    assert [told(answer) for answer in asyncio.run(ask_all())] == [expected] * 8


FORK_POOL = """
import multiprocessing, sys
from logdiag import diagnose
from logdiag.rules import RuleBook

book = RuleBook.load()
path = sys.argv[1]

def ask(_):
    answer = diagnose(path, rules=book, memory=False)
    return answer.reason.value, answer.root_cause.line, answer.recovery.action.value

ask(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(set(pool.map(ask, range(8))) == {ask(0)}, ask(0))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_one_rule_book_serves_forked_processes(expected: tuple[str, int, str]) -> None:
    """Loaded and used before the fork."""
    done = subprocess.run(
        [sys.executable, "-c", FORK_POOL, str(DEMO)], capture_output=True, text=True, env=environment(), timeout=120
    )
    assert done.stdout.strip() == f"True {expected}", done.stderr


IGNORED_CHILDREN = """
import signal, sys
from logdiag import diagnose

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
log = open(sys.argv[1], "rb").read()
answer = diagnose(b"step 1 loss 2.0\\n" * 800_000 + log, memory=False)
print(answer.reason.value)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_program_that_ignores_its_children_is_served(expected: tuple[str, int, str]) -> None:
    """Of a log long enough to be scanned beside the rest."""
    done = subprocess.run(
        [sys.executable, "-c", IGNORED_CHILDREN, str(DEMO)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
    )
    assert done.stdout.strip() == expected[0], done.stderr


FORKED_MEANWHILE = """
import os, sys, time
from logdiag import diagnose

children = []

def advance(stream, count):
    if count > 8_000_000 and not children:
        children.append(os.fork())
        if not children[0]:
            time.sleep(20)
            os._exit(0)

began = time.monotonic()
answer = diagnose(sys.argv[1], memory=False, advance=advance)
print(answer.stats["lines"], bool(children), time.monotonic() - began < 10)
os.kill(children[0], 9)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_the_caller_forks_meanwhile_is_not_waited_for(tmp_path: Path) -> None:
    """It holds copies of all that was open."""
    log = tmp_path / "long.log"
    log.write_bytes(b"step 1 loss 2.0\n" * 1_500_000)
    done = subprocess.run(
        [sys.executable, "-c", FORKED_MEANWHILE, str(log)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
    )
    assert done.stdout.strip() == "1500000 True True", done.stderr


WATCHED = """
import os, sys, threading
from logdiag import diagnose

before, threads, children = {thread.name for thread in threading.enumerate()}, set(), []

def advance(stream, count):
    threads.update(thread.name for thread in threading.enumerate())
    try:
        children.append(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        pass

answer = diagnose(sys.argv[1], memory=False, advance=advance)
print(answer.root_cause.line, threads - before, children)
"""


@pytest.mark.skipif(not hasattr(os, "waitpid"), reason="processes as on Unix")
def test_a_long_log_makes_no_process_and_no_thread(tmp_path: Path) -> None:
    """The caller's children, signals and open pipes stay the caller's alone."""
    log = tmp_path / "long.log"
    log.write_bytes(b"step 1 loss 2.0\n" * 1_500_000 + b"KeyError: 'caption'\n")
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(log)], capture_output=True, text=True, env=environment(), timeout=120
    )
    assert done.stdout.strip() == "1500001 set() []", done.stderr
