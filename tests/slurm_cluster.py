"""A real Slurm of three nodes on this machine, with its database, on loopback and in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers import ROOT

__all__ = ["NODES", "Slurm", "running_slurm"]

NODES = ("cn1", "cn2", "cn3")
_NEEDED = (
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "mariadb",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sacct",
    "scontrol",
)
_PASSWORD = "only-on-loopback"
_DATABASE = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql}
StorageUser=slurm
StoragePass={password}
StorageLoc=accounting
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""
_CONTROLLER = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ctl}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/%n
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
EpilogSlurmctld={folder}/epilog.sh
ReturnToService=0
KillWait=2
JobRequeue=0
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={folder}/munge.sock
JobAcctGatherType=jobacct_gather/none
PartitionName=gpu Nodes={nodes} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """The cluster's folder, and its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def __call__(self, *command: str | Path) -> str:
        """What a command prints. Raises AssertionError with what it said where it fails."""
        done = subprocess.run(
            [*map(str, command)], env=self.environ, capture_output=True, text=True, timeout=180, cwd=self.folder
        )
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stdout[-2000:]} {done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str) -> str:
        """The id of a batch job that runs a script."""
        file = self.folder / f"job-{time.monotonic_ns()}.sh"
        file.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        return self("sbatch", "--parsable", *options, file).strip()

    def states(self, job: str) -> list[str]:
        """The states of all runs of a job, by the accounting."""
        return [
            row.split(" ")[0] for row in self("sacct", "-D", "-X", "-n", "-P", "-j", job, "-o", "State").splitlines()
        ]

    def shown(self, job: str) -> str:
        """The controller's record of a job."""
        return self("scontrol", "show", "job", job)


def wait_until(holds: Callable[[], bool], seconds: float = 180) -> None:
    """Waits for something; fails where it does not come."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.1)


@contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    """Starts the daemons and ends them again. Skips the test where Slurm is not installed."""
    missing = [name for name in _NEEDED if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs Slurm: {', '.join(missing) or 'root'} is missing (make packages, as root)")
    slurm = Slurm(folder)
    slurm.environ["PATH"] += ":/usr/sbin"
    started: list[subprocess.Popen[bytes]] = []
    try:
        _start(slurm, started)
        yield slurm
        slurm("scancel", "--state=RUNNING", "--user=root")
        wait_until(lambda: not slurm("squeue", "-h", "-t", "RUNNING,COMPLETING"))
    finally:
        for daemon in reversed(started):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _start(slurm: Slurm, started: list[subprocess.Popen[bytes]]) -> None:
    folder = slurm.folder
    folder.chmod(0o755)

    def serve(name: str, *command: str) -> None:
        with open(folder / f"{name}.out", "wb") as out:
            started.append(
                subprocess.Popen(
                    command, env=slurm.environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder
                )
            )

    _configure(slurm)
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o400)
    places = {
        "socket": "munge.sock",
        "key-file": "key",
        "pid-file": "munge.pid",
        "log-file": "munge.log",
        "seed-file": "seed",
    }
    serve("munged", "munged", "-F", "--force", *(f"--{name}={folder / file}" for name, file in places.items()))
    data, sql = folder / "db", folder / "db.sock"
    places_of_data = ("--user=root", f"--datadir={data}", f"--tmpdir={folder}")
    install = ("--auth-root-authentication-method=normal", "--skip-test-db")
    slurm("mariadb-install-db", "--no-defaults", *places_of_data, *install)
    port = next(row for row in (folder / "slurmdbd.conf").read_text().splitlines() if "StoragePort" in row).split("=")[
        1
    ]
    where = (f"--socket={sql}", "--bind-address=127.0.0.1", f"--port={port}", f"--pid-file={folder}/db.pid")
    serve("mariadbd", "mariadbd", "--no-defaults", *places_of_data, *where)
    wait_until(sql.exists)
    grant = f"create user slurm@127.0.0.1 identified by '{_PASSWORD}'; grant all on accounting.* to slurm@127.0.0.1"
    slurm("mariadb", "--no-defaults", f"--socket={sql}", "-e", grant)
    serve("slurmdbd", "slurmdbd", "-D")
    wait_until(lambda: _answers(slurm, "sacctmgr", "-n", "list", "cluster") is not None)
    slurm("sacctmgr", "-i", "add", "cluster", "test")
    serve("slurmctld", "slurmctld", "-D", "-i")
    for node in NODES:
        serve(node, "slurmd", "-D", "-N", node)
    wait_until(lambda: _answers(slurm, "sinfo", "-h", "-t", "idle", "-o", "%D") == f"{len(NODES)}\n")


def _answers(slurm: Slurm, *command: str) -> str | None:
    """What a command prints, None where it cannot yet."""
    try:
        return slurm(*command)
    except AssertionError:
        return None


def _configure(slurm: Slurm) -> None:
    folder, host = slurm.folder, socket.gethostname().split(".")[0]
    with_ports = {name: _free_port() for name in ("dbd", "sql", "ctl")}
    words = {"folder": folder, "host": host, "nodes": ",".join(NODES), "password": _PASSWORD, **with_ports}
    rows = "".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={_free_port()} CPUs=8 RealMemory=100\n"
        for node in NODES
    )
    # The nodes come before the partition that names them.
    before, partition = _CONTROLLER.format(**words).split("PartitionName", 1)
    (folder / "slurm.conf").write_text(f"{before}{rows}PartitionName{partition}", encoding="utf-8")
    (folder / "slurmdbd.conf").write_text(_DATABASE.format(**words), encoding="utf-8")
    (folder / "slurmdbd.conf").chmod(0o600)
    for name in ("state", *NODES):
        (folder / name).mkdir()
    commands = folder / "bin"
    commands.mkdir()
    _script(commands / "logdiag", f'PYTHONPATH={ROOT} exec {sys.executable} -m logdiag "$@"')
    given = {
        "SLURM_CONF": folder / "slurm.conf",
        "LOGDIAG_PATH": commands,
        "LOGDIAG_REQUEUE_LOG": folder / "requeue.log",
        "LOGDIAG_REQUEUE_STATE": folder / "jobs",
    }
    given |= {name: Path(os.environ[name]) for name in ("LOGDIAG_CACHE", "LOGDIAG_MEMORY")}
    exports = " ".join(f"{name}={value}" for name, value in given.items())
    _script(folder / "epilog.sh", f"export {exports}\nexec {ROOT}/docs/slurm/logdiag-epilog.sh")
    slurm.environ["PATH"] = f"{commands}:{slurm.environ['PATH']}"


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
