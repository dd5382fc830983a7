"""`python -m evals.recovery`: a real training job of four processes meets a schedule of faults under `logdiag run`.

Reports the faults survived, the work lost, the time from a fault to its detection and to the next step, and the share
that needed no person; the final loss is held against a run without faults on the same batches.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import mean
from typing import Any

from evals.namespaces import hosts, why_not

__all__ = ["FIVE", "TWENTY_FIVE", "measure"]

Event = dict[str, Any]
_SAVE_EVERY, _SECONDS_A_STEP, _NODES, _WORLD = 10, 0.03, 12, 4
_POLICY = "hang: {{times: 20, at_least: {patience}, after_fault: 1}}\nwait: {{seconds: 1}}\n"
_LOSSES = ("steps_lost_most", "steps_lost_most_by_a_rollback", "steps_lost_most_with_a_broken_checkpoint")
_LOOPBACK = tuple(f"127.0.0.{number + 2}" for number in range(_NODES))
_OUT = Path(__file__).parents[1] / "results" / "recovery.json"
# kind, and the rank that it strikes
FIVE = (("kill", 2), ("torn", 0), ("lost", 1), ("spike", 0), ("bug", 0))
TWENTY_FIVE = (
    ("kill", 2), ("link", 1), ("stop", 3), ("torn", 0), ("store", 0), ("lost", 1), ("spike", 0), ("oom", 2),
    ("kill", 0), ("disk", 0), ("supervisor", 1), ("stall", 2), ("break", 3), ("nan", 0), ("words", 0), ("memory", 3),
    ("stall", 1), ("cut", 0), ("store", 0), ("kill", 1), ("stop", 0), ("disk", 0), ("supervisor", 2), ("kill", 3),
    ("bug", 0),
)  # fmt: skip


def plan_of(schedule: Sequence[tuple[str, int]], folder: Path, store: str, *, inside: bool) -> dict[str, Any]:
    """One fault in each stretch of two checkpoints, a few steps after the first; those of a save at the second.
    `inside` says that each node is a network namespace."""
    faults: list[dict[str, Any]] = []
    bad: list[dict[str, Any]] = []
    for number, (kind, rank) in enumerate(schedule):
        start = 20 + 2 * _SAVE_EVERY * number
        step = start + _SAVE_EVERY if kind in ("torn", "disk") else start + 4
        if kind in ("spike", "nan"):
            bad.append({"number": number, "kind": kind, "steps": [step]})
        else:
            faults.append({"number": number, "kind": kind, "rank": rank, "step": step})
    steps = 2 * _SAVE_EVERY * len(schedule) + 2 * _SAVE_EVERY
    faults[-1]["step"] = steps + 1
    return {"folder": str(folder), "steps": steps, "save_every": _SAVE_EVERY, "seconds": _SECONDS_A_STEP,
            "store": store, "faults": faults, "bad_batches": bad, "inside": inside}  # fmt: skip


@contextmanager
def object_store(address: str) -> Iterator[str]:
    """A store that takes what is put, and can be told to be down for some seconds."""
    down = [0.0]

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(503 if time.time() < down[0] else 200)
            self.end_headers()

        def do_POST(self) -> None:
            down[0] = time.time() + float(self.path.partition("down=")[2])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer((address, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{address}:{server.server_address[1]}/bucket"
        server.shutdown()


def job_of(nodes: str, plan: Path, torch: str) -> list[str]:
    """The job's command: by our own launcher, or by the torchrun of a Python that has torch."""
    if torch:
        torchrun = [torch, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(_WORLD)]
        return [*torchrun, "-m", "evals.recovery.train", "torch", nodes, str(plan)]
    return [sys.executable, "-m", "evals.recovery.train", "launch", nodes, str(plan)]


def measure(
    schedule: Sequence[tuple[str, int]], folder: Path, *, quiet: bool = False, torch: str = "", patience: float = 3
) -> dict[str, Any]:
    """Runs the schedule, and the same batches without faults; what came of it. `torch` is a Python with torchrun, and
    `patience` the seconds of silence that are a hang at least. Each node is a network namespace where that can be, but
    torchrun's are this machine."""
    (folder / "ckpt").mkdir(parents=True)
    (folder / "policy.yaml").write_text(_POLICY.format(patience=patience))
    inside = not torch and not why_not()
    with ExitStack() as opened:
        made = opened.enter_context(hosts(_NODES)) if inside else None
        nodes, here = (made.names, made.here) if made else (_LOOPBACK, "127.0.0.1")
        (folder / "hosts").write_text("".join(f"{node}\n" for node in nodes))
        plan = plan_of(schedule, folder, opened.enter_context(object_store(here)), inside=inside)
        (folder / "plan.json").write_text(json.dumps(plan))
        options = {"--policy": "policy.yaml", "--nodes": "hosts", "--checkpoint-dir": "ckpt", "--state": "state"}
        words = [word for name, file in options.items() for word in (name, str(folder / file))]
        job = job_of(f"{{nodes:{_WORLD}}}", folder / "plan.json", torch)
        words = [sys.executable, "-m", "logdiag", "run", *words, "--", *job]
        began, launches, load = time.time(), 0, os.getloadavg()[0]
        while True:
            # A service manager starts logdiag again when it is killed.
            launches += 1
            shown = subprocess.DEVNULL if quiet else None
            status = subprocess.run(words, stdout=shown, stderr=shown, check=False).returncode
            if status != -9:
                break
        seconds = time.time() - began
    events = [json.loads(row) for row in (folder / "state" / "ledger.jsonl").read_text().splitlines()]
    return {
        **report(schedule, plan, folder, events),
        "exit_status": status,
        "logdiag_started": launches,
        "seconds": round(seconds, 1),
        "load_of_the_machine": [round(load, 1), round(os.getloadavg()[0], 1)],
        "final_loss": float((folder / "final").read_text()),
        "final_loss_undisturbed": undisturbed(plan, events, torch),
    }


