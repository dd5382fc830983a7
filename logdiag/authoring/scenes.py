"""Proves the fields of a rule that change answers, such as `goes_on`: some short log, made of the rule's examples or
written in its file, must get another answer without the field."""

from __future__ import annotations

from collections.abc import Container, Iterator
from copy import copy
from functools import cache, partial
from typing import Any, NamedTuple

from logdiag.agent.forms import data_of
from logdiag.model import Role
from logdiag.pipeline import diagnose
from logdiag.rules.book import RuleBook
from logdiag.rules.schema import Rule
from logdiag.rules.tables import Problem, problem_at

_EXAMPLE = "<example>"
_MOST_OF_A_REASON = 4


class _Scene(NamedTuple):
    """A log, and the job's exit status; `_EXAMPLE` stands in the log for a rule's example."""

    log: str
    exit_code: int | None = None


_AROUND, _ALONE = (
    [_Scene(**scene) for scene in data_of("scenes.yaml", __file__)[name]] for name in ("around", "alone")
)


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
    def answer(scene: _Scene) -> _Answer:
        return _answer(scene, book)

    for written in rule.scenes:
        actual = answer(_Scene(written["log"]))
        if (actual.failed, actual.reason, actual.root) != tuple(written["answer"].values()):
            what = f"the scene {written['about']!r} is answered {actual.failed}, {actual.reason}, line {actual.root}"
            yield problem(written["about"], what, "mend the rule or the scene")
    if book.roles[index] is Role.CAUSE and not any(answer(scene).rule == rule.id for scene in _with(rule, _ALONE)):
        yield problem("fires", "no example alone is a failed job's cause", "add a whole line, as it is printed")
    for field, others, without in _fields_to_prove(rule, book):
        changed = copy(book)
        changed.rules = (*book.rules[:index], without, *book.rules[index + 1 :])
        scenes = [*_with(rule, others), *(_Scene(written["log"]) for written in rule.scenes)]
        if all(answer(scene) == _answer(scene, changed) for scene in scenes):
            key = field.split(":")[0]
            yield problem(key, f"{field} changes no answer", "remove it, or add a scene where it counts")


def _fields_to_prove(rule: Rule, book: RuleBook) -> Iterator[tuple[str, list[_Scene], Rule]]:
    """Each field of a rule that needs proof, the scenes that may prove it, and the rule without it."""
    for field in ("goes_on", "ends", "closes"):
        without: dict[str, Any] = {field: False}
        if getattr(rule, field):
            yield field, _AROUND, rule._replace(**without)
    if rule.action_before_progress:
        yield "action_before_progress", _ALONE, rule._replace(action_before_progress=None)
    for reason in rule.explains:
        less = rule._replace(explains=tuple(other for other in rule.explains if other != reason))
        yield f"explains: {reason}", list(_beside(rule, reason, book)), less


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
            yield _Scene(f"{other.fires[0]}\n{_EXAMPLE}\n", exit_code=1)
            yield _Scene(f"{_EXAMPLE}\n{other.fires[0]}\n", exit_code=1)


def _with(rule: Rule, scenes: list[_Scene]) -> Iterator[_Scene]:
    """The scenes with each example of a rule in them."""
    for example in rule.fires:
        for scene in scenes:
            yield scene._replace(log=scene.log.replace(_EXAMPLE, example.rstrip("\n")))


def _answer(scene: _Scene, book: RuleBook) -> _Answer:
    diagnosis = diagnose(scene.log.encode(), rules=book, memory=False, exit_code=scene.exit_code)
    root = diagnosis.root_cause
    return _Answer(
        diagnosis.failed,
        diagnosis.reason.value,
        root.line if root else None,
        root.rule if root else None,
        diagnosis.recovery.action.value,
        tuple(item.reason for item in diagnosis.consequences),
    )
