"""Diagnoses cases in worker processes. A crash of one case, however hard, is the row of that case and nothing else."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

from logdiag.evaluation.baselines import guess
from logdiag.evaluation.cases import Case
from logdiag.evaluation.scoring import Answer, Row, answer_of, failed_row, judge
from logdiag.pipeline import Memory, diagnose
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from logdiag.agent.opinion import AgentSettings

Diagnose = Callable[[Case, RuleBook], Answer]
_Setup = tuple[tuple[str, ...], Mapping[str, Diagnose], Diagnose]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one case: its row, and the rows of the baselines by name."""

    row: Row
    baselines: dict[str, Row] = field(default_factory=dict)


def answer_case(case: Case, book: RuleBook, *, memory: Memory = False, llm: AgentSettings | None = None) -> Answer:
    """What logdiag says of a case's log, by the rules alone or with a memory and a language model; the job's exit code
    is not told."""
    return answer_of(diagnose(case.source, rules=book, memory=memory, llm=llm))


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
    """A result for each case, in their order; RuleError comes before anything starts.

    `folders` are rules beside the shipped ones, `jobs` the number of processes (one a core), `baselines` the names of
    those to run too, `beside` further ways to answer. These and `diagnose_case` are functions of a module (or partial
    ones), so that another process can find them. `advance` is called after each case.
    """
    RuleBook.load(folders)
    others = {name: partial(guess, name) for name in baselines} | dict(beside or {})
    setup: _Setup = (tuple(folders), others, diagnose_case)
    results: dict[int, Result] = {}
    for at, result in _answered(cases, range(len(cases)), jobs or os.cpu_count() or 1, setup):
        results[at] = result
        if advance:
            advance()
    return [results[at] for at in range(len(cases))]


def _answered(cases: Sequence[Case], places: Sequence[int], jobs: int, setup: _Setup) -> Iterator[tuple[int, Result]]:
    """The result of the case at each place, as it comes.

    Where a process dies, all of its pool end with it: what was under way is asked once more, each case alone.
    """
    left = dict.fromkeys(places)
    pool = ProcessPoolExecutor(min(jobs, len(left)), get_context("spawn"), _load, setup)
    try:
        futures = {pool.submit(_result, cases[at]): at for at in places}
        for future in as_completed(futures):
            result = future.result()
            del left[futures[future]]
            yield futures[future], result
    except BrokenProcessPool:
        # Cases are begun in their order.
        begun, rest = list(left)[:jobs], list(left)[jobs:]
        if len(places) == 1:
            row = failed_row(cases[begun[0]], "its process died", 0.0)
            yield begun[0], Result(row, dict.fromkeys(setup[1], row))
        else:
            for at in begun:
                yield from _answered(cases, [at], 1, setup)
        if rest:
            yield from _answered(cases, rest, jobs, setup)
    finally:
        pool.shutdown(cancel_futures=True)


_loaded: tuple[RuleBook, Mapping[str, Diagnose], Diagnose]


def _load(folders: Sequence[str], others: Mapping[str, Diagnose], diagnose_case: Diagnose) -> None:
    """What a process begins with. Ctrl-C is the parent's to handle."""
    global _loaded
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _loaded = RuleBook.load(folders), others, diagnose_case


def _result(case: Case) -> Result:
    """What comes of a case, in a process of the pool."""
    book, others, diagnose_case = _loaded
    beside = {name: _row(case, partial(answer, case, book)) for name, answer in others.items()}
    return Result(_row(case, partial(diagnose_case, case, book)), beside)


def _row(case: Case, answer: Callable[[], Answer]) -> Row:
    began = time.perf_counter()
    try:
        said = answer()
        seconds = time.perf_counter() - began
        return judge(case, said, seconds)
    except (Exception, SystemExit) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return failed_row(case, f"{what} ({where})", time.perf_counter() - began)
