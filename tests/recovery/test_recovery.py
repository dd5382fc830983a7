"""What to do next comes from tables that people wrote: the rule's action, or the reason's default."""

from __future__ import annotations

import pytest

from logdiag import Action, Reason
from logdiag.rules import RuleBook
from tests.helpers import SHARED, diagnosed, steps, traceback_of, watchdog

XID79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus."
# A start that is long enough to tell that no step was made.
LOADING = [f"loading shard {number} of the model" for number in range(300)]
LAUNCH_FAILURE = traceback_of("RuntimeError: CUDA error: unspecified launch failure")


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.NONE])
def test_every_reason_has_a_default_steps_and_what_to_collect(book: RuleBook, reason: Reason) -> None:
    """The table is exhaustive, its actions are of the closed list, its words are not empty."""
    entry = book.reasons[reason]
    assert Action(entry.action) is not Action.NONE or reason is Reason.OTHERS
    assert entry.action_before_progress is None or Action(entry.action_before_progress)
    assert entry.steps
    assert all(step.strip() for step in (*entry.steps, *entry.collect))
    assert entry.collect
    assert all(Reason(name) is not reason for name in entry.explains)


def test_every_action_of_a_rule_is_of_the_closed_list(book: RuleBook) -> None:
    """Also in the rows of its table of codes."""
    for rule in book.rules:
        for fields in ({"action": rule.action, "early": rule.action_before_progress}, *rule.rows.values()):
            for name in ("action", "early", "action_before_progress"):
                assert fields.get(name) is None or Action(fields[name])


@pytest.mark.skipif(not (SHARED / "LABELS.md").exists(), reason="the shared label description is not here")
@pytest.mark.parametrize(
    ("action", "reasons"),
    [
        ("restart_excluding_node", "ECCError NVLinkError"),
        ("retry_later", "S3StorageError ConnectionError"),
        ("reduce_memory", "OutOfMemoryError"),
        (
            "fix_and_resubmit",
            "AttributeError AssertionError ValueError ZeroDivisionError ModelLoadingError DatasetLoadingError"
            " FileNotFoundError TypeError NameError PermissionError ImportError KeyError SyntaxError ArgumentError"
            " IndexError RuntimeError",
        ),
    ],
)
def test_defaults_are_those_of_the_label_description(book: RuleBook, action: str, reasons: str) -> None:
    """Where LABELS.md names one default for a reason without conditions."""
    assert {reason: book.reasons[Reason(reason)].action for reason in reasons.split()} == dict.fromkeys(
        reasons.split(), action
    )


def test_the_restart_is_told_once(book: RuleBook) -> None:
    """In the rule's own words where it has some, else with the node to leave out."""
    stopped = "slurmstepd: error: *** JOB 4711 ON gpu018 CANCELLED AT 2026-11-20T22:15:12 DUE TO TIME LIMIT ***"
    broken = (
        "2026-11-20 03:00:00 gpu018 kernel: EXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: comm sh"
    )
    for log, first in ((stopped, "Start again from the last checkpoint; ask for more time"), (broken, "Restart")):
        recovery = diagnosed(book, *steps(1, 50), log).recovery
        again = [step for step in recovery.steps if "from the last checkpoint" in step]
        assert len(again) == 1, recovery
        assert again[0].startswith(first)


def test_a_cuda_error_before_the_first_step_needs_a_person(book: RuleBook) -> None:
    """At the very first kernel it is a configuration; after good steps it is worth a restart."""
    before = diagnosed(book, *LOADING, *LAUNCH_FAILURE).recovery
    after = diagnosed(book, *steps(1, 200), *LAUNCH_FAILURE).recovery
    assert (before.action, before.automatic) == (Action.FIX_AND_RESUBMIT, False)
    assert (after.action, after.automatic) == (Action.RESTART, True)


WORK = [f"10:{at:02d}:00 lathe {lathe} of 2: notch {at} cut in 2.1 s" for at in range(1, 40) for lathe in (0, 1)]


def advised(book: RuleBook, told: str) -> Action:
    """The action after work and last words that no rule knows, which a person is to carry out."""
    recovery = diagnosed(book, *WORK, f"11:10:00 {told}", "11:10:01 shop closed with status 3").recovery
    assert not recovery.automatic
    return recovery.action


