"""The policy: each path of the default table, and that no sequence of failures loops for ever or stops too early."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from logdiag import Action, LogdiagError, Reason
from logdiag.recovery.ledger import choice_for
from logdiag.recovery.policy import Failure, Policy, decide, load_policy
from logdiag.rules import RuleBook
from tests.helpers import ROOT, diagnosed
from tests.helpers import steps as step_lines

POLICY = load_policy()
TRANSIENT = Failure("log", Reason.NCCL_TIMEOUT_ERROR, Action.RESTART, True, "nccl/time-out", step=10, progressed=True)
BROKEN = Failure("log", Reason.ECC_ERROR, Action.RESTART_EXCLUDING_NODE, True, "nvidia/ecc", "n1", 10, True)
SERVICE = Failure("log", Reason.S3_STORAGE_ERROR, Action.RETRY_LATER, True, "s3/down", step=10, progressed=True)
MEMORY = Failure("log", Reason.OUT_OF_MEMORY_ERROR, Action.REDUCE_MEMORY, True, "memory/out", step=10, progressed=True)
SCRIPT = Failure("log", Reason.NAME_ERROR, Action.FIX_AND_RESUBMIT, True, "python/name-error", step=10, progressed=True)
DISK = Failure("log", Reason.OS_ERROR, Action.FIX_AND_RESUBMIT, True, "file-systems/no-space-left", "", 10, True)
UNKNOWN = Failure("log", Reason.OTHERS, Action.FIX_AND_RESUBMIT, False, step=10, progressed=True)
HANG = Failure("hang", Reason.OTHERS, Action.RESTART, True, step=10, progressed=True)
SPIKE = Failure("spike", Reason.OTHERS, Action.ROLLBACK_AND_SKIP, True, step=10, progressed=True)
DIVERGED = Failure("log", Reason.OTHERS, Action.ROLLBACK_AND_SKIP, True, "training/nan", step=10, progressed=True)


def course(*failures: Failure, policy: Policy = POLICY, can_exclude: bool = True) -> list[str]:
    """What is done about each failure in turn, until a person is asked."""
    steps, history = list[str](), list[Failure]()
    for failure in failures:
        steps.append(decide(policy, failure, history, can_exclude=can_exclude).step)
        if steps[-1] == "stop":
            break
        history.append(failure)
    return steps


def again(failure: Failure, times: int) -> list[Failure]:
    """The same failure again and again, without progress after the first."""
    return [failure, *[replace(failure, progressed=False)] * (times - 1)]


@pytest.mark.parametrize(
    ("failure", "steps"),
    [
        (replace(TRANSIENT, node="n1"), ["restart", "exclude", "stop"]),
        (TRANSIENT, ["restart", "restart", "stop"]),
        (BROKEN, ["exclude", "stop"]),
        (SERVICE, ["wait", "wait", "wait", "wait", "stop"]),
        (DISK, ["wait", "wait", "stop"]),
        (SCRIPT, ["stop"]),
        (MEMORY, ["restart", "stop"]),
        (UNKNOWN, ["restart", "stop"]),
        (replace(UNKNOWN, progressed=False), ["stop"]),
        (replace(HANG, node="n1"), ["restart", "exclude", "stop"]),
        (SPIKE, ["rollback", "rollback", "rollback", "stop"]),
        (DIVERGED, ["rollback", "rollback", "rollback", "stop"]),
    ],
    ids=lambda value: value.rule or value.seen if isinstance(value, Failure) else "",
)
def test_each_path_of_the_table(failure: Failure, steps: list[str]) -> None:
    """The same failure, again and again at the same step."""
    assert course(*again(failure, 9)) == steps


def test_out_of_memory_elsewhere_is_tried_once_more() -> None:
    """At another step it may be a batch; at the same step it comes back for certain."""
    assert course(MEMORY, replace(MEMORY, step=20), replace(MEMORY, step=30)) == ["restart"] * 3
    assert course(MEMORY, replace(MEMORY, step=20), replace(MEMORY, step=20)) == ["restart", "restart", "stop"]


def test_a_failure_that_the_job_got_past_is_a_new_one() -> None:
    """Weeks of training meet the same passing fault more than twice."""
    faults = [replace(TRANSIENT, step=step) for step in range(10, 200, 10)]
    assert course(*faults) == ["restart"] * 19


def test_a_machine_that_fails_again_is_left_out_though_the_job_came_further() -> None:
    """The second failure of one node is no chance, where it can be left out; where not, the job goes on."""
    one, two = replace(TRANSIENT, node="n1"), replace(TRANSIENT, node="n1", step=90)
    assert course(one, two) == ["restart", "exclude"]
    assert course(one, two, replace(two, step=95), can_exclude=False) == ["restart"] * 3


def test_a_service_that_is_down_now_and_then_is_no_machine_that_fails() -> None:
    """It is named by the rank that met it; with progress in between each time is the first."""
    met = [replace(SERVICE, node="n1", step=step) for step in range(0, 90, 10)]
    assert course(*met) == ["wait"] * 9


def test_what_nobody_knows_is_restarted_once_whatever_comes_between() -> None:
    """Also with progress: an answer that is not sure has no more than the table's one restart."""
    assert course(UNKNOWN, TRANSIENT, replace(UNKNOWN, step=99)) == ["restart", "restart", "stop"]


