"""How the job went on tells what ended it: refused lines of a script, stops after its end, caught exceptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdiag import diagnose
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, log_of, steps, traceback_of
from tests.judge.test_causes import API, LAUNCHER, rank_of, root_line

REFUSED = "mkdir: cannot create directory '/results/run7': Permission denied"
TOLD_TO_END = [
    "W0311 18:14:40.104000 4711 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting "
    "down workers",
    f"W0311 18:14:40.204000 4711 {API}:900] Sending process 4790 closing signal SIGTERM",
    *traceback_of("torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15"),
]


@pytest.mark.parametrize(
    "stop",
    [
        TOLD_TO_END,
        ["run.sh: line 9:  4711 Terminated              python serve.py"],
        ["run.sh: line 9:    18 Killed                  bash watch.sh"],
        traceback_of("KeyboardInterrupt"),
        [f"E0311 18:14:41.104000 4711 {API}:874] failed (exitcode: -15) local_rank: 0 (pid: 4790) of binary: python3"],
    ],
    ids=["launcher", "shell", "killed helper", "interrupt", "exit code"],
)
def test_what_is_stopped_after_the_proper_end_fails_no_job(book: RuleBook, stop: list[str]) -> None:
    """A test of the result or a server that is tried out is told to end; the job itself had ended well."""
    tried = ["Training finished.", "trying the result", *steps(1, 4)]
    assert not diagnosed(book, *steps(1, 60), *tried, *stop).failed
    assert diagnosed(book, *steps(1, 60), *stop).failed


def test_a_stop_after_an_end_fails_a_job_that_had_more_to_do(book: RuleBook) -> None:
    """What was stopped is the larger part of the log, the caller knows of a failure, or something broke."""
    assert diagnosed(book, *steps(1, 20), "Training finished.", *steps(1, 60), *TOLD_TO_END).failed
    assert diagnosed(book, *steps(1, 60), "Training finished.", *TOLD_TO_END, exit_code=143).failed
    assert diagnosed(book, *steps(1, 60), "Training finished.", *LAUNCHER).failed
    broken = traceback_of("KeyError: 'caption'")
    answer = diagnosed(book, *steps(1, 60), "Training finished.", *broken, *TOLD_TO_END)
    assert answer.reason.value == "KeyError"


def test_an_exception_that_one_rank_caught_does_not_explain_anothers_death(book: RuleBook, tmp_path: Path) -> None:
    """Rank 0 leaves out a file that it cannot read; rank 2 dies of a service, each in a file of its own."""
    caught = [
        "[2026-03-11 18:14:30,100][ERROR] leaving out a file",
        *traceback_of("tarfile.ReadError: not a gzip file"),
    ]
    (tmp_path / "rank0.log").write_bytes(log_of(*steps(1, 5), *caught, "[2026-03-11 18:14:31,100][INFO] saved"))
    died = traceback_of("aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected", prefix="[rank2]: ")
    (tmp_path / "rank2.log").write_bytes(log_of(*died))
    answer = diagnose(tmp_path, rules=book)
    assert answer.reason.value == "ConnectionError"
    assert rank_of(answer) == 2


def test_what_a_node_prints_behind_its_launchers_last_words_is_the_next_programs(book: RuleBook) -> None:
    """The same of each node, where every line names one; another node's launcher says nothing of it."""
    first = [f"node-1: {line}" for line in [*traceback_of("KeyError: 'seat'", prefix="[rank0]: "), *LAUNCHER]]
    missing = "ValueError: no results to sum up"
    last_words = [f"node-1: {line}" for line in LAUNCHER]
    same = traceback_of(missing, prefix="node-1: ")
    other = traceback_of(missing, prefix="node-2: ")
    assert root_line(diagnosed(book, *steps(1, 30), *first, *same)) == 30 + len(first) - len(LAUNCHER)
    assert diagnosed(book, *steps(1, 30), *last_words, *same).reason.value == "Others"
    assert diagnosed(book, *steps(1, 30), *last_words, *other).reason.value == "ValueError"


def test_after_a_fatal_record_of_native_code_comes_another_program(book: RuleBook) -> None:
    """XLA ends a process whose devices do not meet; what the script runs next fails for want of the result."""
    abort = (
        "F0311 18:14:41.104000 4790 rendezvous.cc:88] [id=1] Termination timeout for `join` of 30 seconds exceeded. "
    )
    abort += "Exiting to ensure a consistent program state."
    missing = traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'sum.csv'")
    assert diagnosed(book, *steps(1, 30), abort, *missing).reason.value == "NCCLTimeoutError"


