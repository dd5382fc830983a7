"""What no rule knows makes an answer less sure, and is named where the answer is not sure."""

from __future__ import annotations

import pytest

from logdiag.judge.unexplained import MOST_COMPLAINTS
from logdiag.judge.verdict import SURE
from logdiag.model import Diagnosis, Support
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, steps, traceback_of

_SAID = "warning: the mirror failed to polish"
_SETTINGS = [f"option {first}{second} = on" for first in "abcdef" for second in "abcdefgh"]
# Too few to know a software by.
_FEW_SETTINGS = _SETTINGS[:36]
_CRASH = traceback_of("KeyError: 'labels'")


def _supports(answer: Diagnosis) -> list[Support]:
    return [Support(kind) for kind in answer.stats["supports"]]


def test_a_complaint_before_the_root_that_no_rule_knows_makes_it_less_sure(book: RuleBook) -> None:
    """The cause may be what nobody has a rule for; each further kind of complaint counts, a repeated one does not."""
    plain = diagnosed(book, *steps(1, 5), *_CRASH)
    one = diagnosed(book, *steps(1, 5), f"{_SAID} 1", f"{_SAID} 2", *_CRASH)
    two = diagnosed(book, *steps(1, 5), _SAID, "the mirror is missing", *_CRASH)
    assert [_supports(answer).count(Support.UNEXPLAINED) for answer in (plain, one, two)] == [0, 1, 2]
    assert plain.confidence > one.confidence > two.confidence > SURE
    assert not any("no rule knows" in note for note in two.notes)
    assert plain.reason is one.reason is two.reason


def test_what_stands_after_the_root_does_not_count(book: RuleBook) -> None:
    """After the cause processes complain of its consequences in many words."""
    after = diagnosed(book, *steps(1, 5), *_CRASH, "", _SAID)
    assert _supports(after) == _supports(diagnosed(book, *steps(1, 5), *_CRASH))


@pytest.mark.parametrize(
    "line",
    [
        "[W1122 12:56:16.9 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
        f"2026-11-22 10:00:00 INFO loader: {_SAID}",
        "During handling of the above exception, another exception occurred:",
        "Last error:",
        "step: 40 word error rate: 0.31 loss: 2.2",
    ],
)
def test_what_is_known_or_calm_is_no_unknown_complaint(line: str, book: RuleBook) -> None:
    """What a rule calls harmless or work, what is logged as calm, and the words between two tracebacks."""
    assert Support.UNEXPLAINED not in _supports(diagnosed(book, *steps(1, 5), line, *_CRASH))


def test_a_log_without_work_that_ends_in_a_complaint_is_hardly_healthy(book: RuleBook) -> None:
    """The answer says so, and quotes the line that no rule knows."""
    mild = "note: polish failed on 1 of 40 spots"
    calm = diagnosed(book, *_FEW_SETTINGS, "all is set")
    complaining = diagnosed(book, *_FEW_SETTINGS, mild)
    assert not calm.failed
    assert not complaining.failed
    assert complaining.failed is None
    assert complaining.confidence < calm.confidence
    assert any(mild in note for note in complaining.notes)
    assert not any("no rule knows" in note for note in calm.notes)
    assert "complains" in complaining.summary


def test_a_complaint_long_before_the_end_is_none_of_the_last_words(book: RuleBook) -> None:
    """What was said before dozens of ordinary lines was survived."""
    assert _supports(diagnosed(book, _SAID, *_FEW_SETTINGS)) == _supports(diagnosed(book, "all is set", *_FEW_SETTINGS))


def test_a_short_log_without_work_tells_little(book: RuleBook) -> None:
    """A few lines may be all that a job came to print; without work and without an end a longer log proves no more."""
    short, longer = diagnosed(book, *_SETTINGS[:5]), diagnosed(book, *_SETTINGS)
    assert (short.failed, longer.failed) == (None, None)
    assert Support.DOUBTFUL in _supports(short)
    assert Support.DOUBTFUL not in _supports(longer)


def test_who_survived_one_fault_may_have_survived_what_was_only_told(book: RuleBook) -> None:
    """A process that ended by the root has not."""
    survived = ["2026-11-22 09:00:00 ERROR loader: [Errno 28] No space left on device", *steps(1, 9)]
    told = "2026-11-22 10:00:00 ERROR loader: NCCL error: unhandled system error"
    assert Support.SURVIVED in _supports(diagnosed(book, *survived, told))
    assert Support.SURVIVED not in _supports(diagnosed(book, *steps(1, 9), told))
    assert Support.SURVIVED not in _supports(diagnosed(book, *survived, *_CRASH))


def test_of_many_complaints_two_count(book: RuleBook) -> None:
    """Hundreds of unlike complaints make an answer no less sure than two."""
    parts = [
        f"part {first}{second} could not be reconciled" for first in "abcdefghijk" for second in "abcdefghijklmnopq"
    ]
    assert _supports(diagnosed(book, *steps(1, 5), *parts, *_CRASH)).count(Support.UNEXPLAINED) == MOST_COMPLAINTS == 2


def test_beside_a_line_that_names_its_cause_complaints_mean_nothing(book: RuleBook) -> None:
    """A narrow rule knows the very words; one that knows only the class may have missed the cause."""
    named = traceback_of("RuntimeError: CUDA driver error: uncorrectable ECC error encountered")
    assert Support.UNEXPLAINED not in _supports(diagnosed(book, *steps(1, 5), _SAID, *named))
    assert Support.UNEXPLAINED in _supports(diagnosed(book, *steps(1, 5), _SAID, *_CRASH))


def test_a_short_log_is_looked_through_for_complaints(book: RuleBook) -> None:
    """What stands some twenty lines above the end of a log without work may be what ended it."""
    behind = _SETTINGS[:20]
    assert Support.COMPLAINING in _supports(diagnosed(book, _SAID, *behind))
    assert Support.COMPLAINING not in _supports(diagnosed(book, _SAID, *_SETTINGS))
