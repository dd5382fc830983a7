"""All rules that are in force: loaded once, found in blocks by one scan, confirmed line by line."""

from __future__ import annotations

import marshal
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from logdiag.errors import RuleError
from logdiag.model import Action, Finding, Line, Reason, Role, Support, fill, fill_title, with_nines
from logdiag.read.forms import Forms
from logdiag.rules.matcher import EVERY_PYTHONS, Hit, Matcher
from logdiag.rules.schema import Filter, ReasonEntry, Rule

if TYPE_CHECKING:
    from logdiag.rules.digitless import Fireable
    from logdiag.rules.folders import Folder

Match = Any
"""What a search found: a match of `re` or of `regex`."""

__all__ = ["Hit", "RuleBook", "asks_for_a_digit", "asymmetric", "example_line"]

# A leading ^ means the start of the message, which only a line's prefixes can tell.
_ANCHOR = re.compile(r"^(\(\?[a-zA-Z]+\))?\^")
# What takes every digit alike, or counts; and what does not: a digit, or a group that comes again.
_ANY_DIGITS, _CERTAIN_DIGIT = re.compile(r"\{\d*,?\d*\}|0-9"), re.compile(r"\d|\(\?P=")
_MOST_TOLD = 8192
# Confirming one pattern on one line may take this long; a pattern that needs more did not match.
_CONFIRM_SECONDS = 0.2
# A pattern that was too slow on so many lines of one log is not asked again there.
_MOST_SLOW = 10
_LEFT_OUT = ", and on the lines after these"
_SOFTENING = (Role.HARMLESS, Role.RETRY)
_CALM = (Role.PROGRESS, Role.HARMLESS)
# Asked only of the lines that are kept, and never scanned for.
_ASKED_OF_KEPT = (*_SOFTENING, Role.KIND)
_TOLD_OF_A_LINE = (Role.RETRY, Role.KIND)
# They say of any line what it is beside what rules make of it.
_BESIDE_THE_RULES = (Role.KIND, Role.CALL)
_ROLE_ORDER = (Role.CAUSE, Role.SYMPTOM, Role.HINT, Role.FINISHED, Role.STRUCTURE, Role.PLACE)


