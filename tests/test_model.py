"""The types that stages pass on, and the two closed lists."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import statistics
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdiag import Action, Category, Diagnosis, LogdiagError, Reason, diagnose, render
from logdiag import model as model_module
from logdiag.model import Block, Finding, Line, Role, fill, median
from logdiag.report import FORMATS
from tests.helpers import LOGS, SHARED


def test_the_taxonomy_has_thirty_reasons_and_none() -> None:
    """The taxonomy has 9 infrastructure, 9 framework and 12 script reasons, and `none`."""
    count = {category: sum(reason.category is category for reason in Reason) for category in Category}
    assert count == {Category.INFRASTRUCTURE: 9, Category.FRAMEWORK: 9, Category.SCRIPT: 12, Category.NONE: 1}


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_has_its_category(reason: Reason) -> None:
    """No reason is without a category; only `none` is filed under `none`."""
    assert (reason.category is Category.NONE) == (reason is Reason.NONE)


@pytest.mark.skipif(not (SHARED / "LABELS.md").exists(), reason="the shared label description is not here")
def test_the_reasons_are_those_of_the_label_description() -> None:
    """Every table row of LABELS.md is a reason, filed under the category it stands below."""
    category = ""
    described: dict[str, str] = {}
    for line in (SHARED / "LABELS.md").read_text(encoding="utf-8").split("## Rules")[0].splitlines():
        if line.strip() in {category.value for category in Category}:
            category = line.strip()
        elif line.startswith("| ") and not line.startswith(("| reason", "| ---")):
            described[line.split("|")[1].strip()] = category
    assert described == {reason.value: reason.category.value for reason in Reason if reason is not Reason.NONE}


def test_only_what_needs_no_person_is_automatic() -> None:
    """The four automatic actions are those that a scheduler may carry out."""
    assert {action.value for action in Action if action.automatic} == {
        "restart",
        "restart_excluding_node",
        "rollback_and_skip",
        "retry_later",
    }


@pytest.mark.parametrize("name", [name for name, kind in vars(model_module).items() if dataclasses.is_dataclass(kind)])
def test_every_passed_type_is_frozen_and_slotted(name: str) -> None:
    """A stage cannot change what it was given, nor hang new attributes on it."""
    kind = getattr(model_module, name)
    assert kind.__dataclass_params__.frozen
    assert "__slots__" in vars(kind)


def test_a_line_of_a_block_has_the_files_own_number() -> None:
    """Counted from the block's first line, or as the envelope says."""
    plain = Block(stream=0, first_line=41, offset=900, data=b"a\nb\nc\n")
    joined = Block(stream=0, first_line=41, offset=900, data=b"a\nb\nc", line_numbers=(41, 43, 43))
    assert [plain.number_of(index) for index in range(3)] == [41, 42, 43]
    assert [joined.number_of(index) for index in range(3)] == [41, 43, 43]


def test_a_message_is_the_text_after_the_last_prefix() -> None:
    """`starts` says where the message may begin; the last one is where it does."""
    assert Line("a.log", 1, "rank 3: boom", starts=(0, 8)).message == "boom"


def _finding(facts: dict[str, str]) -> Finding:
    line = Line("a.log", 1, "x", rank=1, node="node-1")
    return Finding("a/b", line, Role.CAUSE, Reason.OTHERS, "t", "w", None, None, (), frozenset(), facts)


def test_a_rank_named_by_the_line_is_the_failing_one() -> None:
    """What the line says beats who says it."""
    assert (_finding({}).rank, _finding({}).node) == (1, "node-1")
    named = _finding({"rank": "7", "node": "node-9"})
    assert (named.rank, named.node) == (7, "node-9")


def test_a_fact_that_is_no_number_is_no_rank() -> None:
    """A fact that cannot be a rank leaves the speaker's."""
    assert _finding({"rank": "unknown"}).rank == 1


def test_facts_fill_a_rules_words() -> None:
    """A fact that the log does not tell is named in words, and other braces stay."""
    assert fill("Drain {node} and {gpu}", {"node": "node-4"}) == "Drain node-4 and the gpu"
    assert fill("{} {1} {Upper}", {}) == "{} {1} {Upper}"


