"""Root before consequence: what broke first, what followed from it, and what was recovered from."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdiag import Diagnosis, Reason, diagnose
from logdiag.judge.root import loud_cause_that_nothing_explains
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, log_of, steps, traceback_of, watchdog

ECC = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
API = "torch/distributed/elastic/multiprocessing/api.py"
LAUNCHER = [
    f"W0311 18:14:40.104000 4711 {API}:900] Sending process 4790 closing signal SIGTERM",
    f"E0311 18:14:41.104000 4711 {API}:874] failed (exitcode: 1) local_rank: 0 (pid: 4790) of binary: /usr/bin/python3",
    *traceback_of("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
    "============================================================",
    "train.py FAILED",
    "------------------------------------------------------------",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-03-11_18:14:41",
    "  host      : gpu017",
    "  rank      : 0 (local_rank: 0)",
    "  exitcode  : 1 (pid: 4790)",
    "  error_file: <N/A>",
    "============================================================",
]


def root_line(answer: Diagnosis) -> int:
    """The number of the root line."""
    assert answer.root_cause is not None
    return answer.root_cause.line


def consequence_ranks(answer: Diagnosis, reason: str) -> tuple[int, ...]:
    """The ranks on which a consequence was seen."""
    return tuple(sorted({rank for item in answer.consequences if item.reason == reason for rank in item.ranks}))


def test_one_ranks_error_is_the_root_of_all_watchdog_time_outs(book: RuleBook) -> None:
    """63 other ranks run into the time-out; they are folded with their count and their ranks."""
    failure = traceback_of("KeyError: 'caption'", prefix="[rank37]: ")
    answer = diagnosed(book, *steps(1, 50), *failure, *(watchdog(rank) for rank in range(64) if rank != 37))
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert answer.root_cause.rank == 37
    assert root_line(answer) == 50 + len(failure)
    assert consequence_ranks(answer, "NCCLTimeoutError") == tuple(rank for rank in range(64) if rank != 37)
    assert sum(item.count for item in answer.consequences if item.reason == "NCCLTimeoutError") == 63


def test_the_root_may_be_printed_after_its_consequences(book: RuleBook) -> None:
    """Each process buffers its own output: a cause a few lines after the watchdogs is still the cause."""
    failure = traceback_of("KeyError: 'caption'", prefix="[rank2]: ")
    answer = diagnosed(book, *steps(1, 50), watchdog(0), watchdog(1), *failure, watchdog(3))
    assert answer.reason.value == "KeyError"


def test_an_ecc_error_explains_cuda_errors_and_time_outs(book: RuleBook) -> None:
    """The chain of a dying GPU has one root."""
    answer = diagnosed(
        book,
        *steps(1, 50),
        *traceback_of(ECC, prefix="[rank5]: "),
        *traceback_of("RuntimeError: CUDA error: unspecified launch failure", prefix="[rank4]: "),
        *map(watchdog, (0, 1, 2, 3)),
        *LAUNCHER,
    )
    assert answer.reason.value == "ECCError"
    assert answer.root_cause is not None
    assert answer.root_cause.rank == 5
    assert "CUDAError" in {item.reason for item in answer.consequences}


def test_without_an_earlier_cause_the_time_out_is_the_reason(book: RuleBook) -> None:
    """A collective that timed out with nothing before it is what is known."""
    answer = diagnosed(book, *steps(1, 50), *map(watchdog, range(8)), *LAUNCHER)
    assert answer.reason.value == "NCCLTimeoutError"
    assert root_line(answer) == 51


def test_an_exception_that_no_rule_knows_stands_before_a_later_programs_known_one(book: RuleBook) -> None:
    """What broke first is the root, though a class of the program's own says less than the next program's."""
    unknown = traceback_of("recipe.SchemaFault: no column of this name")
    later = traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'results/summary.json'")
    answer = diagnosed(book, *steps(1, 50), *unknown, *later)
    assert root_line(answer) == 50 + len(unknown)
    assert answer.reason is not Reason.FILE_NOT_FOUND_ERROR
    wrapped = ["cells.CellExecutionError:", "Exception encountered in cell 10:", "", "ValueError: no path to the input"]
    assert diagnosed(book, "Device: cuda", *wrapped).reason.value == "ValueError"
    both = diagnosed(book, *steps(1, 50), *later, *unknown)
    assert both.reason.value == "FileNotFoundError"


def test_the_launchers_table_is_never_the_root_when_better_is_there(book: RuleBook) -> None:
    """The table names rank 0; the traceback on rank 3 broke first."""
    failure = traceback_of("IndexError: list index out of range", prefix="[rank3]: ")
    answer = diagnosed(book, *steps(1, 50), *failure, *LAUNCHER)
    assert answer.reason.value == "IndexError"
    assert answer.root_cause is not None
    assert answer.root_cause.rank == 3


def test_the_launchers_table_alone_still_means_a_failure(book: RuleBook) -> None:
    """A failure without a cause is said to be one."""
    answer = diagnosed(book, *steps(1, 50), *LAUNCHER)
    assert answer.failed
    assert any("the cause is not in this log; collect next" in note for note in answer.notes)


@pytest.mark.parametrize(
    "ending",
    [
        [
            "slurmstepd: error: *** STEP 4711.0 ON gpu017 CANCELLED AT 2026-03-11T18:14:41 ***",
            "srun: error: gpu018: tasks 4-7: Terminated"],
        ["srun: error: gpu018: task 6: Exited with exit code 1"],
        ["Signal: SIGTERM received, exiting"],
        ["torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15"],
        LAUNCHER,
    ],
    ids=["slurm", "srun", "sigterm", "elastic", "table"],
)  # fmt: skip
def test_what_ends_the_other_processes_is_not_the_root(book: RuleBook, ending: list[str]) -> None:
    """Signals, exit codes and cancelled steps come after the cause."""
    failure = traceback_of("IndexError: list index out of range", prefix="[rank3]: ")
    for lines in ([*steps(1, 50), *failure, *ending], [*steps(1, 50), *ending[:1], *failure, *ending[1:]]):
        assert diagnosed(book, *lines).reason.value == "IndexError"


@pytest.mark.parametrize(
    ("first", "ending"),
    [
        (
            "[gpu018:4711] *** MPI_ERR_OTHER: known error not in list",
            [
                "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
                "srun: error: gpu018: task 6: Exited with exit code 16",
                "srun: error: gpu017: tasks 0-3: Killed",
            ],
        ),
        (
            "application called MPI_Abort(MPI_COMM_WORLD, 9) - process 6",
            ["Process died with signal 6: 'Aborted'", "srun: error: gpu018: task 6: Aborted (core dumped)"],
        ),
    ],
    ids=["a launcher's stop", "a call that ends all"],
)
def test_what_an_announced_end_brings_is_not_the_root(book: RuleBook, first: str, ending: list[str]) -> None:
    """A launcher kills all processes once it ends a step, and who calls MPI_Abort dies of a signal."""
    assert root_line(diagnosed(book, *steps(1, 50), first, *ending)) == 51


def test_a_process_that_is_killed_first_is_the_root_of_what_its_peers_say(book: RuleBook) -> None:
    """Nothing announced the first kill, so it explains the errors of the others."""
    killed = "srun: error: gpu017: task 2: Killed"
    later = ["srun: Terminating StepId=4711.0", "srun: error: gpu018: tasks 4-7: Killed"]
    answer = diagnosed(book, *steps(1, 50), "[gpu018:4711] *** MPI_ERR_OTHER: known error not in list", killed, *later)
    assert root_line(answer) == 52


ADVICE = [
    "CUDA kernel errors might be asynchronously reported at some other API call, "
    "so the stacktrace below might be incorrect.",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
]


def test_advice_is_never_evidence(book: RuleBook) -> None:
    """Advice text alone is no failure, and beside a failure it is not the root."""
    assert not diagnosed(book, *steps(1, 20), *ADVICE, *steps(21, 20)).failed
    answer = diagnosed(book, *steps(1, 20), *ADVICE, *traceback_of("TypeError: 'NoneType' object is not iterable"))
    assert answer.reason.value == "TypeError"


REFUSED = traceback_of("ConnectionRefusedError: [Errno 111] Connection refused")


def test_a_fault_that_was_retried_and_then_progressed_is_set_aside(book: RuleBook) -> None:
    """It is noted as recovered, and what killed the job later is the root."""
    logged = ["2026-03-11 18:04:11,104 WARNING tracker: upload failed, retrying", *REFUSED]
    answer = diagnosed(book, *steps(1, 30), *logged, *steps(31, 300), *traceback_of("KeyError: 'caption'"))
    assert answer.reason.value == "KeyError"
    assert any(note.startswith("recovered from") for note in answer.notes)


def test_a_recovered_fault_in_a_finished_job_is_no_failure(book: RuleBook) -> None:
    """The job went on and came to its end."""
    logged = ["2026-03-11 18:04:11,104 WARNING tracker: upload failed, retrying", *REFUSED]
    answer = diagnosed(book, *steps(1, 30), *logged, *steps(31, 300), "Training finished.")
    assert not answer.failed
    assert answer.reason.value == "none"


def test_a_fault_without_progress_after_it_is_the_root(book: RuleBook) -> None:
    """The same lines at the end of the log killed the job."""
    logged = ["2026-03-11 18:04:11,104 ERROR tracker: upload failed", *REFUSED]
    answer = diagnosed(book, *steps(1, 30), *logged)
    assert answer.failed
    assert answer.reason.value == "ConnectionError"


def test_progress_of_another_rank_does_not_excuse_a_fault(book: RuleBook) -> None:
    """The other ranks make a few more steps before they notice that one is gone."""
    failure = traceback_of("KeyError: 'caption'", prefix="[rank3]: ")
    answer = diagnosed(book, *steps(1, 30, "[rank0]: "), *failure, *steps(31, 5, "[rank0]: "), watchdog(0))
    assert answer.reason.value == "KeyError"


def test_the_first_rank_in_another_file_is_found_by_its_time(tmp_path: Path, book: RuleBook) -> None:
    """The file that is read last holds the earliest error."""

    def stamped(clock: str, lines: list[str]) -> list[str]:
        return [f"2026-03-11 {clock},104 ERROR [train.py:88] {line}" for line in lines]

    (tmp_path / "rank_0.log").write_bytes(log_of(*stamped("18:14:30", traceback_of("ValueError: batch is short"))))
    (tmp_path / "rank_1.log").write_bytes(log_of(*stamped("18:14:29", traceback_of("TypeError: unsupported operand"))))
    (tmp_path / "rank_2.log").write_bytes(log_of(*stamped("18:04:11", traceback_of("KeyError: 'caption'"))))
    answer = diagnose(tmp_path, rules=book)
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert answer.root_cause.source.endswith("rank_2.log")
    assert answer.root_cause.rank == 2


def test_times_without_a_year_order_the_files_of_ranks(tmp_path: Path, book: RuleBook) -> None:
    """As torch's C++ prints them, to the fraction of a second; beside a line with a year they say nothing."""
    for rank, clock in enumerate(("11.500000000", "11.250000000", "12.000000000")):
        line = watchdog(rank).replace("11.104213000", clock)
        (tmp_path / f"rank_{rank}.log").write_bytes(log_of(*steps(1, 20), line))
    answer = diagnose(tmp_path, rules=book)
    assert (answer.reason.value, rank_of(answer)) == ("NCCLTimeoutError", 1)
    cuda = "[rank1]:[E101 00:00:01.104213000 CUDAException.cpp:43] CUDA error: an illegal memory access was encountered"
    dated = [f"2026-03-11 18:14:30,104 {line}" for line in traceback_of("ValueError: batch is short")]
    (tmp_path / "rank_0.log").write_bytes(log_of(*steps(1, 20), *dated))
    (tmp_path / "rank_1.log").write_bytes(log_of(*steps(1, 20), cuda))
    (tmp_path / "rank_2.log").unlink()
    assert diagnose(tmp_path, rules=book).reason.value == "ValueError"


