"""On which rank the root happened, where its own line does not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from logdiag import diagnose
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, rule_text, steps, traceback_of, watchdog, write_rule
from tests.judge.test_causes import API, LAUNCHER, rank_of


def test_the_rank_of_a_line_without_one_is_found_elsewhere(book: RuleBook) -> None:
    """By the launcher's table of processes, by NCCL's device on a single node, or by the one rank that died of it."""
    killed = [line.replace("exitcode: 1", "exitcode: -9").replace(": 1 (pid", ": -9 (pid") for line in LAUNCHER]
    assert rank_of(diagnosed(book, *steps(1, 20), *killed)) == 0
    nccl = "gpu017:4790:4801 [3] enqueue.cc:1207 NCCL WARN Cuda failure 'unspecified launch failure'"
    assert rank_of(diagnosed(book, *steps(1, 20), nccl)) == 3
    asserted = (
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1553: indexSelectLargeIndex: block: [1,0,0], thread: [3,0,0]"
    )
    asserted += " Assertion `srcIndex < srcSelectDimSize` failed."
    died = traceback_of("torch.AcceleratorError: CUDA error: device-side assert triggered", prefix="[rank5]: ")
    assert rank_of(diagnosed(book, *steps(1, 20), asserted, *died)) == 5


def test_the_number_of_a_gpu_is_no_rank_where_peers_are_on_other_nodes(book: RuleBook) -> None:
    """Who loses a peer over the network shows only its own node: each node counts its GPUs from 0."""
    head = "gpu017:4790:4801 [3] "
    lost = head + "misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer gpu018<48206>"
    failed = head + "transport/net_ib.cc:2451 NCCL WARN NET/IB: Got completion from peer 10.0.0.5<48206> with "
    failed += "status=12 opcode=0 len=0 vendor err 129 (Recv)"
    assert [rank_of(diagnosed(book, *steps(1, 20), line)) for line in (lost, failed)] == [None, None]


def test_the_process_that_the_next_line_names_tells_the_rank_by_the_table_of_nccl_tests(book: RuleBook) -> None:
    """The program names its process only on the line that goes on with what failed."""
    table = [f"#  Rank {at:2} Group  0 Pid {900 + at} on node-02 device  {at} [0000:5{at}:00] GPU" for at in range(4)]
    failed = "node-02: Test NCCL failure common.cu:1279 'remote process exited or there was a network error / '"
    for rank in (1, 3):
        below = f" .. node-02 pid {900 + rank}: Test failure common.cu:1100"
        assert rank_of(diagnosed(book, *table, failed, below)) == rank


BOOM = traceback_of("KeyError: 'a caption of the loom'")

# What else is in the log, above and below a traceback without a prefix, and the rank that it tells.
TOLD = {
    "spawned": (["-- Process 3 terminated with the following error:"], [], 3),
    "the head's prefix": (
        ["[2026-03-11 18:14:40 TP2] Scheduler hit an exception: Traceback (most recent call last):"],
        [],
        2,
    ),
    "the record": (["2026-03-11 18:14:40,104 ERROR [rank 5] loom: the step failed"], [], 5),
    "a record of its words": (
        [],
        ["[2026-03-11 18:14:41] CRITICAL [loom:9, rank=6] KeyError: 'a caption of the loom'"],
        6,
    ),
    "the scheduler": ([], ["srun: error: node-04: task 7: Exited with exit code 1"], 7),
    "of tasks one by one": (
        [],
        ["srun: error: node-04: tasks 5,7: Bus error", "srun: error: node-04: task 2: Bus error"],
        5,
    ),
    "of several tasks": ([], ["srun: error: node-04: tasks 0-3: Exited with exit code 1"], None),
    "the first task": (
        [],
        [f"srun: error: node-04: task {task}: Exited with exit code 1" for task in (2, 0, 1)],
        2,
    ),
    "mpirun's old words": ([], ["mpirun has exited due to process rank 6 with PID 71 on"], 6),
    "the first by mpirun": ([], ["The first process to do so was:", "  Process name: [[4711,1],3]"], 3),
    "who called MPI_ABORT": ([], ["MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD"], 2),
    "PALS": ([], ["x3005c0s7b0n0.hsn.cm.local: rank 4 exited with code 255", "x3005: rank 6 died from signal 15"], 4),
    "ATP": ([], ["ATP Stack walkback for Rank 5 starting:", "  main@train.f90:18"], 5),
    "mpirun": ([], ["mpirun noticed that process rank 4 with PID 71 on node node-04 exited on signal 9 (Killed)."], 4),
    "the worker": (
        [],
        [f"E0311 18:14:44.104000 4711 {API}:869] failed (exitcode: 1) local_rank: 1 (pid: 4713) of binary: python"],
        1,
    ),
    "a task that is a launcher": (
        [],
        [f"W0311 18:14:44.104000 4711 {API}:753] Sending process 71", "srun: error: node-04: task 7: Killed"],
        None,
    ),
    "nobody": ([], [], None),
    "a step above": (["[rank5]: step 21 loss 2.0"], [], None),
}


ENDED = yaml.safe_load((Path(__file__).parents[1] / "data" / "ended.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("told", ENDED)
def test_a_report_below_a_plain_traceback_tells_rank_and_node(told: str, book: RuleBook) -> None:
    """As launchers, schedulers and programs word it; who was told to end, or is waited for, is not taken."""
    answer = diagnosed(book, *steps(1, 20), *BOOM, *ENDED[told]["log"].splitlines())
    assert answer.root_cause is not None
    assert "a caption of the loom" in answer.root_cause.text
    assert (answer.root_cause.rank, answer.root_cause.node) == (ENDED[told].get("rank"), ENDED[told].get("node"))


def test_a_launcher_of_ones_own_is_known_by_a_rule(tmp_path: Path) -> None:
    """Which rank and node it names, and that it ended others itself, the rule says; no code does."""
    seat = rule_text(
        None, ["^mill: seat {rank} of {host} fell, {how}"], ["mill: seat 3 of b-7 fell, 11"], role="process"
    )
    write_rule(tmp_path, "context/processes/ended/mill", seat)
    told = ["mill: seat 5 of b-9 fell, killed", "mill: seat 3 of b-7 fell, 11"]
    answer = diagnosed(RuleBook.load([tmp_path]), *steps(1, 20), *BOOM, *told)
    assert (rank_of(answer), answer.root_cause and answer.root_cause.node) == (3, "b-7")


def test_the_process_that_a_signal_hit_has_the_rank_that_it_said_at_its_start(book: RuleBook) -> None:
    """Process ids count whatever zeros stand before them."""
    table = [f"rank {at}: pid {4700 + at} host gpu-0{at // 2}" for at in range(4)]
    hit = [f"[gpu-01:04703] {text}" for text in ("*** Process received signal ***", "Signal: Segmentation fault (11)")]
    answer = diagnosed(book, *table, *steps(1, 20), *hit)
    assert (rank_of(answer), answer.root_cause and answer.root_cause.node) == (3, "gpu-01")


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rsl.error.{:04}", 2),
        ("PET{}.ESMF_LogFile", 2),
        ("job-4711/prterun-gpu-01-3121@1/{}/stderr", 2),
        ("train.log.{}", None),
        ("attempt-{}.log", None),
    ],
)
def test_files_that_number_all_processes_from_0_have_their_ranks(
    name: str, rank: int | None, book: RuleBook, tmp_path: Path
) -> None:
    """Not so older logs of one process, and attempts."""
    for number in range(4):
        path = tmp_path / name.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*steps(1, 20), *(BOOM if number == 2 else [])]) + "\n", encoding="utf-8")
    assert rank_of(diagnose(tmp_path, rules=book)) == rank


@pytest.mark.parametrize("told", TOLD)
def test_a_traceback_without_a_prefix_gets_the_rank_that_others_tell(told: str, book: RuleBook) -> None:
    """By its head, by the record or report around it, or by who is said to have ended first."""
    above, below, rank = TOLD[told]
    boom = BOOM[1:] if "Traceback" in "".join(above) else BOOM
    answer = diagnosed(book, *steps(1, 20), *above, *boom, *below)
    assert (answer.reason.value, rank_of(answer)) == ("KeyError", rank)


def test_the_table_of_the_launcher_is_believed_before_a_record_above(book: RuleBook) -> None:
    """An uncaught exception may follow another rank's record."""
    record = "2026-03-11 18:14:40,104 ERROR [rank 5] loom: a request failed"
    assert rank_of(diagnosed(book, *steps(1, 20), record, "the shuttle is empty", *BOOM, *LAUNCHER)) == 0


