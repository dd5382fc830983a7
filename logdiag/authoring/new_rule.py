"""The first draft of a rule from one line, for a person to go on with."""

from __future__ import annotations

import re

from logdiag.authoring.rule_file import as_yaml, free_id, headline
from logdiag.authoring.suggest import pattern_of
from logdiag.errors import RuleError
from logdiag.judge.suspects.line_features import body_of
from logdiag.judge.suspects.wording import reasons_by_wording
from logdiag.memory.incident import masked
from logdiag.model import Line, Reason, Role
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook

_WHY = "Say in a sentence what happened, and what it makes others do."
_FAILURES = (Role.CAUSE, Role.SYMPTOM, Role.HINT)
_FEWEST_LETTERS = 4


def new_rule(text: str, book: RuleBook, reason: Reason | None = None) -> tuple[str, str]:
    """The id and the file of a rule that fires on a line. Without a reason it is guessed, by the rule that fires today
    or by the line's words. Raises RuleError for a line without words."""
    line = parse_line(text.strip())
    signature = masked(line)
    if not re.search(rf"[A-Za-z_]{{{_FEWEST_LETTERS}}}", signature):
        raise RuleError(f"{text!r}: holds no word of {_FEWEST_LETTERS} letters to know it by; give the whole line")
    pattern = pattern_of(signature)
    if not re.search(pattern, line.message):
        pattern = re.escape(line.message)
    document = {
        "reason": (reason or _guessed(line, book)).value,
        "title": headline(line.message),
        "why": _WHY,
        "match": [pattern],
        "examples": {"fires": [line.text]},
    }
    identity = free_id(re.sub(r"<\w+>|\d+", " ", signature), {rule.id for rule in book.rules})
    return identity, as_yaml(document)


def _guessed(line: Line, book: RuleBook) -> Reason:
    finding = book.confirm_all(line)
    if finding is not None and finding.role in _FAILURES and finding.reason is not Reason.OTHERS:
        return finding.reason
    return next((found for found, _ in reasons_by_wording(body_of(line))), Reason.OTHERS)
