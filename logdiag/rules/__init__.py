"""The rule engine: what is known about lines of logs, as data, and one scan that finds it.

`files` reads the YAML files, `matcher` finds patterns in blocks of bytes, `book` ties both together (`RuleBook.load`,
`.scan`, `.confirm`), `check` proves the rules by their examples.
"""

from logdiag.rules.book import RuleBook
from logdiag.rules.schema import Filter, ReasonEntry, Rule

__all__ = ["Filter", "ReasonEntry", "Rule", "RuleBook"]