@pytest.mark.parametrize(("device", "rank"), [(3, 3), (0, None)])
def test_the_device_that_is_full_tells_the_rank_unless_it_may_be_everybodys_first(
    device: int, rank: int | None, book: RuleBook
) -> None:
    """On one node, device and rank are the same; but a process that sees one device calls it 0."""
    full = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {device} has a total capacity"
    assert rank_of(diagnosed(book, *steps(1, 20), *traceback_of(full))) == rank


def test_two_ranks_that_say_the_same_are_no_answer(book: RuleBook) -> None:
    """Neither is guessed."""
    quotes = [f"[rank{rank}]: INFO the step ended with KeyError: 'a caption of the loom'" for rank in (1, 2)]
    assert rank_of(diagnosed(book, *steps(1, 20), *BOOM, *quotes)) is None


def test_who_repeats_what_an_exception_says_without_its_class_is_the_rank_of_it(book: RuleBook) -> None:
    """The watchdog of a rank names the error of its device, not the class that Python gave it."""
    device = "CUDA error: an unheard-of fault of the device"
    repeated = (
        f"[rank3]:[E311 18:04:11.104 ProcessGroupNCCL.cpp:632] NCCL watchdog thread terminated with exception: {device}"
    )
    raised = traceback_of(f"RuntimeError: {device}")
    assert rank_of(diagnosed(book, *steps(1, 20), *raised, repeated)) == 3
    assert rank_of(diagnosed(book, *steps(1, 20), *raised)) is None