def test_a_cause_in_one_file_explains_symptoms_in_the_others(tmp_path: Path, book: RuleBook) -> None:
    """Whatever the order of the files."""
    for rank in range(4):
        lines = traceback_of("KeyError: 'caption'", prefix="[rank2]: ") if rank == 2 else [watchdog(rank)]
        (tmp_path / f"rank_{rank}.log").write_bytes(log_of(*steps(1, 20), *lines))
    answer = diagnose(tmp_path, rules=book)
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert answer.root_cause.rank == 2
    assert consequence_ranks(answer, "NCCLTimeoutError") == (0, 1, 3)


def test_a_second_error_that_nothing_explains_is_a_candidate(book: RuleBook) -> None:
    """The first is the root, the second stands on its own and makes the answer less certain."""
    first = traceback_of("KeyError: 'caption'", prefix="[rank1]: ")
    second = traceback_of("PermissionError: [Errno 13] Permission denied: '/data/out'", prefix="[rank6]: ")
    alone = diagnosed(book, *steps(1, 20), *first)
    both = diagnosed(book, *steps(1, 20), *first, *second)
    assert both.reason.value == "KeyError"
    assert "PermissionError" in {candidate.reason.value for candidate in both.candidates}
    assert "PermissionError" not in {item.reason for item in both.consequences}
    assert both.confidence < alone.confidence


