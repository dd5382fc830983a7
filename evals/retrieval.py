"""Measures how fast the memory is: a million incidents, and a process that asks once: evals/results/memory.json.

    python -m evals.retrieval

What the memory is worth, `python -m evals.recall` says.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.static_model import ROOT, shipped_lines
from logdiag.memory.database import SqliteFile
from logdiag.memory.embedding import Embedder, load_embedder
from logdiag.memory.incident import Incident, masked
from logdiag.memory.nearest import Nearest
from logdiag.memory.store import open_store
from logdiag.model import Action, Reason

RESULTS = ROOT / "evals" / "results" / "memory.json"
_NEAREST = 5

Vectors = NDArray[np.float32]

_COUNT = 1_000_000
_QUERIES = 500
_CHUNK = 50_000

# Runs in a process of its own. The time of the interpreter's own start is measured around it.
FRESH = """
import sys, time
begun = time.perf_counter()
from logdiag.memory.store import open_store
open_store(sys.argv[1]).nearest(sys.argv[2], 5)
print(time.perf_counter() - begun)
heavy = {"torch", "transformers", "sentence_transformers", "tokenizers", "faiss"} & set(sys.modules)
assert not heavy, heavy
"""


def synthetic(base: Vectors, count: int, seed: int) -> Vectors:
    """Vectors (count, d) near real ones: a real line's, with up to a third of another's and with noise of up to half
    its length, of length 1 again."""
    random = np.random.default_rng(seed)
    found = np.empty((count, base.shape[1]), np.float32)
    for start in range(0, count, _CHUNK):
        many = min(_CHUNK, count - start)
        one, other = base[random.integers(len(base), size=(2, many))]
        share = random.uniform(0, 1 / 3, (many, 1)).astype(np.float32)
        noise = random.standard_normal((many, base.shape[1]), np.float32) / np.float32(base.shape[1] ** 0.5)
        noise *= random.uniform(0, 0.5, (many, 1)).astype(np.float32)
        mixed = (1 - share) * one + share * other + noise
        found[start : start + many] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    return found


def bench(count: int) -> dict[str, Any]:
    """Search over a store of `count` synthetic incidents: how its index is made and opened, and how fast it is."""
    embedder = load_embedder()
    base = np.array(embedder.embed(shipped_lines()), np.float32)
    queries = synthetic(base, _QUERIES, 2)
    with tempfile.TemporaryDirectory() as folder:
        file = SqliteFile(folder)
        vectors = synthetic(base, count, 1)
        truth = _flat(vectors, queries) + 1
        _fill(file, embedder, vectors)
        del vectors
        begun = time.perf_counter()
        Nearest(file, embedder).catch_up(math.inf)
        built = time.perf_counter() - begun
        begun = time.perf_counter()
        nearest = Nearest(file, embedder)
        nearest.catch_up(math.inf)
        opened = time.perf_counter() - begun
        asked = [array("f", query) for query in queries.tolist()]
        found = [[row for _, row in nearest.search(query, _NEAREST)] for query in asked]
        recall = statistics.fmean(len(set(a) & set(b)) / _NEAREST for a, b in zip(found, truth.tolist(), strict=True))
        wall, processor = _search_times(nearest, asked)
        size = sum(path.stat().st_size for path in Path(folder).glob("index-*.faiss"))
        file.close()
    return {
        "incidents": count,
        "dimensions": embedder.dimensions,
        "embedder": embedder.name,
        "search_ms": {"p50": _at(wall, 50), "p99": _at(wall, 99)},
        "search_processor_ms": {"p50": _at(processor, 50), "p99": _at(processor, 99)},
        "recall_at_5": round(recall, 4),
        "open_ms": round(1000 * opened, 1),
        "build_seconds": round(built, 1),
        "file_mib": round(size / 2**20, 1),
    }


def _fill(file: SqliteFile, embedder: Embedder, vectors: Vectors) -> None:
    """Incidents that are nothing but their vectors, in rows from 1."""
    texts = dict.fromkeys(("reason", "outcome", "node", "seen_at", "changed_at", "document"), "")
    with file.transaction(write=True) as connection:
        connection.execute(file.tables.embedders.insert().values(number=1, name=embedder.name))
    for start in range(0, len(vectors), _CHUNK):
        kept = vectors[start : start + _CHUNK].astype("<f2")
        ids = range(start + 1, start + 1 + len(kept))
        with file.transaction(write=True) as connection:
            given = [{"row": at, "id": f"{at}", "signature": "x", "fingerprint": f"{at}"} for at in ids]
            connection.execute(file.tables.incidents.insert(), [{**texts, **one, "confirmed": True} for one in given])
            blobs = zip(ids, kept, strict=True)
            connection.execute(
                file.tables.vectors.insert(),
                [{"embedder": 1, "row": at, "vector": vector.tobytes()} for at, vector in blobs],
            )


def fresh_process() -> dict[str, Any]:
    """Import, open a store of 1,000 incidents, embed one line and search, in a process of its own: milliseconds, of
    nine runs the median and the least, by the clock (around the process, and within it after the interpreter's start)
    and of the processor."""
    lines = shipped_lines()
    whole, within, used = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        with open_store(folder) as store:
            store.add_all([Incident("", line, Reason.OTHERS, Action.RESTART) for line in lines[:1000]])
            store.nearest("makes the vectors")
        for turn in range(9):
            before, begun = os.times(), time.perf_counter()
            command = [sys.executable, "-c", FRESH, folder, lines[turn]]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
            whole.append(time.perf_counter() - begun)
            after = os.times()
            used.append(after.children_user + after.children_system - before.children_user - before.children_system)
            within.append(float(done.stdout))
    return {
        "process_ms": _median_and_least(whole),
        "within_ms": _median_and_least(within),
        "processor_ms": _median_and_least(used),
        "embed_one_ms": round(_embed_ms(load_embedder(), lines[:200]), 3),
    }


def novel_failure(incidents: int) -> dict[str, Any]:
    """A failure that no rule knows, diagnosed by `logdiag LOG` in a process of its own with a store of so many
    confirmed incidents, to the same by the rules alone; nine runs of each in turn. And one durable addition."""
    lines = shipped_lines()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "job.log"
        steps = [f"step: {number} loss: {3 - number / 1000:.4f} lr: 1e-04" for number in range(400)]
        frames = ["Traceback (most recent call last):", '  File "train.py", line 88, in <module>', "    step()"]
        log.write_text("\n".join([*steps, *frames, "quartz.lattice.ShardFault: shard 4 could not be decoded"]) + "\n")
        place = Path(folder) / "memory"
        with open_store(place) as store:
            known = [Incident("", masked(line), Reason.OTHERS, Action.RESTART, confirmed_by="bench") for line in lines]
            store.add_all((known * (incidents // len(known) + 1))[:incidents])
            store.nearest("makes the vectors")
            added = []
            for incident in known[:50]:
                begun = time.perf_counter()
                store.add(incident)
                added.append(time.perf_counter() - begun)
        ways: dict[str, list[str]] = {"rules": ["--no-memory"], "memory": ["--memory", str(place)]}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(9):
            for name, options in ways.items():
                command = [sys.executable, "-m", "logdiag", *options, str(log)]
                begun = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
                seconds[name].append(time.perf_counter() - begun)
    return {
        "incidents": incidents,
        **{f"{name}_ms": _median_and_least(taken) for name, taken in seconds.items()},
        "ratio": round(statistics.median(seconds["memory"]) / statistics.median(seconds["rules"]), 2),
        "add_ms": {"p50": _at(added, 50), "p99": _at(added, 99)},
    }


def _flat(vectors: Vectors, queries: Vectors) -> Any:
    """The exact answer: ids (queries, 5)."""
    import faiss

    return faiss.knn(queries, vectors, _NEAREST, metric=faiss.METRIC_INNER_PRODUCT)[1]


def _search_times(nearest: Nearest, queries: Sequence[array[float]]) -> tuple[list[float], list[float]]:
    """Seconds by the clock, and of the processor, of each query alone, warm."""
    wall, processor = [], []
    for query in queries:
        clock, used = time.perf_counter(), time.thread_time()
        nearest.search(query, _NEAREST)
        processor.append(time.thread_time() - used)
        wall.append(time.perf_counter() - clock)
    return wall, processor


def _embed_ms(embedder: Embedder, lines: Sequence[str]) -> float:
    """The median milliseconds for one line, warm."""
    times = []
    for line in lines:
        begun = time.perf_counter()
        embedder.embed([line])
        times.append(time.perf_counter() - begun)
    return 1000 * statistics.median(times)


def _median_and_least(seconds: Sequence[float]) -> dict[str, int]:
    """In milliseconds."""
    return {"median": round(1000 * statistics.median(seconds)), "least": round(1000 * min(seconds))}


def _at(seconds: Sequence[float], percent: int) -> float:
    """The percentile in milliseconds."""
    return round(1000 * float(np.percentile(seconds, percent)), 2)


def main() -> None:
    """Measures, writes the result and prints it."""
    parser = argparse.ArgumentParser(description="Measures how fast the memory is.")
    parser.add_argument("--incidents", type=int, default=_COUNT, help="how many are searched (default: %(default)s)")
    given = parser.parse_args()
    machine = {"processors": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()[0]}
    versions = {name: metadata.version(name) for name in ("numpy", "faiss-cpu")}
    result = {
        "fresh": fresh_process(),
        "novel": novel_failure(5000),
        "search": bench(given.incidents),
        "machine": machine,
        "versions": versions,
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