def test_an_interrupt_is_named_where_the_launcher_heard_of_it(book: RuleBook) -> None:
    """The workers' KeyboardInterrupt follows from it."""
    heard = "W0311 18:14:40.104000 4711 torch/distributed/elastic/agent/server/api.py:719] Received 2 death signal, "
    heard += "shutting down workers"
    answer = diagnosed(book, *steps(1, 30), heard, *traceback_of("KeyboardInterrupt", prefix="[rank0]: "), *LAUNCHER)
    assert (answer.reason.value, root_line(answer)) == ("Others", 31)


XID = "NVRM: Xid (PCI:0000:3a:00): 31, pid=20911, name=probe, Ch 00000008, intr 00000000. MMU Fault"
FINISHED = "2026-03-11 19:00:00,104 INFO training finished after 60 steps"
WORK = [f"2026-03-11 18:14:{second},104 INFO step: {second} loss: 2.1" for second in range(10, 60)]
BOOM = [f"[rank0]: {line}" for line in traceback_of("torch.AcceleratorError: CUDA error: unspecified launch failure")]


def of_job_and_node(folder: Path, job: list[str], node: list[str], book: RuleBook) -> str:
    """The reason for a job's log beside its machine's."""
    (folder / "job.log").write_bytes(log_of(*job))
    (folder / "messages.log").write_bytes(log_of(*node))
    return diagnose(folder, rules=book, memory=False).reason.value


@pytest.mark.parametrize(
    ("clock", "reason"),
    [
        ("Mar  9 18:00:00", "CUDAError"),
        ("Mar 11 18:14:59", "ECCError"),
        ("Mar 11 10:14:59", "ECCError"),
        ("Mar 11 02:00:00", "CUDAError"),
    ],
)
def test_what_a_machine_said_long_before_the_job_is_not_its_cause(
    clock: str, reason: str, tmp_path: Path, book: RuleBook
) -> None:
    """Days are long, whole hours may be another time zone, and others are another time; syslog prints no year."""
    ecc = f"{clock} gpu017 kernel: {XID.replace('31', '48')}"
    assert of_job_and_node(tmp_path, [*WORK, *BOOM], [ecc], book) == reason


def test_what_a_machine_said_of_others_is_no_failure_of_a_job_that_ended_well(tmp_path: Path, book: RuleBook) -> None:
    """The job's own log tells of its end; without that end, or with a death in it, the machine is believed."""
    node = [f"Mar 11 18:14:30 gpu017 kernel: {XID}"]
    assert of_job_and_node(tmp_path, [*WORK, FINISHED], node, book) == "none"
    assert of_job_and_node(tmp_path, WORK, node, book) == "CUDAError"
    assert of_job_and_node(tmp_path, [*WORK, *BOOM, FINISHED], node, book) == "CUDAError"
    (tmp_path / "rank_1.log").write_bytes(log_of(*WORK))
    assert of_job_and_node(tmp_path, [*WORK, FINISHED], node, book) == "CUDAError"
    (tmp_path / "rank_1.log").write_bytes(log_of(*WORK, FINISHED))
    assert of_job_and_node(tmp_path, [*WORK, FINISHED], node, book) == "none"
    assert diagnose(tmp_path, rules=book, memory=False, exit_code=1).reason.value == "CUDAError"


def test_an_xid_is_as_bad_as_it_says_whoever_passes_it_on(book: RuleBook) -> None:
    """A node's agent logs it as information."""
    noted = f"I0311 18:14:40.104213       1 log_monitor.go:160] New status generated: Message: {XID}"
    answer = diagnosed(book, *steps(1, 30), noted, *traceback_of("RuntimeError: the loom stopped", prefix="[rank0]: "))
    assert (answer.reason.value, root_line(answer)) == ("CUDAError", 31)


@pytest.mark.parametrize("date", ["0000-01-01", "0001-01-01", "9999-12-31", "1969-12-31"])
def test_no_date_is_too_odd(date: str, tmp_path: Path, book: RuleBook) -> None:
    """Machines without a clock print such dates; the answer is as without them."""
    odd = [line.replace("2026-03-11", date) for line in WORK]
    node = [f"Mar 11 18:14:59 gpu017 kernel: {XID.replace('31', '48')}"]
    assert of_job_and_node(tmp_path, [*odd, *BOOM], node, book) == "ECCError"