def test_many_ranks_with_the_same_error_are_one_failure(book: RuleBook) -> None:
    """The first in the log is the root, the others are folded behind it."""
    lines = [line for rank in range(8) for line in traceback_of("KeyError: 'caption'", prefix=f"[rank{rank}]: ")]
    answer = diagnosed(book, *steps(1, 20), *lines)
    assert answer.reason.value == "KeyError"
    assert root_line(answer) == 20 + 6
    assert consequence_ranks(answer, "KeyError") == tuple(range(1, 8))


def test_of_a_chain_the_exception_that_names_the_cause_is_the_root(book: RuleBook) -> None:
    """A wrapper raised from it tells less."""
    lines = [
        *traceback_of("OSError: [Errno 28] No space left on device"),
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        *traceback_of("RuntimeError: saving the checkpoint failed"),
    ]
    answer = diagnosed(book, *steps(1, 20), *lines)
    assert answer.reason.value == "OSError"
    assert root_line(answer) == 26


def test_scary_words_without_a_failure_are_no_failure(book: RuleBook) -> None:
    """Names and counts of errors, and text that the job trains on."""
    answer = diagnosed(
        book,
        "loading error_handler plugin",
        "word_error_rate: 0.12 failures: 0 errors=0",
        *steps(1, 30),
        "sample: 'the kernel panicked and the disk failed with an error'",
        *steps(31, 30),
    )
    assert not answer.failed
    assert answer.recovery.action.value == "none"


