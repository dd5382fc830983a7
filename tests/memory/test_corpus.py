"""The shipped incidents: enough of them, sound, and in words of their own."""

from __future__ import annotations

from collections import Counter
from operator import mul

import pytest
import yaml

from logdiag.evaluation.cases import load_cases
from logdiag.memory.corpus import load_corpus
from logdiag.memory.embedding import load_embedder
from logdiag.memory.incident import masked
from logdiag.model import Action, Reason
from logdiag.rules import RuleBook
from tests.helpers import ROOT

FILES = sorted((ROOT / "corpus").glob("*/*.yaml"))
INCIDENTS = [(path, incident) for path in FILES for incident in yaml.safe_load(path.read_text(encoding="utf-8"))]


def test_every_reason_has_past_incidents() -> None:
    """At least 250 over all reasons, each file in its reason's category."""
    assert len(INCIDENTS) >= 250
    assert {path.stem for path in FILES} == {reason.value for reason in Reason} - {"none"}
    assert min(Counter(path.stem for path in FILES for _ in yaml.safe_load(path.read_text())).values()) >= 6
    assert [path for path in FILES if path.parent.name != Reason(path.stem).category.value] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_incident_says_what_happened_and_what_was_done(path: object) -> None:
    """One line as the software prints it, a cause, a remedy, an action of the list; no id twice."""
    for _, incident in [item for item in INCIDENTS if item[0] == path]:
        assert "\n" not in incident["signature"]
        assert 10 < len(incident["signature"]) < 400
        assert Action(incident["action"]) is not Action.NONE
        assert len(incident["cause"]) > 20, incident["id"]
        assert len(incident["remedy"]) > 8, incident["id"]
        assert "outcome" not in incident, f"{incident['id']}: nobody here tried it"
        assert incident["provenance"], incident["id"]
    ids = Counter(incident["id"] for _, incident in INCIDENTS)
    assert [identity for identity, count in ids.items() if count > 1] == []


def test_no_signature_is_a_rules_example_or_a_cases_root_line(book: RuleBook) -> None:
    """What memory knows is not what rules and evaluation show as their own."""
    signatures = {masked(incident["signature"]).lower() for _, incident in INCIDENTS}
    examples = {masked(line).lower() for rule in book.rules for text in rule.fires for line in text.splitlines()}
    roots = {masked(root).lower() for case in load_cases([str(ROOT / "evals" / "cases")]).cases for root in case.roots}
    assert signatures & examples == set()
    assert signatures & roots == set()


def test_the_nearest_incident_is_that_of_the_plain_product() -> None:
    """For lines of every incident's own words, against the sum of the products number by number; an empty line is like
    nothing."""
    corpus, embedder = load_corpus(), load_embedder()
    vectors = embedder.embed([item.signature for item in corpus.incidents])
    for query in (*vectors[::40], *embedder.embed(["CUDA error: out of memory on <n>", "zzzz qqqq"])):
        products = [sum(map(mul, query, vector)) for vector in vectors]
        found = corpus.nearest(query, 5, embedder)
        assert [score for score, _ in found] == pytest.approx(sorted(products, reverse=True)[:5], abs=1e-6)
        assert all(products[corpus.incidents.index(near)] == pytest.approx(score, abs=1e-6) for score, near in found)
    assert corpus.nearest(embedder.embed([""])[0], 5, embedder) == ()
