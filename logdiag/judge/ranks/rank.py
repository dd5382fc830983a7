"""On which rank and node the root happened. Ordered decisions; the first that finds a rank answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from logdiag.judge.decisions import decision, first_that_applies
from logdiag.judge.faults import Fault
from logdiag.judge.ranks.hosts import host_told, hosts_in_order, hosts_said, node_named_in
from logdiag.judge.ranks.launchers import Worker, first_observed
from logdiag.judge.ranks.owners import Owners, owners_in
from logdiag.judge.ranks.placement import Placement, placement_in
from logdiag.judge.ranks.speakers import PROCESSES, Speakers, numbered_speakers
from logdiag.judge.timeline import Timeline
from logdiag.model import TROUBLE, Collectives, Decision, Finding, Line, Reason, Role
from logdiag.scan.survey import Opening

# node-2:5776:5902 [0] transport/net_ib.cc:1296 NCCL WARN
_NCCL_DEVICE = re.compile(r"[\w.-]+:\d+:\d+ \[(\d{1,4})\] ")
_LAUNCHER = re.compile(r"torch[./]distributed[./](?:run|launcher|elastic)")
# -- Process 1 terminated with the following error:   RayTaskError(KeyError): ray::Worker.step() (..., repr=W[rank=1])
_SPAWNED = re.compile(
    r"-- Process (?P<spawned>\d{1,6}) terminated with the following error|"
    r"\bRayTaskError\b.{1,400}\[rank=(?P<actor>\d{1,6})\]\)"
)
# ValueError: shard 7 of the loom is torn   (others repeat what it says, not its class)
_CLASS = re.compile(r"^[\w.]{1,120}(?:Error|Exception): ")
_HEADER = "Traceback (most recent call last)"
# NVRM: Xid (PCI:0000:3b:00): 48, pid=3121, name=python, ...   DataLoader worker (pid 4711) is killed
_PROCESS = re.compile(r"\bpid[=: ]{1,2}'?(\d{1,9})\b")
_NUMBERS = re.compile(r"\d{1,9}")
# node=im1@gpu25   [exec-2@wgd112]   r04@box34   (who speaks, and where)
_AT = re.compile(r"(?<![\w.])[A-Za-z][\w-]{0,31}@(?P<host>[A-Za-z][\w-]*\d[\w.-]*)(?![\w.@]*@)")
_HEAD, _FEWEST_AT = 72, 4
_WAITED = frozenset({Reason.NCCL_TIMEOUT_ERROR, Reason.NCCL_REMOTE_ERROR})
_ONE = "|".join(sorted(word for word in PROCESSES if len(word) > 1))
# absent: 10   missing ordinals: 0,3   no part from 1   rank 3 never posted   seat 13 not among them
_MISSED = re.compile(
    r"(?i)\b(?:missing|lacking|absent|mute|unheard|silent|without|no part from|wait(?:s|ed|ing)? (?:for|on))\b\W{0,4}"
    rf"(?:(?:{_ONE})s?\W{{0,3}})?(?P<some>\d{{1,5}}(?:, ?\d{{1,5}})*)(?![\w./]| ?(?:m?s|sec\w*|of)\b)"
    rf"|\b(?:{_ONE})[ =:#._-]{{0,3}}(?P<one>\d{{1,5}}) (?:did not|never|is gone|gone|not|has not|left|lost|absent)\b"
)
# channel to ordinal 2 was closed   (peer 23)   stream to 4 ended
_NAMED = re.compile(
    rf'(?i)(?<![a-z])(?:(?:{_ONE})s?|(?:stream|channel) to)"?[ =:#._-]{{0,3}}\[?(\d{{1,5}})(?![\w:.]*\d|[\w/-])'
)
# Kept lines; lines that are asked for hosts.
_LONGEST_TRACEBACK, _MOST_LINES = 200, 1500
_SHORTEST_QUOTE, _LONGEST_QUOTE = 20, 300
_FEWEST_THAT_AGREE = 2
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the decisions look at: the root, all that broke, all kept lines, the launcher's summary."""

    root: Fault
    faults: Sequence[Fault]
    lines: Sequence[Line]
    workers: Sequence[Worker]
    owners: Owners
    speakers: Callable[[], Speakers]
    placement: Callable[[], Placement]
    said_hosts: Callable[[], Mapping[int, str]]
    in_order: Callable[[], Mapping[int, str]]
    collectives: Collectives | None

    @property
    def node(self) -> str | None:
        """The node that the root's line names or is of, the only one where it names none."""
        return self.root.finding.node or (next(iter(self.owners.nodes)) if len(self.owners.nodes) == 1 else None)

    @property
    def ranks(self) -> frozenset[int]:
        """All ranks of which something is known."""
        of_lines = (line.rank for line in self.lines if line.rank is not None)
        return frozenset([*self.speakers().numbers.values(), *self.placement().listed, *of_lines])

    def ranks_in(self, line: Line) -> set[int]:
        """The process that a line is of, else those that it names."""
        own = self.speaker_of(line)
        return self.named_in(line) if own is None else {own}

    @property
    def hosts(self) -> Mapping[int, str]:
        """The host of each rank, by what lines say beside its name, by prefixes, and by the listings."""
        pairs = {(line.rank, line.node) for line in self.lines}
        prefixed = {rank: node for rank, node in pairs if rank is not None and node}
        sure = len(prefixed) == sum(rank is not None and node is not None for rank, node in pairs)
        return {**self.said_hosts(), **(prefixed if sure else {}), **self.placement().hosts}

    @property
    def host(self) -> str | None:
        """The host of ranks that the root's line is of or names."""
        known = set(self.hosts.values())
        return self.root.finding.node if self.root.finding.node in known else node_named_in(self.root.line, known)

    @property
    def first_observed(self) -> int | None:
        return first_observed(self.workers)

    def speaker_of(self, line: Line) -> int | None:
        """The rank that printed a line, by its prefix, its place in a listing or the number of its process."""
        if line.rank is not None:
            return line.rank
        listed = self.placement().rank_of(line)
        return self.speakers().numbers.get((line.stream, line.position)) if listed is None else listed

    @property
    def waiting(self) -> set[int]:
        """The processes that say the same as the root's line, numbers aside."""
        form = _NUMBERS.sub("0", self.root.line.message)
        alike = (line for line in self.lines if line.message and _NUMBERS.sub("0", line.message) == form)
        return {own for line in alike if (own := self.speaker_of(line)) is not None}

    def named_in(self, line: Line) -> set[int]:
        """The processes that a line's words name."""
        named = set(map(int, _NAMED.findall(line.text)))
        return named | self.speakers().named_in(line) | self.placement().named_in(line)

    @property
    def one_node(self) -> bool:
        return len({line.node for line in self.lines if line.node}) <= 1