def test_a_handled_exception_of_a_job_that_ended_well_is_no_failure(book: RuleBook) -> None:
    """Its traceback has no record above it, but steps and a proper end behind it; without that end it is the cause."""
    failure = traceback_of("KeyError: 'caption'")
    assert not diagnosed(book, *steps(1, 20), *failure, *steps(21, 20), "Training finished.").failed
    assert diagnosed(book, *steps(1, 20), *failure, *steps(21, 20)).failed


def test_an_exception_that_was_only_logged_is_not_what_the_job_died_of(book: RuleBook) -> None:
    """A record or a word of what is done instead stands above its traceback, whoever the logger's prefix names."""
    for above in (
        "2026-03-11 18:14:40,100 ERROR [rank 3] train: a batch cannot be read",
        "skipping a batch that cannot be read",
        '{"time": "2026-03-11 18:14:40", "level": "ERROR", "rank": 3, "message": "a batch cannot be read"}',
    ):
        told = [above, *traceback_of("json.decoder.JSONDecodeError: Expecting value: line 1 column 2 (char 1)")]
        died = traceback_of("TypeError: 'NoneType' object is not iterable", prefix="[rank1]: ")
        answer = diagnosed(book, *steps(1, 20), *told, *steps(21, 20), *died, *LAUNCHER)
        assert answer.reason.value == "TypeError", above
        assert any("recovered from: " in note for note in answer.notes)


