"""Who kept the others waiting in a collective, by a table of rank and process group: a rank that is missing or slow,
programs out of step, other sizes, or a dead link."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from logdiag.judge.collectives.call_table import Group, Seat, groups_of
from logdiag.judge.lateness import are_late, usually_late
from logdiag.judge.merge.clocks import apart
from logdiag.model import TROUBLE, Collectives, Line, RankInGroup
from logdiag.model.plain import rank_ranges
from logdiag.patterns import pattern_of
from logdiag.scan.survey import Survey

# Data of each rank may differ in size there, or only the root's counts.
_ANY_SIZE = pattern_of(r"to_?all|coalesced|gatherv?$|scatterv?$|send|recv|barrier", re.IGNORECASE)
_EQUAL_SIZE = pattern_of(r"all_?gather(?!v)|reduce_?scatter(?!v)", re.IGNORECASE)
# Seconds after the others began to wait from which a rank's own output shows that it worked on.
_WORKED_ON = 5.0
# A rank is always late by so many of the last calls.
_LAST_CALLS = 8
_MOST_ROWS = 4096


def collectives_in(survey: Survey, ended: frozenset[int] = frozenset()) -> Collectives | None:
    """The table of the process group that hung first, and which ranks are to blame; None where no rank is known to
    wait, or nothing is known of the others. `ended` are ranks that came to a clean end."""
    last_words = _last_words(survey)
    verdict = next(_verdicts(list(groups_of(survey).values()), last_words, ended), None)
    return _table(verdict, last_words) if verdict else None


def _verdicts(groups: Sequence[Group], last_words: Mapping[int, Line], ended: frozenset[int]) -> Iterator[_Verdict]:
    """What is wrong with the groups, the surest verdict first."""
    stuck = [group for group in groups if group.waiting]
    between = {rank for group in groups for rank, seat in group.seats.items() if seat.between}
    if stuck:
        yield from filter(None, map(_mismatch, groups))
    yield from filter(None, map(_reported, groups))
    if absent := _absent(stuck, between, last_words, ended):
        yield absent
    yield from filter(None, map(_all_entered, stuck))


def _last_words(survey: Survey) -> dict[int, Line]:
    """The last ordinary line with a clock that each rank printed."""
    reports = {call.line.place for call in survey.calls} | {finding.line.place for finding in survey.findings}
    dated = (line for line in survey.lines if line.time is not None and line.level not in TROUBLE)
    return {line.rank: line for line in dated if line.rank is not None and line.place not in reports}


class _Verdict(NamedTuple):
    """What is wrong with a group: the kind, the `ranks` to blame (empty where no side is known to be wrong), a
    sentence, the collective (None if not known), and the `standings` of ranks that differ from the others."""

    kind: str
    ranks: tuple[int, ...]
    summary: str
    group: Group
    sequence: int | None
    standings: Mapping[int, str] = {}


def _mismatch(group: Group) -> _Verdict | None:
    """The verdict if some ranks entered another collective, or the same with another size; blames the smaller side."""
    stuck = group.stuck_at if group.waiting else float("inf")
    calls: dict[int, dict[int, tuple[str, str]]] = defaultdict(dict)
    for rank, seat in group.seats.items():
        for sequence, call in seat.calls.items():
            calls[sequence][rank] = call
    for sequence in sorted(number for number in calls if number <= stuck):
        names = {rank: _same_name(operation) for rank, (operation, _) in calls[sequence].items()}
        if len(set(names.values())) > 1:
            return _differing(group, sequence, names, "desync", calls[sequence])
        sizes = {rank: size for rank, (_, size) in calls[sequence].items() if size}
        operation = next(iter(calls[sequence].values()))[0]
        if len(set(sizes.values())) > 1 and _must_agree(operation):
            kind = "desync" if _is_shifted(calls, sequence) else "wrong-size"
            return _differing(group, sequence, sizes, kind, calls[sequence])
    return None


def _is_shifted(calls: Mapping[int, Mapping[int, tuple[str, str]]], sequence: int) -> bool:
    """Whether a rank that differs made the call that others made just before or after, so that it is one call off."""
    common = Counter(calls[sequence].values()).most_common(1)[0][0]
    odd = {call for call in calls[sequence].values() if call != common}
    near = {call for number in (sequence - 1, sequence + 1) for call in calls.get(number, {}).values()} - {common}
    return not odd.isdisjoint(near)


def _same_name(operation: str) -> str:
    """A collective's name as all libraries would write it: `allgatherbase`."""
    return re.sub(r"[^a-z]", "", operation.lower())


def _must_agree(operation: str) -> bool:
    return _EQUAL_SIZE.search(operation) is not None or _ANY_SIZE.search(operation) is None


