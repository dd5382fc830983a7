"""Every log is taken for what it is: a machine's weather is no reason why a job failed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from evals.journals import KINDS, answer, journal
from logdiag import Diagnosis, diagnose
from logdiag.evaluation.cases import load_cases
from logdiag.rules import RuleBook
from tests.helpers import ROOT, log_of

BOOK = RuleBook.load()
XID = "NVRM: Xid (PCI:0000:3b:00): 48, pid=3121, name=python, An uncorrectable double bit error (DBE) has been detected"
KILLED = "Out of memory: Killed process 3121 (python) total-vm:49978204kB, anon-rss:12918388kB, file-rss:68668kB"
ORDINARY = "usb 1-1: new high-speed USB device number 4 using xhci_hcd"


def answered(*logs: bytes | str, **named: Any) -> Diagnosis:
    return diagnose(*logs, rules=BOOK, memory=False, **named)


def syslog(*messages: str, at: str = "Nov 22 03:02:41", host: str = "node-004") -> bytes:
    return log_of(*(f"{at} {host} kernel: {message}" for message in messages))


def job(*last: str, hour: str = "03", host: str = "node-004") -> bytes:
    """A job's output: steps from five minutes past on, then its last lines at 03:02:53 or so."""
    steps = [f"{host}: 2026-11-22 {hour}:0{at // 60}:{at % 60:02} INFO step {at} loss 2.1" for at in range(0, 160, 10)]
    return log_of(*steps, *(f"{host}: 2026-11-22 {hour}:02:53 {line}" for line in last))


SYMPTOM = "ERROR [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE)"


@pytest.mark.parametrize(
    ("lines", "kind", "whose"),
    [
        ([f"[Sun Nov 22 06:33:0{n} 2026] {ORDINARY}" for n in range(9)], "kernel-log", "machine"),
        ([f"[ {n}000.123456] {ORDINARY}" for n in range(9)], "kernel-log", "machine"),
        ([f"[Sun Nov 22 06:33:0{n} 2026] loom#{n}: pass {n}, tension 2.1" for n in range(9)], "job-output", "job"),
        ([f"[ {n}000.123456] loom#{n}: pass {n}, tension 2.1" for n in range(9)], "job-output", "job"),
        ([f"[ {n}000.123456] loom.c:81: pass {n}, tension 2.1" for n in range(9)], "job-output", "job"),
        ([f"<6>[ {n}000.123456] loom{n}: pass {n}, tension 2.1" for n in range(9)], "job-output", "job"),
        ([f"<6>[ {n}000.123456] {ORDINARY}" for n in range(9)], "kernel-log", "machine"),
        ([f"Nov 22 06:33:0{n} node-7 sshd[812]: Connection closed" for n in range(9)], "system-journal", "machine"),
        (
            [f"2026-11-22T06:33:0{n}.1+00:00 node-7 cron[1]: started" for n in range(9)],
            "system-journal",
            "machine",
        ),
        ([f"Nov 22 06:33:01 lap {name}d[812]: redrawn" for name in "abcdefghi"], "system-journal", "machine"),
        ([f"Nov 22 06:33:0{n} fell-1 booth-{n}[812]: cargo is in" for n in range(9)], "job-output", "job"),
        (
            [f"[2026-11-22T06:33:0{n}.123] sched: Allocate JobId=4711 NodeList=node-7" for n in range(9)],
            "slurm-daemon-log",
            "machine",
        ),
        (
            [
                "JobID           JobName      State ExitCode",
                "------------ ---------- ---------- --------",
                "4711              train     FAILED      1:0",
                "4711.batch        batch     FAILED      1:0",
            ],
            "slurm-record",
            "scheduler",
        ),
        (
            [
                "LAST SEEN   TYPE      REASON      OBJECT             MESSAGE",
                "3m12s       Normal    Scheduled   pod/trainer-0      Successfully assigned",
                "2m50s       Warning   OOMKilling  pod/trainer-0      Memory cgroup out of memory",
            ],
            "kubernetes-events",
            "cluster",
        ),
        (
            [
                "Name:             trainer-0",
                "Namespace:        default",
                "Node:             node-7/10.0.0.4",
                "Containers:",
                "  trainer:",
                "    Image:          example.net/train:1",
                "    State:          Terminated",
                "      Reason:       OOMKilled",
                "      Exit Code:    137",
            ],
            "pod-description",
            "cluster",
        ),
        (
            [f"[Nov 22 2026 06:33:0{n}] [INFO] [tid 912] Connected to 1 node." for n in range(9)],
            "fabric-manager-log",
            "machine",
        ),
        (
            [
                "+---------------------------+------------------------------------------------+",
                "| Diagnostic                | Result                                         |",
                "+===========================+================================================+",
                "| PCIe                      | Pass - All                                     |",
                "| GPU Memory                | Fail - GPU: 3                                  |",
            ],
            "dcgm-output",
            "machine",
        ),
        (
            [f'10.0.0.{n} - - [22/Nov/2026:06:33:08 +0000] "GET / HTTP/1.1" 500 12' for n in range(9)],
            "web-server-log",
            "service",
        ),
        (
            [f'{{"_HOSTNAME": "n7", "SYSLOG_IDENTIFIER": "python", "MESSAGE": "step {n} loss 2.1"}}' for n in range(9)],
            "job-output",
            "job",
        ),
        ([f"Nov 22 06:33:0{n} node-7 python[3121]: step {n} loss 2.1" for n in range(9)], "job-output", "job"),
        ([f"2026-11-22 06:33:0{n} INFO step {n} loss 2.1" for n in range(9)], "job-output", "job"),
        ([f"[ 12.{n}] a line of a program" for n in range(9)], "job-output", "job"),
    ],
)
def test_a_log_is_known_by_its_lines(lines: list[str], kind: str, whose: str) -> None:
    """Whatever its name, a log is of the kind that its lines show, and the answer says so."""
    log = answered(log_of(*lines)).logs[0]
    assert (log.kind, log.whose, log.lines) == (kind, whose, len(lines))


