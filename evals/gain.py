"""What each catalogue is worth: labelled logs are answered with all rules, then without one catalogue after another.

    python -m evals.gain [CASES...]        # writes "gain" of results/catalogues.json, and prints it

A row counts the answers that the catalogue changes, the reasons and root lines that it puts right and wrong, and the
false alarms that it raises and prevents. Logs of folders outside the repository are counted, never named.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path

from evals.ablation import FOLDERS
from evals.harvest import PAGE, keep
from logdiag import diagnose
from logdiag.evaluation.cases import Case, load_cases
from logdiag.evaluation.run import evaluate
from logdiag.evaluation.scoring import Answer, Row, answer_of
from logdiag.rules import RuleBook

_CATALOGUES = "catalogues/"
_TABLE_OF_PAGE = re.compile(r"^\| catalogue \|.*\n(?:\|.*\n)+", re.MULTILINE)


def catalogues(book: RuleBook) -> list[str]:
    """The names of the catalogues of a rule book."""
    return sorted({_catalogue_of(rule.id) for rule in book.rules} - {""})


def without(book: RuleBook, catalogue: str) -> RuleBook:
    """A rule book without one catalogue."""
    kept = [index for index, rule in enumerate(book.rules) if _catalogue_of(rule.id) != catalogue]
    place = {index: number for number, index in enumerate(kept)}
    narrower = {
        place[index]: frozenset(place[other] for other in others if other in place)
        for index, others in book.narrower.items()
        if index in place
    }
    rules = [book.rules[index] for index in kept]
    return RuleBook(rules, book.filters, book.reasons, book.confidence, narrower, forms=book.forms)


@cache
def _book_without(catalogue: str) -> RuleBook:
    return without(RuleBook.load(), catalogue)


@lru_cache(maxsize=1)
def touched(case: Case, book: RuleBook) -> frozenset[str]:
    """The catalogues whose rows may match in a log, or alone make a rule that may match there a general one.

    Without any other catalogue the answer to the log stays the same.
    """
    data = "".join(f"{line}\n" for _, _, line in case.lines()).encode()
    matching = set[str]()
    for matcher, patterns in ((book.matcher, book.scanned), (book.softening_matcher, book.softening)):
        matching.update(
            book.rules[patterns[number][0]].id for _, _, numbers in matcher.hits(data) for number in numbers
        )
    narrower = (_narrower(book)[rule] for rule in matching if rule in _narrower(book))
    alone = (names for names in narrower if len(names) == 1)
    return frozenset(_catalogue_of(rule) for rule in matching).union(*alone)


@lru_cache(maxsize=1)
def _narrower(book: RuleBook) -> dict[str, frozenset[str]]:
    """For each rule the catalogues, or none, in which its narrower ones stand."""
    return {
        book.rules[index].id: frozenset(_catalogue_of(book.rules[other].id) for other in others)
        for index, others in book.narrower.items()
    }


def _catalogue_of(rule: str) -> str:
    return rule.split("/")[1] if rule.startswith(_CATALOGUES) else ""


@lru_cache(maxsize=2)
def _answer(case: Case, book: RuleBook) -> Answer:
    return answer_of(diagnose(case.source, rules=book, memory=False))


def _answer_without(catalogue: str, case: Case, book: RuleBook) -> Answer:
    return _answer(case, book) if catalogue not in touched(case, book) else _answer(case, _book_without(catalogue))


def difference(pairs: Sequence[tuple[Row, Row]]) -> dict[str, int]:
    """What a catalogue changes, from the answers with it and without it."""
    counts = Counter[str]()
    for with_it, without_it in pairs:
        for name in ("reason", "root"):
            right, was = getattr(with_it, f"{name}_right"), getattr(without_it, f"{name}_right")
            counts[f"{name}s_gained"] += bool(right and not was)
            counts[f"{name}s_lost"] += bool(was and not right)
        if with_it.true_reason == "none":
            counts["false_alarms_raised"] += with_it.reason != "none" and without_it.reason == "none"
            counts["false_alarms_prevented"] += with_it.reason == "none" and without_it.reason != "none"
        counts["answers_changed"] += (with_it.reason, with_it.root_text, with_it.action) != (
            without_it.reason,
            without_it.root_text,
            without_it.action,
        )
    return dict(counts)


def gain(folders: Sequence[str], names: Sequence[str]) -> dict[str, Mapping[str, int]]:
    """For each catalogue the labelled logs that it may touch, and what it changes on them."""
    book = RuleBook.load()
    all_cases = [case for folder in folders for case in load_cases([folder]).cases]
    where = [(case, names_of) for case in all_cases if (names_of := touched(case, book).intersection(names))]
    beside = {name: partial(_answer_without, name) for name in names}
    results = list(evaluate([case for case, _ in where], beside=beside, diagnose_case=_answer))
    return {
        name: {
            "logs": sum(name in names_of for _, names_of in where),
            **difference([(result.row, result.baselines[name]) for result in results]),
        }
        for name in names
    }


def page(table: Mapping[str, Mapping[str, int]]) -> str:
    """The table of docs/catalogues.md."""
    lines = ["| catalogue | logs | answers changed | reasons +/- | root lines +/- | false alarms +/- |"]
    lines.append("| --- " * 6 + "|")
    for name, counts in sorted(table.items()):
        pairs = (("reasons_gained", "reasons_lost"), ("roots_gained", "roots_lost"))
        alarms = ("false_alarms_raised", "false_alarms_prevented")
        cells = [f"{counts.get(more, 0)}/{counts.get(less, 0)}" for more, less in (*pairs, alarms)]
        changed = counts.get("answers_changed", 0)
        lines.append(f"| {name} | {counts['logs']:,} | {changed} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures all catalogues and keeps the table, in the results and in the page."""
    folders = sys.argv[1:] or [folder for folder in FOLDERS if Path(folder).exists()]
    table = gain(folders, catalogues(RuleBook.load()))
    keep("gain", table)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE_OF_PAGE.sub(lambda _: page(table), text, count=1), encoding="utf-8")
    for name, counts in table.items():
        print(f"{name:24}", " ".join(f"{key}={count}" for key, count in counts.items() if count))


if __name__ == "__main__":
    main()
