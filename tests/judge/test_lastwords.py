"""What a program said before it left with an error code is the root, not the launcher's report of the code."""

from __future__ import annotations

import pytest

from logdiag import Diagnosis
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, steps, traceback_of
from tests.judge.test_causes import API, LAUNCHER, rank_of, root_line

GIVES_UP = "2026-03-11 18:14:39,120 ERROR planner: stage 2 has no device left to run on"


def reason_of(answer: Diagnosis) -> str:
    """The reason that was answered."""
    return answer.reason.value


def test_a_record_of_trouble_before_an_exit_code_is_the_root(book: RuleBook) -> None:
    """Words that no rule knows name their reason by meaning at most, never surely, at their line and of the rank that
    the launcher saw fail."""
    answer = diagnosed(book, *steps(1, 30), GIVES_UP, *LAUNCHER)
    assert (root_line(answer), rank_of(answer)) == (31, 0)
    assert answer.confidence < 0.7
    assert not any("not in this log" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("CRITICAL could not ask the seat server: Connection refused", "ConnectionError"),
        ("ERROR the seat server said HTTP status 503", "ConnectionError"),
        ("ERROR could not lock the index: Permission denied", "PermissionError"),
        ("error: failed to read the vocabulary: No such file or directory", "FileNotFoundError"),
        ("pack: cannot grow the arena: Cannot allocate memory", "OutOfMemoryError"),
        ("fatal: cannot send the shard: No route to host", "NetworkError"),
    ],
)
def test_the_reason_is_what_the_words_say(book: RuleBook, line: str, reason: str) -> None:
    """With a level or as a plain line, the system's own words name the reason."""
    answer = diagnosed(book, *steps(1, 30), line, *LAUNCHER)
    assert (reason_of(answer), root_line(answer)) == (reason, 31)


def test_the_last_line_that_names_a_reason_is_taken_at_its_first_time(book: RuleBook) -> None:
    """Three tries that fail alike and a farewell: the first of the tries."""
    tries = [f"2026-03-11 18:14:3{n} ERROR try {n}: could not ask the seat server: Connection refused" for n in (1, 2)]
    answer = diagnosed(book, *steps(1, 30), *tries, "2026-03-11 18:14:34 CRITICAL no seat, leaving", *LAUNCHER)
    assert (reason_of(answer), root_line(answer)) == ("ConnectionError", 31)


def test_the_rank_that_failed_first_is_heard_before_the_others(book: RuleBook) -> None:
    """What another rank complains of later is not why the first one left, also where it is printed below the table."""
    first = "[rank0]: 2026-03-11 18:14:39 ERROR layer 7 is in no stage of the plan"
    other = "[rank1]: 2026-03-11 18:14:40 ERROR nobody answers at the barrier"
    for lines in ([first, other, *LAUNCHER], [*LAUNCHER, first, other]):
        answer = diagnosed(book, *lines)
        assert answer.root_cause is not None
        assert answer.root_cause.text == first


def test_what_a_program_worked_on_after_is_not_why_it_left(book: RuleBook) -> None:
    """Steps after a complaint leave the launcher's report as the root."""
    answer = diagnosed(book, *steps(1, 30), GIVES_UP, *steps(31, 30), *LAUNCHER)
    assert root_line(answer) > 61


def test_a_few_records_of_leaving_do_not_hide_the_complaint(book: RuleBook) -> None:
    """A program that closes its files in an orderly way still left for the reason that it gave."""
    closing = [f"2026-03-11 18:14:39,{n}00 INFO planner: closing writer {n}" for n in (1, 2)]
    assert root_line(diagnosed(book, GIVES_UP, *closing, *LAUNCHER)) == 1


def test_a_signal_is_not_explained_by_a_complaint(book: RuleBook) -> None:
    """A process that was killed did not leave by itself."""
    killed = [line.replace("exitcode: 1", "exitcode: -9").replace(": 1 (pid", ": -9 (pid") for line in LAUNCHER]
    assert root_line(diagnosed(book, *steps(1, 30), GIVES_UP, *killed)) != 31