def test_a_tool_that_says_what_it_cannot_survive_ended_before_the_next_program(book: RuleBook) -> None:
    """The job script stops what it was about, and only reports: the report's own traceback is not the cause."""
    full = "task 1: cp: error writing '/srv/shard-7.tar': No space left on device"
    report = traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'results/summary.json'")
    answer = diagnosed(book, "task 0: stage-in: done", full, "stage-in failed for 1 of 4 tasks", *report)
    assert (answer.reason.value, root_line(answer)) == ("OSError", 2)
    assert answer.root_cause is not None
    assert answer.root_cause.rank == 1


KERNEL = [
    "[Sun Nov 22 06:13:00 2026] Memory cgroup out of memory: Killed process 3120077 (etl) total-vm:18874112kB",
    "[Sun Nov 22 06:33:08 2026] NVRM: Xid (PCI:0000:ba:00): 31, pid=3155410, name=jupyter, MMU Fault",
]


def test_what_the_kernel_said_of_others_shown_behind_a_proper_end_is_no_failure(book: RuleBook) -> None:
    """An epilogue prints the whole node's messages; a job that died is another matter, and so is one that only
    stopped to speak."""
    worked = [*steps(1, 60), "training finished after 60 steps"]
    assert not diagnosed(book, *worked, *KERNEL).failed
    assert diagnosed(book, *worked, *KERNEL, exit_code=1).failed
    assert diagnosed(book, *steps(1, 60), *KERNEL).failed
    died = traceback_of("KeyError: 'caption'", prefix="[rank1]: ")
    assert diagnosed(book, *steps(1, 60), *died, *KERNEL).failed


def test_calm_after_a_worker_that_was_started_anew_is_no_failure(book: RuleBook) -> None:
    """A worker that its nanny starts anew is no failure of the job, unless the job then gives its task up."""
    log = "2026-02-02 10:11:{:02d},131 - distributed.{}"
    restarted = log.format(
        12, "nanny - WARNING - Worker tcp://10.1.0.4:39215 (pid=811) exceeded 95% memory budget. Restarting..."
    )
    calm = [log.format(second, "scheduler - INFO - Register worker tcp://10.1.0.4:38847") for second in range(14, 22)]
    given_up = "distributed.scheduler.KilledWorker: Attempted to run task 'join-7' on 4 different workers"
    assert not diagnosed(book, restarted, *calm).failed
    assert diagnosed(book, restarted, calm[0]).failed
    assert diagnosed(book, restarted, *calm, *traceback_of(given_up)).reason.value == "OutOfMemoryError"


def test_steps_of_other_ranks_do_not_revive_one_that_crashed(book: RuleBook) -> None:
    """What the others had in their buffers comes after the line that one rank crashed of."""
    told = "3: [gpu017:24:0:24] ib_mlx5_log.c:171  Transport retry count exceeded on mlx5_2:1/RoCE (synd 0x15)"
    crash = "3: [gpu017:00024] Signal: Aborted (6)"
    others = steps(31, 10, prefix="1: ")
    answer = diagnosed(book, *steps(1, 30, prefix="1: "), told, crash, *others, exit_code=134)
    assert (answer.reason.value, root_line(answer)) == ("NetworkError", 31)
    assert diagnosed(book, *steps(1, 30, prefix="1: "), told, *others).failed is False


def test_the_text_of_a_training_example_is_no_event_of_the_job(book: RuleBook) -> None:
    """A log of somebody's failure with the marks of a chat template was data; the same line without them was not."""
    line = "slurmstepd: error: *** JOB 918822 ON gpu-b-04 CANCELLED AT 2025-03-02T04:10:12 DUE TO NODE FAILURE ***"
    assert not diagnosed(book, "training example:", f"{line}<|im_end|>", *steps(1, 30)).failed
    assert diagnosed(book, *steps(1, 30), line).failed


