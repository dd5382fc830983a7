"""A machine's log without a job's: the first line that states the fault is the root, and weather is none."""

from __future__ import annotations

import pytest

from logdiag import Reason
from logdiag.rules import RuleBook
from tests.helpers import diagnosed

BOOK = RuleBook.load()
KERNEL = [f"[ 40{n}.120000] usb 1-{n}: new high-speed USB device number {n} using xhci_hcd" for n in range(3)]
STUCK = "watchdog: BUG: soft lockup - CPU#7 stuck for 23s! [kworker/7:2:811]"


@pytest.mark.parametrize(
    ("lines", "root", "reason"),
    [
        # A cause is believed although no list says that it ends jobs.
        (
            [
                "[ 811.000001] amdgpu 0000:05:00.0: amdgpu: MES failed to respond to msg=ADD_QUEUE",
                "[ 811.000009] amdgpu 0000:05:00.0: amdgpu: GPU reset begin!",
            ],
            3,
            Reason.CUDA_ERROR,
        ),
        (
            [
                "[ 811.000001] blk_update_request: critical medium error, dev sdc, sector 4096",
                "[ 811.000400] Buffer I/O error on dev sdc, logical block 512, lost async page write",
            ],
            3,
            Reason.OS_ERROR,
        ),
        # With nothing else in sight a symptom is what is known.
        (["[ 811.000001] sd 2:0:0:1: [sdb] device offline or changed"], 3, Reason.OS_ERROR),
        # The thread that cleans up speaks after the kernel has said whom it killed.
        (
            [
                "[ 811.000001] Memory cgroup out of memory: Killed process 912 (python) total-vm:812kB, anon-rss:600kB",
                "[ 811.020001] oom_reaper: reaped process 912 (python), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
            ],
            3,
            Reason.OUT_OF_MEMORY_ERROR,
        ),
        # A processor that was stuck once goes on; one that is stuck again does not.
        ([f"[ 811.000001] {STUCK}"], None, Reason.NONE),
        ([f"[ 811.000001] {STUCK}", f"[ 839.000001] {STUCK}"], 3, Reason.NODE_FAILURE),
    ],
)
def test_kernels_fault_is_found_at_its_first_line(lines: list[str], root: int | None, reason: Reason) -> None:
    """The answer names the kernel's first statement of what ends jobs."""
    answer = diagnosed(BOOK, *KERNEL, *lines)
    assert answer.reason is reason
    assert (answer.root_cause and answer.root_cause.line - 1) == root


def test_daemon_that_refuses_its_configuration_is_named() -> None:
    """Slurm's own words of a wrong slurm.conf are the answer, with the machine that printed them."""
    said = "slurmctld[811]: error: Duplicated NodeHostName mill-3 in the config file"
    answer = diagnosed(BOOK, f"Nov 22 06:33:08 head-2 {said}", f"Nov 22 06:33:08 head-2 {said}")
    assert (answer.reason, answer.root_cause and answer.root_cause.line) == (Reason.ARGUMENT_ERROR, 1)


def test_kubelet_that_does_not_start_is_named() -> None:
    """A service's own log names why the service ended, although no job's log stands beside it."""
    said = 'E1122 06:33:08.123456 811 run.go:74] "command failed" err="failed to run Kubelet: swap is on"'
    answer = diagnosed(BOOK, "I1122 06:33:08.000001 811 server.go:408] Kubelet version v1.30", said)
    assert (answer.reason, answer.root_cause and answer.root_cause.line) == (Reason.ARGUMENT_ERROR, 2)


DOWN = "[1000.000000] mlx5_core 0000:41:00.1 ib1: Port: 1 Link DOWN"
DISK = "kernel: blk_update_request: I/O error, dev sdc, sector 2210384"


@pytest.mark.parametrize(
    ("fault", "report"),
    [
        pytest.param(DOWN, "[1009.000000] mlx5_core 0000:41:00.1 ib1: Port: 1 Link ACTIVE", id="the same link"),
        pytest.param(DISK, "multipathd[812]: sdc - tur checker reports path is up", id="the same disk"),
        pytest.param(DISK, "kernel: md: md3: recovery done.", id="an array has all its copies again"),
    ],
)
def test_what_is_back_broke_nothing(book: RuleBook, fault: str, report: str) -> None:
    """The machine's own report that its part works again is proof, where nothing else broke."""
    assert diagnosed(book, fault).root_cause
    assert diagnosed(book, fault, report).root_cause is None


@pytest.mark.parametrize(
    "report",
    [
        pytest.param("[1009.000000] mlx5_core 0000:41:00.0 ib0: Port: 1 Link ACTIVE", id="another link"),
        pytest.param("[  30.000000] mlx5_core 0000:41:00.1 ib1: Port: 1 Link ACTIVE", id="after the next start"),
        pytest.param("[1009.000000] md: md3: recovery done.", id="something else"),
    ],
)
def test_what_else_is_up_proves_nothing(book: RuleBook, report: str) -> None:
    """Another part, or the same part after the machine was started anew, does not mend what broke."""
    told = diagnosed(book, DOWN, report)
    assert told.root_cause
    assert told.root_cause.text == DOWN
