"""The node of a failure is the host that some line names in its words, where no line has one at its head."""

from __future__ import annotations

import pytest

from logdiag import diagnose
from logdiag.judge.ranks.directory import directory_of
from logdiag.judge.ranks.hosts import node_named_in
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


def test_a_line_names_a_node_by_its_whole_name() -> None:
    """And only where it names one alone."""
    (line,) = _lines("birch05 dropped out of the mesh")
    assert node_named_in(line, ["birch05", "birch0", "birch"]) == "birch05"
    assert node_named_in(_lines("birch05 lost birch06")[0], ["birch05", "birch06"]) is None


@pytest.mark.parametrize(
    "first",
    [
        "launch: lease 45-2662, herons 8, punt11 punt12",
        "fleet: 8 tiles on punt11 and punt12",
        "job workers 8 on 2: punt11=4 punt12=4",
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
