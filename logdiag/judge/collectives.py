"""Who kept the others waiting in a collective: a table of rank x process group, out of watchdogs' lines, NCCL's debug
output and flight-recorder dumps, and what it shows: a missing or slow rank, programs out of step, a dead link."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from statistics import median

from logdiag.judge.owners import owners_in
from logdiag.model import Collectives, Line, RankInGroup, number_in
from logdiag.plain import rank_ranges
from logdiag.scan.calls import Call
from logdiag.scan.survey import Survey

__all__ = ["collectives_in"]

# Larger ones are numbers that were never set.
_LARGEST_SEQUENCE = 1 << 40
# Data of each rank may differ in size there, or only the root's counts.
_ANY_SIZE = re.compile(r"to_?all|coalesced|gatherv?$|scatterv?$|send|recv|barrier", re.IGNORECASE)
_EQUAL_SIZE = re.compile(r"all_?gather(?!v)|reduce_?scatter(?!v)", re.IGNORECASE)
# Seconds after the others began to wait from which a rank's own output shows that it worked on.
_WORKED_ON = 5.0
# So many of the last calls tell whether a rank was always late, by so many seconds and times what others differ by.
_LAST_CALLS, _FEWEST_CALLS, _LATE, _MUCH_LATER = 8, 3, 0.5, 4.0
# So much of the numbers from 0 on must be known ranks for the gaps between them to be ranks too.
_MOSTLY_KNOWN = 0.75
_DEFAULT_GROUPS = ("", "0", "default_pg")
_MOST_ROWS = 4096


@dataclass
class _Seat:
    """What is known of one rank in one group, while it is gathered. `waits` is the collective that it did not finish,
    `since` the time from which it waited; `calls` are (operation, sizes) and `made` the times by sequence."""

    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None
    waits: int | None = None
    since: float | None = None
    broken: bool = False
    calls: dict[int, tuple[str, str]] = field(default_factory=dict)
    made: dict[int, float] = field(default_factory=dict)
    stack: tuple[str, ...] = ()

    def entered(self, sequence: int) -> bool:
        return self.waits == sequence or sequence in self.calls or (self.enqueued or 0) >= sequence


@dataclass
class _Group:
    """One process group: its name for people, its seats by rank, who else belongs to it, who is reported missing,
    and how many ranks it has where that is told."""

    name: str
    seats: dict[int, _Seat] = field(default_factory=lambda: defaultdict(_Seat))
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


def collectives_in(survey: Survey, ended: frozenset[int] = frozenset()) -> Collectives | None:
    """The table of the process group that hung first, and who is to blame; None where no rank tells that it waits, or
    nothing can be told of the others. `ended` are ranks that came to a clean end."""
    if not survey.calls:
        return None
    groups = _gathered(survey)
    stuck = {key: group for key, group in groups.items() if group.waiting}
    last = _last_lines(survey.lines)
    found = (
        next(filter(None, map(_mismatch, stuck.values())), None)
        or next(filter(None, (_reported(group) for group in groups.values())), None)
        or _absent(stuck, survey, last, ended)
        or next(filter(None, map(_all_entered, stuck.values())), None)
    )
    return _table(found, last) if found else None


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is wrong with a group, in which collective; `standings` of single ranks where they stand apart."""

    kind: str
    ranks: tuple[int, ...]
    summary: str
    group: _Group
    sequence: int | None
    standings: Mapping[int, str] = field(default_factory=dict)


def _gathered(survey: Survey) -> dict[str, _Group]:
    """All groups of which ranks tell."""
    groups: dict[str, _Group] = {}
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
        rank = _rank_of(call, processes.get(process))
        if rank is None or "comm_id" in facts:
            continue
        if "op_count" in facts:
            key = communicators.get((*process, facts["comm"]), "NCCL")
            group = groups.setdefault(key, _Group(f"communicator {key}"))
            group.size = int(facts["size"])
            _issued(group.seats[rank], call)
        elif "enqueued" in facts or "what" in facts:
            key = facts.get("group") or facts.get("pg", "")
            name = f" ({facts['name']})" if facts.get("name") else ""
            group = groups.setdefault(key, _Group(key + name))
            group.members |= set(map(int, re.findall(r"\d+", facts.get("members", ""))))
            group.size = len(group.members) if "members" in facts else group.size
            (_recorded if "what" in facts else _status)(group.seats[rank], call)
        else:
            later.append(call)
    for call in later:
        rank = _rank_of(call, None)
        if rank is not None:
            _told(_group_of(groups, rank, call.facts), rank, call)
    _complete(groups, survey)
    return groups