def test_what_fails_after_the_launchers_last_words_is_another_programs(book: RuleBook) -> None:
    """A script goes on when torchrun has failed; what breaks then is told, but is no cause."""
    later = traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'results/summary.json'")
    found = diagnosed(book, *steps(1, 20), *traceback_of("KeyError: 'caption'", prefix="[rank2]: "), *LAUNCHER, *later)
    assert found.reason.value == "KeyError"
    assert any("another program of its script failed too: Missing file" in note for note in found.notes)
    unknown = diagnosed(book, *steps(1, 20), *LAUNCHER, *later)
    assert unknown.reason.value == "Others"
    assert any("the cause is not in this log" in note for note in unknown.notes)


def test_an_exception_that_the_interpreter_ignored_fails_no_job(book: RuleBook) -> None:
    """A destructor at exit; in a thread the same exception may be the cause."""
    failure = traceback_of("AttributeError: 'Writer' object has no attribute 'queue'")
    ignored = ["Exception ignored in: <function Writer.__del__ at 0x7f38878fa200>", *failure]
    assert not diagnosed(book, *steps(1, 50), *ignored).failed
    assert diagnosed(book, *steps(1, 50), "Exception in thread Thread-3 (feed):", *failure).failed


def test_a_machine_that_is_to_be_taken_away_works_until_it_is(book: RuleBook) -> None:
    """Steps after the notice are no recovery when the workers are then told to end."""
    answer = diagnosed(
        book,
        *steps(1, 20),
        "2026-03-11 18:14:40,100 WARNING spot: interruption notice received: action=terminate, saving and leaving",
        *steps(21, 10),
        f"W0311 18:14:44.104000 4711 {API}:753] Received 15 death signal, shutting down workers",
        *traceback_of("torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15"),
    )
    assert answer.reason.value == "NodeFailure"


def rank_of(answer: Diagnosis) -> int | None:
    """The first failing rank."""
    assert answer.root_cause is not None
    return answer.root_cause.rank


def test_steps_in_json_records_are_progress(book: RuleBook) -> None:
    """What a record says is read, not only that it is one, also behind a launcher's prefix."""
    record = '[default0]:{{"time": "2026-03-11 18:14:40", "level": "INFO", "rank": 0, "message": "{}"}}'
    lines = [record.format(text) for text in ("starting", *steps(1, 20))]
    assert diagnosed(book, *lines).stats["supports"] == ["working"]
    assert diagnosed(book, *lines, record.format("training finished after 20 steps")).stats["supports"] == ["finished"]


def test_what_torch_prints_when_nothing_caught_it_was_not_only_logged(book: RuleBook) -> None:
    """A warning of the same rank right above it does not make it one that the process survived."""
    answer = diagnosed(
        book,
        *steps(1, 20),
        "[rank2]:[W311 18:14:40.104213000 socket.cpp:207] [c10d] The hostname of the client socket cannot be read.",
        *traceback_of("KeyError: 'caption'", prefix="[rank2]: "),
        *steps(21, 10),
        *LAUNCHER,
    )
    assert answer.reason.value == "KeyError"
    assert rank_of(answer) == 2