def test_one_nodes_fault_does_not_use_up_anothers_budget() -> None:
    """Each of five nodes is left out in its turn."""
    assert course(*(replace(BROKEN, node=f"n{number}") for number in range(5))) == ["exclude"] * 5


def test_alternating_faults_come_to_an_end() -> None:
    """Faults that take turns without progress spend the budget of restarts in vain."""
    stuck = [replace(BROKEN, node=f"n{number}", progressed=False) for number in range(50)]
    steps = course(*stuck)
    assert steps == ["exclude"] * POLICY.budget.without_progress + ["stop"]
    assert "brought it no further" in decide(POLICY, stuck[5], stuck[:5], can_exclude=True).why


def test_the_reason_is_a_sentence_for_people() -> None:
    """It names the row of the table, the time, and what is done."""
    choice = decide(POLICY, replace(BROKEN, node="n7"), [], can_exclude=True)
    assert (choice.node, choice.why) == ("n7", "a broken machine, the first time: restarted without n7")
    elsewhere = decide(POLICY, BROKEN, [], can_exclude=False)
    assert elsewhere.step == "restart"
    assert "cannot be left out" in elsewhere.why
    assert [decide(POLICY, SERVICE, [SERVICE] * n, can_exclude=True).seconds for n in (0, 0)] == [60, 60]
    assert decide(POLICY, replace(SERVICE, progressed=False), [SERVICE], can_exclude=True).seconds == 120


FAILURES = st.builds(
    Failure,
    seen=st.sampled_from(("log", "log", "log", "hang", "spike")),
    reason=st.sampled_from([reason for reason in Reason if reason is not Reason.NONE]),
    advice=st.sampled_from(list(Action)),
    known=st.booleans(),
    rule=st.sampled_from(("", "a/b", "file-systems/no-space-left")),
    node=st.sampled_from(("", "n1", "n2", "n3")),
    step=st.none() | st.integers(0, 5),
    progressed=st.booleans(),
)


@given(pattern=st.lists(FAILURES, min_size=1, max_size=6), can_exclude=st.booleans(), restarts=st.integers(0, 12))
def test_no_sequence_of_failures_restarts_for_ever(pattern: list[Failure], can_exclude: bool, restarts: int) -> None:
    """However faults take turns: after the budget at the latest a person is asked."""
    policy = load_policy(restarts=restarts)
    steps = course(*(pattern * (restarts + 1)), policy=policy, can_exclude=can_exclude)
    assert steps[-1] == "stop"
    assert len(steps) <= restarts + 1


@given(pattern=st.lists(FAILURES, min_size=1, max_size=60), can_exclude=st.booleans())
def test_a_stop_is_the_tables_or_a_spent_budgets(pattern: list[Failure], can_exclude: bool) -> None:
    """Where the row that fits still has a restart for a failure, and no budget is spent, it is restarted."""
    history: list[Failure] = []
    for failure in pattern:
        choice = decide(POLICY, failure, history, can_exclude=can_exclude)
        assert choice == decide(POLICY, failure, list(history), can_exclude=can_exclude)
        row = next(row for row in POLICY.rows if row.name == choice.row)
        came = sum(earlier.fingerprint == failure.fingerprint for earlier in history) + 1
        in_vain = next(
            (n for n, earlier in enumerate(reversed([*history, failure])) if earlier.progressed), len(history) + 1
        )
        spent = len(history) >= POLICY.budget.restarts or in_vain > POLICY.budget.without_progress
        assert choice.times <= came
        if choice.step == "stop":
            assert spent or row.do[min(came, len(row.do)) - 1] == "stop"
            break
        assert not spent
        assert row.do[choice.times - 1] != "stop"
        history.append(failure)


