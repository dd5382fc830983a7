"""One reason, a confidence that means something, and evidence that can be looked up."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdiag import Category, Reason, diagnose
from logdiag.judge.verdict import SURE
from logdiag.rules import RuleBook
from tests.helpers import LOGS, SAMPLES, diagnosed, steps, traceback_of, watchdog


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_confidence_and_candidates_share_at_most_one(path: Path, book: RuleBook) -> None:
    """Probabilities of readings that exclude each other; the reason itself is no candidate beside itself."""
    answer = diagnose(path, rules=book)
    assert 0 <= answer.confidence <= 1
    assert all(0 <= candidate.confidence <= answer.confidence for candidate in answer.candidates)
    assert answer.confidence + sum(candidate.confidence for candidate in answer.candidates) <= 1.001
    assert answer.reason not in {candidate.reason for candidate in answer.candidates}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_reason_and_category_agree(path: Path, book: RuleBook) -> None:
    """A failure has a reason and its category, a healthy log has `none` for both."""
    answer = diagnose(path, rules=book)
    assert answer.category is answer.reason.category
    # A machine's log alone names what would end a job, and no failed job.
    assert (answer.failed or all(log.whose == "machine" for log in answer.logs)) == (answer.reason is not Reason.NONE)
    assert answer.decided_by in {"rules", "none"}


@pytest.mark.parametrize(
    "path", [path for path in SAMPLES if path.name != "docker-json.log"], ids=lambda path: path.name
)
def test_evidence_can_be_looked_up(path: Path, book: RuleBook) -> None:
    """Each quoted line stands in the file at its number, up to colours and what carriage returns wrote over."""
    lines = path.read_bytes().decode().split("\n")
    for item in diagnose(path, rules=book).evidence:
        assert item.source == str(path)
        if path.name == "k8s-cri.log":
            assert item.text.split(" ", 1)[1][:60] in lines[item.line - 1].replace("stdout F ", "").replace(
                "stderr F ", ""
            )
        else:
            assert item.text in lines[item.line - 1]


def test_the_root_line_is_the_evidence_of_role_root(book: RuleBook) -> None:
    """Exactly one, the same as `root_cause`."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    (root,) = [item for item in answer.evidence if item.role == "root"]
    assert answer.root_cause is not None
    assert (root.source, root.line, root.text, root.rule) == (
        answer.root_cause.source,
        answer.root_cause.line,
        answer.root_cause.text,
        answer.root_cause.rule,
    )
    assert {item.role for item in answer.evidence} <= {"root", "consequence", "context"}


def test_evidence_is_short_even_when_the_log_floods(book: RuleBook) -> None:
    """A thousand watchdogs give a count, not a thousand quotes."""
    lines = [watchdog(rank) for rank in range(1000)]
    answer = diagnosed(book, *steps(1, 20), *traceback_of("KeyError: 'caption'", prefix="[rank1000]: "), *lines)
    assert len(answer.evidence) <= 20
    assert sum(item.count for item in answer.consequences) >= 1000


def test_a_failure_without_evidence_is_said_to_be_one(book: RuleBook) -> None:
    """The caller knows that the job failed; the log does not say why."""
    answer = diagnosed(book, *steps(1, 50), exit_code=1)
    assert answer.failed
    assert answer.reason is Reason.OTHERS
    assert answer.category is Category.SCRIPT
    assert answer.root_cause is None
    assert answer.confidence <= 0.3
    assert answer.decided_by == "none"
    assert answer.recovery.steps
    assert all(step.startswith("Collect ") for step in answer.recovery.steps)
    assert not any("collect next" in note for note in answer.notes)


def test_an_exit_code_of_zero_with_a_quiet_log_is_healthy(book: RuleBook) -> None:
    """And surer than without it."""
    known = diagnosed(book, "hello", exit_code=0)
    unknown = diagnosed(book, "hello")
    assert not known.failed
    assert not unknown.failed
    assert known.confidence > unknown.confidence


def test_a_log_that_merely_stops_shows_no_failure(book: RuleBook) -> None:
    """No end and no error: nothing is claimed, and of a log without any work with less confidence."""
    answer = diagnosed(book, *steps(1, 50))
    silent = diagnosed(book, "loading the model")
    assert not answer.failed
    assert not silent.failed
    assert silent.confidence < diagnosed(book, *steps(1, 50), "Training finished.").confidence


def test_an_empty_log_shows_no_failure(book: RuleBook) -> None:
    """Nothing in, no failure out, and not sure of it."""
    answer = diagnose(b"", rules=book)
    assert not answer.failed
    assert answer.confidence < SURE
    assert answer.stats["lines"] == 0


def test_a_cause_is_surer_than_a_symptom_or_a_bare_exit(book: RuleBook) -> None:
    """Confidence, which is fitted, falls with what the answer rests on."""
    cause = diagnosed(book, *steps(1, 50), *traceback_of("KeyError: 'caption'")).confidence
    symptom = diagnosed(book, *steps(1, 50), watchdog(0)).confidence
    bare = diagnosed(book, *steps(1, 50), "srun: error: gpu018: task 6: Exited with exit code 1").confidence
    assert cause > max(symptom, bare)


def test_an_unsure_answer_says_what_to_collect(book: RuleBook) -> None:
    """A person knows where to look next."""
    answer = diagnosed(book, *steps(1, 50), "srun: error: gpu018: task 6: Exited with exit code 1")
    assert any("collect next: " in note for note in answer.notes)


def test_the_summary_is_one_sentence_with_rank_and_count(book: RuleBook) -> None:
    """What, where, and how many followed."""
    answer = diagnosed(
        book, *steps(1, 20), *traceback_of("KeyError: 'caption'", prefix="[rank2]: "), watchdog(0), watchdog(1)
    )
    assert "rank 2" in answer.summary
    assert "2 other ranks" in answer.summary
    assert "\n" not in answer.summary
    assert answer.summary.endswith(".")


def test_an_exception_that_no_rule_knows_is_still_a_failure(book: RuleBook) -> None:
    """A class of the user's own is named, with its line, and not with full confidence."""
    answer = diagnosed(book, *steps(1, 20), *traceback_of("my_package.errors.WidgetFault: the widget is jammed"))
    assert answer.failed
    assert answer.root_cause is not None
    assert answer.root_cause.text == "my_package.errors.WidgetFault: the widget is jammed"
    assert answer.confidence <= 0.9


def test_of_a_time_out_the_ranks_that_did_not_report_it_are_named(book: RuleBook) -> None:
    """Who comes to a collective in time waits for those that do not; where most are silent, nothing is told."""
    work = [f"[rank{rank}]: step: {step} loss: 2.1" for step in range(1, 9) for rank in range(8)]

    def said(waiting: set[int]) -> str:
        return diagnosed(book, *work, *map(watchdog, sorted(waiting))).summary

    assert said({0, 1, 2, 4, 6, 7}).startswith("Ranks 3, 5 never entered ALLREDUCE ")
    assert said({0, 1, 2, 4, 5, 6, 7}).startswith("Rank 3 never entered ALLREDUCE ")
    assert "never entered" not in said({0, 1, 2}) + said(set(range(8)))


def test_only_time_outs_name_the_ranks_that_did_not_report_them(book: RuleBook) -> None:
    """Of another cause, that a rank does not die of it means nothing."""
    work = [f"[rank{rank}]: step: {step} loss: 2.1" for step in range(1, 9) for rank in range(4)]
    failed = [line for rank in range(3) for line in traceback_of("KeyError: 'caption'", prefix=f"[rank{rank}]: ")]
    assert "never entered" not in diagnosed(book, *work, *failed).summary
