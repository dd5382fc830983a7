"""`logdiag k8s` through the official client, against an API that answers by HTTP, and the manifests of docs/kubernetes.

No API server can be had here: the answers are written by the API's reference, and the client's own types read them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers import ROOT, environment, log_of, run_logdiag, steps, traceback_of
from tests.kubernetes_api import (
    CUT,
    HANGS,
    JOB,
    JOBSET,
    NODE,
    POD,
    Answers,
    ended,
    event,
    job,
    jobset,
    kubeconfig,
    node,
    pod,
    served,
)  # fmt: skip

ECC = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
READY = ("True", "KubeletReady", "kubelet is posting ready status", "2026-11-01T00:00:00Z")
EVENTS = "/api/v1/namespaces/research/events"
BACKOFF = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
MANIFESTS = ROOT / "docs" / "kubernetes"


def two_pods(**first: Any) -> Answers:
    """A failed job: its first pod's trainer as given, its second in good health."""
    one = pod("pretrain-0", "gpu-a", "Failed", {"name": "trainer", **first})
    other = pod("pretrain-1", "gpu-b", "Running", {"name": "trainer", "state": {"running": {}}})
    return {
        JOB: job(BACKOFF),
        POD: [one, other],
        f"{POD}/pretrain-0/log?container=trainer": log_of(*steps(1, 40)),
        f"{POD}/pretrain-1/log?container=trainer": log_of(*steps(1, 40)),
        f"{NODE}/gpu-a": node("gpu-a", Ready=READY),
        f"{NODE}/gpu-b": node("gpu-b", Ready=READY),
    }


def answer(answers: Answers, folder: Path, target: str = "job/pretrain") -> dict[str, Any]:
    with served(answers, folder) as environ:
        done = run_logdiag("k8s", target, "--format", "json", env=environ)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def refused(*words: str, env: dict[str, str]) -> str:
    """The one sentence that ends a command with 2."""
    done = run_logdiag("k8s", *words, env=env)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    return done.stderr.decode()


def test_the_run_before_a_restart_holds_the_cause(tmp_path: Path) -> None:
    """The container's previous log is part of the case; the answer names the pod, its node, and the job."""
    answers = two_pods(state=ended(1), lastState=ended(1, at="2026-11-20T10:20:00Z"), restartCount=1)
    answers[f"{POD}/pretrain-0/log?container=trainer&previous"] = log_of(*steps(1, 90), ECC)
    said = answer(answers, tmp_path)
    assert (said["failed"], said["reason"]) == (True, "ECCError")
    assert said["root_cause"]["source"] == "pod/pretrain-0/trainer, before its restart"
    assert said["root_cause"]["line"] == 91
    assert said["recovery"]["exclude_nodes"] == ["gpu-a"]
    assert said["job"] == {
        "id": "4e1c-77", "name": "pretrain", "namespace": "research", "state": "Failed", "exit_code": "1",
        "nodes": "gpu-a,gpu-b", "restarts": "1",
    }  # fmt: skip
    assert sum(log["kind"] == "job-output" for log in said["logs"]) == 3


def test_a_container_out_of_memory_is_told_by_its_state_alone(tmp_path: Path) -> None:
    """Its log only stops; what became of the container says why."""
    said = answer(two_pods(state=ended(137, "OOMKilled")), tmp_path)
    assert (said["failed"], said["reason"]) == (True, "OutOfMemoryError")
    assert said["root_cause"]["source"] == "pod/pretrain-0, as the cluster describes it"
    assert said["job"]["exit_code"] == "137"


def test_a_log_that_breaks_off_is_diagnosed_as_far_as_it_came(tmp_path: Path) -> None:
    """The connection ends in the middle of a log: a note says so, and what came counts."""
    answers = two_pods(state=ended(1))
    answers[f"{POD}/pretrain-0/log?container=trainer"] = log_of(*steps(1, 40), ECC) + CUT
    said = answer(answers, tmp_path)
    assert (said["reason"], said["root_cause"]["source"]) == ("ECCError", "pod/pretrain-0/trainer")
    assert any(
        note.startswith("the log of pod/pretrain-0/trainer: the cluster does not answer") for note in said["notes"]
    )


