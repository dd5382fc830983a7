"""Proves the fields of a rule that change answers, such as `goes_on`: some short log, made of the rule's examples or
written in its file, must get another answer without the field."""

from __future__ import annotations

from collections.abc import Container, Iterator
from copy import copy
from functools import cache, partial
from typing import Any, NamedTuple

from logdiag.model import Role
from logdiag.pipeline import diagnose
from logdiag.rules.book import RuleBook
from logdiag.rules.schema import Rule
from logdiag.rules.tables import Problem, problem_at

_WORK = tuple(f"step: {number} loss: 2.99 lr: 1e-04" for number in (1, 2, 3))
_CALM = (
    "2026-11-20 10:00:00 INFO trainer: loading the shards",
    "2026-11-20 10:00:02 INFO trainer: building the model",
    "2026-11-20 10:00:03 INFO trainer: ready",
)
_RAISED = ("Traceback (most recent call last):", '  File "/srv/job/train.py", line 88, in <module>', "KeyError: 'a'")
_MISSING = ("FileNotFoundError: [Errno 2] No such file or directory: '/data/x'",)
_STARTING = ("n1:1:2 [0] NCCL INFO init.cc:1089 -> 3",)
_MOST_OF_A_REASON = 4

_Lines = tuple[str, ...]


class _Scene(NamedTuple):
    """What stands around an example, and the job's exit status."""

    before: _Lines = ()
    after: _Lines = ()
    exit_code: int | None = None


_SCENES = (
    _Scene(after=_CALM),
    _Scene(after=_CALM, exit_code=1),
    _Scene(after=_MISSING),
    _Scene(after=_WORK),
    _Scene(after=_RAISED),
    _Scene(before=_WORK),
    _Scene(before=_RAISED),
    _Scene(before=_RAISED + _WORK),
)
_ALONE = (_Scene(exit_code=1), _Scene(before=_WORK, exit_code=1), _Scene(before=_STARTING, exit_code=1))


class _Answer(NamedTuple):
    failed: bool | None
    reason: str
    root: int | None
    rule: str | None
    action: str
    consequences: tuple[str, ...]


def prove(book: RuleBook, own: Container[str] | None = None) -> list[Problem]:
    """The problems of the fields that no scene proves, for all rules or for the ids in `own`."""
    return [
        problem
        for index, rule in enumerate(book.rules)
        if own is None or rule.id in own
        for problem in _problems_of_rule(book, index)
    ]


def _problems_of_rule(book: RuleBook, index: int) -> Iterator[Problem]:
    rule = book.rules[index]
    problem = partial(problem_at, rule.file, rule.id)

    @cache
    def answer(lines: _Lines, exit_code: int | None) -> _Answer:
        return _answer(lines, exit_code, book)

    for written in rule.scenes:
        actual = answer(tuple(written["log"].splitlines()), None)
        if (actual.failed, actual.reason, actual.root) != tuple(written["answer"].values()):
            what = f"the scene {written['about']!r} is answered {actual.failed}, {actual.reason}, line {actual.root}"
            yield problem(written["about"], what, "mend the rule or the scene")
    if book.roles[index] is Role.CAUSE and not any(
        answer(log, code).rule == rule.id for log, code in _logs(rule, _ALONE)
    ):
        yield problem("fires", "no example alone is a failed job's cause", "add a whole line, as it is printed")
    for field, others, without in _fields_to_prove(rule, book):
        changed = copy(book)
        changed.rules = (*book.rules[:index], without, *book.rules[index + 1 :])
        scenes = [*_logs(rule, others), *((tuple(item["log"].splitlines()), None) for item in rule.scenes)]
        if all(answer(log, code) == _answer(log, code, changed) for log, code in scenes):
            key = field.split(":")[0]
            yield problem(key, f"{field} changes no answer", "remove it, or add a scene where it counts")


def _fields_to_prove(rule: Rule, book: RuleBook) -> Iterator[tuple[str, tuple[_Scene, ...], Rule]]:
    """Each field of a rule that needs proof, the scenes that may prove it, and the rule without it."""
    for field in ("goes_on", "ends", "closes"):
        without: dict[str, Any] = {field: False}
        if getattr(rule, field):
            yield field, _SCENES, rule._replace(**without)
    if rule.action_before_progress:
        yield "action_before_progress", _ALONE, rule._replace(action_before_progress=None)
    for reason in rule.explains:
        less = rule._replace(explains=tuple(other for other in rule.explains if other != reason))
        yield f"explains: {reason}", tuple(_beside(rule, reason, book)), less


def _beside(rule: Rule, reason: str, book: RuleBook) -> Iterator[_Scene]:
    """Scenes with a line of another reason before, and after, the rule's example."""
    of_reason = [
        other
        for other in book.rules
        if other.reason == reason and other.id != rule.id and "\n" not in other.fires[0]
        if not (other.goes_on or other.closes or other.within or other.rows)
    ]
    for role in (Role.CAUSE, Role.SYMPTOM):
        for other in [other for other in of_reason if other.role == role.value][:_MOST_OF_A_REASON]:
            yield _Scene(before=(other.fires[0],), exit_code=1)
            yield _Scene(after=(other.fires[0],), exit_code=1)


def _logs(rule: Rule, scenes: tuple[_Scene, ...]) -> Iterator[tuple[_Lines, int | None]]:
    for example in rule.fires:
        for scene in scenes:
            yield (*scene.before, *example.rstrip("\n").split("\n"), *scene.after), scene.exit_code


def _answer(lines: _Lines, exit_code: int | None, book: RuleBook) -> _Answer:
    diagnosis = diagnose("\n".join((*lines, "")).encode(), rules=book, memory=False, exit_code=exit_code)
    root = diagnosis.root_cause
    return _Answer(
        diagnosis.failed,
        diagnosis.reason.value,
        root.line if root else None,
        root.rule if root else None,
        diagnosis.recovery.action.value,
        tuple(item.reason for item in diagnosis.consequences),
    )
