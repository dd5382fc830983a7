"""The history of a watched job as JSON lines, so that a logdiag that was killed can go on. Each event is on the disk
before it is acted on. A `Course` is the state of the job after all events. A job that a scheduler starts again has one
too (`choice_for`)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from logdiag.errors import LogdiagError
from logdiag.model import Action, Diagnosis, Reason
from logdiag.model.plain import plain
from logdiag.recovery.policy import Choice, Failure, Policy, decide, failure_of

Rollback = tuple[Sequence[tuple[int, int]], Mapping[str, float]]

_NAME = "ledger.jsonl"
# States of a scheduler's job that somebody ended on purpose, or that the scheduler itself starts again.
_LEFT_ALONE = ("COMPLETED", "CANCELLED", "PREEMPTED", "RUNNING", "SUSPENDED")


@dataclass
class Course:
    """The state of a job. `attempt` is the number of the last attempt, `furthest` the furthest step, `saved` that of
    the furthest checkpoint. `failures` are those after which it was started again, `excluded` the nodes that are left
    out, `skipped` the batches to skip, `distrusted` the checkpoints not to use, each with the time of the save that is
    bad. `slowest_start` is the most seconds that an attempt, begun at `began`, took to its first step. `running` is the
    mark of an attempt whose end is not known, `log` its log. `decided` is the last choice."""

    command: list[str] = field(default_factory=list)
    attempt: int = 0
    furthest: int = -1
    saved: int = -1
    failures: list[Failure] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    skipped: list[tuple[int, int]] = field(default_factory=list)
    distrusted: dict[str, float] = field(default_factory=dict)
    began: float = 0.0
    slowest_start: float = 0.0
    running: str = ""
    log: str = ""
    decided: Mapping[str, Any] | None = None
    over: bool = True

    def fold(self, event: Mapping[str, Any]) -> None:
        """Updates the state by one event of the ledger."""
        kind = event["event"]
        if kind == "begin":
            # A person started it, perhaps again: budgets are counted anew, excluded nodes stay excluded.
            self.command, self.failures, self.over = list(event["command"]), [], False
        elif kind == "start":
            self.attempt, self.running, self.log = event["attempt"], event["mark"], event["log"]
            self.began = event["at"]
        elif kind == "progress":
            self.slowest_start = max(self.slowest_start, event["at"] - self.began)
        elif kind == "end":
            self.running = ""
        elif kind == "over":
            self.over = True
        elif kind == "choice":
            self.decided = event
            self.furthest, self.saved = event["furthest"], event["saved"]
            if event["step"] != "stop":
                failure = event["failure"]
                reason, advice = Reason(failure["reason"]), Action(failure["advice"])
                self.failures.append(Failure(**{**failure, "reason": reason, "advice": advice}))
                self.excluded += [event["node"]] if event["node"] else []
                self.skipped += [(first, last) for first, last in event["skip"]]
                self.distrusted.update(event["distrusted"])


class Ledger:
    """The ledger of one job in a folder of its own, for one process at a time; `course` is where the job stands."""

    def __init__(self, folder: str) -> None:
        """Raises LogdiagError where the folder cannot be used, or another process watches the job."""
        import fcntl

        self.folder = os.path.abspath(folder)
        self.path = os.path.join(self.folder, _NAME)
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise LogdiagError(f"--state {folder}: cannot be written ({error.strerror}); name another") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LogdiagError(f"--state {self.folder}: another logdiag watches this job; name another") from error
        self._unwritten = b""
        self.course = Course()
        for event in self._read():
            self.course.fold(event)

    def add(self, event: str, **fields: Any) -> None:
        """Writes an event to the disk before it returns; on a full disk, together with the next one."""
        row = {"event": event, "at": round(time.time(), 3), **plain(fields)}
        self._unwritten += json.dumps(row).encode() + b"\n"
        size = os.fstat(self._file).st_size
        try:
            if os.write(self._file, self._unwritten) < len(self._unwritten):
                raise OSError
            os.fsync(self._file)
            self._unwritten = b""
        except OSError:
            # A full disk must not end the job: remove the part of a row that was written.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
        self.course.fold(row)

    def decide(
        self,
        policy: Policy,
        failure: Failure,
        node: str,
        attempt: int | str,
        saved: int = -1,
        rollback: Callable[[Choice], Rollback] = lambda _: ((), {}),
    ) -> tuple[Choice, Failure]:
        """Decides about the failure of an attempt by the policy, and writes it down. Returns the choice and the failure
        as recorded. `node` is the name by which its node can be left out, empty where it cannot; `rollback` gives the
        batches to skip and the checkpoints not to use."""
        course = self.course
        node = node if len(course.excluded) < policy.budget.nodes else ""
        failure = replace(failure, node=node or failure.node)
        choice = decide(policy, failure, course.failures, can_exclude=bool(node))
        skip, distrusted = rollback(choice)
        furthest = max(course.furthest, -1 if failure.step is None else failure.step)
        self.add("choice", attempt=attempt, failure=failure, furthest=furthest, saved=max(course.saved, saved),
                 skip=skip, distrusted=distrusted, **asdict(choice))  # fmt: skip
        return choice, failure

    def begin(self, command: Sequence[str]) -> bool:
        """Begins a job; True where it goes on with an unfinished one. Raises LogdiagError for another command's."""
        if self.course.over:
            self.add("begin", command=list(command))
            return False
        if self.course.command != list(command):
            raise LogdiagError(
                f"--state {self.folder}: holds the unfinished job {' '.join(self.course.command)!r}; "
                "give the same command to go on, or name another folder"
            )
        return True

    def close(self) -> None:
        """Closes the file, so that another process may watch the job."""
        os.close(self._file)

    def _read(self) -> list[dict[str, Any]]:
        """Returns all events. Removes a last line that is incomplete because its writer was killed."""
        with open(self.path, "rb") as file:
            content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
        events: list[dict[str, Any]] = []
        for number, row in enumerate(content[:whole].splitlines(), 1):
            event = None
            with contextlib.suppress(ValueError):
                event = json.loads(row)
            if not isinstance(event, dict) or "event" not in event:
                raise LogdiagError(f"{self.path}:{number}: no event of a ledger; move the folder away to start anew")
            events.append(event)
        return events


