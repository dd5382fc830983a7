"""Tracebacks are read as wholes: chained, relayed, interleaved, cut at either end."""

from __future__ import annotations

import pytest

from logdiag.judge.tracebacks.chains import Link
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, steps, traceback_of
from tests.judge.test_causes import root_line
from tests.traceback_helpers import CAUSE, CONTEXT, FIRST, SECOND, found, interleaved, names, only


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


def test_a_childs_exception_below_an_ignored_one_ended_the_child(book: RuleBook) -> None:
    """`Process Process-1:` quotes nothing; it announces what a process of multiprocessing died of."""
    ignored = [
        "Exception ignored in: <function Loader.__del__ at 0x7f2b>",
        *traceback_of("RuntimeError: it was killed"),
    ]
    lines = [*ignored, "Process Process-1:", *traceback_of("IndexError: tuple index out of range")]
    first, second = found(lines)
    assert [first.ignored, second.ignored] == [True, False]
    assert root_line(diagnosed(book, *steps(1, 3), *lines)) == 3 + len(lines)


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


def test_a_warning_below_frames_is_not_the_exception_of_a_traceback() -> None:
    """Its class stands behind the file and line that warn: `tracker.py:224: UserWarning: ...`."""
    warning = "/usr/lib/python3.11/multiprocessing/resource_tracker.py:224: UserWarning: there appear to be 12 leaked"
    assert all(not traceback.exceptions for traceback in found([*FIRST[:3], warning, "  warnings.warn('there')"]))


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
