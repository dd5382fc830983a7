"""Rules, filters and the table of reasons as plain values. Their YAML form is read in `files`.

They are tuples with names, since a thousand of them are made at every start.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from logdiag.model import Action, Reason

# What has no rows shares this; nobody changes it.
_NOTHING: Any = {}


class Rule(NamedTuple):
    """One kind of line; `rules/README.md` explains each field.

    `trial` says that no person has accepted it yet, `shipped` that it comes with logdiag; `id` is its folder and its
    name, `file` where it was read. `rows` maps the value of the group `code_group` to the fields that replace the
    rule's own. Those from `references` on are its proof; `reads` has, for examples that are in `fires` too, what the
    named groups find there.
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
    rows: dict[str, dict[str, Any]] = _NOTHING
    references: tuple[str, ...] = ()
    fires: tuple[str, ...] = ()
    reads: dict[str, dict[str, str]] = _NOTHING
    quiet: tuple[str, ...] = ()
    scenes: tuple[dict[str, Any], ...] = ()
    file: str = ""


class Filter(NamedTuple):
    """Regular output that the digest leaves out, for every job or only for those whose metadata match `job`. Those
    from `drops` on are its proof."""

    id: str
    title: str
    drop: tuple[str, ...]
    job: dict[str, str] = _NOTHING
    shipped: bool = False
    drops: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    file: str = ""


class ReasonEntry(NamedTuple):
    """What holds for every failure of one reason, unless its rule says otherwise. `by_words` has, by kinds of lines in
    the order in which they are asked, what a person should do instead where no rule knows the root's words."""

    action: Action
    action_before_progress: Action | None = None
    explains: tuple[Reason, ...] = ()
    by_words: dict[str, Action] = _NOTHING
    steps: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()
    meaning: str = ""
    for_models: str = ""
    traits: tuple[Literal["service", "peer", "between-nodes"], ...] = ()
