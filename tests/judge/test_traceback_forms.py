"""The forms that tracebacks are printed in: boxes, notebooks, groups, streams, and each form of a last line."""

from __future__ import annotations

import pytest

from logdiag.rules import RuleBook
from tests.helpers import diagnosed, steps, traceback_of
from tests.traceback_helpers import FIRST, found, found_in, names, only

RICH = [
    "\u256d\u2500\u2500\u2500\u2500 Traceback (most recent call last) \u2500\u2500\u2500\u2500\u256e",
    "\u2502 /work/train.py:88 in main                     \u2502",
    "\u2502                                                \u2502",
    "\u2502   87     for row in rows:                       \u2502",
    '\u2502 \u2771 88         use(row["caption"])                 \u2502',
    "\u2502   89                                             \u2502",
    "\u2570\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u256f",
    "KeyError: 'caption'",
]


def test_a_box_of_rich_is_a_traceback() -> None:
    """The lines in the box are source text, the line below it names the exception."""
    traceback = only(RICH)
    assert names(traceback) == ["KeyError"]
    assert traceback.code == frozenset(range(7))


def test_a_box_of_rich_between_ranks_is_a_traceback(book: RuleBook) -> None:
    """With rank prefixes too, and its source text is no evidence."""
    box = [line.replace("for row in rows", 'raise ValueError("no")') for line in RICH]
    answer = diagnosed(book, *(f"[rank3]: {line}" for line in box))
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert answer.root_cause.rank == 3


def test_a_log_that_is_one_box_of_rich_is_a_traceback(book: RuleBook) -> None:
    """The side that all its lines begin with is not what a recorder puts before them."""
    box = [*RICH[:-1][:1], *RICH[1:-2] * 12, *RICH[-2:-1], "loom.errors.Jammed: the loom is jammed"]
    answer = diagnosed(book, *(f"[rank2]: {line}" for line in box))
    assert answer.root_cause is not None
    assert (answer.root_cause.line, answer.root_cause.rank) == (len(box), 2)


NOTEBOOK = [
    "-" * 75,
    "Jammed                                    Traceback (most recent call last)",
    "Cell In[7], line 5",
    "      3 trainer = Trainer()",
    "      4 ",
    "----> 5 trainer.fit()",
    "",
    "File ~/loom/net.py:12, in Trainer.fit(self)",
    "     10 def fit(self):",
    "     11     if not self.rows: raise ValueError('no rows')",
    "-> 1012     return self.weave()",
    "",
    "Jammed: the loom is jammed",
]


@pytest.mark.parametrize(
    "place",
    ["Cell In[7], line 5", "<ipython-input-7-0123456789ab> in <module>", "/tmp/ipykernel_55/28.py in <cell line: 0>()"],
)
def test_a_notebooks_traceback_is_read(place: str, book: RuleBook) -> None:
    """Its header names the class, which stands before the message again; the code in it is no evidence."""
    lines = [place if line == NOTEBOOK[2] else line for line in NOTEBOOK]
    traceback = only(lines)
    assert names(traceback) == ["Jammed"]
    answer = diagnosed(book, *steps(1, 4), *lines)
    assert answer.root_cause is not None
    assert answer.root_cause.line == 4 + len(lines)


def test_a_notebooks_traceback_ends_where_other_lines_begin(book: RuleBook) -> None:
    """Where its last line is missing, what follows is no part of it."""
    answer = diagnosed(book, *NOTEBOOK[:-1], "the next cell", *traceback_of("KeyError: 'weft'"))
    assert answer.reason.value == "KeyError"


def test_the_exceptions_of_a_group_are_behind_it(book: RuleBook) -> None:
    """The group only relays them; the first is the root, at its own line."""
    group = [
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/srv/job/train.py", line 88, in <module>',
        "  |     main()",
        "  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)",
        "  +-+---------------- 1 ----------------",
        "    | Traceback (most recent call last):",
        '    |   File "/srv/job/train.py", line 9, in fetch',
        "    |     check(row)",
        "    | AssertionError: an odd row",
        "    +---------------- 2 ----------------",
        "    | Traceback (most recent call last):",
        '    |   File "/srv/job/train.py", line 9, in fetch',
        "    |     check(row)",
        "    | KeyError: 'weft'",
        "    +------------------------------------",
    ]
    assert [names(traceback) for traceback in found(group)] == [["ExceptionGroup", "AssertionError"], ["KeyError"]]
    answer = diagnosed(book, *steps(1, 4), *group)
    assert answer.root_cause is not None
    assert (answer.reason.value, answer.root_cause.line) == ("AssertionError", 4 + 9)


