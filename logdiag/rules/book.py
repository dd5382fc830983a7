"""All rules that are in force: loaded once, found in blocks by one scan, confirmed line by line."""

from __future__ import annotations

import marshal
import os
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from logdiag.errors import RuleError
from logdiag.model import HEX, Action, Finding, Line, Reason, Role, Support, fill, fill_title
from logdiag.patterns import pattern_of
from logdiag.read.forms import Forms
from logdiag.rules.matcher import Hit, Matcher
from logdiag.rules.schema import Filter, ReasonEntry, Rule
from logdiag.rules.searching import Match, Searcher

if TYPE_CHECKING:
    from logdiag.rules.literals import Fireable
    from logdiag.settings.places import StrPath

# Parts of a pattern that take any digit, or count; and parts that do not: a certain digit, a repeated group.
_ANY_DIGITS, _CERTAIN_DIGIT = pattern_of(r"\{\d*,?\d*\}|0-9"), pattern_of(r"\d|\(\?P=")
_MOST_CACHED = 8192
_SOFTENING = (Role.HARMLESS, Role.RETRY)
# Roles that are tried only on kept lines, and never scanned for.
_ONLY_KEPT_LINES = (*_SOFTENING, Role.KIND, Role.PROCESS)
_NO_REASON = (Reason.OTHERS.value, Reason.RUNTIME_ERROR.value)
_NOT_IN_THE_TABLE = ReasonEntry(Action.FIX_AND_RESUBMIT)
HARMLESS = "harmless"
"""The kind of a line that a rule of the role `harmless` matches."""
_ROLE_ORDER = (Role.CAUSE, Role.SYMPTOM, Role.HINT, Role.FINISHED, Role.STRUCTURE, Role.PLACE)

Patterns = list[tuple[int, str]]
"""The patterns that one matcher looks for, by their numbers: each with the index of its rule or filter in `entries`."""


class Marks(NamedTuple):
    """Whether the patterns found on a line mark a traceback's `frame`, which of them are of `calls` of collectives, and
    whether a rule may `fire`, which needs a pattern of another role."""

    frame: bool
    calls: tuple[int, ...]
    fire: bool


