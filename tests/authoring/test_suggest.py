"""Rule suggestions: what people confirmed becomes a rule that has passed the gate, or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logdiag.authoring.rule_file import accept, example_of
from logdiag.authoring.suggest import suggest
from logdiag.errors import RuleError
from logdiag.memory.incident import Helped, masked
from logdiag.memory.store import Store
from logdiag.model import Action, Reason
from logdiag.rules import RuleBook
from logdiag.rules.check import check
from tests.helpers import log_of, rule_text, run_logdiag, steps, write_rule
from tests.memory_helpers import incident, letters_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store above the shipped incidents."""
    return letters_store(tmp_path / "memory", shipped=True)


def learn(store: Store, *texts: str, reason: Reason = Reason.DATASET_LOADING_ERROR, by: str = "mira") -> list[str]:
    """Confirmed incidents of these lines; their ids."""
    told = {"remedy": "Seal the bundle again.", "cause": "The seal was broken: a copy had been cut short."}
    found = [
        incident(text, reason, confirmed_by=by, outcome=Helped.WORKED, action=Action.RETRY_LATER, **told)
        for text in texts
    ]
    return [item.id for item in store.add_all(found)]


BUNDLES = [
    f"BundleFault: shard {n} of bundle '{name}' is unsealed at /srv/{name}/{n}" for n, name in ((3, "ab"), (41, "q"))
]


def test_two_confirmed_incidents_become_a_rule(store: Store, tmp_path: Path) -> None:
    """Which diagnoses the next occurrence, with other numbers, names and places; `rules test` accepts its folder."""
    ids = learn(store, *BUNDLES)
    (found,) = suggest(store, reason=Reason.DATASET_LOADING_ERROR)
    assert found.problems == ()
    assert sorted(found.incidents) == sorted(ids)
    file = accept(found, tmp_path / "rules")
    text = file.read_text()
    assert "action: retry_later" in text
    assert "- Seal the bundle again." in text
    assert "title: The seal was broken" in text
    assert all(identity in text for identity in ids)
    tested = run_logdiag("rules", "test", tmp_path / "rules")
    assert tested.returncode == 0, tested.stdout.decode()
    log = log_of(*steps(1, 20), "BundleFault: shard 977 of bundle 'zz' is unsealed at /mnt/elsewhere/deep/er/977")
    answer = json.loads(run_logdiag("--rules", tmp_path / "rules", "--format", "json", stdin=log).stdout)
    assert (answer["reason"], answer["root_cause"]["rule"]) == ("DatasetLoadingError", found.id)
    with pytest.raises(RuleError, match="is there already"):
        accept(found, tmp_path / "rules")


def test_what_is_not_confirmed_or_seen_once_suggests_nothing(store: Store) -> None:
    """A rule is knowledge: it needs two witnesses and a person."""
    learn(store, BUNDLES[0])
    store.add_all([incident(text, Reason.DATASET_LOADING_ERROR) for text in BUNDLES])
    assert suggest(store) == ()


@pytest.mark.parametrize(
    "texts",
    [
        ("BundleFault: shard melted", "The gearbox said something else altogether"),
        ("NVRX: Yid (0000:3b:00): code 171, memory lost again", "NVRX: Yid (0000:3b:00): code 172, memory lost again"),
        ("WidgetError: one", "WidgetError: two"),
    ],
    ids=["unlike", "another telling number", "only the class of the exception"],
)
def test_lines_with_too_little_in_common_suggest_nothing(store: Store, texts: tuple[str, str]) -> None:
    """A rule from them would fire on too much."""
    learn(store, *texts)
    assert suggest(store) == ()


def test_what_a_narrow_rule_knows_is_not_suggested(store: Store) -> None:
    """Twice the same knowledge is a burden."""
    line = "NVRM: Xid (PCI:0000:3b:00): 48, pid=3121, An uncorrectable double bit error (DBE) has been detected"
    learn(store, line, line, reason=Reason.ECC_ERROR)
    assert suggest(store) == ()


def test_a_rule_that_fires_on_another_reason_is_refused(store: Store, tmp_path: Path) -> None:
    """With the incident that speaks against it; it cannot be accepted."""
    learn(store, *BUNDLES)
    (other,) = learn(store, "BundleFault: shard 9 of bundle 'w' is unsealed at /srv/w/9", reason=Reason.OS_ERROR)
    (found,) = suggest(store)
    assert f"fires on incident {other}, which is OSError" in found.problems
    with pytest.raises(RuleError, match="did not pass"):
        accept(found, tmp_path)
    assert list(tmp_path.glob("*/*.yaml")) == []


