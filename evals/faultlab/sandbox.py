"""Runs one shape of a scenario as a real job, in namespaces of its own, and brings back what it printed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evals.faultlab.scenario import Scenario
from evals.faultlab.shapes import Shape

__all__ = ["Output", "missing", "run"]

HERE = Path(__file__).parent
BATCH = 4
_CGROUPS = Path("/sys/fs/cgroup/memory")
_TRIES_TO_REMOVE = 50
_ADDRESS = "10.20.0.14"
_ROWS = ("web", "code", "wiki")


@dataclass(frozen=True, slots=True)
class Output:
    """What a job left: its files by name (the job's own output is `job.log`), and its exit status.

    `notes` is what the shell parts around it said, `trouble` is set when the run did not come to its end.
    """

    files: dict[str, bytes]
    status: int | None
    notes: str
    trouble: str


def missing(scenario: Scenario) -> list[str]:
    """What this machine lacks for a scenario."""
    wanted = {"unshare", "ip", "bash", *scenario.needs}
    lacking = sorted(name for name in wanted - {"cgroup"} if not shutil.which(name))
    if scenario.memory_megabytes and not os.access(_CGROUPS, os.W_OK):
        lacking.append("a writable memory cgroup (version 1)")
    return lacking


def run(scenario: Scenario, shape: Shape, seed: int) -> Output:
    """Runs the job to its end or to its time limit. Everything it started has ended when this returns."""
    with tempfile.TemporaryDirectory(prefix="job-") as name:
        work = Path(name)
        _furnish(work, scenario, shape, seed)
        with _cgroup(scenario.memory_megabytes, name=work.name) as group:
            trouble = _execute(work, scenario, shape, group)
        notes = work / "side" / "notes"
        said = notes.read_text(encoding="utf-8", errors="replace") if notes.exists() else ""
        return Output(_collect(work, scenario, shape), _status(work), said, trouble)


def _execute(work: Path, scenario: Scenario, shape: Shape, group: Path | None) -> str:
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--net", "--ipc"]
    if os.geteuid() != 0:
        command.append("--map-root-user")

    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who starts the lab with nohup gives the jobs its deafness
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    process = subprocess.Popen(
        [*command, "bash", str(HERE / "sandbox.sh")],
        env=_environment(work, scenario, shape),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=prepare,
    )
    try:
        _, said = process.communicate(timeout=scenario.seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"still running after {scenario.seconds} s"
    return "" if process.returncode == 0 else f"the sandbox ended with {process.returncode}: {said.decode()[-300:]}"


def _environment(work: Path, scenario: Scenario, shape: Shape) -> dict[str, str]:
    options = ["--tee 3"] if shape.tee else ["--redirects 3 --log-dir /mnt/run/out"] if shape.folder else []
    arguments = [scenario.arguments, "--tracker http://127.0.0.1:9090" if shape.recovered == "tracker" else ""]
    arguments.append("--skip-bad" if shape.recovered == "sample" else "")
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "WORK": str(work),
        "VENV": sys.prefix,
        "HOST": shape.host,
        "ADDRESS": _ADDRESS,
        "RANKS": str(shape.ranks),
        "CULPRIT": str(shape.culprit),
        "STEP": str(shape.step),
        "STEPS": str(scenario.steps),
        "STYLE": shape.style,
        "TORCHRUN_OPTIONS": " ".join(options),
        "ARGUMENTS": " ".join(filter(None, arguments)),
        **({"PYTHONUNBUFFERED": "1"} if shape.unbuffered else {}),
        **scenario.environment,
    }


def _furnish(work: Path, scenario: Scenario, shape: Shape, seed: int) -> None:
    """Lays out what the job finds: its programs, its data, and the scenario's own files and shell parts."""
    run_folder, side = work / "run", work / "side"
    for folder in (run_folder, side, run_folder / "data"):
        folder.mkdir(mode=0o777)
    for program in (HERE / "jobs").glob("*.py"):
        shutil.copy(program, run_folder)
    shutil.copytree(HERE / "services", side / "services")
    shutil.copy(HERE / "tools.sh", side)
    if scenario.callbacks:
        (run_folder / "callbacks.py").write_text(_whole_callbacks(scenario.callbacks), encoding="utf-8")
    for rank in range(shape.ranks):
        _write_shard(run_folder / "data" / f"shard-{rank:05d}.jsonl", rank, scenario, shape, seed)
    for path, content in scenario.files.items():
        target = run_folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    launch = scenario.launch or (HERE / "jobs" / f"{scenario.job}.sh").read_text(encoding="utf-8")
    recovered = "serve 9090 /api/metrics=503,503,200\n" if shape.recovered == "tracker" else ""
    second = f"python publish.py {shape.second}\n" if shape.second else ""
    parts = {
        "setup": recovered + scenario.setup,
        "during": scenario.during,
        "launch": launch,
        "after": scenario.after + second,
    }
    for name, text in parts.items():
        (side / f"{name}.sh").write_text(text, encoding="utf-8")


def _whole_callbacks(own: str) -> str:
    """A scenario's hooks with the empty ones for those that it leaves out."""
    hooks = (HERE / "jobs" / "callbacks.py").read_text(encoding="utf-8").split("\n\n\n")
    kept = [hook for hook in hooks[1:] if f"{hook.split('(')[0]}(" not in own]
    return "\n\n\n".join([hooks[0], own.strip(), *(hook.strip() for hook in kept)]) + "\n"


def _write_shard(path: Path, rank: int, scenario: Scenario, shape: Shape, seed: int) -> None:
    """A rank's records; the failing rank's record of the failing step is the scenario's."""
    source = random.Random(f"{seed}/{rank}")
    rows = []
    for index in range((scenario.steps + 4) * BATCH):
        tokens = [source.randrange(128) for _ in range(32)]
        record = {"id": index, "tokens": tokens, "weight": 1.0, "source": _ROWS[index % 3], "length": 32}
        rows.append(json.dumps(record))
    skipped = 0
    if shape.recovered == "sample" and rank == (shape.culprit + 1) % shape.ranks:
        # Read, found broken and left out long before the fault: that batch does not count as a step.
        rows[BATCH * 9 + 2] = rows[BATCH * 9 + 2][:57]
        skipped = BATCH
    if rank == shape.culprit and shape.step:
        place = (shape.step - 1) * BATCH + 1 + (skipped if shape.step > 9 else 0)
        special = {**json.loads(rows[place]), "source": "books", **scenario.record}
        special = {name: value for name, value in special.items() if value != "-"}
        rows[place] = scenario.record_text if scenario.record_text is not None else json.dumps(special)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


@contextmanager
def _cgroup(megabytes: int | None, name: str) -> Iterator[Path | None]:
    """A memory cgroup of the lab's own, removed again."""
    if megabytes is None:
        yield None
        return
    group = _CGROUPS / f"lab-{name}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(megabytes << 20))
        yield group
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """Removes a cgroup as soon as its last process is gone, which a killed one may be only after a moment."""
    for _ in range(_TRIES_TO_REMOVE):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)
    group.rmdir()


def _status(work: Path) -> int | None:
    path = work / "side" / "status"
    return int(path.read_text()) if path.exists() else None


def _collect(work: Path, scenario: Scenario, shape: Shape) -> dict[str, bytes]:
    """The job's output and the further logs it wrote, with this machine's paths replaced by usual ones."""
    log = work / "side" / "log"
    files = {"job.log": log.read_bytes() if log.exists() else b""}
    wanted = [*scenario.collect, *(["out/**/*.log", "out/**/*.json"] if shape.folder else [])]
    for pattern in wanted:
        for path in sorted((work / "run").glob(pattern)):
            if path.is_file() and path.stat().st_size:
                files[str(path.relative_to(work / "run"))] = path.read_bytes()
    return {name: _usual_paths(content) for name, content in files.items()}


def _usual_paths(content: bytes) -> bytes:
    for ours, usual in ((sys.base_prefix, "/usr/local"), ("/mnt/venv", "/opt/venv"), ("/mnt/run", "/workspace")):
        content = content.replace(ours.encode(), usual.encode())
    return content
