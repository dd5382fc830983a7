"""What an API server of Kubernetes answers about a job, written by its reference, and served by HTTP on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["CUT", "HANGS", "JOB", "JOBSET", "NODE", "POD", "Answers", "event", "job", "jobset", "node", "pod", "served"]

Answers = dict[str, Any]
"""By path, and for logs `path?container=NAME` (with `&previous`): a document, the bytes of a log, or a status."""

NAMESPACE = "research"
JOB = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/pretrain"
JOBSET = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets/pretrain"
POD = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODE = "/api/v1/nodes"
CUT = b"and then the connection breaks"
"""A log that ends so is broken off."""
HANGS = 0
"""Instead of a status: no answer comes."""

_BEGAN, _LATER = "2026-11-20T10:00:00Z", "2026-11-20T10:31:00Z"
_SELECTOR = {"batch.kubernetes.io/controller-uid": "4e1c"}
_SELECTORS = ("batch.kubernetes.io/controller-uid=4e1c", "jobset.sigs.k8s.io/jobset-name=pretrain")


def job(*conditions: tuple[str, str, str], active: int = 0) -> Answers:
    """A job with (type, reason, message) of what became of it."""
    template = {"spec": {"containers": [{"name": "trainer"}], "restartPolicy": "OnFailure"}}
    ends = [{"type": kind, "status": "True", "reason": why, "message": said} for kind, why, said in conditions]
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "pretrain", "uid": "4e1c-77"},
        "spec": {"selector": {"matchLabels": _SELECTOR}, "template": template},
        "status": {"active": active, "conditions": ends, "startTime": _BEGAN},
    }  # fmt: skip


def jobset(*conditions: tuple[str, str, str]) -> Answers:
    """A JobSet with (type, reason, message) of what became of it."""
    ends = [{"type": kind, "status": "True", "reason": why, "message": said} for kind, why, said in conditions]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "pretrain", "uid": "5f2d-88"},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 2}]}, "status": {"conditions": ends, "restarts": 0},
    }  # fmt: skip


def pod(name: str, host: str | None, phase: str, *containers: Mapping[str, Any], **status: str) -> Answers:
    """A pod on a node with the states of its containers: `name`, `state`, `lastState`, `restartCount`."""
    states = [
        {"image": "trainer:1", "imageID": "", "ready": False, "restartCount": 0, "state": {}, "lastState": {}, **one}
        for one in containers
    ]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "creationTimestamp": _BEGAN},
        "spec": {"containers": [{"name": one["name"]} for one in containers], **({"nodeName": host} if host else {})},
        "status": {"phase": phase, "startTime": _BEGAN, "containerStatuses": states, **status},
    }  # fmt: skip


def ended(code: int, reason: str = "Error", at: str = _LATER) -> Answers:
    """The state of a container that left with a code."""
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": _BEGAN, "finishedAt": at}}


def node(name: str, **conditions: tuple[str, str, str, str]) -> Answers:
    """A node with (status, reason, message, since) of each condition."""
    told = [
        {"type": kind, "status": status, "reason": why, "message": said, "lastTransitionTime": since}
        for kind, (status, why, said, since) in conditions.items()
    ]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": told}}


def event(about: str, reason: str, message: str, kind: str = "Warning") -> Answers:
    """An event about `pod/NAME`, `job/NAME` or `node/NAME`."""
    whose, _, name = about.partition("/")
    return {
        "metadata": {"name": f"{name}.17", "namespace": NAMESPACE, "creationTimestamp": _LATER}, "type": kind,
        "involvedObject": {"kind": whose.capitalize(), "name": name}, "reason": reason, "message": message,
        "lastTimestamp": _LATER,
    }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    answers: Answers
    ended: threading.Event
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = parse_qs(url.query)
        key = url.path
        if "container" in asked:
            key += f"?container={asked['container'][0]}{'&previous' if asked['previous'][0] == 'True' else ''}"
        if self.headers["Authorization"] != "Bearer of-a-test":
            self._answer(401, _status(401))
        elif url.path == POD and asked.get("labelSelector", [""])[0] not in _SELECTORS:
            self._answer(400, _status(400))
        else:
            found = self.answers.get(key, 404)
            if isinstance(found, list):
                found = {"items": found, "metadata": {"resourceVersion": "17"}}
            if found == HANGS:
                self.ended.wait()
            self._answer(found, _status(found)) if isinstance(found, int) else self._answer(200, found)

    def _answer(self, status: int, document: Any) -> None:
        """A document at once, a log in pieces as it is streamed by an API server."""
        is_log = isinstance(document, bytes)
        content = document if is_log else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if is_log else "application/json")
        self.send_header(*(("Transfer-Encoding", "chunked") if is_log else ("Content-Length", str(len(content)))))
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content) if is_log else content)
        if is_log and not content.endswith(CUT):
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nothing on standard error."""


def _status(code: int) -> Answers:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no"}


@contextmanager
def served(answers: Answers, folder: Path) -> Iterator[dict[str, str]]:
    """Serves answers; gives the environment with a kubeconfig that leads there."""
    lists: Answers = {POD: [], f"/api/v1/namespaces/{NAMESPACE}/events": [], "/api/v1/namespaces/default/events": []}
    ended = threading.Event()
    handler = type("Handler", (_Handler,), {"answers": {**lists, **answers}, "ended": ended})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield {"KUBECONFIG": str(kubeconfig(folder, server.server_port)), "HOME": str(folder)}
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def kubeconfig(folder: Path, port: int) -> Path:
    """A kubeconfig that names a server on loopback."""
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
        "contexts: [{name: test, context: {cluster: test, user: ann, namespace: research}}]\n"
        f"clusters: [{{name: test, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
        "users: [{name: ann, user: {token: of-a-test}}]\n",
        encoding="utf-8",
    )
    return path