UNREACHABLE = (
    "tracker: HTTPConnectionPool(host='10.0.0.7', port=9090): Max retries exceeded with url: /api (Caused by "
    "NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused'))"
)


CLOSED = "RuntimeError: [/src/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.8]:57000"


def test_who_died_of_the_cause_tells_the_rank_before_who_lost_a_peer(book: RuleBook) -> None:
    """Both are connection errors, but one is the cause and the other its echo."""
    died = traceback_of("ConnectionRefusedError: [Errno 111] Connection refused", prefix="[rank2]: ")
    lost = traceback_of(CLOSED, prefix="[rank1]: ")
    answer = diagnosed(book, *steps(1, 20), UNREACHABLE, *died, *lost)
    assert (answer.reason.value, rank_of(answer)) == ("ConnectionError", 2)


def test_at_a_monitored_barrier_the_rank_that_did_not_come_is_the_first(book: RuleBook) -> None:
    """Those that reached it complain too, and in the file before."""
    reached = (
        "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0."
    )
    failed = "RuntimeError: [Rank 0]: Rank 5 failed to pass monitoredBarrier in 600000 ms"
    lines = [*traceback_of(f"RuntimeError: {reached}", prefix="[rank2]: "), *traceback_of(failed, prefix="[rank0]: ")]
    answer = diagnosed(book, *steps(1, 20), *lines)
    assert answer.root_cause is not None
    assert (failed in answer.root_cause.text, rank_of(answer)) == (True, 5)


