"""Measures what the memory adds to the rules, on labelled failures: evals/results/recall.json.

    python -m evals.recall CASES... [--json PATH] [--counts]

* `forgotten`: the rules of one reason are switched off, in turn for each reason. Of the failures with this reason, how
  many are still named right by the other rules, and how many by them and the memory: with the incidents that ship with
  logdiag, and with those of the other cases, too, confirmed by a person (`with past`; a case's own fault is left out).
* `learnt`: the rules of the reason are off again, and one case of a fault was confirmed as an incident. How often the
  fault's other cases are then named right: the reason, and the very line.
* `kept`: with all rules on, answers that the memory (the shipped one, or that with the other cases) made wrong or
  right, and healthy jobs that it called failed.

With `--counts`, what the memory's answers rested on and how often they were right is written into
`evals/results/supports.json`, from which `make calibrate` fits the confidence.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evals.calibrate import COUNTS, counts_of
from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case, load_cases
from logdiag.evaluation.scoring import Row, answer_of, judge
from logdiag.memory.incident import Incident, masked
from logdiag.memory.store import open_store
from logdiag.model import Reason, Role
from logdiag.pipeline import Memory, diagnose
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook

RESULTS = Path("evals/results/recall.json")
_FAILURE_ROLES = frozenset({Role.CAUSE.value, Role.SYMPTOM.value, Role.HINT.value})


@dataclass(frozen=True, slots=True)
class Measured:
    """What was said of one case: by the rules that were left, with the shipped incidents, with others' incidents too,
    and when one case of its fault was known; None where that was not tried."""

    case: str
    reason: str
    rules: Row
    shipped: Row
    past: Row | None = None
    learnt: Row | None = None


def without(book: RuleBook, reason: Reason) -> RuleBook:
    """The rule book without what names this reason."""
    kept = [
        rule._replace(rows={code: row for code, row in rule.rows.items() if row.get("reason") != reason.value})
        for rule in book.rules
        if not (rule.reason == reason.value and rule.role in _FAILURE_ROLES)
    ]
    return RuleBook(kept, book.filters, book.reasons, book.confidence)


def incident_of_case(case: Case) -> Incident:
    """What a person would have confirmed of a case: by the first whole line that holds the label's root."""
    label = case.roots[0]
    root = next((line for _, _, line in case.lines() if label in line), label)
    return Incident("", masked(parse_line(root)), case.reasons[0], case.actions[0], confirmed_by="label")


def measure_reason(reason: Reason, cases: Sequence[Case], everything: Sequence[Case] = ()) -> list[Measured]:
    """All failures of one reason, with its rules switched off."""
    book = without(RuleBook.load(), reason)
    measured = measure_kept(cases, everything, book)
    for at, (case, one) in enumerate(zip(cases, measured, strict=True)):
        twins = [other for other in cases if other is not case and other.fault and other.fault == case.fault]
        learnt = _row_with(twins[:1], case, book) if twins else None
        measured[at] = replace(one, reason=reason.value, learnt=learnt)
    return measured


def measure_kept(
    cases: Sequence[Case], everything: Sequence[Case] = (), book: RuleBook | None = None
) -> list[Measured]:
    """Cases by the rules alone (all of them, unless a book is given) and with the shipped incidents; with those of
    `everything`, too, but for the case's own fault, if there are any."""
    book = book or RuleBook.load()
    measured = []
    with tempfile.TemporaryDirectory() as folder, open_store(folder) as shipped:
        for case in cases:
            others = [other for other in everything if not _same_fault(other, case)]
            past = _row_with(others, case, book) if everything else None
            measured.append(Measured(case.id, "", _row(case, book, False), _row(case, book, shipped), past))
    return measured


def _row_with(others: Sequence[Case], case: Case, book: RuleBook) -> Row:
    """With the shipped incidents and those of other cases."""
    with tempfile.TemporaryDirectory() as folder, open_store(folder) as store:
        store.add_all([incident_of_case(other) for other in others])
        return _row(case, book, store)


