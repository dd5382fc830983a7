"""A job of Slurm, by Slurm's own commands: the controller's record as long as it keeps one, and the accounting's.
Nothing is changed, and nothing but `scontrol`, `sacct`, `journalctl` and `dmesg` is run."""

from __future__ import annotations

import glob
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from logdiag.errors import SourceError
from logdiag.read.clusters import Gathered
from logdiag.read.sources import Known

# 4711   4711_3 (a task of an array)   4711+1 (a part of a heterogeneous job)
_JOB_ID = re.compile(r"\d{1,10}(?:[_+]\d{1,7})?")
# JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
_PAIR = re.compile(r"([A-Za-z][\w/:]*)=(.*?)(?=\s+[A-Za-z][\w/:]*=|\s*$)")
# %j   %4a   %%
_PLACEHOLDER = re.compile(r"%\d*[A-Za-z%]")
# Not responding [slurm@2026-02-02T10:11:12]
_SINCE = re.compile(r"(.*) \[[^\]@]*@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\]$")
_FIELDS = ("JobID", "JobName", "User", "State", "ExitCode", "NodeList", "Start", "End", "Reason")
_NAMES_OF_THE_CONTROLLER = {"State": "JobState", "Start": "StartTime", "End": "EndTime"}
# The rows of the controller's record on how the job ended; those that a job may write itself are left out.
_ROWS_OF_THE_END = ("JobId", "JobState", "Requeue", "RunTime", "StartTime", "NodeList", "BatchHost")
# A path or a list may hold what looks like a pair.
_WHOLE_ROWS = ("StdOut", "StdErr", "WorkDir", "Comment", "AdminComment", "Reason")
_GOES_ON = ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "RESIZING", "STAGE_OUT", "SIGNALING")
# The signals by which Slurm ends processes; for other ends that are not the program's own no status is known.
_SIGNAL_OF_STATE = {"TIMEOUT": -15, "CANCELLED": -15, "PREEMPTED": -15, "DEADLINE": -15, "OUT_OF_MEMORY": -9}
# Greater numbers, which Slurm uses itself (53, 125), are no signals.
_LAST_SIGNAL = 31
# A command that finds no controller tries for a minute.
_SECONDS = 30
_DELIMITER = "\x1f"
# Machines are asked from before the job's start to after its end.
_BEFORE, _AFTER = timedelta(minutes=1), timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One run of the job: `fields` by Slurm's names, the `rows` that tell of its end, and its `nodes` with the name of
    each one's host."""

    fields: Mapping[str, str]
    rows: tuple[str, ...]
    nodes: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """`CANCELLED by 1000` is `CANCELLED`, and `OUT_OF_ME+` what it is short for."""
        state = self.fields.get("JobState", "").split(" ")[0]
        return "OUT_OF_MEMORY" if state.startswith("OUT_OF_ME") else state.rstrip("+")


_NOTHING = _Attempt({}, ())


def gather(job_id: str, *, logs: Sequence[str] = (), kernel_logs: str | None = None) -> Gathered:
    """The last run of a job that has begun: its logs, Slurm's record of it, and its nodes' kernel logs.

    `logs` are read instead of the output that Slurm names. `kernel_logs` is where those of all nodes are, with `%N` for
    the node's name; without it that of this machine is read, where it is one of the job's nodes. Raises SourceError for
    an id that is none, that nobody knows or that stands for many jobs, and where Slurm cannot be asked.
    """
    if not _JOB_ID.fullmatch(job_id):
        raise SourceError(f"{job_id}: no job id of Slurm; give a number, for instance 4711, or 4711_3 of an array")
    attempt = _attempt(job_id)
    notes: list[str] = []
    single = next(iter(attempt.nodes)) if len(attempt.nodes) == 1 else None
    found = [Known(path, node=single) for path in logs or logs_of_batch_job(attempt.fields, notes)]
    if not found:
        notes.append(f"no log of the job was read; name those that you have: logdiag slurm {job_id} LOG ...")
    record = Known("\n".join(attempt.rows).encode() + b"\n", f"slurm record of job {job_id}")
    machines = _kernel_logs(attempt, kernel_logs, notes)
    return Gathered((*found, record, *machines), _metadata(job_id, attempt), _exit_code(attempt), tuple(notes))