def test_steps_may_have_been_made_in_words_that_no_rule_knows(book: RuleBook) -> None:
    """Where the root too is told by its words, no lack of known steps speaks against a restart; a person decides."""
    hung = "lathe 1 of 2: ERROR gather 40 not complete after 600 s, the part of lathe 0 is missing"
    assert advised(book, hung) is Action.RESTART


@pytest.mark.parametrize(
    ("told", "action"),
    [
        ("lathe 1 of 2: ERROR loss is not a number at notch 40, the guard stops the shop", Action.ROLLBACK_AND_SKIP),
        ("shop: WARN the time of this booking is used up, everyone out", Action.RESTART),
        ("shop: NOTE cancel asked by user ada at the desk", Action.NONE),
        ("shop: WARN elm-7 is taken back by its owner for a job of higher class, 30 s", Action.RESTART),
        ("lathe 1 of 2: ERROR bucket oak: no such object as part 7 (404)", Action.FIX_AND_RESUBMIT),
        ("lathe 1 of 2: ERROR loader 3 ended by signal 7 while filling a page of shared memory", Action.REDUCE_MEMORY),
        ("lathe 1 of 2: ERROR read of /scr/wool.4 came back EIO, medium unreadable", Action.RESTART_EXCLUDING_NODE),
        ("lathe 1 of 2: ERROR card 1 is gone from the bus and does not answer", Action.RESTART_EXCLUDING_NODE),
        ("lathe 1 of 2: ERROR card 1: the library needs driver 71 or newer, elm-7 has 70", Action.FIX_AND_RESUBMIT),
    ],
)
def test_the_words_of_a_root_may_tell_what_to_do(told: str, action: Action, book: RuleBook) -> None:
    """Where its reason alone advises something else: the table of reasons has it, beside the kind of line."""
    assert advised(book, told) is action


def test_the_table_of_reasons_names_kinds_of_lines_that_there_are(book: RuleBook) -> None:
    """No advice is lost to a wrong name."""
    named = {kind for entry in book.reasons.values() for kind in entry.by_words}
    assert named <= {rule.id.rpartition("/")[2] for rule in book.rules if rule.id.startswith("context/kinds/")}
    assert len(named) > 5


def test_a_time_out_after_progress_is_worth_a_restart(book: RuleBook) -> None:
    """A hang after hours of steps is not the program's doing."""
    assert diagnosed(book, *steps(1, 200), *map(watchdog, range(4))).recovery.action is Action.RESTART


def test_the_why_says_where_the_job_stood(book: RuleBook) -> None:
    """When the action depends on it, the reader learns what was seen."""
    assert "progress" in diagnosed(book, *steps(1, 200), *LAUNCH_FAILURE).recovery.why
    assert "before" in diagnosed(book, *LOADING, *LAUNCH_FAILURE).recovery.why


def test_a_log_too_short_to_tell_claims_no_progress(book: RuleBook) -> None:
    """The end of a log says nothing of what came before it, so neither does the answer."""
    why = diagnosed(book, *LAUNCH_FAILURE).recovery.why
    assert "had made progress" not in why


@pytest.mark.parametrize(
    "around",
    [
        ["x:7:9 [1] NCCL INFO Channel 04/0 : 9[1] -> 10[2] via P2P/IPC/read"],
        ["x:7:9 [1] NCCL INFO init.cc:1358 -> 6"],
        ["[rank1]: Traceback (most recent call last):", '[rank1]:   File "c10d.py", line 9, in init_process_group'],
    ],
    ids=["channels", "the trail of calls", "a frame"],
)
def test_a_communicator_that_is_set_up_shows_the_start_in_a_short_log(book: RuleBook, around: list[str]) -> None:
    """A peer that is lost then was never reached: a configuration, not a fault."""
    lost = "x:7:8 [1] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node-2<48206>"
    assert diagnosed(book, lost, *around).recovery.action is Action.FIX_AND_RESUBMIT
    assert diagnosed(book, lost).recovery.action is Action.RESTART