def test_a_launchers_rank_is_believed_before_that_of_a_process_group(book: RuleBook) -> None:
    """Within a group the ranks are counted anew."""
    in_group = watchdog(17).replace("[Rank 17]", "[Rank 2]")
    assert rank_of(diagnosed(book, *steps(1, 20), in_group)) == 17
    assert rank_of(diagnosed(book, *steps(1, 20), in_group.removeprefix("[rank17]:"))) == 2


def test_the_rank_that_a_flight_recorder_misses_is_the_first(book: RuleBook) -> None:
    """Those that report the time-out had come."""
    answer = diagnosed(book, *steps(1, 20), watchdog(0), watchdog(2), "missing ranks: {1}")
    assert (answer.reason.value, rank_of(answer)) == ("NCCLTimeoutError", 1)
    several = diagnosed(book, *steps(1, 20), watchdog(0), watchdog(2), "missing ranks: {1, 3}")
    assert (several.collectives and several.collectives.ranks, rank_of(several)) == ((1, 3), None)


def test_a_plain_line_below_another_ranks_record_is_not_its(book: RuleBook) -> None:
    """Only an exception is printed below the record that it belongs to."""
    record = "2026-03-11 18:14:40,104 ERROR [rank 5] loom: a request failed"
    assert rank_of(diagnosed(book, *steps(1, 20), record, UNREACHABLE)) is None


def test_numbers_within_a_node_are_no_ranks_where_there_are_several(book: RuleBook) -> None:
    """Neither a worker's local rank nor a device."""
    nodes = [f"node-{number}: step 20 loss 2.0" for number in (1, 2)]
    worker = f"E0311 18:14:44.104000 4711 {API}:869] failed (exitcode: 1) local_rank: 1 (pid: 4713) of binary: python"
    assert rank_of(diagnosed(book, *steps(1, 20), *nodes, *BOOM, worker)) is None
    full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity"
    assert rank_of(diagnosed(book, *steps(1, 20), *nodes, *traceback_of(full))) is None


def test_a_pod_that_is_named_tells_the_rank_that_spoke_from_it(book: RuleBook) -> None:
    """The table of pods comes after the others' tracebacks; the pod's own lines carry its rank."""
    lines = [f"[pod/trainer-worker-{rank}/pytorch] [rank{rank}]: ready" for rank in range(3)]
    peer = "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:923"
    lost = traceback_of(peer, prefix="[pod/trainer-worker-0/pytorch] [rank0]: ")
    table = [
        "NAME               READY   STATUS      RESTARTS   AGE",
        "trainer-worker-1   0/1     OOMKilled   0          21s",
    ]
    answer = diagnosed(book, *lines, *steps(1, 30), *lost, *table)
    assert answer.reason.value == "OutOfMemoryError"
    assert answer.root_cause is not None
    assert answer.root_cause.rank == 1


def test_the_node_of_a_pod_that_was_placed_is_its_host(book: RuleBook) -> None:
    """A pod is no machine: what is left out at a restart is the host that a scheduler named behind it."""
    placed = [f"INFO placer: pod loom-{rank} bound to elm-0{rank // 2}" for rank in range(4)]
    records = [("info", 0, "step 1 loss 2.1"), ("info", 3, "step 1 loss 2.1"), ("error", 3, "KeyError: 'a'")]
    said = [json.dumps({"level": level, "pod": f"loom-{rank}", "msg": text}) for level, rank, text in records]
    root = diagnosed(book, *placed, *said).root_cause
    assert root is not None
    assert root.node == "elm-01"


def test_a_line_of_a_node_that_has_one_rank_is_that_ranks(book: RuleBook) -> None:
    """Where each node has one and all have spoken; otherwise others may run there that say nothing."""
    refused = "node-2: ERROR : b.tar: operation error S3: GetObject, StatusCode: 403, api error AccessDenied: no right"
    one_each = [f"node-{rank + 1}: [rank{rank}]: ready" for rank in range(3)]
    assert rank_of(diagnosed(book, *one_each, refused, "node-2: giving up")) == 1
    first_of_four = [f"node-{node}: [rank{4 * node - 4}]: ready" for node in (1, 2)]
    assert rank_of(diagnosed(book, *first_of_four, refused)) is None
    two_of_one = [*one_each, "node-3: [rank3]: ready"]
    assert rank_of(diagnosed(book, *two_of_one, refused)) is None


