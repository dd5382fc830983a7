"""The node of a failure is the host that some line names in its words, where no line has one at its head."""

from __future__ import annotations

import pytest

from logdiag import diagnose
from logdiag.judge.ranks.directory import directory_of
from logdiag.judge.ranks.host_names import may_be_a_host
from logdiag.judge.ranks.nodes import _alone_beside_ranks, _words_of, candidates, node_by_words
from logdiag.judge.ranks.readings import book_of, readings_of
from logdiag.judge.ranks.witnesses import Root
from logdiag.judge.ranks.words import rows_of
from logdiag.model import Line
from logdiag.read.prefixes import parse_line

_LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid=812, name=python, GPU has fallen off the bus."
_CRASH = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    run()\nKeyError: 'width'"


@pytest.mark.parametrize(
    ("log", "node"),
    [
        (f"ada@fen-3:~$ dmesg -T | grep NVRM\n[Thu Apr  4 18:03:56 2026] {_LOST}", "fen-3"),
        (f"(venv) [root@fen-3 ~]# dmesg -T\n[Thu Apr  4 18:03:56 2026] {_LOST}", "fen-3"),
        (f"{_CRASH}\nsrun: error: fen3: task 0: Exited with exit code 1", "fen3"),
        (f"{_CRASH}\n\nMessage from syslogd@fen-3 at Apr 22 16:14:35 ...", "fen-3"),
        (f"Name:   trainer-0\nNode:   fen-3/10.0.2.7\n{_CRASH}", "fen-3"),
        (f"NodeName=fen-3 Arch=x86_64 CoresPerSocket=32\n{_CRASH}", "fen-3"),
        ("ray.exceptions.ActorDiedError: The actor died unexpectedly\n\tpid: 812\n\tip: 10.0.2.7", "10.0.2.7"),
        ("Normal  Scheduled  2m  default-scheduler  Successfully assigned a/b to fen3\n" + _CRASH, "fen3"),
        ("  Warning  Evicted  18m  kubelet, fen-3  The node was low on resource: memory.", "fen-3"),
        ("slurmstepd: error: *** JOB 4711 ON fen3 CANCELLED AT 2026-04-14T16:20:46 DUE TO TIME LIMIT ***", "fen3"),
    ],
)
def test_the_host_that_a_line_names_is_the_node(log: str, node: str) -> None:
    root = diagnose(log.encode()).root_cause
    assert root is not None
    assert root.node == node


@pytest.mark.parametrize(
    "log",
    [
        f"Successfully assigned a/b to fen3\nSuccessfully assigned a/c to fen4\n{_CRASH}",
        f"step 3 on node 0 of 4\nlistening on host 0\n{_CRASH}",
        f"Host: {_CRASH}",
    ],
)
def test_of_several_hosts_or_mere_numbers_none_is_the_node(log: str) -> None:
    root = diagnose(log.encode()).root_cause
    assert root is not None
    assert root.node is None


def test_where_others_name_their_hosts_a_prompt_names_none() -> None:
    log = f"ada@login1:~$ cat job.log\n{_CRASH}\nsrun: error: fen3: task 0: Exited with exit code 1"
    root = diagnose(log.encode()).root_cause
    assert root is not None
    assert root.node == "fen3"


def test_what_a_process_said_before_its_own_abort_is_not_of_the_abort() -> None:
    log = "\n".join(
        (
            "[0]<stderr>:terminate called after throwing an instance of 'gloo::IoException'",
            "[0]<stderr>:  what():  [/src/gloo/transport/tcp/pair.cc:572] Connection closed by peer [10.1.0.5]:53666",
            "[0]<stderr>:Fatal Python error: Aborted",
        )
    )
    assert diagnose(log.encode()).reason == "ConnectionError"


def _lines(*texts: str) -> list[Line]:
    return [parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate(texts)]


def _hosts(*texts: str) -> dict[int, str]:
    rows = rows_of(_lines(*texts))
    return dict(directory_of(rows, rows).hosts)


def test_names_that_neighbours_share_are_their_nodes() -> None:
    """Whatever the software calls them; eight processes on four of them."""
    hosts = _hosts(*(f"[rank{rank}]: suited boat=skiff{rank // 2 + 1}; board=9" for rank in (3, 0, 7, 4, 1, 6, 2, 5)))
    assert hosts == {rank: f"skiff{rank // 2 + 1}" for rank in range(8)}


