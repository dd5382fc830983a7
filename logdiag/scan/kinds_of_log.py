"""Of what kind a log is, by the forms and words of its lines: a job's output, a kernel log, a scheduler's record, ...

The kinds are data: a file in `rules/context/logs/` says how a line of such a log looks, and its folder whose log
it is. What fits none of them is a job's output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
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
    whose = {name: _whose(rule.id) for name, rule in book.kinds_of_log.items()}
    tally = _tally(shapes, told, whose)
    name = _of_most(tally, whose)
    if not name and _JOURNAL in whose and tally.in_form >= max(1, _MOSTLY_A_MACHINES * tally.heads):
        unknown = [told[shape].isdisjoint(whose) for shape in shapes]
        name = _JOURNAL if _is_of_many_programs([_line_of(text) for text in texts], unknown, book) else ""
    return KindOfLog(name, book.kinds_of_log[name].title, whose[name], bool(block.wrapped)) if name else JOB_OUTPUT


class _Tally(NamedTuple):
    """How many lines are of each kind of log, and of whose; how many begin a record, and how many name a program."""

    of_kind: Counter[str]
    of_whom: Counter[str]
    heads: int
    in_form: int


def _tally(shapes: Sequence[bytes], told: Mapping[bytes, AbstractSet[str]], whose: Mapping[str, str]) -> _Tally:
    """Counts lines by what was `told` of their shapes; `whose` are the kinds of logs."""
    of_kind, of_whom = Counter[str](), Counter[str]()
    heads = in_form = 0
    for shape, times in Counter(shapes).items():
        found = told[shape] & whose.keys()
        of_kind.update(dict.fromkeys(found, times))
        of_whom.update(dict.fromkeys({whose[name] for name in found}, times))
        # What is indented goes on with the record above it.
        heads += times if found or not shape.startswith((b" ", b"\t")) else 0
        in_form += times if "syslog-form" in told[shape] else 0
    return _Tally(of_kind, of_whom, heads, in_form)


def _of_most(tally: _Tally, whose: Mapping[str, str]) -> str:
    """The kind of log that enough lines are of, empty for none."""
    for owner, count in tally.of_whom.most_common():
        least = _MOSTLY_A_MACHINES if owner == "machine" else _MOSTLY
        if count >= max(1, least * tally.heads):
            return max((name for name in tally.of_kind if whose[name] == owner), key=tally.of_kind.__getitem__)
    return ""


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