def _rank_of(call: Call, owner: int | None) -> int | None:
    told = number_in(call.facts.get("rank", ""))
    spoke = call.line.rank if owner is None else owner
    return next(
        (rank for rank in (told, spoke, number_in(call.facts.get("group_rank", ""))) if rank is not None),
        0 if call.facts.keys() & {"absent", "finished", "joined"} else None,
    )


def _group_of(groups: dict[str, _Group], rank: int, facts: Mapping[str, str]) -> _Group:
    """The group of a line that names none: the one in which its rank, or else any, waits in the same collective."""
    sequence = number_in(facts.get("sequence", ""))
    of_rank = [group for group in groups.values() if rank in group.seats]
    same = (group for group in of_rank if group.seats[rank].waits == sequence)
    alike = (group for group in groups.values() if sequence in group.waiting.values())
    only = next(iter(groups.values())) if len(groups) == 1 else None
    return next(same, None) or next(alike, None) or only or groups.setdefault("", _Group("the default group"))


def _sequence(text: str | None) -> int | None:
    number = -1 if text == "-1" else number_in(text or "")
    return None if number is None or number > _LARGEST_SEQUENCE else max(number, 0)


def _status(seat: _Seat, call: Call) -> None:
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


def _recorded(seat: _Seat, call: Call) -> None:
    """A record of a flight recorder."""
    facts = call.facts
    sequence = _sequence(facts["sequence"])
    seat.stack = tuple(facts["stack"].split(" < ")) if "stack" in facts else seat.stack
    if facts["what"] == "collective" and sequence is not None:
        seat.calls[sequence] = facts["operation"], facts.get("shape", "")
        if made := facts.get("made"):
            seat.made[sequence] = datetime.fromisoformat(made).replace(tzinfo=timezone.utc).timestamp()


def _issued(seat: _Seat, call: Call) -> None:
    """A call that NCCL prints, numbered from 0 in base 16; it tells of no end."""
    sequence = int(call.facts["op_count"], 16) + 1
    seat.enqueued = max(sequence, seat.enqueued or 0)
    seat.calls[sequence] = call.facts["operation"], call.facts["in"]


def _told(group: _Group, rank: int, call: Call) -> None:
    """What a line without a group tells of one rank or several."""
    facts = call.facts
    sequence = _sequence(facts.get("sequence"))
    for name in ("joined", "finished", "absent"):
        for other in map(int, re.findall(r"\d+", facts.get(name, ""))):
            group.members.add(other)
            if name == "joined" and group.seats[other].waits is None:
                group.seats[other].waits = sequence
            elif name == "finished" and group.seats[other].waits is None:
                group.seats[other].completed = group.seats[other].enqueued = sequence
            elif name == "absent":
                group.reported.add(other)
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
        _told(group, int(facts["other_rank"]), Call(call.line, _other_side(facts)))


def _other_side(facts: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("other_"): value for name, value in facts.items() if name.startswith("other_")}


def _complete(groups: Mapping[str, _Group], survey: Survey) -> None:
    """Adds to each group the members that say nothing, and to NCCL's own who waits: where some have made more calls
    than others, those that have."""
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


def _last_lines(lines: Iterable[Line]) -> dict[int, Line]:
    """The last line of each rank, those with a clock first."""
    last: dict[int, Line] = {}
    for line in lines:
        if line.rank is not None and (line.clock or line.rank not in last):
            last[line.rank] = line
    return last


