"""Damages the sample logs at random and checks what must hold for any bytes at all.

    python -m evals.fuzz --seconds 60

No exception, no hang, and the root line is a line of the input.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FuzzReport", "fuzz", "mutate", "root_problem"]

SAMPLES = Path(__file__).resolve().parent.parent / "tests" / "data" / "logs"
HANG_SECONDS = 10.0
COLOUR = re.compile(rb"\x1b\[[0-9;:?]*[ -/]*[@-~]")
WORD = re.compile(r"[A-Za-z0-9_]{4,}")

Mutation = Callable[[bytearray, random.Random, list[bytes]], bytearray]


@dataclass
class FuzzReport:
    """How many damaged logs were diagnosed, the longest time one took, and what went wrong."""

    runs: int = 0
    slowest: float = 0.0
    problems: list[str] = field(default_factory=list)


def _place(data: bytearray, source: random.Random) -> int:
    return source.randrange(len(data) + 1)


def flip(data: bytearray, source: random.Random, samples: list[bytes]) -> bytearray:
    """Other bytes in a few places."""
    for _ in range(source.randint(1, 60)):
        if data:
            data[source.randrange(len(data))] = source.randrange(256)
    return data


def cut(data: bytearray, source: random.Random, samples: list[bytes]) -> bytearray:
    """Only a piece of it."""
    low, high = sorted((_place(data, source), _place(data, source)))
    return data[low:high]


def splice(data: bytearray, source: random.Random, samples: list[bytes]) -> bytearray:
    """A piece of another log in the middle."""
    other = bytearray(source.choice(samples))
    at = _place(data, source)
    return data[:at] + cut(other, source, samples) + data[at:]


def nuls(data: bytearray, source: random.Random, samples: list[bytes]) -> bytearray:
    """A run of NUL bytes, as a crashed file system leaves them."""
    at = _place(data, source)
    return data[:at] + bytes(source.choice((1, 3, 512, 70_000))) + data[at:]


def long_line(data: bytearray, source: random.Random, samples: list[bytes]) -> bytearray:
    """A very long line."""
    at = _place(data, source)
    piece = source.choice((b"x", b"0 ", b"Error ", b"\\u00e9", b'{"log":"', b"\x1b[31m", b"at 0x"))
    return data[:at] + piece * (source.choice((1_000, 40_000, 2_000_000)) // len(piece)) + data[at:]


def endings(data: bytearray, source: random.Random, samples: list[bytes]) -> bytearray:
    """Other line ends: Windows, progress bars, none."""
    return bytearray(bytes(data).replace(b"\n", source.choice((b"\r\n", b"\r", b"\n\n", b"\x0b", b" "))))


def shuffle(data: bytearray, source: random.Random, samples: list[bytes]) -> bytearray:
    """The same lines in another order."""
    lines = bytes(data).split(b"\n")
    source.shuffle(lines)
    return bytearray(b"\n".join(lines))


MUTATIONS: tuple[Mutation, ...] = (flip, cut, splice, nuls, long_line, endings, shuffle)


def mutate(samples: list[bytes], source: random.Random) -> bytes:
    """One sample with one to four kinds of damage."""
    data = bytearray(source.choice(samples))
    for change in source.choices(MUTATIONS, k=source.randint(1, 4)):
        data = change(data, source, samples)
    return bytes(data)


def root_problem(data: bytes, answer: dict[str, Any]) -> str | None:
    """What is wrong with the root line of an answer: it must be a line of `data`, envelope and colours aside."""
    root = answer.get("root_cause")
    if root is None:
        return None
    lines = data.split(b"\n")
    number = root["line"]
    if not isinstance(number, int) or not 1 <= number <= len(lines):
        return f"root line {number!r} of {len(lines)} lines"
    line = COLOUR.sub(b"", lines[number - 1].replace(b"\0", b"")).decode("utf-8", "replace")
    missing = [word for word in WORD.findall(root["text"][:200]) if word not in line]
    return f"root line {number} does not hold {missing[0]!r}" if missing else None


def check(data: bytes, folder: Path, report: FuzzReport) -> None:
    """Diagnose one damaged log and note what went wrong; the bytes that did it are kept in the report's words."""
    from logdiag import diagnose

    path = folder / "damaged.log"
    path.write_bytes(data)
    begun = time.perf_counter()
    problem: str | None
    try:
        problem = root_problem(data, diagnose(path).to_dict())
    except Exception:
        problem = traceback.format_exc(limit=-3)
    seconds = time.perf_counter() - begun
    report.runs += 1
    report.slowest = max(report.slowest, seconds)
    if seconds > HANG_SECONDS:
        problem = problem or f"took {seconds:.1f} s for {len(data)} bytes"
    if problem:
        kept = Path(tempfile.gettempdir()) / f"logdiag-fuzz-{len(report.problems)}.log"
        kept.write_bytes(data)
        report.problems.append(f"{kept}: {problem}")


def fuzz(samples: Path, seconds: float, source: random.Random) -> FuzzReport:
    """Damage and diagnose for `seconds` seconds."""
    contents = [path.read_bytes() for path in sorted(samples.rglob("*")) if path.is_file() and path.suffix != ".md"]
    report = FuzzReport()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="logdiag-fuzz-") as folder:
        while time.monotonic() < end:
            check(mutate(contents, source), Path(folder), report)
    return report


def main() -> None:
    """Fuzz, print the problems, exit with 1 when there are any."""
    parser = argparse.ArgumentParser(description="Diagnose randomly damaged logs.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    report = fuzz(SAMPLES, arguments.seconds, random.Random(arguments.seed))
    print(*report.problems, sep="\n")
    print(f"{report.runs} logs, {len(report.problems)} problems, slowest {report.slowest:.2f} s")
    raise SystemExit(1 if report.problems else 0)


if __name__ == "__main__":
    main()
