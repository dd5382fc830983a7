"""The speed of logdiag on logs of many kinds, which are made from the templates in `bench_kinds.yaml`.

Each log ends with the traceback of one rank's KeyError; the same kind and size always give the same bytes. Beside each
stand `grep` with eight alternatives, plain reading, and Drain3 on a piece of the log.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = [
    "GREP",
    "Kind",
    "Speed",
    "kinds",
    "measure_kinds",
    "print_kinds",
    "slice_lines",
    "throughput",
    "timed",
    "write_kind",
]

START = datetime(2026, 3, 2, 8, 0, 0)
RANKS = 16
WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "knoll")
FAILURE = (
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 212, in <module>',
    "    main()",
    '  File "/workspace/data.py", line 88, in __getitem__',
    "    return self.index[key]",
    "KeyError: 'shard-00417'",
)

# How much slower than what is committed a kind may be.
ALLOWED = 1.2

GREP = (
    r"Traceback \(most recent call last\)|CUDA error|uncorrectable ECC|Watchdog caught|ChildFailedError|"
    r"out of memory|Segmentation fault|No space left"
)

# Runs in a process of its own.
DIAGNOSE = """
import json, resource, sys, time
from logdiag import diagnose
diagnose(b"step 1\\nKeyError: 3\\n", memory=False)
def cpu_seconds():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
clock, cpu = time.perf_counter(), cpu_seconds()
answer = diagnose(sys.argv[1], memory=False)
seconds, used = time.perf_counter() - clock, cpu_seconds() - cpu
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
told = {"reason": answer.reason, "kept_lines": answer.stats["kept_lines"]}
print(json.dumps({**told, "seconds": seconds, "cpu": used, "peak": peak}))
"""


@dataclass(frozen=True)
class Kind:
    """What a kind of log prints; `wrap` is what stands around the lines of the last traceback."""

    lines: tuple[str, ...]
    wrap: str = "[rank5]: {line}"


def kinds() -> dict[str, Kind]:
    """The kinds by their names."""
    import yaml

    table = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {name: Kind(**{**told, "lines": tuple(told["lines"])}) for name, told in table.items()}


def write_kind(path: Path, kind: Kind, megabytes: int) -> None:
    """Writes a log of one kind: its templates in turn, and a failure at the end."""
    size = 0
    with path.open("wb") as out:
        for part in _parts(kind):
            size += out.write(part.encode())
            if size >= megabytes * 1_000_000:
                break
        clocks = _clocks(10_000_000)
        out.writelines(f"{kind.wrap.format(line=line, **clocks)}\n".encode() for line in FAILURE)


def _parts(kind: Kind) -> Iterator[str]:
    """Rounds of all templates, some at once."""
    source = random.Random(7)
    templates = [template if template.endswith("\r") else template + "\n" for template in kind.lines]
    # A line-feed now and then: carriage returns alone would make one endless line.
    for n, template in enumerate(cycle(templates)):
        if n % 100 == 0:
            clocks = _clocks(n)
        line = template.format(
            n=n,
            step=n // len(templates) // RANKS,
            rank=source.randrange(RANKS),
            node=n % 8,
            x=source.random(),
            y=source.random(),
            i=source.randrange(100_000),
            hex=f"{source.randrange(1 << 32):08x}",
            word=WORDS[n % len(WORDS)],
            new="".join(source.choices("abcdefghijklmnop", k=7)) if "{new}" in template else "",
            **clocks,
        )
        yield line if not line.endswith("\r") or n % 50 else line[:-1] + "\n"


def _clocks(n: int) -> dict[str, str]:
    """Clocks at a line: a thousand lines are a second."""
    now = START + timedelta(milliseconds=n)
    return {
        "time": f"{now:%Y-%m-%d %H:%M:%S}",
        "iso": f"{now:%Y-%m-%dT%H:%M:%S}",
        "syslog": f"{now:%b %d %H:%M:%S}",
        "micros": str(int(now.timestamp() * 1e6)),
    }


def timed(command: list[str], env: dict[str, str] | None = None) -> tuple[float, str]:
    """Run a command and give its wall-clock time and output; a failure ends the benchmark with what it said.

    Python may keep its bytecode, as an installed package has it.
    """
    kept = {name: value for name, value in (env or os.environ).items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=kept, check=False, cwd=tempfile.gettempdir())
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode} on {command[-1]}:\n{done.stderr[-2000:]}")
    return seconds, done.stdout


def slice_lines(path: Path, size: int) -> list[str]:
    """Whole lines from the middle of a file, `size` bytes of them."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size // 2 - size // 2))
        stream.readline()
        return stream.read(size).decode("utf-8", "replace").splitlines()


