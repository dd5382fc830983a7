"""Thirty constructed collectives that hang, 8 to 512 ranks, in the forms that jobs leave, and how many are told apart.

    python -m evals.collective_cases [SEED]      prints a line for each; another seed makes thirty others

Ranks run a program of collectives on one or several process groups. A collective is over when all ranks of its group
have called it alike; a rank runs ahead of what is over by a few calls. One of five faults then stops the job, and each
rank leaves what torch's watchdog, its flight recorder, NCCL or HCCL would: the logs follow from the run.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path

FAULTS = ("missing-rank", "slow-rank", "desync", "wrong-size", "dead-link")
FORMS = ("watchdog", "files", "recorder", "recorder-json", "nccl", "hccl")
SIZES = (8, 16, 32, 64, 128, 512)
START = datetime(2026, 11, 4, 3, 2, 11, tzinfo=timezone.utc)
TIMEOUT, STEPS, AHEAD = 600.0, 12, 3
OF_A_NODE = 8


@dataclass(frozen=True)
class Call:
    """One collective of a rank's program."""

    group: int
    operation: str
    size: int


@dataclass
class Rank:
    """A rank: its program, when it made each call, how many of them are over, and how it went on."""

    program: list[Call]
    made: list[float] = field(default_factory=list)
    over: set[int] = field(default_factory=set)
    stops_at: int | None = None
    late: float = 0.0
    alive: bool = True
    works_on: bool = False
    ended: bool = False

    def calls_in(self, group: int) -> list[int]:
        """The places in the program of the calls it made in a group, in order."""
        return [at for at in range(len(self.made)) if self.program[at].group == group]


@dataclass(frozen=True)
class Case:
    """One constructed case: what is wrong, with which ranks (none where all stand alike), in which form."""

    name: str
    fault: str
    form: str
    ranks: tuple[int, ...]
    job: tuple[Rank, ...]
    groups: tuple[tuple[int, ...], ...]
    broken: tuple[int, int] | None
    seed: int


def cases(first_seed: int = 0) -> Iterator[Case]:
    """All thirty, each with a seed of its own."""
    seeds = count(first_seed)
    for turn, fault in enumerate(FAULTS):
        for at, form in enumerate(FORMS):
            yield constructed(fault, form, SIZES[(at + turn) % len(SIZES)], next(seeds))