@pytest.mark.parametrize("name", ["tile{}", "cask9"])
def test_other_numbered_names_are_no_nodes(name: str) -> None:
    """The same again on every machine, or one for all."""
    assert not _hosts(*(f"[rank{rank}]: ready with {name.format(rank % 2)}" for rank in range(8)))


def _node(rank: int | None, root: str, *texts: str, machine: bool = False) -> str | None:
    """The node of a root line of a rank, which stands behind the other lines."""
    rows = rows_of(_lines(*texts, root))
    return node_by_words(book_of(rows, rows), Root(rows[-1], waited=False, machine=machine), rank)


def test_the_host_that_stands_beside_the_rank_is_its_node() -> None:
    """Whatever software says so, in full where it is printed so; what stands beside others is not."""
    placed = [f"yard: replica {rank} -> elm-r{rank}-n06.fra (pid {500 + rank})" for rank in range(4)]
    steps = [f"[replica={rank}/4] [main] Fit - step {step}" for step in range(3) for rank in range(4)]
    root = "[replica=3/4] [main] Device - bridge: device 3 stopped answering commands"
    assert _node(3, root, "yard: train 26.2, job lsj-22220, 4 replicas", *placed, *steps) == "elm-r3-n06.fra"


def test_the_only_host_of_the_first_lines_is_the_node() -> None:
    steps = [f"tile {tile} corvid::pace: step {step}" for step in range(4) for tile in range(4)]
    root = "tile 2 corvid::arena: arena cannot give 4 GiB"
    assert _node(2, root, "boss corvid: corvid 0.44.1 release build on rook-19, 96 cpus, 4 tiles", *steps) == "rook-19"


def test_a_machine_that_another_calls_lost_is_the_node() -> None:
    """Not that of who says it."""
    seated = [f"[worker-{rank}@gpu-r3n0{rank // 2}] Boot - device {rank % 2} claimed" for rank in range(8)]
    root = "[master@ctl-2] Agents - gpu-r3n02 missed 4 beats and does not answer, taken as lost with 2 workers"
    assert _node(None, root, "[master@ctl-2] Main - 8 workers on 4 machines", *seated, machine=True) == "gpu-r3n02"


def test_words_that_may_be_hosts_stand_alone_of_their_form_beside_a_rank() -> None:
    """Also where several hosts speak of one rank; the two ports of a process do not, nor what names several ranks."""
    rows = rows_of(_lines("loom 2 on sm1", "keeper sm0 hears loom 2", "loom 3 has hx0 and hx1", "sp4: looms 1 and 5"))
    found = _alone_beside_ranks(_words_of(rows, {"sm0"}), {0: {2}, 1: {2}, 2: {3}, 3: {1, 5}})
    assert {form: set(words) for form, words in found.items()} == {"sm0": {"sm0", "sm1"}}


def test_words_of_paths_and_versions_are_no_nodes() -> None:
    steps = [f"step {step} loss 2.{step}" for step in range(5)]
    root = "ImportError: /opt/conda/envs/py-310/lib/python3/site-packages/flash2.so: undefined symbol"
    assert _node(None, root, "trainer 2.4 from /opt/build-7/trainer", *steps) is None


def test_what_stands_between_the_head_of_a_short_record_and_the_root_is_said_with_it() -> None:
    """A record names its writer on a line of its own; where it is long, its lines may be of several processes."""
    steps = [f"10:00:{step:02} loom {loom}: step {step} on elm-{loom}" for step in range(4) for loom in range(4)]
    writer, root = "      Writer: warden of elm-7", "      the beam is cracked"
    for between, said in (2, True), (12, False):
        rows = rows_of(_lines(*steps, "10:01:00 loom 2: fault", writer, *["      it is seen"] * between, root))
        words = candidates(book_of(rows, rows), Root(rows[-1], waited=False, machine=False), 2)
        assert [word.features["in root"] for word in words if word.host == "elm-7"] == [said]


def test_a_number_over_a_hundred_is_that_of_a_host_and_of_no_group() -> None:
    assert [may_be_a_host(name) for name in ("dp-112", "dp-3", "dp112")] == [True, False, False]


def test_a_name_that_each_host_has_is_told_by_its_host() -> None:
    """As a device's address is."""
    started = [
        f"oak-{host} slotd: slot {2 * host + card} started on device 0000:{5 + card}d:00.0"
        for host in range(3)
        for card in range(2)
    ]
    rows = rows_of(_lines(*started, "oak-2 kernel: NVRM: Xid (PCI:0000:6d:00): 79, GPU has fallen off the bus."))
    read = book_of(rows, rows[:-1])
    assert read.directory.hosts == {slot: f"oak-{slot // 2}" for slot in range(6)}
    assert {reading.rank for reading in readings_of(rows[-1], read) if reading.means == "listed"} == {5}