def _mismatch(group: _Group) -> _Verdict | None:
    """Ranks that are in another collective, or in the same with another size: the fewest of them."""
    stuck = group.stuck_at
    calls: dict[int, dict[int, tuple[str, str]]] = defaultdict(dict)
    for rank, seat in group.seats.items():
        for sequence, call in seat.calls.items():
            if sequence <= stuck:
                calls[sequence][rank] = call
    for sequence in sorted(calls):
        names = {rank: _same_name(operation) for rank, (operation, _) in calls[sequence].items()}
        if len(set(names.values())) > 1:
            return _apart(group, sequence, names, "desync", calls[sequence])
        sizes = {rank: size for rank, (_, size) in calls[sequence].items() if size}
        operation = next(iter(calls[sequence].values()))[0]
        if len(set(sizes.values())) > 1 and _must_agree(operation):
            return _apart(group, sequence, sizes, "wrong-size", calls[sequence])
    return None


def _same_name(operation: str) -> str:
    """A collective's name as all libraries would write it: `allgatherbase`."""
    return re.sub(r"[^a-z]", "", operation.lower())


def _must_agree(operation: str) -> bool:
    return _EQUAL_SIZE.search(operation) is not None or _ANY_SIZE.search(operation) is None


def _apart(
    group: _Group, sequence: int, told: Mapping[int, str], kind: str, calls: Mapping[int, tuple[str, str]]
) -> _Verdict:
    counts = Counter(told.values())
    common, most = counts.most_common(1)[0]
    # Where as many do one thing as the other, neither side is known to be the wrong one.
    even = list(counts.values()).count(most) > 1
    odd = tuple(sorted(rank for rank in told if told[rank] != common))
    others = tuple(sorted(set(told) - set(odd)))
    (one, one_size), (other, other_size) = calls[odd[0]], calls[others[0]]
    if kind == "desync":
        what = f"{_ranks(odd)} {_be(odd)} in {one} {sequence}, {_ranks(others)} in {other} {sequence}"
    else:
        what = f"{_ranks(odd)} entered {one} {sequence} with {one_size}, {_ranks(others)} with {other_size}"
    where = dict.fromkeys(odd, "other collective" if kind == "desync" else "other size")
    return _Verdict(kind, () if even else odd, what, group, sequence, where)


def _reported(group: _Group) -> _Verdict | None:
    """A report of the collective's time-out names the ranks that are missing."""
    ranks = tuple(sorted(group.reported - group.waiting.keys()))
    if not ranks:
        return None
    sequence = group.stuck_at if group.waiting else None
    call = "a collective" if sequence is None else _call(group, sequence)
    what = f"{_ranks(ranks)} never entered {call} (reported as missing there)"
    return _Verdict("missing-rank", ranks, what, group, sequence, dict.fromkeys(ranks, "silent"))


def _absent(
    stuck: Mapping[str, _Group], survey: Survey, last: Mapping[int, Line], ended: frozenset[int]
) -> _Verdict | None:
    """Ranks that others wait for, and that wait for nobody themselves; where each waits for another: out of step."""
    busy = {rank for group in stuck.values() for rank in group.waiting}
    crossed: _Verdict | None = None
    for group in sorted(stuck.values(), key=_began_to_wait):
        sequence, waiting = group.stuck_at, group.waiting
        missing = {rank for rank in group.members if not group.seats[rank].entered(sequence)}
        known = {rank for rank in missing if group.seats[rank].enqueued is not None}
        if len(known) > len(waiting) and len(group.members) > 2:
            return _alone(group, sequence, known)
        # Of two that may be late, the one of which that is known; the other may only have lost its log.
        free = tuple(sorted(known - busy or missing - busy))
        if free and len(free) <= len(waiting):
            return _missing(group, sequence, free, survey, last, ended)
        if missing & busy and crossed is None:
            crossed = _crossed(group, sequence, tuple(sorted(missing & busy)), stuck)
    return crossed


def _began_to_wait(group: _Group) -> float:
    return min((seat.since for seat in group.seats.values() if seat.since is not None), default=float("inf"))


