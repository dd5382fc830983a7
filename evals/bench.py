"""Measures how fast logdiag is and how much memory it takes, each as a ratio within one run on one machine.

    make bench                       24 kinds of log of 50 MB, then 300 MB and 3 GB of one, about twenty minutes
    make bench ARGS=--small          10 MB a kind, then 30 MB and 90 MB, about four minutes
    make bench ARGS='--kinds 50'     the kinds alone, of so many MB

Prints a table of kinds and one of bars, writes evals/results/bench.json, and exits with 1 when a bar is missed or a
kind became 20 % slower than what is committed there. The large logs are made in a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import regex
from rich.console import Console
from rich.table import Table

from evals.bench_kinds import GREP, measure_kinds, print_kinds, slice_lines, throughput, timed
from evals.fuzz import FuzzReport, fuzz
from evals.generate import FAILED_RANK, Written, write_log, write_ranks

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "tests" / "data" / "logs"
RESULTS = ROOT / "evals" / "results" / "bench.json"

# Runs in a process of its own. VmHWM is asked first: ru_maxrss of a fresh process starts at its parent's size.
DIAGNOSE = """
import json, resource, sys, time
begun = time.perf_counter()
from logdiag import diagnose
answer = diagnose(sys.argv[1]).to_dict()
seconds = time.perf_counter() - begun
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
try:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
except OSError:
    pass
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"answer": answer, "seconds": seconds, "peak": peak + children}))
"""

PACKAGES = ("logdiag", "hyperscan", "regex", "pydantic", "rich", "click", "PyYAML", "backports.zstd", "drain3")


@dataclass(frozen=True)
class Bar:
    """One promise and what was measured."""

    name: str
    bar: str
    measured: str
    value: float
    passed: bool


@dataclass(frozen=True)
class Run:
    """Whole processes that diagnosed one file: the median of their times, the largest of their peaks."""

    seconds: float
    peak: int
    answer: dict[str, Any]


def grep_seconds(path: Path, times: int) -> float:
    """The median time of grep with eight alternatives over a file that is in the page cache."""
    command = ["grep", "-cE", GREP, str(path)]
    env = {**os.environ, "LC_ALL": "C"}
    timed(command, env)
    return statistics.median(timed(command, env)[0] for _ in range(times))


def diagnose_file(path: Path, times: int) -> Run:
    """Diagnose a file in fresh processes."""
    command = [sys.executable, "-c", DIAGNOSE, str(path)]
    timed(command)
    seconds: list[float] = []
    peaks: list[int] = []
    answer: dict[str, Any] = {}
    for _ in range(times):
        elapsed, output = timed(command)
        result = json.loads(output)
        seconds.append(elapsed)
        peaks.append(int(result["peak"]))
        answer = result["answer"]
    return Run(statistics.median(seconds), max(peaks), answer)


def regex_throughput(path: Path) -> tuple[float, int]:
    """A loop over all our patterns for each line, and how many patterns there are."""
    from logdiag.rules import RuleBook

    patterns = [regex.compile(pattern) for rule in RuleBook.load().rules for pattern in rule.match]

    def search(line: str) -> None:
        for pattern in patterns:
            pattern.search(line)

    return throughput(slice_lines(path, 10_000_000), search, limit=20.0), len(patterns)


def compress(path: Path) -> Path:
    """A .zst of a file, beside it."""
    target = path.with_name(path.name + ".zst")
    with path.open("rb") as source, zstd.ZstdFile(target, "wb", level=3) as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
    return target


def small_log() -> Path:
    """The sample log that is nearest to 10 KB."""
    return min(SAMPLES.glob("*.log"), key=lambda path: abs(path.stat().st_size - 10_000))


def start_ratio(times: int) -> tuple[float, float, float]:
    """`logdiag small.log` against `python -c pass`, whole processes by turns: seconds, seconds, their ratio."""
    script = Path(sys.executable).with_name("logdiag")
    ours = [str(script), str(small_log())]
    bare = [sys.executable, "-c", "pass"]
    for command in (ours, bare, ours, bare):
        timed(command)
    pairs = [(timed(ours)[0], timed(bare)[0]) for _ in range(times)]
    first = statistics.median(pair[0] for pair in pairs)
    second = statistics.median(pair[1] for pair in pairs)
    return first, second, first / second


def at_most(name: str, limit: float, value: float, unit: str = "times") -> Bar:
    return Bar(name, f"at most {limit:g} {unit}", f"{value:.2f} {unit}", value, value <= limit)


def at_least(name: str, limit: float, value: float, unit: str = "times") -> Bar:
    return Bar(name, f"at least {limit:g} {unit}", f"{value:.0f} {unit}", value, value >= limit)


def answer_bar(size: str, run: Run, written: Written) -> Bar:
    """The fast answer must be the right one."""
    root = run.answer.get("root_cause") or {}
    got = (run.answer.get("reason"), root.get("line"), root.get("rank"))
    right = got == ("ECCError", written.root_line, FAILED_RANK)
    return Bar(
        f"{size}: the answer", "ECCError, root line, rank 37", f"{got[0]}, line {got[1]}, rank {got[2]}", right, right
    )


def size_bars(size: str, path: Path, written: Written, times: int) -> tuple[list[Bar], Run]:
    """The bars of one plain file and of its .zst."""
    grep = grep_seconds(path, times)
    run = diagnose_file(path, times)
    packed = compress(path)
    zst = diagnose_file(packed, times)
    packed.unlink()
    speed = written.bytes / run.seconds / 1e6
    bars = [
        at_most(f"{size}: time of diagnose() to grep -cE", 5, run.seconds / grep),
        at_most(f"{size}: peak memory", 200, run.peak / 1e6, "MB"),
        at_most(f"{size}: time of .zst to plain", 2, zst.seconds / run.seconds),
        at_most(f"{size}: peak memory of .zst", 200, zst.peak / 1e6, "MB"),
        answer_bar(size, run, written),
        Bar(f"{size}: speed", "-", f"{speed:.0f} MB/s ({run.seconds:.2f} s; grep {grep:.2f} s)", speed, True),
    ]
    return bars, run


def files_bars(folder: Path) -> list[Bar]:
    """The bars of a job whose ranks write a file each, beside one file of the same bytes."""
    files, whole = folder / "ranks", folder / "ranks.log"
    files.mkdir()
    write_ranks(files, [1.0] * 1024)
    with whole.open("wb") as sink:
        for path in sorted(files.iterdir()):
            sink.write(path.read_bytes())
    one, many = diagnose_file(whole, 1), diagnose_file(files, 1)
    shutil.rmtree(files)
    whole.unlink()
    told = f"1,024 files of 1 MB ({many.seconds:.1f} s)"
    return [
        at_most(f"{told} to one file of their size ({one.seconds:.1f} s)", 1.2, many.seconds / one.seconds),
        at_most("1,024 files of 1 MB: peak memory", 300, many.peak / 1e6, "MB"),
    ]


def loop_bar(size: str, path: Path, speed: float) -> Bar:
    """diagnose() against a plain loop."""
    loop, count = regex_throughput(path)
    return at_least(f"{size}: throughput to a loop over {count} patterns ({loop / 1e6:.3f} MB/s)", 100, speed / loop)


def fuzz_bar(seconds: float) -> tuple[Bar, FuzzReport]:
    """Random damage to the sample logs."""
    report = fuzz(SAMPLES, seconds, random.Random(1))
    passed = not report.problems
    measured = f"{report.runs} logs, {len(report.problems)} problems, slowest {report.slowest:.2f} s"
    return Bar(f"fuzz, {seconds:.0f} s", "no problem", measured, len(report.problems), passed), report


def measure(sizes: tuple[int, int], fuzz_seconds: float, times: int, say: Callable[[str], None]) -> Iterator[Bar]:
    """All bars, one after the other."""
    with tempfile.TemporaryDirectory(prefix="logdiag-bench-") as folder:
        per_byte: list[float] = []
        for megabytes in sizes:
            size = f"{megabytes} MB" if megabytes < 1000 else f"{megabytes / 1000:g} GB"
            path = Path(folder) / f"run-{megabytes}.log"
            say(f"{size}: writing")
            written = write_log(path, megabytes)
            say(f"{size}: grep, diagnose, .zst")
            bars, run = size_bars(size, path, written, times)
            yield from bars
            per_byte.append(run.seconds / written.bytes)
            if len(per_byte) == 1:
                say(f"{size}: the loop")
                yield loop_bar(size, path, written.bytes / run.seconds)
            path.unlink()
        yield at_most(f"time a byte, {sizes[1]} MB to {sizes[0]} MB", 1.15, per_byte[1] / per_byte[0])
        say("1,024 files")
        yield from files_bars(Path(folder))
    say("start of the command")
    ours, bare, ratio = start_ratio(21)
    yield at_most(f"logdiag small.log ({ours * 1000:.0f} ms) to python -c pass ({bare * 1000:.0f} ms)", 15, ratio)
    say("fuzz")
    bar, report = fuzz_bar(fuzz_seconds)
    for problem in report.problems[:10]:
        say(f"  {problem}")
    yield bar


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model, memory = platform.processor() or platform.machine(), 0
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        pass
    return {"cpu": model, "cores": os.cpu_count(), "memory_gb": round(memory / 1e9, 1), "system": platform.system()}


def versions() -> dict[str, str]:
    """Python, grep and the packages that matter here."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    found["grep"] = timed(["grep", "--version"])[1].splitlines()[0]
    return found


