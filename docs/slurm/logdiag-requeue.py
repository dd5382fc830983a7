#!/usr/bin/env python3
"""logdiag-requeue.py JOBID: diagnoses a job of Slurm that has ended, and does what the policy says (docs/recovery.md):
requeues it, without a node or later where that is said, or holds it with what is wrong as its comment (`scontrol
release` goes on)."""

import json
import os
import subprocess
import sys
import time

# What was decided about each job, and a policy other than the default.
STATE = os.environ.get("LOGDIAG_REQUEUE_STATE", "/var/log/slurm/logdiag-jobs")
POLICY = os.environ.get("LOGDIAG_REQUEUE_POLICY", "")


def asked(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def now(job: str, name: str) -> str:
    """What the controller has on record of the job now; empty for nothing."""
    pairs = (word.partition("=") for word in asked("scontrol", "show", "job", job).split())
    return next((value for key, _, value in pairs if key == name and value != "(null)"), "")


def carry_out(job: str, choice: dict[str, str]) -> tuple[str, bool]:
    """Sets the job, which is held, up for what was chosen: what is done in words, and whether it goes on."""
    node, seconds = choice["choice_node"], round(float(choice["choice_seconds"]))
    if choice["choice"] == "exclude":
        without = ",".join(filter(None, [now(job, "ExcNodeList"), node]))
        asked("scontrol", "update", f"JobId={job}", f"ExcNodeList={without}")
        return f"requeued without {node}", True
    if choice["choice"] == "wait":
        asked("scontrol", "update", f"JobId={job}", f"StartTime=now+{seconds}")
        return f"requeued in {seconds} s", True
    # Slurm cannot tell a script which checkpoint to load: what is to be rolled back is for a person, too.
    again = choice["choice"] == "restart"
    return "requeued" if again else "held", again


def main(job: str) -> None:
    until = time.monotonic() + 60
    while now(job, "JobState") == "COMPLETING" and time.monotonic() < until:
        time.sleep(0.5)
    policy = ["--policy", POLICY] if POLICY else []
    answer = json.loads(asked("logdiag", "slurm", job, "--offline", "--format", "json", "--decide", STATE, *policy))
    choice = answer["job"]
    if "choice" not in choice:
        return
    why = f"{answer['reason']}, confidence {answer['confidence']:.0%}: {answer['summary']} {choice['choice_why']}"
    if now(job, "Requeue") == "0":
        print(f"{time.strftime('%FT%T')} job {job}: left as it ended, for it may not be requeued: {why}", flush=True)
        return
    # After a node's failure Slurm may have requeued it already; held, it cannot start before it is changed.
    asked("scontrol", "hold" if now(job, "JobState") == "PENDING" else "requeuehold", job)
    done, again = carry_out(job, choice)
    said = " ".join(f"logdiag: {done}: {why}".split()).replace('"', "'")[:900]
    asked("scontrol", "update", f"JobId={job}", f"AdminComment={said}")
    if again:
        asked("scontrol", "release", job)
    print(f"{time.strftime('%FT%T')} job {job}: {said}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
