"""How a log ends is a key of its own, and an exit status is put into words."""

from __future__ import annotations

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.judge.judgement import judge
from logdiag.judge.outcome import Outcome
from logdiag.judge.status_words import status_words
from logdiag.judge.suspects.ranked import Ranking
from logdiag.model import Ended
from logdiag.read.sources import open_sources
from logdiag.report import render
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes
from logdiag.scan.survey import survey
from tests.helpers import diagnosed, log_of, steps, traceback_of

DONE = "2026-11-20 03:06:00 INFO Training completed."


@pytest.mark.parametrize(
    ("lines", "exit_code", "ended", "failed"),
    [
        ([*steps(1, 100), DONE], None, Ended.CLEAN, False),
        ([*steps(1, 100), "exit status 0"], None, Ended.CLEAN, False),
        ([*steps(1, 100), "[main] lamp out, code 0"], None, Ended.CLEAN, False),
        (steps(1, 100), 0, Ended.CLEAN, False),
        (steps(1, 100), None, Ended.STOPS, False),
        ([*steps(1, 100), *traceback_of("KeyError: 'caption'")], None, Ended.FAILED, True),
        (steps(1, 100), 137, Ended.FAILED, True),
        ([], None, Ended.UNKNOWN, None),
    ],
    ids=["done", "status-0", "code-0", "caller-0", "stops", "traceback", "caller-137", "empty"],
)
def test_a_controller_can_tell_how_the_log_ended(
    book: RuleBook, lines: list[str], exit_code: int | None, ended: Ended, failed: bool | None
) -> None:
    """A clean exit, a log that merely stops and an empty one are three different answers."""
    answer = diagnosed(book, *lines, exit_code=exit_code)
    assert (answer.ended, answer.failed) == (ended, failed)
    assert answer.to_dict()["ended"] == ended.value
    assert Diagnosis.from_dict(answer.to_dict()).ended is ended


@pytest.mark.parametrize(("last", "chance"), [("[main] lamp out, code 0", 0.96), ("waiting for the next batch", 0.6)])
def test_neither_steps_nor_a_status_prove_a_log_healthy_that_looks_like_a_failures(
    book: RuleBook, last: str, chance: float
) -> None:
    """Steps do below half a chance of a failure, a status of 0 where it is not all but sure; a clean end in words that
    rules know does where no line stands out."""
    doubtful, calm = Ranking(failure=chance), Ranking(failure=0.4)
    assert _outcome(book, [*steps(1, 100), last], doubtful) is Outcome.NOT_KNOWN
    assert _outcome(book, [*steps(1, 100), last], calm) is Outcome.HEALTHY
    assert _outcome(book, [*steps(1, 100), DONE], doubtful) is Outcome.HEALTHY


@pytest.mark.parametrize(
    ("rest", "failed"),
    [
        ([], True),
        (["10:10:09 loom/2: ready"], None),
        (["10:10:09 loom/1: ready"], True),
        (["10:10:09 loom/2: ready", "10:11:09 loom/2: cannot load the sheet of 7 threads: torn at row 12"], True),
    ],
    ids=["the last word", "well later", "another is well", "again"],
)
def test_what_stands_out_and_went_well_later_is_no_failure(
    book: RuleBook, rest: list[str], failed: bool | None
) -> None:
    """No rule knows the line that stands out, or how it was mended; that the very thing is ready tells enough."""
    told = [
        "10:00:01 keeper: unit loom/2 put on mill-3",
        "10:00:09 loom/2: cannot load the sheet of 7 threads: torn at row 12",
        "10:00:19 keeper: unit loom/2 rests 10s",
        "10:09:40 keeper: undo by tove, loom/2 back to sheet 4",
    ]
    assert diagnosed(book, *told, *rest).failed is failed


def _outcome(book: RuleBook, lines: list[str], suspects: Ranking) -> Outcome:
    found = survey(open_sources((log_of(*lines),)), book, Shapes(book, book.filters))
    return judge(found, book, suspects=lambda: suspects).outcome


def test_one_bad_status_among_the_processes_last_ones_is_a_failure(book: RuleBook) -> None:
    """Each process has a status of its own in the last lines; that the last of them is 0 says nothing of the others."""
    seats = [f"03:10:0{seat} keeper end {name} code {code}" for seat, name, code in
             [(1, "amber", 0), (2, "fawn", 12), (3, "coral", 0)]]  # fmt: skip
    assert diagnosed(book, *steps(1, 100), *seats).failed is True
    assert diagnosed(book, *steps(1, 100), *[line.replace("12", "0") for line in seats]).failed is False