@given(pattern=st.lists(FAILURES.filter(lambda failure: not failure.known), min_size=2, max_size=20))
def test_what_is_not_sure_acts_once_at_most(pattern: list[Failure]) -> None:
    """Below 0.6 and for `not known`, whatever is advised, seen or named."""
    unsure = [replace(failure, seen="log") for failure in pattern if failure.advice is not Action.REDUCE_MEMORY]
    steps = course(*unsure)
    assert [step for step in steps if step != "stop"] in ([], ["restart"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("retries: 3\n", ":1: retries: Extra inputs are not permitted"),
        ("hang: {factor: 3}\n", ":1: hang.factor: Extra inputs"),
        ("budget:\n  restarts: many\n", ":2: budget.restarts: Input should be a valid integer"),
        ("rows:\n  - {name: all, do: [reboot, stop]}\n", "do.0: Input should be 'restart'"),
        ("rows:\n  - {name: all, do: [restart]}\n", "ends with stop"),
        ("rows:\n  - {name: some, advice: [restart], do: [stop]}\n", "the last row must have no condition"),
        ("rows: [\n", "not valid YAML"),
    ],
)
def test_a_policy_that_is_wrong_is_refused_with_its_place(tmp_path: Path, text: str, wanted: str) -> None:
    """File, line, key and remedy."""
    file = tmp_path / "policy.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(LogdiagError) as refused:
        load_policy(str(file))
    assert wanted in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_policy_replaces_only_what_it_names(tmp_path: Path) -> None:
    """The rest is the default one."""
    file = tmp_path / "policy.yaml"
    file.write_text("hang: {at_least: 7}\n", encoding="utf-8")
    policy = load_policy(str(file), restarts=3)
    assert (policy.hang.at_least, policy.hang.times, policy.budget.restarts) == (7, POLICY.hang.times, 3)
    assert policy.rows == POLICY.rows


def test_the_table_in_the_documentation_is_the_default_policy() -> None:
    """Row by row: name and what is done each time."""
    default = yaml.safe_load((ROOT / "logdiag/recovery/policy.yaml").read_text(encoding="utf-8"))
    page = (ROOT / "docs/recovery.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in page.splitlines() if row.startswith("| ")]
    shown = {cells[0]: cells[-1] for cells in rows if cells[-1].endswith("stop")}
    assert shown == {row["name"]: ", ".join(row["do"]) for row in default["rows"]}


WATCHDOG = (
    "[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=90, OpType=ALLREDUCE) ran for 600000 ms"
)


def test_a_schedulers_job_goes_by_the_same_table(book: RuleBook, tmp_path: Path) -> None:
    """A passing fault on one node, by its name with or without the domain: restarted, then without it, then for a
    person, after whom it begins anew. Asked again about a run it says the same; a run that is fine is left alone."""
    answer = diagnosed(book, *step_lines(1, 40, "cn7.cluster: "), f"cn7.cluster: {WATCHDOG}", exit_code=1)

    def decided(run: int, **further: str) -> tuple[str, str]:
        job = {"id": "4711", "nodes": "cn6,cn7", "state": "FAILED", "started": f"10:0{run}", **further}
        told = choice_for(replace(answer, job=job), POLICY, str(tmp_path))
        return told.get("choice", ""), told.get("choice_node", "")

    assert [decided(run) for run in (1, 1, 2, 2, 3, 4)] == [
        ("restart", ""), ("restart", ""), ("exclude", "cn7"), ("exclude", "cn7"), ("stop", ""), ("restart", "")
    ]  # fmt: skip
    assert [decided(5, state=state) for state in ("RUNNING", "COMPLETED", "CANCELLED")] == [("", "")] * 3
    assert decided(1, id="4712", nodes="cn8") == ("restart", "")
    assert decided(2, id="4712", nodes="cn8") == ("restart", "")
