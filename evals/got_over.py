"""Fits what tells that a fault was got over: the numbers in `logdiag/judge/got_over.py`.

    python -m evals.got_over [CASES...]

Learns from labelled logs of machines and of clusters' services: a fault of a healthy log was got over, and so was one
that the judgement calls recovered and no label calls the root; the root of a failed log was not. Prints the numbers,
how many false alarms they end, and how many roots they lose.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case, load_cases
from logdiag.judge.facts import Facts
from logdiag.judge.faults import Fault
from logdiag.judge.got_over import LEAST, after_the_last, got_over, signs_of
from logdiag.judge.judgement import facts_of
from logdiag.judge.suspects.ranking import ranking
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes, digest, filters_for
from logdiag.scan.survey import survey

CASES = ["evals/machines/dev.jsonl.zst"]
# Healthy logs with a fault that stands are few, and false alarms are what the numbers are for.
_FALSE_ALARM = 5.0
_INVERSE_RIDGE = 0.3


class Example(NamedTuple):
    """A fault: its signs, whether it was got over, what it counts, and whether it is the root that rules name."""

    signs: Sequence[float]
    over: bool
    counts: float
    is_root: bool


def examples(cases: Iterable[Case], book: RuleBook) -> Iterator[Example]:
    """The root that rules name in each log, and the faults that were recovered from, which together count as one."""
    for case in cases:
        facts = _facts_of(case, book)
        rests = after_the_last(facts)
        if facts.root is not None and facts.root.finding.role.is_failure:
            counts = _FALSE_ALARM if case.healthy else 1.0
            yield Example([*signs_of(facts.root, facts, rests).values()], case.healthy, counts, is_root=True)
        recovered = [fault for fault in facts.standing.recovered if fault.finding.role.is_failure]
        for fault in recovered:
            over = case.healthy or not _is_labelled(fault, case)
            yield Example([*signs_of(fault, facts, rests).values()], over, 1 / len(recovered), is_root=False)


def _facts_of(case: Case, book: RuleBook) -> Facts:
    shapes = Shapes(book, filters_for(book.filters, {}))
    found = survey(open_sources((case.source,)), book, shapes)
    ranked = ranking(found, digest(found.lines, shapes, found.total_lines, found.total_bytes))
    return facts_of(found, book, suspects=lambda: ranked, without=frozenset({got_over.__name__}))[0]


def _is_labelled(fault: Fault, case: Case) -> bool:
    return any(root in fault.line.text or fault.line.text in root for root in case.roots)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fits the numbers and prints them; the exit status."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    parser = argparse.ArgumentParser(prog="python -m evals.got_over", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", default=CASES)
    try:
        cases = load_cases(parser.parse_args(arguments).cases).cases
    except LogdiagError as error:
        print(error, file=sys.stderr)
        return 2
    given = list(examples(cases, RuleBook.load()))
    signs, over = np.array([one.signs for one in given]), np.array([one.over for one in given])
    scaler = StandardScaler().fit(signs)
    model = LogisticRegression(C=_INVERSE_RIDGE, max_iter=1000)
    model.fit(scaler.transform(signs), over, sample_weight=[one.counts for one in given])
    worth = model.coef_[0] / scaler.scale_
    print("worth", worth.round(2).tolist(), "bias", round(float(model.intercept_[0] - worth @ scaler.mean_), 2))
    called_over = model.predict_proba(scaler.transform(signs))[:, 1] >= LEAST
    counted = Counter((one.over, bool(said)) for one, said in zip(given, called_over, strict=True) if one.is_root)
    print(f"false alarms ended: {counted[True, True]} of {counted[True, True] + counted[True, False]}")
    print(f"roots lost: {counted[False, True]} of {counted[False, True] + counted[False, False]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