def test_what_pytest_says_of_an_exception_is_read(book: RuleBook) -> None:
    """A job's own tests, or a training that is started by them."""
    lines = [
        "    def test_weave():",
        ">       assert rows % 2 == 0",
        "E       AssertionError: an odd row",
        "",
        "t.py:12: AssertionError",
    ]
    answer = diagnosed(book, *lines)
    assert answer.root_cause is not None
    assert (answer.reason.value, answer.root_cause.line) == ("AssertionError", 3)


def test_a_traceback_that_lost_its_indentation_is_read() -> None:
    """As tables and chats hand it on."""
    traceback = only([line.strip() for line in FIRST])
    assert names(traceback) == ["KeyError"]
    assert len(traceback.exceptions[0].frames) == 2
    assert traceback.code == frozenset(range(5))


def test_tracebacks_of_several_streams_do_not_mix() -> None:
    """Each file's lines are read by themselves."""
    from logdiag.read.prefixes import parse_line

    lines = [
        parse_line(text, f"rank{stream}.log", at + 1, stream=stream, position=at)
        for stream in range(3)
        for at, text in enumerate(FIRST)
    ]
    assert sorted(traceback.stream for traceback in found_in(lines)) == [0, 1, 2]


@pytest.mark.parametrize(
    "final",
    [
        "KeyError: 'caption'",
        "KeyboardInterrupt",
        "AssertionError",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "torch.distributed.DistBackendError: NCCL error",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 4 (char 3)",
        "socket.timeout: timed out",
        "subprocess.CalledProcessError: Command '['make']' returned non-zero exit status 2.",
        "ray.exceptions.RayTaskError(KeyError): ray::train()",
        "my_package.errors.WidgetFault: jammed",
        "zmq.error.ZMQError: Address already in use",
        "StopIteration",
        "botocore.exceptions.ClientError: An error occurred (403)",
        "_queue.Empty",
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly",
    ],
)
def test_each_form_of_a_last_line_is_read(final: str) -> None:
    """With and without module, message and arguments."""
    assert names(only(traceback_of(final))) == [final.split(":")[0].split("(")[0]]


def test_a_header_alone_is_no_exception() -> None:
    """A log that ends at the header, and prose that mentions it, name nothing."""
    assert all(not traceback.exceptions for traceback in found(["Traceback (most recent call last):"]))
    assert all(
        not t.exceptions for t in found(["see 'Traceback (most recent call last)' in the docs", "step 1", "step 2"])
    )


def test_a_warning_after_a_traceback_is_no_exception(book: RuleBook) -> None:
    """What the dying process still says is neither part of the chain nor a failure of its own."""
    warning = (
        "[W311 18:04:13.104482190 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called"
    )
    lines = [f"[rank2]: {line}" for line in FIRST] + [f"[rank2]:{warning}"]
    assert names(only(lines)) == ["KeyError"]
    assert diagnosed(book, *lines).consequences == ()


@pytest.mark.parametrize("head", ["RuntimeError: ", "ValueError:"])
def test_an_exception_whose_text_begins_below_its_class_is_named_there(head: str, book: RuleBook) -> None:
    """The line that says what is wrong is the root; a ruler below the class is no text."""
    answer = diagnosed(book, *steps(1, 3), *traceback_of(head), "    The two heads share one weight.", "    See below.")
    assert answer.reason.value == head.rstrip(": ")
    assert answer.root_cause is not None
    assert answer.root_cause.text.strip() == "The two heads share one weight."
    ruled = diagnosed(book, *steps(1, 3), *traceback_of(head), "==========")
    assert ruled.root_cause is not None
    assert ruled.root_cause.text == head