def test_an_exception_says_more_than_a_complaint(book: RuleBook) -> None:
    """A complaint is asked for only where nothing else is known."""
    answer = diagnosed(book, *steps(1, 30), GIVES_UP, *traceback_of("KeyError: 'caption'"), *LAUNCHER)
    assert reason_of(answer) == "KeyError"


def test_a_known_exit_code_is_enough(book: RuleBook) -> None:
    """Without a launcher's report the caller's word counts; without either an error as the last word, humbly."""
    assert root_line(diagnosed(book, *steps(1, 30), GIVES_UP, exit_code=3)) == 31
    assert not diagnosed(book, *steps(1, 30), GIVES_UP, exit_code=0).failed
    alone = diagnosed(book, *steps(1, 30), GIVES_UP)
    assert (alone.failed, alone.decided_by, root_line(alone)) == (True, "suspects", 31)
    assert alone.confidence < 0.6
    assert not alone.recovery.automatic


LOST = traceback_of(
    "RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:33952",
    prefix="[rank1]: ",
)
STOPPING = "2026-03-11 18:14:39,120 CRITICAL [rank 0] scorer: the rollout has no score, stopping"


def test_the_words_of_the_rank_that_left_are_the_root_not_what_its_peer_lost(book: RuleBook) -> None:
    """The launcher saw rank 0 leave with a code of its own; rank 1 only lost its connection to it."""
    answer = diagnosed(book, *steps(1, 30), STOPPING, *LOST, *LAUNCHER)
    assert (root_line(answer), rank_of(answer)) == (31, 0)
    # Without any word of rank 0, the peer's is all there is, whatever a third rank says.
    assert reason_of(diagnosed(book, *steps(1, 30), *LOST, *LAUNCHER)) == "ConnectionError"
    third = STOPPING.replace("[rank 0]", "[rank 2]")
    assert reason_of(diagnosed(book, *steps(1, 30), third, *LOST, *LAUNCHER)) == "ConnectionError"
    unnamed = STOPPING.replace("[rank 0] ", "")
    assert root_line(diagnosed(book, *steps(1, 30), unnamed, *LOST, *LAUNCHER)) == 31
    # A rank that lost its peer and failed first is believed, but for a clear word of its own before.
    own = [line.replace("[rank1]", "[rank0]") for line in LOST]
    waited = STOPPING.replace("CRITICAL", "INFO").replace("stopping", "asking again")
    assert reason_of(diagnosed(book, *steps(1, 30), waited, *own, *LAUNCHER)) == "ConnectionError"
    assert root_line(diagnosed(book, *steps(1, 30), STOPPING, *own, *LAUNCHER)) == 31


def test_a_warning_of_no_known_cause_is_no_last_word(book: RuleBook) -> None:
    """Programs warn of much before they leave."""
    warning = "2026-03-11 18:14:38,120 WARNING [rank 0] scorer: the cache is cold"
    assert root_line(diagnosed(book, *steps(1, 30), STOPPING, warning, *LOST, *LAUNCHER)) == 31


def test_a_complaint_after_which_ranks_made_steps_is_no_last_word(book: RuleBook) -> None:
    """A script's helper that complains names no rank; the job went on."""
    work = [f"[default{rank}]:step {step}/60 loss=4.{step}" for step in range(5) for rank in range(2)]
    report = f"E0311 18:14:15.030000 17 {API}:1002] failed (exitcode: 1) local_rank: 0 (pid: 19) of binary: python"
    complaint = "error: no seat left"
    assert root_line(diagnosed(book, *work, complaint, report)) == len(work) + 1
    assert root_line(diagnosed(book, *work, complaint, *work, report)) == 2 * len(work) + 2
