"""Which nodes are bad, by two rounds of small worlds that run a collective.

Round one pairs all nodes; those of a world that failed or was slow are suspects. Round two pairs each suspect with a
node that passed; who fails or is slow again is bad. A launcher's template starts the members of a world (world.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from statistics import median_high, median_low
from typing import IO, NamedTuple

from logdiag.errors import LogdiagError
from logdiag.model.plain import read_plain
from logdiag.recovery import world as member

DEFAULT_LAUNCHER = "ssh -o BatchMode=yes -o ConnectTimeout=10 {host} python3 - {member}"
# How many worlds run at a time, how many ports each has, and after how many worlds the ports are used again. Seconds: a
# launcher's own time to connect, and the time in which the others of a failed world may still print what they saw.
_AT_A_TIME, _PORTS, _SETS = 64, 4, 100
_CONNECTING, _LAST_WORDS, _TICK = 15.0, 1.0, 0.02
_LONGEST = 300
# Slow is less than half the usual bandwidth; late is four times the usual latency and half a millisecond more, to allow
# for a busy machine; lossy is more than one segment in a hundred sent again, and four times the usual share.
_SLOW, _LATE, _PAUSE, _LOSSY, _TIMES_LOSSY = 0.5, 4.0, 0.0005, 0.01, 4.0

World = tuple[str, ...]
"""The nodes that run one collective together: two, or three."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a world measured: over what, by how many processes, bytes a second that each node sends, seconds, and the
    share of segments that were sent again (None where it is not known)."""

    over: str
    processes: int
    bandwidth: float
    latency: float
    resent: float | None


@dataclass(frozen=True, slots=True)
class WorldResult:
    """How a world ended: its figures, or why there are none."""

    world: World
    figures: Figures | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Usual:
    """The medians of a round, with which each world is compared; `per_node` are the processes on each node."""

    per_node: float
    bandwidth: float
    latency: float
    resent: float


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check: the nodes that passed, the bad ones with what is wrong with each, and those not known to
    be either. `waves` are the outcomes in the order in which worlds ran: the first wave is round one, all others are
    round two."""

    good: tuple[str, ...]
    bad: Mapping[str, str]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    usual: Usual | None
    waves: tuple[tuple[WorldResult, ...], ...]


def check(nodes: Sequence[str], run: Callable[[Sequence[World]], Sequence[WorldResult]]) -> Check:
    """The whole test; `run` runs worlds at the same time and gives their outcomes in the same order."""
    first = tuple(run(first_round(nodes)))
    usual = usual_of(first)
    good = [node for outcome in first if not complaint(outcome, usual) for node in outcome.world]
    if not good:
        what = "no world passed, so it is not known which nodes are bad; check the launcher and the ports first"
        return Check((), {}, tuple(nodes), (f"{what} ({first[0].why})",), usual, (first,))
    waves = tuple(tuple(run(wave)) for wave in second_round([node for node in nodes if node not in good], good))
    # The suspect is the last of its world.
    complaints = {outcome.world[-1]: complaint(outcome, usual) for wave in waves for outcome in wave}
    bad = {node: why for node, why in complaints.items() if why}
    notes = () if usual else ("one world alone gave figures: there was nothing to compare its speed with",)
    return Check(tuple(node for node in nodes if node not in bad), bad, (), notes, usual, (first, *waves))


def first_round(nodes: Sequence[str]) -> list[World]:
    """Puts all nodes into worlds of two neighbours in the list; the last world has three where their number is odd."""
    starts = range(0, len(nodes) - 1, 2)
    return [tuple(nodes[start : len(nodes) if start == starts[-1] else start + 2]) for start in starts]


def usual_of(outcomes: Sequence[WorldResult]) -> Usual | None:
    """The medians of the figures, of two middle ones the better; None where fewer than two worlds have any."""
    measured = [outcome.figures for outcome in outcomes if outcome.figures]
    if len(measured) < 2:
        return None
    return Usual(
        median_high(outcome.figures.processes / len(outcome.world) for outcome in outcomes if outcome.figures),
        median_high(figures.bandwidth for figures in measured),
        median_low(figures.latency for figures in measured),
        median_low(figures.resent or 0.0 for figures in measured),
    )


def complaint(outcome: WorldResult, usual: Usual | None) -> str:
    """Says what is wrong with a world; empty where it passed."""
    figures = outcome.figures
    if figures is None:
        return outcome.why or "it gave no figures"
    if usual is None:
        return ""
    problems = []
    if figures.processes < usual.per_node * len(outcome.world):
        problems.append(
            f"few GPUs: {figures.processes} on {len(outcome.world)} nodes, usual are {usual.per_node:g} a node"
        )
    if figures.bandwidth < _SLOW * usual.bandwidth:
        problems.append(f"slow: {figures.bandwidth / 1e6:.3g} MB/s, usual are {usual.bandwidth / 1e6:.3g}")
    if figures.latency > _LATE * usual.latency + _PAUSE:
        problems.append(f"late: {figures.latency * 1e3:.3g} ms, usual are {usual.latency * 1e3:.3g}")
    if figures.resent is not None and figures.resent > max(_LOSSY, _TIMES_LOSSY * usual.resent):
        problems.append(f"lossy: {figures.resent:.1%} of its segments were sent again, usual are {usual.resent:.1%}")
    return "; ".join(problems)