def absent_from_the_collective(facts: _Facts) -> int | None:
    """The ranks waited in a collective, and by the table of all ranks this one kept them waiting; -1 where it names
    several."""
    if facts.root.reason is not Reason.NCCL_TIMEOUT_ERROR or facts.collectives is None:
        return None
    ranks = facts.collectives.ranks
    return None if not ranks else ranks[0] if len(ranks) == 1 else -1


def named_by_its_line(facts: _Facts) -> int | None:
    """The root's line names its rank, by a prefix or in its words."""
    return facts.root.finding.rank


def numbered_speaker(facts: _Facts) -> int | None:
    """No prefix names ranks, but a word with a number runs over all processes of the log, and one printed the line."""
    if facts.root.reason in _WAITED:
        return None  # who speaks is one of those that waited
    return facts.speakers().numbers.get((facts.root.line.stream, facts.root.line.position))


def listed_by_the_launcher(facts: _Facts) -> int | None:
    """A listing tells which rank the process, the unit or the place is that the root's line names first."""
    if facts.root.reason in _WAITED or len(facts.placement().named_in(facts.root.line)) > _MOST_NAMED:
        return None  # roll call (2,0)=here (2,1)=here (2,2)=here (2,3)=....
    return facts.placement().rank_of(facts.root.line)


