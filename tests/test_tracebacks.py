"""Tracebacks are read as wholes: chained, relayed, interleaved, cut at either end."""

from __future__ import annotations

from functools import cache
from itertools import chain, zip_longest

import pytest

from logdiag.judge.kinds import kinds_of
from logdiag.judge.tracebacks import Link, Traceback, find_tracebacks
from logdiag.model import Line
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, parsed, steps, traceback_of
from tests.test_causes import root_line

FIRST = traceback_of("KeyError: 'caption'")
SECOND = [
    "Traceback (most recent call last):",
    '  File "/srv/job/loader.py", line 40, in load',
    '    raise DataError("no caption") from error',
    "loader.DataError: no caption in sample 7",
]
CAUSE = ["", "The above exception was the direct cause of the following exception:", ""]
CONTEXT = ["", "During handling of the above exception, another exception occurred:", ""]


@cache
def shipped() -> RuleBook:
    """The shipped rules."""
    return RuleBook.load()


def found_in(lines: list[Line]) -> list[Traceback]:
    """The tracebacks in lines that were read."""
    return find_tracebacks(lines, kinds_of(lines, shipped()))


def found(lines: list[str]) -> list[Traceback]:
    """The tracebacks in these lines."""
    return found_in(parsed(lines))


def only(lines: list[str]) -> Traceback:
    """The one traceback in these lines."""
    (traceback,) = found(lines)
    return traceback


def names(traceback: Traceback) -> list[str]:
    """The exceptions of a chain by name."""
    return [exception.name for exception in traceback.exceptions]


def test_a_traceback_is_its_last_line_and_its_frames() -> None:
    """The line that names the exception is the evidence; frames and source text are not."""
    traceback = only(["starting", *FIRST, "bye"])
    (exception,) = traceback.exceptions
    assert exception.name == "KeyError"
    assert exception.line.text == "KeyError: 'caption'"
    assert exception.line.number == 7
    assert [frame.splitlines()[0] for frame in exception.frames] == [
        'File "/srv/job/train.py", line 88, in <module>',
        'File "/srv/job/train.py", line 71, in main',
    ]
    assert traceback.code == frozenset(range(1, 6))
    assert frozenset(range(1, 7)) <= traceback.positions


@pytest.mark.parametrize(("between", "link"), [(CAUSE, Link.CAUSE), (CONTEXT, Link.CONTEXT)])
def test_a_chain_is_one_traceback(between: list[str], link: Link) -> None:
    """Both ways of chaining, in the order printed, with how they hang together."""
    traceback = only([*FIRST, *between, *SECOND])
    assert names(traceback) == ["KeyError", "loader.DataError"]
    assert [exception.link for exception in traceback.exceptions] == [Link.FIRST, link]


def test_a_chain_of_three_is_one_traceback() -> None:
    """Links may differ."""
    third = traceback_of("SystemExit: 1")
    traceback = only([*FIRST, *CAUSE, *SECOND, *CONTEXT, *third])
    assert names(traceback) == ["KeyError", "loader.DataError", "SystemExit"]
    assert [exception.link for exception in traceback.exceptions] == [Link.FIRST, Link.CAUSE, Link.CONTEXT]


def test_two_tracebacks_without_a_link_are_two() -> None:
    """One after the other is not a chain."""
    assert [names(traceback) for traceback in found([*FIRST, "retrying", *SECOND])] == [
        ["KeyError"],
        ["loader.DataError"],
    ]


RELAYED = [
    "Traceback (most recent call last):",
    '  File "/srv/job/train.py", line 88, in <module>',
    "    for batch in loader:",
    '  File "/opt/conda/lib/python3.11/site-packages/torch/_utils.py", line 733, in reraise',
    "    raise exception",
    "KeyError: Caught KeyError in DataLoader worker process 2.",
    "Original Traceback (most recent call last):",
    '  File "/opt/conda/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 351, in _worker_loop',
    "    data = fetcher.fetch(index)",
    '  File "/srv/job/data.py", line 31, in __getitem__',
    '    return row["caption"]',
    "KeyError: 'caption'",
]


def test_a_relayed_exception_of_a_loader_is_one_chain(book: RuleBook) -> None:
    """The worker's own exception is the root, not the line that says it was caught."""
    traceback = only(RELAYED)
    assert traceback.exceptions[-1].line.text == "KeyError: 'caption'"
    assert traceback.exceptions[-1].link is Link.RELAYED
    answer = diagnosed(book, *RELAYED)
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert answer.root_cause.line in {6, 12}


