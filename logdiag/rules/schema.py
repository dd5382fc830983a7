"""Rules, filters and the table of reasons as plain frozen values. Their YAML form is read in `files`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Filter", "ReasonEntry", "Rule", "proof_of", "to_plain"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of line; `rules/README.md` explains each field.

    `trial` says that no person has accepted it yet, `shipped` that it comes with logdiag; `id` is the path below the
    rule folder, `file` where it was read. `rows` maps the value of the group `code_group` to the fields that replace
    the rule's own.
    """

    id: str
    role: str
    reason: str
    title: str
    why: str
    match: tuple[str, ...]
    unless: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    goes_on: bool = False
    ends: bool = False
    closes: bool = False
    failure_kind: str = ""
    trial: bool = False
    shipped: bool = False
    action: str | None = None
    action_before_progress: str | None = None
    steps: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    code_group: str | None = None
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    fires: tuple[str, ...] = ()
    quiet: tuple[str, ...] = ()
    scenes: tuple[dict[str, Any], ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """Regular output that the digest leaves out, for every job or only for those whose metadata match `job`."""

    id: str
    title: str
    drop: tuple[str, ...]
    job: dict[str, str] = field(default_factory=dict)
    shipped: bool = False
    drops: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class ReasonEntry:
    """What holds for every failure of one reason, unless its rule says otherwise."""

    action: str
    action_before_progress: str | None = None
    explains: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()
    meaning: str = ""
    for_models: str = ""
    traits: tuple[str, ...] = ()


_FROM = "file"
PROOF = frozenset({"fires", "quiet", "drops", "keeps", "references", "scenes"})
"""What proves a rule or a filter, and no diagnosis needs."""


def to_plain(value: Rule | Filter | ReasonEntry) -> dict[str, Any]:
    """The fields a diagnosis needs, without the proof; keyword arguments that make the value again."""
    return {name: item for name, item in asdict(value).items() if name not in PROOF and name != _FROM}


def proof_of(value: Rule | Filter) -> dict[str, Any]:
    """The fields that prove it."""
    return {name: item for name, item in asdict(value).items() if name in PROOF}
