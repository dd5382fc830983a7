"""Rules on trial: what a model wrote and no person has read goes as soon as a person contradicts it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from logdiag.authoring.rule_file import Proposal
from logdiag.authoring.rule_gate import example_of
from logdiag.errors import RuleError
from logdiag.memory.incident import Incident
from logdiag.model import Role
from logdiag.read.prefixes import parse_line
from logdiag.rules import Rule, RuleBook
from logdiag.rules.files import parse
from logdiag.rules.folders import own_files

_FAILURES = (Role.CAUSE, Role.SYMPTOM, Role.HINT)


def on_trial(proposal: Proposal) -> Proposal:
    """The same rule, marked as accepted by no person: it counts for less, and goes when a person contradicts it."""
    return replace(proposal, text=proposal.text + "trial: true\n")


def withdraw_contradicted(incident: Incident, folders: Sequence[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Takes the rules on trial out of force that fire on an incident's line and name another reason than the one that
    a person confirmed; where their files lie now.

    `folders` are those beside the shipped one. Raises RuleError where rules cannot be read or a file cannot be renamed.
    """
    if not (folders and incident.confirmed_by):
        return ()
    rules = parse(own_files(folders)).rules
    wrong = [rule for rule in rules if rule.trial and _contradicted(rule, incident)]
    files = Counter(rule.file for rule in rules)
    return tuple(_withdrawn(rule.id, Path(rule.file), alone=files[rule.file] == 1) for rule in wrong)


def _contradicted(rule: Rule, incident: Incident) -> bool:
    """Whether the rule by itself, whatever others say of the line, gives it another reason."""
    finding = RuleBook([rule]).confirm_all(parse_line(example_of(incident.signature)))
    return finding is not None and finding.role in _FAILURES and finding.reason is not incident.reason


def _withdrawn(identity: str, file: Path, *, alone: bool) -> Path:
    """The rule's file, in which it is alone, under a name that no rule has; an older one of that name gives way."""
    if not alone:
        raise RuleError(f"{file}: a person contradicts the rule on trial {identity}; remove it from among its family")
    aside = file.with_name(f"{file.name}.withdrawn")
    try:
        os.replace(file, aside)
    except OSError as error:
        raise RuleError(
            f"{file}: a person contradicts this rule on trial, and it cannot be renamed ({error.strerror}); remove it"
        ) from error
    return aside