RAY = [
    "Traceback (most recent call last):",
    '  File "/srv/job/tune.py", line 20, in <module>',
    "    results = ray.get(futures)",
    '  File "/opt/conda/lib/python3.11/site-packages/ray/_private/worker.py", line 2639, in get',
    "    raise value.as_instanceof_cause()",
    "ray.exceptions.RayTaskError(ZeroDivisionError): ray::train_shard() (pid=6015, ip=10.0.0.7)",
    '  File "/srv/job/tune.py", line 12, in train_shard',
    "    rate = seen / seconds",
    "ZeroDivisionError: division by zero",
]


def test_an_exception_of_a_ray_task_is_found_behind_its_wrapper(book: RuleBook) -> None:
    """The frames after Ray's own line belong to the task; the task's exception is the root."""
    traceback = only(RAY)
    assert names(traceback)[-1] == "ZeroDivisionError"
    answer = diagnosed(book, *RAY)
    assert answer.reason.value == "ZeroDivisionError"


SPAWN = [
    "Traceback (most recent call last):",
    '  File "/srv/job/main.py", line 60, in <module>',
    "    mp.spawn(worker, nprocs=4)",
    '  File "/opt/conda/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 140, in join',
    "    raise ProcessRaisedException(msg, error_index, failed_process.pid)",
    "torch.multiprocessing.spawn.ProcessRaisedException: ",
    "",
    "-- Process 3 terminated with the following error:",
    "Traceback (most recent call last):",
    '  File "/srv/job/main.py", line 33, in worker',
    "    assert world == 4",
    "AssertionError: world size is 3",
]


def test_of_an_actor_that_died_the_exception_itself_is_told_not_its_wrapper(book: RuleBook) -> None:
    """Where the node's own process reports the death first, that line is the root."""
    died = [line.replace("ZeroDivisionError", "ActorDiedError") for line in RAY[:-1]]
    died.append("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.")
    answer = diagnosed(book, *steps(1, 20), *died)
    assert (answer.reason.value, root_line(answer)) == ("Others", 20 + len(died))
    told = "(raylet, ip=10.0.0.7) A worker died or was killed while executing a task by an unexpected system error. "
    told += "Some common causes include: (1) the process was killed by the OOM killer due to high memory usage"
    assert root_line(diagnosed(book, *steps(1, 20), told, *died)) == 21


def test_a_spawned_processes_exception_is_found_behind_its_wrapper(book: RuleBook) -> None:
    """`mp.spawn` prints the child's traceback inside its own exception."""
    traceback = only(SPAWN)
    assert names(traceback) == ["torch.multiprocessing.spawn.ProcessRaisedException", "AssertionError"]
    assert traceback.exceptions[-1].link is Link.RELAYED
    answer = diagnosed(book, *SPAWN)
    assert answer.reason.value == "AssertionError"
    assert answer.root_cause is not None
    assert answer.root_cause.line == 12


def interleaved(*columns: list[str]) -> list[str]:
    """Lines of several ranks, one from each in turn."""
    return [line for line in chain.from_iterable(zip_longest(*columns)) if line is not None]


def test_tracebacks_of_many_ranks_do_not_mix() -> None:
    """Line by line in turn, each with its rank before it, each is read as if it stood alone."""
    columns = [traceback_of(f"ValueError: rank {rank} saw {rank * 3}", prefix=f"[rank{rank}]: ") for rank in range(6)]
    tracebacks = found(interleaved(*columns))
    assert len(tracebacks) == 6
    for rank, traceback in enumerate(sorted(tracebacks, key=lambda item: item.exceptions[0].line.rank or 0)):
        (exception,) = traceback.exceptions
        assert exception.line.rank == rank
        assert exception.line.message == f"ValueError: rank {rank} saw {rank * 3}"
        assert len(exception.frames) == 2


def test_interleaved_chains_stay_chains() -> None:
    """Chaining is judged within a rank."""
    columns = [[f"[rank{rank}]: {line}" for line in [*FIRST, *CAUSE, *SECOND]] for rank in range(3)]
    assert [names(traceback) for traceback in found(interleaved(*columns))] == [["KeyError", "loader.DataError"]] * 3