def logs_of_batch_job(fields: Mapping[str, str], notes: list[str]) -> list[str]:
    """The files of a job's standard output and error that are there. `fields` are the controller's; a note on each that
    is missing or cannot be read is added to `notes`.

    The job's owner chooses the names, and logdiag may run as a user who can read more (in an epilog): only files of the
    job's owner are read.
    """
    number = fields.get("UserId", "").rpartition("(")[2].rstrip(")")
    owner = int(number) if number.isdigit() else os.geteuid()
    logs: list[str] = []
    for pattern in dict.fromkeys(fields[name] for name in ("StdOut", "StdErr") if fields.get(name)):
        # The placeholders that Slurm leaves in the record (%N, %t) stand for the name of any node or task.
        pattern = os.path.join(fields.get("WorkDir", "."), pattern)
        files = sorted(glob.glob(_PLACEHOLDER.sub("*", glob.escape(pattern))))
        of_owner = [path for path in files if owner in (os.geteuid(), os.stat(path).st_uid)]
        readable = [path for path in of_owner if os.path.isfile(path) and os.access(path, os.R_OK)]
        logs += readable
        if len(readable) < max(1, len(files)):
            no_owner = "not a file of the job's owner" if len(of_owner) < len(files) else "permission denied"
            why = no_owner if files else "no such file on this machine"
            notes.append(
                f"{pattern}: was not read ({why}); run it where it can be read, or give the log behind the job id"
            )
    return list(dict.fromkeys(logs))


def _attempt(job_id: str) -> _Attempt:
    """The job's last run, by controller and accounting; only the latter keeps a run that was requeued."""
    if not any(map(shutil.which, ("scontrol", "sacct"))):
        raise SourceError(
            f"slurm job {job_id}: there is no scontrol and no sacct here; run it where Slurm's commands are, or give "
            "the logs themselves: logdiag LOG ..."
        )
    current, controller = _controllers(job_id)
    past, accounting = _accountings(job_id)
    if current is None and past is None:
        answers = f"scontrol: {controller}; sacct: {accounting}"
        raise SourceError(f"slurm job {job_id}: is not known ({answers}); check the number and the cluster")
    current, past = current or _NOTHING, past or _NOTHING
    if past.rows and (not current.rows or (current.state in _GOES_ON and past.state not in _GOES_ON)):
        fields, rows = {**current.fields, **past.fields}, past.rows
    else:
        # The accounting may learn of an end later than the controller.
        past_rows = past.rows if past.state not in _GOES_ON or past.state == current.state else ()
        fields, rows = {**past.fields, **current.fields}, (*current.rows, *past_rows)
    nodes, out_of_service = _nodes(fields)
    return _Attempt(fields, (*rows, *out_of_service), nodes)


def _controllers(job_id: str) -> tuple[_Attempt | None, str]:
    """The controller's record of a job, or why there is none."""
    text, problem = _ask("scontrol", "show", "job", job_id)
    records = [part for part in re.split(r"\n\s*\n", text) if "JobId=" in part]
    every = [_fields_of(record) for record in records]
    _check_one(job_id, [f"{one.get('ArrayJobId', one['JobId'])}_{one.get('ArrayTaskId', '')}" for one in every])
    if problem or not records:
        return None, problem or "no such job"
    rows = [row for row in records[0].splitlines() if row.split("=")[0].strip() in _ROWS_OF_THE_END]
    return _Attempt(every[0], tuple(rows)), ""


def _fields_of(record: str) -> dict[str, str]:
    """The pairs of a record. What begins a row counts first: behind it may stand what a user wrote."""
    begun: dict[str, str] = {}
    within: dict[str, str] = {}
    for row in map(str.strip, record.splitlines()):
        pairs = _PAIR.findall(row)
        if pairs:
            name, _, whole = row.partition("=")
            begun.setdefault(name, whole if name in _WHOLE_ROWS else pairs[0][1])
            for further, value in pairs[1:]:
                within.setdefault(further, value)
    return {name: value for name, value in {**within, **begun}.items() if value not in ("(null)", "N/A", "Unknown")}


def _accountings(job_id: str) -> tuple[_Attempt | None, str]:
    """The last run of a job that has begun, of those that the accounting keeps, or why there is none."""
    text, problem = _ask(
        "sacct", "-D", "-P", f"--delimiter={_DELIMITER}", f"--format={','.join(_FIELDS)}", "-j", job_id
    )
    rows = [row.split(_DELIMITER) for row in text.splitlines()[1:]]
    rows = [row for row in rows if len(row) == len(_FIELDS)]
    if problem or not rows:
        return None, problem or "no such job"
    heads = [at for at, row in enumerate(rows) if "." not in row[0]]
    _check_one(job_id, sorted({rows[at][0] for at in heads}))
    runs = [rows[first:last] for first, last in zip(heads, [*heads[1:], len(rows)], strict=True)]
    run = next((run for run in reversed(runs) if run[0][3] != "PENDING"), runs[-1])
    fields = {
        _NAMES_OF_THE_CONTROLLER.get(name, name): value
        for name, value in zip(_FIELDS, run[0], strict=True)
        if value and value != "Unknown"
    }
    return _Attempt(fields, tuple("|".join(row) for row in (_FIELDS, *run))), ""


def _check_one(job_id: str, tasks: Sequence[str]) -> None:
    """Raises SourceError where an id stands for an array of several tasks."""
    if len(tasks) > 1:
        named = ", ".join(sorted(tasks)[:3])
        raise SourceError(
            f"slurm job {job_id}: is {len(tasks)} jobs, the tasks of an array; name one of them ({named} ...)"
        )