def test_names_in_a_row_are_counted_by_the_host_before_them() -> None:
    assert _hosts("map: cave-1: S00 S01 S02 S03", "map: cave-2: S04 S05 S06 S07", "S02 awake") == {
        rank: f"cave-{rank // 4 + 1}" for rank in range(8)
    }


@pytest.mark.parametrize(
    "first",
    [
        "launch: lease 45-2662, herons 8, punt11 punt12",
        "fleet: 8 tiles on punt11 and punt12",
        "job workers 8 on 2: punt11=4 punt12=4",
        "herons: punt11 x4, punt12 x4",
        "crew=8 order=punt11,punt12 per=4 host=head-0",
        "yard-2, 8 hooks: punt11 has 0-3, punt12 has 4-7",
    ],
)
def test_hosts_in_a_row_have_as_many_ranks_each(first: str) -> None:
    """The first ranks are on the first host."""
    assert _hosts(first, "heron2: reeds 4") == {rank: "punt11" if rank < 4 else "punt12" for rank in range(8)}


def test_hosts_that_ranks_cannot_be_shared_out_on_tell_nothing() -> None:
    """Three on two."""
    assert _hosts("hosts elm-14 elm-15, 3 seats", "seat 2 is up") == {}


_SAILS = [f"10:00:0{boat} boat {boat} | sail up, winch {boat % 2}" for boat in (2, 0, 3, 1)]
_IN_ORDER = ["elm-7", "elm-7", "oak-3", "oak-3"]


def test_hosts_may_stand_above_their_processes() -> None:
    rows = ["quay elm-7", "  - boat 0 pid 4311", "  - boat 1 pid 5127", "quay oak-3", "  - boat 2", "  - boat 3"]
    assert _hosts(*rows, *_SAILS) == dict(enumerate(_IN_ORDER))


def test_a_tree_of_plain_names_has_the_hosts_above_their_processes() -> None:
    """The nearest line that is set in less is the host's."""
    rows = ["harbour 0.9.3, four boats", "├─ quay mira", "│   ├─ boat 0  winch 0", "│   └─ boat 1  winch 1"]
    rows += ["└─ quay opal", "    ├─ boat 2  winch 0", "    └─ boat 3  winch 1"]
    assert _hosts(*rows, *_SAILS) == dict(enumerate(["mira", "mira", "opal", "opal"]))


@pytest.mark.parametrize("row", ["boat {} lies in {}", "boat {} pid 4{}", '{{"boat":{},"quay":"{}","pid":4311}}'])
def test_plain_words_that_neighbours_share_are_hosts(row: str) -> None:
    """Whatever they look like; numbers, levels and single letters are none."""
    garnet = ["garnet", "garnet", "opal", "opal"]
    found = _hosts(*(row.format(boat, host) for boat, host in enumerate(garnet)), *_SAILS)
    assert found == ({} if "pid 4{}" in row else dict(enumerate(garnet)))
    for words in (["INFO", "WARN"], ["a", "b"], ["11", "12"], ["tile0", "tile1"]):
        rows = [row.format(boat, words[boat // 2]) for boat in range(4)]
        assert not _hosts(*rows, *_SAILS)


def test_plain_words_that_are_called_hosts_may_have_different_numbers_of_neighbours() -> None:
    """Behind `at` or `host=`; behind any other word they may be anything."""
    uneven = ["garnet", "garnet", "garnet", "opal", "opal"]
    for row, found in (("boat {} lies at {}, seat 0", True), ("boat={} host={}", True), ("boat {} quay {}", False)):
        rows = [row.format(boat, uneven[boat]) for boat in (3, 0, 4, 2, 1)]
        assert _hosts(*rows, *_SAILS, "boat 4 | sail up") == (dict(enumerate(uneven)) if found else {})


def test_a_version_beside_another_is_no_host() -> None:
    hosts = _hosts("yard 2.9.0+g4eb3ef0 cxx20 sail12.8", *_SAILS)
    assert not hosts


def test_ranges_that_others_share_are_no_hosts() -> None:
    """Each boat of a quay works with the same winches."""
    rows = [f"elm-{quay} holds b{quay * 2:02}-b{quay * 2 + 1:02}, winches w0-w1" for quay in range(2)]
    assert set(_hosts(*rows).values()) == {"elm-0", "elm-1"}