def _differing(
    group: Group, sequence: int, call_of: Mapping[int, str], kind: str, calls: Mapping[int, tuple[str, str]]
) -> _Verdict:
    counts = Counter(call_of.values())
    common, most = counts.most_common(1)[0]
    # If both sides are equally many, neither is known to be wrong.
    even = list(counts.values()).count(most) > 1
    odd = tuple(sorted(rank for rank in call_of if call_of[rank] != common))
    others = tuple(sorted(set(call_of) - set(odd)))
    (odd_call, odd_size), (usual_call, usual_size) = calls[odd[0]], calls[others[0]]
    if kind == "desync":
        summary = f"{_ranks(odd)} came to {odd_call} {sequence}, {_ranks(others)} to {usual_call} {sequence}"
    else:
        summary = f"{_ranks(odd)} entered {odd_call} {sequence} with {odd_size}, {_ranks(others)} with {usual_size}"
    standings = dict.fromkeys(odd, "other collective" if kind == "desync" else "other size")
    return _Verdict(kind, () if even else odd, summary, group, sequence, standings)


def _reported(group: Group) -> _Verdict | None:
    """The verdict if a report of the collective's time-out names the missing ranks."""
    ranks = tuple(sorted(group.reported - group.waiting.keys()))
    if not ranks:
        return None
    sequence = group.stuck_at if group.waiting else None
    call = "a collective" if sequence is None else _call(group, sequence)
    summary = f"{_ranks(ranks)} never entered {call} (reported as missing there)"
    return _Verdict("missing-rank", ranks, summary, group, sequence)


def _absent(
    stuck: Sequence[Group], between: Set[int], last_words: Mapping[int, Line], ended: frozenset[int]
) -> _Verdict | None:
    """The verdict on ranks that others wait for and that wait for none themselves. If all wait, it is a dead link of
    the group in which no rank is missing; if there is no such group, groups wait for ranks of each other."""
    busy = {rank for group in stuck for rank in group.waiting} | between
    complete: Group | None = None
    crossed: tuple[Group, tuple[int, ...]] | None = None
    for group in sorted(stuck, key=lambda group: _began_to_wait(group) or float("inf")):
        missing = {rank for rank in group.members if not group.seats[rank].entered(group.stuck_at)}
        known = {rank for rank in missing if group.seats[rank].enqueued is not None}
        if len(known) > len(group.waiting) and len(group.members) > 2:
            return _ahead_of_most(group, known)
        # Of ranks that may be late, those with a known position come first; the others may only have lost their log.
        free = sorted(known - busy or missing - busy)
        if free and len(free) <= len(group.waiting):
            return _missing(group, tuple(free), last_words, ended)
        if missing & busy:
            crossed = crossed or (group, tuple(sorted(missing & busy)))
        elif not missing:
            complete = complete or group
    if crossed is None:
        return None
    return _link(complete) if complete is not None else _crossed(*crossed, stuck)


def _began_to_wait(group: Group) -> float | None:
    return min((seat.since for seat in group.seats.values() if seat.since is not None), default=None)


def _ahead_of_most(group: Group, known: set[int]) -> _Verdict:
    """The verdict if a few ranks entered a collective that most never came to."""
    few, sequence = tuple(sorted(group.waiting)), group.stuck_at
    summary = f"{_ranks(few)} entered {_call(group, sequence)}, which {_ranks(sorted(known))} never did"
    return _Verdict("desync", few, summary, group, sequence, dict.fromkeys(few, "ahead"))


def _crossed(group: Group, missing: tuple[int, ...], stuck: Sequence[Group]) -> _Verdict | None:
    """The verdict if the missing ranks of a group wait in another group for ranks that wait here; else None."""
    others = (other for other in stuck if other is not group)
    elsewhere = next((other for other in others if not other.waiting.keys().isdisjoint(missing)), None)
    if elsewhere is None:
        return None
    there, here = (f"{_call(one, one.stuck_at)} of group {one.name}" for one in (elsewhere, group))
    summary = f"{_ranks(missing)} came to {there}, while {_ranks(sorted(group.waiting))} came to {here}"
    return _Verdict("desync", (), summary, group, group.stuck_at, dict.fromkeys(missing, "other collective"))


def _missing(group: Group, ranks: tuple[int, ...], last_words: Mapping[int, Line], ended: frozenset[int]) -> _Verdict:
    """The verdict on ranks that did not come: ended, slow, or dead or hung."""
    began, last_lines = _began_to_wait(group), [last_words.get(rank) for rank in ranks]
    worked = [_seconds_after(began, line) for line in last_lines]
    if ended.issuperset(ranks):
        kind, after = "desync", "came to a clean end"
    elif min(worked) > _WORKED_ON:
        kind, after = "slow-rank", f"still worked when the others had waited {max(worked):.0f} s"
    elif _always_late(group, ranks):
        kind, after = "slow-rank", "came last to the calls before, too"
    elif any(group.seats[rank].made for rank in ranks):
        kind, after = "missing-rank", "made no call since"
    else:
        kind, after = "missing-rank", f"logged nothing{' since' if any(last_lines) else ''}"
    if len(ranks) == 1 and (last := group.seats[ranks[0]].completed):
        when = f" at {last_lines[0].clock}" if last_lines[0] and last_lines[0].clock else ""
        after = f"it finished {last}{when} and {after}"
    summary = f"{_ranks(ranks)} never entered {_call(group, group.stuck_at)} ({after})"
    return _Verdict(kind, ranks, summary, group, group.stuck_at)


