"""Measures whether a long-lived controller stays small: many diagnoses in one process, no two logs alike.

    make soak                        10,000 diagnoses, ten to twenty minutes
    make soak ARGS='--count 2000'    a quicker one, which writes no result

Prints the memory after each tenth and writes evals/results/soak.json. Exits with 1 when the second half grew by more
than the bar, or a descriptor or a thread was left behind.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from logdiag import diagnose
from logdiag.rules import RuleBook

RESULT = Path(__file__).resolve().parent / "results" / "soak.json"
_COUNT = 10_000
# Megabytes that the second half of the diagnoses may add: the allocator's own pages come and go.
_BAR = 4.0
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def logs(count: int) -> Iterator[bytes]:
    """So many small logs, each with words, numbers and hosts of its own: an exception, a fault of a node, words that no
    rule knows, a healthy job, and one that says nothing."""
    dice = random.Random(7)
    for at in range(count):
        word, other = ("".join(dice.choices(_LETTERS, k=9)) for _ in range(2))
        work = [f"2026-11-20 03:04:{s:02d} INFO {word}: step {s} loss {dice.random():.4f}" for s in range(40)]
        ending = (
            ["Traceback (most recent call last):", f'  File "{word}.py", line {at}, in {other}', f"KeyError: '{word}'"],
            [f"node-{at}: AcceleratorError: CUDA error: uncorrectable ECC error encountered"],
            [f"2026-11-20 03:05:00 ERROR {word}: the {other} has {at} threads and no loom", f"{word} leaves with 3"],
            ["2026-11-20 03:05:00 INFO Training completed."],
            [],
        )[at % 5]
        yield "".join(f"{line}\n" for line in (work if at % 5 != 4 else work[:1]) + ending).encode()


def resident() -> float:
    """Megabytes of this process in memory now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak(count: int) -> dict[str, object]:
    """Diagnoses so many logs, as files, and measures after each tenth."""
    book = RuleBook.load()
    began, memory, answers = time.perf_counter(), [], {True: 0, False: 0, None: 0}
    descriptors = threads = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.log"
        for at, log in enumerate(logs(count)):
            path.write_bytes(log)
            answers[diagnose(path, rules=book).failed] += 1
            if (at + 1) % (count // 10) == 0:
                memory.append(round(resident(), 1))
                print(f"{at + 1:>7,} diagnoses  {memory[-1]:6.1f} MB  {time.perf_counter() - began:6.1f} s", flush=True)
            if at == count // 10:
                descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
        left = {
            "descriptors": len(os.listdir("/proc/self/fd")) - descriptors,
            "threads": threading.active_count() - threads,
        }
    seconds = time.perf_counter() - began
    return {
        "diagnoses": count,
        "megabytes_after_each_tenth": memory,
        "megabytes_added_by_the_second_half": round(memory[-1] - memory[4], 1),
        "left_behind": left,
        "answers": {str(failed).lower(): number for failed, number in answers.items()},
        "milliseconds_each": round(seconds / count * 1000, 1),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def main() -> None:
    """Measures, prints, writes the result; the exit status says whether it stayed flat."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=_COUNT, help="how many diagnoses; a multiple of 10")
    arguments = parser.parse_args()
    result = soak(arguments.count)
    print(json.dumps(result))
    if arguments.count == _COUNT:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    grown = float(str(result["megabytes_added_by_the_second_half"]))
    left_behind: Any = result["left_behind"]
    sys.exit(grown > _BAR or any(count > 0 for count in left_behind.values()))


if __name__ == "__main__":
    main()