@pytest.mark.parametrize(
    ("last", "chance", "outcome"),
    [
        ("10:00:19 I mill: doors closed, 9", 0.6, Outcome.FAILED),
        ("10:00:19 I mill: doors closed, 9", 0.4, Outcome.HEALTHY),
        ("mill.go:251: warp order failed; looms down: 8 of 8", 0.4, Outcome.FAILED),
        ("mill.go:251: warp order failed; looms down: 8 of 8", 0.3, Outcome.NOT_KNOWN),
    ],
)
def test_a_bare_number_or_a_few_words_at_the_end_are_a_status_where_the_log_looks_like_a_failures(
    book: RuleBook, last: str, chance: float, outcome: Outcome
) -> None:
    """Else a number may count anything; words that the whole failed tell more, whatever it is called."""
    assert _outcome(book, [*steps(1, 100), last], Ranking(failure=chance)) is outcome


@pytest.mark.parametrize(("last", "failed"), [("mill closed: 3 wound, 1 lost", True), ("mill closed: 4 wound", False)])
def test_a_sum_in_which_some_failed_is_no_clean_end(book: RuleBook, last: str, failed: bool) -> None:
    """Where the lines look like a failure's, whatever the statuses of the others are."""
    looms = [f"10:00:0{at} loom {at} wound (status 0)" for at in range(3)]
    lines = ["10:00:00 mill: 4 looms", "10:00:01 loom 3: the thread is torn, loom 3 put ashore", *looms, last]
    answer = diagnosed(book, *lines)
    assert answer.failed is failed


def test_a_shell_that_is_asked_for_a_status_and_more_tells_it(book: RuleBook) -> None:
    """Its answer is the next line, whatever else was asked in the same breath."""
    lines = ["root@mill-3:/# weave --all", "Error! Bad return status for module build on kernel: 5.15.0-91 (x86_64)"]
    assert diagnosed(book, *lines, "root@mill-3:/# echo $?; uname -r", "0", "5.15.0-116").failed is False
    assert diagnosed(book, *lines, "root@mill-3:/# echo $?; uname -r", "2", "5.15.0-116").failed is True


def test_a_shells_answer_is_a_status_where_a_bare_number_is_none(book: RuleBook) -> None:
    """A bare number is one only where the lines look like a failure's. What ends well below it is a later run."""
    lines = ["$ weave --all", *(f"weave: board {number} done" for number in range(9))]
    assert diagnosed(book, *lines, "$ echo $?", "7").failed is True
    assert diagnosed(book, *lines, "$ echo $?", "0").failed is False
    assert diagnosed(book, *lines, "7").failed is not True
    assert diagnosed(book, *lines, "$ echo $?", "7", "$ weave --all", "weave left with status 0").failed is False


def test_a_hint_before_a_good_last_status_is_no_root(book: RuleBook) -> None:
    """A part may fail that nobody needs."""
    lines = ["mill-2 SUCCEEDED", "old-mill FAILED*, optional", "old-mill 10:21 FileNotFoundError: /in/old (none here)"]
    assert diagnosed(book, *lines, "flow #2201 SUCCEEDED in 2 h").root_cause is None
    assert diagnosed(book, *lines, "flow #2201 waits").root_cause is not None
    assert diagnosed(book, "mill-1 left with status 0", *lines).root_cause is not None


def test_a_helpers_bad_status_is_not_the_jobs(book: RuleBook) -> None:
    """What another program printed of itself in other words is no status of a process of the job."""
    lines = ["03:10:01 prefetcher of shard 4 went away with code 3", "03:10:02 keeper: run 12 left, code 0"]
    assert diagnosed(book, *steps(1, 100), *lines).failed is False


def test_what_was_not_read_has_no_known_end(book: RuleBook) -> None:
    """A bound ended the reading, not the job."""
    answer = diagnose(log_of(*steps(1, 500), DONE), rules=book, max_bytes=4000)
    assert (answer.failed, answer.ended) == (None, Ended.UNKNOWN)


def test_a_log_that_the_caller_says_went_well_does_not_stop(book: RuleBook) -> None:
    """Who gives the exit code is not asked for it again."""
    text = render(diagnosed(book, *steps(1, 100), exit_code=0))
    assert "LOG STOPS" not in text
    assert "--exit-code-of-job" not in text
    assert "LOG STOPS" in render(diagnosed(book, *steps(1, 100)))


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (137, "killed with SIGKILL: often out of memory, a time limit or scancel"),
        (-9, "killed with SIGKILL: often out of memory, a time limit or scancel"),
        (143, "SIGTERM"),
        (139, "SIGSEGV"),
        (134, "SIGABRT"),
        (124, "time limit"),
    ],
)
def test_the_jobs_exit_code_is_put_into_words(book: RuleBook, exit_code: int, words: str) -> None:
    """137 is a number that few know at three in the morning."""
    answer = diagnosed(book, *steps(1, 100), exit_code=exit_code)
    assert f"exit code {exit_code} (" in answer.summary
    assert words in answer.summary


