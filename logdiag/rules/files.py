"""Reads rule files: YAML into `Rule`, `Filter` and the tables, with every problem of every file reported at once."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from logdiag.errors import RuleError
from logdiag.model import Action, Reason, Role, Support
from logdiag.rules import limits
from logdiag.rules.folders import RuleFiles, shipped_folder
from logdiag.rules.schema import Filter, ReasonEntry, Rule

__all__ = ["FORMS", "Parsed", "load_yaml", "parse", "schema_of", "validated"]

_FAILURE_ROLES = (Role.CAUSE, Role.SYMPTOM, Role.HINT)
_LONGEST_CAUSE = 200
_CONTEXT_ROLES = (
    Role.PROGRESS, Role.FINISHED, Role.HARMLESS, Role.RETRY, Role.STRUCTURE, Role.PLACE, Role.CALL, Role.KIND,
)  # fmt: skip


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


class _Row(_Strict):
    title: str | None = None
    why: str | None = None
    reason: Reason | None = None
    action: Action | None = None
    action_before_progress: Action | None = None
    role: Role | None = None
    steps: list[str] | None = None
    explains: list[Reason] | None = None


class _Codes(_Strict):
    group: str
    """The named group whose value selects the row."""
    exceptions: bool = False
    """The group is the class of a Python exception: what has no row here takes its reason from `exceptions.yaml`."""
    rows: dict[Annotated[str, BeforeValidator(_as_text)], _Row] = {}

    @model_validator(mode="after")
    def _selects_something(self) -> _Codes:
        if not self.rows and not self.exceptions:
            raise ValueError("there are no rows; write at least one")
        return self


class _Answer(_Strict):
    failed: bool | None
    reason: Reason
    root: int | None = Field(ge=1)


class _Scene(_Strict):
    about: str
    log: str
    answer: _Answer


class _Examples(_Strict):
    fires: list[str] = Field(min_length=1)
    """Whole lines as they are printed, which the rule is for; of several lines the last."""
    quiet: list[str] = []
    """Near misses: what looks alike and must not match."""
    scenes: list[_Scene] = []
    """Short logs with their answer, for what the examples cannot show."""


class _RuleFile(_Strict):
    title: str
    """The headline of the report; {facts} are filled in."""
    why: str = ""
    """A sentence: what happened, and what it makes others do."""
    role: Role = Role.CAUSE
    """What a match is worth: cause, symptom or hint, or the role of a context rule."""
    reason: Reason | None = None
    """One of the reasons that `logdiag reasons` explains; none in a context rule."""
    action: Action | None = None
    """What to do; left out: the reason's default."""
    action_before_progress: Action | None = None
    """What to do where the log shows that it failed before any step was made."""
    steps: list[str] = []
    """What a person does; {facts} are filled in."""
    match: list[str] = Field(min_length=1)
    """Regular expressions, any of them on one line; ^ is the start of the message; named groups become facts."""
    unless: list[str] = []
    """Not when one of these is on the line too; each needs a quiet example of its own."""
    within: list[str] = []
    """One of these must be found in the frames of the traceback above the line."""
    goes_on: bool = False
    """What prints this line usually goes on working."""
    ends: bool = False
    """The process dies with this line; the next line is its message."""
    closes: bool = False
    """A launcher's last words: what the same output shows afterwards is another program's."""
    failure_kind: Literal["", "hang", "not-finite", "loss-spike", "straggler"] = ""
    """What it is where no reason says so."""
    trial: bool = False
    """No person has accepted the rule yet."""
    explains: list[Reason] = []
    """Reasons that this cause makes other lines and ranks show, beyond the reason's own."""
    codes: _Codes | None = None
    """A table: the value of a named group selects a row, which replaces the rule's own fields."""
    references: list[str] = []
    """Where a vendor or a project documents the message."""
    examples: _Examples

    @model_validator(mode="after")
    def _fits_its_role(self) -> _RuleFile:
        if self.role in _CONTEXT_ROLES and (self.reason or self.action):
            raise ValueError(f"a {self.role.value} rule has no reason and no action; remove them")
        if self.role in _FAILURE_ROLES and self.reason in (None, Reason.NONE):
            raise ValueError("reason is missing; name one of the taxonomy's reasons, or a context role")
        if self.role in _FAILURE_ROLES and not self.why:
            raise ValueError("why is missing; say in a sentence what happened and what it makes others do")
        return self


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


