"""How a log ends, whatever its words: the last status that is printed, and the level of its last lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import ne
from typing import NamedTuple

from logdiag.judge.kinds import Kinds
from logdiag.model import CALM, TROUBLE, Line
from logdiag.patterns import pattern_of
from logdiag.rules.book import HARMLESS

# So many lines at the end of a log show how it ended; a status of another process may stand further up.
_LAST_LINES = 8
_LAST_OF_EACH = 64
_LAST_WORDS = 3
BAD_WORDS = ("last-words-bad", "some-failed")
"""The kinds of a last line that says in a few words that the whole failed, or counts what failed."""
_BAD_AT_END, _GOOD_AT_END = ("last-number-bad", BAD_WORDS[0]), ("last-number-good",)
_FATAL = frozenset({"CRITICAL", "FATAL"})
# $ echo $?   $ echo $?; uname -r   (a shell is asked for the status of the command above; the line below is its answer)
_ASKS = pattern_of(r"\becho \"?\$\?\"?(?:$|;)")


class Ending(NamedTuple):
    """The end of a case; any file of it counts.

    `bad_status` and `good_status` are the last lines that name a status, or None. `bad_last` and `good_last` are the
    very last line, where it ends with a bare number as a status does; `bad_last` also one that says in a few words that
    the whole failed, or one of the last few that counts what failed. `last_trouble` is a line of trouble among the very
    last, with nothing calm after it unless it is fatal. `verdict` is a last line that tells of all the work that it
    went well, as no script prints whatever happened.
    """

    bad_status: Line | None = None
    good_status: Line | None = None
    bad_last: Line | None = None
    good_last: Line | None = None
    last_trouble: Line | None = None
    verdict: Line | None = None

    @property
    def good(self) -> bool:
        """Whether the last status that is printed is a good one."""
        good, bad = (self.good_status, self.good_last, self.verdict), (self.bad_status, self.bad_last)
        return not any(bad) and any(good)

    def good_after(self, line: Line) -> bool:
        """Whether the last status is a good one, and none of those that are good stands before a line."""
        good = filter(None, (self.good_status, self.good_last, self.verdict))
        return self.good and all(each.place > line.place for each in good)


def ending_of(files: Iterable[Sequence[Line]], kinds: Kinds) -> Ending:
    """How each file of a case ends, by the lines that it printed, taken together."""
    endings = [_of_file(lines, kinds) for lines in files]
    return Ending(*(next(filter(None, of_files), None) for of_files in zip(*endings, strict=True)))


def _of_file(lines: Sequence[Line], kinds: Kinds) -> Ending:
    bad, good = _status(lines, kinds)
    asked = _answer_to_a_shell(lines[-_LAST_LINES:])
    if asked and asked.message.strip() != "0" and not (good and good.position > asked.position):
        bad, good = asked, None
    at_end = (any(kinds.is_a(kind, lines[-1]) for kind in as_status) for as_status in (_BAD_AT_END, _GOOD_AT_END))
    bad_last, good_last = (lines[-1] if is_one else None for is_one in at_end)
    verdict = _verdict(lines[-_LAST_LINES:], kinds) if bad is None else None
    counts = [line for line in lines[-_LAST_WORDS:] if kinds.is_a(BAD_WORDS[1], line)]
    if bad_last is None and verdict is None and counts:
        bad_last = counts[-1]
    return Ending(bad, good, bad_last, good_last, _trouble(lines[-_LAST_WORDS:], kinds), verdict)


def _answer_to_a_shell(lines: Sequence[Line]) -> Line | None:
    """The last status that a shell was asked for; None where it was asked for none."""
    below = (line for before, line in reversed(list(pairwise(lines))) if _ASKS.search(before.message))
    return next((line for line in below if line.message.strip().isdecimal()), None)


def _verdict(lines: Sequence[Line], kinds: Kinds) -> Line | None:
    """The last line in which a shell tells the status 0, or all that was tried is counted and none of it failed; None
    for none."""
    asked = _answer_to_a_shell(lines)
    return next((line for line in reversed(lines) if line is asked or kinds.is_a("none-failed", line)), None)


def _status(lines: Sequence[Line], kinds: Kinds) -> tuple[Line | None, Line | None]:
    """The last line that names a status, as a bad one or as a good one."""
    bad = [line for line in lines[-_LAST_OF_EACH:] if kinds.is_a("last-status-bad", line)]
    good = [line for line in lines[-_LAST_LINES:] if kinds.is_a("last-status-good", line)]
    if bad and bad[-1].position >= max(lines[-_LAST_LINES:][0].position, good[-1].position if good else 0):
        return bad[-1], None
    if not good:
        return None, None
    # keepd end fawn code 12, and then keepd end coral code 0: each process has a status of its own
    of_another = next((line for line in bad if _is_of_another(line, good[-1])), None)
    return of_another, None if of_another else good[-1]


def _is_of_another(line: Line, last: Line) -> bool:
    """Whether two lines report the same of two processes: apart from numbers, they differ in at most one word, which
    names the process."""
    words, others = _words_without_digits(line), _words_without_digits(last)
    return len(words) == len(others) and sum(map(ne, words, others)) <= 1


def _words_without_digits(line: Line) -> list[str]:
    """The words of a message, with every word that has a digit made the same."""
    return ["9" if any(map(str.isdigit, word)) else word for word in line.message.split()]


def _trouble(lines: Sequence[Line], kinds: Kinds) -> Line | None:
    """The last line of trouble, if no calm line follows it; None for none. After a fatal one a process may clean up."""
    calm = False
    for line in reversed(lines):
        if kinds.is_a(HARMLESS, line):
            continue
        if line.level in _FATAL or (not calm and (line.level in TROUBLE or kinds.is_a("loud-word", line))):
            return line
        calm = calm or line.level in CALM or line.level == "WARNING"
    return None
