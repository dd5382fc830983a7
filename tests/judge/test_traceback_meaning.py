"""What an exception tells: which of several counts, and which was survived, quoted or only announced."""

from __future__ import annotations

import pytest

from logdiag.rules import RuleBook
from tests.helpers import diagnosed, steps, traceback_of
from tests.judge.test_causes import root_line
from tests.traceback_helpers import CAUSE, CONTEXT, FIRST, SECOND, found, names, only


def test_an_exception_that_was_ignored_is_marked(book: RuleBook) -> None:
    """What the interpreter itself reports as ignored kills nobody."""
    lines = [
        "Exception ignored in: <function Pool.__del__ at 0x7f3b2c>",
        *traceback_of("OSError: [Errno 9] Bad file descriptor"),
    ]
    assert only(lines).ignored
    answer = diagnosed(book, *steps(1, 20), *traceback_of("ValueError: the widget is jammed"), *lines)
    assert answer.reason.value == "ValueError"


def test_what_a_thread_and_a_finalizer_print_at_once_is_nobodys_death(book: RuleBook) -> None:
    """Mixed, the two break each other off; what was announced still follows."""
    mixed = [
        "Exception ignored in: <function Loom.__del__ at 0x7f4bc81fa3e0>",
        "Traceback (most recent call last):",
        '  File "/srv/job/loom.py", line 42, in __del__',
        "Exception in thread heartbeat:",
        "Traceback (most recent call last):",
        "    self.close()    sock = connect(",
        "^^^^ ^^^^^",
        "  The above exception was the direct cause of the following exception:",
        "ready to leave",
    ]
    following = traceback_of("ValueError: no loom is listening")
    at_once = found([*mixed, *following])
    assert [traceback.in_thread for traceback in at_once if traceback.exceptions] == [True]
    assert not diagnosed(book, *steps(1, 30), "training finished", *mixed, *following).failed
    later = found([*mixed, *["the spool is wound"] * 20, *following])
    assert [traceback.in_thread for traceback in later if traceback.exceptions] == [False]


def test_a_line_below_that_says_what_is_done_instead_marks_a_survivor() -> None:
    """Programs print the traceback first, and then what they do without; an indented line is the exception's own."""
    told = ["could not use the fast loom, trying the next one", "statistics left out this time"]
    for line in told:
        assert only([*FIRST, line]).logged
        assert not only([*FIRST, f"  {line}"]).logged
        assert not only([*FIRST, "", line]).logged


def test_what_a_logger_could_not_print_is_marked() -> None:
    """logging's own handler reports that it failed and goes on."""
    lines = ["--- Logging error ---", *traceback_of("ValueError: I/O operation on closed file."), "Call stack:"]
    assert only(lines).ignored


def test_a_plain_traceback_is_neither_ignored_nor_logged() -> None:
    """It ended its process, as far as can be seen."""
    traceback = only(FIRST)
    assert not traceback.ignored
    assert not traceback.logged


def test_a_traceback_that_a_logger_printed_is_marked() -> None:
    """The process may have gone on after `logger.exception`."""
    assert only(["2026-11-01 10:00:00,123 ERROR trainer: sample skipped", *FIRST]).logged


def test_a_traceback_logged_line_by_line_is_read() -> None:
    """A logger that puts its prefix before each line changes nothing."""
    prefix = "2026-11-01 10:00:00,123 ERROR [trainer.py:33] "
    traceback = only([prefix + line for line in [*FIRST, *CAUSE, *SECOND]])
    assert names(traceback) == ["KeyError", "loader.DataError"]


