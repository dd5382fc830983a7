"""Fits what tells the processes of a job, and which of them failed first: `logdiag/judge/ranks/weights.json`.

    python -m evals.ranks [CASES...]   # fits on the committed in-house cases, and on these
    python -m evals.ranks --only node  # fits this table, and keeps the others

Four tables, one after the other, each on what those before it give: which listing is that of the processes, which
word of a line names its process, which line tells who failed first, which word is the host. Nothing held back is read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case, load_cases
from logdiag.judge.judgement import judge
from logdiag.judge.merge.case import case_of
from logdiag.judge.ranks.by_words import by_words
from logdiag.judge.ranks.directory import features_of, heard_in, stated_in
from logdiag.judge.ranks.nodes import candidates
from logdiag.judge.ranks.readings import Book
from logdiag.judge.ranks.weights import PATH, tables
from logdiag.judge.ranks.witnesses import Root, root_readings, witnesses
from logdiag.judge.suspects.ranking import ranking
from logdiag.model import Digest
from logdiag.read.sources import limits_of, open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes
from logdiag.scan.survey import Survey, surveys

CASES = ("evals/inhouse/dev.jsonl.zst",)
TABLES = ("listing", "word", "witness", "node")
_FEWEST, _PULL, _PROCESSES = 5, 1.0, 2
_SHORT = 3
Features = Mapping[str, float]


class Example(NamedTuple):
    """One thing to weigh, and whether what it says is right."""

    right: bool
    features: Features


def examples_of(table: str, case: Case) -> list[Example]:
    """What a case teaches of a table."""
    survey, digest = _read(case)
    judgement = judge(survey, _book(), suspects=partial(ranking, survey, digest))
    if judgement.root is None:
        return []
    words, root = by_words(judgement.root, survey.lines, survey.openings)
    if table == "listing":
        return list(_of_listings(words, root, case))
    if table == "node":
        return [Example(_same(one.host, case.node), one.features) for one in candidates(words, root, judgement.rank)]
    if not case.rank_known:
        return []
    told = root_readings(words, root) if table == "word" else witnesses(words, root)
    return [Example(one.rank == case.rank, dict(one.features)) for one in told]


def _same(host: str, node: str | None) -> bool:
    return node is not None and host.partition(".")[0] == node.partition(".")[0]


def _of_listings(words: Book, root: Root, case: Case) -> Iterable[Example]:
    """Whether a listing gives the first rank's host and name; those that tell of neither teach nothing."""
    heard, stated = heard_in(words.rows), stated_in(words.rows)
    shown = any(part in root.row.line.text for part in case.roots)
    for listing in words.directory.listings:
        right = []
        if case.node and case.rank is not None and listing.hosts and case.rank in listing.hosts.of:
            right.append(listing.hosts.of[case.rank] == case.node)
        for names in listing.names.values() if shown else ():
            named = [word for word in root.row.lower if word in names and (not word.isdigit() or len(word) >= _SHORT)]
            right += [names[word] == case.rank for word in named[:1]]
        if right:
            yield Example(2 * sum(right) >= len(right), features_of(listing, heard, stated))


def fitted(cases: Sequence[Sequence[Example]]) -> dict[str, float]:
    """The weights by which the right ones of a case, together, are likeliest; against naming none, under no name."""
    often = Counter(name for case in cases for one in case for name, value in one.features.items() if value)
    names = sorted(name for name, times in often.items() if times >= _FEWEST)
    column = {name: at for at, name in enumerate(names)}
    flat = [one for case in cases for one in case]
    places = [
        (at, column[name], float(value))
        for at, one in enumerate(flat)
        for name, value in one.features.items()
        if value and name in column
    ]
    rows, columns, values = zip(*places, strict=True)
    matrix = csr_matrix((values, (rows, columns)), shape=(len(flat), len(names)))
    of_case = np.repeat(np.arange(len(cases)), [len(case) for case in cases])
    right = np.array([one.right for one in flat])
    solved = minimize(partial(_loss, matrix, of_case, right, len(cases)), np.zeros(len(names) + 1), jac=True)
    return {**dict(zip(names, solved.x.tolist(), strict=False)), "": float(solved.x[-1])}


def _loss(
    matrix: csr_matrix, of_case: NDArray[np.int64], right: NDArray[np.bool_], cases: int, weights: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """The negative log-likelihood with a pull to zero, and its gradient; naming none is right where nothing else is."""
    none, odds = weights[-1], matrix @ weights[:-1]
    most = np.full(cases, none)
    np.maximum.at(most, of_case, odds)
    each, of_none = np.exp(odds - most[of_case]), np.exp(none - most)
    total, good, any_right = of_none.copy(), np.zeros(cases), np.zeros(cases, bool)
    np.add.at(total, of_case, each)
    np.add.at(good, of_case, each * right)
    np.logical_or.at(any_right, of_case, right)
    good = np.where(any_right, good, of_none)
    share = np.where(right & any_right[of_case], each / np.maximum(good[of_case], 1e-300), 0)
    slope = matrix.T @ (each / total[of_case] - share) + _PULL * weights[:-1]
    loss = float(np.log(total / good).sum() + _PULL * weights[:-1] @ weights[:-1] / 2)
    return loss, np.append(slope, (of_none / total - ~any_right).sum())


def weighed(table: str, cases: Sequence[Sequence[Example]]) -> dict[str, float]:
    """A table of weights."""
    if table == "listing":
        flat = [one for case in cases for one in case]
        names = sorted({name for one in flat for name in one.features})
        values = np.array([[float(one.features[name]) for name in names] for one in flat])
        model = LogisticRegression(max_iter=3000, fit_intercept=False).fit(values, [one.right for one in flat])
        weights = dict(zip(names, model.coef_[0].tolist(), strict=True))
    else:
        weights = fitted(cases)
        none = weights.pop("")
        # The log-odds of a word are against naming none; lines are weighed together against it.
        shares = (
            {"silent": none} if table in {"witness", "node"} else dict.fromkeys(("listed", "form", "by host"), -none)
        )
        weights |= {name: weights.get(name, 0.0) + share for name, share in shares.items()}
    return {name: round(weight, 3) for name, weight in sorted(weights.items())}


@cache
def _book() -> RuleBook:
    return RuleBook.load(())


def _read(case: Case) -> tuple[Survey, Digest]:
    streams = open_sources((case.source,), limits_of(None, None), _book().forms)
    found = case_of(surveys(streams, _book(), Shapes(_book(), ())), _book())
    return found.survey, found.digest


def main() -> int:
    """Fits and writes the tables."""
    parser = argparse.ArgumentParser(prog="evals.ranks", description="Fits what tells the first rank to fail.")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--only", choices=TABLES, metavar="TABLE")
    given = parser.parse_args()
    try:
        found = load_cases([*CASES, *given.cases]).cases
    except LogdiagError as error:
        print(error, file=sys.stderr)
        return 2
    cases = [case for case in found if not case.healthy]
    told = dict(tables())
    for table in [given.only] if given.only else TABLES:
        with Pool(_PROCESSES) as pool:
            examples = pool.map(partial(examples_of, table), cases, chunksize=8)
        told[table] = weighed(table, [example for example in examples if example])
        Path(PATH).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        tables.cache_clear()
        print(f"{table}: {sum(map(len, examples))} examples of {len(cases)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
