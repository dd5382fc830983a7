"""`logdiag slurm` and the scripts of docs/slurm, with a real Slurm where it is installed; what is wrong without one."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logdiag.read.clusters.slurm import logs_of_batch_job
from tests.helpers import ROOT, log_of, run_logdiag, steps
from tests.slurm_cluster import Slurm, running_slurm, wait_until

pytestmark = pytest.mark.xdist_group("slurm")

BUG = (
    'for i in 1 2 3; do echo "step: $i loss: 3.1 lr: 1e-04"; done; printf "%s\\n" "Traceback (most recent call last):" '
)
BUG += "'  File \"/srv/job/train.py\", line 88, in <module>' '    main()' \"KeyError: 'caption'\" >&2; exit 3"
ECC = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with running_slurm(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


def answer(slurm: Slurm, *arguments: str) -> dict[str, Any]:
    """The diagnosis of a job; kernel logs of this machine are not what is tested."""
    done = run_logdiag("slurm", *arguments, "--format", "json", "--offline", env=slurm.environ)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def ended(slurm: Slurm, job: str) -> None:
    wait_until(lambda: bool(states := slurm.states(job)) and states[-1] in ENDED)


def test_a_failed_job_is_one_case_of_its_output_and_slurms_record(slurm: Slurm) -> None:
    """The root stands in the job's own output; the answer has the job's id, name, user, state, exit code and nodes."""
    job = slurm.submit(
        f"srun bash -c '[ $SLURM_PROCID = 0 ] && sleep 2'; {BUG}", "-N2", "-Jpretrain", "--output=out-%x-%j-%N.log"
    )
    ended(slurm, job)
    said = answer(slurm, job, "--kernel-logs", "none/%N")
    assert (said["failed"], said["reason"]) == (True, "KeyError")
    assert said["root_cause"]["source"].startswith(str(slurm.folder / f"out-pretrain-{job}-"))
    assert {name: said["job"][name] for name in ("id", "name", "user", "state", "exit_code")} == {
        "id": job, "name": "pretrain", "user": "root", "state": "FAILED", "exit_code": "3:0"
    }  # fmt: skip
    assert len(said["job"]["nodes"].split(",")) == 2
    assert [log["kind"] for log in said["logs"]] == ["job-output", "slurm-record"]
    assert any("no kernel log of" in note for note in said["notes"])


def test_the_kernel_log_of_the_jobs_node_is_part_of_the_case(slurm: Slurm) -> None:
    """A job that only left with 1, on a node whose kernel log tells of a lost GPU at that time."""
    job = slurm.submit('echo "step: 1 loss: 3.1"; date +%FT%T%:z >moment; exit 1', "--nodelist=cn2")
    ended(slurm, job)
    moment = (slurm.folder / "moment").read_text().strip()
    xid = "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=3121, GPU has fallen off the bus."
    (slurm.folder / "kern").mkdir()
    for node in ("cn1", "cn2"):
        (slurm.folder / "kern" / f"{node}.log").write_text(f"{moment} {node} {xid}\n", encoding="utf-8")
    said = answer(slurm, job, "--kernel-logs", str(slurm.folder / "kern" / "%N.log"))
    assert said["root_cause"]["source"].endswith("kern/cn2.log")
    assert said["recovery"]["exclude_nodes"] == ["cn2"]
    assert [log["kind"] for log in said["logs"]].count("kernel-log") == 1


def test_a_job_that_broke_on_its_node_is_requeued_without_it(slurm: Slurm) -> None:
    """The epilog diagnoses, leaves the node out and lets the job go on; controller and accounting show both runs."""
    script = f'[ "$SLURM_RESTART_COUNT" ] && echo "Training completed" && exit 0; echo "step: 1"; echo "{ECC}"; exit 1'
    job = slurm.submit(script, "--requeue", "--open-mode=append")
    wait_until(lambda: slurm.states(job)[-1:] == ["COMPLETED"])
    shown = slurm.shown(job)
    excluded = next(row for row in shown.split() if row.startswith("ExcNodeList=")).split("=")[1]
    runs = slurm("sacct", "-D", "-X", "-n", "-P", "-j", job, "-o", "State,NodeList").split()
    assert "Restarts=1" in shown
    assert runs[0].split("|")[1] == excluded != runs[1].split("|")[1]
    assert f"requeued without {excluded}: ECCError" in shown


def test_a_scripts_bug_is_held_with_a_comment(slurm: Slurm) -> None:
    """A bug is for a person: the job waits, held, and its comment says why."""
    job = slurm.submit(BUG, "--requeue")
    wait_until(lambda: "AdminComment=logdiag: held: KeyError" in slurm.shown(job))
    shown = slurm.shown(job)
    assert "JobState=PENDING" in shown
    assert "Priority=0" in shown
    assert slurm.states(job)[0] == "REQUEUED"
    # What is diagnosed now is the run that failed, not the one that waits.
    said = answer(slurm, job, "--kernel-logs", "none/%N")
    assert (said["reason"], said["job"]["state"]) == ("KeyError", "REQUEUED")
    slurm("scancel", job)


def test_a_service_that_does_not_answer_is_waited_for(slurm: Slurm) -> None:
    """The policy says for how long; the job is pending, not held, and begins then."""
    job = slurm.submit(
        'echo "step: 1 loss: 3.1"; echo "urllib.error.HTTPError: HTTP Error 503: Service Unavailable"; exit 1',
        "--requeue",
    )
    wait_until(lambda: "AdminComment=logdiag: requeued in 60 s" in slurm.shown(job))
    wait_until(lambda: "Reason=BeginTime" in slurm.shown(job))
    assert "JobState=PENDING" in slurm.shown(job)
    slurm("scancel", job)


def test_a_node_that_goes_down_is_told_by_the_record_alone(slurm: Slurm) -> None:
    """The job's output says nothing; its state and its node's reason do."""
    job = slurm.submit('echo "step: 1 loss: 3.1"; sleep 600', "--nodelist=cn3")
    wait_until(lambda: "JobState=RUNNING" in slurm.shown(job))
    slurm("scontrol", "update", "NodeName=cn3", "State=DOWN", "Reason=Not responding")
    ended(slurm, job)
    said = answer(slurm, job)
    slurm("scontrol", "update", "NodeName=cn3", "State=RESUME")
    assert said["job"]["state"] == "NODE_FAIL"
    assert (said["failed"], said["reason"]) == (True, "NodeFailure")
    assert said["root_cause"]["node"] == "cn3"


def test_a_node_check_starts_its_members_through_the_scheduler(slurm: Slurm) -> None:
    """A job step on each node, which gets the program on its input."""
    step = f"srun -N1 --immediate=30 --overlap -w cn${{host##*.}} {sys.executable} -S -"
    words = [
        "--launcher",
        f"sh -c 'host={{host}}; exec {step} \"$@\"' sh {{member}}",
        "--megabytes",
        "2",
        "--format",
        "json",
    ]
    hosts = ",".join(f"127.0.0.{number}" for number in (1, 2, 3))
    done = run_logdiag("nodecheck", "--hosts", hosts, "--port", "27400", *words, env=slurm.environ)
    said = json.loads(done.stdout)
    assert (done.returncode, said["good"], said["bad"]) == (0, hosts.split(","), [])
    figures = said["waves"][0][0]["figures"]
    assert (figures["over"], figures["processes"]) == ("tcp", 3)


def test_a_job_that_a_person_ended_is_left_alone(slurm: Slurm) -> None:
    """The epilog does not bring a cancelled job back."""
    job = slurm.submit("sleep 600", "--requeue")
    wait_until(lambda: "JobState=RUNNING" in slurm.shown(job))
    slurm("scancel", job)
    ended(slurm, job)
    after = slurm.submit("true")
    ended(slurm, after)
    assert slurm.states(job) == ["CANCELLED"]
    assert answer(slurm, job)["job"]["state"] == "CANCELLED"


def test_an_array_asks_for_its_task_and_the_report_answers_for_each(slurm: Slurm) -> None:
    """An array is many jobs. The report of docs/slurm has one answer for each task that failed."""
    array = slurm.submit(f"[ $SLURM_ARRAY_TASK_ID = 1 ] || exit 0; {BUG}", "--array=0-2")
    wait_until(lambda: len(states := slurm.states(array)) == 3 and set(states) <= ENDED)
    refused = run_logdiag("slurm", array, env=slurm.environ)
    assert refused.returncode == 2
    assert b"is 3 jobs, the tasks of an array; name one of them" in refused.stderr
    assert answer(slurm, f"{array}_1", "--kernel-logs", "none/%N")["reason"] == "KeyError"
    report = slurm("sbatch", "--parsable", ROOT / "docs/slurm/array-report.sbatch", array).strip()
    ended(slurm, report)
    printed = (slurm.folder / f"sweep-report-{report}.out").read_text()
    assert printed.count("FAILED  script / KeyError") == 1
    assert printed.count("What to do") == 1


def test_a_job_that_the_controller_has_forgotten_is_known_by_the_accounting(slurm: Slurm) -> None:
    """How it ended; where its output went nobody says any more, so that it is named."""
    job = slurm.submit(BUG)
    ended(slurm, job)
    only = slurm.folder / "only-sacct"
    only.mkdir()
    (only / "sacct").symlink_to(shutil.which("sacct") or "")
    forgotten = Slurm(slurm.folder)
    forgotten.environ["PATH"] = str(only)
    said = answer(forgotten, job, str(slurm.folder / f"slurm-{job}.out"), "--kernel-logs", "none/%N")
    assert said["reason"] == "KeyError"
    assert said["job"]["state"] == "FAILED"


def test_a_job_that_nobody_knows_is_one_sentence(slurm: Slurm) -> None:
    """Exit status 2, and what both said."""
    done = run_logdiag("slurm", "999999", env=slurm.environ)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1
    assert b"999999: is not known (scontrol: " in done.stderr
    assert b"Invalid job id" in done.stderr


def test_a_controller_that_is_not_there_is_one_sentence(slurm: Slurm, tmp_path: Path) -> None:
    """Neither controller nor database answers at the ports of another configuration."""
    config = (slurm.folder / "slurm.conf").read_text()
    for name in ("SlurmctldPort", "AccountingStoragePort"):
        config = "\n".join(f"{name}=1" if row.startswith(name) else row for row in config.splitlines())
    (tmp_path / "slurm.conf").write_text(f"MessageTimeout=2\nTCPTimeout=1\n{config}\n", encoding="utf-8")
    done = run_logdiag("slurm", "1", env={**slurm.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")})
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"scontrol: " in done.stderr
    assert b"sacct: " in done.stderr


RECORD = """\
JobId=4711 JobName=train JobState=COMPLETED
   UserId={user}({uid}) GroupId=lab(100) MCS_label=N/A
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={code}
   StartTime=2026-11-20T10:00:00 EndTime=2026-11-20T10:31:00 Deadline=N/A
   NodeList=cn7
   BatchHost=cn7
   Command=/home/ann/JobState=COMPLETED
   WorkDir={folder}
   StdErr={folder}/train-%N.out
   StdIn=/dev/null
   StdOut={folder}/train-%N.out
