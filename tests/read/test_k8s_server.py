"""`logdiag k8s` against a real API server, over TLS, with roles. KUBE_APISERVER and ETCD name the two programs.

No package has the server. It was built from Debian's source of `kubernetes` (docs/kubernetes.md); elsewhere these tests
are skipped, and what they claim is tested against answers written by the API's reference (test_k8s.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers import log_of, run_logdiag, steps
from tests.kubernetes_api import JOB, JOBSET, NODE, POD, ended, event, job, jobset, node, pod
from tests.kubernetes_server import Cluster, running_cluster

ECC = "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
OWN = {"batch.kubernetes.io/controller-uid": "4e1c", "jobset.sigs.k8s.io/jobset-name": "pretrain"}
EVENTS = "/api/v1/namespaces/research/events"
KIND = {
    "metadata": {"name": "jobsets.jobset.x-k8s.io"},
    "spec": {
        "group": "jobset.x-k8s.io", "names": {"kind": "JobSet", "plural": "jobsets"}, "scope": "Namespaced",
        "versions": [{
            "name": "v1alpha2", "served": True, "storage": True, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }],
    },
}  # fmt: skip

pytestmark = [
    pytest.mark.xdist_group("kubernetes"),
    pytest.mark.skipif(
        not {"KUBE_APISERVER", "ETCD"} <= os.environ.keys(), reason="KUBE_APISERVER and ETCD name no API server"
    ),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A failed job of two pods, the first of which was restarted once; ann may read all but nodes."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with running_cluster(folder, os.environ["KUBE_APISERVER"], os.environ["ETCD"]) as made:
        read = {"apiGroups": ["", "batch", "jobset.x-k8s.io"], "verbs": ["get", "list"]}
        made.grant("reader", [{**read, "resources": ["pods", "pods/log", "events", "jobs", "jobsets"]}], "research")
        for host in ("gpu-a", "gpu-b"):
            one = node(host, Ready=("True", "KubeletReady", "is posting", "2026-11-01T00:00:00Z"))
            one["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
            one["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": made.kubelet}}
            made.put(NODE, one)
        failed = job(("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"))
        failed["spec"]["manualSelector"] = True
        failed["spec"]["template"] |= {"metadata": {"labels": OWN}}
        _complete(failed["spec"]["template"]["spec"])
        made.put(os.path.dirname(JOB), failed)
        restarted = {"state": ended(1), "lastState": ended(1, at="2026-11-20T10:20:00Z"), "restartCount": 1}
        for name, host, phase, state in (
            ("pretrain-0", "gpu-a", "Failed", restarted), ("pretrain-1", "gpu-b", "Running", {"state": {"running": {}}})
        ):  # fmt: skip
            one = pod(name, host, phase, {"name": "trainer", **state})
            one["metadata"]["labels"] = OWN
            _complete(one["spec"])
            made.put(POD, one)
            made.logs[name, "trainer", False] = log_of(*steps(1, 40))
        made.logs["pretrain-0", "trainer", True] = log_of(*steps(1, 90), ECC)
        yield made


def _complete(spec: dict[str, Any]) -> None:
    spec["restartPolicy"] = "Never"
    spec["containers"][0]["image"] = "trainer:1"


def answer(cluster: Cluster, target: str) -> dict[str, Any]:
    done = run_logdiag("k8s", target, "--format", "json", env=cluster.environ)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_failed_job_is_one_case(cluster: Cluster) -> None:
    """The log before the restart has the cause. Nodes, and events elsewhere, may not be read: notes."""
    said = answer(cluster, "job/pretrain")
    assert (said["failed"], said["reason"]) == (True, "ECCError")
    assert said["root_cause"]["source"] == "pod/pretrain-0/trainer, before its restart"
    assert (said["job"]["state"], said["job"]["exit_code"], said["job"]["restarts"]) == ("Failed", "1", "1")
    for what in ("node gpu-a", "the events of namespace default"):
        assert f"{what}: this user may not read it; ask for the right to" in said["notes"]


def test_a_jobset_is_one_case(cluster: Cluster) -> None:
    """A custom resource, as its definition makes one."""
    cluster.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", KIND)
    while "jobsets" not in json.dumps(cluster.ask("GET", "/apis/jobset.x-k8s.io/v1alpha2")):
        pass
    cluster.put(os.path.dirname(JOBSET), jobset(("Failed", "FailedJobs", "jobset failed due to one or more failures")))
    said = answer(cluster, "jobset/pretrain")
    assert (said["reason"], said["job"]["state"], said["job"]["nodes"]) == ("ECCError", "Failed", "gpu-a,gpu-b")


def test_events_are_many_and_nodes_are_read_by_a_right(cluster: Cluster) -> None:
    """All events are looked through; and who may read nodes is told of their conditions."""
    cluster.grant("nodes", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}])
    for number in range(620):
        last = number == 619
        one = event("pod/pretrain-0", *(("Evicted", "The node was low on memory.") if last else ("Pulled", "pulled")))
        one["metadata"]["name"] = f"e{number:05}"
        one["involvedObject"]["namespace"] = "research"
        cluster.ask("POST", EVENTS, one)
    said = answer(cluster, "job/pretrain")
    assert [log["lines"] for log in said["logs"] if log["source"] == "events"] == [621], said["logs"]
    assert not [note for note in said["notes"] if "node gpu-a" in note]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("job/none",), "job/none: not found in namespace research"),
        (("jobset/none",), "jobset/none: not found in namespace research"),
        (("job/pretrain", "-n", "kube-system"), "job/pretrain: this user may not read it"),
    ],
)
def test_what_is_refused_is_one_sentence(cluster: Cluster, words: tuple[str, ...], wanted: str) -> None:
    """Not there, and not allowed."""
    done = run_logdiag("k8s", *words, env=cluster.environ)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert wanted in done.stderr.decode()