def _nodes(fields: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The nodes of a run with the name of each one's host, and rows of those that went out of service meanwhile."""
    named = fields.get("NodeList", "")
    if not named or named.startswith("None"):
        return {}, []
    text, problem = _ask("scontrol", "show", "node", named)
    first, last = _from_to(fields)
    nodes, rows = {}, []
    for record in [] if problem else re.split(r"\n(?=NodeName=)", text):
        node = _fields_of(record)
        name = node.get("NodeName", named)
        nodes[name] = node.get("NodeHostName", name)
        since = _SINCE.match(node.get("Reason", ""))
        if since and first <= datetime.fromisoformat(since[2]) <= last:
            rows += [f"NodeName={name} State={node.get('State', '')}", f"   Reason={since[0]}"]
    return nodes or {named: named}, rows


def _from_to(fields: Mapping[str, str]) -> tuple[datetime, datetime]:
    """From before a run to soon after it."""

    def read(name: str, otherwise: datetime) -> datetime:
        try:
            return datetime.fromisoformat(fields.get(name, ""))
        except ValueError:
            return otherwise

    return read("StartTime", datetime.min + _BEFORE) - _BEFORE, read("EndTime", datetime.now()) + _AFTER


def _kernel_logs(attempt: _Attempt, pattern: str | None, notes: list[str]) -> Iterator[Known]:
    """The kernel logs of a run's nodes that fit `pattern` (`%N` is the node), or without one this machine's own."""
    if pattern is None:
        this_host = socket.gethostname().split(".")[0]
        here = [node for node, host in attempt.nodes.items() if host.split(".")[0] == this_host]
        text = _own_kernel_log(attempt.fields) if here else ""
        if text:
            yield Known(text.encode(), f"kernel log of {here[0]}", node=here[0] if len(here) == 1 else None)
        elsewhere = len(attempt.nodes) - len(here)
        if elsewhere or (here and not text):
            unread = f"the kernel logs of {elsewhere} nodes were" if elsewhere else "the kernel log was"
            notes.append(f"{unread} not read; --kernel-logs 'DIR/%N.log' says where they are kept")
        return
    missing = []
    for node in attempt.nodes:
        files = sorted(path for path in glob.glob(pattern.replace("%N", glob.escape(node))) if os.access(path, os.R_OK))
        yield from (Known(path, node=node) for path in files)
        missing += [] if files else [node]
    if missing:
        notes.append(
            f"no kernel log of {', '.join(missing[:3])} at {pattern} ({len(missing)} of {len(attempt.nodes)} nodes)"
        )


def _own_kernel_log(fields: Mapping[str, str]) -> str:
    """This machine's kernel log of the time of the job; empty where it may not be read."""
    first, last = (moment.isoformat(" ", "seconds") for moment in _from_to(fields))
    text, problem = _ask("journalctl", "-k", "-o", "short-iso", "--no-pager", "-q", "--since", first, "--until", last)
    if text and not problem:
        return text
    return _ask("dmesg", "--time-format", "iso", "--since", first, "--until", last)[0]


def _exit_code(attempt: _Attempt) -> int | None:
    state = attempt.state
    code, _, signal = attempt.fields.get("ExitCode", "").partition(":")
    if state not in ("COMPLETED", "FAILED", "REQUEUED"):
        return _SIGNAL_OF_STATE.get(state)
    if signal.isdigit() and 0 < int(signal) <= _LAST_SIGNAL:
        return -int(signal)
    known = code.isdigit() and (state == "COMPLETED" or int(code) > 0)
    return int(code) if known else None


def _metadata(job_id: str, attempt: _Attempt) -> dict[str, str]:
    fields = attempt.fields
    user = fields.get("User") or fields.get("UserId", "").split("(")[0]
    metadata = {
        "id": job_id,
        "name": fields.get("JobName", ""),
        "user": user,
        "state": attempt.state,
        "exit_code": fields.get("ExitCode", ""),
        "nodes": ",".join(attempt.nodes),
        "restarts": fields.get("Restarts", ""),
        "started": fields.get("StartTime", ""),
    }
    return {name: value for name, value in metadata.items() if value}


def _ask(*command: str) -> tuple[str, str]:
    """What a command prints, and why it failed; empty where it did not."""
    if shutil.which(command[0]) is None:
        return "", "no such command"
    environ = {**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
    try:
        done = subprocess.run(
            command, capture_output=True, env=environ, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"gave no answer in {_SECONDS} s" if isinstance(error, subprocess.TimeoutExpired) else str(error)
    text, errors = (stream.decode(errors="backslashreplace") for stream in (done.stdout, done.stderr))
    return text, "" if done.returncode == 0 else (errors.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
