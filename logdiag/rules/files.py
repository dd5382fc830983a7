"""Reads rule files: YAML into `Rule`, `Filter` and the tables, with all problems of all files reported at once."""

from __future__ import annotations

import os
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from logdiag.errors import RuleError
from logdiag.model import Action, Reason, Role, Support
from logdiag.patterns import pattern_of
from logdiag.rules.folders import RuleFile, RuleFiles, shipped_folder
from logdiag.rules.schema import Filter, ReasonEntry, Rule
from logdiag.rules.searching import check_size, wrong_with
from logdiag.rules.tables import Strict, all_of, below, line_of, line_with, load_yaml, validated

_LONGEST_SHOWN = 200
# {rank}   (no repeat: \d{1,6}, and no brace that is printed: \{rank\})
_PIECE = pattern_of(r"\{([a-z_]+)\}")


def _usable(pattern: str, info: ValidationInfo) -> str:
    """Checks a pattern of the user's own; those that ship are proved by the tests. Raises ValueError."""
    problem = "" if info.context is None or info.context.ships else wrong_with(_whole(pattern))
    if problem:
        raise ValueError(
            f"{pattern if len(pattern) <= _LONGEST_SHOWN else f'{pattern[:_LONGEST_SHOWN]}...'}: {problem}"
        )
    return pattern


_Pattern = Annotated[str, AfterValidator(_usable)]


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


class _Row(Strict):
    title: str | None = None
    why: str | None = None
    reason: Reason | None = None
    action: Action | None = None
    action_before_progress: Action | None = None
    role: Role | None = None
    steps: list[str] | None = None
    explains: list[Reason] | None = None


class _Codes(Strict):
    group: str
    """The named group whose value selects the row."""
    exceptions: bool = False
    """The group is the class of a Python exception: what has no row here takes its reason from `exceptions.yaml`."""
    rows: dict[Annotated[str, BeforeValidator(_as_text)], _Row] = Field(default={})

    @model_validator(mode="after")
    def _selects_something(self) -> _Codes:
        if not self.rows and not self.exceptions:
            raise ValueError("there are no rows; write at least one")
        return self


class _Answer(Strict):
    failed: bool | None
    reason: Reason
    root: int | None = Field(ge=1)


class _Scene(Strict):
    about: str
    log: str
    answer: _Answer


_Fact = Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "number"]})]


class _Examples(Strict):
    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["fires"]}, {"required": ["reads"]}]})

    fires: list[str] = Field(default=[])
    """Whole lines as they are printed, which the rule is for; of several lines the last."""
    reads: dict[str, dict[str, _Fact]] = Field(default={})
    """The same, each with all that the named groups find on it."""
    quiet: tuple[str, ...] = ()
    """Near misses: what looks alike and must not match."""
    scenes: tuple[_Scene, ...] = ()
    """Short logs with their answer, for what the examples cannot show."""

    @model_validator(mode="after")
    def _has_some(self) -> _Examples:
        if not self.fires and not self.reads:
            raise ValueError("there is no line that the rule is for; write one below fires")
        return self


class _RuleFile(Strict):
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
    steps: tuple[str, ...] = ()
    """What a person does; {facts} are filled in."""
    match: list[_Pattern] = Field(min_length=1)
    """Regular expressions, any of them on one line; ^ is the start of the message; named groups become facts."""
    unless: tuple[_Pattern, ...] = ()
    """Not when one of these is on the line too; each needs a quiet example of its own."""
    within: tuple[_Pattern, ...] = ()
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
    explains: tuple[Reason, ...] = ()
    """Reasons that this cause makes other lines and ranks show, beyond the reason's own."""
    codes: _Codes | None = None
    """A table: the value of a named group selects a row, which replaces the rule's own fields."""
    references: tuple[str, ...] = ()
    """Where a vendor or a project documents the message."""
    examples: _Examples

    @model_validator(mode="after")
    def _fits_its_role(self) -> _RuleFile:
        if self.role.is_context and (self.reason or self.action):
            raise ValueError(f"a {self.role.value} rule has no reason and no action; remove them")
        if not self.role.is_context and self.reason in (None, Reason.NONE):
            raise ValueError("reason is missing; name one of the taxonomy's reasons, or a context role")
        if not self.role.is_context and not self.why:
            raise ValueError("why is missing; say in a sentence what happened and what it makes others do")
        return self


class _FamilyFile(Strict):
    about: str = Field(min_length=1)
    """A sentence: what the rules of this file have in common."""
    rules: dict[Annotated[str, Field(pattern=r"^[\w.-]+$")], _RuleFile] = Field(min_length=1)
    """Each rule by its name; its id is the file's folder and that name."""


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