_STRINGS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_OneOrMore = Annotated[
    list[str],
    BeforeValidator(_as_list),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, _STRINGS]}),
]


class _CatalogueRow(_Row):
    """One family of messages. What it leaves out comes from its catalogue, or is as in a rule."""

    title: str
    match: _OneOrMore
    fires: _OneOrMore
    quiet: list[str] | None = None
    unless: list[str] | None = None
    goes_on: bool | None = None
    ends: bool | None = None
    codes: _Codes | None = None
    at: str


class _CatalogueFile(_Strict):
    component: str
    sources: list[str] = Field(min_length=1)
    why: str
    reason: Reason | None = None
    action: Action | None = None
    action_before_progress: Action | None = None
    explains: list[Reason] = []
    steps: list[str] = []
    quiet: list[str] = Field(min_length=1)
    rows: dict[str, _CatalogueRow] = Field(min_length=1)


_OF_A_CATALOGUE = frozenset({"why", "reason", "action", "action_before_progress", "explains", "steps"})


class _FilterExamples(_Strict):
    drops: list[str] = Field(min_length=1)
    keeps: list[str] = []


class _FilterFile(_Strict):
    title: str
    drop: list[str] = Field(min_length=1)
    job: dict[str, str] = {}
    examples: _FilterExamples


class _ConfidenceFile(_Strict):
    weights: dict[Support, float]


class _ExceptionsFile(RootModel[dict[Reason, list[str]]]):
    pass


class _ReasonFile(_Strict):
    meaning: str = ""
    for_models: str = ""
    traits: list[Literal["service", "peer", "between-nodes"]] = []
    action: Action
    action_before_progress: Action | None = None
    explains: list[Reason] = []
    steps: list[str] = []
    collect: list[str] = []


FORMS: dict[str, type[BaseModel]] = {"rule": _RuleFile, "catalogue": _CatalogueFile, "filter": _FilterFile}
"""The kinds of files that users write, by what they are called."""


def schema_of(form: str) -> dict[str, Any]:
    """The JSON Schema of one of `FORMS`, for editors."""
    schema = FORMS[form].model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": f"logdiag {form}"}


class Parsed(NamedTuple):
    """What rule folders hold: rules, filters, the table of reasons, and the weights of the confidence."""

    rules: list[Rule]
    filters: list[Filter]
    reasons: dict[Reason, ReasonEntry]
    confidence: dict[Support, float]