def test_a_traceback_cut_at_its_top_is_read() -> None:
    """A pasted end of a terminal begins among the frames."""
    traceback = only(FIRST[2:])
    assert names(traceback) == ["KeyError"]
    assert len(traceback.exceptions[0].frames) == 1


def test_a_traceback_cut_at_its_bottom_names_no_exception(book: RuleBook) -> None:
    """Something was raised, but its frames are no evidence of what, even when source text looks like an error."""
    lines = [*FIRST[:4], '    report("RuntimeError: CUDA out of memory")']
    assert all(not traceback.exceptions for traceback in found(lines))
    answer = diagnosed(book, *steps(1, 20), *lines)
    assert (answer.failed, answer.reason.value, answer.root_cause and answer.root_cause.line) == (True, "Others", 25)
    assert "traceback" in answer.recovery.steps[0]


@pytest.mark.parametrize(
    "lines",
    [
        [*FIRST[:4], *steps(21, 20)],
        ["Exception ignored in: <function Pool.__del__>", *FIRST[:4]],
        ["WARNING loader: could not read sample 7", *FIRST[:4]],
        FIRST[1:3],
    ],
    ids=["the job goes on", "ignored", "only logged", "frames without a head"],
)
def test_a_traceback_without_its_end_ends_no_job_that_may_have_gone_on(book: RuleBook, lines: list[str]) -> None:
    """What follows it, what stands above it, or frames alone do not show that the process ended."""
    assert not diagnosed(book, *steps(1, 20), *lines).failed


def test_a_traceback_cut_at_its_bottom_after_a_raise_names_what_is_raised(book: RuleBook) -> None:
    """The last frame's `raise` is the best that is left of the exception."""
    lines = [*FIRST[:4], '    raise ValueError("widget count must be positive")']
    assert names(only(lines)) == ["ValueError"]
    answer = diagnosed(book, *lines)
    assert answer.reason.value == "ValueError"


def test_source_text_in_a_frame_is_never_the_root(book: RuleBook) -> None:
    """A `raise` with the words of another failure does not beat what was really raised."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/srv/job/train.py", line 5, in main',
        '    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")  # KeyError: never',
        "ValueError: the widget is jammed",
    ]
    answer = diagnosed(book, *lines)
    assert answer.reason.value == "ValueError"
    assert answer.root_cause is not None
    assert answer.root_cause.line == 4


def test_carets_and_repeated_frames_belong_to_the_traceback() -> None:
    """Python 3.11's marks and a deep recursion's summary end nothing."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/srv/job/a.py", line 5, in main',
        '    batch = row["caption"] + other[index]',
        "            ~~~^^^^^^^^^^^",
        '  File "/srv/job/a.py", line 9, in again',
        "    again()",
        "  [Previous line repeated 996 more times]",
        "RecursionError: maximum recursion depth exceeded",
    ]
    traceback = only(lines)
    assert names(traceback) == ["RecursionError"]
    assert traceback.code == frozenset(range(7))


def test_the_lines_of_a_long_message_belong_to_the_exception() -> None:
    """A message of several lines is kept with the exception that it belongs to."""
    traceback = only([*FIRST[:-1], "RuntimeError: shapes differ:", "  weight: 4 x 8", "  input: 3 x 9"])
    assert [line.text.strip() for line in traceback.exceptions[0].message] == ["weight: 4 x 8", "input: 3 x 9"]


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
    assert (answer.reason.value, answer.root_cause.line) == ("Others", 4 + len(lines))


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


def test_a_look_up_that_is_raised_anew_under_its_own_class_is_told_there(book: RuleBook) -> None:
    """The words for the reader name the cause better than the bare key; another class leaves the look-up the root."""
    anew = ["Traceback (most recent call last):", '  File "/srv/job/plan.py", line 8, in find', "    raise KeyError("]
    same = [*FIRST, *CAUSE, *anew, "KeyError: 'the plan has no column caption, only text and id'"]
    answer = diagnosed(book, *same)
    assert answer.root_cause is not None
    assert answer.root_cause.line == len(same)
    other = diagnosed(book, *FIRST, *CAUSE, *SECOND)
    assert other.root_cause is not None
    assert other.root_cause.line == len(FIRST)


