"""The logs of many processes in one file, one below the other, each with its file's name above it.

`==> ox.012.out (cx-14) <==`, as `tail -n +1 *.out` and in-house launchers print them.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from logdiag.model import number_in
from logdiag.patterns import pattern_of
from logdiag.read.names import node_in, rank_in

_HEADING = pattern_of(rb"^==> (?P<name>\S{1,300})(?: \((?P<host>[\w.-]{1,120})\))? <==[ \r]*$", re.MULTILINE)
_ENDINGS = r"\.(?:out|log|err|txt)$"
# ox.012.out   12.log   out/spoke.003
_NUMBERED = pattern_of(rf"(?:^|[./])(\d{{1,5}})(?:{_ENDINGS}|$)")
# pn-1.out   rk0812.log   (but no part-1.out)
_OF_HOST = pattern_of(
    rf"(?:^|/)((?!(?:part|shard|chunk|log|out|run|job|train|step|test)[a-z]*-?\d)[A-Za-z][A-Za-z-]*\d{{1,5}}){_ENDINGS}"
)


class Section(NamedTuple):
    """The lines below a heading from `position` on, with the rank and node that the heading names. The last section of
    a file ends at a blank line (`until`): what follows may belong to no process's file."""

    position: int
    until: int
    rank: int | None
    node: str | None


def may_be_heading(line: bytes) -> bool:
    """Whether a line, with its digits or without, looks like a heading."""
    return line.startswith(b"==> ")


def sections_in(data: bytes, position: int) -> Iterator[Section]:
    """The sections that begin in a block of lines; `position` is that of its first line in the stream."""
    for heading in _HEADING.finditer(data):
        name = heading["name"].decode(errors="replace")
        at = position + data.count(b"\n", 0, heading.start())
        blank = data.find(b"\n\n", heading.end())
        until = sys.maxsize if blank < 0 else at + data.count(b"\n", heading.start(), blank)
        numbered, of_host = _NUMBERED.search(name), _OF_HOST.search(name)
        rank = rank_in(name, name)
        host = heading["host"].decode() if heading["host"] else node_in(name)
        if rank is None and numbered:
            rank = number_in(numbered[1])
        yield Section(at, until, rank, host or (of_host[1] if of_host and rank is None else None))


def section_at(sections: Sequence[Section], position: int) -> Section | None:
    """The section that a line of a stream is in."""
    at = bisect_right(sections, position, key=lambda section: section.position) - 1
    if at < 0 or (at == len(sections) - 1 and position > sections[at].until):
        return None
    return sections[at]
