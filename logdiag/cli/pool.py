"""Diagnoses many jobs at a time in processes of their own, for `logdiag batch`."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any

from logdiag.errors import SourceError
from logdiag.model import Diagnosis
from logdiag.pipeline import diagnose
from logdiag.rules import RuleBook

# With fewer jobs, processes are not up before one alone is done.
FEWEST_JOBS = 32
# So many jobs go to a process at once.
_TOGETHER = 4


def one_answer(path: str, asked: Mapping[str, Any]) -> Diagnosis | SourceError:
    """The diagnosis of a path, or why it cannot be read."""
    try:
        return diagnose(path, **asked)
    except SourceError as error:
        return error


def answers_of(paths: Sequence[str], asked: Mapping[str, Any], processes: int) -> Iterator[Diagnosis | SourceError]:
    """What `one_answer` gives for each path, in their order, by so many processes. `asked` is for `diagnose`, its
    `rules` folders. Where a process dies, what is left is diagnosed here."""
    done = 0
    pool = ProcessPoolExecutor(min(processes, len(paths)), get_context("spawn"), _begin, (asked["rules"],))
    try:
        for answer in pool.map(partial(_answer, asked=asked), paths, chunksize=_TOGETHER):
            yield answer
            done += 1
    except BrokenProcessPool:
        for path in paths[done:]:
            yield one_answer(path, asked)
    finally:
        pool.shutdown(cancel_futures=True)


_book: RuleBook


def _begin(folders: Sequence[str]) -> None:
    """What a process begins with. Ctrl-C is the parent's to handle."""
    global _book
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _book = RuleBook.load(folders)


def _answer(path: str, asked: Mapping[str, Any]) -> Diagnosis | SourceError:
    return one_answer(path, {**asked, "rules": _book, "workers": 0})