def test_an_exception_that_quotes_another_traceback_is_not_its_cause(book: RuleBook) -> None:
    """Its text ends with a colon, and what it quotes follows: the quoted one is named."""
    outer = traceback_of(
        "RuntimeError: The actor of the loom could not be started. This may be because of the environment:"
    )
    inner = traceback_of("ImportError: cannot import name 'shuttle' from 'loom'")
    answer = diagnosed(book, *steps(1, 5), *outer, "", *inner, "", "An internal error occurred in the worker.")
    assert answer.reason.value == "ImportError"
    plain = [*outer[:-1], outer[-1].rstrip(":") + "."]
    assert diagnosed(book, *steps(1, 5), *plain, "", *inner).reason.value == "RuntimeError"


def test_what_a_socket_raised_is_told_better_by_the_library_above(book: RuleBook) -> None:
    """The first exception of the chain that says towards whom."""
    chained = "The above exception was the direct cause of the following exception:"
    lines = [
        *traceback_of("TimeoutError: timed out"),
        *("", chained, ""),
        *traceback_of("urllib3.exceptions.ConnectTimeoutError: (<Connection>, 'Connection to 10.0.0.7 timed out.')"),
        *("", chained, ""),
        *traceback_of(
            "urllib3.exceptions.MaxRetryError: HTTPConnectionPool(host='10.0.0.7', port=80): Max retries exceeded"
        ),
    ]
    answer = diagnosed(book, *steps(1, 5), *lines)
    assert answer.root_cause is not None
    assert "MaxRetryError" in answer.root_cause.text


def test_an_import_that_is_told_again_word_for_word_is_the_root(book: RuleBook) -> None:
    """What is raised instead of a look-up tells more only where it says something else."""
    told = ["", "During handling of the above exception, another exception occurred:", ""]
    first = traceback_of("ImportError: the loom has no shuttle")
    again = diagnosed(book, *steps(1, 5), *first, *told, *traceback_of("RuntimeError: the loom has no shuttle"))
    other = diagnosed(book, *steps(1, 5), *first, *told, *traceback_of("RuntimeError: weaving needs a newer loom"))
    assert (again.reason.value, other.reason.value) == ("ImportError", "RuntimeError")


def test_what_a_later_record_follows_is_not_quoted(book: RuleBook) -> None:
    """Between an exception's text and what it quotes nothing else is logged."""
    first = traceback_of("ValueError: these rows have no weft:")
    record = "2026-03-11 18:14:40,104 INFO loom: closing"
    second = traceback_of("KeyError: 'shuttle'")
    assert diagnosed(book, *steps(1, 5), *first, record, *second).reason.value == "ValueError"


@pytest.mark.parametrize(
    "above",
    [
        "exception calling callback for <Future at 0x7f4b6817e6d0 state=finished raised ValueError>",
    ],
)
def test_a_traceback_that_a_warning_quotes_was_survived(book: RuleBook, above: str) -> None:
    """The program only tells of it; what it dies of afterwards is the root."""
    told = [above, *traceback_of("ValueError: the solver does not know this penalty")]
    assert found(told)[0].logged
    died = traceback_of("KeyError: 'caption'")
    assert diagnosed(book, *steps(1, 5), *told, *died).reason.value == "KeyError"


def test_hydras_own_failure_to_print_is_not_what_the_job_died_of(book: RuleBook) -> None:
    """It stands first in the chain of exceptions, and says nothing of the job."""
    own = [
        "An error occurred during Hydra's exception formatting:",
        "AssertionError()",
        "Traceback (most recent call last):",
        '  File "/site-packages/hydra/_internal/utils.py", line 254, in run_and_report',
        "    assert mdl is not None",
        "AssertionError",
    ]
    answer = diagnosed(book, *own, *CONTEXT, *traceback_of("AttributeError: 'Agent' object has no attribute 'logger'"))
    assert answer.reason.value == "AttributeError"


def test_what_a_step_follows_is_no_part_of_an_exception(book: RuleBook) -> None:
    """Else a caught exception would swallow the cause that comes some steps later."""
    ignored = [
        "Exception ignored in: <function Loader.__del__ at 0x7f0b>",
        *traceback_of("AssertionError: not a child"),
    ]
    answer = diagnosed(book, *steps(1, 5), *ignored, *steps(6, 5), "memory allocation of 5 bytes failed")
    assert (answer.reason.value, root_line(answer)) == ("OutOfMemoryError", 5 + len(ignored) + 5 + 1)


