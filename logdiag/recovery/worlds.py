"""Starts small worlds of nodes through a launcher's template, and collects what they measured (world.py)."""

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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, NamedTuple

from logdiag.errors import LogdiagError
from logdiag.model.plain import read_plain
from logdiag.recovery import world as member
from logdiag.recovery.nodecheck import Figures, World, WorldResult

DEFAULT_LAUNCHER = "ssh -o BatchMode=yes -o ConnectTimeout=10 {host} python3 - {member}"
# How many worlds run at a time, how many ports each has, and after how many worlds the ports are used again. Seconds: a
# launcher's own time to connect, and the time in which the others of a failed world may still print what they saw.
_AT_A_TIME, _PORTS, _SETS = 64, 4, 100
_CONNECTING, _LAST_WORDS, _TICK = 15.0, 1.0, 0.02
_LONGEST = 300


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
    """Runs the worlds, several at a time, and returns their outcomes in the same order. No launcher is left running,
    not even after an error."""
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
