"""What a good run's log is worth: root lines that are found beside it with all rules of failures switched off.

    python -m evals.good_runs evals/inhouse

Cases of one software (`inhouse/SOFTWARE/N`) lie together: its healthy ones are the good runs of its failed ones. Each
failed case is answered twice, without a good run and beside them; the caller knows that it failed.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from logdiag import Diagnosis, diagnose
from logdiag.evaluation.cases import Case, load_cases
from logdiag.model import Role
from logdiag.rules import RuleBook

__all__ = ["measured", "without_failures"]

_FAILURES = (Role.CAUSE.value, Role.SYMPTOM.value, Role.HINT.value)
_FIRST = 5


def measured(cases: Sequence[Case], book: RuleBook) -> Counter[str]:
    """How many failed cases there are that have a good run, and of how many the root line was found, and where."""
    good: dict[str, list[bytes]] = defaultdict(list)
    for case in cases:
        if case.healthy and case.log is not None:
            good[_software(case)].append(case.log.encode())
    counts: Counter[str] = Counter()
    for case in cases:
        if case.healthy or case.log is None or not case.roots or not good[_software(case)]:
            continue
        counts["cases"] += 1
        for name, baseline in (("alone", None), ("beside a good run", good[_software(case)])):
            answer = diagnose(case.log.encode(), rules=book, memory=False, exit_code=1, baseline=baseline)
            counts.update(f"{name}: {where}" for where in _found(answer, case.roots))
    return counts


def without_failures(book: RuleBook) -> RuleBook:
    """The rules without those that know a failure."""
    kept = [rule for rule in book.rules if rule.role not in _FAILURES]
    return RuleBook(kept, book.filters, book.reasons, book.confidence, forms=book.forms)


def _software(case: Case) -> str:
    return case.id.rpartition("/")[0]


def _found(answer: Diagnosis, roots: Sequence[str]) -> Iterable[str]:
    """Where an answer shows the root line."""

    def shown(texts: Iterable[str]) -> bool:
        return any(root.strip() in text for text in texts for root in roots)

    root = [answer.root_cause.text] if answer.root_cause else []
    if shown(root):
        yield "the root of the answer"
    if shown([*root, *(suspect.text for suspect in answer.suspects)]):
        yield "the root or among the suspects"
    if shown(change.text for change in answer.changes[:_FIRST]):
        yield f"among the first {_FIRST} new lines"


if __name__ == "__main__":
    found = measured(load_cases(sys.argv[1:]).cases, without_failures(RuleBook.load()))
    for name, count in found.items():
        print(f"{count:>6}  {count / found['cases']:6.1%}  {name}")
