"""What each named decision of the judgement is worth: evals/results/ablation.json.

    python -m evals.ablation [CASES...] [--json PATH]

Each decision is switched off in turn over labelled cases, each as it is, behind the prefix of a journal, wrapped at 120
columns and without its last tenth. Counted are the answers that the decision decided, those that change without it
(reason, root line, rank, failed), and how many of these the label calls better or worse. A log is read once; the
judgement is asked again only without what had decided something. Cases of folders outside the repository are counted,
never named.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case, load_cases
from logdiag.judge.exit_reason import exit_reason
from logdiag.judge.judgement import Judgement, all_was_survived, hint_among_the_suspects, judge
from logdiag.judge.outcome import OUTCOME, Outcome
from logdiag.judge.ranks.rank import RANK
from logdiag.judge.recovered import RECOVERED
from logdiag.judge.root import ROOT, earlier_word_of_the_same_cause
from logdiag.judge.suspects.ranked import Ranking
from logdiag.judge.suspects.ranking import ranking
from logdiag.judge.suspects.stand_in import most_suspicious_line, named_by_its_words
from logdiag.model import Reason
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes, digest, filters_for
from logdiag.scan.survey import Survey, survey

RESULTS = Path("evals/results/ablation.json")
SCENES = Path("tests/data/scenes.yaml")
FOLDERS = ("evals/cases", "evals/inhouse", "../shared/reallogs", "../shared/inhouse")
DECISIONS: Mapping[str, tuple[Callable[..., object], ...]] = {
    "recovered": (*RECOVERED, all_was_survived),
    "root": (
        *ROOT,
        earlier_word_of_the_same_cause,
        exit_reason,
        hint_among_the_suspects,
        most_suspicious_line,
        named_by_its_words,
    ),
    "rank": RANK,
    "outcome": OUTCOME,
}
"""Every named decision that can be switched off, by the question that it answers."""

_WIDTH = 120
_MOST_NAMED = 3
_NAMES = frozenset(decide.__name__ for decisions in DECISIONS.values() for decide in decisions)


@dataclass(frozen=True, slots=True)
class Said:
    """What the judgement said of a log, and how much of it the label calls right."""

    reason: Reason
    root: tuple[int, int] | None
    rank: int | None
    failed: bool | None
    right: int


@dataclass(frozen=True, slots=True)
class Change:
    """What one decision did to one log: the fields of the answer that change without it, and how many more of them are
    right without it than with it."""

    decision: str
    fields: tuple[str, ...]
    gained: int


def in_forms(case: Case) -> Iterator[Case]:
    """A case as it is, and, where it holds its log itself, in other forms of which the label still holds."""
    yield case
    if case.log is None:
        return
    lines = case.log.splitlines()
    began = datetime(2026, 11, 20, 8, 0, 0)
    clock = (began + timedelta(seconds=second) for second in range(len(lines)))
    headed = (f"{time:%b %d %H:%M:%S} gpu-7 train[812]: {line}\n" for time, line in zip(clock, lines, strict=True))
    yield case.model_copy(update={"log": "".join(headed)})
    wrapped = (line[at : at + _WIDTH] for line in lines for at in range(0, max(len(line), 1), _WIDTH))
    yield case.model_copy(update={"log": "".join(f"{part}\n" for part in wrapped)})
    cut = "".join(f"{line}\n" for line in lines[: len(lines) * 9 // 10])
    if cut and (case.healthy or any(root in cut for root in case.roots)):
        yield case.model_copy(update={"log": cut})


def measure(case: Case, book: RuleBook) -> list[Change]:
    """What each decision did to a case, in each of its forms."""
    return [change for form in in_forms(case) for change in _changes(form, book)]


def _changes(case: Case, book: RuleBook) -> Iterator[Change]:
    shapes = Shapes(book, filters_for(book.filters, {}))
    found = survey(open_sources((case.source,)), book, shapes)
    kept = digest(found.lines, shapes, found.total_lines, found.total_bytes)

    @cache
    def suspects() -> Ranking:
        return ranking(found, kept)

    made = judge(found, book, suspects=suspects)
    with_all = _said(made, case, found)
    for name in sorted({decision.name for decision in made.decisions} & _NAMES):
        without = _said(judge(found, book, suspects=suspects, without=frozenset({name})), case, found)
        fields = ("reason", "root", "rank", "failed")
        changed = tuple(field for field in fields if getattr(with_all, field) != getattr(without, field))
        yield Change(name, changed, without.right - with_all.right)


def _said(judgement: Judgement, case: Case, found: Survey) -> Said:
    root = judgement.root
    failed = {Outcome.FAILED: True, Outcome.HEALTHY: False, Outcome.NOT_KNOWN: None}[judgement.outcome]
    reason = root.reason if root else Reason.OTHERS if failed else Reason.NONE
    rank = judgement.rank if root else None
    text = root.line.text if root else None
    right = [reason in case.reasons, failed is not case.healthy]
    if case.healthy:
        right.append(text is None)
    else:
        right.append(text is not None and any(label in text or text in label for label in case.roots))
        right.append(not case.rank_known or rank == case.rank)
    return Said(reason, (root.line.stream, root.line.position) if root else None, rank, failed, sum(right))


def table(changes: Iterable[tuple[str | None, Sequence[Change]]]) -> list[dict[str, Any]]:
    """A row for each decision; `changes` come with the name of their case, None where it is not told."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in _NAMES}
    cases: dict[str, dict[str, None]] = {name: {} for name in _NAMES}
    for case, of_case in changes:
        for change in of_case:
            count = counts[change.decision]
            count["decided"] += 1
            count["changed"] += bool(change.fields)
            count["better"] += bool(change.fields) and change.gained < 0
            count["worse"] += bool(change.fields) and change.gained > 0
            count.update(change.fields)
            if case and change.fields:
                cases[change.decision].setdefault(case)
    scenes = {scene["decision"]: scene["about"] for scene in yaml.safe_load(SCENES.read_text(encoding="utf-8"))}
    columns = ("decided", "changed", "reason", "root", "rank", "failed", "better", "worse")
    return [
        {
            "decision": decide.__name__,
            "question": question,
            **{column: counts[decide.__name__][column] for column in columns},
            "cases": list(cases[decide.__name__])[:_MOST_NAMED],
            "scene": scenes.get(decide.__name__),
        }
        for question, decisions in DECISIONS.items()
        for decide in decisions
    ]


_book: RuleBook | None = None


def _measured(case: Case) -> list[Change]:
    global _book
    _book = _book or RuleBook.load()
    return measure(case, _book)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, writes the table and prints it; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m evals.ablation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", default=[folder for folder in FOLDERS if Path(folder).exists()])
    parser.add_argument("--json", type=Path, default=RESULTS)
    chosen = parser.parse_args(arguments)
    named: list[tuple[str | None, Case]] = []
    try:
        for folder in chosen.cases:
            ours = Path(folder).resolve().is_relative_to(Path.cwd())
            named.extend((case.id if ours else None, case) for case in load_cases([folder]).cases)
    except LogdiagError as error:
        print(error, file=sys.stderr)
        return 2
    with multiprocessing.get_context("spawn").Pool() as pool:
        measured = pool.imap(_measured, (case for _, case in named), chunksize=8)
        rows = table((name, changes) for (name, _), changes in zip(named, measured, strict=True))
    chosen.json.write_text(json.dumps({"cases": len(named), "decisions": rows}, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(f"{row['decision']:44}" + "".join(f"{row[c]:7}" for c in ("decided", "changed", "better", "worse")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