def test_an_event_tells_of_an_eviction(tmp_path: Path) -> None:
    """A pod whose container is gone with its log: events about other pods do not count."""
    answers = two_pods(state=ended(137))
    answers[f"{POD}/pretrain-0/log?container=trainer"] = 404
    answers[EVENTS] = [
        event("pod/elsewhere-0", "Failed", "Failed to pull image: not found"),
        event("pod/pretrain-0", "Evicted", "The node was low on resource: memory.\nThreshold quantity: 100Mi"),
    ]
    said = answer(answers, tmp_path)
    assert said["reason"] == "NodeFailure"
    assert said["root_cause"]["source"] == "events"
    assert [log["lines"] for log in said["logs"] if log["kind"] == "kubernetes-events"] == [2]
    assert any(note.startswith("the log of pod/pretrain-0/trainer: not found") for note in said["notes"])


def test_a_node_that_was_lost_meanwhile_counts_and_an_old_trouble_does_not(tmp_path: Path) -> None:
    """The conditions of the pods' nodes since the job began."""
    answers = two_pods(state=ended(255, "Unknown"))
    lost = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", "2026-11-20T10:30:00Z")
    answers[f"{NODE}/gpu-a"] = node("gpu-a", Ready=lost)
    answers[f"{NODE}/gpu-b"] = node("gpu-b", Ready=READY, DiskPressure=("True", "Full", "full", "2026-11-02T00:00:00Z"))
    said = answer(answers, tmp_path)
    assert (said["reason"], said["root_cause"]["source"]) == (
        "NodeFailure",
        "job/pretrain, as the cluster describes it",
    )
    assert "gpu-b" not in said["root_cause"]["text"]
    assert "DiskPressure" not in json.dumps(said["evidence"])


def test_a_job_that_completed_is_healthy(tmp_path: Path) -> None:
    """Also where a first pod of it had failed."""
    answers = two_pods(state=ended(0, "Completed"))
    answers[JOB] = job(("Complete", "CompletionsReached", "Reached expected number of succeeded pods"))
    said = answer(answers, tmp_path)
    assert (said["failed"], said["job"]["state"]) == (False, "Complete")


def test_an_indexed_job_has_a_pod_for_each_index(tmp_path: Path) -> None:
    """One index failed: its log has the cause, and the job's own end says no more than that."""
    answers = two_pods(state=ended(1))
    answers[JOB] = job(("Failed", "FailedIndexes", "Job has failed indexes"))
    for at, one in enumerate(answers[POD]):
        index = {"batch.kubernetes.io/job-completion-index": str(at)}
        one["metadata"] |= {"name": f"pretrain-{at}-x7k2{at}", "annotations": index, "labels": index}
        log = answers.pop(f"{POD}/pretrain-{at}/log?container=trainer")
        answers[f"{POD}/pretrain-{at}-x7k2{at}/log?container=trainer"] = log + (log_of(ECC) if at == 0 else b"")
    said = answer(answers, tmp_path)
    assert (said["reason"], said["root_cause"]["source"]) == ("ECCError", "pod/pretrain-0-x7k20/trainer")
    assert (said["job"]["state"], said["recovery"]["exclude_nodes"]) == ("Failed", ["gpu-a"])


@pytest.mark.parametrize(
    ("end", "failed", "state"),
    [
        (("Failed", "FailedJobs", "jobset failed due to one or more job failures"), True, "Failed"),
        (("Completed", "AllJobsCompleted", "jobset completed successfully"), False, "Completed"),
    ],
)
def test_a_jobset_is_one_case_of_all_its_jobs(
    tmp_path: Path, end: tuple[str, str, str], failed: bool, state: str
) -> None:
    """Its pods are found by its name, whichever of its jobs made them; the client has no type for it."""
    answers = two_pods(state=ended(1 if failed else 0, "Error" if failed else "Completed"))
    answers[JOBSET], answers[JOB] = jobset(end), 404
    answers[f"{POD}/pretrain-0/log?container=trainer"] = log_of(*steps(1, 90), *([ECC] if failed else []))
    said = answer(answers, tmp_path, "jobset/pretrain")
    assert (said["failed"], said["job"]["state"], said["job"]["id"]) == (failed, state, "5f2d-88")
    assert said["reason"] == ("ECCError" if failed else "none")


def test_of_many_events_the_one_that_counts_is_found(tmp_path: Path) -> None:
    """Among more than a thousand of other pods."""
    answers = two_pods(state=ended(137))
    answers[f"{POD}/pretrain-0/log?container=trainer"] = 404
    many = [event(f"pod/elsewhere-{at}", "Pulled", "image is present", "Normal") for at in range(1100)]
    answers[EVENTS] = [*many, event("pod/pretrain-0", "Evicted", "The node was low on resource: memory.")]
    assert answer(answers, tmp_path)["root_cause"]["source"] == "events"