@pytest.mark.parametrize("words", ["Job finished at Sun Nov 22 10:00:00 UTC 2026", "All done!", "Training completed."])
def test_words_right_behind_a_failure_prove_no_proper_end(book: RuleBook, words: str) -> None:
    """A job script prints them whatever happened; where steps were made in between, or the work had ended before, and
    where only success prints it, they count."""
    died = traceback_of("KeyError: 'seat'")
    told = "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed."
    for failure in (died, [told]):
        answer = diagnosed(book, *steps(1, 30), *failure, words)
        assert (answer.failed, root_line(answer)) == (True, 30 + len(failure))
    logged = ["2026-03-11 18:14:39 ERROR the seat is lost", *died]
    assert not diagnosed(book, *steps(1, 30), *logged, *steps(31, 1), words).failed
    assert not diagnosed(book, *steps(1, 30), "training finished", *died, words).failed
    assert not diagnosed(book, *steps(1, 30), *died, "Process exited with code 0").failed


def test_the_extern_step_of_slurm_is_no_proper_end(book: RuleBook) -> None:
    """It completes whatever became of the job."""
    table = ["4711.batch        batch     FAILED      1:0", "4711.extern      extern  COMPLETED      0:0"]
    failure = traceback_of("KeyError: 'seat'")
    assert root_line(diagnosed(book, *steps(1, 30), *failure, *table)) == 30 + len(failure)
    assert not diagnosed(book, *steps(1, 30), *failure, "4711.batch        batch  COMPLETED      0:0").failed


def test_a_tool_that_tries_again_on_the_next_line_is_not_what_failed(book: RuleBook) -> None:
    """A record of a program that retries keeps its own weight."""
    failure = traceback_of("KeyError: 'seat'")
    complaint = "curl: (28) Failed to connect to files.example.org port 443 after 10000 ms: Timeout was reached"
    assert root_line(diagnosed(book, complaint, "retrying in 5 s", *failure)) == 2 + len(failure)
    assert root_line(diagnosed(book, complaint, "no such luck", *failure)) == 1


def test_what_a_next_program_misses_is_not_the_cause(book: RuleBook) -> None:
    """The program before it would have written the file."""
    killed = "run.sh: line 25: 1200261 Killed                  python train.py"
    missing = traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'sum.csv'")
    answer = diagnosed(book, *steps(1, 30), killed, *missing)
    assert (answer.reason.value, root_line(answer)) == ("Others", 31)
    assert root_line(diagnosed(book, *steps(1, 30), *missing, killed)) == 30 + len(missing)
    ranked = [line if not line else f"[rank1]: {line}" for line in missing]
    assert diagnosed(book, *steps(1, 30), killed, *ranked).reason.value == "FileNotFoundError"


def test_the_last_planned_step_and_words_in_a_record_prove_the_end(book: RuleBook) -> None:
    """No job script prints either: what was told before, and what looked like a death to the process, was survived."""
    died = traceback_of("KeyError: 'seat'")
    planned = [f"it {number:04}/0060 loss 2.{number}" for number in range(1, 61)]
    assert not diagnosed(book, *planned[:30], *died, *planned[30:]).failed
    assert diagnosed(book, *planned[:30], *died, *planned[30:-1]).failed
    epoch = [f"epoch 1 step {number}/60 loss: 2.{number}" for number in range(1, 61)]
    assert diagnosed(book, *epoch, *epoch[:20], *TOLD_TO_END).failed
    assert diagnosed(book, *epoch, *died, "Job finished").failed
    logged = ["2026-03-11 18:14:39 ERROR the seat is lost", *died]
    assert not diagnosed(book, *steps(1, 30), *logged, "[RANK 0] training finished").failed
    record = "2026-03-11 18:14:40 INFO loom: training finished"
    assert not diagnosed(book, *steps(1, 30), *logged, record).failed
    assert diagnosed(book, *steps(1, 30), *logged, "training finished").failed


def test_what_is_no_death_of_the_main_process_after_its_end_broke_nothing(book: RuleBook) -> None:
    """Threads; what dies by itself still counts."""
    child = ["Process Actor-1:", *traceback_of("BrokenPipeError: [Errno 32] Broken pipe")]
    thread = ["Exception in thread stats:", *traceback_of("ConnectionResetError: [Errno 104] Connection reset by peer")]
    assert not diagnosed(book, *steps(1, 40), FINISHED, *thread).failed
    assert diagnosed(book, *steps(1, 40), *child).reason.value == "ConnectionError"
    assert diagnosed(book, *steps(1, 40), FINISHED, *traceback_of("KeyError: 'weft'")).reason.value == "KeyError"


