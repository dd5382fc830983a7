"""What a log's words tell of the root where no known software does: its rank, its node, and which process a program
names first after a machine's fault. It is imported only where it is asked: most logs name both without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from logdiag.judge.faults import Fault
from logdiag.judge.ranks.hosts import with_names
from logdiag.judge.ranks.nodes import node_by_words
from logdiag.judge.ranks.rank import WAITED
from logdiag.judge.ranks.readings import Book, book_of
from logdiag.judge.ranks.vocabulary import LEAST_PID, PROCESSES
from logdiag.judge.ranks.witnesses import Root, first_to_fail
from logdiag.judge.ranks.words import Row, counted, rows_of, singular
from logdiag.model import Line, Reason
from logdiag.scan.survey import Opening

# So many lines at most: that are read for words; first and last ones in which listings are looked for; below a
# machine's fault.
_MOST_LINES, _OPENING, _CLOSING, _BELOW = 4000, 400, 120, 200
# With less chance no rank is named.
_LEAST_CHANCE = 0.5


class ByWords(NamedTuple):
    """The words of a job's logs, and the root among them."""

    book: Book
    root: Root

    def rank(self) -> int | None:
        """The likeliest rank; None where none is likely."""
        rank, chance = first_to_fail(self.book, self.root) or (None, 0.0)
        return rank if chance >= _LEAST_CHANCE else None

    def node(self, rank: int | None) -> str | None:
        """The likeliest host; None where none is likely. `rank` is the root's, None where it is not known."""
        return node_by_words(self.book, self.root, rank)

    def named_below(self, is_read: Callable[[Line], bool]) -> set[int]:
        """The processes that the first line below the root names that names any, of those that are read."""
        rows = self.book.rows[self.root.row.at + 1 :][:_BELOW]
        return next((named for row in rows if is_read(row.line) and (named := _processes_named(row))), set())


def by_words(root: Fault, lines: Sequence[Line], openings: Sequence[Opening]) -> ByWords:
    """The words of the root's line, and of the first lines of the logs and the kept ones, in their order."""
    # The first streams come first; no more lines are taken than are looked at.
    first = islice((line for opening in openings for line in opening.lines()), _MOST_LINES)
    by_place = {line.place: line for line in (*first, *lines, root.line)}
    places = sorted({*sorted(by_place)[:_MOST_LINES], root.line.place})
    read = rows_of(by_place[place] for place in places)
    rows = with_names(read, read[:_OPENING])
    book = book_of(rows, [*rows[:_OPENING], *rows[max(_OPENING, len(rows) - _CLOSING) :]])
    row = rows[places.index(root.line.place)]
    return ByWords(book, Root(row, root.reason in WAITED, root.reason is Reason.NODE_FAILURE))


def _processes_named(row: Row) -> set[int]:
    """The numbers behind a word for a process, and its printer's: `[rank4]`, `seat 4`, `tasks 3`; none that may be a
    process id."""
    named = set() if row.line.rank is None else {row.line.rank}
    for before, word in pairwise(["", *row.lower]):
        stem, number = counted(word)
        if 0 <= number < LEAST_PID and (stem or singular(before)) in PROCESSES:
            named.add(number)
    return named
