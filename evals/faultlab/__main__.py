"""Makes the labelled cases: `make faultlab`, or

    python -m evals.faultlab --out DIR [--seed N] [--jobs N] [--only TEXT] [--minutes N]

Writes DIR/dev.jsonl and DIR/heldback.jsonl, one case a line, with long logs in files beside them, and DIR/labels.jsonl,
the labels alone: the same for the same seed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.faultlab import cases, grow, sandbox
from evals.faultlab.scenario import Scenario, load_scenarios
from evals.faultlab.shapes import Shape, shapes_of
from logdiag.errors import LogdiagError

_TRIES = 3
_MOST_INLINE = 1_000_000


@dataclass(frozen=True, slots=True)
class Made:
    """One case, or why there is none."""

    label: dict[str, Any]
    log: dict[str, Any]
    problems: list[cases.Problem]
    seconds: float


def make(scenario: Scenario, shape: Shape, seed: int, out: Path) -> Made:
    """Runs one shape, again when it does not show what it should, and writes its log."""
    began = time.monotonic()
    label = cases.label_of(scenario, shape)
    for _ in range(_TRIES):
        output = sandbox.run(scenario, shape, seed)
        problems = cases.problems_of(scenario, label, output)
        if not problems:
            break
    else:
        folder = out / "failed" / label["id"].replace("/", "-")
        _write_files(folder, {**output.files, "notes": output.notes.encode()})
        return Made(label, {}, problems, time.monotonic() - began)
    return Made(label, _keep(scenario, shape, label, output, out), [], time.monotonic() - began)


def _keep(scenario: Scenario, shape: Shape, label: dict[str, Any], output: sandbox.Output, out: Path) -> dict[str, Any]:
    """Where the log went: into the case, or into a file or folder of its own."""
    name = label["id"].replace("/", "-")
    text = b"\n".join(output.files.values()).decode("utf-8", "replace")
    # Not every run prints every line that would be accepted too.
    seen = {"also_root": [quote for quote in label["also_root"] if quote in text]}
    status = {} if output.status is None else {"exit_code": output.status}
    log = output.files["job.log"]
    if len(output.files) > 1:
        _write_files(out / "logs" / name, output.files)
        return {"log_file": f"logs/{name}", **seen, **status}
    if shape.megabytes:
        path = out / "logs" / f"{name}.log.zst"
        _write_long(path, grow.grow(log, label["root_line"], shape.megabytes * 1_000_000))
        return {"log_file": f"logs/{path.name}", **seen, **status}
    return {"log": log.decode("utf-8", "replace"), **seen, **status}


def _write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _write_long(path: Path, pieces: Iterator[bytes]) -> None:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    path.parent.mkdir(parents=True, exist_ok=True)
    with zstd.open(path, "wb") as file:
        for piece in pieces:
            file.write(piece)


def _write(out: Path, made: list[Made]) -> None:
    splits: dict[str, list[Made]] = {}
    for one in made:
        if not one.problems:
            splits.setdefault(one.label["split"], []).append(one)
    for split, rows in splits.items():
        with (out / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({**one.label, **one.log}) + "\n" for one in rows)
    labels = "".join(json.dumps(one.label) + "\n" for rows in splits.values() for one in rows)
    (out / "labels.jsonl").write_text(labels, encoding="utf-8")
    problems = [str(problem) for one in made for problem in one.problems]
    for line in problems:
        print(line)
    faults = {one.label["fault"] for one in made if one.label["root_line"] and not one.problems}
    healthy = {one.label["fault"] for one in made if not one.label["root_line"] and not one.problems}
    print(f"{sum(map(len, splits.values()))} cases of {len(faults)} faults and {len(healthy)} healthy jobs in {out}")
    print("by split:", dict(Counter(one.label["split"] for one in made if not one.problems)))
    print("labels:", hashlib.sha256(labels.encode()).hexdigest()[:16])


def main() -> int:
    """Runs all scenarios; 1 if a run did not show what it should."""
    parser = argparse.ArgumentParser(prog="evals.faultlab", description="Makes labelled cases from real jobs.")
    parser.add_argument("--out", type=Path, default=Path("evals/faultlab/out"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="scenarios whose split/name holds this text")
    parser.add_argument("--shape", type=int, default=None, help="only this one of the three shapes")
    parser.add_argument("--minutes", type=float, default=260, help="no run is started after so many minutes")
    arguments = parser.parse_args()
    try:
        scenarios = load_scenarios()
    except LogdiagError as error:
        print(error, file=sys.stderr)
        return 2
    return _make_all(scenarios, arguments)


def _make_all(scenarios: list[Scenario], arguments: argparse.Namespace) -> int:
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    made: list[Made] = []
    skipped: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = []
        for scenario in scenarios:
            if arguments.only not in f"{scenario.split}/{scenario.name}":
                continue
            if lacking := sandbox.missing(scenario):
                skipped.append(f"{scenario.split}/{scenario.name}: skipped, this machine lacks {', '.join(lacking)}")
                continue
            for shape in shapes_of(scenario, arguments.seed):
                if arguments.shape in (None, shape.index):
                    waiting.append(pool.submit(_in_time, scenario, shape, arguments, began))
        for number, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            one = future.result()
            made.append(one)
            state = "; ".join(problem.what for problem in one.problems) or "made"
            print(f"{number}/{len(waiting)} {one.label['id']} {one.seconds:.1f} s {state}", file=sys.stderr)
    print(*skipped, sep="\n", end="\n" if skipped else "")
    _write(arguments.out, sorted(made, key=lambda one: str(one.label["id"])))
    return 1 if skipped or any(one.problems for one in made) else 0


def _in_time(scenario: Scenario, shape: Shape, arguments: argparse.Namespace, began: float) -> Made:
    if time.monotonic() - began > arguments.minutes * 60:
        label = cases.label_of(scenario, shape)
        return Made(label, {}, [cases.Problem(label["id"], "not run: the time was up")], 0.0)
    return make(scenario, shape, arguments.seed, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