def test_a_fact_cannot_bring_in_another_fact() -> None:
    """Log text put into a sentence is not read as a placeholder again."""
    assert fill("{path}", {"path": "{node}", "node": "secret"}) == "{node}"


def test_the_answer_as_plain_values_survives_json(demo: Diagnosis) -> None:
    """`to_dict` holds only what JSON holds, enums as their values."""
    plain = demo.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["reason"] == demo.reason.value
    assert plain["recovery"]["action"] == demo.recovery.action.value


@pytest.fixture(scope="module")
def demo() -> Diagnosis:
    """The diagnosis of the sample log."""
    from logdiag import diagnose

    return diagnose(LOGS / "demo.log")


@pytest.mark.parametrize("name", ["demo.log", "healthy-scary.log", "slurm-oom.log", "torchelastic"])
def test_an_answer_comes_back_as_it_was(name: str) -> None:
    """`from_dict` of `to_dict`, through JSON too; only the digest is left out."""
    answer = diagnose(LOGS / name)
    assert Diagnosis.from_dict(answer.to_dict()) == answer
    again = Diagnosis.from_dict(json.loads(answer.to_json()))
    assert again == answer
    assert again.digest.lines == ()


def test_an_answer_of_an_older_or_a_newer_version_is_read(demo: Diagnosis) -> None:
    """Keys that were added later may be missing, and further ones are left out."""
    document = {**demo.to_dict(), "moon_phase": "full"}
    for later in ("supports", "suspects", "times"):
        del document[later]
    read = Diagnosis.from_dict(document)
    assert (read.root_cause, read.supports, read.suspects, read.times) == (demo.root_cause, (), (), None)


def test_a_document_that_is_no_answer_is_refused_with_all_problems(demo: Diagnosis) -> None:
    """One line for each field, named by its path; never a foreign exception."""
    broken: dict[str, Any] = demo.to_dict()
    broken.update(failed=3, reason="Gremlins", notes={}, root_cause=[])
    broken["evidence"][1]["line"] = "seven"
    del broken["summary"]
    with pytest.raises(LogdiagError) as raised:
        Diagnosis.from_dict(broken)
    said = str(raised.value).splitlines()
    named = [line.split(": ")[1] for line in said]
    assert named == ["failed", "reason", "summary", "root_cause", "evidence[1].line", "notes"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@cache
def demo_json() -> str:
    """The sample's answer."""
    return diagnose(LOGS / "demo.log").to_json()


@given(st.data())
def test_whatever_stands_in_a_field_is_read_or_refused(data: st.DataObject) -> None:
    """Never a foreign exception: what is read can be rendered in every format, and is the same when read again."""
    document: dict[str, Any] = json.loads(demo_json())
    at: Any = document
    for _ in range(data.draw(st.integers(0, 2))):
        inner = [
            value for value in (at.values() if isinstance(at, dict) else at) if value and not isinstance(value, str)
        ]
        inner = [value for value in inner if isinstance(value, (dict, list))]
        at = data.draw(st.sampled_from(inner)) if inner else at
    at[data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))] = data.draw(JSON)
    try:
        read = Diagnosis.from_dict(document)
    except LogdiagError:
        return
    for form in FORMATS:
        render(read, form)
    assert Diagnosis.from_dict(read.to_dict()) == read


@pytest.mark.parametrize("document", [None, [], "x", 3, {}, {"schema": "other/1"}, {"schema": ["a"]}])
def test_what_is_no_document_is_refused(document: Any) -> None:
    """Whatever JSON can hold."""
    with pytest.raises(LogdiagError, match=re.escape("logdiag.diagnosis/1")):
        Diagnosis.from_dict(document)


def test_words_print_as_themselves() -> None:
    """In every version of Python alike, so that a label or a metric does not change with it."""
    assert f"{Action.RESTART} {Reason.ECC_ERROR}" == "restart ECCError"
    assert str(Category.SCRIPT) == "script"
    assert f"{Action.RESTART:>9}" == "  restart"


def test_the_median_is_that_of_the_standard_library() -> None:
    """Of few and many numbers, even and odd, some of them equal."""
    source = random.Random(23)
    for count in range(1, 40):
        values = [source.choice((0.5, -2.0, source.random())) for _ in range(count)]
        assert median(values) == statistics.median(values)