def _same_fault(one: Case, other: Case) -> bool:
    return one is other or one.healthy or not one.roots or bool(one.fault and one.fault == other.fault)


def _row(case: Case, book: RuleBook, memory: Memory) -> Row:
    answer = diagnose(case.source, rules=book, memory=memory)
    return judge(case, answer_of(answer), 0.0)


def _share(rows: Sequence[Row | None], name: str = "reason_right") -> float | None:
    there = [row for row in rows if row is not None]
    return round(sum(bool(getattr(row, name)) for row in there) / len(there), 4) if there else None


def summary(forgotten: Sequence[Measured], kept: Sequence[Measured]) -> dict[str, Any]:
    """The figures: by reason, and over all cases."""
    by_reason: dict[str, list[Measured]] = defaultdict(list)
    for one in forgotten:
        by_reason[one.reason].append(one)

    def figures(rows: Sequence[Measured]) -> dict[str, Any]:
        return {
            "cases": len(rows),
            "rules_left": _share([one.rules for one in rows]),
            "with_shipped": _share([one.shipped for one in rows]),
            "with_past": _share([one.past for one in rows]),
            "learnt_cases": sum(one.learnt is not None for one in rows),
            "learnt": _share([one.learnt for one in rows]),
            "learnt_root": _share([one.learnt for one in rows], "root_right"),
        }

    def changed(right_before: bool) -> list[str]:
        """Cases whose answer either memory turned from right to wrong, or from wrong to right."""
        return sorted(
            one.case
            for one in kept
            if one.rules.reason_right is right_before
            and any(row.reason_right is not right_before for row in (one.shipped, one.past) if row is not None)
        )

    healthy = [one for one in kept if one.rules.healthy]
    return {
        "forgotten": {
            **{reason: figures(rows) for reason, rows in sorted(by_reason.items())},
            "all": figures(forgotten),
        },
        "kept": {
            "cases": len(kept),
            "by_memory": sum(one.shipped.decided_by == "memory" for one in kept),
            "by_past": sum(one.past is not None and one.past.decided_by == "memory" for one in kept),
            "made_wrong": changed(True),
            "made_right": changed(False),
            "false_alarms": sorted(
                one.case
                for one in healthy
                if not all(row.reason_right for row in (one.shipped, one.past) if row is not None)
            ),
        },
    }


def _count(forgotten: Sequence[Measured]) -> None:
    """Adds what the memory's answers rested on to the counts that the confidence is fitted on."""
    rows = [
        row for one in forgotten for row in (one.past, one.learnt) if row is not None and row.decided_by == "memory"
    ]
    document = json.loads(COUNTS.read_text(encoding="utf-8"))
    document["sets"]["memory, the rules of one reason switched off"] = counts_of(rows)
    COUNTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print("memory:", Counter((row.supports, row.reason_right) for row in rows))


def main() -> int:
    """Measures, prints, and writes the figures."""
    parser = argparse.ArgumentParser(prog="evals.recall", description="What the memory adds to the rules.")
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--counts", action="store_true")
    arguments = parser.parse_args()
    try:
        cases = load_cases(arguments.cases).cases
    except LogdiagError as error:
        print(error, file=sys.stderr)
        return 2
    by_reason: dict[Reason, list[Case]] = defaultdict(list)
    for case in cases:
        if not case.healthy and case.roots:
            by_reason[case.reasons[0]].append(case)
    largest_first = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    with multiprocessing.get_context("spawn").Pool() as pool:
        parts = [pool.apply_async(measure_reason, (reason, rows, cases)) for reason, rows in largest_first]
        kept = pool.starmap(measure_kept, [(cases[start::8], cases) for start in range(8)], chunksize=1)
        forgotten = [one for part in parts for one in part.get()]
    figures = json.dumps(summary(forgotten, [one for rows in kept for one in rows]), indent=1)
    print(figures)
    arguments.json.write_text(f"{figures}\n", encoding="utf-8")
    if arguments.counts:
        _count(forgotten)
    return 0


if __name__ == "__main__":
    sys.exit(main())