class RuleBook:
    """The rules in force. Build one with `RuleBook.load`; it may be used from several threads at once.

    `matchers`, `narrower` and `words` are made from the rules where they are not given; `healthy` is text as healthy
    jobs print it, beside what the rules' own examples show.
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
        healthy: str = "",
        words: bytes = b"",
    ) -> None:
        self.forms = forms
        self.rules = tuple(rules)
        self.filters = tuple(filters)
        self.reasons = reasons or {}
        self.confidence = confidence or dict.fromkeys(Support, 0.0)
        self.roles = tuple(Role(rule.role) for rule in self.rules)
        # Regular output (progress, filters) is told by line shape, and what softens a line is only asked where a
        # failure rule fires: both match the bulk of every log and are not scanned for.
        self._patterns = self._patterns_of(lambda role: role is not Role.PROGRESS and role not in _ASKED_OF_KEPT)
        self._softening = self._patterns_of(lambda role: role in _ASKED_OF_KEPT)
        self._progress = self._patterns_of(lambda role: role is Role.PROGRESS)
        self._drops = tuple((item.id, pattern) for item in self.filters for pattern in item.drop)
        self._filters_from = len(self._progress)
        self._slow: Counter[str] = Counter()
        # Of lines that differ in digits only, by the patterns that were asked.
        self._kinds_told: dict[tuple[bytes, tuple[int, ...]], dict[int, str]] = {}
        self._compiled: dict[str, tuple[Callable[..., Match | None], Callable[..., Match | None]]] = {}
        self.matchers = tuple(matchers or self._compile_matchers(healthy))
        self.matcher, self.softening_matcher, self.regular_matcher = self.matchers
        self._structural = frozenset(
            number for number, (index, _) in enumerate(self._patterns) if self.roles[index] is Role.STRUCTURE
        )
        self._calls = frozenset(
            number for number, (index, _) in enumerate(self._patterns) if self.roles[index] is Role.CALL
        )
        self._never_fire = self._structural | self._calls
        self.narrower = narrower if narrower is not None else _narrower(self)
        self._words = words
        self._shared: list[Fireable] = []  # made when it is first asked, and for all diagnoses

    @classmethod
    def load(cls, folders: Folder | Iterable[Folder] = (), *, proof: bool = False) -> RuleBook:
        """The shipped rules and those of a folder or several; compiled ones are used as long as nothing changed.

        With `proof`, the rules keep their examples and references, which no diagnosis needs. Raises RuleError with
        all problems of all files.
        """
        from logdiag.rules.loading import load

        if isinstance(folders, (str, os.PathLike)):
            folders = (folders,)
        if not isinstance(folders, Iterable) or isinstance(folders, (bytes, bytearray)):
            raise RuleError(f"rules: {folders!r} is no folder of rules; give a path, or several")
        return load(tuple(folders), proof=proof)

    @property
    def entries(self) -> tuple[Rule | Filter, ...]:
        """The rules and the filters."""
        return (*self.rules, *self.filters)

    def scan(self, data: bytes) -> list[Hit]:
        """The lines of a block (whole lines, as bytes) on which a rule may fire, in order."""
        return self.matcher.hits(data)

    def patterns_on_shape(self, shape: bytes) -> tuple[int, ...]:
        """The patterns that may match on a line that reads so without its digits, whatever these are."""
        return self._fireable.on(shape)

    @property
    def _fireable(self) -> Fireable:
        from logdiag.rules.digitless import Fireable

        if not self._shared:
            words = marshal.loads(self._words or self.words)
            self._shared.append(Fireable([pattern for _, pattern in self._patterns], words))
        return self._shared[0]

    @property
    def words(self) -> bytes:
        """Of each pattern that is scanned for the words of which the shapes of its lines hold one, for `marshal`."""
        from logdiag.rules.digitless import words_for

        return marshal.dumps([words_for(pattern) for _, pattern in self._patterns], EVERY_PYTHONS)

    def structural(self, patterns: tuple[int, ...]) -> bool:
        """Whether one of these patterns marks a frame of a traceback."""
        return not self._structural.isdisjoint(patterns)

    def may_fire(self, patterns: tuple[int, ...]) -> bool:
        """Whether one of these patterns is more than a mark of a traceback's frame or of a collective's call."""
        return not self._never_fire.issuperset(patterns)

    def tells_of_calls(self, patterns: tuple[int, ...]) -> bool:
        """Whether one of these patterns is of a rule that tells where a rank is in its collectives."""
        return not self._calls.isdisjoint(patterns)

    def calls_on(self, patterns: tuple[int, ...], line: Line) -> list[dict[str, str]]:
        """What a line tells of a rank's collectives: the groups of each such pattern that matches on it."""
        found = (self._search(self._patterns[number][1], line) for number in patterns if number in self._calls)
        return [match.groupdict() for match in found if match]

    def confirm(self, line: Line, patterns: Iterable[int], frames: str = "") -> Finding | None:
        """The narrowest rule that really fires on the line, of those whose patterns were found there.

        `frames` is the text of the traceback that ends in this line, for rules that ask where an exception was raised.
        """
        matched: dict[int, Match] = {}
        for number in patterns:
            index, pattern = self._patterns[number]
            if index in matched or number in self._never_fire:
                continue
            match = self._search(pattern, line)
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
        return replace(finding, role=Role.HINT) if retried and finding.role in (Role.CAUSE, Role.SYMPTOM) else finding

    def announces_retry(self, line: Line) -> bool:
        """Whether a line says that another try follows."""
        softened = self._softened(line)
        return softened is not None and self.roles[softened[0]] is Role.RETRY

    def _softened(self, line: Line) -> tuple[int, Match] | None:
        """The rule that calls a line harmless, or else one that says it announces another try."""
        retried = None
        for number in sorted(_patterns_in(self.softening_matcher, line.text.encode(errors="replace"))):
            index, pattern = self._softening[number]
            match = self._search(pattern, line) if self.roles[index] is not Role.KIND else None
            if match and self._stands(self.rules[index], line, ""):
                if self.roles[index] is Role.HARMLESS:
                    return index, match
                retried = index, match
        return retried

    def kinds_of(self, lines: Sequence[Line]) -> list[frozenset[str]]:
        """Of what kinds each line is, by the names of the rules in `context/kinds/` and of those that announce another
        try; one scan over all of them."""
        texts = [line.text.encode(errors="replace") for line in lines]
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        asked: set[tuple[int, int]] = set()
        for end, found in self.softening_matcher.find(b"\n".join(texts)):
            at = bisect_right(starts, max(end - 1, 0)) - 1
            asked.update((at, number) for number in found if self.roles[self._softening[number][0]] in _TOLD_OF_A_LINE)
        kinds: list[frozenset[str]] = [frozenset()] * len(lines)
        if len(self._kinds_told) > _MOST_TOLD:
            self._kinds_told.clear()
        told = [self._kinds_told.setdefault((with_nines(line.text), line.starts), {}) for line in lines]
        for at, number in asked:
            kind = told[at].get(number)
            if kind is None:
                index, pattern = self._softening[number]
                rule, line = self.rules[index], lines[at]
                holds = self._search(pattern, line) is not None and self._stands(rule, line, "")
                kind = rule.id.rpartition("/")[2] if holds else ""
                if rule.shipped and not any(map(asks_for_a_digit, (pattern, *rule.unless))):
                    told[at][number] = kind
            if kind:
                kinds[at] |= {kind}
        return kinds

    def confirm_all(self, line: Line, frames: str = "") -> Finding | None:
        """As `confirm`, for a line that no scan has seen."""
        data = line.text.encode(errors="replace")
        return self.confirm(line, sorted(_patterns_in(self.matcher, data)), frames)

    def knows(self, line: Line) -> bool:
        """Whether any rule says what a line is: trouble, harmless, work, or regular output."""
        if self.confirm_all(line) is not None or self._softened(line) is not None:
            return True
        return self.is_progress(line) or bool(self.filters_of(line))

    def asks_for_frames(self, rule: str) -> bool:
        """Whether a narrower rule than this one asks where an exception was raised."""
        return rule in self._framed

    def is_progress(self, line: Line) -> bool:
        """Whether a line says that a step of the job's work was made."""
        return any(
            self._search(pattern, line) is not None and self._stands(self.rules[index], line, "")
            for index, pattern in (
                self._progress[number] for number in self._regular(line) if number < self._filters_from
            )
        )

    def filters_of(self, line: Line) -> frozenset[str]:
        """The filters that would drop a line."""
        drops = (
            self._drops[number - self._filters_from] for number in self._regular(line) if number >= self._filters_from
        )
        return frozenset(name for name, pattern in drops if self._search(pattern, line) is not None)

    def _regular(self, line: Line) -> set[int]:
        return _patterns_in(self.regular_matcher, line.text.encode(errors="replace"))

    def claims(self, index: int, line: Line, frames: str = "") -> bool:
        """Whether a rule matches a line, whatever other rules say; for checking the rules themselves."""
        rule = self.rules[index]
        return any(self._search(pattern, line) for pattern in rule.match) and self._stands(rule, line, frames)

    def claimed(self, index: int, matcher: Matcher | None = None) -> set[int]:
        """The other rules that match an example of a rule; with a `matcher`, those whose patterns it looks for."""
        found: set[int] = set()
        for example in self.rules[index].fires if self.roles[index] not in _BESIDE_THE_RULES else ():
            line, frames = example_line(example, self.forms)
            numbers = _patterns_in(matcher or self.matcher, line.text.encode(errors="replace"))
            rivals = {self._patterns[number][0] for number in numbers} - found - {index}
            found.update(other for other in rivals if self.claims(other, line, frames))
        return found

    def search(self, pattern: str, line: Line) -> Match | None:
        """The first place where a pattern of a rule matches on a line."""
        return self._search(pattern, line)

    def _stands(self, rule: Rule, line: Line, frames: str) -> bool:
        """Whether what a rule asks for beside its match holds."""
        if any(self._search(pattern, line) for pattern in rule.unless):
            return False
        return not rule.within or any(self._stands_in(pattern, frames) for pattern in rule.within)

    @cached_property
    def _framed(self) -> frozenset[str]:
        framed = {index for index, rule in enumerate(self.rules) if rule.within}
        return frozenset(
            self.rules[index].id for index, narrow in self.narrower.items() if not framed.isdisjoint(narrow)
        )

    @cached_property
    def kinds_of_log(self) -> dict[str, Rule]:
        """The rules that tell of what kind a log is, by their names."""
        return {rule.id.rpartition("/")[2]: rule for rule in self.rules if rule.id.startswith("context/logs/")}

    @property
    def parts(self) -> tuple[Any, ...]:
        """What `RuleBook` makes it of again, in another process."""
        made = (self.rules, self.filters, self.reasons, self.confidence, self.narrower, self.matchers, self.forms)
        return (*made, "", self._words)

    def fresh(self) -> RuleBook:
        """The same rules for one diagnosis, with nothing passed over yet."""
        _ = self._framed, self._shipped  # made once, not for each
        book = copy(self)
        book._slow = Counter()
        book._kinds_told = {}
        book.forms = self.forms and self.forms.fresh()
        return book

    @property
    def notes(self) -> tuple[str, ...]:
        """Which rules and forms were passed over where a pattern of theirs took too long."""
        slow = {
            rule.id: sum(self._slow[pattern] for pattern in (*rule.match, *rule.unless, *rule.within))
            for rule in (self.rules if self._slow else ())
        }
        return (self.forms.notes if self.forms else ()) + tuple(
            f"rule {name}: a pattern took longer than {_CONFIRM_SECONDS} s on {count} lines and counts there as not "
            f"found{_LEFT_OUT if count >= _MOST_SLOW else ''}; logdiag rules test shows it"
            for name, count in sorted(slow.items())
            if count
        )

    def _stands_in(self, pattern: str, frames: str) -> bool:
        """Whether a pattern is found in the traceback above a line."""
        try:
            return self._slow[pattern] < _MOST_SLOW and self._compile(pattern)[0](frames) is not None
        except TimeoutError:
            self._slow[pattern] += 1
            return False

    def _search(self, pattern: str, line: Line) -> Match | None:
        if self._slow and self._slow[pattern] >= _MOST_SLOW:
            return None
        search, match = self._compile(pattern)
        try:
            if not _ANCHOR.match(pattern):
                return search(line.text)
            for start in _message_starts(line):
                if found := match(line.text, start):
                    return found
        except TimeoutError:
            self._slow[pattern] += 1
        return None

    def _compile(self, pattern: str) -> tuple[Callable[..., Match | None], Callable[..., Match | None]]:
        """A pattern's search and match. Shipped ones were proved not to run away and use `re`, which compiles them
        three
        times as fast; others run under the time-out of `regex`."""
        if pattern not in self._compiled:
            plain = _ANCHOR.sub(r"\1", pattern)
            try:
                if pattern not in self._shipped:
                    raise re.error("not proved")
                compiled = re.compile(plain)
                self._compiled[pattern] = compiled.search, compiled.match
            except re.error:
                import regex

                timed = regex.compile(plain)
                self._compiled[pattern] = (
                    partial(timed.search, timeout=_CONFIRM_SECONDS),
                    partial(timed.match, timeout=_CONFIRM_SECONDS),
                )
        return self._compiled[pattern]

    @cached_property
    def _shipped(self) -> frozenset[str]:
        shipped = [rule for rule in self.rules if rule.shipped]
        return frozenset(pattern for rule in shipped for pattern in (*rule.match, *rule.unless, *rule.within))

    def _narrowest(self, matched: dict[int, Match]) -> int:
        candidates = [index for index in matched if self.narrower.get(index, frozenset()).isdisjoint(matched)] or list(
            matched
        )
        return min(candidates, key=lambda i: (_ROLE_ORDER.index(self.roles[i]), -len(matched[i][0]), self.rules[i].id))

    def _finding(self, index: int, line: Line, match: Match) -> Finding:
        rule = self.rules[index]
        facts = {name: value.strip() for name, value in match.groupdict().items() if value}
        row = rule.rows.get(facts.get(rule.code_group or "", "").lstrip("0") or "0", {}) if rule.code_group else {}
        if rule.code_group and not row:
            row = rule.rows.get(facts.get(rule.code_group, ""), {})
        reason = Reason(row.get("reason", rule.reason))
        action, early = row.get("action", rule.action), row.get("action_before_progress", rule.action_before_progress)
        if "action" in row and "action_before_progress" not in row:
            early = None
        return Finding(
            rule=rule.id,
            line=line,
            role=Role(row.get("role", rule.role)),
            reason=reason,
            title=fill_title(row.get("title", rule.title), facts),
            why=fill(row.get("why", rule.why), facts),
            action=Action(action) if action else None,
            action_before_progress=Action(early) if early else None,
            steps=tuple(row.get("steps", rule.steps)),
            explains=frozenset(Reason(name) for name in row.get("explains", rule.explains)),
            facts=facts,
            generality=len(self.narrower.get(index, ())),
            goes_on=rule.goes_on,
            ends=rule.ends,
            closes=rule.closes,
            failure_kind=rule.failure_kind,
            trial=rule.trial,
        )

    def _patterns_of(self, wanted: Callable[[Role], bool]) -> tuple[tuple[int, str], ...]:
        """(rule index, pattern) for the rules of these roles."""
        return tuple(
            (index, pattern)
            for index, rule in enumerate(self.rules)
            if wanted(self.roles[index])
            for pattern in rule.match
        )

    @property
    def healthy_text(self) -> str:
        """What healthy jobs print, as the examples show it."""
        calm = [rule for rule, role in zip(self.rules, self.roles, strict=True) if role in _CALM]
        lines = [line for rule in calm for line in rule.fires]
        return "\n".join([*lines, *(line for item in self.filters for line in item.drops)])

    @property
    def pattern_keys(self) -> tuple[list[tuple[str, str]], ...]:
        """For each of the three matchers: the rule or filter and the pattern that each number stands for."""
        scanned, softening, progress = (
            [(self.rules[index].id, pattern) for index, pattern in patterns]
            for patterns in (self._patterns, self._softening, self._progress)
        )
        return scanned, softening, [*progress, *self._drops]

    def _compile_matchers(self, healthy: str) -> tuple[Matcher, Matcher, Matcher]:
        """One for what is scanned for, one for what softens a line, one for regular output."""
        healthy = f"{healthy}\n{self.healthy_text}".lower()
        files = {item.id: item.file for item in self.filters}

        def named(patterns: tuple[tuple[int, str], ...]) -> list[tuple[str, str]]:
            return [(self.rules[index].file or self.rules[index].id, pattern) for index, pattern in patterns]

        regular = [*named(self._progress), *((files[name] or name, pattern) for name, pattern in self._drops)]
        return (
            _compile_matcher(named(self._patterns), healthy),
            _compile_matcher(named(self._softening), ""),
            _compile_matcher(regular, ""),
        )