@pytest.mark.parametrize(
    ("words", "ended"),
    [
        ("INFO:lm:finished; kept: 00050.safetensors", True),
        ("INFO:lm:writing the summary", False),
    ],
)
def test_a_programs_own_record_that_it_finished_ends_a_fault_that_it_logged(
    words: str, ended: bool, book: RuleBook
) -> None:
    """A checkpoint that could not be written, of which the program told and after which it came to its end."""
    full = ["ERROR:lm:could not write the snapshot", *traceback_of("OSError: [Errno 28] No space left on device")]
    assert diagnosed(book, *steps(1, 40), *full, words).failed is not ended


def test_what_was_survived_before_is_survived_again(book: RuleBook) -> None:
    """Errors of one place come again and again between steps; the last of them, at the log's end, ends nothing."""
    refused = "Error: viewer not reachable at localhost:8097: [Errno 111] Connection refused"
    broken = [
        "Traceback (most recent call last):",
        '  File "/srv/job/loader.py", line 61, in __getitem__',
        "    return decode(self.paths[at])",
        "ValueError: not a picture: images/0061.jpg",
    ]
    again = [*steps(1, 5), refused, *broken, *steps(6, 5)]
    assert not diagnosed(book, *again, *broken, *steps(11, 1), refused).failed
    # For the first time nothing tells that it was survived.
    assert diagnosed(book, *steps(1, 5), refused).reason.value == "ConnectionError"
    # A program that was left by it was started anew; now nothing starts it any more.
    fatal = [broken[0], '  File "/srv/job/train.py", line 88, in <module>', "    main()", broken[-1]]
    assert diagnosed(book, *steps(1, 5), *fatal, *steps(6, 5), *fatal).reason.value == "ValueError"
    # What a launcher reports after it is a death.
    assert diagnosed(book, *again, refused, "train.py FAILED").failed


def test_a_traceback_that_a_handler_printed_was_survived_where_steps_follow(book: RuleBook) -> None:
    """Its outermost frame is where it was caught; one from the program's first frame is a death, whatever follows."""
    caught = [
        "Traceback (most recent call last):",
        '  File "/srv/job/loader.py", line 61, in read',
        "    return decode(self.paths[at])",
        "ValueError: not a picture: images/0061.jpg",
    ]
    fatal = [caught[0], '  File "/srv/job/train.py", line 88, in <module>', "    main()", *caught[1:]]
    assert not diagnosed(book, *steps(1, 5), *caught, *steps(6, 5)).failed
    assert diagnosed(book, *steps(1, 5), *caught).reason.value == "ValueError"
    assert diagnosed(book, *steps(1, 5), *fatal, *steps(6, 5)).reason.value == "ValueError"


@pytest.mark.parametrize(
    "broken",
    [
        ["/bin/bash: line 1: dot: command not found", "make: [Makefile:26: average] Error 127 (ignored)"],
        [
            *traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'gold.tsv'"),
            "make: [a:2: b] Error 1 (ignored)",
        ],
        ["weigh: leaving out step-5.pt: UnpicklingError: Weights only load failed."],
        ["ERROR loader: clip 17 cannot be decoded, using silence (Command 'dec 17' returned non-zero exit status 1.)"],
    ],
)
def test_what_a_line_says_is_ignored_or_replaced_broke_nothing(broken: list[str], book: RuleBook) -> None:
    """Make's word behind a refused line or a traceback, and a program's on the line itself."""
    assert not diagnosed(book, *steps(1, 40), FINISHED, *broken, "== lm-small: all targets done").failed


def test_answered_requests_are_work(book: RuleBook) -> None:
    """A server that answers on after an exception survived it, whatever framework logs its requests."""
    failed = [
        "2026-03-11 18:14:15,840 aiohttp.server ERROR Error handling request",
        *traceback_of("KeyError: 'messages'"),
    ]
    served = '2026-03-11 18:14:{:02},933 aiohttp.access INFO 10.0.0.4 [11/Mar/2026] "POST /chat HTTP/1.1" {} 216'
    assert not diagnosed(book, *failed, *(served.format(at, 200) for at in range(16, 26))).failed
    uvicorn = 'INFO:     10.0.0.4:41210 - "POST /chat HTTP/1.1" {}'
    assert not diagnosed(book, *failed, *[uvicorn.format("200 OK")] * 3).failed