def test_the_failing_node_is_excluded(book: RuleBook) -> None:
    """It comes from the evidence: the line's own prefix."""
    recovery = diagnosed(book, f"Mar 11 18:04:11 gpu-node12 kernel: {XID79}").recovery
    assert recovery.action is Action.RESTART_EXCLUDING_NODE
    assert recovery.exclude_nodes == ("gpu-node12",)
    assert any("gpu-node12" in step for step in recovery.steps)


def test_no_node_is_excluded_without_evidence(book: RuleBook) -> None:
    """Where no line names the node, none is guessed, and the steps still read as a sentence."""
    recovery = diagnosed(book, f"[ 1000.123456] {XID79}").recovery
    assert recovery.action is Action.RESTART_EXCLUDING_NODE
    assert recovery.exclude_nodes == ()
    assert all("{" not in step and "None" not in step for step in recovery.steps)


def test_a_node_is_not_excluded_for_what_a_person_must_fix(book: RuleBook) -> None:
    """A KeyError on a named node says nothing against the node."""
    recovery = diagnosed(book, *steps(1, 20), *traceback_of("KeyError: 'caption'", prefix="node-3: ")).recovery
    assert recovery.action is Action.FIX_AND_RESUBMIT
    assert recovery.exclude_nodes == ()


def test_only_the_failing_node_is_excluded_among_many(book: RuleBook) -> None:
    """The nodes on which consequences show are not to blame."""
    lines = [f"gpu-node{n}: {watchdog(n)}" for n in range(1, 6)]
    answer = diagnosed(book, *steps(1, 50), f"Mar 11 18:04:11 gpu-node7 kernel: {XID79}", *lines)
    assert answer.recovery.exclude_nodes == ("gpu-node7",)


def test_a_healthy_log_needs_nothing(book: RuleBook) -> None:
    """No action, no steps, nobody called."""
    recovery = diagnosed(book, *steps(1, 50)).recovery
    assert (recovery.action, recovery.automatic, recovery.exclude_nodes, recovery.steps) == (Action.NONE, False, (), ())


def test_a_failure_without_a_cause_says_what_to_collect(book: RuleBook) -> None:
    """A person has to look, and is told at what."""
    recovery = diagnosed(book, *steps(1, 50), exit_code=1).recovery
    assert recovery.action is Action.FIX_AND_RESUBMIT
    assert not recovery.automatic
    assert recovery.steps


@pytest.mark.parametrize(
    "lines",
    [
        [*steps(1, 50), *traceback_of("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.81 GiB.")],
        [*steps(1, 50), *traceback_of("KeyError: 'caption'")],
        [f"gpu-node12 kernel: {XID79}"],
        [*steps(1, 50), *LAUNCH_FAILURE],
    ],
    ids=["memory", "code", "gpu", "kernel"],
)
def test_automatic_means_that_no_person_is_needed(book: RuleBook, lines: list[str]) -> None:
    """Of a sure answer the flag is the action's own, and every failure comes with a reason and steps."""
    recovery = diagnosed(book, *lines).recovery
    assert recovery.automatic is recovery.action.automatic
    assert recovery.why.strip()
    assert recovery.steps


def test_a_gpu_that_another_line_calls_lost_leaves_its_node_out(book: RuleBook) -> None:
    """Of a GPU that is gone a process only says that a call failed; a call that failed alone is tried again."""
    failed = traceback_of("torch.AcceleratorError: CUDA error: unspecified launch failure")
    lost = "Unable to determine the device handle for GPU1: 0000:2A:00.0: GPU is lost.  Reboot it"
    assert diagnosed(book, *steps(1, 60), *failed).recovery.action is Action.RESTART
    assert diagnosed(book, *steps(1, 60), *failed, lost).recovery.action is Action.RESTART_EXCLUDING_NODE


def test_a_fault_that_is_named_itself_keeps_its_own_action(book: RuleBook) -> None:
    """A program that touched a wrong address is not a machine's fault, though the kernel then resets the GPU."""
    fault = (
        "Memory access fault by GPU node-1 (Agent handle: 0x55ac14d27600) on address 0x7f9587e00000. Reason: Unknown."
    )
    reset = "kernel: amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!"
    answer = diagnosed(book, *steps(1, 60), fault, reset)
    assert (answer.reason, answer.recovery.action) == (Reason.CUDA_ERROR, Action.RESTART)