def undisturbed(plan: dict[str, Any], events: Sequence[Event], torch: str) -> float:
    """The final loss of the same job on the same batches, without faults and without logdiag."""
    skipped = [item for event in events if event["event"] == "choice" for item in event["skip"]]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ckpt").mkdir()
        file = Path(folder, "plan.json")
        file.write_text(
            json.dumps({**plan, "folder": folder, "faults": [], "store": "", "seconds": 0, "inside": False})
        )
        environ = {**os.environ, "LOGDIAG_RUN_SKIP": ",".join(f"{first}-{last}" for first, last in skipped)}
        subprocess.run(
            job_of(",".join(_LOOPBACK[:_WORLD]), file, torch), env=environ, stdout=subprocess.DEVNULL, check=True
        )
        return float(Path(folder, "final").read_text())


def report(
    schedule: Sequence[tuple[str, int]], plan: dict[str, Any], folder: Path, events: Sequence[Event]
) -> dict[str, Any]:
    """What the ledger and the faults' own notes say, fault by fault and together."""
    bad = {item["number"]: at for at, item in enumerate(plan["bad_batches"])}
    rows: list[dict[str, Any]] = []
    for number, (kind, _) in enumerate(schedule):
        note = folder / (f"fault-bad-{bad[number]}" if number in bad else f"fault-{number}")
        rows.append({"fault": kind, **_one(json.loads(note.read_text()), events)} if note.exists() else {"fault": kind})
    recoverable = [row for row in rows if row["fault"] != "bug"]
    survived = [row for row in recoverable if row.get("to_progress") is not None]
    lost = {kind: [row["steps_lost"] for row in survived if _kind_of_loss(row) == kind] for kind in _LOSSES}
    return {
        "schema": "logdiag.recovery/1",
        "faults": len(rows),
        "survived": len(survived),
        "recoverable": len(recoverable),
        "share_without_a_person": round(len(survived) / len(recoverable), 3),
        "wrong_restarts": sum(row["fault"] == "bug" and row.get("action") != "stop" for row in rows),
        "checkpoint_interval_steps": plan["save_every"],
        "steps": plan["steps"],
        "steps_lost_mean": round(mean(row["steps_lost"] for row in survived), 1),
        **{name: max(steps) for name, steps in lost.items() if steps},
        "seconds_to_detection_mean": round(mean(row["to_detection"] for row in survived), 2),
        "seconds_to_progress_mean": round(mean(row["to_progress"] for row in survived), 2),
        "stopped_at": next((row.get("reason", "") for row in rows if row.get("action") == "stop"), ""),
        "rows": rows,
    }


def _kind_of_loss(row: dict[str, Any]) -> str:
    """What a fault broke with the newest checkpoint is lost whatever is done, and a spike is only known when some steps
    have followed: neither is held against the interval between two checkpoints."""
    _most, rolled_back, broken = _LOSSES
    return broken if row["fault"] == "break" else rolled_back if row.get("action") == "rollback" else _most


def _one(note: dict[str, Any], events: Sequence[Event]) -> dict[str, Any]:
    """What became of one fault: the first detection after it, the choice, and the first step after that."""
    later = [event for event in events if event["at"] >= note["at"]]
    found = next((event for event in later if event["event"] in ("detected", "end")), None)
    choice = next((event for event in later if event["event"] == "choice"), None)
    start = next((event for event in later if event["event"] == "start"), None)
    progress = next(
        (event for event in later if start and event["event"] == "progress" and event["at"] >= start["at"]), None
    )
    killed = found is not None and found["event"] == "end"
    row: dict[str, Any] = {"step": note["step"]}
    if found:
        row["to_detection"] = round(found["at"] - note["at"], 2)
        row["seen"] = "logdiag was killed" if killed else found["seen"]
    if choice and not killed:
        row |= {"action": choice["step"], "row": choice["row"], "reason": choice["failure"]["reason"]}
    if start and progress:
        row["to_progress"] = round(progress["at"] - note["at"], 2)
        saved = Path(start["checkpoint"]).stem.partition("_")[2]
        reached = note["step"] - 1 if killed or not choice else choice["failure"]["step"]
        row["steps_lost"] = reached - int(saved or 0)
    return row


def main() -> None:
    """Runs it, prints the figures, and writes them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--five", action="store_true", help="five faults only; nothing is written down")
    parser.add_argument("--quiet", action="store_true", help="do not show the job's output")
    parser.add_argument("--torchrun", metavar="PYTHON", default="", help="run it by torchrun of a Python with torch")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        document = measure(
            FIVE if said.five else TWENTY_FIVE, Path(folder) / "run", quiet=said.quiet, torch=said.torchrun
        )
    for row in document["rows"]:
        print(json.dumps(row))
    print(json.dumps({name: value for name, value in document.items() if name != "rows"}, indent=1))
    if not said.five:
        known = json.loads(_OUT.read_text()) if _OUT.exists() else {}
        known["torchrun" if said.torchrun else "own launcher"] = document
        _OUT.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
