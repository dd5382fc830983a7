#!/usr/bin/env python3
"""logdiag-requeue.py JOBID: diagnoses a job of Slurm that has ended. It is requeued, without the node that broke it,
where no person is needed for that; else it is requeued held, with what is wrong as its comment (`scontrol release` goes
on)."""

import json
import subprocess
import sys
import time

MOST_RESTARTS = 3
# Whoever ended it so had a reason, or Slurm itself starts it again.
LEFT_ALONE = ("COMPLETED", "CANCELLED", "PREEMPTED", "RUNNING", "SUSPENDED")
RESTARTS = ("restart", "restart_excluding_node")


def asked(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def now(job: str, name: str) -> str:
    """What the controller has on record of the job now; empty for nothing."""
    pairs = (word.partition("=") for word in asked("scontrol", "show", "job", job).split())
    return next((value for key, _, value in pairs if key == name and value != "(null)"), "")


def choice(answer: dict) -> tuple[bool, list[str], str]:
    """Whether to start it again, without which nodes, and why."""
    job, recovery = answer["job"], answer["recovery"]
    # A log is the user's word: it can put only nodes of this very job aside.
    nodes = [node for node in recovery["exclude_nodes"] if node in job["nodes"].split(",")]
    why = f"{answer['reason']}, confidence {answer['confidence']:.0%}: {answer['summary']}"
    if not recovery["automatic"] or recovery["action"] not in RESTARTS:
        return False, [], f"{why} {recovery['action']}"
    if recovery["action"] == "restart_excluding_node" and not nodes:
        return False, [], f"{why} No node of this job is named that could be left out."
    if int(job.get("restarts", "0")) >= MOST_RESTARTS:
        return False, [], f"{why} It was restarted {MOST_RESTARTS} times before."
    return True, nodes, why


def main(job: str) -> None:
    until = time.monotonic() + 60
    while now(job, "JobState") == "COMPLETING" and time.monotonic() < until:
        time.sleep(0.5)
    answer = json.loads(asked("logdiag", "slurm", job, "--offline", "--format", "json"))
    if answer["job"]["state"] in LEFT_ALONE or not answer["failed"]:
        return
    again, nodes, why = choice(answer)
    if now(job, "Requeue") == "0":
        print(f"{time.strftime('%FT%T')} job {job}: left as it ended, for it may not be requeued: {why}", flush=True)
        return
    # After a node's failure Slurm may have requeued it already; held, it cannot start before it is changed.
    asked("scontrol", "hold" if now(job, "JobState") == "PENDING" else "requeuehold", job)
    if nodes:
        without = ",".join(filter(None, [now(job, "ExcNodeList"), *nodes]))
        asked("scontrol", "update", f"JobId={job}", f"ExcNodeList={without}")
    done = f"requeued without {','.join(nodes)}" if nodes else "requeued" if again else "held"
    said = " ".join(f"logdiag: {done}: {why}".split()).replace('"', "'")[:900]
    asked("scontrol", "update", f"JobId={job}", f"AdminComment={said}")
    if again:
        asked("scontrol", "release", job)
    print(f"{time.strftime('%FT%T')} job {job}: {said}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