@pytest.mark.parametrize("kind", KINDS)
def test_a_journal_alone_is_no_failed_job(kind: str) -> None:
    """An ordinary journal without a job's log is never called a failed job."""
    said = answered(journal(kind, seed=7).encode())
    assert (said.failed, said.root_cause) == (None, None)
    assert said.logs[0].whose in ("machine", "service")


def test_ordinary_journals_change_no_answer() -> None:
    """With a stranger's ordinary journal beside it, a case is answered as without it: each kind, every 30th case."""
    cases = load_cases([str(ROOT / "evals" / "cases")]).cases[::30]
    differing = [
        (case.id, kind)
        for number, case in enumerate(cases)
        for kind in [KINDS[number % len(KINDS)]]
        if answer(answered(case.source, journal(kind, seed=number).encode())) != answer(answered(case.source))
    ]
    assert len(cases) > 30
    assert differing == []


def test_a_machines_log_alone_says_what_would_end_a_job() -> None:
    """A kernel log with faults and no job's log: what would end a job, and that nobody knows whether one failed."""
    said = answered(syslog(ORDINARY, XID, ORDINARY))
    assert (said.failed, said.reason.value) == (None, "ECCError")
    assert "a fault that would end a job" in said.summary
    assert "no job's log is here" in said.summary
    assert not said.recovery.automatic


def test_a_kernel_log_alone_tells_by_a_symptom_what_broke() -> None:
    """Where the kernel names no cause, what it says of the effect is the answer."""
    lost = "nvme nvme3: Connect command failed, error wo/DNR bit: 880"
    said = answered(syslog(ORDINARY, lost, ORDINARY))
    assert said.root_cause is not None
    assert (said.reason.value, said.root_cause.line) == ("OSError", 2)


def test_who_knows_that_the_job_failed_is_believed() -> None:
    """With the job's exit code told, a machine's fault is why it failed."""
    assert answered(syslog(ORDINARY, XID, ORDINARY), exit_code=1).failed is True


