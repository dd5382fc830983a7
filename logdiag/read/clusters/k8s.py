"""A job, a set of jobs or a pod of Kubernetes, by its API: logs, what became of each container, events, and its nodes'
conditions. Nothing is changed. What may not be read of it (nodes, mostly) is a note."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import Any

from logdiag.errors import LogdiagError, SourceError
from logdiag.read.clusters import Gathered
from logdiag.read.sources import Known

# job/pretrain-7b   jobset/pretrain   pod/trainer-0
_TARGET = re.compile(r"(job|jobset|pod)/([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)")
_CONNECTING, _PIECE = 10, 1 << 20
_SETS = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "plural": "jobsets"}
_SET_OF_A_POD = "jobset.sigs.k8s.io/jobset-name"
_MOST_OF_A_LOG = 1 << 30
# How a job, a set of jobs and a pod say that all went well.
_WELL = ("Complete", "Completed", "Succeeded")
_WITHIN_A_POD = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The API's parts, the namespace to look in, the seconds that an answer may take, and what could not be had."""

    core: Any
    batch: Any
    custom: Any
    namespace: str
    seconds: float
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Job:
    """A job or a set of jobs: its uid, which pods are its own, whether it runs, and what became of it (type, reason and
    message of each condition that holds)."""

    name: str
    uid: str
    selector: str
    active: bool
    ends: tuple[tuple[str, str, str], ...]


def gather(target: str, namespace: str | None, folder: str, seconds: float = 60.0) -> Gathered:
    """All that the cluster knows of `job/NAME`, `jobset/NAME` or `pod/NAME`; the logs are written into a folder, which
    must last as long as they are read. A cluster that says nothing for so many seconds does not answer.

    Raises SourceError for what is none of them, is not there, may not be read, or where no cluster answers;
    LogdiagError where the client is not installed.
    """
    named = _TARGET.fullmatch(target)
    if named is None:
        raise SourceError(f"{target}: neither a job nor a pod of Kubernetes; give job/NAME, jobset/NAME or pod/NAME")
    cluster = _connect(namespace, seconds)
    kind, name = named.groups()
    job = {"job": _job, "jobset": _set}[kind](target, cluster, name) if kind != "pod" else None
    if job is not None:
        every = partial(cluster.core.list_namespaced_pod, label_selector=job.selector)
        pods = _asked(f"the pods of {target}", cluster, every, cluster.namespace).items
    else:
        pods = [_one(target, cluster, cluster.core.read_namespaced_pod, name)]
    pods.sort(key=lambda pod: (pod.status.start_time or datetime.max.replace(tzinfo=timezone.utc), pod.metadata.name))
    if not pods:
        cluster.notes.append(f"{target} has no pods any more; their logs are gone, unless the cluster collects them")
    logs = [log for pod in pods for log in _logs(cluster, pod, folder)]
    described = "as the cluster describes it"
    rows = [*(_of_job(job) if job else ()), *_of_nodes(cluster, pods)]
    told = [_source_of(f"{target}, {described}", rows)]
    told += [_source_of(f"pod/{pod.metadata.name}, {described}", list(_of_pod(pod)), pod) for pod in pods]
    told.append(_source_of("events", list(_events(cluster, target, pods))))
    sources = (*logs, *(source for source in told if source is not None))
    if not sources:
        raise SourceError(f"{target}: the cluster tells nothing of it: {'; '.join(cluster.notes)}")
    return Gathered(sources, _metadata(cluster, target, job, pods), _exit_code(job, pods), tuple(cluster.notes))


def _connect(namespace: str | None, seconds: float) -> _Cluster:
    """Connects by KUBECONFIG or ~/.kube/config, within a pod by its service account."""
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise LogdiagError("logdiag k8s needs the client of Kubernetes; pip install 'logdiag[k8s]'") from error
    try:
        if os.path.exists(_WITHIN_A_POD) and not os.environ.get("KUBECONFIG"):
            config.load_incluster_config()
            with open(_WITHIN_A_POD, encoding="utf-8") as file:
                own_namespace = file.read().strip()
        else:
            config.load_kube_config()
            own_namespace = config.list_kube_config_contexts()[1]["context"].get("namespace", "")
    except Exception as error:  # whatever a broken file leads the client to
        problem = " ".join(str(error).split())
        raise SourceError(
            f"no cluster of Kubernetes is set up here ({problem}); set KUBECONFIG, or give the logs: logdiag LOG ..."
        ) from error
    chosen = client.Configuration.get_default_copy()
    chosen.retries = 1
    api = client.ApiClient(chosen)
    parts = client.CoreV1Api(api), client.BatchV1Api(api), client.CustomObjectsApi(api)
    return _Cluster(*parts, namespace or own_namespace or "default", seconds)


