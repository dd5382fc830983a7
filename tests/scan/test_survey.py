"""What is picked of a survey, and changed in it, is so in all that it holds of lines."""

from __future__ import annotations

from logdiag.model import Line
from logdiag.rules import RuleBook
from logdiag.scan.calls import Call
from logdiag.scan.survey import Survey

HERE, THERE = (Line("job.log", number, "ncclSystemError: Call to connect failed", position=number) for number in (1, 2))
OF_LINES = ("progress", "series", "checkpoints", "lines")
WITH_A_LINE = ("findings", "calls")


def of_two_lines(book: RuleBook) -> Survey:
    """A survey that found everything on each of two lines."""
    findings = [finding._replace(line=line) for line in (HERE, THERE) if (finding := book.confirm_all(line))]
    calls = [Call(line, {}) for line in (HERE, THERE)]
    found = Survey([], findings, calls=calls)
    for name in OF_LINES:
        setattr(found, name, [HERE, THERE])
    return found


def lines_of(found: Survey) -> list[list[Line]]:
    """The lines of each of its lists."""
    whole = [getattr(found, name) for name in OF_LINES]
    return [*whole, *([each.line for each in getattr(found, name)] for name in WITH_A_LINE)]


def test_only_some_lines(book: RuleBook) -> None:
    """What was found on the others is gone from every list."""
    assert lines_of(of_two_lines(book).only(lambda line: line is THERE)) == [[THERE]] * 6


def test_each_line_changed(book: RuleBook) -> None:
    """No list keeps the lines as they were."""
    found = of_two_lines(book).each_line(lambda line: line._replace(time=1.0))
    assert lines_of(found) == [[HERE._replace(time=1.0), THERE._replace(time=1.0)]] * 6