def constructed(fault: str, form: str, size: int, seed: int) -> Case:
    """One case. Half of those with more than one node have a group on each node beside that of all ranks."""
    rng = random.Random(seed)
    groups: list[tuple[int, ...]] = [tuple(range(size))]
    if size > OF_A_NODE and rng.random() < 0.5:
        groups += [tuple(range(first, first + OF_A_NODE)) for first in range(0, size, OF_A_NODE)]
    job = [Rank(_program(rank, groups)) for rank in range(size)]
    bad = rng.randrange(size)
    place = rng.randrange(len(job[bad].program) // 2, len(job[bad].program) - 4)
    broken = _break(fault, job[bad], place, rng, leaves=not form.startswith("recorder"))
    _run(job, groups, broken, rng)
    ranks = () if fault == "dead-link" else (bad,)
    return Case(f"{fault}-{form}-{size}", fault, form, ranks, tuple(job), tuple(groups), broken, seed)


def _program(rank: int, groups: list[tuple[int, ...]]) -> list[Call]:
    own = next((number for number, ranks in enumerate(groups) if number and rank in ranks), None)
    step = [Call(0, "ALLREDUCE", 1 << 20), Call(0, "_ALLGATHER_BASE", 1 << 16), Call(0, "ALLREDUCE", 1)]
    if own is not None:
        step[:0] = [Call(own, "_REDUCE_SCATTER_BASE", 1 << 18), Call(own, "ALLREDUCE", 1 << 12)]
    return step * STEPS


def _break(fault: str, rank: Rank, place: int, rng: random.Random, *, leaves: bool) -> tuple[int, int] | None:
    """Builds the fault in; the (group, sequence) of which nothing comes over the link, if it is that. That a rank left
    its loop, which its flight recorder does not tell, is one of the ways only where it `leaves` a log."""
    call = rank.program[place]
    if fault == "missing-rank":
        rank.stops_at, rank.alive = place, rng.random() < 0.5
    elif fault == "slow-rank":
        rank.stops_at, rank.works_on, rank.late = place, True, 1.5
    elif fault == "wrong-size":
        rank.program[place] = Call(call.group, call.operation, call.size + 24)
    elif fault == "desync":
        way = rng.choice(["skips", "another", "leaves"][: 2 + leaves])
        if way == "skips":
            del rank.program[place]
        elif way == "another":
            rank.program[place] = Call(call.group, "BROADCAST", call.size)
        else:
            rank.stops_at, rank.ended = place, True
    else:
        return call.group, sum(one.group == call.group for one in rank.program[: place + 1])
    return None


def _run(job: list[Rank], groups: list[tuple[int, ...]], broken: tuple[int, int] | None, rng: random.Random) -> None:
    """Lets all ranks call what they can, until nothing more is over."""
    now, moved = 0.0, True
    while moved:
        moved = False
        now += 0.2
        for rank in job:
            end = len(rank.program) if rank.stops_at is None else rank.stops_at
            own = now + rank.late + rng.random() / 50
            while len(rank.made) < min(end, len(rank.over) + AHEAD):
                own += 0.01
                rank.made.append(own)
                moved = True
        now += max(rank.late for rank in job)
        for group, ranks in enumerate(groups):
            moved = _finish(job, group, ranks, broken) or moved


def _finish(job: list[Rank], group: int, ranks: tuple[int, ...], broken: tuple[int, int] | None) -> bool:
    """Ends the calls of a group that all its ranks have made alike, one after the other; whether there was one."""
    calls = {rank: job[rank].calls_in(group) for rank in ranks}
    least = min(map(len, calls.values()))
    ended = False
    for at in range(least):
        if broken is not None and group == broken[0] and at + 1 >= broken[1]:
            break
        if len({job[rank].program[calls[rank][at]] for rank in ranks}) > 1:
            break
        for rank in ranks:
            ended = ended or calls[rank][at] not in job[rank].over
            job[rank].over.add(calls[rank][at])
    return ended


def written(case: Case, folder: Path) -> Path:
    """Writes a case's logs below a folder; the path to give to logdiag."""
    folder.mkdir(parents=True, exist_ok=True)
    if case.form.startswith("recorder"):
        for number, rank in enumerate(case.job):
            if rank.alive:
                dump = _dump(case, number)
                data = pickle.dumps(dump, 2) if case.form == "recorder" else json.dumps(dump).encode()
                (folder / f"nccl_trace_rank_{number}").write_bytes(data)
        return folder
    lines = sorted((time, number, text) for number, rank in enumerate(case.job) for time, text in _log(case, number))
    if case.form == "files":
        by_rank: dict[int, list[str]] = defaultdict(list)
        for _, number, text in lines:
            by_rank[number].append(text)
        for number, texts in by_rank.items():
            (folder / f"rank_{number}.log").write_text("\n".join(texts) + "\n", encoding="utf-8")
        return folder
    (folder / "job.log").write_text("\n".join(text for _, _, text in lines) + "\n", encoding="utf-8")
    return folder / "job.log"


def _clock(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def _log(case: Case, number: int) -> Iterator[tuple[float, str]]:
    """What one rank prints: its steps, NCCL's calls where they are asked for, and what its watchdogs say."""
    rank = case.job[number]
    step = len(rank.program) // STEPS
    head = f"[rank{number}]: " if case.form != "files" else ""
    for place, made in enumerate(rank.made):
        if place % step == 0:
            yield made, f"{head}{_clock(made):%Y-%m-%d %H:%M:%S},120 INFO train: step {place // step + 1} loss 2.31"
        if case.form == "nccl":
            yield made, _nccl_call(case, number, place)
    if case.form == "nccl":
        yield from _nccl_places(case, number)
    end = max(rank.made, default=0.0)
    if rank.works_on:
        for after in (60.0, 240.0, 420.0, 590.0):
            said = f"reading shard {int(after) // 60} of the evaluation set"
            yield end + after, f"{head}{_clock(end + after):%Y-%m-%d %H:%M:%S},004 INFO data: {said}"
    if rank.ended:
        yield end + 5, f"{head}{_clock(end + 5):%Y-%m-%d %H:%M:%S},004 INFO train: Training completed successfully"
    elif rank.alive:
        yield from _watchdog(case, number)


def _pending(case: Case, number: int) -> dict[int, tuple[int, int]]:
    """For each group in which a rank waits, the place of the call and its sequence."""
    rank = case.job[number]
    waits: dict[int, tuple[int, int]] = {}
    for group in range(len(case.groups)):
        for sequence, place in enumerate(rank.calls_in(group), 1):
            if place not in rank.over:
                waits.setdefault(group, (place, sequence))
    return waits


def _watchdog(case: Case, number: int) -> Iterator[tuple[float, str]]:
    """The watchdog of the group in which a rank waited first; of one that waits in none, the word of another's."""
    rank, waits = case.job[number], _pending(case, number)
    if not waits:
        waiting = ((other, _pending(case, at)) for at, other in enumerate(case.job))
        first = min((other.made[place] for other, found in waiting for place, _ in found.values()), default=0.0)
        told = f"{_group(case, number, 0)} {_RECEIVED} {_state(case, number, 0)}"
        yield first + TIMEOUT + 1, _error(case, number, first + TIMEOUT + 1, told)
        return
    group, (place, sequence) = min(waits.items(), key=lambda item: rank.made[item[1][0]])
    call, time = rank.program[place], rank.made[place] + TIMEOUT
    sizes = f"NumelIn={call.size}, NumelOut={_out(case, call)}, "
    library = "HCCL" if case.form == "hccl" else "NCCL"
    inner = case.groups[group].index(number)
    work = f"Work{library}(SeqNum={sequence}, OpType={call.operation}, {sizes}Timeout(ms)=600000)"
    ran = "ran for 600041 milliseconds before timing out."
    yield time, _error(case, number, time, f"[Rank {inner}] Watchdog caught collective operation timeout: {work} {ran}")
    if case.form != "hccl":
        state = _state(case, number, group).replace("Last", "last", 1)
        told = f" failure detected by watchdog at work sequence id: {sequence} PG status: {state}"
        yield time + 0.001, _error(case, number, time + 0.001, f"{_group(case, number, group)} {told}")
    killed = f"{library} operations have failed or timed out."
    yield time + 0.5, _error(case, number, time + 0.5, f"[Rank {inner}] Some {killed}")


_RECEIVED = "Received a dump signal due to a collective timeout from rank 0 and we will try our best to dump."


def _error(case: Case, number: int, time: float, said: str) -> str:
    stamp = _clock(time)
    head = f"[rank{number}]:" if case.form != "files" else ""
    return f"{head}[E{stamp:%m%d %H:%M:%S.%f}000 ProcessGroupNCCL.cpp:632] {said}"


def _group(case: Case, number: int, group: int) -> str:
    name = "default_pg" if group == 0 else "undefined"
    return f"[PG ID {min(group, 1)} PG GUID {group}({name}) Rank {case.groups[group].index(number)}]"


def _state(case: Case, number: int, group: int) -> str:
    places = case.job[number].calls_in(group)
    over = sum(place in case.job[number].over for place in places)
    kind = " " if case.form == "watchdog" else " NCCL "
    return f"Last enqueued{kind}work: {len(places)}, last completed{kind}work: {over}"


def _out(case: Case, call: Call) -> int:
    ranks = len(case.groups[call.group])
    return {"_ALLGATHER_BASE": call.size * ranks, "_REDUCE_SCATTER_BASE": call.size // ranks}.get(
        call.operation, call.size
    )


def _node(number: int) -> tuple[str, int, int]:
    return f"node-{number // OF_A_NODE + 1:03}", 3000 + number % OF_A_NODE, number % OF_A_NODE


def _nccl_places(case: Case, number: int) -> Iterator[tuple[float, str]]:
    node, process, device = _node(number)
    for group, ranks in enumerate(case.groups):
        if number in ranks:
            head = f"{node}:{process}:{process + 40} [{device}] NCCL INFO ncclCommInitRank"
            where = f"cudaDev {device} nvmlDev {device} busId {device + 1}a000 commId 0x9d{group:x}"
            own = f"comm 0x{number + 1:x}a{group:x} rank {ranks.index(number)} nranks {len(ranks)}"
            yield -5.0, f"{head} {own} {where} - Init COMPLETE"


def _nccl_call(case: Case, number: int, place: int) -> str:
    node, process, device = _node(number)
    call = case.job[number].program[place]
    count = sum(one.group == call.group for one in case.job[number].program[:place])
    name = {"ALLREDUCE": "AllReduce", "_ALLGATHER_BASE": "AllGather", "BROADCAST": "Broadcast"}.get(
        call.operation, "ReduceScatter"
    )
    head = f"{node}:{process}:{process + 40} [{device}] NCCL INFO {name}: opCount {count:x}"
    data = f"sendbuff 0x7f01 recvbuff 0x7f02 count {call.size} datatype 7 op 0 root 0"
    ranks = len(case.groups[call.group])
    return f"{head} {data} comm 0x{number + 1:x}a{call.group:x} [nranks={ranks}] stream 0x5e01"


def _dump(case: Case, number: int) -> dict[str, object]:
    """A flight recorder's dump as torch documents it, version 2.10."""
    rank = case.job[number]
    counts: dict[int, int] = defaultdict(int)
    entries = []
    for place, made in enumerate(rank.made):
        call = rank.program[place]
        counts[call.group] += 1
        over = place in rank.over
        first = min(set(range(len(rank.made))) - rank.over, default=None)
        state = "completed" if over else "started" if place == first else "scheduled"
        name = call.operation.lower().replace("allreduce", "all_reduce").replace("allgather", "all_gather")
        entries.append(
            {
                "frames": [{"name": "step", "filename": "/workspace/train.py", "line": 40 + place % 5}],
                "record_id": place,
                "pg_id": min(call.group, 1),
                "process_group": (str(call.group), "default_pg" if call.group == 0 else "undefined"),
                "collective_seq_id": counts[call.group],
                "p2p_seq_id": 0,
                "op_id": counts[call.group],
                "profiling_name": f"nccl:{name}",
                "time_created_ns": int(_clock(made).timestamp() * 1e9),
                "input_sizes": [[call.size]],
                "input_dtypes": ["BFloat16"],
                "output_sizes": [[_out(case, call)]],
                "output_dtypes": ["BFloat16"],
                "state": state,
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None,
                "retired": over,
                "timeout_ms": 600000,
                "is_p2p": False,
            }
        )
    config = {
        str(group): {"name": str(group), "desc": "", "ranks": str(list(ranks))}
        for group, ranks in enumerate(case.groups)
        if number in ranks
    }
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}


def told_apart(case: Case, folder: Path) -> tuple[bool, str]:
    """Whether the answer names the fault and the ranks, and what it says."""
    from logdiag import diagnose

    answer = diagnose(written(case, folder), memory=False)
    table = answer.collectives
    if table is None:
        return False, "no table"
    right = answer.kind == case.fault and table.ranks == case.ranks
    return right, f"{table.kind}: {table.summary}"


def main() -> None:
    """Prints all cases, what was said of each, and how many are told apart."""
    right, every = 0, list(cases(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    with tempfile.TemporaryDirectory() as below:
        for case in every:
            good, said = told_apart(case, Path(below, case.name))
            right += good
            print(f"{'ok   ' if good else 'WRONG'} {case.name:30} {case.ranks} {said[:200]}")
    print(f"{right} of {len(every)} told apart")


if __name__ == "__main__":
    main()