def test_what_a_user_may_not_read_is_a_note(tmp_path: Path) -> None:
    """Events, nodes and a log, refused by the cluster's roles; the rest is diagnosed. Without the pods there is no case
    to speak of."""
    answers = two_pods(state=ended(1))
    answers[f"{POD}/pretrain-0/log?container=trainer"] = log_of(*steps(1, 40), ECC)
    answers |= {EVENTS: 403, f"{NODE}/gpu-a": 403, f"{POD}/pretrain-1/log?container=trainer": 403}
    said = answer(answers, tmp_path)
    assert said["reason"] == "ECCError"
    for what in ("the events of namespace research", "node gpu-a", "the log of pod/pretrain-1/trainer"):
        assert f"{what}: this user may not read it; ask for the right to" in said["notes"]
    with served({**answers, POD: 403}, tmp_path) as environ:
        assert "the pods of job/pretrain: this user may not read it" in refused("job/pretrain", env=environ)


WITHIN = "import sys; from logdiag.read.clusters.k8s import gather; print(gather('job/pretrain', None, {!r}, {}).notes)"


def test_a_cluster_that_says_nothing_does_not_hold_the_diagnosis_up(tmp_path: Path) -> None:
    """A log and the events never come: after the time for one answer, and one more try, each is a note."""
    answers = {**two_pods(state=ended(1)), EVENTS: HANGS, f"{POD}/pretrain-0/log?container=trainer": HANGS}
    with served(answers, tmp_path) as environ:
        command = [sys.executable, "-c", WITHIN.format(str(tmp_path), 0.5)]
        began = time.monotonic()
        done = subprocess.run(command, env=environment(environ), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 60
    for what in ("the events of namespace research", "the log of pod/pretrain-0/trainer"):
        assert f"{what}: the cluster does not answer" in done.stdout


def test_a_pod_alone_is_a_case_too(tmp_path: Path) -> None:
    """With the logs of its init containers and of all others."""
    one = pod(
        "notebook", "gpu-a", "Failed", {"name": "trainer", "state": ended(1)}, {"name": "proxy", "state": ended(0)}
    )
    init = {
        "name": "fetch",
        "image": "a",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": ended(0),
        "lastState": {},
    }
    one["status"]["initContainerStatuses"] = [init]
    answers: Answers = {
        f"{POD}/notebook": one,
        f"{POD}/notebook/log?container=fetch": log_of("fetched 3 files"),
        f"{POD}/notebook/log?container=trainer": log_of(*steps(1, 9), *traceback_of("KeyError: 'caption'")),
        f"{POD}/notebook/log?container=proxy": log_of("bye"),
    }
    said = answer(answers, tmp_path, "pod/notebook")
    assert (said["reason"], said["root_cause"]["source"]) == ("KeyError", "pod/notebook/trainer")
    assert {log["source"] for log in said["logs"]} >= {"pod/notebook/fetch", "pod/notebook/proxy"}
    assert "node gpu-a: not found in namespace research; check the name, and the namespace (-n)" in said["notes"]


def test_an_image_that_cannot_be_pulled_has_no_log_and_a_cause(tmp_path: Path) -> None:
    """A container that never began is described, and its log is not asked for."""
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "trainer:9"'}}
    answers: Answers = {
        JOB: job(active=1),
        POD: [pod("pretrain-0", None, "Pending", {"name": "trainer", "state": waits})],
    }
    said = answer(answers, tmp_path)
    assert said["root_cause"]["rule"] == "kubernetes/image-is-missing"
    assert said["notes"] == [note for note in said["notes"] if "the log of" not in note]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "job/pretrain: not found in namespace research; check the name, and the namespace (-n)"),
        (403, "job/pretrain: this user may not read it"),
        (500, "job/pretrain: the cluster answered 500"),
        ({"kind": "Job"}, "job/pretrain: what answers is no API server of Kubernetes"),
    ],
)
def test_what_the_cluster_refuses_is_one_sentence(status: Any, said: str, tmp_path: Path) -> None:
    """No such job, no right to read it, a server in trouble, and one that is no API server."""
    with served({JOB: status}, tmp_path) as environ:
        assert said in refused("job/pretrain", env=environ)