def throughput(lines: list[str], work: Callable[[str], object], limit: float) -> float:
    """Bytes a second of a function called line by line; stops after `limit` seconds."""
    begun = time.perf_counter()
    size = 0
    for line in lines:
        work(line)
        size += len(line) + 1
        if time.perf_counter() - begun > limit:
            break
    return size / (time.perf_counter() - begun)


def drain_throughput(lines: list[str]) -> float:
    """Bytes a second of Drain3 with its default settings."""
    import logging

    from drain3 import TemplateMiner

    logging.getLogger("drain3").setLevel(logging.ERROR)
    return throughput(lines, TemplateMiner().add_log_message, limit=2.0)


@dataclass(frozen=True)
class Speed:
    """How fast one kind of log was read: the CPU seconds of `diagnose`, with what grep and plain reading of the same
    file take beside it. `before` is the ratio to grep that is committed, None for none."""

    name: str
    megabytes: float
    seconds: float
    cpu: float
    grep: float
    reading: float
    kept_lines: int
    peak_mb: float
    drain3: float
    right: bool
    before: float | None

    @property
    def to_grep(self) -> float:
        return self.cpu / self.grep

    @property
    def slower(self) -> bool:
        """Whether it is slower than what is committed, or the answer is wrong."""
        return not self.right or (self.before is not None and self.to_grep > ALLOWED * self.before)

    def kept(self) -> dict[str, float]:
        """What is committed."""
        return {
            "mb_per_second": round(self.megabytes / self.seconds, 1),
            "mb_per_cpu_second": round(self.megabytes / self.cpu, 1),
            "to_grep": round(self.to_grep, 1),
            "to_reading": round(self.cpu / self.reading, 1),
            "kept_lines": self.kept_lines,
            "peak_mb": round(self.peak_mb),
            "drain3_mb_per_second": round(self.drain3, 1),
        }


def measure_kinds(megabytes: int, committed: dict[str, dict[str, float]], say: Callable[[str], None]) -> list[Speed]:
    """The speed on each kind of log, `committed` ones to compare with; what seems slower is measured again."""
    found = []
    with tempfile.TemporaryDirectory(prefix="logdiag-bench-") as folder:
        for name, kind in kinds().items():
            say(f"{megabytes} MB of {name}")
            path = Path(folder) / "run.log"
            write_kind(path, kind, megabytes)
            before = committed.get(name, {}).get("to_grep")
            drain3 = drain_throughput(slice_lines(path, 1_000_000)) / 1e6
            speed = min((_speed(name, path, before, drain3) for _ in range(2)), key=lambda one: one.to_grep)
            for _ in range(4 if speed.slower else 0):
                speed = min(speed, _speed(name, path, before, drain3), key=lambda one: one.to_grep)
            found.append(speed)
    return found


def _speed(name: str, path: Path, before: float | None, drain3: float) -> Speed:
    """One process that diagnoses a small log first, so that only what the size costs is counted."""
    told = json.loads(timed([sys.executable, "-c", DIAGNOSE, str(path)])[1])
    return Speed(
        name=name,
        megabytes=path.stat().st_size / 1e6,
        seconds=told["seconds"],
        cpu=told["cpu"],
        grep=_cpu_of(["grep", "-cE", GREP, *[str(path)] * 5]) / 5,
        reading=_reading(path),
        kept_lines=told["kept_lines"],
        peak_mb=told["peak"] / 1e6,
        drain3=drain3,
        right=told["reason"] == "KeyError",
        before=before,
    )


def _cpu_of(command: list[str]) -> float:
    """The CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Where its output goes nowhere, grep stops at the first match.
    subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _reading(path: Path) -> float:
    """The CPU seconds of reading a file, and nothing more."""
    begun = time.process_time()
    with path.open("rb", buffering=0) as opened:
        while opened.read(1 << 20):
            pass
    return time.process_time() - begun


def print_kinds(speeds: list[Speed], megabytes: int, console: Console) -> None:
    """The kinds as a table."""
    table = Table(title=f"{megabytes} MB a kind", title_justify="left")
    for heading in (
        "kind",
        "MB/s",
        "MB/CPU s",
        "to grep",
        "committed",
        "to reading",
        "lines kept",
        "peak MB",
        "Drain3 MB/s",
        "",
    ):
        table.add_column(heading)
    for one in speeds:
        cells = [f"{value:g}" for value in one.kept().values()]
        committed = "" if one.before is None else f"{one.before:g}"
        verdict = "[bold red]wrong[/]" if not one.right else "[bold red]slower[/]" if one.slower else "[green]pass[/]"
        table.add_row(one.name, *cells[:3], committed, *cells[3:], verdict)
    console.print(table)
