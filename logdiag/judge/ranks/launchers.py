"""What launchers print of the processes they started: torchrun's summary table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from logdiag.model import Line
from logdiag.patterns import pattern_of

# Root Cause (first observed failure):   (stands before the last entry; a log that was cut may lack it)
_TABLE_FIRST = pattern_of(r"\bRoot Cause \(first observed failure\)")
# The launcher's table:   host      : node-004
#                         rank      : 5 (local_rank: 5)
#                         exitcode  : -6 (pid: 812)
_TABLE_HOST = pattern_of(r"\s*host {2,}: ([\w.-]{1,120})\s*$")
_TABLE_RANK = pattern_of(r"\s*rank {2,}: (\d{1,9}) \(local_rank: \d+\)")
_TABLE_PROCESS = pattern_of(r"\s*exitcode {2,}: -?\d+ \(pid: (\d+)\)")


class Worker(NamedTuple):
    """One entry of torchrun's summary; `process` is its id, empty where the table does not name it, and `first` says
    that the table calls it the first failure that was observed."""

    host: str
    rank: int
    process: str
    first: bool


def first_observed(workers: Sequence[Worker]) -> int | None:
    """The rank that the launcher saw fail first, by its last summary; None where no summary names one."""
    return next((worker.rank for worker in reversed(workers) if worker.first), None)


def summary_of(lines: Iterable[Line]) -> Iterable[Worker]:
    """The entries of torchrun's summary, in its order. It names the host before the rank and the process after it."""
    host, rank, first = "", -1, False
    for line in lines:
        if _TABLE_FIRST.search(line.text):
            first = True
        elif named := _TABLE_HOST.match(line.message):
            host, rank = named[1], -1
        elif host and (numbered := _TABLE_RANK.match(line.message)):
            rank = int(numbered[1])
            yield Worker(host, rank, "", first)
        elif rank >= 0 and (process := _TABLE_PROCESS.match(line.message)):
            yield Worker(host, rank, process[1], first)
            host, rank, first = "", -1, False