def revision() -> str:
    """The git revision, marked when files differ from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
        return done.stdout.strip() if done.returncode == 0 else ""

    return (git("rev-parse", "HEAD") or "unknown") + ("+changes" if git("status", "--porcelain") else "")


def print_table(bars: list[Bar], console: Console) -> None:
    """The bars as a table."""
    table = Table(title="logdiag bench", title_justify="left")
    for heading in ("what", "bar", "measured", ""):
        table.add_column(heading)
    for bar in bars:
        verdict = "" if bar.bar == "-" else "[green]pass[/]" if bar.passed else "[bold red]FAIL[/]"
        table.add_row(bar.name, bar.bar, bar.measured, verdict)
    console.print(table)


def arguments_given() -> argparse.Namespace:
    """What the command was told."""
    parser = argparse.ArgumentParser(description="Measure logdiag's speed and memory.")
    parser.add_argument("--small", action="store_true", help="10, 30 and 90 MB instead of 50, 300 MB and 3 GB")
    parser.add_argument("--kinds", type=int, metavar="MB", help="the kinds of log alone, of so many MB each")
    parser.add_argument("--keep", action="store_true", help="compare with this from now on")
    parser.add_argument("--fuzz-seconds", type=float, help="how long to fuzz (default: 60, with --small 10)")
    return parser.parse_args()


def main() -> None:
    """Read the arguments, measure, print, write."""
    given = arguments_given()
    if not shutil.which("grep"):
        raise SystemExit("grep is not installed; the bars are ratios to its time")
    console, notes = Console(width=None if sys.stdout.isatty() else 140), Console(stderr=True)

    def say(text: str) -> None:
        notes.print(f"[dim]{text}[/]")

    size = given.kinds or (10 if given.small else 50)
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    of_run = {
        "revision": revision(),
        "load": round(os.getloadavg()[0], 1),
        "machine": machine(),
        "versions": versions(),
    }
    speeds = measure_kinds(size, kept["kinds"].get(str(size), {}), say)
    print_kinds(speeds, size, console)
    bars: list[Bar] = []
    if not given.kinds:
        sizes, seconds = ((30, 90), 10.0) if given.small else ((300, 3000), 60.0)
        bars = list(measure(sizes, given.fuzz_seconds or seconds, 5, say))
        print_table(bars, console)
    if given.keep or not (given.small or given.kinds):
        kept["kinds"][str(size)] = {speed.name: speed.kept() for speed in speeds}
        kept["runs"] = {**kept.get("runs", {}), f"kinds of {size} MB": of_run}
        if bars and not given.small:
            kept["bars"] = [asdict(bar) for bar in bars]
            kept["runs"]["bars"] = of_run
        RESULTS.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        console.print(f"written to {RESULTS.relative_to(ROOT)}")
    passed = all(bar.passed for bar in bars) and not any(speed.slower for speed in speeds)
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()
