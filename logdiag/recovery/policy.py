"""What to do about a failure of a job that is watched: a table that people write, and budgets. No model is asked, and
the same input gives the same choice. docs/recovery.md explains the table, `policy.yaml` or a file of the user's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from logdiag.errors import LogdiagError
from logdiag.judge.verdict import SURE
from logdiag.model import Action, Diagnosis, Reason
from logdiag.rules.folders import RuleFile
from logdiag.rules.tables import Strict, load_yaml, validated

Step = Literal["restart", "exclude", "rollback", "wait", "stop"]
Seen = Literal["log", "hang", "spike"]
_ORDINALS = {1: "first", 2: "second", 3: "third"}
_DEFAULT = os.path.join(os.path.dirname(__file__), "policy.yaml")


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a job, with what the table asks about it.

    `seen` by the diagnosis of the log or by the watch (`hang`, `spike`). `known`: the answer is sure; the watch always
    is. `rule` knows the root line, `step` is the last one made, `progressed` means further than ever before.
    """

    seen: Seen
    reason: Reason
    advice: Action
    known: bool
    rule: str = ""
    node: str = ""
    step: int | None = None
    progressed: bool = False

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """Failures with equal fingerprints count as the same. All failures that are not known count as one."""
        return (self.seen, self.reason.value, self.rule, self.node) if self.known else ("not known",)