def waited_for(facts: _Facts) -> int | None:
    """The others waited in vain for the only other process that the root's line names."""
    if facts.root.reason not in _WAITED:
        return None
    line = facts.root.line
    missed, named, blamed = _missed_in(line), facts.named_in(line), _blamed_by_all(facts)
    own = {facts.speaker_of(line), facts.placement().rank_of(line)}
    groups = ((group & facts.ranks or group) - own for group in (missed, named & blamed, named, blamed))
    others = next(filter(None, groups), set())
    return others.pop() if len(others) == 1 else None


def silent_while_all_wait(facts: _Facts) -> int | None:
    """All processes but one say that they waited in vain."""
    silent = facts.ranks - facts.waiting if facts.root.reason in _WAITED else frozenset()
    return next(iter(silent)) if len(silent) == 1 and len(facts.waiting) >= _FEWEST_THAT_AGREE else None


def first_that_waited(facts: _Facts) -> int | None:
    """Nobody is named as missing, and all waited or lost a peer: the first of them."""
    alone = facts.root.reason is Reason.NCCL_REMOTE_ERROR or not facts.ranks - facts.waiting
    return facts.speaker_of(facts.root.line) if facts.root.reason in _WAITED and alone else None


def only_rank_of_its_host(facts: _Facts) -> int | None:
    """The root's line is of a host or names one, and every rank from the first on has a host of its own."""
    hosts = facts.hosts
    rank_on = {host: rank for rank, host in hosts.items()}
    one_each = len(rank_on) == len(hosts) > 1 and min(hosts) <= 1 and len(hosts) == max(hosts) - min(hosts) + 1
    return rank_on.get(facts.host or "") if one_each else None


def named_by_its_process(facts: _Facts) -> int | None:
    """The root's line names a process, and the launcher's summary gives that process a rank."""
    process = facts.root.finding.facts.get("pid")
    listed = {worker.rank for worker in facts.workers if process and worker.process == process}
    return listed.pop() if len(listed) == 1 else None


def named_by_its_pod(facts: _Facts) -> int | None:
    """The root's line names a pod, all of whose own lines are of one rank."""
    pod = facts.root.finding.facts.get("pod")
    spoke = {line.rank for line in facts.lines if pod and line.rank is not None and pod in line.speaker.split("/")}
    return spoke.pop() if len(spoke) == 1 else None


def owner_of_its_process(facts: _Facts) -> int | None:
    """The root's line names a process, and NCCL told on that node which rank the process is."""
    named = _PROCESS.search(facts.root.line.message)
    return facts.owners.of_process(facts.node, named[1]) if named else None


def owner_of_its_gpu(facts: _Facts) -> int | None:
    """The root's line names a GPU by its PCI address, and NCCL told on that node which rank has it."""
    return facts.owners.of_gpu(facts.node, facts.root.finding.facts.get("pci", ""))


def number_of_its_gpu(facts: _Facts) -> int | None:
    """On the only node, the machine's number of the GPU: it counts them as a launcher counts its ranks."""
    return _number(facts.root, "gpu") if facts.one_node else None


def number_of_nccl_device(facts: _Facts) -> int | None:
    """On the only node, NCCL's number of the device."""
    device = _NCCL_DEVICE.search(facts.root.line.text)
    named = device is not None and any(line.node for line in facts.lines) and facts.one_node
    # Lines of another node may be missing: a local index is no rank of the job then.
    return int(device[1]) if device and named and "between-nodes" not in facts.root.traits else None


def record_above_a_caught_exception(facts: _Facts) -> int | None:
    """The record above an exception that was caught and printed names the rank."""
    return _rank_above(facts) if facts.root.caught else None


def died_of_the_same(facts: _Facts) -> int | None:
    """The one rank that died of the root's reason, or of one that it explains; of several the launcher's first; -1
    where they cannot be told apart."""
    for group in _kin(facts.root, [fault for fault in facts.faults if fault.died]):
        ranks = {fault.finding.rank for fault in group} - {None}
        if ranks:
            return ranks.pop() if len(ranks) == 1 else facts.first_observed if facts.first_observed in ranks else -1
    return None


def first_in_the_launchers_summary(facts: _Facts) -> int | None:
    """The launcher's summary calls this rank the first that it saw fail."""
    return facts.first_observed


def record_above_the_traceback(facts: _Facts) -> int | None:
    """What stands above the root's traceback names the rank."""
    return _rank_above(facts)


