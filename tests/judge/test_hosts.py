"""The node of a failure is the host that some line names in its words, where no line has one at its head."""

from __future__ import annotations

import pytest

from logdiag import diagnose

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