def second_round(suspects: Sequence[str], good: Sequence[str]) -> list[list[World]]:
    """Pairs each suspect with one of the nodes that passed, in several waves where suspects outnumber those."""
    return [
        list(zip(good, suspects[start : start + len(good)], strict=False))  # the good node comes first, as rank 0
        for start in range(0, len(suspects), len(good))
    ]


@dataclass(frozen=True, slots=True)
class Launch:
    """How members are started: a template's words, the first port, the data of one collective, the seconds of one
    world, and the processes on each node, 0 for one a GPU."""

    words: tuple[str, ...]
    port: int
    megabytes: int
    seconds: float
    per_node: int = 0


def words_of(template: str) -> tuple[str, ...]:
    """Raises LogdiagError for a template that lacks {host} or {member}, or whose command is not installed."""
    option = f"--launcher {template!r}"
    try:
        words = tuple(shlex.split(template))
    except ValueError as error:
        raise LogdiagError(f"{option}: cannot be split into words ({error}); close its quotes") from error
    if missing := [name for name in ("{host}", "{member}") if name not in template]:
        wanted = " and ".join(missing)
        raise LogdiagError(f"{option}: has no {wanted}; write {{host}} for the node and {{member}} for its arguments")
    if shutil.which(words[0]) is None:
        raise LogdiagError(f"{option}: {words[0]}: no such command; install it, or give another launcher")
    return words


def commands_of(launch: Launch, world: World, index: int) -> list[list[str]]:
    """Returns the command of each member of a world. Worlds of one time have different indexes, and so ports."""
    port = launch.port + _PORTS * (index % _SETS)
    limits = f"--megabytes {launch.megabytes} --seconds {launch.seconds:g} --per-node {launch.per_node}".split()
    commands = []
    for rank, node in enumerate(world):
        arguments = ["--hosts", ",".join(world), "--rank", str(rank), "--port", str(port), *limits]
        words: list[str] = []
        for word in launch.words:
            filled = word.replace("{host}", node).replace("{member}", shlex.join(arguments))
            words += arguments if word == "{member}" else [filled]
        commands.append(words)
    return commands


def run_worlds(launch: Launch, worlds: Sequence[World]) -> list[WorldResult]:
    """The outcomes of the worlds, in their order. No launcher is left running, not even after an error."""
    stopped = threading.Event()
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        try:
            return list(pool.map(partial(_outcome_of, launch, stopped), range(len(worlds)), worlds))
        finally:
            stopped.set()


class _Member(NamedTuple):
    node: str
    process: subprocess.Popen[bytes]
    printed: IO[bytes]


def _outcome_of(launch: Launch, stopped: threading.Event, index: int, world: World) -> WorldResult:
    """Runs a world to its end. Once a member has failed, the others get a second to report, then they are ended."""
    with contextlib.ExitStack() as started:
        members: list[_Member] = []
        started.callback(_end, members)
        for node, command in zip(world, commands_of(launch, world, index), strict=True):
            if stopped.is_set():
                break
            printed = started.enter_context(tempfile.TemporaryFile())
            source = started.enter_context(open(member.__file__, "rb"))
            process = subprocess.Popen(
                command, stdin=source, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
            )
            members.append(_Member(node, process, printed))
        until = time.monotonic() + launch.seconds + _CONNECTING
        while None in (statuses := [item.process.poll() for item in members]):
            if any(statuses):
                until = min(until, time.monotonic() + _LAST_WORDS)
            if stopped.is_set() or time.monotonic() > until:
                _end(members)
            time.sleep(_TICK)
        return _put_together(world, members)


def _end(members: Sequence[_Member]) -> None:
    """Ends the launchers that still run; the members on other nodes end by themselves when their time is up."""
    for item in members:
        if item.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(item.process.pid, signal.SIGKILL)
            item.process.wait()


def _put_together(world: World, members: Sequence[_Member]) -> WorldResult:
    """Returns the outcome of a world from its members' figures: of each figure the worst."""
    figures = [row for item in members for row in _figures_in(_text(item.printed))]
    # Launchers that were ended from here come last: they do not say what went wrong.
    failed = sorted((item for item in members if item.process.returncode), key=lambda item: item.process.returncode < 0)
    why = next(filter(None, map(_last_words, failed)), "not done in time" if failed else "no figures were printed")
    if failed or len(figures) < len(members):
        return WorldResult(world, None, why)
    lost = [row.resent for row in figures if row.resent is not None]
    worst = replace(
        figures[0],
        bandwidth=min(row.bandwidth for row in figures),
        latency=max(row.latency for row in figures),
        resent=max(lost, default=None),
    )
    return WorldResult(world, worst)


def _last_words(failed: _Member) -> str:
    """Returns the last line that a failed member printed; empty where it was ended from here and printed nothing."""
    words = _text(failed.printed).split("\n")[-1][:_LONGEST]
    if not words and failed.process.returncode > 0:
        words = f"its command ended with status {failed.process.returncode}"
    return f"{failed.node}: {words}" if words else ""


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace").strip()


def _figures_in(printed: str) -> Iterator[Figures]:
    for line in printed.splitlines():
        if line.startswith(member.MARK):
            # What a node prints may be anything.
            with contextlib.suppress(ValueError, RecursionError):
                figures, _ = read_plain(Figures, json.loads(line[len(member.MARK) :]))
                if figures is not None:
                    yield figures
