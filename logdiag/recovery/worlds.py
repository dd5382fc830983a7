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
from typing import IO

from logdiag.errors import LogdiagError
from logdiag.model.plain import read_plain
from logdiag.recovery import world as member
from logdiag.recovery.nodecheck import Figures, World, WorldResult

DEFAULT_LAUNCHER = "ssh -o BatchMode=yes -o ConnectTimeout=10 {host} python3 - {member}"
# Worlds at a time, ports of each, and so many before they begin anew; a launcher's own time to connect; the time in
# which the others of a world that failed may still say what they saw.
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


def launch_of(template: str, port: int, megabytes: int, seconds: float, per_node: int = 0) -> Launch:
    """Raises LogdiagError for a template that lacks {host} or {member}, or names no command that is there."""
    said = f"--launcher {template!r}"
    try:
        words = tuple(shlex.split(template))
    except ValueError as error:
        raise LogdiagError(f"{said}: cannot be split into words ({error}); close its quotes") from error
    if missing := [name for name in ("{host}", "{member}") if name not in template]:
        wanted = " and ".join(missing)
        raise LogdiagError(f"{said}: has no {wanted}; write {{host}} for the node and {{member}} for what it is told")
    if shutil.which(words[0]) is None:
        raise LogdiagError(f"{said}: {words[0]}: no such command; install it, or give another launcher")
    return Launch(words, port, megabytes, seconds, per_node)


def commands_of(launch: Launch, world: World, index: int) -> list[list[str]]:
    """The command of each member of a world. Worlds that run at the same time have different indexes, and so ports."""
    port = launch.port + _PORTS * (index % _SETS)
    found = []
    for rank, node in enumerate(world):
        said = ["--hosts", ",".join(world), "--rank", str(rank), "--port", str(port)]
        said += ["--megabytes", str(launch.megabytes), "--seconds", f"{launch.seconds:g}"]
        said += ["--per-node", str(launch.per_node)]
        words: list[str] = []
        for word in launch.words:
            filled = word.replace("{host}", node).replace("{member}", shlex.join(said))
            words += said if word == "{member}" else [filled]
        found.append(words)
    return found


def run_worlds(launch: Launch, worlds: Sequence[World]) -> list[WorldResult]:
    """Runs the worlds, so many at a time, and gives their outcomes in the same order. Whatever happens, no launcher is
    left running."""
    stopped = threading.Event()
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        try:
            return list(pool.map(partial(_outcome_of, launch, stopped), range(len(worlds)), worlds))
        finally:
            stopped.set()


@dataclass(frozen=True, slots=True)
class _Member:
    node: str
    process: subprocess.Popen[bytes]
    printed: IO[bytes]


def _outcome_of(launch: Launch, stopped: threading.Event, index: int, world: World) -> WorldResult:
    """Runs a world to its end. Once a member has failed the others have a moment, then they are ended."""
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
        while None in (statuses := [each.process.poll() for each in members]):
            if any(statuses):
                until = min(until, time.monotonic() + _LAST_WORDS)
            if stopped.is_set() or time.monotonic() > until:
                _end(members)
            time.sleep(_TICK)
        return _put_together(world, members)


def _end(members: Sequence[_Member]) -> None:
    """Ends what still runs of the launchers; the members on other nodes end by themselves when their time is up."""
    for each in members:
        if each.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait()


def _put_together(world: World, members: Sequence[_Member]) -> WorldResult:
    """What the members printed: the least bandwidth and the worst of the rest."""
    said = [row for each in members for row in _figures(_text(each.printed))]
    # A launcher that was ended from here has nothing to say.
    failed = sorted((each for each in members if each.process.returncode), key=_was_ended)
    why = next(filter(None, map(_last_words, failed)), "not done in time" if failed else "no figures were printed")
    if failed or len(said) < len(members):
        return WorldResult(world, None, why)
    lost = [row.resent for row in said if row.resent is not None]
    worst = replace(
        said[0],
        bandwidth=min(row.bandwidth for row in said),
        latency=max(row.latency for row in said),
        resent=max(lost, default=None),
    )
    return WorldResult(world, worst)


def _was_ended(each: _Member) -> bool:
    return each.process.returncode < 0


def _last_words(each: _Member) -> str:
    """What a member that failed said last; empty where it was ended from here and said nothing."""
    words = _text(each.printed).split("\n")[-1][:_LONGEST]
    if not words and not _was_ended(each):
        words = f"its command ended with status {each.process.returncode}"
    return f"{each.node}: {words}" if words else ""


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace").strip()


def _figures(printed: str) -> Iterator[Figures]:
    for line in printed.splitlines():
        if line.startswith(member.MARK):
            # What a node prints may be anything.
            with contextlib.suppress(ValueError, RecursionError):
                figures, _ = read_plain(Figures, json.loads(line[len(member.MARK) :]))
                if figures is not None:
                    yield figures