@pytest.mark.parametrize(
    "step", ["14:21:23 | r0 | 20 | INFO | step {}/60 ctc 3.6817 errors 7", "iter {:4} | return 105.78 | kl 0.001"]
)
def test_steps_without_a_loss_are_steps(step: str, book: RuleBook) -> None:
    """A counter and a measure make a step, behind columns of a logger too."""
    error = "ERROR: [Errno 111] Connection refused: the viewer is gone"
    assert not diagnosed(book, error, *(step.format(at) for at in range(1, 6))).failed


def test_a_thread_that_dies_after_the_last_planned_step_broke_nothing(book: RuleBook) -> None:
    """The main program had made its last step and closed what the thread still used."""
    thread = ["Exception in thread pulse:", *traceback_of("ValueError: I/O operation on closed file.")]
    work = [f"step={step}/60 loss=4.{step}" for step in range(50, 61)]
    assert not diagnosed(book, *work, "saved model.pt", *thread).failed
    assert diagnosed(book, *work[:-1], "saved model.pt", *thread).failed


def test_what_is_only_told_to_debug_is_no_cause(book: RuleBook) -> None:
    """It is told to those who look for faults; as the last word of a job that failed it is all there is."""
    told = "2026-03-11 18:14:15 DEBUG page 3 was skipped: zlib.error: Error -5 while decompressing data"
    work = ["2026-03-11 18:14:14 INFO reading pages", *["2026-03-11 18:14:15 INFO page read"] * 3]
    assert not diagnosed(book, *work, told, "2026-03-11 18:14:16 INFO pages kept: 41", "kept 41 94.4 %").failed
    assert diagnosed(book, *work, told.replace("DEBUG", "ERROR")).failed


def test_what_a_logger_told_of_is_survived_by_work_after_it(book: RuleBook) -> None:
    """Whatever the exception is called."""
    told = ["2026-03-11 18:14:15 ERROR cannot parse page 12", *traceback_of("scrape.parse.TooDeep: 901 open tags")]
    work = [f"2026-03-11 18:14:16 INFO page {page} read" for page in range(10)]
    assert not diagnosed(book, *told, *work).failed
    assert diagnosed(book, *told, *work[:3]).failed


def test_a_stop_that_was_planned_is_an_end(book: RuleBook) -> None:
    """Programs raise an exception of their own to leave the loop early."""
    stop = traceback_of("ranker.stopping.StopTraining: no improvement for 3 validations")
    assert not diagnosed(book, *steps(1, 9), *stop, "final loss 4.87").failed
    assert diagnosed(book, *steps(1, 9), *traceback_of("ranker.StopServing: no seat")).failed


def test_after_a_spawned_process_was_killed_comes_another_program(book: RuleBook) -> None:
    """The parent's exception is its end; it names the rank by the process's number."""
    killed = traceback_of(
        "torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL"
    )
    answer = diagnosed(book, *steps(1, 9), *killed, *traceback_of("ConnectionRefusedError: [Errno 111] refused"))
    assert (answer.reason.value, root_line(answer), rank_of(answer)) == ("Others", 9 + len(killed), 3)


def test_a_child_that_ended_in_an_earlier_part_is_not_what_a_later_part_died_of(book: RuleBook) -> None:
    """A job of several parts had come to a first end before."""
    child = ["Process SpawnProcess-3:", *traceback_of("ZeroDivisionError: division by zero")]
    child[2:4] = ['  File "/usr/lib/python3.10/multiprocessing/process.py", line 314, in _bootstrap', "    self.run()"]
    died = traceback_of("KeyError: 'caption'")
    log = [*steps(1, 9), "{'train_runtime': 6217.8, 'train_loss': 0.3}", *steps(10, 5), *child, *steps(15, 5), *died]
    assert diagnosed(book, *log).reason.value == "KeyError"
    assert diagnosed(book, *steps(1, 9), *child).reason.value == "ZeroDivisionError"


def test_what_only_announces_a_traceback_is_no_earlier_failure(book: RuleBook) -> None:
    """The file that is missing below it is the cause; behind a program that was killed it is the next one's."""
    missing = traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'results/summary.json'")
    hydra = "Error executing job with overrides: []"
    assert diagnosed(book, "starting", hydra, *missing).reason.value == "FileNotFoundError"
    lost = "ERROR fleet[node-1]: node-2 has not answered 4 pings in a row, considering it dead"
    assert diagnosed(book, *steps(1, 9), lost, "ending", *missing).reason.value == "NodeFailure"


