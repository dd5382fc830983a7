"""`python -m evals.saving`, with a Python that has torch: what a save costs, by `recovery/saving.py` and without it.

One process each trains a model and saves it some times: at once by torch.save, at once by torch.distributed.checkpoint,
and by the Saver while it trains on. Then a job that saves is killed again and again, and its newest checkpoint read.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from logdiag.recovery.checkpoints import checkpoints_in, newest
from logdiag.recovery.saving import Saver

__all__ = ["measure"]

_OUT = Path(__file__).parent / "results" / "saving.json"
_WIDTH, _SAVES, _STEPS = 4096, 4, 4
MODES = ("torch.save", "dcp.save", "Saver")


def _saving(mode: str, folder: str, layers: int) -> None:
    """One process that trains and saves; prints what it measured."""
    import torch

    model = torch.nn.Sequential(*(torch.nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(layers)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = torch.randn(16, _WIDTH)
    saver = Saver(folder, model, optimizer)

    def train() -> float:
        started = time.monotonic()
        optimizer.zero_grad(set_to_none=False)
        model(batch).pow(2).mean().backward()
        optimizer.step()
        return time.monotonic() - started

    train()
    quiet = [train() for _ in range(_STEPS)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    blocked, durable, busy = [], [], []
    for number in range(1, _SAVES + 1):
        started = time.monotonic()
        if mode == "Saver":
            ended: list[float] = []
            watcher = threading.Thread(target=_watch, args=(f"{folder}/step_{number}", ended))
            watcher.start()
            saver.save(number)
            blocked.append(time.monotonic() - started)
            while not ended:
                busy.append(train())
            watcher.join()
            durable.append(ended[0] - started)
        else:
            _save_at_once(mode, f"{folder}/step_{number}", model, optimizer)
            blocked.append(time.monotonic() - started)
            durable.append(blocked[-1])
        shutil.rmtree(f"{folder}/step_{number - 1}", ignore_errors=True)
        quiet.append(train())
    saver.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sizes = {"parameters_gb": sum(each.numel() for each in model.parameters()) * 4 / 1e9, "peak_gb": peak / 1e6}
    times = {"step": median(quiet), "step_while_saving": median(busy) if busy else 0.0}
    figures = {**sizes, "peak_before_saving_gb": before / 1e6, **times}
    rounded = {name: round(value, 2) for name, value in figures.items()}
    rounds = {"blocked": [round(value, 2) for value in blocked], "durable": [round(value, 2) for value in durable]}
    print(json.dumps({**rounds, **rounded}))


def _save_at_once(mode: str, path: str, model: Any, optimizer: Any) -> None:
    import torch
    from torch.distributed import checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    if mode == "dcp.save":
        dcp.save(state, checkpoint_id=path, no_dist=True)
        return
    with open(f"{path}.pt", "wb") as file:
        torch.save(state, file)
        os.fsync(file.fileno())


def _watch(path: str, ended: list[float]) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)
    ended.append(time.monotonic())


def _endless(folder: str, layers: int) -> None:
    """Saves for ever, to be killed."""
    import torch

    model = torch.nn.Sequential(*(torch.nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(layers)))
    saver = Saver(folder, model)
    first = max((item.step or 0 for item in checkpoints_in(folder)), default=0)
    for number in range(first + 1, first + 1000):
        saver.save(number)
        print(number, flush=True)
        shutil.rmtree(f"{folder}/step_{number - 3}", ignore_errors=True)


def _killed(times: int, layers: int) -> dict[str, int]:
    """Kills a job that saves, so many times; how often its newest checkpoint was whole, and no older than the one
    before the save in flight."""
    chance = random.Random(1)
    found = {"kills": times, "in_the_middle": 0, "whole": 0, "lost": 0}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(times):
            job = _started("endless", folder, layers)
            assert job.stdout is not None
            number = 0
            for _ in range(3):  # the third has begun, so the first two are on the disk
                number = int(job.stdout.readline() or 0)
            time.sleep(chance.uniform(0, 0.8))
            job.send_signal(signal.SIGKILL)
            number = max([number, *map(int, job.stdout.read().split())])
            job.wait()
            best = newest(checkpoints_in(folder), {})
            found["in_the_middle"] += any(name.endswith(".partial") for name in os.listdir(folder))
            found["whole"] += best is not None
            found["lost"] += best is None or (best.step or 0) < number - 1
    return found


def _started(mode: str, folder: str, layers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-m", "evals.saving", "--mode", mode, "--folder", folder]
    return subprocess.Popen([*command, "--layers", str(layers)], stdout=subprocess.PIPE)


def measure(layers: int, kills: int) -> dict[str, Any]:
    """All modes one after the other, then the kills."""
    report: dict[str, Any] = {"layers_of_4096_x_4096": layers, "saves": _SAVES, "optimizer": "AdamW"}
    load = os.getloadavg()[0]
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            printed, _ = _started(mode, folder, layers).communicate()
        report[mode] = json.loads(printed)
        print(mode, report[mode], flush=True)
    later = {mode: median(report[mode]["blocked"][1:]) for mode in MODES}
    report["blocked_times_shorter_than"] = {mode: round(later[mode] / later["Saver"], 1) for mode in MODES[:2]}
    report["load_of_the_machine"] = [round(load, 1), round(os.getloadavg()[0], 1)]
    report["killed"] = _killed(kills, layers)
    print(report["killed"])
    return report


def main() -> None:
    """Measures all and writes the results; or is one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--out", type=Path, default=_OUT)
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.mode == "endless":
        _endless(said.folder, said.layers)
    elif said.mode:
        _saving(said.mode, said.folder, said.layers)
    else:
        said.out.write_text(json.dumps(measure(said.layers, said.kills), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