def test_what_python_only_warns_of_is_no_cause_unless_a_machine_is_at_fault(book: RuleBook) -> None:
    """A library goes on without an extension; a GPU that does not start makes the next line fail."""
    warning = "/opt/lib/python3.11/site-packages/loom/typing.py:68: UserWarning: "
    failed = traceback_of("AssertionError: nothing to weave with")
    missing = warning + "No fast weaving: libweft.so.2: cannot open shared object file: No such file or directory"
    assert diagnosed(book, missing, "  warnings.warn(", *steps(1, 5), *failed).reason.value == "AssertionError"
    gpu = (
        warning
        + "CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"
    )
    assert diagnosed(book, gpu, "  return torch._C._cuda_getDeviceCount() > 0", *failed).reason.value == "NVLinkError"


def test_in_one_file_times_without_a_year_do_not_order_ranks(book: RuleBook) -> None:
    """Watchdogs of all ranks speak within a moment; which of them is the cause, their words tell."""
    line = "[rank{0}]:[E311 18:04:1{0}.104213000 ProcessGroupNCCL.cpp:2068] [Rank {0}] Process group watchdog thread "
    line += "terminated with exception: CUDA error: {1}"
    lines = [line.format(1, "unspecified launch failure"), line.format(3, "uncorrectable ECC error encountered")]
    assert diagnosed(book, *steps(1, 20), *lines).reason.value == "ECCError"


def test_a_name_that_does_not_resolve_is_why_nothing_answers_there(book: RuleBook) -> None:
    """The warning that names the host comes first; by the rules one of another host does not lead to it."""
    unknown = "[W socket.cpp:697] [c10d] The IPv6 network addresses of ({}, 29500) cannot be retrieved "
    unknown += "(gai error: -2 - Name or service not known)."
    silent = "[E socket.cpp:957] [c10d] The client socket has timed out after 60s while trying to connect to "
    answer = diagnosed(book, "starting", unknown.format("loom-0"), silent + "(loom-0, 29500).")
    assert (answer.reason.value, root_line(answer)) == ("NetworkError", 2)
    other = diagnosed(book, "starting", unknown.format("loom-9"), silent + "(loom-0, 29500).")
    by_rules = [made.name for made in other.decisions if made.about and made.about.number == 3]
    assert loud_cause_that_nothing_explains.__name__ in by_rules


def test_who_ends_processes_for_their_memory_tells_of_it_afterwards(book: RuleBook) -> None:
    """Slurm reports the kill below the exception that it led to; an exception explains nothing before it."""
    died = traceback_of("RuntimeError: One of the subprocesses has abruptly died during map operation.")
    killed = "slurmstepd: error: Detected 3 oom_kill events in StepId=881.batch. Some tasks have been OOM Killed."
    assert diagnosed(book, *steps(1, 5), *died, killed).reason.value == "OutOfMemoryError"
    second = traceback_of("MemoryError")
    assert diagnosed(book, *steps(1, 5), *died, *second).reason.value == "DataloaderKilled"


def test_a_container_that_misses_a_path_is_no_next_program(book: RuleBook) -> None:
    """What Slurm's plug-in prints below its own summary belongs to the same failure."""
    lines = [
        "slurmstepd: error: pyxis: container start failed with error code: 1",
        "slurmstepd: error: pyxis: printing enroot log file:",
        "slurmstepd: error: pyxis:     enroot-mount: failed to mount: /data/x at /run/x: No such file or directory",
    ]
    answer = diagnosed(book, *lines)
    assert (answer.reason.value, root_line(answer)) == ("FileNotFoundError", 3)


def test_what_a_c_plus_plus_exception_says_is_the_root(book: RuleBook) -> None:
    """The line that only says that an exception was thrown leads to the line below, which says which."""
    answer = diagnosed(book, "terminate called after throwing an instance of 'mill::Torn'", "  what():  no sheet")
    assert (answer.reason, answer.root_cause and answer.root_cause.line) == (Reason.RUNTIME_ERROR, 2)