def _seconds_after(began: float | None, line: Line | None) -> float:
    """Seconds from when the others began to wait to a line; 0 where that is not known."""
    return apart(began, line.time) if began is not None and line is not None and line.time is not None else 0.0


def _always_late(group: Group, ranks: Sequence[int]) -> bool:
    """Whether some ranks made their last calls well after the others, which differ by far less."""
    sequences = sorted({sequence for seat in group.seats.values() for sequence in seat.made})
    made = [
        {rank: seat.made[sequence] for rank, seat in group.seats.items() if sequence in seat.made}
        for sequence in sequences[-_LAST_CALLS - 1 :]
    ]
    return are_late(ranks, usually_late(times for times in made if times.keys() >= set(ranks)))


def _all_entered(group: Group) -> _Verdict | None:
    """The verdict if all ranks of a group entered the same collective; None if not, or if not all ranks are known."""
    everybody = group.size or max(group.members) + 1
    if not 2 <= everybody == len(group.members):
        return None  # not all of its ranks are known
    entered = all(group.seats[rank].entered(group.stuck_at) for rank in group.members)
    return _link(group) if entered else None


def _link(group: Group) -> _Verdict:
    """The verdict that the link between a group's ranks hung."""
    sequence = group.stuck_at
    waiting = tuple(sorted(rank for rank, number in group.waiting.items() if number == sequence))
    done = tuple(sorted(group.members - set(waiting)))
    ended = f"{_ranks(done)} finished it, {_ranks(waiting)} did not" if done else "none finished it"
    broken = tuple(sorted(rank for rank, seat in group.seats.items() if seat.broken))
    lost = f"; {_ranks(broken)} lost the connection" if broken else ""
    members = _ranks(tuple(sorted(group.members)))
    summary = f"{members}, all of their group, entered {_call(group, sequence)} alike, and {ended}{lost}"
    return _Verdict("dead-link", (), summary, group, sequence)


def _call(group: Group, sequence: int) -> str:
    """`ALLREDUCE 1201`."""
    names = Counter(seat.calls[sequence][0] for seat in group.seats.values() if sequence in seat.calls)
    return f"{names.most_common(1)[0][0] if names else 'collective'} {sequence}"


def _table(verdict: _Verdict, last_words: Mapping[int, Line]) -> Collectives:
    group, sequence = verdict.group, verdict.sequence
    first = [*verdict.ranks, *(rank for rank in sorted(group.members) if rank not in verdict.ranks)][:_MOST_ROWS]
    return Collectives(
        kind=verdict.kind,
        ranks=verdict.ranks,
        summary=verdict.summary,
        group=group.name,
        operation="" if sequence is None else _call(group, sequence).rpartition(" ")[0],
        sequence=sequence,
        rows=tuple(_rows(sorted(first), verdict, last_words)),
    )


def _rows(ranks: Iterable[int], verdict: _Verdict, last_words: Mapping[int, Line]) -> Iterator[RankInGroup]:
    for rank in ranks:
        seat = verdict.group.seats[rank]
        last_call = verdict.sequence if verdict.sequence in seat.calls else max(seat.calls, default=None)
        operation, sizes = seat.calls[last_call] if last_call is not None else ("", "")
        yield RankInGroup(
            rank=rank,
            group=verdict.group.name,
            standing=verdict.standings.get(rank) or _standing(seat, verdict.sequence),
            enqueued=seat.enqueued,
            started=seat.started,
            completed=seat.completed,
            operation=operation,
            sequence=last_call if last_call is not None else seat.waits,
            sizes=sizes,
            last_at=last_words[rank].clock if rank in last_words else None,
            stack=seat.stack,
        )


def _standing(seat: Seat, sequence: int | None) -> str:
    """Where a rank stands beside the collective in which others wait: waits, silent, behind, ahead or entered."""
    if seat.waits is not None and seat.waits == sequence:
        return "waits"
    if sequence is None or not seat.entered(sequence):
        return "silent" if seat.enqueued is None and seat.waits is None else "behind"
    return "ahead" if (seat.waits or 0) > sequence or (seat.enqueued or 0) > sequence else "entered"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) != 1 else ''} {rank_ranges(ranks)}"
