"""Stands in for accelerators, their driver and NCCL on a machine that has none: what they say, in their own formats.

Only hooks of scenarios with `reconstructed` use it. `breaks` makes a real call fail the way a C extension fails, so
that the traceback is the real one down to that call.
"""

import ctypes
import datetime
import functools
import os
import re
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import torch

torch.__version__ = "2.13.0+cu129"
BUS = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db", "1c", "2e", "3e", "61", "9e", "af", "be", "df")
_STRUCK = Path("/tmp/.state")
_ASYNC = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
_LIBRARIES = "/opt/venv/lib/python3.11/site-packages/torch/lib"
_STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
_MILLISECONDS = "std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >"
_STACK = (
    (f"c10::Error::Error(c10::SourceLocation, {_STRING}) + 0x80", "0x7f8d1c37eeb0", f"{_LIBRARIES}/libc10.so"),
    ("<unknown function> + 0x11fb7", "0x7f8d1c411fb7", f"{_LIBRARIES}/libc10_cuda.so"),
    (
        f"c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout({_MILLISECONDS}) + 0x247",
        "0x7f8cbd08ff77",
        f"{_LIBRARIES}/libtorch_cuda.so",
    ),
    ("c10d::ProcessGroupNCCL::Watchdog::runLoop() + 0x1591", "0x7f8cbd094851", f"{_LIBRARIES}/libtorch_cuda.so"),
    ("c10d::ProcessGroupNCCL::Watchdog::run() + 0xff", "0x7f8cbd0962df", f"{_LIBRARIES}/libtorch_cuda.so"),
    ("<unknown function> + 0xdbbf4", "0x7f8cae8dbbf4", "/lib/x86_64-linux-gnu/libstdc++.so.6"),
    ("<unknown function> + 0x94ac3", "0x7f8d1d694ac3", "/lib/x86_64-linux-gnu/libc.so.6"),
    ("<unknown function> + 0x1268c0", "0x7f8d1d7268c0", "/lib/x86_64-linux-gnu/libc.so.6"),
)
_FRAMES = (
    "Exception raised from {where} (most recent call first):\n"
    + "".join(f"frame #{at}: {what} ({address} in {library})\n" for at, (what, address, library) in enumerate(_STACK))
    + "\n"
)


def cuda_error(text, name):
    """A CUDA error as torch words it."""
    return (
        f"CUDA error: {text}\nSearch for `{name}' in https://docs.nvidia.com/cuda/cuda-runtime-api/"
        f"group__CUDART__TYPES.html for more information.\n{_ASYNC}"
    )


# What torch adds to each result of NCCL, and how NCCL words it.
_RESULTS = {
    "ncclUnhandledCudaError": (
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "Call to CUDA function failed.",
    ),
    "ncclSystemError": (
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "System call (e.g. socket, malloc) or external library call failed or device error. ",
    ),
    "ncclInternalError": (
        "internal error - please report this issue to the NCCL developers",
        "Internal check failed.",
    ),
    "ncclRemoteError": (
        "remote process exited or there was a network error",
        "A call failed possibly due to a network error or a remote process exiting prematurely.",
    ),
}


def nccl_error(result, last, place="NCCLUtils.hpp:93"):
    """An error with this result of NCCL as torch words it."""
    kind, explanation = _RESULTS[result]
    return (
        f"NCCL error in: /pytorch/torch/csrc/distributed/c10d/{place}, {kind}, NCCL version 2.27.7\n"
        f"{result}: {explanation}\nLast error:\n{last}"
    )


def breaks(place, name, error, arity=0):
    """From now on the call `place.name` with that many arguments raises the error, as C code does."""

    class Type:
        @classmethod
        def from_param(cls, value):
            return ctypes.py_object(type(error))

    class Value:
        @classmethod
        def from_param(cls, value):
            return ctypes.py_object(error)

    class Ignored:
        @classmethod
        def from_param(cls, value):
            return ctypes.c_int(0)

    # Its own object: the one of ctypes.pythonapi is shared.
    function = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object)(("PyErr_SetObject", ctypes.pythonapi))
    function.argtypes = [Type, Value, *[Ignored] * max(0, arity - 2)]
    setattr(place, name, functools.partial(function, *[None] * max(0, 2 - arity)))


def breaks_backward(error):
    """From now on `loss.backward()` raises the error."""
    engine = SimpleNamespace()
    breaks(engine, "run_backward", error, 5)
    torch.autograd.Variable._execution_engine = engine


