"""What is settled by a line's shape: frequent lines are passed over only where no rule could fire on any of them."""

from __future__ import annotations

import random
import re
import time

import pytest

from logdiag.read.prefixes import parse_line
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.rules.book import example_line
from logdiag.rules.digitless import Fireable, words_for
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

    def _settle(self, counts: object) -> None:
        pass


def without_digits(line: str) -> bytes:
    return line.encode(errors="replace").translate(None, DIGITS)


@pytest.fixture(scope="module")
def proved() -> RuleBook:
    """The shipped rules with their examples."""
    return RuleBook.load(proof=True)


def test_no_example_of_a_rule_is_settled(proved: RuleBook) -> None:
    """On the shape of every line on which a rule fires a rule may fire, whatever numbers stand in it."""
    examples = [example for rule in proved.rules for example in rule.fires]
    lines = [example_line(example)[0] for example in examples]
    firing = [line for line in lines if proved.confirm_all(line) is not None]
    assert len(firing) > 1000
    assert [line.text for line in firing if not proved.patterns_on_shape(without_digits(line.text))] == []


def test_each_pattern_is_found_on_the_shape_of_what_it_matches(proved: RuleBook) -> None:
    """Alone too, and with other digits in the line where it still matches there."""
    source = random.Random(3)
    checked = 0
    for rule in proved.rules:
        texts = [example_line(example)[0].text for example in rule.fires]
        others = [re.sub(r"\d", lambda _: str(source.randrange(10)), text) for text in texts]
        for pattern in rule.match:
            matched = [text for text in texts + others if proved.search(pattern, parse_line(text))]
            fireable = Fireable([pattern], [words_for(pattern)]) if matched else None
            assert [text for text in matched if fireable and not fireable.on(without_digits(text))] == []
            checked += len(matched)
    assert checked > 2000


def test_a_telling_number_among_many_lines_is_found(book: RuleBook) -> None:
    """What is found is what is found where every line is looked at, wherever the telling lines stand."""
    lines = [line.replace("3,", f"{number},") for number in range(800) for line in FREQUENT]
    for at, line in enumerate(TELLING * 3):
        lines.insert(2500 + 170 * at, line)
    data = log_of(*lines)
    settling, looking = Shapes(book, ()), Unsettled(book, ())
    found, expected = surveyed(data * 4, book, settling), surveyed(data * 4, book, looking)
    assert settling.settled
    assert [(one.rule, one.line) for one in found.findings] == [(one.rule, one.line) for one in expected.findings]
    assert found.uncounted == expected.uncounted
    assert found.lines == expected.lines


def surveyed(data: bytes, book: RuleBook, shapes: Shapes) -> Survey:
    return survey(open_sources((data,)), book.fresh(), shapes)


def test_what_cannot_fire_is_settled(book: RuleBook) -> None:
    """A literal of a rule inside another word, or without what the rule asks for around it, is none."""
    settled = [line for line in FREQUENT if not book.patterns_on_shape(without_digits(line))]
    assert settled == [FREQUENT[0], *FREQUENT[3:]]


def test_a_pattern_that_is_not_understood_may_fire_anywhere() -> None:
    """Only the regex module reads a class in it: nothing is settled by it."""
    assert Fireable([r"\p{Lu}\d+ boom"], [words_for(r"\p{Lu}\d+ boom")]).on(b"all is well")


def test_shapes_are_asked_in_time(book: RuleBook) -> None:
    """No pattern runs away on a shape that is all of one sign, or of words."""
    begun = time.process_time()
    for text in (b"a " * 900, b"= error: " * 200, b"failed, " * 200, b"A.b." * 450, b'File "/x/' * 200):
        book.patterns_on_shape(text)
    assert time.process_time() - begun < 5.0
