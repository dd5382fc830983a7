"""A fault is got over only where the log goes on well after it."""

from __future__ import annotations

import pytest

from logdiag.rules import RuleBook
from tests.helpers import diagnosed, steps

HUNG = "[  812.100412] tarn 0000:3b:00.0: tarn1: queue 2 head stuck at 0x1c0 for 5000 ms"
HOURS = [
    f"[{second:5d}.114417] tarn 0000:3b:00.0: tarn1: counters of the hour: {40000 + second % 977} requests, 0 kept"
    for second in range(1590, 33000, 3600)
]
WORK = [f"worker {number % 13} opened shard {number}" for number in range(2000)]


def test_a_machine_that_works_on_for_hours_got_over_a_fault(book: RuleBook) -> None:
    """No rule knows that the queue runs again; that nothing else happens for hours tells it."""
    answer = diagnosed(book, HUNG, *HOURS)
    assert (answer.failed, answer.root_cause) == (None, None)
    assert "got_over" in [made.name for made in answer.decisions]


def test_a_fault_that_is_the_last_word_was_not_got_over(book: RuleBook) -> None:
    """The same fault behind the same hours: nothing shows that anything went on."""
    root = diagnosed(book, *HOURS, HUNG.replace("  812", "33812")).root_cause
    assert root is not None
    assert root.line == len(HOURS) + 1