def _asked(what: str, cluster: _Cluster, call: Callable[..., Any], *arguments: str, **more: Any) -> Any:
    """What the API answers. Raises SourceError in one sentence for whatever goes wrong."""
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return call(*arguments, _request_timeout=(_CONNECTING, cluster.seconds), **more)
    except ApiException as error:
        why = {
            401: "the cluster does not know this user; log in again",
            403: "this user may not read it; ask for the right to",
            404: f"not found in namespace {cluster.namespace}; check the name, and the namespace (-n)",
        }.get(error.status, f"the cluster answered {error.status} {error.reason}")
        raise SourceError(f"{what}: {why}") from error
    except (HTTPError, OSError, ValueError) as error:
        raise SourceError(
            f"{what}: the cluster does not answer ({type(error).__name__}); check the connection"
        ) from error


def _one(target: str, cluster: _Cluster, call: Callable[..., Any], name: str) -> Any:
    """A job or a pod. Raises SourceError for what is none."""
    found = _asked(target, cluster, call, name, cluster.namespace)
    if not (getattr(found, "spec", None) and found.status):
        raise SourceError(_no_cluster(target))
    return found


def _job(target: str, cluster: _Cluster, name: str) -> _Job:
    found = _one(target, cluster, cluster.batch.read_namespaced_job, name)
    own = ",".join(f"{key}={value}" for key, value in (found.spec.selector.match_labels or {}).items())
    ends = tuple((one.type, one.reason, one.message) for one in found.status.conditions or () if one.status == "True")
    return _Job(name, found.metadata.uid, own, bool(found.status.active), ends)


def _set(target: str, cluster: _Cluster, name: str) -> _Job:
    """A JobSet, which the client knows only as the document that it is."""
    found = _asked(target, cluster, cluster.custom.get_namespaced_custom_object, name=name,
                   namespace=cluster.namespace, **_SETS)  # fmt: skip
    try:
        uid, conditions = found["metadata"]["uid"], found.get("status", {}).get("conditions", ())
        true = (one for one in conditions if one["status"] == "True")
        ends = tuple((one["type"], one.get("reason"), one.get("message")) for one in true)
    except (KeyError, TypeError, AttributeError) as error:
        raise SourceError(_no_cluster(target)) from error
    return _Job(name, uid, f"{_SET_OF_A_POD}={name}", not ends, ends)


def _no_cluster(target: str) -> str:
    return f"{target}: what answers is no API server of Kubernetes; check the kubeconfig"


def _logs(cluster: _Cluster, pod: Any, folder: str) -> Iterator[Known]:
    """The logs of a pod's containers, before each that of the run before its last restart."""
    for status in _statuses(pod):
        runs = [(True, status.last_state), (False, status.state)]
        for previous, state in runs:
            if state is None or not (state.terminated or state.running):
                continue
            name = f"pod/{pod.metadata.name}/{status.name}{', before its restart' if previous else ''}"
            path = os.path.join(folder, f"{len(os.listdir(folder))}.log")
            save = partial(_save, path, cluster.core.read_namespaced_pod_log, pod.metadata.name, cluster.namespace)
            try:
                _asked(f"the log of {name}", cluster, save, container=status.name, previous=previous)
            except SourceError as error:
                cluster.notes.append(str(error))
                if not os.path.exists(path):
                    continue
            if os.path.getsize(path) >= _MOST_OF_A_LOG:
                cluster.notes.append(f"the log of {name}: only its first {_MOST_OF_A_LOG:,} bytes were read")
            yield Known(path, name, pod.spec.node_name)


def _save(path: str, call: Callable[..., Any], *arguments: str, **more: Any) -> None:
    """Writes a log into a file as it comes."""
    answer = call(*arguments, limit_bytes=_MOST_OF_A_LOG, _preload_content=False, **more)
    with open(path, "wb") as file:
        file.writelines(answer.stream(_PIECE))


def _statuses(pod: Any) -> list[Any]:
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def _source_of(name: str, rows: Sequence[str], pod: Any = None) -> Known | None:
    """Rows as a source; None without rows."""
    return Known("".join(f"{row}\n" for row in rows).encode(), name, pod and pod.spec.node_name) if rows else None


def _fields(indent: int = 0, **values: object) -> Iterator[str]:
    """Fields as `kubectl describe` prints them, without those that are None."""
    for name, value in values.items():
        if value is not None:
            label = f"{name.replace('_', ' ')}:"
            yield f"{' ' * indent}{label:<{(20 if indent else 18) - indent}}{value}"


def _of_job(job: _Job) -> Iterator[str]:
    """How a job ended, as `kubectl describe` would say it."""
    for kind, reason, message in job.ends:
        yield from _fields(Name=job.name, Status=kind, Reason=reason or "", Message=_flat(message))