"""


@pytest.mark.parametrize(
    ("state", "cause", "code", "failed", "reason", "words"),
    [
        ("TIMEOUT", "TimeLimit", "0:15", True, "Others", "The time limit of the job ran out"),
        ("OUT_OF_MEMORY", "OutOfMemory", "0:125", True, "OutOfMemoryError", "memory"),
        ("NODE_FAIL", "NodeDown", "0:0", True, "NodeFailure", "one of its nodes failed"),
        ("PREEMPTED", "None", "0:15", True, "NodeFailure", "a job of higher priority"),
        ("FAILED", "RaisedSignal:9(Killed)", "0:9", True, "Others", "signal 9"),
        ("FAILED", "JobLaunchFailure", "0:11", True, "Others", "signal 11"),
        ("FAILED", "JobLaunchFailure", "0:53", True, "FileNotFoundError", "could not open the job's output file"),
        ("COMPLETED", "None", "0:0", False, "none", "no failure"),
        ("RUNNING", "None", "0:0", False, "none", "no failure"),
    ],
)
def test_each_state_of_slurm_is_understood(
    state: str, cause: str, code: str, failed: bool, reason: str, words: str, tmp_path: Path
) -> None:
    """By the controller's record in the form of Slurm 22.05, where the job's own output only stops. Its name and its
    command say something else, which does not count."""
    record = RECORD.format(state=state, reason=cause, code=code, folder=tmp_path, user="ann", uid=os.getuid())
    (tmp_path / "record").write_text(record, encoding="utf-8")
    (tmp_path / "train-cn7.out").write_bytes(log_of(*steps(1, 40)))
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\n[ "$2" = job ] && exec /bin/cat {tmp_path}/record\nexit 1\n')
    (tmp_path / "scontrol").chmod(0o755)
    done = run_logdiag("slurm", "4711", "--format", "json", "--kernel-logs", "none/%N", env={"PATH": str(tmp_path)})
    said = json.loads(done.stdout)
    assert (said["failed"], said["reason"]) == (failed, reason)
    assert words in said["summary"]
    told = [said["job"][name] for name in ("id", "name", "user", "state", "exit_code", "nodes")]
    assert told == ["4711", "train", "ann", state, code, "cn7"]


def test_the_answer_says_what_the_policy_does(tmp_path: Path) -> None:
    """As facts of the job, for a script; what was decided is kept."""
    record = RECORD.format(state="FAILED", reason="None", code="1:0", folder=tmp_path, user="ann", uid=os.getuid())
    (tmp_path / "record").write_text(record, encoding="utf-8")
    (tmp_path / "train-cn7.out").write_bytes(log_of(*steps(1, 40), ECC))
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\n[ "$2" = job ] && exec /bin/cat {tmp_path}/record\nexit 1\n')
    (tmp_path / "scontrol").chmod(0o755)
    words = ("slurm", "4711", "--format", "json", "--kernel-logs", "none/%N", "--decide", tmp_path / "jobs")
    job = json.loads(run_logdiag(*words, env={"PATH": str(tmp_path)}).stdout)["job"]
    assert (job["choice"], job["choice_node"], job["choice_seconds"]) == ("exclude", "cn7", "0.0")
    assert job["choice_why"] == "a broken machine, the first time: restarted without cn7"
    assert (tmp_path / "jobs" / "4711" / "ledger.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("4711", "--policy", "p.yaml"), "--policy p.yaml: is for what is decided; give --decide DIR"),
        (("4711",), "there is no scontrol and no sacct here"),
        (("train.log",), "train.log: no job id of Slurm; give a number, for instance 4711"),
        (("-1",), "No such option"),
        (("4711", "--brief", "--format", "json"), "--brief shortens the text report"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """Without Slurm, or with a word that is no job id."""
    done = run_logdiag("slurm", *words, env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_an_output_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    """Who submits a job names its output: an epilog, which may read more, does not read others' files for them."""
    for name, owner in (("theirs.log", 1234), ("secret", 0)):
        (tmp_path / name).touch()
        os.chown(tmp_path / name, owner, owner)
    (tmp_path / "link.log").symlink_to(tmp_path / "secret")
    notes: list[str] = []
    for name in ("theirs.log", "secret", "link.log"):
        found = logs_of_batch_job({"StdOut": str(tmp_path / name), "UserId": "ann(1234)"}, notes)
        assert found == ([str(tmp_path / name)] if name == "theirs.log" else [])
    assert [note.split(": ")[1].split(";")[0] for note in notes] == ["was not read (not a file of the job's owner)"] * 2


def test_an_output_that_is_not_there_is_a_note(tmp_path: Path) -> None:
    """Its name, why it was not read, and what to do."""
    notes: list[str] = []
    assert logs_of_batch_job({"StdOut": str(tmp_path / "gone.out")}, notes) == []
    assert len(notes) == 1
    assert notes[0].startswith(f"{os.path.join(tmp_path, 'gone.out')}: was not read (no such file on this machine)")