def repeats_its_words(facts: _Facts) -> int | None:
    """The one rank of which another line repeats the root's words."""
    words = _CLASS.sub("", facts.root.line.message.strip())[:_LONGEST_QUOTE]
    if len(words) < _SHORTEST_QUOTE:
        return None
    ranks = {line.rank for line in facts.lines if line.rank is not None and words in line.text}
    return ranks.pop() if len(ranks) == 1 else None


def reported_as_ended_first(facts: _Facts) -> int | None:
    """The rank of which a launcher first reports that its process ended."""
    # A task that is a launcher is no rank.
    told = "local_rank" if any(_LAUNCHER.search(line.text) for line in facts.lines) else "ended"
    if told == "local_rank" and not facts.one_node:
        return None
    numbers = (_number(fault, told) for fault in (facts.root, *facts.faults))
    return next((number for number in numbers if number is not None), None)


def number_of_its_device(facts: _Facts) -> int | None:
    """On the only node, the number of the device that the root names, unless it is 0, as which many a process sees its
    only one."""
    return (_number(facts.root, "device") or None) if facts.one_node else None


RANK: tuple[Callable[[_Facts], int | None], ...] = (
    absent_from_the_collective,
    waited_for,
    named_by_its_line,
    listed_by_the_launcher,
    numbered_speaker,
    named_by_its_process,
    named_by_its_pod,
    owner_of_its_gpu,
    owner_of_its_process,
    number_of_its_gpu,
    number_of_nccl_device,
    record_above_a_caught_exception,
    died_of_the_same,
    first_in_the_launchers_summary,
    record_above_the_traceback,
    repeats_its_words,
    reported_as_ended_first,
    number_of_its_device,
    silent_while_all_wait,
    first_that_waited,
    only_rank_of_its_host,
)
"""In this order."""

GUESSES = frozenset(
    decide.__name__
    for decide in (
        waited_for,
        numbered_speaker,
        silent_while_all_wait,
        first_that_waited,
        number_of_its_gpu,
        number_of_nccl_device,
        repeats_its_words,
        number_of_its_device,
    )
)
"""Those of them that take a number for a rank because nothing speaks against it."""


def rank_from(decisions: Iterable[Decision]) -> Decision | None:
    """The decision that found the rank, None where none did."""
    names = {decide.__name__ for decide in RANK}
    return next((made for made in decisions if made.name in names and made.outcome.startswith("rank ")), None)


def rank_and_node(
    root: Fault,
    faults: Sequence[Fault],
    lines: Sequence[Line],
    timeline: Timeline,
    without: frozenset[str] = frozenset(),
    places: Sequence[Finding] = (),
    collectives: Collectives | None = None,
    openings: Sequence[Opening] = (),
) -> tuple[int | None, str | None, tuple[Decision, ...]]:
    """The root's rank and node, and the decision that found the rank. `faults` are all that broke, `lines` the kept
    ones, `places` those that tell which rank has which GPU, `collectives` where each rank stood in what hung, and
    `openings` the logs' first lines, where a launcher may list its ranks."""
    first = cache(lambda: [line for opening in openings for line in opening.lines()])
    placement = cache(lambda: placement_in(lines, first()))
    speakers = cache(lambda: numbered_speakers(lines, first()))
    said_hosts = cache(lambda: hosts_said([*first(), *lines][:_MOST_LINES], facts.ranks_in, facts.ranks))
    in_order = cache(lambda: hosts_in_order(first(), facts.ranks, facts.speakers().word))
    owners = owners_in(places)
    facts = _Facts(
        root, faults, lines, timeline.workers, owners, speakers, placement, said_hosts, in_order, collectives
    )
    made = first_that_applies(RANK, facts, without=without)
    if made is None:
        return None, _node(facts, None), ()
    decide, found = made
    rank = found if found >= 0 else None
    said = decision(decide, root.line, "no rank" if rank is None else f"rank {rank}")
    return rank, _node(facts, rank), (said,)


