"""Diagnoses cases in worker processes, and collects the results in one document. A crash of one case, even of its
process, costs only the row of that case."""

from __future__ import annotations

import os
import platform
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from logdiag._version import __version__
from logdiag.evaluation.baselines import guess
from logdiag.evaluation.cases import Case, CaseSet
from logdiag.evaluation.compare import SCHEMA
from logdiag.evaluation.metrics import by_reason, by_split, intervals, measure, reliability
from logdiag.evaluation.scoring import Answer, Row, answer_of, failed_row, judge
from logdiag.pipeline import Memory, diagnose
from logdiag.pipeline.workers import answers_of
from logdiag.rules import RuleBook
from logdiag.rules.folders import RuleFiles, shipped_folder

if TYPE_CHECKING:
    from logdiag.agent.opinion import AgentSettings

Diagnose = Callable[[Case, RuleBook], Answer]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one case: its row, and the rows of the baselines by name."""

    row: Row
    baselines: dict[str, Row] = field(default_factory=dict)


def answer_case(case: Case, book: RuleBook, *, memory: Memory = False, llm: AgentSettings | None = None) -> Answer:
    """Logdiag's answer for a case's log, whose job's exit code is not passed on."""
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
    work = partial(_result, others=others, diagnose_case=diagnose_case)
    results = []
    for case, result in zip(cases, answers_of(work, cases, jobs or os.cpu_count() or 1, folders), strict=True):
        died = failed_row(case, "its process died", 0.0)
        results.append(result or Result(died, dict.fromkeys(others, died)))
        if advance:
            advance()
    return results


def _result(case: Case, book: RuleBook, *, others: Mapping[str, Diagnose], diagnose_case: Diagnose) -> Result:
    beside = {name: _row(case, partial(answer, case, book)) for name, answer in others.items()}
    return Result(_row(case, partial(diagnose_case, case, book)), beside)


def _row(case: Case, answer: Callable[[], Answer]) -> Row:
    began = time.perf_counter()
    try:
        result = answer()
        seconds = time.perf_counter() - began
        return judge(case, result, seconds)
    except (Exception, SystemExit) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return failed_row(case, f"{message} ({where})", time.perf_counter() - began)


def document_of(
    case_set: CaseSet, results: Sequence[Result], *, folders: Sequence[str] = (), notes: Sequence[str] = ()
) -> dict[str, Any]:
    """A whole evaluation as plain values, by the schema to which keys are only ever added: metrics, tables, rows, and
    what they were made by. The same cases and rules give the same document, but for seconds."""
    rows = [result.row for result in results]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "metrics": measure(rows),
        "intervals": intervals(rows),
        "by_reason": by_reason(rows),
        "by_split": by_split(rows),
        "reliability": reliability(rows),
    }
    names = results[0].baselines if results else {}
    if names:
        document["baselines"] = {name: measure([result.baselines[name] for result in results]) for name in names}
    document["notes"] = list(notes)
    document["made_by"] = {
        "logdiag": __version__,
        "python": platform.python_version(),
        "rules": RuleFiles([shipped_folder(), *folders]).fingerprint().hex(),
        "files": list(case_set.files),
        "cases": len(rows),
    }
    document["cases"] = list(map(asdict, rows))
    return document