def test_a_record_of_another_rank_is_not_above_a_traceback() -> None:
    """A launcher puts its prefix before tracebacks too: what has none was not printed by that rank's logger."""
    record = "2026-03-11 18:14:39 ERROR a row was left out"
    assert only([record, *FIRST]).logged
    assert only([f"[default1]:{record}", *(f"[default1]:{line}" for line in FIRST)]).logged
    assert not only([f"[default1]:{record}", *FIRST]).logged


def test_an_exception_that_quotes_another_traceback_is_not_its_cause(book: RuleBook) -> None:
    """Its text ends with a colon, and what it quotes follows: the quoted one is named."""
    outer = traceback_of(
        "RuntimeError: The actor of the loom could not be imported. This may be because of the environment:"
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


def test_the_exception_that_a_failing_hook_was_called_for_is_the_one_that_counts(book: RuleBook) -> None:
    """What failed in the hook was only ignored."""
    lines = [
        *("Error in sys.excepthook:", *traceback_of("tracker.errors.UploadRefused: text is too long")),
        *("", "Original exception was:", *traceback_of("ValueError: Input 0 of the loom has 5 dimensions")),
    ]
    answer = diagnosed(book, *steps(1, 5), *lines)
    assert (answer.reason.value, answer.failed) == ("ValueError", True)


def test_what_a_later_record_follows_is_not_quoted(book: RuleBook) -> None:
    """Between an exception's text and what it quotes nothing else is logged."""
    first = traceback_of("ValueError: these rows have no weft:")
    record = "2026-03-11 18:14:40,104 INFO loom: closing"
    second = traceback_of("KeyError: 'shuttle'")
    assert diagnosed(book, *steps(1, 5), *first, record, *second).reason.value == "ValueError"


@pytest.mark.parametrize(
    "following",
    [
        "/site-packages/library/core.py:33: UserWarning: the optional kernels are not there",
        "Warning: importing 'old.name' is deprecated. Import 'name' instead.",
        "NOTE: Redirects are currently not supported on this system.",
    ],
)
def test_what_the_next_program_says_first_is_no_exception(book: RuleBook, following: str) -> None:
    """A traceback broke off before its last line; the next run of the same job tells what is wrong."""
    failure = traceback_of("KeyError: 'caption'")
    answer = diagnosed(book, *failure[:-1], following, *failure)
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert answer.root_cause.line == 2 * len(failure)


@pytest.mark.parametrize(
    "above",
    [
        "/site-packages/search.py:548: FitFailedWarning: The fit failed. Details:",
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


def test_an_exception_that_was_never_raised_belongs_to_the_one_it_caused(book: RuleBook) -> None:
    """It is printed without a traceback, first in the chain; the record above tells of the whole chain."""
    alone = "hub.errors.OfflineModeIsEnabled: Cannot reach the hub: offline mode is enabled."
    raised = traceback_of("hub.errors.LocalEntryNotFoundError: the file is not in the cache")
    chain = found(["2026-03-11 18:14:15 ERROR cannot load task 'qa', leaving it out", alone, *CAUSE, *raised])
    assert [exception.name.rpartition(".")[2] for exception in chain[0].exceptions] == [
        "OfflineModeIsEnabled",
        "LocalEntryNotFoundError",
    ]
    assert (len(chain), chain[0].logged) == (1, True)
    unknown = ["pool.errors.TooMuch: 503 again", *CAUSE, *traceback_of("KeyError: 'caption'")]
    assert diagnosed(book, *unknown).reason.value == "KeyError"


def test_a_record_that_says_what_it_ends_announces_no_survivor() -> None:
    """torch.multiprocessing warns that it ends the other processes, and then raises."""
    ending = "W0311 18:14:15.758000 17 torch/multiprocessing/spawn.py:165] Terminating process 104 via signal SIGTERM"
    warned = "2026-03-11 18:14:15 WARNING clip 7 is silent"
    died = traceback_of("KeyError: 'caption'")
    assert [found([above, *died])[0].logged for above in (ending, warned)] == [False, True]


def test_a_warning_of_python_below_an_exception_is_no_exception(book: RuleBook) -> None:
    """What interpreters that end still warn of says nothing of why they end."""
    warned = (
        "/usr/lib/python3.10/tempfile.py:869: ResourceWarning: Implicitly cleaning up <TemporaryDirectory '/tmp/a'>"
    )
    answer = diagnosed(book, *traceback_of("FileNotFoundError: No packed shards match '/data/a_*'"), warned)
    assert answer.reason.value == "FileNotFoundError"
    assert names(only([*FIRST, warned])) == ["KeyError"]


def test_what_logging_could_not_print_ends_nothing(book: RuleBook) -> None:
    """Its own report has a call stack and the message below the exception, with or without its headline."""
    own = [
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3.9/logging/__init__.py", line 1083, in emit',
        "    msg = self.format(record)",
        "TypeError: cannot pickle 'traceback' object",
        "Call stack:",
        '  File "/usr/lib/python3.9/threading.py", line 937, in _bootstrap',
        "    self._bootstrap_inner()",
        "Message: 'request 7 was refused'",
        "Arguments: ()",
    ]
    assert not diagnosed(book, *FIRST[:-1], "api.NotFound: 404", *CONTEXT, *own, "request 8 is answered").failed
    assert diagnosed(book, *FIRST[:-1], "api.NotFound: 404", *CONTEXT, *own[:1], *own[3:4]).failed


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


def test_a_missed_look_up_in_a_cache_is_not_why_its_handler_failed(book: RuleBook) -> None:
    """Compilers of kernels look them up by a tuple first, and compile them when they are not there."""
    missed = traceback_of("KeyError: ('2-.-0-.-0-4f74039', 16)")
    failed = traceback_of("TypeError: max() missing 1 required positional argument: 'axis'")
    assert diagnosed(book, *missed, *CONTEXT, *failed).reason.value == "TypeError"
    assert diagnosed(book, *FIRST, *CONTEXT, *failed).reason.value == "KeyError"


@pytest.mark.parametrize(
    "said", ["make: *** [serve] Error 1", "run.sh: line 12: exiting", "srun: error: node-3: task 0: gone"]
)
def test_what_ran_the_program_speaks_for_itself_below_its_exception(book: RuleBook, said: str) -> None:
    """It is no part of the exception's text, and no better cause."""
    assert only([*FIRST, said]).exceptions[0].message == ()
    answer = diagnosed(book, *traceback_of("ModuleNotFoundError: No module named 'titan'"), said)
    assert answer.reason.value == "ImportError"


def test_a_look_up_that_is_raised_anew_with_what_it_looked_for_is_told_there(book: RuleBook) -> None:
    """The second exception quotes the key of the first, whatever its class."""
    anew = ["Traceback (most recent call last):", '  File "/srv/job/plan.py", line 8, in find', "    raise ValueError("]
    quoting = diagnosed(book, *FIRST, *CAUSE, *anew, "ValueError: no stage is called 'caption'")
    assert quoting.reason.value == "ValueError"
    other = diagnosed(book, *FIRST, *CAUSE, *anew, "ValueError: the plan has no such stage")
    assert other.reason.value == "KeyError"


def test_a_conversion_that_was_only_tried_is_no_cause(book: RuleBook) -> None:
    """A program that takes a number or a word says what is wrong with the word; a mistake in the handler does not."""
    tried = traceback_of("ValueError: invalid literal for int() with base 10: 'loom'")
    during = ["", "During handling of the above exception, another exception occurred:", ""]
    head = ["Traceback (most recent call last):", '  File "/srv/job/train.py", line 9, in devices']
    raised = [*head, '    raise RuntimeError("no loom is attached")', "RuntimeError: no loom is attached"]
    assert diagnosed(book, *tried, *during, *raised).reason.value == "RuntimeError"
    mistaken = [*head, "    weave(thread)", "RuntimeError: no loom is attached"]
    assert diagnosed(book, *tried, *during, *mistaken).reason.value == "ValueError"


def test_root_errors_that_are_only_counted_are_named_below(book: RuleBook) -> None:
    """TensorFlow's exception says how many there are, and each stands on a line of its own."""
    head = "tensorflow.python.framework.errors_impl.{}: 2 root error(s) found."
    missing = diagnosed(
        book,
        *steps(1, 3),
        *traceback_of(head.format("NotFoundError")),
        "  (0) Not found:  rows/7.jpg; No such file or directory",
        "\t [[{{node ReadFile}}]]",
    )
    assert missing.reason.value == "FileNotFoundError"
    assert missing.root_cause is not None
    assert "rows/7.jpg" in missing.root_cause.text


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