def test_what_cannot_be_asked_is_one_sentence(tmp_path: Path) -> None:
    """No cluster, a broken kubeconfig, nobody at its address, no job's name, and --offline."""
    nobody = {"KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}
    assert "no cluster of Kubernetes is set up here" in refused("job/pretrain", env=nobody)
    broken = tmp_path / "broken"
    broken.write_text("contexts: [", encoding="utf-8")
    assert "no cluster of Kubernetes is set up here" in refused("job/a", env={"KUBECONFIG": str(broken)})
    away = {"KUBECONFIG": str(kubeconfig(tmp_path, 1))}
    assert "job/pretrain: the cluster does not answer" in refused("job/pretrain", env=away)
    assert "neither a job nor a pod" in refused("deployment/web", env=away)
    assert "neither a job nor a pod" in refused("job/../secrets", env=away)
    assert "offline is set (--offline)" in refused("job/pretrain", "--offline", env=away)


def test_without_the_client_it_says_what_to_install(tmp_path: Path) -> None:
    """The client is an extra."""
    (tmp_path / "kubernetes.py").write_text("raise ImportError\n", encoding="utf-8")
    said = refused("job/pretrain", env={"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"})
    assert said == "logdiag: logdiag k8s needs the client of Kubernetes; pip install 'logdiag[k8s]'\n"


@pytest.mark.parametrize("name", ["job.yaml", "sidecar.yaml"])
def test_a_manifest_says_nothing_that_the_api_does_not_know(name: str) -> None:
    """Read into the client's types and written again it is the same: no key is misspelt or in the wrong place."""
    from kubernetes import client

    document = yaml.safe_load((MANIFESTS / name).read_text(encoding="utf-8"))

    class Answer:
        data = json.dumps(document)

    api = client.ApiClient()
    read = api.deserialize(Answer, "V1Job")
    assert api.sanitize_for_serialization(read) == document


def commands_at(folder: Path, **scripts: str) -> dict[str, str]:
    """An environment in which commands are these shell scripts, and `logdiag` is this one."""
    own = f'PYTHONPATH={ROOT} exec {sys.executable} -m logdiag "$@"'
    for name, text in {"logdiag": own, **scripts}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "LOGS": str(folder / "logs")}


def container(name: str, of: str, kind: str = "containers") -> dict[str, Any]:
    spec = yaml.safe_load((MANIFESTS / name).read_text(encoding="utf-8"))["spec"]["template"]["spec"]
    return next(one for one in spec[kind] if one["name"] == of)


@pytest.mark.parametrize(
    ("script", "status", "action"),
    [
        ('echo "step: 1 loss: 3.1"; exit 0', 0, None),
        (f'echo "step: 1 loss: 3.1"; echo "{ECC}" >&2; exit 1', 10, "Count"),
        ("echo \"KeyError: 'caption'\" >&2; exit 1", 12, "FailJob"),
        ('echo "step: 1 loss: 3.1"; kill -9 $$', 12, "FailJob"),
    ],
)
def test_the_policy_goes_by_the_exit_code_of_the_command(
    tmp_path: Path, script: str, status: int, action: str | None
) -> None:
    """The command of docs/kubernetes/job.yaml, really run, ends with the category, and one rule has it."""
    environ = commands_at(tmp_path, torchrun=script)
    (tmp_path / "logs").mkdir()
    done = subprocess.run(container("job.yaml", "trainer")["command"], env=environ, capture_output=True, timeout=60)
    assert done.returncode == status, done.stderr
    document = yaml.safe_load((MANIFESTS / "job.yaml").read_text(encoding="utf-8"))
    rules = [rule for rule in document["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    chosen = [rule["action"] for rule in rules if status in rule["onExitCodes"]["values"]]
    assert chosen == ([action] if action else [])


def test_the_sidecar_diagnoses_when_it_is_told_to_end(tmp_path: Path) -> None:
    """The command of docs/kubernetes/sidecar.yaml, really run, and ended as the kubelet ends it."""
    environ = commands_at(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank0.log").write_bytes(log_of(*steps(1, 9), *traceback_of("KeyError: 'caption'")))
    command = container("sidecar.yaml", "diagnosis", "initContainers")["command"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as sidecar:
        time.sleep(0.5)
        sidecar.send_signal(signal.SIGTERM)
        printed, _ = sidecar.communicate(timeout=60)
    assert sidecar.returncode == 0
    assert printed.startswith(b"FAILED  script / KeyError")
