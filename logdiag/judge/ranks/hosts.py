"""On which host a process runs: by what launchers print, and by what stands beside the processes' names.

`boat=skiff2`, `up on tarn-c14`, `worker 0 = pid 9321, tvx12 dev 0`, `16 tiles on sk110 sk111`: behind one and the same
word, or in one and the same column, each process has one name. Names that neighbours share are those of hosts; so are
others where the word before them says so.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise

from logdiag.judge.ranks.placement import may_be_a_host, words_of
from logdiag.judge.ranks.speakers import NO_NODES
from logdiag.model import Line, with_nines

# gpu-07   ip-10-0-2-7.ec2.internal   10.0.2.7   (a plain word or a bare number is none, unless a launcher says so)
_HOST = r"(?P<node>(?=[\w.-]*[\d.-])(?!\d+(?:\.\d+)?(?![\w.-]))\w[\w.-]{1,119}(?<![.-]))"
_TOLD = tuple(
    re.compile(form.replace("HOST", _HOST))
    for form in (
        # slurmstepd: error: *** JOB 4711 ON gpu-07 CANCELLED AT ...
        r"\*\*\* (?:JOB|STEP) \S{1,40} ON (?P<node>[\w.-]{1,120}) CANCELLED ",
        # srun: error: gpu-07: task 3: Exited with exit code 1
        r"\bsrun: error: (?P<node>[\w.-]{1,120}): tasks? \d",
        # mpirun noticed that process rank 3 with PID 812 on node gpu-07 exited on signal 9
        r" with PID \d{1,9} on node (?P<node>[\w.-]{1,120}) ",
        # [proxy:0:0@gpu-07] HYD_pmcd_pmip_control_cmd_cb   (not [mpiexec@head]: that runs where the job was started)
        r"^\[proxy:\d+:\d+@(?P<node>[\w.-]{1,120})\]",
        # MPICH ERROR [Rank 5] [job id 40.0] [Tue Dec 12 17:52:24 2025] [nid001097] - Abort(404347151)
        r"\] \[(?P<node>[\w.-]{1,120})\] - Abort\(",
        # [1726132598.976312] gpu-07:rank0.train: Failed to modify UD QP   (PSM3)   gpu-07:rank3: (PSM2)
        r"(?:^|\] )HOST:rank\d{1,6}(?:\.\S{1,80})?: ",
        # unable to run job, send to MOM 'gpu-07' failed
        r"\bto MOM '(?P<node>[\w.-]{1,120})'",
        # Message from syslogd@gpu-07 at Apr 22 16:14:35 ...
        r"^Message from syslogd@(?P<node>[\w.-]{1,120}) at ",
        # Successfully assigned train/trainer-0 to gpu-07
        r"\bSuccessfully assigned \S{1,200} to (?P<node>[\w.-]{1,120})",
        # Warning  Evicted  18m  kubelet, gpu-07  The node was low on resource   {kubelet gpu-07}
        r"\bkubelet(?:, |\s)HOST(?=[\s}])",
        # Node:   gpu-07/10.0.2.7   NodeName=gpu-07   hostname:  gpu-07   Local host: gpu-07   nodeName: gpu-07
        r"(?:^|[\s,{(\"])(?:Node|NodeName|nodeName|[Hh]ost(?:[Nn]ame)?|Local host|exec_host|BatchHost)\"?"
        r"\s{0,12}[:=]\s{0,24}\"?HOST(?=[\s/,;\")]|$)",
        # (ip=10.0.2.7)   Owner Ip address: 10.0.2.7   node_ip: 10.0.2.7   (Ray)
        r"(?:^\s*ip|\bnode_ip(?:_address)?|\bIp address)\s?[:=]\s?(?P<node>\d{1,3}(?:\.\d{1,3}){3})\b",
        # ... on worker-0, rank = 0 in MultinodeMemoryAllocation
        r"\bon HOST, rank = \d",
        # error reading from MOM on node gpu-07   the daemon on host gpu-07 failed
        r"\bon (?:the )?(?:node|host|machine):? HOST(?![\w/])",
    )
)
# root@gpu-07:~#   [ada@gpu-07 run]$   (base) ada@gpu-07:~$   nid00094 ~/run$   (asked last: who looked at the log may
# have been elsewhere)
_PROMPT = re.compile(
    r"^(?:\(\S{1,40}\) )?(?:\[?[a-z_][\w.-]{0,31}@(?P<node>[A-Za-z][\w.-]{0,80})(?::| [^\]\n]{1,80}\])[^#$\n]{0,80}[#$]"
    r"|(?P<bare>[a-z][\w.-]*\d) [~/][^ ]{0,80}[#$])(?: |$)"
)

# skiff2   pierA   fen-c   h1
_NAME = re.compile(r"(?:[A-Za-z_]+-)*[A-Za-z]+\d+[A-Za-z]?|(?:[A-Za-z_]+-)+(?:[A-Za-z]|\d+)|[A-Za-z]+[a-z][A-Z]")
_HOST_WORDS = frozenset(["host", "node", "hostname", "machine", "nodename", "on", "at"])
_NUMBER = re.compile(r"\d+")
# Words of a line, first lines, letters of a name that no word before it calls a host's, digits of a number of ranks.
_HEAD, _OPENING, _SHORTEST, _LONGEST = 30, 12, 6, 4
_SHARE_AGREEING, _FEWEST = 0.9, 2

_Place = tuple[str, int]  # the word before a name, or else the column


def host_told(root: Line, lines: Sequence[Line]) -> str | None:
    """The host that the root's line names; else the only one that any line does, or at whose prompt it was printed."""
    if own := _named_in([root]):
        return own.pop() if len(own) == 1 else None
    named = _named_in(lines) or {
        found["node"] or found["bare"] for line in lines if (found := _PROMPT.match(line.text))
    }
    return named.pop() if len(named) == 1 else None


