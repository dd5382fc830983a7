"""What each special case of the judgement is worth: evals/results/ablation.json.

    python -m evals.ablation [CASES...] [--json PATH] [--forms]

Each named decision, each kind of line and each condition in the code (evals/conditions.py) is switched off in turn
over labelled cases. Counted are the answers that change without it (reason, root line, rank, failed) and how many of
these the label calls better or worse with it. A log is read once; the judgement is asked again only where the special
case had a say, in a fixed random sample of these, and no more once it is clear that it pays, or changes nothing. With
`--forms` each case counts too behind the prefix of a journal, wrapped at 120 columns and without its last tenth.
Cases of folders outside the repository are counted, never named.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from evals import conditions
from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case, load_cases
from logdiag.model import Reason
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes, digest, filters_for
from logdiag.scan.survey import Survey, survey

RESULTS = Path("evals/results/ablation.json")
SCENES = Path("tests/data/scenes.yaml")
FOLDERS = ("evals/cases", "evals/inhouse", "evals/machines", "../shared/reallogs", "../shared/inhouse")
_LISTS = {"recovered": "RECOVERED", "root": "ROOT", "ranks.rank": "RANK", "outcome": "OUTCOME"}
_SINGLE = {
    "judgement": ("all_was_survived", "got_over"),
    "root": ("earlier_word_of_the_same_cause", "said_right_before"),
    "suspects.stand_in": (
        "hint_among_the_suspects",
        "most_suspicious_though_survived",
        "most_suspicious_line",
        "named_by_its_words",
        "stands_alone_before_the_root",
    ),
}
_WIDTH = 120
_MOST_NAMED = 3
# So many more answers are right with a special case: it pays, and the rest need not be asked.
_PAYS = 8
# So many cases at most are asked of a special case in each process: they are drawn by chance, the same in each run.
_MOST_ASKED = 400
# A special case that changed none of so many answers is not asked further: it decides next to nothing.
_IDLE = 120
_PROCESSES = 2
_FIELDS = ("reason", "root", "rank", "failed")


class Special(NamedTuple):
    """A special case: `decision`, `kind` or `condition`, its name (of a condition its place), its text where it is one,
    and how to leave it out: by `without`, or by a condition that is held."""

    sort: str
    name: str
    text: str = ""
    held: conditions.Switch | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A case that was read, once: what was found in it, its suspects, and what was said with all special cases."""

    case: Case
    name: str | None
    found: Survey
    suspects: Any
    said: Said


class Said(NamedTuple):
    """What the judgement said of a log, and which of it the label calls right, by `_FIELDS`."""

    answer: tuple[object, ...]
    right: tuple[bool, ...]


def decisions() -> dict[str, str]:
    """The question that each named decision answers, by its name."""
    named = {
        decide.__name__: module.rpartition(".")[2]
        for module, name in _LISTS.items()
        for decide in getattr(import_module(f"logdiag.judge.{module}"), name)
    }
    return named | {name: module.rpartition(".")[2] for module, names in _SINGLE.items() for name in names}


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


def measure(cases: Iterable[tuple[str | None, Case]], book: RuleBook) -> list[dict[str, Any]]:
    """A row for each special case that had a say in a case; cases come with their names, None where it is not told."""
    names = decisions()
    read: list[Read] = []
    had_a_say: dict[Special, list[int]] = {}
    for name, case in cases:
        conditions.seen.clear()
        one, specials = _read(case, name, book, names)
        for special in specials:
            had_a_say.setdefault(special, []).append(len(read))
        read.append(one)
    return [_row(special, [read[at] for at in places], book) for special, places in had_a_say.items()]


def _read(case: Case, name: str | None, book: RuleBook, names: Mapping[str, str]) -> tuple[Read, set[Special]]:
    """A case, read, and the special cases that had a say in it."""
    shapes = Shapes(book, filters_for(book.filters, {}))
    found = survey(open_sources((case.source,)), book, shapes)
    suspects = import_module("logdiag.judge.suspects.ranking").ranking(
        found, digest(found.lines, shapes, found.total_lines, found.total_bytes)
    )
    made = _judged(found, suspects, book, frozenset())
    specials = {Special("decision", made_by.name) for made_by in made.decisions if made_by.name in names}
    specials |= {Special("kind", kind) for kinds in made.timeline.kinds.of_line.values() for kind in kinds}
    specials |= {Special("kind", topic) for topic in made.timeline.kinds.telling}
    for number, was in conditions.seen:
        place, text, values = conditions.CONDITIONS[number]
        if (not was) in values:
            specials.add(Special("condition", place, text, conditions.Switch(number, not was)))
    return Read(case, name, found, suspects, _said(made, case)), specials


