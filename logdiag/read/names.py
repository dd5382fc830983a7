"""Reads the name of a file: whether it is a log, and of which rank or node.

One file may hold the logs of many processes, one below the other, each with its file's name above it:
`==> ox.012.out (cx-14) <==`, as `tail -n +1 *.out` and in-house launchers print them.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from logdiag.model import number_in
from logdiag.patterns import pattern_of

_ENDINGS = r"log|out|err|txt|stdout|stderr|jsonl?|o\d+|e\d+"
_WORDS = r"log|logfile|stdout|stderr|dmesg|syslog|messages|console|output|nohup"
_PROCESSES_OR_NODES = r"(?:global_?)?rank|worker|task|proc|process|node|host|pod|replica"
# train.log   job.o4711   train.log.1   train.log.rank3   stderr   rank-0   worker3   workerlog.3 (Paddle)   0
# rsl.error.0003   out.3   PET3.ESMF_LogFile
_LOG_NAME = pattern_of(
    rf"(?i)(?:\.(?:{_ENDINGS})(?:\.(?:rank)?\d+)?|(?:^|[._-])(?:{_WORDS})(?:[._-]?\d+)?"
    rf"|(?:^|\.)(?:out|err|error)\.\d+|^(?:{_PROCESSES_OR_NODES}|workerlog)[._-]?\d+|^\d{{1,5}})"
    r"(?:\.(?:gz|zst|xz|bz2))?$"
)
# rank_3.log   rank-12.err   task7.out   worker_3.log (MindSpore)   workerlog.3 (Paddle)
# job-4711-t5.err (Slurm's %j and %t)   (worker-3.log is as often a machine's)
_RANK = pattern_of(
    r"(?i)(?:^|[^a-z])(?:global_?rank|rank|task|proc|process|replica|trainer|learner|workerlog|worker(?=_)|(?<=\d[._-])t)[_.-]?(\d{1,5})(?:\D|$)"
)
# attempt_0/3/stderr.log (torchelastic)
_ELASTIC = pattern_of(r"(?:^|/)attempt_\d+/(\d+)/[^/]+$")
# What stands before the number of a process: rsl.error.0003   out.3   stderr-3   mpi_3.log   PET3.ESMF_LogFile
# prterun-node-1-3121@1/3/stderr   run.prterun-node-1-3121@1.3.out   slurm-4711-node3-3.out   job.4711.0.3.err
# (but train.log.3 is an older train.log)
_BEFORE_RANK = pattern_of(
    r"(?i)(?:(?:^|/)(?:rsl\.)?(?:out|output|err|error|log|stdout|stderr)[._-]?|(?:^|[/._-])(?:mpi|pet?|image|r|p)[._-]?"
    r"|@\d+[/.]|(?:^|/)(?:slurm|job)-\d+-[a-z][\w.]*-|(?:^|/)(?:slurm|job|\w+)\.\d+\.\d+\.)$"
)
_LAST_NUMBER = pattern_of(r"\d+(?=[^\d/]*$)|\d+(?=/[^\d/]+$)")
_FEWEST_SIBLINGS, _LONGEST_RANK = 3, 6
# slurm-4711-gpu07-3.out (Slurm's %j, %N and %t)
_NODE_OF_TASK = pattern_of(r"(?i)(?:^|/)(?:slurm|job)-\d+-([a-z][\w.]*)-\d+\.")
# node-004.log   gpu-node12.out   host-3/stdout
_NODE = pattern_of(r"(?i)(?:^|[/_.-])((?:[a-z]+-)*(?:node|host|gpu-?node|worker|ip)-?\d[\w-]*?)(?=\.|/|_rank|$)")
# dmesg-node3.txt   node-logs/kern_gpu-node12.log
_KIND_BEFORE = pattern_of(
    r"(?i)(^|[/_.-])(?:dmesg|kern(?:el)?|journal(?:ctl)?|syslog|messages|console|output|nccl|stdout|stderr|logs?)[-_.]"
)
_HEADING = pattern_of(rb"^==> (?P<name>\S{1,300})(?: \((?P<host>[\w.-]{1,120})\))? <==[ \r]*$", re.MULTILINE)
_ENDING_OF_OUTPUT = r"\.(?:out|log|err|txt)$"
# ox.012.out   12.log   out/spoke.003
_NUMBERED = pattern_of(rf"(?:^|[./])(\d{{1,5}})(?:{_ENDING_OF_OUTPUT}|$)")
# pn-1.out   rk0812.log   (but no part-1.out)
_OF_HOST = pattern_of(
    rf"(?:^|/)((?!(?:part|shard|chunk|log|out|run|job|train|step|test)[a-z]*-?\d)[A-Za-z][A-Za-z-]*\d{{1,5}}){_ENDING_OF_OUTPUT}"
)

# elm-7/boat-02.log   (but no step-1/part-0.out)
_IN_FOLDER = pattern_of(
    rf"(?:^|/)(?P<folder>(?!(?:step|epoch|attempt|try|run|part)[-_]?\d)(?=[^/]*[A-Za-z])[\w.-]{{2,60}})"
    rf"/(?P<stem>(?!(?:part|chunk)[-_.]?\d)[A-Za-z][A-Za-z_-]*?)[-_.]?(?P<number>\d{{1,5}})(?:{_ENDING_OF_OUTPUT}|$)"
)


def is_log(path: str) -> bool:
    """Whether a file of a job's folder is one of its logs."""
    name = os.path.basename(path)
    return bool(_LOG_NAME.search(name)) and (not name.endswith(".json") or name.endswith("error.json"))