def _alone(group: _Group, sequence: int, known: set[int]) -> _Verdict:
    """Few entered a collective of which most know nothing."""
    few = tuple(sorted(group.waiting))
    what = f"{_ranks(few)} entered {_call(group, sequence)}, which {_ranks(tuple(sorted(known)))} never did"
    return _Verdict("desync", few, what, group, sequence, dict.fromkeys(few, "ahead"))


def _crossed(group: _Group, sequence: int, missing: tuple[int, ...], stuck: Mapping[str, _Group]) -> _Verdict:
    """Who is missing here waits elsewhere for others that wait here."""
    elsewhere = next(
        other for other in stuck.values() if other is not group and not other.waiting.keys().isdisjoint(missing)
    )
    there = f"{_call(elsewhere, elsewhere.stuck_at)} of group {elsewhere.name}"
    here = f"{_call(group, sequence)} of group {group.name}"
    waiting = _ranks(tuple(sorted(group.waiting)))
    what = f"{_ranks(missing)} {_be(missing)} in {there}, while {waiting} wait for {_them(missing)} in {here}"
    return _Verdict("desync", (), what, group, sequence, dict.fromkeys(missing, "other collective"))


def _missing(
    group: _Group,
    sequence: int,
    ranks: tuple[int, ...],
    survey: Survey,
    last: Mapping[int, Line],
    ended: frozenset[int],
) -> _Verdict:
    began = _began_to_wait(group)
    since = [_worked_on(rank, began, survey) for rank in ranks]
    one = group.seats[ranks[0]]
    finished = f"it finished {one.completed}" if one.completed and len(ranks) == 1 else ""
    if ended.issuperset(ranks):
        kind, after = "desync", f"{_they(ranks)} had come to a clean end"
    elif all(since) or _always_late(group, ranks):
        kind, after = "slow-rank", f"{_they(ranks)} came last to all calls before, too"
        if all(since):
            after = f"{_they(ranks)} still worked when the others had waited {max(filter(None, since)):.0f} s"
    else:
        made = any(group.seats[rank].made for rank in ranks)
        kind, after = "missing-rank", f"{_they(ranks)} made no call since" if made else _silence(ranks, last, began)
    told = " and ".join(part for part in (finished + _at(ranks, last, finished), after) if part)
    what = f"{_ranks(ranks)} never entered {_call(group, sequence)} ({told})"
    behind = {rank: "silent" if group.seats[rank].enqueued is None else "behind" for rank in ranks}
    return _Verdict(kind, ranks, what, group, sequence, behind)


def _at(ranks: Sequence[int], last: Mapping[int, Line], finished: str) -> str:
    line = last.get(ranks[0])
    return f" at {line.clock}" if finished and line is not None and line.clock else ""


def _silence(ranks: Sequence[int], last: Mapping[int, Line], began: float) -> str:
    """What is known of ranks that did nothing more."""
    lines = [last[rank] for rank in ranks if rank in last]
    if not lines:
        return f"{_they(ranks)} logged nothing"
    times = [line.time for line in lines if line.time is not None]
    if times and max(times) > began + _WORKED_ON:
        return f"{_their(ranks)} process still answered, so {_they(ranks)} hung outside of it"
    return f"{_they(ranks)} logged nothing since"


def _worked_on(rank: int, began: float, survey: Survey) -> float | None:
    """Seconds after the others began to wait in which a rank still told of its work; None where it did not."""
    said = {(call.line.stream, call.line.position) for call in survey.calls}
    said |= {(finding.line.stream, finding.line.position) for finding in survey.findings}
    times = [
        line.time - began
        for line in survey.lines
        if line.rank == rank and line.time is not None and (line.stream, line.position) not in said
        if line.level not in ("ERROR", "FATAL", "CRITICAL")
    ]
    later = [seconds for seconds in times if seconds > _WORKED_ON]
    return max(later, default=None)