def _named_in(lines: Sequence[Line]) -> set[str]:
    # No form asks for a certain digit: of lines that differ in digits only, one tells whether they name any.
    alike = {with_nines(line.text): line.text for line in lines}
    naming = {key for key, text in alike.items() if any(form.search(text) for form in _TOLD)}
    texts = (line.text for line in lines if with_nines(line.text) in naming) if naming else ()
    return {found["node"] for text in texts for form in _TOLD for found in form.finditer(text)}


def node_named_in(line: Line, nodes: Iterable[str]) -> str | None:
    """The only one of the nodes that a line names; None where it names several or none."""
    named = {
        node
        for node in nodes
        if node in line.text and re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-]|[.]\w)", line.text)
    }
    return named.pop() if len(named) == 1 else None


def hosts_said(lines: Iterable[Line], ranks_of: Callable[[Line], set[int]], known: Collection[int]) -> dict[int, str]:
    """The host of each process of which a line says it, and of those of the `known` ones whose neighbours tell it."""
    told: dict[_Place, dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for line in lines:
        ranks = ranks_of(line) if (names := list(_names(line))) else set()
        if len(ranks) == 1:
            for place, name in names:
                told[place][min(ranks)][name] += 1
    best: tuple[tuple[bool, bool, int], dict[int, str]] = ((False, False, 0), {})
    for (word, _), names_of in told.items():
        hosts = _one_each(names_of)
        weight = _weight(word, hosts)
        if weight > best[0]:
            best = weight, hosts
    return _with_neighbours(best[1], known)


def _names(line: Line) -> Iterator[tuple[_Place, str]]:
    """The names of a line that may be a host's, each with its place."""
    for at, (before, name) in enumerate(pairwise(("", *words_of(line)[:_HEAD]))):
        word = _stem(before)
        if may_be_a_host(name, said=word in _HOST_WORDS) or (_NAME.fullmatch(name) and _stem(name) not in NO_NODES):
            yield ((word, -1) if word.isalpha() else ("", at)), name


def _stem(name: str) -> str:
    """A name without its number."""
    return name.lower().rstrip("0123456789-_.")


def _one_each(names: Mapping[int, Counter[str]]) -> dict[int, str]:
    """The one name of each process, where nearly all say one only; else nothing."""
    hosts = {rank: counts.most_common(1)[0][0] for rank, counts in names.items()}
    agreeing = sum(counts[hosts[rank]] for rank, counts in names.items())
    return hosts if agreeing >= _SHARE_AGREEING * sum(counts.total() for counts in names.values()) else {}


def _weight(word: str, hosts: Mapping[int, str]) -> tuple[bool, bool, int]:
    """How much speaks for names as hosts' behind a word: whether it says so, whether neighbours share them, for how
    many processes; nothing where it is too little."""
    said = word in _HOST_WORDS
    distinct = len(set(hosts.values()))
    changes = 1 + sum(one != other for one, other in pairwise(host for _, host in sorted(hosts.items())))
    shared = 1 < distinct < len(hosts) and changes == distinct
    own = sum(int(_NUMBER.findall(host)[-1]) == rank for rank, host in hosts.items() if _NUMBER.search(host))
    alike = len({_NUMBER.sub("0", host) for host in hosts.values()}) == 1
    long = all(len(host) >= _SHORTEST and _NUMBER.search(host) for host in hosts.values())
    own_names = distinct > 1 and 2 * own > len(hosts)  # seat3 is number 3
    if own_names or len(hosts) < _FEWEST or not (said or shared or (alike and long and distinct == len(hosts))):
        return False, False, 0
    return said, shared, len(hosts)


def _with_neighbours(hosts: Mapping[int, str], known: Collection[int]) -> dict[int, str]:
    """Few of the lines may have been kept: where blocks of as many processes each have one host, all of a block do."""
    distinct = len(set(hosts.values()))
    if distinct == 1:
        return {**dict.fromkeys(known, min(hosts.values())), **hosts}
    sizes = (
        size
        for size in range(2, max(known, default=0) + 1)
        if len({(at // size, name) for at, name in hosts.items()}) == distinct == len({at // size for at in hosts})
    )
    size = next(sizes, 0) if distinct < len(hosts) else 0
    blocks = {at // size: name for at, name in hosts.items()} if size else {}
    return {**{at: blocks[at // size] for at in known if size and at // size in blocks}, **hosts}


def hosts_in_order(first: Iterable[Line], known: Collection[int], own: str) -> dict[int, str]:
    """The host of each rank, where one of the job's first lines names its hosts in a row: as many ranks on each, in
    their order. Where they name one host alone, all `known` ranks are there. `own` is what the processes are called."""
    least = max(known, default=-1) + 1
    single: set[str] = set()
    for line in islice(first, _OPENING):
        words = words_of(line)
        alike: dict[str, list[str]] = defaultdict(list)
        for before, name in pairwise(("", *words)):
            if _may_be_one_of_a_row(name, own):
                alike[_NUMBER.sub("0", name)].append(name)
                single.update([name] if _stem(before) in _HOST_WORDS else [])
        row = max(alike.values(), key=len, default=[])
        stated = (int(word) for word in words if word.isdigit() and len(word) <= _LONGEST)
        size = next((number for number in stated if number >= max(least, len(row) + 1)), least)
        if 1 < len(set(row)) == len(row) < size and size % len(row) == 0:
            return {rank: row[rank * len(row) // size] for rank in range(size)}
    return dict.fromkeys(known, single.pop()) if len(single) == 1 else {}


def _may_be_one_of_a_row(name: str, own: str) -> bool:
    numbered = (may_be_a_host(name) or _NAME.fullmatch(name)) and _NUMBER.search(name) and ".." not in name
    return bool(numbered) and _stem(name) not in NO_NODES | {own}