def rank_in(path: str, own: str) -> int | None:
    """The rank that a path names, by torchelastic's folders or by the last two names of `own`, the part below the job's
    folder; None for none."""
    elastic = _ELASTIC.search(path)
    if elastic:
        return number_in(elastic[1])
    matches = (_RANK.search(name) for name in reversed(own.split("/")[-2:]))
    return next((number_in(match[1]) for match in matches if match), None)


def ranks_of_siblings(names: Iterable[str]) -> Mapping[str, int]:
    """The rank of each of a folder's files that differ in a number only which counts them all from 0, behind a word for
    what a process prints: `rsl.error.0000`, `out.3`, `PET3.ESMF_LogFile`. Empty for others."""
    siblings: dict[str, dict[str, int]] = defaultdict(dict)
    for name in names:
        number = _LAST_NUMBER.search(name)
        if number and len(number[0]) <= _LONGEST_RANK and _BEFORE_RANK.search(name[: number.start()]):
            siblings[re.sub(r"\d+", "0", name)][name] = int(number[0])
    return {
        name: rank
        for ranks in siblings.values()
        if len(ranks) >= _FEWEST_SIBLINGS and sorted(ranks.values()) == list(range(len(ranks)))
        for name, rank in ranks.items()
    }


def places_by_folder(names: Iterable[str]) -> Mapping[str, tuple[int, str]]:
    """The rank and the host of files that lie in one folder for each host and are numbered over all of them:
    `elm-7/boat-00.log`, `elm-7/boat-01.log`, `oak-3/boat-02.log`, `oak-3/boat-03.log`. Empty for others."""
    alike: dict[str, dict[str, tuple[int, str]]] = defaultdict(dict)
    for name in names:
        if found := _IN_FOLDER.search(name):
            alike[found["stem"]][name] = (int(found["number"]), found["folder"])
    places: dict[str, tuple[int, str]] = {}
    for found_places in alike.values():
        if _all_of_all_hosts(found_places.values()) or _some_of_all_hosts(found_places.values()):
            places |= found_places
    return places


def _all_of_all_hosts(places: Collection[tuple[int, str]]) -> bool:
    """Whether all numbers from 0 or 1 on are there, as many on each of several hosts."""
    ranks, hosts = zip(*places, strict=True)
    each, first = set(Counter(hosts).values()), min(ranks)
    counted = first <= 1 and sorted(ranks) == list(range(first, first + len(ranks)))
    return counted and len(each) == 1 and min(each) > 1 and len(set(hosts)) > 1


def _some_of_all_hosts(places: Collection[tuple[int, str]]) -> bool:
    """Whether numbers go on from host to host, each the name of a machine, though not all files are there."""
    ordered = sorted(places)
    first_on = {host: rank for rank, host in reversed(ordered)}
    changes = [rank for (_, before), (rank, host) in pairwise(ordered) if host != before]
    distinct = len({rank for rank, _ in ordered}) == len(ordered)
    named = all(host[-1].isdecimal() for host in first_on)
    return distinct and named and len(changes) == len(first_on) - 1 > 0 and min(changes) > 1


def node_in(path: str) -> str | None:
    """The node that a path names, without the words before it for a kind of log; None for none."""
    match = _NODE.search(_KIND_BEFORE.sub(r"\1", path)) or _NODE_OF_TASK.search(path)
    return match[1] if match else None


def in_order(path: str) -> tuple[object, ...]:
    """A key that sorts a job's logs: rank 10 comes after rank 2. Torchelastic's error.json, which repeats the log
    beside it, comes last in its folder."""
    return _natural(os.path.dirname(path)), path.endswith(".json"), _natural(path)


def _natural(path: str) -> list[tuple[int, int, str]]:
    return [
        (1, 0, part) if (number := number_in(part)) is None else (0, number, "")
        for part in re.split(r"(\d+)", path)
        if part
    ]


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
    headings = [(heading, heading["name"].decode(errors="replace")) for heading in _HEADING.finditer(data)]
    places = places_by_folder({name for _, name in headings})
    for heading, name in headings:
        at = position + data.count(b"\n", 0, heading.start())
        blank = data.find(b"\n\n", heading.end())
        until = sys.maxsize if blank < 0 else at + data.count(b"\n", heading.start(), blank)
        if name in places:
            yield Section(at, until, *places[name])
            continue
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