def _always_late(group: _Group, ranks: Sequence[int]) -> bool:
    """Whether each of some ranks made its last calls well after the others, which differ by far less."""
    late: dict[int, list[float]] = defaultdict(list)
    sequences = sorted({sequence for seat in group.seats.values() for sequence in seat.made})
    for sequence in sequences[-_LAST_CALLS - 1 :]:
        made = {rank: seat.made[sequence] for rank, seat in group.seats.items() if sequence in seat.made}
        if made.keys() >= set(ranks):
            middle = median(made.values())
            for rank, time in made.items():
                late[rank].append(time - middle)
    if any(len(late[rank]) < _FEWEST_CALLS for rank in ranks):
        return False
    usual = max((abs(median(times)) for rank, times in late.items() if rank not in ranks), default=0.0)
    return all(median(late[rank]) > max(_LATE, _MUCH_LATER * usual) for rank in ranks)


def _all_entered(group: _Group) -> _Verdict | None:
    """All entered the same collective and some or all did not finish it: what carries the data hung."""
    sequence = group.stuck_at
    waiting = tuple(sorted(rank for rank, at in group.waiting.items() if at == sequence))
    everybody = group.size or max(group.members) + 1
    if not 2 <= everybody == len(group.members):
        return None  # of others nothing is known
    if not all(group.seats[rank].entered(sequence) for rank in group.members):
        return None
    done = tuple(sorted(group.members - set(waiting)))
    ended = f"{_ranks(done)} finished it, {_ranks(waiting)} did not" if done else "none finished it"
    broken = tuple(sorted(rank for rank, seat in group.seats.items() if seat.broken))
    lost = f"; {_ranks(broken)} lost the connection" if broken else ""
    what = f"all {len(group.members)} ranks entered {_call(group, sequence)} alike and {ended}{lost}"
    return _Verdict("dead-link", (), what, group, sequence)


def _call(group: _Group, sequence: int) -> str:
    """`ALLREDUCE 1201`."""
    names = Counter(seat.calls[sequence][0] for seat in group.seats.values() if sequence in seat.calls)
    return f"{names.most_common(1)[0][0] if names else 'collective'} {sequence}"


def _table(found: _Verdict, last: Mapping[int, Line]) -> Collectives:
    group, sequence = found.group, found.sequence
    first = [*found.ranks, *(rank for rank in sorted(group.members) if rank not in found.ranks)][:_MOST_ROWS]
    return Collectives(
        kind=found.kind,
        ranks=found.ranks,
        summary=found.summary,
        group=group.name,
        operation="" if sequence is None else _call(group, sequence).rpartition(" ")[0],
        sequence=sequence,
        rows=tuple(_rows(sorted(first), found, last)),
    )


def _rows(ranks: Iterable[int], found: _Verdict, last: Mapping[int, Line]) -> Iterator[RankInGroup]:
    for rank in ranks:
        seat = found.group.seats[rank]
        at = found.sequence if found.sequence in seat.calls else max(seat.calls, default=None)
        operation, sizes = seat.calls[at] if at is not None else ("", "")
        yield RankInGroup(
            rank=rank,
            group=found.group.name,
            standing=found.standings.get(rank) or _standing(seat, found.sequence),
            enqueued=seat.enqueued,
            started=seat.started,
            completed=seat.completed,
            operation=operation,
            sequence=at if at is not None else seat.waits,
            sizes=sizes,
            last_at=last[rank].clock if rank in last else None,
            stack=seat.stack,
        )


def _standing(seat: _Seat, sequence: int | None) -> str:
    """How a rank stands to the collective in which others wait."""
    if seat.waits is not None and seat.waits == sequence:
        return "waits"
    if sequence is None or not seat.entered(sequence):
        return "silent" if seat.enqueued is None and seat.waits is None else "behind"
    return "ahead" if (seat.waits or 0) > sequence or (seat.enqueued or 0) > sequence else "entered"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) != 1 else ''} {rank_ranges(ranks)}"


def _be(ranks: Sequence[int], *, past: bool = False) -> str:
    return ("was" if past else "is") if len(ranks) == 1 else ("were" if past else "are")


def _they(ranks: Sequence[int]) -> str:
    return "it" if len(ranks) == 1 else "they"


def _them(ranks: Sequence[int]) -> str:
    return "it" if len(ranks) == 1 else "them"


def _their(ranks: Sequence[int]) -> str:
    return "its" if len(ranks) == 1 else "their"