def failure_of(answer: Diagnosis, step: int | None, *, progressed: bool) -> Failure:
    """Returns the failure that a diagnosis found, as the policy asks it."""
    root = answer.root_cause
    return Failure(
        "log",
        answer.reason,
        answer.recovery.action,
        answer.failed is True and answer.confidence >= SURE and root is not None,
        rule=root.rule if root else "",
        node=(root.node if root else None) or next(iter(answer.recovery.exclude_nodes), ""),
        step=step,
        progressed=progressed,
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do, and why in a sentence. `row` is the table's, `times` how often this failure came, this one
    included. `node` is the one to leave out, `seconds` how long to wait."""

    step: Step
    why: str
    row: str
    times: int
    node: str = ""
    seconds: float = 0.0


class Budget(Strict):
    """How many restarts there may be, of the whole job and in a row without progress, and nodes left out."""

    restarts: int = Field(ge=0, le=10_000)
    without_progress: int = Field(ge=1, le=1000)
    nodes: int = Field(ge=0)


class Wait(Strict):
    """Seconds before the first new try of a `wait`."""

    seconds: float = Field(ge=0, le=86_400)


class Hang(Strict):
    """When a job counts as hanging, in usual iterations and in seconds."""

    times: float = Field(ge=2)
    at_least: float = Field(gt=0)
    after_fault: float = Field(gt=0)
    start: float = Field(ge=0)


class Spike(Strict):
    """When a loss counts as a spike."""

    times: float = Field(gt=1)
    lines: int = Field(ge=1, le=100)


class Skip(Strict):
    """How many batches around the bad ones are left out."""

    before: int = Field(ge=0)
    after: int = Field(ge=0)


class Row(Strict):
    """One row: what must hold, all of it, and what to do each time. A condition that is left out always holds."""

    name: str = Field(min_length=1)
    seen: tuple[Seen, ...] = ()
    advice: tuple[Action, ...] = ()
    reason: tuple[Reason, ...] = ()
    rule: tuple[str, ...] = ()
    known: bool | None = None
    progress: bool | None = None
    same_step: bool | None = None
    do: tuple[Step, ...] = Field(min_length=1)
    renewed: bool = True

    @model_validator(mode="after")
    def _ends_with_a_person(self) -> Row:
        if self.do[-1] != "stop" or "stop" in self.do[:-1]:
            raise ValueError("ends with stop, once: what comes again and again is for a person")
        return self

    def fits(self, failure: Failure, same_step: bool) -> bool:
        """Whether each condition of the row holds."""
        return (
            (not self.seen or failure.seen in self.seen)
            and (not self.advice or failure.advice in self.advice)
            and (not self.reason or failure.reason in self.reason)
            and (not self.rule or any(fnmatchcase(failure.rule, pattern) for pattern in self.rule))
            and self.known in (None, failure.known)
            and self.progress in (None, failure.progressed)
            and self.same_step in (None, same_step)
        )


class Policy(Strict):
    """The whole file."""

    budget: Budget
    wait: Wait
    hang: Hang
    spike: Spike
    skip: Skip
    rows: tuple[Row, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _each_failure_has_a_row(self) -> Policy:
        if not self.rows[-1].model_fields_set <= {"name", "do", "renewed"}:
            raise ValueError("rows: the last row must have no condition, so that each failure has one")
        return self


def load_policy(path: str | None = None, restarts: int | None = None) -> Policy:
    """The default policy, with what a file and `restarts` replace. Raises LogdiagError with all problems."""
    document: dict[str, Any] = {}
    for name in (_DEFAULT, path) if path is not None else (_DEFAULT,):
        try:
            file = RuleFile(name, Path(name).read_bytes())
        except OSError as error:
            raise LogdiagError(f"--policy {name}: cannot be read ({error.strerror}); name a policy file") from error
        for key, value in load_yaml(file).items():
            both = isinstance(value, dict) and isinstance(document.get(key), dict)
            document[key] = {**document[key], **value} if both else value
    if restarts is not None:
        document["budget"] = {**document["budget"], "restarts": restarts}
    return validated(Policy, file, document, guide="docs/recovery.md")


def decide(policy: Policy, failure: Failure, history: Sequence[Failure], *, can_exclude: bool) -> Choice:
    """What to do about a failure, after those of `history`; `can_exclude` says that its node can be left out."""
    of_the_reason = [earlier.step for earlier in history if earlier.reason is failure.reason]
    same_step = failure.step is not None and of_the_reason[-1:] == [failure.step]
    row = next(row for row in policy.rows if row.fits(failure, same_step))
    # A machine's failures count over the whole job; those of any other kind only since the job last progressed.
    lasting = not row.renewed or ("exclude" in row.do and bool(failure.node) and can_exclude)
    counted = history if lasting else _since_progress(failure, history)
    times = 1 + sum(earlier.fingerprint == failure.fingerprint for earlier in counted)
    step = row.do[min(times, len(row.do)) - 1]
    seconds = policy.wait.seconds * 2 ** (times - 1) if step == "wait" else 0.0
    why = {
        "restart": "restarted from the last complete checkpoint",
        "exclude": f"restarted without {failure.node}",
        "rollback": "restarted from a checkpoint before it, without the batches around it",
        "wait": f"tried again after {seconds:g} s",
        "stop": "stopped for a person",
    }[step]
    if step != "stop" and (spent := _spent(policy, failure, history)):
        step, seconds, why = "stop", 0.0, f"stopped for a person, since {spent}"
    elif step == "exclude" and not (failure.node and can_exclude):
        lacking = "it cannot be left out" if failure.node else "the log names no node to leave out"
        step, why = "restart", f"restarted where it was, since {lacking}"
    why = f"{row.name}, the {_ORDINALS.get(times, f'{times}th')} time: {why}"
    return Choice(step, why, row.name, times, failure.node if step == "exclude" else "", seconds)


def _since_progress(failure: Failure, history: Sequence[Failure]) -> Sequence[Failure]:
    """Returns the earlier failures from the last one before which the job progressed; none if it progressed since."""
    if failure.progressed:
        return ()
    return history[max((index for index, earlier in enumerate(history) if earlier.progressed), default=0) :]


def _spent(policy: Policy, failure: Failure, history: Sequence[Failure]) -> str:
    if len(history) >= policy.budget.restarts:
        return f"the budget of {policy.budget.restarts} restarts is spent"
    earlier = [item for item in _since_progress(failure, history) if not item.progressed]
    if not failure.progressed and 1 + len(earlier) > policy.budget.without_progress:
        return f"{policy.budget.without_progress} restarts in a row brought it no further"
    return ""