def test_a_machines_fault_at_the_time_is_the_root() -> None:
    """A fault of the job's machine, twelve seconds before the others time out, is what broke first."""
    said = answered(job(SYMPTOM), syslog(ORDINARY, XID, ORDINARY))
    assert said.root_cause is not None
    assert (said.reason.value, said.root_cause.node) == ("ECCError", "node-004")
    assert [log.kind for log in said.logs] == ["job-output", "kernel-log"]


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (syslog(ORDINARY, XID, at="Nov 20 11:17:41"), "not at the time of the job's failure"),
        (syslog(ORDINARY, XID, host="node-117"), "on a machine of which the job's logs say nothing"),
    ],
)
def test_a_machines_fault_elsewhere_or_long_ago_is_none(machine: bytes, why: str) -> None:
    """A fault of another machine or another day is not why the job failed; a note says that it was set aside."""
    said = answered(job(SYMPTOM), machine)
    assert said.reason.value == "NCCLTimeoutError"
    assert any(note.startswith("set aside: ") and why in note for note in said.notes)


def test_a_newer_syslog_names_its_machine_too() -> None:
    """In the form with a zone, as Debian and Ubuntu write it, the machine is told as well."""
    elsewhere = log_of(f"2026-11-22T03:02:41.123456+00:00 node-117 kernel: {XID}")
    here = log_of(f"2026-11-22T03:02:41.123456+00:00 node-004 kernel: {XID}")
    assert answered(job(SYMPTOM), elsewhere).reason.value == "NCCLTimeoutError"
    assert answered(job(SYMPTOM), here).reason.value == "ECCError"


def test_a_fault_that_ends_no_job_counts_for_nothing() -> None:
    """What rules know of a job's output is weather in a machine's log: a refused login, a port in use."""
    login = "Nov 22 03:02:50 node-004 sshd[812]: Disconnecting: Too many authentication failures for root [preauth]"
    port = "Nov 22 03:02:51 node-004 sshd[812]: error: Bind to port 22 on 0.0.0.0 failed: Address already in use."
    said = answered(job(SYMPTOM), log_of(login, port))
    assert said.reason.value == "NCCLTimeoutError"


def test_a_machines_clock_in_another_zone_is_said() -> None:
    """A fault hours off to the minute is taken for one of another time zone, and a note says so."""
    said = answered(job(SYMPTOM), syslog(ORDINARY, XID, at="Nov 22 11:02:41"))
    assert said.reason.value == "ECCError"
    assert said.logs[1].ahead_seconds == 8 * 3600
    assert any("8 h ahead of the job's" in note for note in said.notes)


def test_a_job_in_a_journal_is_a_job() -> None:
    """A unit's own output, read from the journal, is judged as a job's although the kernel speaks between."""
    lines = [f"Nov 22 03:02:{at:02} node-004 python[3121]: step {at} loss 2.1" for at in range(40)]
    said = answered(log_of(*lines, "Nov 22 03:02:41 node-004 kernel: " + KILLED))
    assert said.failed is True
    assert said.logs[0].whose == "job"


def test_the_report_says_what_each_log_was_taken_for(tmp_path: Path) -> None:
    """The text names the kinds where not all logs are the job's own."""
    from logdiag.report import render

    (tmp_path / "job.out").write_bytes(job(SYMPTOM))
    (tmp_path / "node.txt").write_bytes(syslog(ORDINARY, XID))
    said = render(diagnose(tmp_path, rules=BOOK, memory=False))
    assert f"Read: job output ({tmp_path}/job.out), kernel log ({tmp_path}/node.txt)" in said


def test_a_journal_is_the_same_for_the_same_seed() -> None:
    """The generator draws alike everywhere, so that what was measured can be measured again."""
    assert journal(KINDS[0], seed=3) == journal(KINDS[0], seed=3) != journal(KINDS[0], seed=4)
    assert journal(KINDS[0], began=datetime(2026, 1, 5)).startswith("Jan  5 00:0")