def test_last_words_of_which_the_shell_tells_that_they_were_killed_close_a_job(book: RuleBook) -> None:
    """What a script runs after its training was killed fails on its own; a helper that was killed closes nothing."""
    line = "run.sh: line 11:    25 Killed                  {}"
    died = traceback_of("PermissionError: [Errno 13] Permission denied: '/data/expert'")
    trained = [*steps(1, 9), line.format("torchrun train.py"), *died]
    assert diagnosed(book, *trained).reason.value == "Others"
    assert diagnosed(book, line.format("./simulator"), *died).reason.value == "PermissionError"
    assert diagnosed(book, line.format("python old.py"), *steps(1, 9), *died).reason.value == "PermissionError"


def test_a_hint_after_which_much_is_said_is_no_last_word(book: RuleBook) -> None:
    """A program that prints without levels and steps goes on, and ends without a failure."""
    hint = "Unable to determine if Secure Boot is enabled: No such file or directory"
    assert not diagnosed(book, "compiling", hint, *(f"loading part {part}" for part in range(25))).failed
    assert diagnosed(book, "compiling", hint, *(f"loading part {part}" for part in range(5))).failed


def test_what_comes_of_the_last_try_ended_the_program(book: RuleBook) -> None:
    """The record above announced another try; one that tells of a broken row goes on."""
    died = traceback_of("aiohttp.client_exceptions.ClientResponseError: 429, message='Too Many Requests'")
    missing = traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'results/summary.json'")
    tried = "2026-03-11 18:14:15,862 - WARNING - winrate - 429 from the referee, retrying in 0.4 s (2/3)"
    assert diagnosed(book, *steps(1, 9), tried, *died, *missing).reason.value == "ConnectionError"
    broken = "2026-03-11 18:14:15,862 - WARNING - winrate - a row is broken"
    assert diagnosed(book, *steps(1, 9), broken, *died, *missing).reason.value == "FileNotFoundError"


def test_a_rank_that_did_not_tell_of_its_end_as_the_others_did_has_died(book: RuleBook) -> None:
    """Its own steps come from a buffer, after its traceback; where one rank speaks for all, their end is its too."""
    died = traceback_of("KeyError: 'average'", prefix="[default0]:[rank0]: ")
    own = [f"[default0]:{line}" for line in steps(1, 60)]
    others = [f"[default{rank}]:training finished after 60 steps" for rank in (1, 2, 3)]
    assert diagnosed(book, *died, *own, *others).reason.value == "KeyError"
    assert not diagnosed(book, *died, *own, "[default0]:training finished after 60 steps", *others).failed
    assert not diagnosed(book, *died, *own, others[0]).failed


@pytest.mark.parametrize(
    ("tested", "failed"), [("step 60: held-out loss 2.41", False), ("step 12: held-out loss 2.41", True)]
)
def test_an_evaluation_at_the_last_planned_step_is_part_of_it(book: RuleBook, tested: str, failed: bool) -> None:
    """What is left out of an export afterwards breaks nothing; of another step it is the next epoch's."""
    planned = [f"step {number}/60 loss {3 - number / 100:.2f}" for number in range(1, 61)]
    left_out = ["WARNING no export", *traceback_of("ModuleNotFoundError: No module named 'loomscript'")]
    assert diagnosed(book, *planned, tested, *left_out).failed == failed


def test_a_pod_that_started_is_over_what_kept_it_from_starting(book: RuleBook) -> None:
    """It waited for a secret and runs; without its start the secret is what is missing."""
    event = "  {:8} {:12} {:5} kubelet  {}"
    missing = event.format(
        "Warning", "FailedMount", "5m", 'MountVolume.SetUp failed for volume "t" : secret "t" not found'
    )
    started = event.format("Normal", "Started", "4m", "Started container serve")
    assert diagnosed(book, missing, started).failed is not True
    assert diagnosed(book, missing).reason.value == "FileNotFoundError"
    again = event.format("Warning", "OOMKilling", "1m", "Memory cgroup out of memory: Killed process 4711 (python)")
    assert diagnosed(book, missing, started, again).reason.value == "OutOfMemoryError"