def _node(facts: _Facts, rank: int | None) -> str | None:
    """The node of the root: named on its line, by other lines of its rank, by the launcher's summary or its listing, in
    the words of its line or of those of its rank, the only one, or by its place in a row of them."""
    root = facts.root
    # A watchdog's line is of a rank that waited, and on that one's node.
    absent = set(map(int, _NUMBERS.findall(root.finding.facts.get("absent", "")))) - {root.line.rank}
    own = None if absent or root.reason in _WAITED else _host_of_speaker(facts)
    if (root.finding.node or own) and not absent:
        return own or root.finding.node
    if ranks := absent or ({rank} if rank is not None else set()):
        named = {line.node for line in facts.lines if line.rank in ranks and line.node}
        named |= {worker.host for worker in facts.workers if worker.rank in ranks}
        named = named or {facts.placement().hosts[rank] for rank in ranks if rank in facts.placement().hosts}
        if len(named) == 1:
            return named.pop()
    every = {line.node for line in facts.lines if line.node}
    spoken = facts.said_hosts()
    known = {*every, *spoken.values(), *facts.placement().hosts.values()}
    short = {node.partition(".")[0]: node for node in known}
    named_short = short.get(node_named_in(root.line, short) or "")
    if told := node_named_in(root.line, known) or named_short or spoken.get(-1 if rank is None else rank):
        return told
    if len(every) == 1:
        return every.pop()
    ordered = facts.in_order().get(rank) if rank is not None else None
    return ordered or (None if every else host_told(root.line, facts.lines))


def _host_of_speaker(facts: _Facts) -> str | None:
    """The host behind the root's speaker, where lines begin with who speaks at which: `r04@box34 i sync:`."""
    told = _AT.search(facts.root.line.text[:_HEAD])
    if told is None or sum(_AT.search(line.text[:_HEAD]) is not None for line in facts.lines) < _FEWEST_AT:
        return None
    return told["host"].rstrip(".")


def _missed_in(line: Line) -> set[int]:
    """The ranks of which a line says that they did not come."""
    found = _MISSED.finditer(line.text)
    return {int(number) for match in found for number in _NUMBERS.findall(match["some"] or match["one"])}


def _kin(root: Fault, died: Sequence[Fault]) -> Iterable[Sequence[Fault]]:
    """What processes died of: the root's reason, causes before what peers say, or a cause that the root explains."""
    same = [fault for fault in died if fault.reason is root.reason]
    yield [fault for fault in same if fault.finding.role is root.finding.role]
    yield [fault for fault in died if fault.reason in root.explains and fault.finding.role is Role.CAUSE]
    yield same


def _blamed_by_all(facts: _Facts) -> set[int]:
    """The ranks that all name who say the same as the root's line, each of itself: `peer 3 ended stream 11`."""
    form = _NUMBERS.sub("0", _without_clock(facts.root.line))
    alike = [line for line in facts.lines if _NUMBERS.sub("0", _without_clock(line)) == form]
    speakers = {facts.speaker_of(line) for line in alike} - {None}
    if len(speakers) < _FEWEST_THAT_AGREE:
        return set()
    columns = zip(*(map(int, _NUMBERS.findall(_without_clock(line))) for line in alike), strict=True)
    common = {column[0] for column in columns if len(set(column)) == 1}
    return (common & facts.ranks) - speakers


def _without_clock(line: Line) -> str:
    return line.text.replace(line.clock, "", 1) if line.clock else line.text


def _rank_above(facts: _Facts) -> int | None:
    """The rank that is said to have raised an exception, by what stands above its traceback: the report of
    torch.multiprocessing, the traceback's own head, or the record of which it is a part."""
    root = facts.root
    if not (root.died or root.caught):
        return None
    above = [line for line in facts.lines if line.stream == root.line.stream and line.position < root.line.position]
    for line in reversed(above[-_LONGEST_TRACEBACK:]):
        if spawned := _SPAWNED.search(line.text):
            return int(spawned["spawned"] or spawned["actor"])
        if line.rank is not None or line.level is not None:
            return line.rank if line.level in TROUBLE or line.level == "WARNING" or _HEADER in line.text else None
    return None


def _number(fault: Fault, fact: str) -> int | None:
    """A fact that is a number; a rule, which may be a user's own, can catch anything under a fact's name."""
    told = fault.finding.facts.get(fact, "")
    return int(told) if re.fullmatch(r"\d{1,6}", told) else None