def parse(files: RuleFiles) -> Parsed:
    """All that the files say.

    Raises RuleError with a line for each problem of each file: the file, the line, the reason and the remedy.
    """
    rules: list[Rule] = []
    filters: list[Filter] = []
    reasons: dict[Reason, ReasonEntry] = {}
    confidence: dict[Support, float] = {}
    problems: list[str] = []
    for identity, (path, content) in sorted(files.contents.items()):
        if identity.startswith("forms/") or identity == "exceptions":
            continue  # read by logdiag.read.form_files, and where a rule asks for it
        try:
            document = load_yaml(path, content)
            if identity == "reasons":
                reasons = _reasons(path, content, document)
            elif identity == "confidence":
                confidence = _weights(path, content, document)
            elif identity.startswith("filters/"):
                filters.append(_filter(identity, path, content, document))
            elif identity.startswith("catalogues/"):
                rules += _catalogue(identity, path, content, document)
            else:
                rules.append(_rule(identity, path, content, document))
        except RuleError as error:
            problems.append(str(error))
    own = [pattern for rule in rules if not rule.shipped for pattern in (*rule.match, *rule.unless, *rule.within)]
    own += [pattern for item in filters if not _ships(item.file) for pattern in item.drop]
    if sum(map(limits.size, own)) > limits.LARGEST:
        most = f"{limits.LARGEST:,} characters with their repeats"
        problems.append(f"rules: the {len(own):,} patterns of your own stand for more than {most}; bound them lower")
    if problems:
        raise RuleError("\n".join(problems))
    return Parsed(rules, filters, reasons, confidence)


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, and says the line of whatever cannot be read."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, TypeError, OverflowError, LookupError, AttributeError) as error:
            what = f"{getattr(error, 'reason', None) or error}"[:_LONGEST_CAUSE]
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from error


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        wrong = "" if isinstance(key, Hashable) else "a key must be a word, no list and no mapping"
        if wrong or key in seen:
            what = wrong or f"the key {key!r} is given twice; keep one"
            raise yaml.constructor.ConstructorError(None, None, what, key_node.start_mark)
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_yaml(path: str, content: bytes) -> dict[str, Any]:
    """The mapping that a file holds. Raises RuleError naming the file, the line and the remedy."""
    loader = None
    try:
        loader = _Loader(content.decode("utf-8"))
        document = loader.get_single_data()
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except RecursionError as error:
        line = loader.get_mark().line + 1 if loader else 1
        raise RuleError(
            f"{path}:{line}: not valid YAML: nested too deeply; see rules/README.md for the form"
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or str(error)
        raise RuleError(f"{path}{where}: not valid YAML: {what}; quote patterns with single quotes") from error
    if not isinstance(document, dict):
        raise RuleError(f"{path}: holds no mapping; see rules/README.md for the form of a rule")
    return document


def validated(
    model: type[BaseModel], path: str, content: bytes, document: Any, where: str = "", guide: str = "rules/README.md"
) -> Any:
    """A document as `model` has it; `where` in the file it stands, `guide` is the page on its form. Raises RuleError
    with all problems."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        lines = content.decode("utf-8", errors="replace").splitlines()
        problems = []
        for item in error.errors():
            names = [str(part) for part in item["loc"]]
            number = _line_of(lines, names)
            field_name = ".".join([where, *names] if where else names) or "file"
            problems.append(f"{path}:{number}: {field_name}: {item['msg']}; see {guide} for the allowed form")
        raise RuleError("\n".join(problems)) from error


def _ships(path: str) -> bool:
    """Whether a rule file comes with logdiag."""
    return path.startswith(shipped_folder() + os.sep)


def _check_patterns(path: str, content: bytes, patterns: Sequence[str]) -> None:
    """Raises RuleError for patterns of one's own that cannot be used; those that ship are proved by the tests."""
    if _ships(path):
        return
    problems = []
    lines = content.decode("utf-8", errors="replace").splitlines()
    for pattern in patterns:
        if wrong := limits.wrong_with(pattern):
            written = pattern.replace("'", "''")
            number = next((at for at, line in enumerate(lines, 1) if pattern in line or written in line), 1)
            shown = pattern if len(pattern) <= _LONGEST_CAUSE else f"{pattern[:_LONGEST_CAUSE]}..."
            problems.append(f"{path}:{number}: {shown}: {wrong}")
    if problems:
        raise RuleError("\n".join(problems))


def _line_of(lines: list[str], names: list[str]) -> int:
    for name in reversed(names):
        for number, line in enumerate(lines, 1):
            if line.lstrip(" -{").startswith((f"{name}:", f"'{name}':")):
                return number
    return 1


def _catalogue(identity: str, path: str, content: bytes, document: dict[str, Any]) -> list[Rule]:
    """The rules of a catalogue, one a row."""
    read: _CatalogueFile = validated(_CatalogueFile, path, content, document)
    shared = read.model_dump(mode="json", include=set(_OF_A_CATALOGUE), exclude_none=True)
    rules, problems = [], []
    for name, row in read.rows.items():
        own = row.model_dump(mode="json", exclude_none=True)
        if row.role not in _CONTEXT_ROLES:
            # A row's own action also stands for the time before the first step.
            hidden = {"action_before_progress"} if row.action else set()
            own = {name: value for name, value in shared.items() if name not in hidden} | own
        own["examples"] = {"fires": own.pop("fires"), "quiet": [*own.pop("quiet", []), *read.quiet]}
        own["references"] = [f"{source}: {row.at}" for source in read.sources]
        del own["at"]
        try:
            rules.append(_made(f"{identity}/{name}", path, validated(_RuleFile, path, content, own, name)))
        except RuleError as error:
            problems.append(str(error))
    if problems:
        raise RuleError("\n".join(problems))
    _check_patterns(path, content, [pattern for rule in rules for pattern in (*rule.match, *rule.unless)])
    return rules


def _rule(identity: str, path: str, content: bytes, document: dict[str, Any]) -> Rule:
    read: _RuleFile = validated(_RuleFile, path, content, document)
    _check_patterns(path, content, [*read.match, *read.unless, *read.within])
    folder = identity.split("/", 1)[0]
    context = read.role in _CONTEXT_ROLES
    if "/" not in identity:
        raise RuleError(f"{path}:1: {identity}: stands in no topic's folder; move it to <topic>/<name>.yaml")
    if context != (folder == "context"):
        where = "in context/" if context else "in a topic's folder, not in context/"
        raise RuleError(f"{path}:1: role: a {read.role.value} rule stands {where}; move it or change its role")
    return _made(identity, path, read)


def _made(identity: str, path: str, read: _RuleFile) -> Rule:
    rows: dict[str, dict[str, Any]] = {}
    if read.codes:
        rows = dict(_rows_of_exceptions()) if read.codes.exceptions else {}
        rows |= {key: row.model_dump(mode="json", exclude_none=True) for key, row in read.codes.rows.items()}
    return Rule(
        id=identity,
        role=read.role.value,
        reason=(read.reason or Reason.NONE).value,
        title=read.title,
        why=read.why,
        match=tuple(read.match),
        unless=tuple(read.unless),
        within=tuple(read.within),
        goes_on=read.goes_on,
        ends=read.ends,
        closes=read.closes,
        failure_kind=read.failure_kind,
        trial=read.trial,
        shipped=_ships(path),
        action=read.action.value if read.action else None,
        action_before_progress=read.action_before_progress.value if read.action_before_progress else None,
        steps=tuple(read.steps),
        explains=tuple(item.value for item in read.explains),
        code_group=read.codes.group if read.codes else None,
        rows=rows,
        references=tuple(read.references),
        fires=tuple(read.examples.fires),
        quiet=tuple(read.examples.quiet),
        scenes=tuple(scene.model_dump(mode="json") for scene in read.examples.scenes),
        file=path,
    )


@cache
def _rows_of_exceptions() -> dict[str, dict[str, Any]]:
    """The reason of each class that the shipped table names, as rows."""
    path = os.path.join(shipped_folder(), "exceptions.yaml")
    with open(path, "rb") as file:
        content = file.read()
    table: dict[Reason, list[str]] = validated(_ExceptionsFile, path, content, load_yaml(path, content)).root
    return {name: {"reason": reason.value} for reason, names in table.items() for name in names}


def _filter(identity: str, path: str, content: bytes, document: dict[str, Any]) -> Filter:
    read: _FilterFile = validated(_FilterFile, path, content, document)
    _check_patterns(path, content, read.drop)
    return Filter(
        id=identity,
        title=read.title,
        drop=tuple(read.drop),
        job=read.job,
        drops=tuple(read.examples.drops),
        keeps=tuple(read.examples.keeps),
        file=path,
    )


def _weights(path: str, content: bytes, document: dict[str, Any]) -> dict[Support, float]:
    """The weights of a file; a team's own file may leave some to the shipped one."""
    read: _ConfidenceFile = validated(_ConfidenceFile, path, content, document)
    missing = [support.value for support in Support if support not in read.weights]
    shipped = os.path.join(shipped_folder(), "confidence.yaml")
    if missing and path == shipped:
        raise RuleError(f"{path}:1: weights: {', '.join(missing)} missing; fit them again with make calibrate")
    if not missing:
        return read.weights
    with open(shipped, "rb") as file:
        own = file.read()
    return _weights(shipped, own, load_yaml(shipped, own)) | read.weights


def _reasons(path: str, content: bytes, document: dict[str, Any]) -> dict[Reason, ReasonEntry]:
    unknown = [name for name in document if name not in {reason.value for reason in Reason}]
    missing = [reason.value for reason in Reason if reason is not Reason.NONE and reason.value not in document]
    if unknown or missing:
        wrong = ", ".join([f"{name} is unknown" for name in unknown] + [f"{name} is missing" for name in missing])
        raise RuleError(f"{path}:1: {wrong}; the table holds each reason of the taxonomy once")
    table = {}
    for name, entry in document.items():
        read: _ReasonFile = validated(_ReasonFile, path, content, entry, name)
        table[Reason(name)] = ReasonEntry(
            action=read.action.value,
            action_before_progress=read.action_before_progress.value if read.action_before_progress else None,
            explains=tuple(reason.value for reason in read.explains),
            steps=tuple(read.steps),
            collect=tuple(read.collect),
            meaning=read.meaning,
            for_models=read.for_models,
            traits=tuple(read.traits),
        )
    return table
