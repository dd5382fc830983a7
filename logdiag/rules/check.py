"""Proves rules by their examples: what `logdiag rules test` and the tests run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache, partial

from logdiag.model import Line, Role
from logdiag.patterns import pattern_of
from logdiag.rules.book import RuleBook, example_line
from logdiag.rules.schema import Filter, Rule
from logdiag.rules.searching import takes_too_long
from logdiag.rules.tables import Problem, problem_at

# A log is scanned as bytes: [äö] would be any of their bytes, and ä+ repeats the last of them.
_NOT_FOR_BYTES = pattern_of(r"(?<!\\)\[(?:[^\]\\]|\\.)*[^\x00-\x7f](?:[^\]\\]|\\.)*\]|[^\x00-\x7f][?*+{]")
# A pattern that takes too long on one of these lines can run away on a log.
_HARD_LINES = (
    "a" * 4000,
    "/a" * 2000,
    "0123456789 " * 400,
    "Error: " * 600,
    " " * 4000,
    "x=1, " * 800,
    "(" * 3000,
    "=" * 4000,
)


def check(book: RuleBook, own: Container[str] | None = None) -> list[Problem]:
    """All problems of a book; with `own` those of these ids, and the examples of other rules that they win."""
    problems = [] if own is None else list(_examples_taken(book, own))
    for index, rule in enumerate(book.rules):
        if own is None or rule.id in own:
            problems += _check_rule(book, index)
    for item in book.filters:
        if own is None or item.id in own:
            problems += _check_filter(book, item)
    return sorted(problems, key=lambda problem: (problem.file, problem.line))


def _examples_taken(book: RuleBook, own: Container[str]) -> Iterator[Problem]:
    """Problems of the rules in `own` that win an example of another rule or of a filter."""
    alone = RuleBook([rule for rule in book.rules if rule.id in own], narrower={}, forms=book.forms)
    files = {rule.id: rule.file for rule in alone.rules}
    examples: list[tuple[int | None, str, str]] = [
        (index, rule.id, example) for index, rule in enumerate(book.rules) for example in rule.fires
    ]
    examples += [(None, item.id, example) for item in book.filters for example in item.drops]
    for index, owner, example in examples:
        line, frames = example_line(example, book.forms)
        if owner in own or alone.confirm_all(line, frames) is None:
            continue
        winner = book.confirm_all(line, frames)
        if winner is None or winner.rule not in files:
            continue
        if winner.role.is_failure if index is None else _misjudged(book, index, line, frames):
            what = f"takes {line.text!r}, an example of {owner}"
            yield problem_at(files[winner.rule], winner.rule, "", what, "make its pattern narrower")


def _check_rule(book: RuleBook, index: int) -> Iterator[Problem]:
    rule = book.rules[index]
    problem = partial(problem_at, rule.file, rule.id)
    yield from _check_patterns(book, rule, (*rule.match, *rule.unless, *rule.within))
    yield from _never_hit(book, rule, rule.match, rule.fires)
    for pattern in rule.unless:
        if not any(_only_for(book, rule, pattern, example) for example in rule.quiet):
            yield problem(
                pattern, f"no quiet example needs unless {pattern!r}", "add a line that it leaves alone, or remove it"
            )
    for example in rule.fires:
        line, frames = example_line(example, book.forms)
        if not book.claims(index, line, frames):
            yield problem(example, f"does not fire on {line.text!r}", "mend the pattern, or move the example to quiet")
        elif wrong := _misjudged(book, index, line, frames):
            yield problem(example, *wrong)
    yield from _misread(book, rule)
    for example in rule.quiet:
        line, frames = example_line(example, book.forms)
        # If another rule says that the line is no failure, this one need not say so itself.
        if not book.claims(index, line, frames):
            continue
        winner = book.confirm_all(line, frames)
        if winner is None or winner.role is not Role.HARMLESS:
            yield problem(
                example, f"fires on the quiet line {line.text!r}", "make the pattern narrower or add an unless"
            )


def _misread(book: RuleBook, rule: Rule) -> Iterator[Problem]:
    """The examples from which a rule reads something else than stands beside them."""
    for example, wanted in rule.reads.items():
        if (read := book.facts_on(rule, example_line(example, book.forms)[0])) != wanted:
            what = f"reads {read} from {example!r} instead of {wanted}"
            yield problem_at(rule.file, rule.id, example, what, "mend the pattern or the example")


def _only_for(book: RuleBook, rule: Rule, unless: str, example: str) -> bool:
    """Whether a quiet example proves an `unless`: the rule would match it, and no other entry prevents that."""
    line, _ = example_line(example, book.forms)
    matching = [pattern for pattern in rule.unless if book.search(pattern, line)]
    return matching == [unless] and any(book.search(pattern, line) for pattern in rule.match)


def _misjudged(book: RuleBook, index: int, line: Line, frames: str) -> tuple[str, str] | None:
    """What is wrong and the remedy, if all rules together judge an example otherwise than its own rule; else None."""
    role, winner = book.roles[index], book.confirm_all(line, frames)
    if role in (Role.STRUCTURE, Role.RETRY, Role.CALL, Role.KIND, Role.PROCESS):
        return None
    if role.is_calm or role is Role.FINISHED:
        if winner is not None and winner.role.is_failure:
            return f"{winner.rule} takes {line.text!r} for a failure", "make that pattern narrower"
        return None
    if winner is not None and winner.rule == book.rules[index].id:
        rows = book.rules[index].rows.values()
        if winner.role.value in {book.rules[index].role, *(row["role"] for row in rows if "role" in row)}:
            return None
        return f"{line.text!r} counts as a {winner.role.value}", "another rule calls it a retry: give a plainer line"
    other = winner.rule if winner else "no rule"
    return f"{other} takes {line.text!r}", "make this pattern narrower or that one not match"


def _check_patterns(book: RuleBook, item: Rule | Filter, patterns: Iterable[str]) -> Iterator[Problem]:
    import regex

    for pattern in patterns:
        problem = partial(problem_at, item.file, item.id, pattern)
        try:
            slow = any(takes_too_long(partial(book.search, pattern, line)) for line in _hard_lines())
        except regex.error as error:
            yield problem(f"{pattern!r} is no regular expression ({error})", "correct it")
            continue
        if _NOT_FOR_BYTES.search(pattern) or (not pattern.isascii() and pattern.startswith("(?i)")):
            remedy = "write a branch, (?:é|è), or put it into a group of its own"
            yield problem(f"{pattern!r} is not ASCII where one character must be one byte", remedy)
        if slow:
            yield problem(f"{pattern!r} takes too long on a long line", "bound its repeats")


def _never_hit(
    book: RuleBook, item: Rule | Filter, patterns: Iterable[str], examples: Sequence[str]
) -> Iterator[Problem]:
    """The patterns that are found in none of their examples."""
    lines = [example_line(example, book.forms)[0] for example in examples]
    for pattern in patterns:
        if not any(book.search(pattern, line) for line in lines):
            what, remedy = f"no example is hit by {pattern!r}", "add one real line it is for, or remove it"
            yield problem_at(item.file, item.id, pattern, what, remedy)


@cache
def _hard_lines() -> tuple[Line, ...]:
    return tuple(example_line(text)[0] for text in _HARD_LINES)


def _check_filter(book: RuleBook, item: Filter) -> Iterator[Problem]:
    problem = partial(problem_at, item.file, item.id)
    yield from _check_patterns(book, item, item.drop)
    yield from _never_hit(book, item, item.drop, item.drops)
    for wanted, examples in ((True, item.drops), (False, item.keeps)):
        for example in examples:
            line, _ = example_line(example, book.forms)
            if any(book.search(pattern, line) for pattern in item.drop) != wanted:
                what = f"{'does not drop' if wanted else 'drops'} {example!r}"
                yield problem(example, what, "mend the pattern")
            finding = book.confirm_all(line) if wanted else None
            if finding is not None and finding.role.is_failure:
                yield problem(example, f"drops a line that {finding.rule} fires on", "mend the pattern")
