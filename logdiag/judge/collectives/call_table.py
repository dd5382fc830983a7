"""Gathers what is known of each rank in each process group, from lines of watchdogs, NCCL and flight recorders."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from logdiag.judge.merge.clocks import moment
from logdiag.judge.ranks.processes import owners_in
from logdiag.model import number_in
from logdiag.scan.calls import Call
from logdiag.scan.survey import Survey

# Larger ones are numbers that were never set.
_LARGEST_SEQUENCE = 1 << 40
# So much of the numbers from 0 on must be known ranks for the gaps between them to be ranks too.
_MOSTLY_KNOWN = 0.75
_DEFAULT_GROUPS = ("", "0", "default_pg")
_MOST_MEMBERS = 1 << 16
# Between two ranks only.
_OF_TWO = frozenset({"Send", "Recv"})


@dataclass
class Seat:
    """What is known of one rank in one group, while it is gathered. `waits` is the collective that it did not finish,
    `since` the time from which it waited, `between` that it waits for one rank alone (send, receive); `calls` are
    (operation, sizes) and `made` the times by sequence."""

    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None
    waits: int | None = None
    since: float | None = None
    broken: bool = False
    between: bool = False
    calls: dict[int, tuple[str, str]] = field(default_factory=dict)
    made: dict[int, float] = field(default_factory=dict)
    stack: tuple[str, ...] = ()

    def entered(self, sequence: int) -> bool:
        """Whether the rank came to a collective."""
        return sequence in self.calls or max(self.waits or 0, self.enqueued or 0) >= sequence


@dataclass
class Group:
    """One process group: its name for people, its seats by rank, all ranks that belong to it, those reported missing,
    and how many ranks it has, None where that is not known."""

    name: str
    seats: dict[int, Seat] = field(default_factory=lambda: defaultdict(Seat))
    members: set[int] = field(default_factory=set)
    reported: set[int] = field(default_factory=set)
    size: int | None = None

    @property
    def waiting(self) -> dict[int, int]:
        """The ranks that wait, and in which collective."""
        return {rank: seat.waits for rank, seat in self.seats.items() if seat.waits is not None}

    @property
    def stuck_at(self) -> int:
        """The first collective that did not come to its end."""
        return min(self.waiting.values())


def groups_of(survey: Survey) -> dict[str, Group]:
    """By key, all process groups that the lines of a survey name."""
    groups: dict[str, Group] = {}
    processes = owners_in(survey.places).processes
    communicators = {
        (call.facts["node"], call.facts["pid"], call.facts["comm"]): call.facts["comm_id"]
        for call in survey.calls
        if "comm_id" in call.facts
    }
    later: list[Call] = []
    for call in survey.calls:
        facts = call.facts
        process = facts.get("node", ""), facts.get("pid", "")
        rank = _rank_behind(call, survey, processes.get(process))
        if rank is None or "comm_id" in facts or facts.get("operation") in _OF_TWO:
            continue
        if "op_count" in facts:
            communicator = communicators.get((*process, facts["comm"]), "NCCL")
            group = groups.setdefault(communicator, Group(f"communicator {communicator}"))
            group.size = int(facts["size"])
            _issued(group.seats[rank], call)
        elif "what" in facts:
            _recorded(_named_group(groups, facts).seats[rank], call)
        elif "enqueued" in facts:
            _status(_named_group(groups, facts).seats[rank], call)
        else:
            later.append(call)
    for call in later:
        rank = _rank_behind(call, survey)
        if rank is not None:
            _add_report(_group_of(groups, rank, call.facts), rank, call)
    _complete(groups, survey)
    return groups


def _named_group(groups: dict[str, Group], facts: Mapping[str, str]) -> Group:
    """The group that a line of torch names, with the members that it lists."""
    key = facts.get("group") or facts.get("pg", "")
    name = f" ({facts['name']})" if facts.get("name") else ""
    group = groups.setdefault(key, Group(key + name))
    group.members |= _members(facts.get("members", ""))
    group.size = len(group.members) if "members" in facts else group.size
    return group


def _members(text: str) -> set[int]:
    """The ranks of `0-3, 8`."""
    members: set[int] = set()
    for first, last in re.findall(r"(\d{1,6})(?:-(\d{1,6}))?", text):
        members.update(range(int(first), min(int(last or first), int(first) + _MOST_MEMBERS) + 1))
    return members


def _rank_behind(call: Call, survey: Survey, owner: int | None = None) -> int | None:
    """The rank that made a call: by its line, the `owner` of the process, the line's prefix, or its file; None for
    none. The rank within the group, which torch prints last, is only a last resort."""
    group_rank, line = number_in(call.facts.get("group_rank", "")), call.line
    named = number_in(call.facts.get("rank", ""))
    of_file = survey.streams[line.stream].rank if line.stream < len(survey.streams) else None
    prefix_is_group_rank = line.rank == group_rank and f"[rank{line.rank}]" not in line.text
    printing_rank = of_file if prefix_is_group_rank and of_file is not None else line.rank
    if call.facts.keys() & {"absent", "finished", "joined"} and printing_rank is None:
        return 0  # the line is about other ranks: whose it is does not matter
    return next((rank for rank in (named, owner, printing_rank, group_rank) if rank is not None), None)


def _group_of(groups: dict[str, Group], rank: int, facts: Mapping[str, str]) -> Group:
    """The group of a line that names none: the one in which its rank, or else any, waits in the same collective."""
    sequence = number_in(facts.get("sequence", ""))
    of_rank = [group for group in groups.values() if rank in group.seats]
    same = (group for group in of_rank if group.seats[rank].waits == sequence)
    alike = (group for group in groups.values() if sequence in group.waiting.values())
    only = next(iter(groups.values())) if len(groups) == 1 else None
    return next(same, None) or next(alike, None) or only or groups.setdefault("", Group("the default group"))


def _sequence(text: str | None) -> int | None:
    number = -1 if text == "-1" else number_in(text or "")
    return None if number is None or number > _LARGEST_SEQUENCE else max(number, 0)


def _status(seat: Seat, call: Call) -> None:
    """last enqueued work: 85, last started work: -1, last completed work: 80"""
    facts = call.facts
    seat.enqueued = _sequence(facts["enqueued"])
    seat.completed = _sequence(facts["completed"])
    seat.started = _sequence(facts.get("started")) or seat.started
    if seat.enqueued is None or seat.completed is None or seat.completed > seat.enqueued:
        seat.completed = None  # a number that was never set
    seat.waits = _sequence(facts.get("at"))
    if seat.waits is None and seat.completed is not None and (seat.enqueued or 0) > seat.completed:
        seat.waits = seat.completed + 1


def _recorded(seat: Seat, call: Call) -> None:
    """Adds a record of a flight recorder to a seat."""
    facts = call.facts
    sequence = _sequence(facts["sequence"])
    seat.stack = tuple(facts["stack"].split(" < ")) if "stack" in facts else seat.stack
    if facts["what"] != "collective":
        seat.between = facts["state"] != "completed"
    elif sequence is not None:
        seat.calls[sequence] = facts["operation"], facts.get("shape", "")
        made = moment(facts.get("made", ""))
        if made is not None:
            seat.made[sequence] = made


def _issued(seat: Seat, call: Call) -> None:
    """Adds a call that NCCL prints, numbered from 0 in base 16, to a seat; NCCL does not print when it ends."""
    sequence = int(call.facts["op_count"], 16) + 1
    seat.enqueued = max(sequence, seat.enqueued or 0)
    seat.calls[sequence] = call.facts["operation"], call.facts["in"]


def _add_report(group: Group, rank: int, call: Call) -> None:
    """Adds a line that names no group, about one rank or several."""
    facts = call.facts
    sequence = _sequence(facts.get("sequence"))
    for name in ("joined", "finished", "absent"):
        for member in map(int, re.findall(r"\d+", facts.get(name, ""))):
            group.members.add(member)
            if name == "joined" and group.seats[member].waits is None:
                group.seats[member].waits = sequence
            elif name == "finished" and group.seats[member].waits is None:
                group.seats[member].completed = group.seats[member].enqueued = sequence
            elif name == "absent":
                group.reported.add(member)
    if "operation" not in facts:
        return
    seat = group.seats[rank]
    seat.waits = sequence or seat.waits or 1
    sizes = "->".join(facts[name] for name in ("in", "out", "shape") if name in facts)
    seat.calls[seat.waits] = facts["operation"], sizes
    seat.broken = seat.broken or "broken" in facts
    waited = number_in(facts.get("waited", ""))
    if waited is not None and call.line.time is not None:
        seat.since = call.line.time - waited / 1000
    if "other_rank" in facts:
        _add_report(group, int(facts["other_rank"]), Call(call.line, _other_side(facts)))


def _other_side(facts: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("other_"): value for name, value in facts.items() if name.startswith("other_")}


def _complete(groups: Mapping[str, Group], survey: Survey) -> None:
    """Adds silent members to each group, and to NCCL's own groups the ranks that wait: those that made more calls than
    others."""
    known = {line.rank for line in survey.lines if line.rank is not None}
    known |= {stream.rank for stream in survey.streams if stream.rank is not None}
    known |= {rank for group in groups.values() for rank in (*group.seats, *group.members)}
    if known and len(known) >= _MOSTLY_KNOWN * (max(known) + 1):
        known = set(range(max(known) + 1))
    for key, group in groups.items():
        if key in _DEFAULT_GROUPS or group.name.endswith("(default_pg)"):
            group.members |= known
        group.members |= group.seats.keys()
        issued = {rank: seat.enqueued for rank, seat in group.seats.items() if seat.enqueued is not None}
        if group.name.startswith("communicator") and len(issued) > 1:
            least = min(issued.values())
            for rank, count in issued.items():
                group.seats[rank].waits = least + 1 if count > least else None
