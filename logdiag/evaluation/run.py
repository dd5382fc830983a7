"""Diagnoses cases in worker processes. A crash of one case, however hard, is the row of that case and nothing else."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from logdiag.evaluation.baselines import guess
from logdiag.evaluation.cases import Case
from logdiag.evaluation.excerpts import Excerpt, excerpt
from logdiag.evaluation.scoring import Answer, Row, answer_of, failed_row, judge
from logdiag.pipeline import Memory, diagnose
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from logdiag.agent.opinion import AgentSettings

# How long to wait before looking whether a worker that holds its pipe open is still alive.
_LOOK_AFTER_SECONDS = 1.0

Diagnose = Callable[[Case, RuleBook], Answer]
_Setup = tuple[tuple[str, ...], Mapping[str, Diagnose], Diagnose]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one case: its row, the rows of the baselines by name, and the lines to show where it missed."""

    row: Row
    baselines: dict[str, Row] = field(default_factory=dict)
    excerpt: tuple[Excerpt, ...] = ()


def answer_with(case: Case, book: RuleBook, *, memory: Memory = False, llm: AgentSettings | None = None) -> Answer:
    """What logdiag says of a case's log with a memory and a language model, the job's exit code not told."""
    return answer_of(diagnose(case.source, rules=book, memory=memory, llm=llm))


def answer_case(case: Case, book: RuleBook) -> Answer:
    """What logdiag says of a case's log, the job's exit code not told."""
    return answer_of(diagnose(case.source, rules=book, memory=False))


def evaluate(
    cases: Sequence[Case],
    *,
    folders: Sequence[str] = (),
    jobs: int | None = None,
    baselines: Sequence[str] = (),
    beside: Mapping[str, Diagnose] | None = None,
    diagnose_case: Diagnose = answer_case,
    advance: Callable[[], None] | None = None,
) -> list[Result]:
    """A result for each case, in the order of the cases.

    `folders` are rules beside the shipped ones, `jobs` the number of processes (default: one a core), `baselines` the
    names of those to run too, and `beside` further ways to answer by their names. These and `diagnose_case` must be
    functions of a module, or partial ones, so that another process can find them.
    `advance` is called after each case. Raises RuleError before anything is started.
    """
    RuleBook.load(folders)
    others = {name: partial(guess, name) for name in baselines} | dict(beside or {})
    setup: _Setup = (tuple(folders), others, diagnose_case)
    workers = [_Worker(setup) for _ in range(min(jobs or os.cpu_count() or 1, len(cases)))]
    results: dict[int, Result] = {}
    try:
        for index, result in _answered(cases, workers, setup):
            results[index] = result
            if advance:
                advance()
    finally:
        for worker in workers:
            worker.close()
    return [results[index] for index in range(len(cases))]


def _answered(cases: Sequence[Case], workers: list[_Worker], setup: _Setup) -> Iterator[tuple[int, Result]]:
    """The result of each case by its place, as it comes; a worker that died is replaced."""
    waiting = deque(range(len(cases)))
    while True:
        for worker in workers:
            if worker.index is None and waiting:
                worker.begin(waiting.popleft(), cases)
        busy = [worker for worker in workers if worker.index is not None]
        if not busy:
            return
        ready = set(wait([worker.pipe for worker in busy], _LOOK_AFTER_SECONDS))
        for worker in busy:
            if worker.pipe not in ready and worker.process.is_alive():
                continue
            index = worker.index or 0
            result = worker.finish()
            if result is None:
                result = _died(cases[index], worker, setup[1])
                workers[workers.index(worker)] = _Worker(setup)
            yield index, result


class _Worker:
    """A process that diagnoses one case at a time; so when it dies, it is known of what."""

    def __init__(self, setup: _Setup) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, *setup), daemon=True)
        self.process.start()
        theirs.close()
        self.index: int | None = None
        self.began = 0.0

    def begin(self, index: int, cases: Sequence[Case]) -> None:
        """Hands a case over."""
        self.index, self.began = index, time.perf_counter()
        try:
            self.pipe.send(cases[index])
        except OSError:
            return  # it is gone; `finish` will see that

    def finish(self) -> Result | None:
        """The result of the case; None when the process died of it."""
        self.index = None
        try:
            result: Result = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return result

    def close(self) -> None:
        """Ends the process."""
        self.pipe.close()
        self.process.terminate()
        self.process.join()


def _died(case: Case, worker: _Worker, others: Iterable[str]) -> Result:
    worker.process.join(_LOOK_AFTER_SECONDS)  # it may still be on its way out
    worker.close()
    code = worker.process.exitcode or 0
    how = f"was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exited with status {code}"
    row = failed_row(case, f"the process {how}", time.perf_counter() - worker.began)
    return Result(row, dict.fromkeys(others, row), excerpt(case, row))


def _serve(pipe: Connection, folders: Sequence[str], others: Mapping[str, Diagnose], diagnose_case: Diagnose) -> None:
    """The worker: answers until the other end is closed. Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    book = RuleBook.load(folders)
    while True:
        try:
            case: Case = pipe.recv()
        except (EOFError, OSError):
            return
        row = _row(case, partial(diagnose_case, case, book))
        beside = {name: _row(case, partial(answer, case, book)) for name, answer in others.items()}
        pipe.send(Result(row, beside, excerpt(case, row) if row.missed else ()))


def _row(case: Case, answer: Callable[[], Answer]) -> Row:
    began = time.perf_counter()
    try:
        said = answer()
        seconds = time.perf_counter() - began
        return judge(case, said, seconds)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return failed_row(case, f"{what} ({where})", time.perf_counter() - began)