@cache
def asks_for_a_digit(pattern: str) -> bool:
    """Whether a pattern may match on a line and not on one that differs from it in digits only."""
    return _CERTAIN_DIGIT.search(_ANY_DIGITS.sub("", pattern)) is not None


def _message_starts(line: Line) -> list[int]:
    """Where an anchored pattern may begin: after each prefix, with and without the blanks that follow it."""
    starts = []
    for start in line.starts:
        starts.append(start)
        if line.text[start : start + 1].isspace():
            starts.append(len(line.text) - len(line.text[start:].lstrip()))
    return starts


def _patterns_in(matcher: Matcher, data: bytes) -> set[int]:
    """The patterns that may match somewhere in the data."""
    return {pattern for _, found in matcher.find(data) for pattern in found}


def _compile_matcher(patterns: Sequence[tuple[str, str]], healthy: str) -> Matcher:
    """A matcher for (file, pattern) pairs; raises RuleError naming the file of a pattern that cannot be scanned for."""
    from logdiag.rules.literals import scan_form

    forms = [scan_form(pattern, healthy) for _, pattern in patterns]
    try:
        return Matcher.compile(forms)
    except ValueError as error:
        for (file, pattern), form in zip(patterns, forms, strict=True):
            if any(str(error).startswith(f"{expression}: ") for expression in form):
                raise RuleError(f"{file}: match: {pattern}: {error}; rewrite the pattern") from error
        raise RuleError(f"rules: match: {error}; rewrite the pattern") from error


def _narrower(book: RuleBook) -> dict[int, frozenset[int]]:
    """For each rule, those that are narrower: it matches their examples and they match none of its own. Kinds and calls
    are no rivals: they say of any line what it is beside what rules make of it."""
    return asymmetric([book.claimed(index) for index in range(len(book.rules))])


def asymmetric(claimed: Sequence[Collection[int]]) -> dict[int, frozenset[int]]:
    """Who is narrower than whom, from which others claim each rule's examples."""
    narrower: dict[int, set[int]] = {}
    for index, others in enumerate(claimed):
        for other in others:
            if index not in claimed[other]:
                narrower.setdefault(other, set()).add(index)
    return {other: frozenset(narrow) for other, narrow in narrower.items()}


def example_line(example: str, forms: Forms | None = None) -> tuple[Line, str]:
    """The line that an example is about, and the traceback above it: the last line of several. `forms` are the user's
    own."""
    from logdiag.read.prefixes import parse_line

    frames, _, last = example.rstrip("\n").rpartition("\n")
    return parse_line(last, forms=forms), frames