def test_each_wording_may_stand_where_the_common_one_is_too_wide(store: Store) -> None:
    """Two wordings with a third of another reason between them give two rules."""
    for lock in ("amber lock", "violet lock"):
        learn(store, *[f"BundleFault: the {lock} of shard {n} would not open in time" for n in (1, 2)])
    learn(store, "BundleFault: the purple lock of shard 8 would not open in time", reason=Reason.OS_ERROR)
    found = suggest(store)
    assert [item.problems for item in found] == [(), ()]
    assert all("lock" in item.text for item in found)


def test_a_rule_that_fires_on_healthy_output_is_refused(store: Store, tmp_path: Path) -> None:
    """With the log and the line."""
    learn(store, *BUNDLES)
    log = tmp_path / "good.log"
    log.write_bytes(log_of(*steps(1, 5), "BundleFault: shard 5 of bundle 'x' is unsealed at /srv/x/5", *steps(6, 9)))
    (found,) = suggest(store, healthy=[log])
    assert found.problems[0].startswith(f"fires on the healthy log {log}:6: ")


def test_what_healthy_jobs_print_is_refused(store: Store) -> None:
    """The iteration line of a trainer is no failure, whatever people confirmed."""
    learn(store, *[f" iteration {n}/ 5000 | lm loss: 2.{n}1E+00 | grad norm: 1.{n}" for n in (100, 200)])
    (found,) = suggest(store)
    assert any("is what healthy jobs print" in problem for problem in found.problems), found


def test_a_rule_that_wins_another_rules_example_is_refused(store: Store) -> None:
    """With the example and the rule whose it is."""
    mine = ["gear 7 of the loom broke at the weft", "gear 9 of the loom broke at the weft"]
    learn(store, *mine)
    folder = Path(store.place) / "rules"
    write_rule(
        folder,
        "script/loom",
        rule_text("OSError", match=["gear .{1,9} of the loom"], fires=[mine[0], "a long way: " + mine[1]]),
    )
    (found,) = suggest(store, folders=[folder])
    assert any("an example of script/loom" in problem for problem in found.problems), found


def test_examples_are_lines_whose_masked_form_is_the_signature(store: Store) -> None:
    """For nearly all shipped incidents, in both sets of made-up values."""
    wrong = [
        item.id
        for item in store.shipped
        for variant in (0, 1)
        if masked(example_of(item.signature, variant)) != item.signature
    ]
    assert len(wrong) <= 0.03 * len(store.shipped)


def test_words_of_people_cannot_break_the_file(store: Store, tmp_path: Path) -> None:
    """Quotes, braces, colons and line ends in cause and remedy."""
    awful = {"cause": 'It\'s {broken}: "very"\n- yes: #1', "remedy": "Don't {panic}\ttwice: 'ok' %x"}
    store.add_all([incident(text, Reason.DATASET_LOADING_ERROR, confirmed_by="mira", **awful) for text in BUNDLES])
    (found,) = suggest(store)
    assert found.problems == ()
    accept(found, tmp_path / "rules")
    book = RuleBook.load([tmp_path / "rules"])
    rule = next(rule for rule in book.rules if rule.id == found.id)
    assert rule.steps == ("Don't (panic) twice: 'ok' %x",)
    assert not [problem for problem in check(book) if problem.rule == found.id]


def test_the_command_prints_for_review_and_writes_when_told(store: Store, tmp_path: Path) -> None:
    """`rules suggest`, with `--accept` into the folder of `--rules`, made when it is not there."""
    learn(store, *BUNDLES)
    shown = run_logdiag("rules", "suggest", "--memory", store.place)
    assert shown.returncode == 0
    assert shown.stdout.startswith(b"# own/the-seal-was-broken.yaml\nreason: DatasetLoadingError\n")
    written = run_logdiag("rules", "suggest", "--memory", store.place, "--accept", "--rules", tmp_path / "new")
    assert written.stdout.decode().strip() == str(tmp_path / "new" / "own" / "the-seal-was-broken.yaml")
    again = run_logdiag("rules", "suggest", "--memory", store.place, "--rules", tmp_path / "new")
    assert (again.returncode, again.stdout) == (0, b"")
    assert b"nothing to suggest" in again.stderr
    refused = run_logdiag("rules", "suggest", "--memory", store.place, "--accept")
    assert refused.returncode == 2
    assert b"--accept needs a folder to write to; give --rules DIR once" in refused.stderr
