"""Of what kind a log is, by the forms and words of its lines: a job's output, a kernel log, a scheduler's record, ...

The kinds are data: a file in `rules/context/logs/` says how a line of such a log looks, and its folder whose log
it is. What fits none of them is a job's output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from logdiag.model import ALL_NINES, Block, Line
from logdiag.patterns import pattern_of
from logdiag.rules import RuleBook

# A line in this form names the program that printed it.
_SYSLOG_FORM = "context/kinds/syslog-form"
_LEARNT_BYTES, _MOST_LINES = 1 << 18, 100
_LONGEST_LINE = 2000
# So much of a log must look like a machine's: a job's log may hold lines of the kernel.
_MOSTLY_A_MACHINES, _MOSTLY = 0.8, 0.5
# In a machine's journal so many programs speak, and none of them most of the time.
_FEWEST_PROGRAMS, _MOST_OF_ONE = 6, 0.5
_NUMBER = pattern_of(r"\d+")


class KindOfLog(NamedTuple):
    """A kind of log: its `name`, its `title` for people, and `whose` it is: `job`, `machine`, `scheduler`, `cluster`
    or `service`. `by_envelope` says that not its lines showed it but what is around them."""

    name: str
    title: str
    whose: str
    by_envelope: bool = False

    @property
    def is_a_jobs(self) -> bool:
        """Whether a job or one of its processes printed it, or it is a record of the job alone."""
        return self.whose in ("job", "scheduler", "cluster")


JOB_OUTPUT = KindOfLog("job-output", "A job's output", "job")
_JOURNAL = "system-journal"


def kind_of_block(block: Block, book: RuleBook) -> KindOfLog:
    """The kind of the log whose first block this is, by lines taken evenly from it."""
    texts = list(filter(bytes.strip, block.wrapped or block.data[:_LEARNT_BYTES].split(b"\n")))
    texts = [text[:_LONGEST_LINE] for text in texts[:: -(-len(texts) // _MOST_LINES) or 1]]
    # Of lines that differ in their numbers only, one is asked.
    shapes = [text.translate(ALL_NINES) for text in texts]
    asked = dict(zip(shapes, texts, strict=True))
    told = dict(zip(asked, book.kinds_of([_line_of(text) for text in asked.values()]), strict=True))
    known = book.kinds_of_log
    heads, in_form = 0, 0
    counts: Counter[str] = Counter()
    of_whom: Counter[str] = Counter()
    for shape, times in Counter(shapes).items():
        found = told[shape] & known.keys()
        counts.update(dict.fromkeys(found, times))
        of_whom.update(dict.fromkeys({_whose(known[name].id) for name in found}, times))
        # What is indented goes on with the record above it.
        heads += times if found or not shape.startswith((b" ", b"\t")) else 0
        in_form += times if "syslog-form" in told[shape] else 0
    for whose, count in of_whom.most_common():
        least = _MOSTLY_A_MACHINES if whose == "machine" else _MOSTLY
        if count >= max(1, least * heads):
            name = max((name for name in counts if _whose(known[name].id) == whose), key=lambda name: counts[name])
            return KindOfLog(name, known[name].title, whose, bool(block.wrapped))
    mostly = in_form >= max(1, _MOSTLY_A_MACHINES * heads)
    if _JOURNAL in known and mostly:
        unknown = [told[shape].isdisjoint(known) for shape in shapes]
        if _is_of_many_programs([_line_of(text) for text in texts], unknown, book):
            return KindOfLog(_JOURNAL, known[_JOURNAL].title, "machine", bool(block.wrapped))
    return JOB_OUTPUT


def _line_of(text: bytes) -> Line:
    return Line("", 0, text.decode(errors="replace"))


def _whose(rule: str) -> str:
    """`machine` of `context/logs/machine/kernel`."""
    return rule.split("/")[2]


def _is_of_many_programs(lines: Sequence[Line], unknown: Sequence[bool], book: RuleBook) -> bool:
    """Whether lines are those of a journal to which many programs write, also such that no rule knows; these are the
    `unknown` ones. Names that differ in their number only (`booth-0`, `booth-1`) are one program's processes."""
    patterns = [pattern for rule in book.rules if rule.id == _SYSLOG_FORM for pattern in rule.match]
    found = [next((match for p in patterns if (match := book.search(p, line))), None) for line in lines]
    spoke = [_NUMBER.sub("", match["program"]) if match else "" for match in found]
    others = Counter(program for program, is_other in zip(spoke, unknown, strict=True) if program and is_other)
    most = max(others.values(), default=0)
    return len(set(spoke) - {""}) >= _FEWEST_PROGRAMS and most <= _MOST_OF_ONE * len(lines)
