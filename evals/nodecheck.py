"""`python -m evals.nodecheck`: hosts of which some are bad, drawn by a seed, are checked by `logdiag nodecheck`.

Each run makes 16 hosts in network namespaces (as root), breaks up to four of them, and asks for the bad ones. Reports
how often exactly they were named, and the rounds, worlds and seconds that it took.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import Any

from evals.namespaces import LAUNCHER, Hosts, hosts, why_not

__all__ = ["break_link", "run_once"]

_OUT = Path(__file__).parent / "results" / "nodecheck.json"
_MEGABITS, _MEGABYTES, _SECONDS, _MOST_BAD = 100.0, 2, 6.0, 4
KINDS = ("cut", "slow", "late", "lossy")


def break_link(made: Hosts, name: str, kind: str) -> None:
    """Cuts a host's link, leaves it a quarter of its rate, makes it 5 ms late, or lets it lose 5 % of all frames."""
    if kind == "cut":
        made.cut(name)
    elif kind == "slow":
        made.slow(name, _MEGABITS / 4)
    else:
        made.disturb(name, late=0.005 if kind == "late" else 0.0, lost=0.05 if kind == "lossy" else 0.0)


def run_once(seed: int, count: int) -> dict[str, Any]:
    """One run: what was broken, what was found, and what it cost."""
    chance = random.Random(seed)
    with hosts(count, _MEGABITS) as made:
        bad = {name: chance.choice(KINDS) for name in chance.sample(made.names, seed % (_MOST_BAD + 1))}
        for name, kind in bad.items():
            break_link(made, name, kind)
        command = [
            sys.executable,
            "-m",
            "logdiag",
            "nodecheck",
            "--hosts",
            ",".join(made.names),
            "--launcher",
            LAUNCHER,
        ]
        command += ["--megabytes", str(_MEGABYTES), "--seconds", f"{_SECONDS:g}", "--format", "json"]
        started = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        seconds = time.monotonic() - started
    answer = json.loads(done.stdout)
    found = {row["node"]: row["why"] for row in answer["bad"]}
    return {
        "seed": seed,
        "kinds": sorted(bad.values()),
        "exact": found.keys() == bad.keys() and done.returncode == (1 if bad else 0),
        "missed": [bad[name] for name in bad if name not in found],
        "accused": [why for name, why in found.items() if name not in bad],
        "suspects": sum(len(row["nodes"]) for row in answer["waves"][0] if row["wrong"]),
        "rounds": 1 + (len(answer["waves"]) > 1),
        "worlds": sum(len(wave) for wave in answer["waves"]),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Runs all and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--out", type=Path, default=_OUT)
    said = parser.parse_args()
    if reason := why_not():
        sys.exit(reason)
    runs, load = [], os.getloadavg()[0]
    for seed in range(said.runs):
        runs.append(run_once(seed, said.hosts))
        print(runs[-1], flush=True)
    by_count = {}
    for count in range(_MOST_BAD + 1):
        rows = [row for row in runs if len(row["kinds"]) == count]
        by_count[str(count)] = {
            name: round(mean(row[name] for row in rows), 1) for name in ("rounds", "worlds", "seconds")
        }
    report = {
        "hosts": said.hosts,
        "setting": f"links of {_MEGABITS:g} Mbit/s, {_MEGABYTES} MB over TCP within {_SECONDS:g} s, two cores",
        "load_of_the_machine": [round(load, 1), round(os.getloadavg()[0], 1)],
        "runs": said.runs,
        "exact": sum(row["exact"] for row in runs),
        "bad": dict(Counter(kind for row in runs for kind in row["kinds"])),
        "missed": sum(len(row["missed"]) for row in runs),
        "accused": sum(len(row["accused"]) for row in runs),
        "means_by_number_of_bad_hosts": by_count,
        "each": runs,
    }
    said.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{report['exact']} of {said.runs} exact")


if __name__ == "__main__":
    main()