def _judged(found: Survey, suspects: Any, book: RuleBook, without: frozenset[str]) -> Any:
    judge = import_module("logdiag.judge.judgement").judge
    return judge(found, book, suspects=lambda: suspects, without=without)


def _row(special: Special, read: Sequence[Read], book: RuleBook) -> dict[str, Any]:
    """What a special case is worth on the cases in which it had a say, asked in any order until it is clear."""
    count: Counter[str] = Counter()
    named: dict[str, None] = {}
    for asked, one in enumerate(random.Random(0).sample(read, min(len(read), _MOST_ASKED)), 1):
        count["asked"] = asked
        said = _said_without(special, one, book)
        count["changed"] += said is None or said.answer != one.said.answer
        if said is None:
            count["fails"] += 1
        elif said != one.said:
            if one.name:
                named.setdefault(one.name)
            gained = sum(one.said.right) - sum(said.right)
            count["better"] += gained > 0
            count["worse"] += gained < 0
            both = zip(_FIELDS, said.answer, one.said.answer, strict=True)
            count.update(field for field, now, was in both if now != was)
        if count["better"] + count["fails"] - count["worse"] >= _PAYS or (asked == _IDLE and not count["changed"]):
            break
    columns = ("asked", "changed", *_FIELDS, "fails", "better", "worse")
    counts = {column: count[column] for column in columns}
    text = {"text": special.text, "held": special.held.value} if special.held else {}
    return {
        "sort": special.sort,
        "name": special.name,
        **text,
        "cases": len(read),
        **counts,
        "named": list(named)[:_MOST_NAMED],
    }


def _said_without(special: Special, one: Read, book: RuleBook) -> Said | None:
    """What is said of a case without a special case; None where the judgement then fails."""
    conditions.held[:] = [special.held] if special.held else []
    without = frozenset() if special.held else frozenset({special.name})
    try:
        return _said(_judged(one.found, one.suspects, book, without), one.case)
    except Exception:
        return None
    finally:
        conditions.held.clear()


def _said(made: Any, case: Case) -> Said:
    root = made.root
    failed = {"failed": True, "healthy": False, "not known": None}[made.outcome.value]
    reason = root.reason if root else Reason.OTHERS if failed else Reason.NONE
    rank = made.rank if root else None
    text = root.line.text if root else None
    if case.healthy:
        root_right, rank_right = text is None, True
    else:
        root_right = text is not None and any(label in text or text in label for label in case.roots)
        rank_right = not case.rank_known or rank in case.ranks
    right = (reason in case.reasons, root_right, rank_right, failed is not case.healthy)
    return Said((reason, (root.line.stream, root.line.position) if root else None, rank, failed), right)


def _measured(named: Sequence[tuple[str | None, Case]]) -> list[dict[str, Any]]:
    """The rows of one process's share of the cases."""
    conditions.install()
    return measure(named, RuleBook.load())


def table(shares: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The rows of all shares in one, those that are worth least first; a named decision comes with its scene."""
    scenes = {scene["decision"]: scene["about"] for scene in yaml.safe_load(SCENES.read_text(encoding="utf-8"))}
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in (row for share in shares for row in share):
        key = row["sort"], row["name"], row.get("text"), row.get("held")
        one = rows.setdefault(key, {**row, "named": [], **{name: 0 for name, value in row.items() if _is_count(value)}})
        one.update({name: one[name] + value for name, value in row.items() if _is_count(value)})
        one["named"] = [*one["named"], *row["named"]][:_MOST_NAMED]
        if row["sort"] == "decision":
            one["scene"] = scenes.get(row["name"])
    return sorted(rows.values(), key=lambda row: (row["better"] + row["fails"] - row["worse"], row["name"]))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, writes the table and prints it; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m evals.ablation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", default=[folder for folder in FOLDERS if Path(folder).exists()])
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--forms", action="store_true", help="each case in other forms too")
    chosen = parser.parse_args(arguments)
    named: list[tuple[str | None, Case]] = []
    try:
        for folder in chosen.cases:
            ours = Path(folder).resolve().is_relative_to(Path.cwd())
            for case in load_cases([folder]).cases:
                named += [(case.id if ours else None, form) for form in (in_forms(case) if chosen.forms else [case])]
    except LogdiagError as error:
        print(error, file=sys.stderr)
        return 2
    with multiprocessing.get_context("spawn").Pool(_PROCESSES) as pool:
        rows = table(pool.imap(_measured, [named[at::_PROCESSES] for at in range(_PROCESSES)]))
    chosen.json.write_text(json.dumps({"cases": len(named), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        counts = "".join(f"{row[column]:7}" for column in ("cases", "changed", "better", "worse"))
        print(f"{row['sort']:10}{row['name']:44}{counts}  {row.get('text', '')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