def breaks_start(error):
    """The first use of a GPU raises the error."""
    torch._C._cuda_getDeviceCount = lambda: 8
    torch.cuda._cudart = object()
    breaks(torch._C, "_cuda_init", error)


def has_cuda():
    """torch.cuda finds a device, though none of its calls does anything."""
    torch.cuda._lazy_init = lambda: None
    torch.cuda._exchange_device = torch.cuda._maybe_exchange_device = lambda device: 0
    torch._C._cuda_getDevice = lambda: int(os.environ.get("LOCAL_RANK", 0))
    torch._C._cuda_synchronize = lambda: None


def say(text):
    """Writes to the error output as C code does."""
    os.write(2, text.encode() if text.endswith("\n") else f"{text}\n".encode())


def glog(level, where, text, rank=None):
    """A line of c10's logging."""
    now = datetime.datetime.now()
    prefix = "" if rank is None else f"[rank{rank}]:"
    say(f"{prefix}[{level}{now:%m%d %H:%M:%S}.{now.microsecond:06d}{time.time_ns() % 1000:03d} {where}] {text}")


def nccl(text, where=None):
    """A line of NCCL: INFO, or WARN when the place in its source is named."""
    local, pid = int(os.environ.get("LOCAL_RANK", 0)), os.getpid()
    head = f"{os.uname().nodename}:{pid}:{pid + 61 if where else pid} [{local}]"
    say(f"\n{head} {where} NCCL WARN {text}" if where else f"{head} NCCL INFO {text}")


def nccl_start(run, net="NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.20.0.14<0>"):
    """What NCCL_DEBUG=INFO shows when a communicator is made."""
    local = int(os.environ.get("LOCAL_RANK", 0))
    comm = (
        f"comm 0x55d1{os.getpid():04x}{run.rank:02x}60 rank {run.rank} nranks {run.world} cudaDev {local} "
        f"nvmlDev {local}"
    )
    nccl("cudaDriverVersion 12090")
    nccl("NCCL_SOCKET_IFNAME set by environment to eth0")
    nccl("Bootstrap: Using eth0:10.20.0.14<0>")
    if run.rank == 0:
        say("NCCL version 2.27.7+cuda12.9")
    nccl("NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.")
    nccl(net)
    nccl("Using network " + net.split(" ")[0].removeprefix("NET/"))
    nccl(f"ncclCommInitRankConfig {comm} busId {BUS[local]}000 commId 0x5b1c0a9be2f7d411 - Init START")
    nccl(f"Setting affinity for GPU {local} to 0-47,96-143")
    nccl("threadThresholds 8/8/64 | 16/8/64 | 512 | 512")
    nccl("24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer")
    nccl(f"ncclCommInitRankConfig {comm} busId {BUS[local]}000 commId 0x5b1c0a9be2f7d411 - Init COMPLETE")


def strike(step=0):
    """The failing rank says when."""
    half = _STRUCK.with_suffix(f".{os.getpid()}")
    half.write_text(f"{os.getpid()} {step}")
    half.rename(_STRUCK)
    keep_open()


def keep_open():
    """This process's sockets stay open after its end, as the others' collectives would hang, not fail."""
    if os.fork() == 0:
        time.sleep(120)
        os._exit(0)
    hook = sys.excepthook

    def leave(*error):
        hook(*error)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)

    sys.excepthook = leave


def when_struck(action, seconds=0.0):
    """In every rank: runs the action so many seconds after a rank struck."""

    def wait():
        while not _STRUCK.exists():
            time.sleep(0.02)
        time.sleep(seconds)
        action()

    threading.Thread(target=wait, daemon=True).start()


def struck_before(step):
    """Whether a rank struck in an earlier step; all ranks agree on it."""
    return _STRUCK.exists() and int(_STRUCK.read_text().split()[1]) < step


def struck_here():
    """Whether it was this rank."""
    return _STRUCK.exists() and int(_STRUCK.read_text().split()[0]) == os.getpid()


def abort(rank, what, where="checkTimeout at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:688"):
    """The watchdog's exception ends the process."""
    group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    text = f"{group} Process group watchdog thread terminated with exception: {what}"
    whole = f"{text}\n{_FRAMES.format(where=where)}"
    glog("E", "ProcessGroupNCCL.cpp:2068", whole, rank)
    say(f"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  {whole}")
    os.abort()


def abort_cuda(rank, text, name):
    """The same after a CUDA error."""
    where = "c10_cuda_check_implementation at /pytorch/c10/cuda/CUDAException.cpp:44"
    abort(rank, cuda_error(text, name), where)


