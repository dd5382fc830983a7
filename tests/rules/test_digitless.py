"""What is settled by a line's shape: frequent lines are passed over only where no rule could fire on any of them."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter

import pytest

from logdiag.read.prefixes import parse_line
from logdiag.read.sources import open_sources
from logdiag.rules import Filter, RuleBook
from logdiag.rules.book import example_line
from logdiag.rules.literals import Fireable, needed_for
from logdiag.scan.hits import RuleHits
from logdiag.scan.shapes import Shapes
from logdiag.scan.survey import Survey, survey
from tests.helpers import log_of

DIGITS = b"0123456789"
# One line of each kind that real logs repeat a million times; in some a rule's literal stands.
FREQUENT = (
    "[2026-03-02 08:00:00,41] [INFO] [timer.py:259:stop] epoch=0/step=3, MemAllocated=31.5GB, MaxMemAllocated=6GB",
    "[91200.117] NVRM: Xid (PCI:0000:3b:00): 13, pid=4711, Graphics Exception",
    "2026-03-02 08:00:00 INFO worker 3 ended with exit code 0",
    "2026-03-02 08:00:00 INFO retry policy: Connection refused 0 times, timed out 0 times",
    "completed step: 12, seconds: 4.101, loss: 2.81",
    "node-03:4711:5331 [3] NCCL INFO Channel 03/0 : 3[0] -> 4[0] [send] via NET/IB/3/GDRDMA",
)
# The same but for one number or word.
TELLING = (
    "[91200.117] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",
    "[91200.117] NVRM: Xid (PCI:0000:3b:00): 48, pid=4711, Graphics Exception",
    "2026-03-02 08:00:00 INFO worker 3 ended with exit code 139",
    "2026-03-02 08:00:00 ERROR worker 3 ended with signal 9",
)


class Unsettled(Shapes):
    """Counts shapes, and has every line looked at."""

    class Hits(RuleHits):
        """Settles no shape."""

        def settle(self, lines: object) -> None:
            pass

    def __init__(self, book: RuleBook, filters: tuple[Filter, ...]) -> None:
        super().__init__(book, filters, self.Hits(book))


# What stands in its place may be a number of base 16, and begins and ends as a word does.
NUMBER = re.compile(r"(?<![\w.-])(?:0x)?[0-9]+\b(?![.-])")


def address(source: random.Random) -> str:
    """A number of base 16."""
    return "0x" * source.randrange(2) + f"{source.randrange(10)}" + "".join(source.choices("0123456789abcdef", k=7))


def without_digits(line: str) -> bytes:
    return line.encode(errors="replace").translate(None, DIGITS)


def test_no_example_of_a_rule_is_settled(book: RuleBook) -> None:
    """On the shape of every line on which a rule fires a rule may fire, whatever numbers stand in it."""
    examples = [example for rule in book.rules for example in rule.fires]
    lines = [example_line(example)[0] for example in examples]
    firing = [line for line in lines if book.confirm_all(line) is not None]
    assert len(firing) > 1000
    assert [line.text for line in firing if not book.patterns_on_shape(without_digits(line.text))] == []


def test_each_pattern_is_found_on_the_shape_of_what_it_matches(book: RuleBook) -> None:
    """Alone too, and with other digits in the line where it still matches there."""
    source = random.Random(3)
    checked = 0
    for rule in book.rules:
        texts = [example_line(example)[0].text for example in rule.fires]
        others = [re.sub(r"\d", lambda _: str(source.randrange(10)), text) for text in texts]
        for pattern in rule.match:
            matched = [text for text in texts + others if book.search(pattern, parse_line(text))]
            fireable = Fireable([pattern], needed_for([pattern])) if matched else None
            assert [text for text in matched if fireable and not fireable.on(without_digits(text))] == []
            checked += len(matched)
    assert checked > 2000


def test_each_pattern_is_found_where_numbers_of_base_16_are_missing(book: RuleBook) -> None:
    """Whatever letters such a number has: words of these letters alone may be parts of it, and no others."""
    source = random.Random(4)
    checked = 0
    for rule in book.rules:
        texts = [example_line(example)[0].text for example in rule.fires]
        others = [NUMBER.sub(lambda _: address(source), text) for text in texts]
        for pattern in rule.match:
            matched = [text for text in others if book.search(pattern, parse_line(text))]
            fireable = Fireable([pattern], needed_for([pattern], hex=True), hex=True) if matched else None
            # The 0x before a number is no part of it: `without_numbers` keeps it.
            shapes = [
                without_digits(NUMBER.sub(lambda found: "0x" if found[0].startswith("0x") else "", text))
                for text in matched
            ]
            assert [shape for shape in shapes if fireable and not fireable.on(shape)] == []
            checked += len(matched)
    assert checked > 1000


def test_an_ordinary_word_is_no_number_of_base_16() -> None:
    """A word is one that is left out, or stays: no part of it may be missing."""
    patterns = [r"failed", r"id \w+ is dead", r"0xdead"]
    fireable = Fireable(patterns, needed_for(patterns, hex=True), hex=True)
    assert fireable.on(b"id  is il") == (1,)
    assert fireable.on(b"it failed at x") == (0, 2)


def test_a_telling_number_among_many_lines_is_found(book: RuleBook) -> None:
    """What is found is what is found where every line is looked at, wherever the telling lines stand."""
    lines = [line.replace("3,", f"{number},") for number in range(800) for line in FREQUENT]
    for at, line in enumerate(TELLING * 3):
        lines.insert(2500 + 170 * at, line)
    data = log_of(*lines)
    settling, looking = Shapes(book, ()), Unsettled(book, ())
    found, expected = surveyed(data * 4, book, settling), surveyed(data * 4, book, looking)
    assert settling.hits.settled
    assert [(one.rule, one.line) for one in found.findings] == [(one.rule, one.line) for one in expected.findings]
    assert found.uncounted == expected.uncounted
    assert found.lines == expected.lines


def enveloped(form: str, lines: list[str]) -> bytes:
    """Lines as what recorded them wrote them; every hundredth record is told louder, by a number alone."""
    records = []
    for at, line in enumerate(lines):
        loud, micros = at % 100 == 99, str(1772438400000000 + at * 1000)
        message = {"msg": line, "level": 50 if loud else 30, "time": 1772438400000 + at, "note": f"part{at % 3} of all"}
        entry = {"__CURSOR": f"s={at:x}", "__REALTIME_TIMESTAMP": micros, "_HOSTNAME": "node-03"}
        entry |= {"PRIORITY": "3" if loud else "6", "MESSAGE": line}
        records.append(
            {
                "logger": json.dumps(message),
                "labelled": f"[rank{at % 4}]: " + json.dumps(message),
                "journal": json.dumps(entry),
                "export": "".join(f"{name}={value}\n" for name, value in entry.items()),
                "container": f"2026-03-02T08:00:00.{at:09d}Z stdout {'P' if at % 50 == 7 else 'F'} {line}",
            }[form]
        )
    return log_of(*records)


@pytest.mark.parametrize("form", ["logger", "labelled", "journal", "export", "container"])
def test_a_record_that_is_passed_over_is_found_as_if_it_were_not(book: RuleBook, form: str) -> None:
    """Levels that are numbers, messages in parts and telling lines among records that come a thousand times."""
    lines = [line.replace("3,", f"{number},") for number in range(800) for line in FREQUENT]
    for at, line in enumerate(TELLING * 3):
        lines.insert(4500 + 20 * at, line)
    data = enveloped(form, lines * 3)
    settling, looking = Shapes(book, ()), Unsettled(book, ())
    found, expected = surveyed(data, book, settling), surveyed(data, book, looking)
    assert any(block.sealed.places for block in open_sources((data,))[0].blocks(settling.hits.settled))
    # The latest lines of up to eight floods are counted, and then looked at once more.
    counts, all_counts = times(found), times(expected)
    assert counts.keys() == all_counts.keys()
    assert all(abs(counts[rule] - all_counts[rule]) <= 8 for rule in counts)
    assert {one.rule: one.line for one in reversed(found.findings)} == {
        one.rule: one.line for one in reversed(expected.findings)
    }
    assert (found.checkpoints, found.total_lines) == (expected.checkpoints, expected.total_lines)
    counted = [(line.text, count, first) for line, count, first in settling.counted()]
    assert counted == [(line.text, count, first) for line, count, first in looking.counted()]


def times(found: Survey) -> Counter[str]:
    """How often each rule fired, whether one by one or as a flood."""
    return Counter(one.rule for one in found.findings) + found.uncounted


def surveyed(data: bytes, book: RuleBook, shapes: Shapes) -> Survey:
    return survey(open_sources((data,)), book.fresh(), shapes)


def test_what_cannot_fire_is_settled(book: RuleBook) -> None:
    """A literal of a rule inside another word, or without what the rule asks for around it, is none."""
    settled = [line for line in FREQUENT if not book.patterns_on_shape(without_digits(line))]
    assert settled == [FREQUENT[0], *FREQUENT[3:]]


@pytest.mark.parametrize("pattern", [r"\p{Lu}\d+ boom", r"(?>\d+) boom", r"(\w)\1 boom"])
def test_a_pattern_that_is_not_understood_may_fire_anywhere(pattern: str) -> None:
    """Only the regex module reads it, or no shipped pattern is of its kind: nothing is settled by it."""
    assert Fireable([pattern], needed_for([pattern])).on(b"all is well")


def test_shapes_are_asked_in_time(book: RuleBook) -> None:
    """No pattern runs away on a shape that is all of one sign, or of words."""
    begun = time.process_time()
    for text in (b"a " * 900, b"= error: " * 200, b"failed, " * 200, b"A.b." * 450, b'File "/x/' * 200):
        book.patterns_on_shape(text)
    assert time.process_time() - begun < 5.0


def test_a_boundary_is_never_between_two_letters() -> None:
    """Where only digits are left out, `on` is no word of `operation`, but may be one where a digit stood before it."""
    fireable = Fireable([r"\bon=(\w+)"], needed_for([r"\bon=(\w+)"]))
    assert not fireable.on(b"operation=open")
    assert fireable.on(b"rank : on=elm")
    assert fireable.on(b"on=elm")