def test_the_gpu_that_a_machine_names_is_the_rank_of_the_only_node(book: RuleBook) -> None:
    """Diagnostics count from 0 as launchers do, and say more than which rank a launcher saw fail first."""
    found = "gpu-node-3: Detected 14 replay NvLink errors on GPU 2's NVLink (should be 0)"
    answer = diagnosed(book, *steps(1, 20), found, *LAUNCHER)
    assert (answer.reason.value, rank_of(answer)) == ("NVLinkError", 2)
    # With a second node the number says nothing of the rank.
    assert rank_of(diagnosed(book, *(f"gpu-node-4: {line}" for line in steps(1, 20)), found)) is None


def test_the_rank_in_the_name_of_an_actor_is_the_rank(book: RuleBook) -> None:
    """Ray relays an actor's exception under the actor's own name."""
    relay = "ray.exceptions.RayTaskError(KeyError): ray::Worker.step() (pid=710294, ip=10.0.0.4, repr=Worker[rank=3])"
    frames = ['  File "/srv/job/worker.py", line 88, in step', '    batch = row["caption"]', "KeyError: 'caption'"]
    assert rank_of(diagnosed(book, *traceback_of(relay), *frames)) == 3
    assert rank_of(diagnosed(book, *traceback_of(relay.replace("[rank=3]", "")), *frames)) is None


@pytest.mark.parametrize(
    ("said", "rank"),
    [
        ("wait on ring op 40112 over 100 s, rank 2 did not enter", 2),
        ("all-reduce 77 timed out after 120 s, 3 of 4 there, absent: 2", 2),
        ("all-reduce 77 timed out after 120 s, lacking=[2]", 2),
    ],
)
def test_who_waited_in_vain_is_not_the_first(book: RuleBook, said: str, rank: int) -> None:
    """It names the one that did not come."""
    listing = [f"start: rank {at} on elm-{at} pid {3000 + 7 * at}" for at in range(4)]
    work = [f"05:00:{at:02d} [{3000 + 7 * (at % 4)}] [info] loss 2.{at}" for at in range(40)]
    answer = diagnosed(book, *listing, *work, f"05:02:40 [3007] [error] {said}", "start: job ends with status 1")
    assert answer.root_cause is not None
    assert (answer.root_cause.text.endswith(said), answer.root_cause.rank) == (True, rank)


def test_whom_all_that_waited_name_is_the_first(book: RuleBook) -> None:
    """By whatever word: of the numbers in their lines all have the peer's in common. Or it alone does not say so."""
    work = [f"05:00:{at:02d} [rank{at % 4}] loss 2.{at}" for at in range(40)]
    said = "all-reduce 77 timed out: the party {} went off the belt"
    for other, rank in (("2", 2), ("at the far end", 2)):
        waited = [f"05:02:4{at} [rank{at}] ERROR {said.format(other)}" for at in (0, 1, 3)]
        answer = diagnosed(book, *work, *waited)
        assert answer.root_cause is not None
        assert answer.root_cause.rank == rank


def test_lines_that_begin_with_who_speaks_at_which_host_name_the_node(book: RuleBook) -> None:
    """`node=im1@gpu25` is a name and its host, whatever calls the pair."""
    work = [f"08:00:{at:02d} node=im{at % 3}@elm-{at % 3} [info] port {at % 3}: round {at} done" for at in range(12)]
    answer = diagnosed(book, *work, "08:01:41 node=im1@elm-1 [error] port 1: KeyError: 'weft'")
    assert answer.root_cause is not None
    assert (answer.root_cause.rank, answer.root_cause.node) == (1, "elm-1")