def test_a_record_of_native_code_announces_no_traceback(book: RuleBook) -> None:
    """It stands above by chance; a logger of Python's prints the traceback that it announces."""
    native = "[W1122 14:21:53.068801861 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved."
    assert not found([native, *FIRST])[0].logged
    assert found(["2026-03-11 18:14:15 WARNING loader: a row is broken", *FIRST])[0].warned


def test_a_traceback_within_a_warning_of_failed_fits_fails_nothing(book: RuleBook) -> None:
    """scikit-learn reports what single fits of a search died of, and goes on; without that head it is the end."""
    crash = traceback_of("ValueError: the loom takes only 'l2' threads")
    rest = ["", "  warnings.warn(some_fits_failed_message, FitFailedWarning)", "best score 0.81", "wrote table.csv"]
    report = "/opt/lib/python3.11/site-packages/sklearn/model_selection/_validation.py:493: FitFailedWarning: "
    told = [report, "6 fits failed out of a total of 36.", "6 fits failed with the following error:"]
    assert not diagnosed(book, *told, *crash, *rest).failed
    assert diagnosed(book, *crash, *rest).failed


def test_a_traceback_that_begins_in_a_librarys_module_was_caught(book: RuleBook) -> None:
    """An import that a library tried: what is run begins in the program's own file, or in runpy."""
    frame = '  File "{}/native.py", line 85, in <module>'
    rest = ["    lib = load()", "AttributeError: 'NoneType' object has no attribute 'split'"]
    for folder, failed in (("/opt/lib/python3.11/site-packages/loom", False), ("/srv/job", True)):
        lines = ["Traceback (most recent call last):", frame.format(folder), *rest, *steps(1, 9)]
        assert diagnosed(book, *lines).failed is failed


def test_where_weights_are_read_an_exception_is_theirs(book: RuleBook) -> None:
    """The same class and words elsewhere are what the class says; a full memory is that in any place."""
    frame = '  File "/opt/serve/models/loom.py", line 51, in {}'
    for function, said, reason in (
        ("load_weights", "KeyError: 'layers.1.w2'", "ModelLoadingError"),
        ("forward", "KeyError: 'layers.1.w2'", "KeyError"),
        ("load_weights", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "OutOfMemoryError"),
    ):
        lines = ["Traceback (most recent call last):", frame.format(function), "    param = params[name]", said]
        assert diagnosed(book, *lines).reason.value == reason


def test_a_line_without_the_loggers_head_is_not_of_its_traceback(book: RuleBook) -> None:
    """Where each line of a traceback has the head of a record, the text of the exception ends with the record."""
    head = "[2026-03-11 18:14:39,310] weave.convert: [WARNING] "
    told = [f"{head}{line}" for line in traceback_of("FileNotFoundError: [Errno 2] No such file: 'ldweave'")]
    ended = "TERM_RUNLIMIT: job killed after reaching LSF run time limit."
    answer = diagnosed(book, *told, "", "Job <7> was submitted from host <loom>", ended)
    assert answer.root_cause is not None
    assert answer.root_cause.text == ended


def test_what_could_not_be_printed_at_first_is_what_the_process_died_of(book: RuleBook) -> None:
    """Python tells first why its hook failed to print, and then what the hook was to print."""
    hook = ["Error in sys.excepthook:", *traceback_of("OSError: [Errno 5] Input/output error"), ""]
    original = ["Original exception was:", *traceback_of("KeyboardInterrupt")]
    first, second = found([*hook, *original])
    assert (first.ignored, second.ignored) == (True, False)
    answer = diagnosed(book, *steps(1, 20), *hook, *original)
    assert (answer.reason.value, root_line(answer)) == ("Others", 20 + len(hook) + len(original))