class RuleBook:
    """The rules in force. Build one with `RuleBook.load`; it may be used from several threads at once.

    `matchers`, `narrower` and `words` are computed from the rules if they are None or empty.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        filters: Sequence[Filter] = (),
        reasons: dict[Reason, ReasonEntry] | None = None,
        confidence: dict[Support, float] | None = None,
        narrower: dict[int, frozenset[int]] | None = None,
        matchers: Sequence[Matcher] | None = None,
        forms: Forms | None = None,
        words: tuple[bytes, ...] = (),
    ) -> None:
        self.forms = forms
        self.rules, self.filters = tuple(rules), tuple(filters)
        self.entries: tuple[Rule | Filter, ...] = (*self.rules, *self.filters)
        self.reasons = reasons or {}
        self.confidence = confidence or dict.fromkeys(Support, 0.0)
        self.roles = tuple(Role(rule.role) for rule in self.rules)
        # Patterns of regular output (progress, filters) and those that soften a line match most lines of every log, so
        # they are not scanned for: line shapes find regular output, and only lines with a failure are softened.
        self.scanned, self.softening, self.regular = self.groups = Patterns(), Patterns(), Patterns()
        for index, (rule, role) in enumerate(zip(self.rules, self.roles, strict=True)):
            group = self.softening if role in _ONLY_KEPT_LINES else self.scanned
            group = self.regular if role is Role.PROGRESS else group
            group += [(index, pattern) for pattern in rule.match]
        for index, item in enumerate(self.filters, len(self.rules)):
            self.regular += [(index, pattern) for pattern in item.drop]
        # What the patterns that read what a line tells of a process are for: ended, host, ...
        numbered = enumerate(index for index, _ in self.softening)
        processes = ((number, self.rules[index]) for number, index in numbered if self.roles[index] is Role.PROCESS)
        self.topics = {number: rule.id.split("/")[2] for number, rule in processes}
        self._searcher = Searcher(_own_patterns(self.entries))
        self.search = self._searcher.on
        self._structural = self._of_role(Role.STRUCTURE)
        self._calls = self._of_role(Role.CALL)
        self._never_fire = self._structural | self._calls
        if matchers is None:
            from logdiag.rules.loading import compiled_matchers, healthy_text

            matchers = compiled_matchers(self, healthy_text(self))
        self.matchers = tuple(matchers)
        self.matcher, self.softening_matcher, self.regular_matcher = self.matchers
        if narrower is None:
            from logdiag.rules.loading import narrower_in

            narrower = narrower_in(self)
        self.narrower = narrower
        if words:
            self.words = words
        # Computed on first use and kept for all diagnoses: the same patterns come again and again.
        self.marks_of = lru_cache(_MOST_CACHED)(self._marks_of)
        self._fireable = cache(self._new_fireable)
        self._framed = cache(self._with_framed_rivals)

    def _of_role(self, role: Role) -> frozenset[int]:
        """The numbers of the scanned patterns whose rules have this role."""
        indices = {index for index, rule_role in enumerate(self.roles) if rule_role is role}
        return frozenset(number for number, (index, _) in enumerate(self.scanned) if index in indices)

    @classmethod
    def load(cls, folders: StrPath | Iterable[StrPath] = ()) -> RuleBook:
        """The shipped rules and those of a folder or several; compiled ones are used as long as nothing changed.
        Raises RuleError with all problems of all files."""
        from logdiag.rules.loading import load

        if isinstance(folders, (str, os.PathLike)):
            folders = (folders,)
        if not isinstance(folders, Iterable) or isinstance(folders, (bytes, bytearray)):
            raise RuleError(f"rules: {folders!r} is no folder of rules; give a path, or several")
        return load(tuple(folders))

    def entry_of(self, reason: Reason) -> ReasonEntry:
        """The entry of a reason in the table; for a reason without one, an entry whose action is for a person."""
        return self.reasons.get(reason, _NOT_IN_THE_TABLE)

    def scan(self, data: bytes) -> list[Hit]:
        """The lines of a block (whole lines, as bytes) on which a rule may fire, in order."""
        return self.matcher.hits(data)

    def patterns_on_shape(self, shape: bytes) -> tuple[int, ...]:
        """The numbers of the patterns that may match on a line of this shape, whatever its numbers are. A shape is the
        line without digits, and with `HEX` for hexadecimal numbers."""
        return self._fireable(HEX in shape).on(shape.replace(HEX, b""))

    def _new_fireable(self, hex: bool) -> Fireable:
        from logdiag.rules.literals import Fireable, Needed

        needed = Needed(*marshal.loads(self.words[hex]))
        return Fireable([pattern for _, pattern in self.scanned], needed, hex=hex)

    @cached_property
    def words(self) -> tuple[bytes, ...]:
        """What `words_of` packs."""
        from logdiag.rules.loading import words_of

        return words_of(self)

    def _marks_of(self, patterns: tuple[int, ...]) -> Marks:
        return Marks(
            not self._structural.isdisjoint(patterns),
            tuple(number for number in patterns if number in self._calls),
            not self._never_fire.issuperset(patterns),
        )

    def take_all_digits(self, patterns: tuple[int, ...]) -> bool:
        """Whether these patterns match on a line whatever its digits are."""
        scanned = (self.scanned[number] for number in patterns)
        return all(self.rules[index].shipped and not asks_for_a_digit(pattern) for index, pattern in scanned)

    def calls_on(self, patterns: tuple[int, ...], text: str) -> list[Match]:
        """The matches on a text of these patterns, which read a rank's collectives."""
        line = Line("", 0, text)
        matches = (self.search(self.scanned[number][1], line) for number in patterns)
        return [match for match in matches if match]

    def found_in(self, text: str, patterns: Iterable[int]) -> list[int]:
        """Those of these patterns that are found in a line's text, wherever its message begins."""
        return [number for number in patterns if self._searcher.within(self.scanned[number][1], text)]

    def confirm(self, line: Line, patterns: Iterable[int], frames: str = "") -> Finding | None:
        """The narrowest rule that really fires on the line, of those whose patterns were found there.

        `frames` is the text of the traceback that ends in this line, for rules that ask where an exception was raised.
        """
        matched: dict[int, Match] = {}
        for number in patterns:
            index, pattern = self.scanned[number]
            if index in matched or number in self._never_fire:
                continue
            match = self.search(pattern, line)
            if match and self._stands(self.rules[index], line, frames):
                matched[index] = match
        if not matched:
            return None
        softened = self._softened(line)
        if softened is not None and self.roles[softened[0]] is Role.HARMLESS:
            # Advice after an error on the same line does not excuse the error.
            matched = {index: match for index, match in matched.items() if match.end() <= softened[1].start()}
            if not matched:
                return self._finding(softened[0], line, softened[1])
        index = self._narrowest(matched)
        finding = self._finding(index, line, matched[index])
        retried = softened is not None and self.roles[softened[0]] is Role.RETRY
        return finding._replace(role=Role.HINT) if retried and finding.role.is_failure else finding

    def announces_retry(self, line: Line) -> bool:
        """Whether a line says that another try follows."""
        softened = self._softened(line)
        return softened is not None and self.roles[softened[0]] is Role.RETRY

    def _softened(self, line: Line) -> tuple[int, Match] | None:
        """The rule that calls a line harmless, or else one that says it announces another try, with its match."""
        retried = None
        for number in sorted(self.softening_matcher.on(line.text)):
            index, pattern = self.softening[number]
            match = self.search(pattern, line) if self.roles[index] in _SOFTENING else None
            if match and self._stands(self.rules[index], line, ""):
                if self.roles[index] is Role.HARMLESS:
                    return index, match
                retried = index, match
        return retried

    def kinds_of(self, lines: Sequence[Line]) -> list[frozenset[str]]:
        """The kinds of each line, in one scan: names of rules in `context/kinds/` and of those that announce a try."""
        kinds: list[frozenset[str]] = [frozenset()] * len(lines)
        for index, patterns in self.softened_by(lines):
            kinds[index] = self.kinds_by(patterns, lines[index])
        return kinds

    def softened_by(self, lines: Sequence[Line]) -> list[tuple[int, tuple[int, ...]]]:
        """Of each line on which a pattern may match that is tried only on kept lines: its index and those patterns."""
        texts = [line.text.encode(errors="replace") for line in lines]
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        return self.softening_matcher.on_lines(b"\n".join(texts), starts)

    def kinds_by(self, patterns: Iterable[int], line: Line) -> frozenset[str]:
        """The kinds that those of these patterns give a line that really match on it."""
        kinds = set()
        for index, pattern in (self.softening[number] for number in patterns if number not in self.topics):
            rule = self.rules[index]
            if self.search(pattern, line) and self._stands(rule, line, ""):
                kinds.add(HARMLESS if self.roles[index] is Role.HARMLESS else rule.id.rpartition("/")[2])
        return frozenset(kinds)

    def told_by(self, number: int, line: Line) -> dict[str, str] | None:
        """What a line tells of a process by one of the patterns in `topics`, by the names of its groups; None where the
        pattern does not match."""
        index, pattern = self.softening[number]
        match = self.search(pattern, line)
        return _facts_in(match) if match and self._stands(self.rules[index], line, "") else None

    def facts_on(self, rule: Rule, line: Line) -> dict[str, str]:
        """All that the named groups of a rule find on a line; of patterns that find the same the first counts."""
        matches = (self.search(pattern, line) for pattern in reversed(rule.match))
        return {name: value for match in matches if match for name, value in _facts_in(match).items()}

    def confirm_all(self, line: Line, frames: str = "") -> Finding | None:
        """As `confirm`, for a line that no scan has seen."""
        return self.confirm(line, sorted(self.matcher.on(line.text)), frames)

    def knows(self, line: Line) -> bool:
        """Whether any rule or filter matches a line: as a failure, harmless, progress, or regular output."""
        if self.confirm_all(line) is not None or self._softened(line) is not None:
            return True
        return self.is_progress(line) or bool(self.filters_of(line))

    def asks_for_frames(self, rule: str) -> bool:
        """Whether a narrower rule than this one asks where an exception was raised."""
        return rule in self._framed()

    def is_progress(self, line: Line) -> bool:
        """Whether a line says that a step of the job's work was made."""
        candidates = (self.regular[number] for number in self.regular_matcher.on(line.text))
        # One is enough, and short patterns are the quickest.
        return any(
            self.search(pattern, line) is not None and self._stands(self.rules[index], line, "")
            for index, pattern in sorted(candidates, key=lambda candidate: len(candidate[1]))
            if index < len(self.rules)
        )

    def filters_of(self, line: Line) -> frozenset[str]:
        """The filters that would drop a line."""
        candidates = (self.regular[number] for number in self.regular_matcher.on(line.text))
        return frozenset(
            self.entries[index].id
            for index, pattern in candidates
            if index >= len(self.rules) and self.search(pattern, line) is not None
        )

    def claims(self, index: int, line: Line, frames: str = "") -> bool:
        """Whether a rule matches a line, whatever other rules say; for checking the rules themselves."""
        rule = self.rules[index]
        return any(self.search(pattern, line) for pattern in rule.match) and self._stands(rule, line, frames)

    def _stands(self, rule: Rule, line: Line, frames: str) -> bool:
        """Whether the conditions of a rule beside its match hold: no `unless` matches, and one of `within`, if any."""
        if any(self.search(pattern, line) for pattern in rule.unless):
            return False
        return not rule.within or any(self._searcher.within(pattern, frames) for pattern in rule.within)

    def _with_framed_rivals(self) -> frozenset[str]:
        framed = {index for index, rule in enumerate(self.rules) if rule.within}
        return frozenset(
            self.rules[index].id for index, narrow in self.narrower.items() if not framed.isdisjoint(narrow)
        )

    @cached_property
    def kinds_of_log(self) -> dict[str, Rule]:
        """The rules that say of what kind a log is, by name."""
        return {rule.id.rpartition("/")[2]: rule for rule in self.rules if rule.id.startswith("context/logs/")}

    @property
    def parts(self) -> tuple[Any, ...]:
        """The arguments with which `RuleBook` builds this book again in another process."""
        arguments = (self.rules, self.filters, self.reasons, self.confidence, self.narrower, self.matchers)
        return (*arguments, self.forms, self.words)

    def fresh(self) -> RuleBook:
        """The same rules for one diagnosis, with nothing passed over yet."""
        book = copy(self)
        book._searcher = self._searcher.fresh()
        book.search = book._searcher.on
        book.forms = self.forms and self.forms.fresh()
        return book

    @property
    def notes(self) -> tuple[str, ...]:
        """Which rules and forms were passed over where a pattern of theirs took too long."""
        named = ((rule.id, (*rule.match, *rule.unless, *rule.within)) for rule in self.rules)
        return (*(self.forms.notes if self.forms else ()), *self._searcher.notes("rule", named))

    def _narrowest(self, matched: dict[int, Match]) -> int:
        narrowest = [index for index in matched if self.narrower.get(index, frozenset()).isdisjoint(matched)]
        candidates = narrowest or matched
        return min(candidates, key=lambda i: (_ROLE_ORDER.index(self.roles[i]), -len(matched[i][0]), self.rules[i].id))

    def _finding(self, index: int, line: Line, match: Match) -> Finding:
        rule = self.rules[index]
        facts = _facts_in(match)
        # Of its table of codes the row of the code on the line, however many zeros stand before it.
        code = facts.get(rule.code_group or "", "")
        row = rule.rows.get(code.lstrip("0") or "0") or rule.rows.get(code, {})
        action, early = row.get("action", rule.action), row.get("action_before_progress", rule.action_before_progress)
        if "action" in row and "action_before_progress" not in row:
            early = None
        # A class of the program's own, which the table does not have.
        unlisted = bool(rule.rows) and not row and rule.reason in _NO_REASON
        return Finding(
            rule=rule.id,
            line=line,
            role=Role(row.get("role", rule.role)),
            reason=Reason(row.get("reason", rule.reason)),
            title=fill_title(row.get("title", rule.title), facts),
            why=fill(row.get("why", rule.why), facts),
            action=Action(action) if action else None,
            action_before_progress=Action(early) if early else None,
            steps=tuple(row.get("steps", rule.steps)),
            explains=frozenset(Reason(name) for name in row.get("explains", rule.explains)),
            facts=facts,
            generality=len(self.narrower.get(index, ())) or int(unlisted),
            goes_on=rule.goes_on,
            ends=rule.ends,
            closes=rule.closes,
            failure_kind=rule.failure_kind,
            trial=rule.trial,
        )


@cache
def asks_for_a_digit(pattern: str) -> bool:
    """Whether a pattern may match on a line and not on one that differs from it in digits only."""
    return _CERTAIN_DIGIT.search(_ANY_DIGITS.sub("", pattern)) is not None


def _facts_in(match: Match) -> dict[str, str]:
    return {name: value.strip() for name, value in match.groupdict().items() if value}


def _own_patterns(entries: Iterable[Rule | Filter]) -> Iterable[str]:
    """The patterns that do not ship."""
    for item in entries:
        if not item.shipped:
            yield from (*item.match, *item.unless, *item.within) if isinstance(item, Rule) else item.drop


def example_line(example: str, forms: Forms | None = None) -> tuple[Line, str]:
    """The line that an example is about (the last one of several), and the traceback above it."""
    from logdiag.read.prefixes import parse_line

    frames, _, last = example.rstrip("\n").rpartition("\n")
    return parse_line(last, forms=forms), frames