def same_node(node: str, nodes: Sequence[str]) -> str:
    """The name by which `nodes` has a node, with or without its domain; empty where it is none of them."""

    def short(name: str) -> str:
        return name if re.fullmatch(r"[\d.:]+", name) else name.split(".")[0].lower()

    return next((name for name in nodes if short(name) == short(node)), "") if node else ""


def choice_for(answer: Diagnosis, policy: Policy, folder: str) -> dict[str, str]:
    """What to do about a run of a job that a scheduler starts again, as facts of the job: `choice`, `choice_why`,
    `choice_node`, `choice_seconds`; empty for one that did not fail or is to be left alone. `folder` keeps what was
    decided, so that asking again gives the same. Raises LogdiagError."""
    job = answer.job
    if not answer.failed or job.get("state") in _LEFT_ALONE:
        return {}
    ledger = Ledger(os.path.join(folder, job["id"]))
    course, run = ledger.course, job.get("started", "")
    try:
        if not course.decided or course.decided["attempt"] != run:
            ledger.begin([job["id"]])
            step = answer.times.last_step if answer.times else None
            failure = failure_of(answer, step, progressed=step is not None and step > course.furthest)
            # A user can write anything into a log: leave out only nodes of this very job, and not too many.
            node = same_node(failure.node, job.get("nodes", "").split(","))
            failure = replace(failure, node=node or failure.node)
            choice, _ = ledger.decide(policy, failure, "" if node in course.excluded else node, run)
            if choice.step == "stop":
                ledger.add("over", how="stopped", why=choice.why)
    finally:
        ledger.close()
    decided = course.decided or {}
    return {"choice": decided["step"], **{f"choice_{name}": str(decided[name]) for name in ("why", "node", "seconds")}}
