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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evals.calibrate import COUNTS, counts_of
from evals.retrieval import root_line
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
    """What a person would have confirmed of a case."""
    return Incident("", masked(parse_line(root_line(case))), case.reasons[0], case.actions[0], confirmed_by="label")


def measure_reason(reason: Reason, cases: Sequence[Case], everything: Sequence[Case]) -> list[Measured]:
    """All failures of one reason, with its rules switched off."""
    book = without(RuleBook.load(proof=True), reason)
    measured = []
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/none") as shipped:
        for case in cases:
            rules, alone = _row(case, book, False), _row(case, book, shipped)
            past = learnt = None
            if not everything:
                measured.append(Measured(case.id, reason.value, rules, alone))
                continue
            with open_store(f"{folder}/{case.id.replace('/', '-')}") as store:
                store.add_all(_incidents_of_others(case, everything))
                past = _row(case, book, store)
            twin = next(
                (other for other in cases if other is not case and other.fault and other.fault == case.fault), None
            )
            if twin is not None:
                with open_store(f"{folder}/{case.id.replace('/', '-')}-learnt") as store:
                    store.add(incident_of_case(twin))
                    learnt = _row(case, book, store)
            measured.append(Measured(case.id, reason.value, rules, alone, past, learnt))
    return measured


def measure_kept(cases: Sequence[Case], everything: Sequence[Case] = ()) -> list[Measured]:
    """Cases with all rules, without a memory and with the shipped incidents; with those of `everything`, too, but for
    the case's own fault, if there are any."""
    book = RuleBook.load()
    measured = []
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/none") as store:
        for case in cases:
            past = None
            if everything:
                with open_store(f"{folder}/{case.id.replace('/', '-')}") as full:
                    full.add_all(_incidents_of_others(case, everything))
                    past = _row(case, book, full)
            measured.append(Measured(case.id, "", _row(case, book, False), _row(case, book, store), past))
    return measured


def _incidents_of_others(case: Case, everything: Sequence[Case]) -> list[Incident]:
    return [incident_of_case(other) for other in everything if not _same_fault(other, case)]


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


def show(figures: dict[str, Any]) -> None:
    """The figures as a table."""
    table = Table(title="Rules of one reason switched off: share of its failures named right, in percent")
    for name in ("reason", "cases", "rules left", "+ shipped", "+ past", "learnt (cases)", "learnt", "its line"):
        table.add_column(name, justify="left" if name == "reason" else "right")

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f}"

    for reason, row in figures["forgotten"].items():
        shares = [percent(row[name]) for name in ("rules_left", "with_shipped", "with_past")]
        learnt = [str(row["learnt_cases"]), percent(row["learnt"]), percent(row["learnt_root"])]
        table.add_row(reason, str(row["cases"]), *shares, *learnt)
    console = Console(width=120)
    console.print(table)
    console.print("all rules on, with the shipped incidents:", figures["kept"])


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
    parser.add_argument("--shipped", action="store_true", help="only the incidents that ship, which is faster")
    parser.add_argument("-v", "--verbose", action="store_true", help="also list what is still wrong")
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
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    with multiprocessing.get_context("spawn").Pool() as pool:
        parts = [
            pool.apply_async(measure_reason, (reason, rows, () if arguments.shipped else cases))
            for reason, rows in ordered
        ]
        past = () if arguments.shipped else cases
        kept = pool.starmap(measure_kept, [(cases[start::8], past) for start in range(8)], chunksize=1)
        forgotten = [one for part in parts for one in part.get()]
    figures = summary(forgotten, [one for rows in kept for one in rows])
    show(figures)
    arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if arguments.verbose:
        for one in forgotten:
            for name, row in (("shipped", one.shipped), ("past", one.past), ("learnt", one.learnt)):
                if row is not None and not row.reason_right:
                    print(
                        one.case,
                        name,
                        row.reason,
                        row.decided_by,
                        row.supports,
                        row.root_text,
                        row.true_root,
                        sep=" | ",
                    )
    if arguments.counts:
        _count(forgotten)
    return 0


if __name__ == "__main__":
    sys.exit(main())