def test_a_programs_own_code_tells_no_more(book: RuleBook) -> None:
    """1 and 2 mean what the program likes."""
    assert [status_words(code) for code in (0, 1, 2, 200, None, "", "x", "-")] == [""] * 8
    assert "exit code 1, and" in diagnosed(book, *steps(1, 100), exit_code=1).summary


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("srun: error: node-3: task 2: Exited with exit code 137", "Often out of memory, a time limit or scancel."),
        ("exit status 137", "Often out of memory, a time limit or scancel."),
        ("[entrypoint] exit code 143", "Often a time limit, preemption"),
        ("Job finished, rc=139", "(SIGSEGV)"),
        ("Process 12 exited with exit code 140", "SIGUSR2: often a scheduler's warning"),
        ("rank 3 exited on signal 9 (Killed).", "Often out of memory"),
    ],
)
def test_a_bare_status_in_the_log_is_a_failure_in_words(book: RuleBook, line: str, words: str) -> None:
    """The log's last line is all that is known; it is no clean end, and the summary says what is often behind it."""
    answer = diagnosed(book, *steps(1, 100), line)
    assert (answer.failed, answer.ended) == (True, Ended.FAILED)
    assert answer.root_cause is not None
    assert answer.root_cause.text == line
    assert words in answer.summary


def test_every_signal_has_words() -> None:
    """As a shell adds 128 to it, and as Python negates it."""
    for signal in (1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 15, 24, 25):
        assert status_words(128 + signal) == status_words(-signal) == status_words(f"-{signal}") != ""


def test_an_unsure_answer_acts_on_nothing(book: RuleBook) -> None:
    """What would need no person needs one where the answer is not sure, and the report calls it advice."""
    nan = [f"step {at} loss nan grad_norm nan" for at in range(30, 60)]
    unsure = diagnosed(book, *(f"step {at} loss {3 / (at + 1):.3f}" for at in range(30)), *nan)
    sure = diagnosed(book, *steps(1, 200), *traceback_of("RuntimeError: CUDA error: unspecified launch failure"))
    assert unsure.recovery.action.automatic
    assert (unsure.recovery.automatic, sure.recovery.automatic) == (False, True)
    assert "(advice, for it is not sure: needs a person)" in render(unsure)
    assert "(no person needed)" in render(sure)


def _event(code: str, cluster: int, *said: str) -> list[str]:
    """An event of a job in HTCondor's log."""
    head = f"{code} ({cluster:04d}.000.000) 2026-11-20 03:06:00 "
    return [head + said[0], *(f"\t{line}" for line in said[1:]), "..."]


@pytest.mark.parametrize(("ended", "failed"), [(412, True), (411, False)], ids=["another", "the-same"])
def test_the_clean_end_of_one_job_clears_no_fault_of_another(book: RuleBook, ended: int, failed: bool) -> None:
    """A scheduler's log tells of several jobs: one that was held is still held when another ends well."""
    held = _event("012", 411, "Job was held.", "Job has gone over memory limit of 8192 megabytes. Peak usage: 8204.")
    well = _event("005", ended, "Job terminated.", "(1) Normal termination (return value 0)")
    started = [line for cluster in (411, 412) for line in _event("001", cluster, "Job executing on host: <10.0.0.7>")]
    assert diagnosed(book, *started, *held, *well).failed is failed


def test_a_job_that_is_stopped_after_another_ended_well_has_failed(book: RuleBook) -> None:
    """A stop after the clean end of the same job changes nothing; another job's end says nothing of this one."""
    well = _event("005", 412, "Job terminated.", "(1) Normal termination (return value 0)")
    stopped = _event("005", 411, "Job terminated.", "(0) Abnormal termination (signal 15)")
    started = [line for cluster in (411, 412) for line in _event("001", cluster, "Job executing on host: <10.0.0.7>")]
    assert diagnosed(book, *started, *well, *stopped).failed


def test_a_child_that_is_stopped_before_the_programs_clean_end_fails_nothing(book: RuleBook) -> None:
    """Of a child only the stop is spared: an exception of its own may be why the program ended."""
    ended = ["final return 190.25, policy.pt written", "Training completed"]
    for raised, failed in (("KeyboardInterrupt", False), ("IndexError: list index out of range", True)):
        began = '  File "/usr/lib/python3.11/multiprocessing/process.py", line 314, in _bootstrap'
        child = ["Process Actor-1:", "Traceback (most recent call last):", began, "    self.run()", raised]
        assert diagnosed(book, *steps(1, 9), *child, *ended).failed is failed
