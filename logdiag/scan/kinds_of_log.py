"""Tells the kind of a log by the forms and words of its lines: a job's output, a kernel log, a scheduler's record, ...

The kinds are data: a file in `rules/context/logs/` says how a line of such a log looks, and its folder says whether a
job, a machine or another printed it. A log that fits none of them is a job's output.
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
# So large a share of a log must look like a machine's: a job's log may hold lines of the kernel.
_MOSTLY_A_MACHINES, _MOSTLY = 0.8, 0.5
# A machine's journal has lines of so many programs, and none of them printed more than this share.
_FEWEST_PROGRAMS, _MOST_OF_ONE = 6, 0.5
_NUMBER = pattern_of(r"\d+")


class KindOfLog(NamedTuple):
    """A kind of log: its `name`, its `title` for people, and `whose` it is: `job`, `machine`, `scheduler`, `cluster`
    or `service`. `by_envelope` is true if the envelope around its lines showed the kind, and not the lines."""

    name: str
    title: str
    whose: str
    by_envelope: bool = False

    @property
    def is_a_jobs(self) -> bool:
        """Whether a job or one of its processes printed it, or it is a record of the job alone."""
        return self.whose in ("job", "scheduler", "cluster")


JOB_OUTPUT = KindOfLog("job-output", "A job's output", "job")
_JOURNAL, _KERNEL_LOG = "system-journal", "kernel-log"
# Programs print clocks in the form of the kernel's too: [Sun Nov 22 06:33:08 2026] loom#4: thread torn
_OF_KERNELS = "kernels-word"


def kind_of_block(block: Block, book: RuleBook) -> KindOfLog:
    """The kind of a log by lines taken evenly from its first block."""
    texts = list(filter(bytes.strip, block.wrapped or block.data[:_LEARNT_BYTES].split(b"\n")))
    texts = [text[:_LONGEST_LINE] for text in texts[:: -(-len(texts) // _MOST_LINES) or 1]]
    # Of lines that differ in their numbers only, the rules see one.
    shapes = [text.translate(ALL_NINES) for text in texts]
    text_of = dict(zip(shapes, texts, strict=True))
    kinds_of = dict(zip(text_of, book.kinds_of([_line_of(text) for text in text_of.values()]), strict=True))
    # context/logs/machine/kernel
    whose = {name: rule.id.split("/")[2] for name, rule in book.kinds_of_log.items()}
    named = [(shape, kinds_of[shape] & whose.keys(), times) for shape, times in Counter(shapes).items()]
    # An indented line continues the record above it.
    heads = sum(times for shape, names, times in named if names or not shape.startswith((b" ", b"\t")))
    name = _most_common_kind([(names, times) for _, names, times in named], whose, heads)
    if name == _KERNEL_LOG and not any(_OF_KERNELS in kinds_of[shape] for shape in shapes):
        return JOB_OUTPUT
    in_form = sum("syslog-form" in kinds_of[shape] for shape in shapes)
    if not name and _JOURNAL in whose and in_form >= max(1, _MOSTLY_A_MACHINES * heads):
        unknown = [kinds_of[shape].isdisjoint(whose) for shape in shapes]
        name = _JOURNAL if _is_of_many_programs([_line_of(text) for text in texts], unknown, book) else ""
    return KindOfLog(name, book.kinds_of_log[name].title, whose[name], bool(block.wrapped)) if name else JOB_OUTPUT


def _most_common_kind(named: Sequence[tuple[AbstractSet[str], int]], whose: Mapping[str, str], heads: int) -> str:
    """The kind of log that enough lines are of, empty for none. Of each shape there are the kinds of log that have such
    lines, and how many lines these are; `heads` is how many lines begin a record."""
    of_kind, of_whom = Counter[str](), Counter[str]()
    for names, times in named:
        of_kind.update(dict.fromkeys(names, times))
        of_whom.update(dict.fromkeys({whose[name] for name in names}, times))
    for owner, count in of_whom.most_common():
        least = _MOSTLY_A_MACHINES if owner == "machine" else _MOSTLY
        if count >= max(1, least * heads):
            return max((name for name in of_kind if whose[name] == owner), key=of_kind.__getitem__)
    return ""


def _line_of(text: bytes) -> Line:
    return Line("", 0, text.decode(errors="replace"))


def _is_of_many_programs(lines: Sequence[Line], unknown: Sequence[bool], book: RuleBook) -> bool:
    """Whether lines are those of a journal to which many programs write, among them some that no rule knows: `unknown`
    is true for their lines. Names that differ in their number only (`booth-0`, `booth-1`) are one program's
    processes."""
    patterns = [pattern for rule in book.rules if rule.id == _SYSLOG_FORM for pattern in rule.match]
    matches = [next((match for pattern in patterns if (match := book.search(pattern, line))), None) for line in lines]
    programs = [_NUMBER.sub("", match["program"]) if match else "" for match in matches]
    unknown_programs = Counter(
        program for program, is_unknown in zip(programs, unknown, strict=True) if program and is_unknown
    )
    most = max(unknown_programs.values(), default=0)
    return len(set(programs) - {""}) >= _FEWEST_PROGRAMS and most <= _MOST_OF_ONE * len(lines)