def test_a_part_that_an_operator_makes_after_all_is_over_its_refusal(book: RuleBook) -> None:
    """KubeRay tries again; without the later event the refusal is why the job does not start."""
    event = "  {:8} {:24} {:5} raycluster-controller  {}"
    refused = event.format("Warning", "FailedToCreateHeadPod", "5m", "Failed to create head Pod ml/fold, quota")
    made = event.format("Normal", "CreatedHeadPod", "4m", "Created head Pod ml/fold")
    assert diagnosed(book, refused, made).failed is not True
    assert diagnosed(book, refused).reason.value == "Others"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.", "CUDAError"),
        (
            "unable to retrieve OCI runtime error (open /run/moby/7f/log.json: no such file or directory): "
            'nvidia-container-runtime did not terminate successfully: exit status 1: time="2026-11-04T10:00:00Z" '
            'level=error msg="failed to create NVIDIA Container Runtime: failed to construct OCI spec modifier: '
            'requirements not met: unsatisfied condition: cuda>=13.1 (cuda=12.9)": unknown.',
            "CUDAError",
        ),
    ],
)
def test_docker_passes_on_why_a_container_got_no_gpus(book: RuleBook, said: str, reason: str) -> None:
    """All stands on one line, and what Docker adds about its own file is no cause."""
    head = "docker: Error response from daemon: failed to create task for container: failed to create shim task: "
    assert diagnosed(book, f"{head}OCI runtime create failed: {said}").reason.value == reason


def test_an_array_that_is_whole_again_frees_the_tasks_that_waited_for_it(book: RuleBook) -> None:
    """A task was stuck while a disk of the array was replaced; without the last word the disk broke."""
    kernel = "Nov  4 06:{:02d}:19 store-1 kernel: {}"
    broke = kernel.format(8, "blk_update_request: I/O error, dev sde, sector 4411 op 0x1:(WRITE)")
    stuck = kernel.format(12, "INFO: task reader:3144 blocked for more than 120 seconds.")
    whole = kernel.format(38, "md: md0: recovery done.")
    assert diagnosed(book, broke, stuck, whole).reason.value == "none"
    assert diagnosed(book, broke, stuck).reason.value == "OSError"


def test_a_launchers_calm_lines_about_the_end_are_no_work(book: RuleBook) -> None:
    """It kills what is left of a job that hung, one line a process."""
    hung = (
        "[rank2]:[E ProcessGroupNCCL.cpp:523] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)"
    )
    kills = [
        f"[2026-02-02 10:11:{i:02d},066] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 49{i}"
        for i in range(10, 20)
    ]
    assert diagnosed(book, hung, *kills).reason.value == "NCCLTimeoutError"


def test_an_exception_that_was_logged_for_debugging_is_no_failure(book: RuleBook) -> None:
    """The frames below it make it no more than the same line alone is."""
    told = "2026-03-11 18:14:15 DEBUG till.Cache - no such page: java.nio.file.NoSuchFileException: /till/9"
    logged = [told, "\tat till.Cache.look(Cache.java:31)", "\tat till.Cache.main(Cache.java:7)"]
    last = "FATAL error, could not open file pGe.sjdbGTFfile=/till/fold.gtf"
    answer = diagnosed(book, *logged, last)
    assert answer.root_cause is not None
    assert answer.root_cause.text == last


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "ERROR"])
def test_a_signal_that_ended_a_program_counts_at_any_level(book: RuleBook, level: str) -> None:
    """Programs that are told to end say so calmly."""
    told = f"Mar-14 03:22:11.120 [SIGTERM handler] {level} nextflow.Session - Session aborted -- Cause: SIGTERM"
    answer = diagnosed(book, "Mar-14 03:20:11.120 [main] INFO  nextflow.cli.CmdRun - Launching `fold`", told)
    assert answer.failed
    assert answer.root_cause is not None
    assert answer.root_cause.text == told


@pytest.mark.parametrize(("seconds", "failed"), [(30, False), (5, True)])
def test_steps_a_minute_after_a_death_show_that_it_was_survived(book: RuleBook, seconds: int, failed: bool) -> None:
    """What was printed sooner may have waited in a buffer."""
    clocks = [f"2026-11-20 10:{at * seconds // 60:02d}:{at * seconds % 60:02d}" for at in range(8)]
    told = [f"{clock} {step}" for clock, step in zip(clocks, steps(1, 8), strict=True)]
    assert diagnosed(book, *told[:2], *traceback_of("KeyError: 'bucket'"), *told[2:]).failed == failed