def _of_pod(pod: Any) -> Iterator[str]:
    """What became of a pod and its containers, as `kubectl describe` would say it."""
    yield from _fields(Name=pod.metadata.name, Node=pod.spec.node_name or "<none>", Status=pod.status.phase)
    if pod.status.reason:
        yield from _fields(Reason=pod.status.reason, Message=_flat(pod.status.message))
    yield "Containers:"
    for status in _statuses(pod):
        yield f"  {status.name}:"
        for label, state in (("State", status.state), ("Last_State", status.last_state)):
            if state and (ended := state.terminated):
                message = _flat(ended.message) if ended.message else None
                yield from _fields(4, **{label: "Terminated"})
                yield from _fields(6, Reason=ended.reason, Message=message, Exit_Code=ended.exit_code)
                yield from _fields(6, Finished=ended.finished_at)
            elif state and (waiting := state.waiting):
                yield from _fields(4, **{label: "Waiting"})
                yield from _fields(6, Reason=waiting.reason, Message=_flat(waiting.message))
        yield from _fields(4, Restart_Count=status.restart_count)


def _of_nodes(cluster: _Cluster, pods: Sequence[Any]) -> Iterator[str]:
    """Conditions of nodes that tell of trouble since the first pod began."""
    began = min((pod.status.start_time for pod in pods if pod.status.start_time), default=None)
    for name in sorted({pod.spec.node_name for pod in pods if pod.spec.node_name}):
        try:
            node = _asked(f"node {name}", cluster, cluster.core.read_node, name)
        except SourceError as error:
            cluster.notes.append(str(error))
            continue
        rows = [
            f"  {at.type:<16} {at.status:<7} {at.last_transition_time}  {at.reason}  {_flat(at.message)}"
            for at in node.status.conditions or ()
            if (at.status != "True") == (at.type == "Ready")
            and not (began and at.last_transition_time and at.last_transition_time < began)
        ]
        if rows:
            yield from (*_fields(Name=name), "Conditions:", *rows)


def _events(cluster: _Cluster, target: str, pods: Sequence[Any]) -> Iterator[str]:
    """Events of the job, its pods and their nodes, as `kubectl get events` prints them, the oldest first."""
    names = {target, *(f"pod/{pod.metadata.name}" for pod in pods), *(f"node/{pod.spec.node_name}" for pod in pods)}
    now = datetime.now(timezone.utc)
    began = min((pod.metadata.creation_timestamp for pod in pods if pod.metadata.creation_timestamp), default=None)
    rows = []
    for event in _all_events(cluster):
        about = f"{(event.involved_object.kind or '').lower()}/{event.involved_object.name}"
        moment = event.last_timestamp or event.event_time or event.metadata.creation_timestamp or now
        if about in names and not (about.startswith("node/") and began and moment < began):
            rows.append((moment, f"{event.type or 'Normal':<9} {event.reason:<20} {about:<40} {_flat(event.message)}"))
    if rows:
        yield "LAST SEEN   TYPE      REASON               OBJECT                                   MESSAGE"
    for moment, row in sorted(rows):
        yield f"{max(0, int((now - moment).total_seconds()))}s".ljust(12) + row


def _all_events(cluster: _Cluster) -> list[Any]:
    """Those of the namespace, and of nodes; what cannot be asked is a note."""
    found = []
    for namespace in dict.fromkeys((cluster.namespace, "default")):  # those of nodes are in the latter
        try:
            what = f"the events of namespace {namespace}"
            found += _asked(what, cluster, cluster.core.list_namespaced_event, namespace).items
        except SourceError as error:
            cluster.notes.append(str(error))
    return found


def _flat(text: str | None) -> str:
    return " ".join((text or "").split())


def _first_end(pods: Sequence[Any]) -> Any:
    """How the container ended that failed first; None where none did."""
    ended = [
        state.terminated
        for pod in pods
        for status in _statuses(pod)
        for state in (status.last_state, status.state)
        if state and state.terminated and state.terminated.exit_code
    ]
    latest = datetime.max.replace(tzinfo=timezone.utc)
    return min(ended, key=lambda end: end.finished_at or latest, default=None)


def _state(job: _Job | None, pods: Sequence[Any]) -> str:
    """The job's own word for its end, or the phase of a pod."""
    if job is None:
        return str(pods[0].status.phase or "")
    ends = [kind for kind, _, _ in job.ends if kind in (*_WELL, "Failed")]
    return ends[0] if ends else "Running" if job.active else ""


def _exit_code(job: _Job | None, pods: Sequence[Any]) -> int | None:
    state, first = _state(job, pods), _first_end(pods)
    if state in _WELL:
        return 0
    return int(first.exit_code) if first is not None else None


def _metadata(cluster: _Cluster, target: str, job: _Job | None, pods: Sequence[Any]) -> dict[str, str]:
    first = _first_end(pods)
    name, uid = (job.name, job.uid) if job else (pods[0].metadata.name, pods[0].metadata.uid)
    metadata = {
        "id": uid or target,
        "name": name,
        "namespace": cluster.namespace,
        "state": _state(job, pods),
        "exit_code": str(first.exit_code) if first is not None else "",
        "nodes": ",".join(sorted({pod.spec.node_name for pod in pods if pod.spec.node_name})),
        "restarts": str(sum(status.restart_count or 0 for pod in pods for status in _statuses(pod))),
    }
    return {name: value for name, value in metadata.items() if value}