_STRINGS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_Text = TypeVar("_Text", bound=str)
_OneOrMore = Annotated[
    list[_Text],
    BeforeValidator(_as_list),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, _STRINGS]}),
]


class _CatalogueRow(_Row):
    """One family of messages. What it leaves out comes from its catalogue, or is as in a rule."""

    title: str
    match: _OneOrMore[_Pattern]
    fires: _OneOrMore[str]
    quiet: list[str] | None = None
    unless: list[_Pattern] | None = None
    goes_on: bool | None = None
    ends: bool | None = None
    codes: _Codes | None = None
    at: str


class _CatalogueFile(Strict):
    component: str
    sources: list[str] = Field(min_length=1)
    why: str
    reason: Reason | None = None
    action: Action | None = None
    action_before_progress: Action | None = None
    explains: tuple[Reason, ...] = ()
    steps: tuple[str, ...] = ()
    quiet: list[str] = Field(min_length=1)
    rows: dict[str, _CatalogueRow] = Field(min_length=1)


_OF_A_CATALOGUE = frozenset({"why", "reason", "action", "action_before_progress", "explains", "steps"})


class _FilterExamples(Strict):
    drops: list[str] = Field(min_length=1)
    keeps: tuple[str, ...] = ()


class _FilterFile(Strict):
    title: str
    drop: list[_Pattern] = Field(min_length=1)
    job: dict[str, str] = Field(default={})
    examples: _FilterExamples


class _ConfidenceFile(Strict):
    weights: dict[Support, float]


_PiecesFile = RootModel[dict[str, str]]
_ExceptionsFile = RootModel[dict[Reason, list[str]]]


class _ReasonsFile(RootModel[dict[Reason, ReasonEntry]]):
    @model_validator(mode="after")
    def _is_whole(self) -> _ReasonsFile:
        missing = [reason.value for reason in Reason if reason is not Reason.NONE and reason not in self.root]
        if missing:
            raise ValueError(f"{', '.join(missing)} missing; the table holds each reason once")
        return self


FORMS: dict[str, type[BaseModel]] = {
    "rule": _RuleFile, "family": _FamilyFile, "catalogue": _CatalogueFile, "filter": _FilterFile,
}  # fmt: skip
"""The kinds of files that users write, by name."""


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
    """The content of rule files.

    Raises RuleError with a line for each problem of each file: the file, the line, the reason and the remedy.
    """
    # The forms of lines are read by logdiag.read.form_files, these tables where a rule asks for them.
    elsewhere = ("exceptions", "pieces")
    wanted = [file for name, file in files.contents.items() if not name.startswith("forms/") and name not in elsewhere]
    contents = dict(zip([file.id for file in wanted], all_of(_read, wanted), strict=True))
    reasons, confidence = contents.pop("reasons", {}), contents.pop("confidence", {})
    filters = [item for items in contents.values() for item in items if isinstance(item, Filter)]
    rules = _by_id([(files.contents[name], item) for name, items in contents.items() for item in items])
    own = [pattern for rule in rules if not rule.shipped for pattern in (*rule.match, *rule.unless, *rule.within)]
    own += [pattern for item in filters if not item.shipped for pattern in item.drop]
    check_size("rules", own)
    return Parsed(rules, sorted(filters, key=lambda item: item.id), reasons, confidence)


def _by_id(found: list[tuple[RuleFile, Any]]) -> list[Rule]:
    """The rules in the order of their ids. A rule in a later folder replaces one of the same id in an earlier folder.
    Raises RuleError if one folder has an id twice."""
    owners: dict[str, tuple[RuleFile, Rule]] = {}

    def take(item: tuple[RuleFile, Any]) -> None:
        file, rule = item
        other = owners.get(rule.id, item)[0]
        if other.folder == file.folder and other is not file:
            raise RuleError(
                f"{file.path}:{line_of(file.content, below(rule.id))}: {rule.id}: is in {other.path} too; keep one"
            )
        owners[rule.id] = file, rule

    all_of(take, [item for item in found if isinstance(item[1], Rule)])
    return [owners[identity][1] for identity in sorted(owners)]


def _read(file: RuleFile) -> Any:
    """The content of one file: a list of rules or filters, or a table."""
    document = load_yaml(file)
    if file.id == "reasons":
        return validated(_ReasonsFile, file, document).root
    if file.id == "confidence":
        return _weights(file, document)
    if "/" not in file.id:
        raise RuleError(f"{file.path}:1: {file.id}: stands in no topic's folder; move it to <topic>/<name>.yaml")
    if file.id.startswith("filters/"):
        return [_filter(file, validated(_FilterFile, file, document))]
    if file.id.startswith("catalogues/"):
        return _catalogue(file, validated(_CatalogueFile, file, document))
    if "rules" not in document:
        return [_rule(file, file.id, validated(_RuleFile, file, document))]
    folder, family = file.id.rpartition("/")[0], validated(_FamilyFile, file, document)
    return all_of(lambda item: _rule(file, f"{folder}/{item[0]}", item[1]), family.rules.items())