def test_what_was_given_up_or_ended_for_good_is_not_got_over(book: RuleBook) -> None:
    """A machine may work on for hours without the part; a batch system may print a job's output below its report."""
    root = diagnosed(book, f"{HUNG}, giving up", *HOURS).root_cause
    assert root is not None
    assert root.line == 1
    mail = ["TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "Exited with exit code 140.", ""]
    output = [f"19:{at}:07 plate {at} cut, 11.{at} g left" for at in range(10, 40)]
    root = diagnosed(book, *mail, "The output (if any) follows:", "", *output).root_cause
    assert root is not None
    assert root.line == 1


def test_what_belongs_to_a_fault_that_stays_is_not_got_over_either(book: RuleBook) -> None:
    """The kernel calls its killer, and then says whom it killed: the call is the first word of that trouble. Of one
    container its own memory ran out, which the machine got over."""
    call = "[  812.100412] loomd invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0"
    killed = "[  812.104117] Out of memory: Killed process 4711 (loomd) total-vm:1184838kB, anon-rss:16976kB"
    root = diagnosed(book, call, killed, *HOURS).root_cause
    assert root is not None
    assert root.line == 1
    of_a_container = killed.replace("Out of", "Memory cgroup out of")
    assert diagnosed(book, call, of_a_container, *HOURS).root_cause is None


def test_no_program_gets_over_a_fault_of_its_accelerator(book: RuleBook) -> None:
    """Its memory is lost, whatever other processes print on; where a caller says that the job failed, nothing was got
    over at all."""
    lost = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
    assert diagnosed(book, *WORK[:900], lost, *WORK[900:]).reason.value == "ECCError"
    assert diagnosed(book, HUNG, *HOURS, exit_code=1).reason.value == "CUDAError"
    assert diagnosed(book, *steps(1, 20), lost).reason.value == "ECCError"


def test_no_program_gets_over_having_no_memory_if_it_raises_that(book: RuleBook) -> None:
    """What it prints below are its counters."""
    heap = "java.lang.Exception: java.lang.OutOfMemoryError: Java heap space"
    assert diagnosed(book, *steps(1, 20), *WORK[:40], heap, *WORK[40:100]).reason.value == "OutOfMemoryError"


UNIT = "[   31.440871] systemd[1]: Failed to start NetworkManager-wait-online.service - Network Manager."


@pytest.mark.parametrize(
    ("words", "is_over"),
    [
        pytest.param("plate {0} of 90, 0.{1} s", True, id="a count that grows"),
        pytest.param("plate 4 of 90, 0.{1} s", False, id="a count that stays"),
        pytest.param("plate 4: cannot read strip {0}", False, id="a count of trouble"),
    ],
)
def test_lines_that_count_on_are_work_whatever_their_words(book: RuleBook, words: str, is_over: bool) -> None:
    """No rule knows a plate; that the next and the next follow shows that the program works."""
    told = [f"etcher[812]: {words.format(at + 1, 97 - at)}" for at in range(3, 13)]
    assert (diagnosed(book, UNIT, *told).root_cause is None) is is_over


@pytest.mark.parametrize(("started", "is_over"), [("fetchd", True), ("fetchd2", False)])
def test_a_service_that_died_and_was_started_again_is_got_over(book: RuleBook, started: str, is_over: bool) -> None:
    """Until it dies once more."""
    died = "Nov 22 06:30:02 mill-3 systemd[1]: fetchd.service: Main process exited, code=dumped, status=11/SEGV"
    again = f"Nov 22 06:30:07 mill-3 systemd[1]: Started {started}.service - Fetches shards ahead."
    work = [f"Nov 22 06:3{at}:15 mill-3 trainer[660]: update {at} loss 1.7" for at in range(4)]
    assert (diagnosed(book, died, again, *work).root_cause is None) is is_over
    assert diagnosed(book, died, again, died, *work).root_cause is not None


@pytest.mark.parametrize(("failed", "is_over"), [(0, True), (1, False)])
def test_a_hosts_failed_tasks_were_rescued_if_the_summary_counts_none(
    book: RuleBook, failed: int, is_over: bool
) -> None:
    """Ansible counts a task that was rescued or ignored as none that failed."""
    task = 'fatal: [mill-03]: FAILED! => {"attempts": 3, "changed": false, "msg": "Request failed: <urlopen error>"}'
    recap = f"mill-03     : ok=9    changed=2    unreachable=0    failed={failed}    skipped=1    rescued={1 - failed}"
    assert (diagnosed(book, task, recap).root_cause is None) is is_over


REFUSED = "11:20:00 put run/12/part-003: 503 SlowDown, attempt 1"


@pytest.mark.parametrize(
    ("later", "is_over"),
    [
        pytest.param("11:20:02 put run/12/part-003: ok", True, id="the same"),
        pytest.param("11:20:02 put run/12/part-003 has been written", True, id="in another word"),
        pytest.param("11:20:02 put run/12/part-004: ok", False, id="another part"),
        pytest.param("11:20:02 put run/12/part-0031: ok", False, id="a name that only begins so"),
        pytest.param("11:20:02 put run/12/part-003: not ok", False, id="not well"),
        pytest.param("11:20:02 upload: ok", False, id="without a name"),
    ],
)
def test_what_failed_went_well_later_if_the_same_words_say_so(book: RuleBook, later: str, is_over: bool) -> None:
    """What is named must be the same, whatever software prints it."""
    assert (diagnosed(book, REFUSED, later).root_cause is None) is is_over


@pytest.mark.parametrize(("again", "root"), [("9000", 3), ("1021", 1)])
def test_a_device_that_was_reset_and_broke_again_later_had_got_over_the_first_time(
    book: RuleBook, again: str, root: int
) -> None:
    """What a driver tries within a moment is one trouble."""
    ring = "[ {}.100000] amdgpu 0000:c1:00.0: amdgpu: ring comp_1.0.1 timeout, signaled seq=71, emitted seq=73"
    reset = "[ 1012.100000] amdgpu 0000:c1:00.0: amdgpu: GPU reset(1) succeeded!"
    failed = f"[ {int(again) + 10}.100000] amdgpu 0000:c1:00.0: amdgpu: GPU reset(2) failed"
    answer = diagnosed(book, ring.format(1000), reset, ring.format(again), failed).root_cause
    assert answer is not None
    assert answer.line == root


def test_what_went_well_after_the_job_broke_comes_too_late(book: RuleBook) -> None:
    """An operator mends what ended the job: the job is ended all the same."""
    said = "[rank1]: RuntimeError: could not keep the run's files"
    root = diagnosed(book, REFUSED, "trainer: exit 1", said, "12:20:02 put run/12/part-003: ok").root_cause
    assert root is not None
    assert root.text == REFUSED


def test_steps_and_a_good_last_status_make_a_launchers_report_one_of_an_earlier_start(book: RuleBook) -> None:
    """Preempted, started again, and left with 0; a status of 1 proves nothing."""
    stop = "slurmstepd: error: *** JOB 812 ON mill-3 CANCELLED AT 2026-11-22T02:00:10 DUE TO PREEMPTION ***"
    aborted = "srun: Job step aborted: Waiting up to 47 seconds for job step to finish."
    log = [*steps(1, 5), stop, aborted, *steps(5, 9)]
    assert diagnosed(book, *log, "rc=0").root_cause is None
    assert diagnosed(book, *log, "rc=1").reason.value == "NodeFailure"


@pytest.mark.parametrize(
    ("ending", "is_over"),
    [
        (["$ echo $?", "0"], True),
        (["mill@mill-3:~$ echo $?", "0", "mill@mill-3:~$ exit"], True),
        (["$ echo $?", "1"], False),
        (["$ ls", "0"], False),
        (["drill: 4 faults made, 4 checks passed, 0 failed"], True),
        (["drill: 4 of 4 checks passed", "drill: bye"], True),
        (["drill: 4 faults made, 3 checks passed, 1 failed"], False),
    ],
)
def test_a_verdict_on_all_the_work_is_its_clean_end(book: RuleBook, ending: list[str], is_over: bool) -> None:
    """A shell that was asked tells the status 0, or all that was tried is counted and none of it failed: what went
    wrong before, in another command of the paste or as a drill asked for, is past, without any step."""
    away = "fetch: curl: (6) Could not resolve host: pantry.acme.org"
    assert (diagnosed(book, away, "$ ./fold --all", "fold 9 folded", *ending).root_cause is None) is is_over


def test_a_good_last_status_speaks_for_what_was_got_over(book: RuleBook) -> None:
    """A copy that lost its way goes on in words that no rule knows; how its program ends tells that it was got over."""
    lost = "hoard: wire:vault9: connect: No route to host"
    kept = [f"hoard: {item} kept" for item in ("hats", "maps", "seeds", "coins", "lamps")]
    log = [*kept[:4], lost, "hoard: wire:vault9: here again", kept[4], "hoard: all kept"]
    assert diagnosed(book, *log, "rc 0").root_cause is None
    assert diagnosed(book, *log, "rc 2").root_cause is not None


@pytest.mark.parametrize(("state", "is_over"), [("Running", True), ("Waiting", False)])
def test_the_last_end_of_what_runs_now_is_past(book: RuleBook, state: str, is_over: bool) -> None:
    """The state that stands nearest above the end counts: of two containers each has its own."""
    record = ["  helper:", "    State:          Running", "  scorer:", f"    State:          {state}"]
    ended = ["    Last State:     Terminated", "      Reason:       Error", "      Exit Code:    137"]
    assert (diagnosed(book, *record, *ended).root_cause is None) is is_over


@pytest.mark.parametrize(("state", "is_over"), [("complete", True), ("lost", False)])
def test_what_ended_on_the_way_to_a_complete_task_is_past(book: RuleBook, state: str, is_over: bool) -> None:
    """The newest event stands on top."""
    events = ["2026-11-22T07:00:00Z  Started     Task started by client"]
    events += ["2026-11-22T06:30:00Z  Terminated  Exit Code: 137, Signal: 9"]
    assert (diagnosed(book, f"Client Status = {state}", *events).root_cause is None) is is_over


def test_a_machine_that_works_on_for_hours_does_not_bring_back_what_its_kernel_killed(book: RuleBook) -> None:
    """Only its own quiet lines follow, and no job's log is there; a log that reads well changes nothing."""
    quiet = (
        "Mar 22 {}:{:02}:04 mill-3 kernel: [ {}.871000] perf samples too long (1448 > 1428), lowering the rate to {}"
    )
    before, after = ([quiet.format(hour, at, hour * 60 + at, at) for at in range(10, 59)] for hour in (18, 22))
    clock = "Mar 22 19:50:04 mill-3 kernel: [ 1196"
    killed = [
        f"{clock}.817021] loomd invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0",
        f"{clock}.818576] Out of memory: Kill process 3882 (python) score 623 or sacrifice child",
    ]
    assert diagnosed(book, *before, *killed, *after).reason.value == "OutOfMemoryError"


def test_memory_that_was_lost_for_good_is_got_over_by_work_alone(book: RuleBook) -> None:
    """Other parts of the machine are well for hours; only work shows that a process got over it."""
    lost = "[  812.100412] tarn 0000:3b:00.0: hbm2: uncorrectable ECC at 0x12, row 4411"
    root = diagnosed(book, lost, *HOURS).root_cause
    assert root is not None
    assert root.line == 1
    assert diagnosed(book, lost, *HOURS, *steps(0, 20)).root_cause is None


@pytest.mark.parametrize(("made", "recovered"), [(3, True), (1, False)])
def test_a_hint_before_a_failure_was_got_over_where_steps_follow_it(book: RuleBook, made: int, recovered: bool) -> None:
    """Of any rank: it names no cause then, so that the log's lines need not be ranked."""
    hint = "[rank0]: WARNING: could not find the metadata file /checkpoints/gpt/latest_checkpointed_iteration.txt"
    work = [f"[rank7]: {line}" for line in steps(1, made)]
    answer = diagnosed(book, hint, *work, "[rank0]: RuntimeError: CUDA driver error: uncorrectable ECC error")
    assert answer.root_cause is not None
    assert answer.root_cause.line == made + 2
    assert any("No checkpoint was found" in note for note in answer.notes) is recovered