def test_a_host_is_known_by_its_short_name(book: RuleBook) -> None:
    """The listing has the whole name, and a node's agent its first part."""
    listing = [f"start: rank {at} on elm-{at}.okapi.lan pid {3000 + 7 * at}" for at in range(4)]
    work = [f"05:00:{at:02d} [{3000 + 7 * (at % 4)}] [info] loss 2.{at}" for at in range(40)]
    answer = diagnosed(book, *listing, *work, "agent host=elm-2 CUDA error: an illegal memory access was encountered")
    assert answer.root_cause is not None
    assert answer.root_cause.node == "elm-2.okapi.lan"


def test_lines_of_one_node_are_not_all_there_are(book: RuleBook) -> None:
    """Of a listing only the first lines are kept: the others tell of more nodes."""
    started = (
        f'{{"host": "elm-{seat // 8}", "lv": "info", "ev": "assign", "id": {seat}, "gpu": {seat % 8}}}'
        for seat in range(16)
    )
    turns = (f'{{"lv": "info", "ev": "turn", "n": {turn}, "seat": {turn % 16}}}' for turn in range(80))
    gone = '{"lv": "error", "ev": "sum", "seat": 2, "waited_s": 180, "note": "deadline passed, missing 13"}'
    root = diagnosed(book, *started, *turns, gone).root_cause
    assert root is not None
    assert (root.rank, root.node) == (13, "elm-1")


def test_the_number_of_a_port_in_a_machines_fault_is_no_rank(book: RuleBook) -> None:
    """The process that a program names below is the one that the fault ended, whatever else the kernel numbers."""
    kernel = "Nov 22 06:33:{:02} mill-3 kernel: hfi1 0000:5e:00.0: hfi1_0: "
    work = [f"Nov 22 06:{at}:00 mill-3 fold[4711]: rank 90: plate {at} cut" for at in range(10, 30)]
    faults = [kernel.format(8) + "SPC freeze, reason: egress parity error 0x40", kernel.format(9) + "port 1 disabled"]
    left = "Nov 22 06:33:12 mill-3 fold[4711]: rank 90: leaving on a communication error"
    assert rank_of(diagnosed(book, *work, *faults, left)) == 90


def test_a_host_in_the_launchers_last_word_is_not_that_of_another_process(book: RuleBook) -> None:
    """Which process is where was listed at the start; the launcher names who complained first."""
    layout = [line for host in (1, 2) for line in (f"  elm-{host} (bay C{host})", *(
        f"    dev {dev}  seat {2 * host - 2 + dev}" for dev in (0, 1)))]  # fmt: skip
    made = [f"ts=2026-11-04T10:00:{at:02}Z lvl=info seat={at % 4} msg=batch n={at} loss=2.{at}" for at in range(24)]
    last = [
        'ts=2026-11-04T10:00:30Z lvl=error seat=3 msg="cannot read the bale" err="KeyError: \'a\'"',
        'ts=2026-11-04T10:00:31Z lvl=error mod=up msg="run failed" seat_first=0 host=elm-1',
    ]
    root = diagnosed(book, "layout of the run", *layout, *made, *last).root_cause
    assert root is not None
    assert (root.rank, root.node) == (3, "elm-2")


def test_the_rank_in_the_labels_of_a_record_is_read(book: RuleBook) -> None:
    """Elsewhere labels tell of a container, and no rank."""
    texts = [f"step {at} loss 2.{at}" for at in range(23)] + ["KeyError: 'a'"]
    said = [
        json.dumps(
            {
                "time": f"2026-11-04T10:00:{at:02}Z",
                "severity": "INFO" if at < 23 else "ERROR",
                "labels": {"component": "tuner", "replica": str(at % 4)},
                "text": text,
            }
        )
        for at, text in enumerate(texts)
    ]
    root = diagnosed(book, *said).root_cause
    assert root is not None
    assert root.rank == 3