def _catalogue(file: RuleFile, read: _CatalogueFile) -> list[Rule]:
    shared = read.model_dump(mode="json", include=set(_OF_A_CATALOGUE), exclude_none=True)

    def made(item: tuple[str, _CatalogueRow]) -> Rule:
        name, row = item
        own = row.model_dump(mode="json", exclude_none=True)
        if row.role is None or not row.role.is_context:
            # A row's own action also stands for the time before the first step.
            hidden = {"action_before_progress"} if row.action else set()
            own = {name: value for name, value in shared.items() if name not in hidden} | own
        own["examples"] = {"fires": own.pop("fires"), "quiet": [*own.pop("quiet", []), *read.quiet]}
        own["references"] = [f"{source}: {row.at}" for source in read.sources]
        del own["at"]
        return _made(file, f"{file.id}/{name}", validated(_RuleFile, file, own, at=("rows", name)))

    return all_of(made, read.rows.items())


def _rule(file: RuleFile, identity: str, read: _RuleFile) -> Rule:
    folder = "context/processes/" if read.role is Role.PROCESS else "context/"
    context = read.role.is_context
    if context != identity.startswith(folder):
        where = f"in {folder}" if context else "in a topic's folder, not in context/"
        position = f"{file.path}:{line_of(file.content, [*below(identity), 'role'])}: role"
        what = f"{identity} is a {read.role.value} rule, which stands {where}"
        raise RuleError(f"{position}: {what}; move it or change its role")
    return _made(file, identity, read)


def _made(file: RuleFile, identity: str, read: _RuleFile) -> Rule:
    fields = read.model_dump(mode="json", exclude={"codes", "examples"})
    examples = read.examples.model_dump(mode="json")
    examples["fires"] += examples["reads"]
    rows: dict[str, dict[str, Any]] = {}
    if read.codes:
        if read.codes.exceptions:
            reasons = _shipped_table("exceptions.yaml", _ExceptionsFile).root.items()
            rows = {name: {"reason": reason.value} for reason, names in reasons for name in names}
        rows |= {key: row.model_dump(mode="json", exclude_none=True) for key, row in read.codes.rows.items()}
    if read.role is Role.PROCESS:
        fields["match"] = [_with_pieces(file, identity, pattern) for pattern in read.match]
    reason, group = (read.reason or Reason.NONE).value, read.codes and read.codes.group
    fields |= {"reason": reason, "code_group": group, "rows": rows}
    return Rule(id=identity, shipped=file.ships, file=file.path, **_with_tuples(fields), **_with_tuples(examples))


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _with_pieces(file: RuleFile, identity: str, pattern: str) -> str:
    """A pattern with what its pieces stand for. Raises RuleError for one that is not in the table."""
    whole = _whole(pattern)
    if unknown := _PIECE.search(whole):
        position = f"{file.path}:{line_with(file.content, pattern, below(identity))}: {identity}"
        known = ", ".join(_shipped_table("pieces.yaml", _PiecesFile).root)
        raise RuleError(f"{position}: {unknown[0]} is no piece; use one of {known}, or write it out")
    return whole


def _whole(pattern: str) -> str:
    return _PIECE.sub(lambda piece: _shipped_table("pieces.yaml", _PiecesFile).root.get(piece[1], piece[0]), pattern)


@cache
def _shipped_table(name: str, form: type[BaseModel]) -> Any:
    path = os.path.join(shipped_folder(), name)
    with open(path, "rb") as opened:
        file = RuleFile(path, opened.read())
    return validated(form, file, load_yaml(file))


def _filter(file: RuleFile, read: _FilterFile) -> Filter:
    fields, examples = read.model_dump(exclude={"examples"}), read.examples.model_dump()
    return Filter(id=file.id, shipped=file.ships, file=file.path, **_with_tuples(fields), **_with_tuples(examples))


def _weights(file: RuleFile, document: dict[str, Any]) -> dict[Support, float]:
    """The weights of a file; a team's own file may leave some to the shipped one."""
    weights = validated(_ConfidenceFile, file, document).weights
    if not file.ships:
        shipped: _ConfidenceFile = _shipped_table("confidence.yaml", _ConfidenceFile)
        return shipped.weights | weights
    if missing := [support.value for support in Support if support not in weights]:
        raise RuleError(f"{file.path}:1: weights: {', '.join(missing)} missing; fit them again with make calibrate")
    return weights
