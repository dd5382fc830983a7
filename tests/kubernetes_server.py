"""A real API server of Kubernetes with its etcd, on loopback, and a stand-in for the kubelet, which serves logs to it.

Nothing runs there: pods and what became of them are written as documents, as a kubelet and controllers would.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.kubernetes_api import Answers

__all__ = ["Cluster", "running_cluster"]

_PORT, _ETCD, _SECONDS = 26553, 26790, 120
_TOKENS = 'of-a-root,root,1,"system:masters"\nof-a-test,ann,2\n'
_ROLES = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class Cluster:
    """What runs: `environ` leads a client there as the user ann, who has no rights but those that are granted."""

    environ: Mapping[str, str]
    kubelet: int
    logs: dict[tuple[str, str, bool], bytes]
    _trust: ssl.SSLContext

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        """What the server answers to somebody who may do everything."""
        request = urllib.request.Request(
            f"https://127.0.0.1:{_PORT}{path}",
            json.dumps(document).encode(),
            {"Authorization": "Bearer of-a-root", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, context=self._trust) as answer:
            return json.loads(answer.read())

    def put(self, folder: str, document: Answers) -> None:
        """Makes an object of a document, and says what became of it."""
        status = document.pop("status", {})
        document["metadata"].pop("uid", None)
        made = self.ask("POST", folder, document)
        if status:
            self.ask("PUT", f"{folder}/{document['metadata']['name']}/status", {**made, "status": status})

    def grant(self, name: str, rules: list[dict[str, list[str]]], namespace: str = "") -> None:
        """Gives ann rights, in a namespace or everywhere."""
        kind, where = ("Role", f"/namespaces/{namespace}/role") if namespace else ("ClusterRole", "/clusterrole")
        self.ask("POST", f"{_ROLES}{where}s", {"metadata": {"name": name}, "rules": rules})
        whose = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [whose]}
        self.ask("POST", f"{_ROLES}{where}bindings", binding)


@contextmanager
def running_cluster(folder: Path, apiserver: str, etcd: str) -> Iterator[Cluster]:
    """Starts the two programs, and ends them."""
    (folder / "tokens").write_text(_TOKENS)
    for name in ("accounts", "kubelet"):
        command = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.crt"
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    store, peer = (f"http://127.0.0.1:{port}" for port in (_ETCD, _ETCD + 1))
    keeping = f"--data-dir etcd --listen-client-urls {store} --advertise-client-urls {store} --listen-peer-urls {peer} "
    keeping += f"--initial-advertise-peer-urls {peer} --initial-cluster default={peer}"
    serving = f"--etcd-servers={store} --bind-address=127.0.0.1 --secure-port={_PORT} --cert-dir=certificates "
    serving += "--token-auth-file=tokens --authorization-mode=RBAC --service-account-issuer=https://test "
    serving += "--service-account-key-file=accounts.crt --service-account-signing-key-file=accounts.key "
    serving += "--service-cluster-ip-range=10.96.0.0/24 --disable-admission-plugins=ServiceAccount"
    logs: dict[tuple[str, str, bool], bytes] = {}
    with ExitStack() as running, (folder / "servers.log").open("wb") as said:
        for words in ([etcd, *keeping.split()], [apiserver, *serving.split()]):
            server = subprocess.Popen(words, cwd=folder, stdout=said, stderr=said)
            running.callback(server.wait)
            running.callback(server.terminate)
        kubelet = running.enter_context(_kubelet(folder, logs))
        trust = _trusted(folder / "certificates" / "apiserver.crt")
        (folder / "kubeconfig").write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            "contexts: [{name: test, context: {cluster: test, user: ann, namespace: research}}]\n"
            f"clusters: [{{name: test, cluster: {{server: 'https://127.0.0.1:{_PORT}', "
            "certificate-authority: certificates/apiserver.crt}}]\n"
            "users: [{name: ann, user: {token: of-a-test}}]\n"
        )
        cluster = Cluster({"KUBECONFIG": str(folder / "kubeconfig"), "HOME": str(folder)}, kubelet, logs, trust)
        _when_ready(cluster)
        yield cluster


def _trusted(certificate: Path) -> ssl.SSLContext:
    """The server makes its certificate when it starts."""
    until = time.monotonic() + _SECONDS
    while not (certificate.exists() and certificate.stat().st_size):
        assert time.monotonic() < until, "the API server made no certificate"
        time.sleep(0.1)
    return ssl.create_default_context(cafile=os.fspath(certificate))


def _when_ready(cluster: Cluster) -> None:
    until = time.monotonic() + _SECONDS
    while True:
        try:
            cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "research"}})
            return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < until, "the API server does not answer"
            time.sleep(0.5)


@contextmanager
def _kubelet(folder: Path, logs: Mapping[tuple[str, str, bool], bytes]) -> Iterator[int]:
    """Serves the logs of containers as a kubelet does; gives its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, asked = self.path.partition("?")
            pod, container = path.split("/")[3:]
            log = logs.get((pod, container, "previous=true" in asked))
            self.send_response(404 if log is None else 200)
            self.end_headers()
            self.wfile.write(log or b"")

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")
        server.socket = own.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