def timed_out(run, operation="ALLREDUCE", elements=14656, milliseconds=5000):
    """The watchdog of a rank gives up."""
    rank, work = run.rank, 3 * run.step + 2
    what = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={work}, OpType={operation}, "
        f"NumelIn={elements}, NumelOut={elements}, Timeout(ms)={milliseconds}) ran for {milliseconds + 13 + rank} "
        "milliseconds before timing out."
    )
    group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    glog("E", "ProcessGroupNCCL.cpp:688", what, rank)
    glog(
        "E",
        "ProcessGroupNCCL.cpp:2252",
        f"{group}  failure detected by watchdog at work sequence id: {work} PG status: last enqueued work: {work}, "
        f"last completed work: {work - 1}",
        rank,
    )
    glog(
        "E",
        "ProcessGroupNCCL.cpp:735",
        "Stack trace of the failed collective not found, potentially because FlightRecorder is disabled. You can "
        "enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.",
        rank,
    )
    glog("E", "ProcessGroupNCCL.cpp:2585", f"{group} First PG on this rank to signal dumping.", rank)
    time.sleep(0.2)
    glog(
        "E",
        "ProcessGroupNCCL.cpp:749",
        f"[Rank {rank}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, "
        "subsequent GPU operations might run on corrupted/incomplete data.",
        rank,
    )
    glog(
        "E",
        "ProcessGroupNCCL.cpp:763",
        f"[Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
        rank,
    )
    abort(rank, what)


_BOOT = """\
Linux version 5.15.0-134-generic (buildd@lcy02-amd64-081) (gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0) #145-Ubuntu SMP
Command line: BOOT_IMAGE=/boot/vmlinuz-5.15.0-134-generic root=UUID=0b1c9ef4 ro iommu=pt pci=realloc=off
mce: CPU0: Thermal monitoring enabled (TM1)
pci 0000:00:14.0: System wakeup disabled by ACPI
ACPI BIOS Error (bug): Could not resolve symbol [\\_SB.PC00.RP01], AE_NOT_FOUND (20210730/psargs-330)
nvme nvme0: 96/0/0 default/read/poll queues
EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: errors=remount-ro. Quota mode: none.
mlx5_core 0000:1b:00.0: firmware version: 28.39.3004
mlx5_core 0000:1b:00.0: 252.048 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)
mlx5_core 0000:1b:00.0: Port module event: module 0, Cable plugged
nvidia: module license 'NVIDIA' taints kernel.
nvidia: module verification failed: signature and/or required key missing - tainting kernel
nvidia-nvlink: Nvlink Core is being initialized, major device number 510
NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (dvs-builder@U22-I3-H04)
nvidia-modeset: Loading NVIDIA UNIX Open Kernel Mode Setting Driver for x86_64  570.133.20
nvidia-uvm: Loaded the UVM driver, major device number 507.
audit: type=1400 audit(1763673122.108:54): apparmor="STATUS" operation="profile_load" name="docker-default"
docker0: port 1(veth9c0f1d2) entered forwarding state
perf: interrupt took too long (2503 > 2500), lowering kernel.perf_event_max_sample_rate to 79750
""".splitlines()


def kernel_log(lines, form="syslog", path="node/kern.log", vendor="nvidia"):
    """The kernel log of the node: a day of the usual, then these lines, now."""
    boot = [text for text in _BOOT if vendor == "nvidia" or not re.search("(?i)nvidia|nvlink|nvrm", text)]
    host = os.uname().nodename
    uptime = 93771.402118
    now = datetime.datetime.now()
    # The machine starts in half a minute, its containers come later.
    rows = [
        (1.713241 * at if at < len(boot) - 3 else 2903.118437 * (at - len(boot) + 4), text)
        for at, text in enumerate(boot)
    ]
    rows += [(uptime + 0.000831 * at, text) for at, text in enumerate(lines)]

    def stamp(since):
        at = now - datetime.timedelta(seconds=uptime - since)
        if form == "dmesg":
            return f"[{since:12.6f}]"
        if form == "ctime":
            return f"[{at:%a %b %e %H:%M:%S %Y}]"
        return f"{at:%b %e %H:%M:%S} {host} kernel: [{since:12.6f}]"

    target = Path(path)
    target.parent.mkdir(exist_ok=True)
    target.write_text("".join(f"{stamp(since)} {text}\n" for since, text in rows))
