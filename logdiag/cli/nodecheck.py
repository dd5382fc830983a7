"""`logdiag nodecheck`: finds the bad nodes by two rounds of small worlds."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from logdiag.cli.options import text_or_json
from logdiag.cli.output import print_listed
from logdiag.errors import LogdiagError
from logdiag.recovery.launch import is_name, nodes_in, with_addresses
from logdiag.recovery.nodecheck import DEFAULT_LAUNCHER, Check, Launch, check, complaint, run_worlds, words_of

_EXAMPLES = """\b
Examples:
  logdiag nodecheck --hosts-file hosts
  logdiag nodecheck --hosts node-1,node-2,node-3
  logdiag nodecheck --hosts-file hosts --launcher 'srun -N1 -w {host} python3 - {member}'"""
_LAST_PORT = 65_000
_BAD, _NOT_DONE = 1, 2


@click.command("nodecheck", epilog=_EXAMPLES, short_help="Find the bad nodes: two rounds of small worlds.")
@click.option("--hosts", metavar="A,B,C", help="The nodes, with commas.")
@click.option("--hosts-file", metavar="FILE", help="The nodes, one a line.")
@click.option(
    "--launcher",
    "template",
    default=DEFAULT_LAUNCHER,
    metavar="TEMPLATE",
    help="How a command runs on a node; the program for it comes on standard input.",
)
@click.option("--port", type=click.IntRange(1024, _LAST_PORT), default=29400, help="The first of 400 ports.")
@click.option("--megabytes", type=click.IntRange(1, 4096), default=64, help="The data of one collective.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=60.0, help="The most that a world may take.")
@click.option(
    "--per-node",
    type=click.IntRange(0, 64),
    default=0,
    show_default="one for each GPU, else one",
    help="Processes on each node.",
)
@text_or_json
def nodecheck_command(hosts: str | None, hosts_file: str | None, template: str, form: str, **limits: Any) -> None:
    """Pair all nodes, run a collective in each pair, and pair who was in a failed or slow one with a node that passed:
    who fails or is slow again is bad. Exit status: 0 all are good, 1 bad ones were found, 2 it could not be done."""
    if os.name != "posix":
        raise LogdiagError("logdiag nodecheck needs Linux or another Unix")
    nodes = _nodes_to_test(hosts, hosts_file)
    launch = Launch(words_of(template), **limits)
    # Exit by an exception, so that the launchers that were started are ended too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    started = time.monotonic()
    result = check(nodes, lambda worlds: run_worlds(launch, worlds))
    seconds = time.monotonic() - started
    print_listed(form, _document(result, seconds), _rows(result, seconds))
    sys.exit(_NOT_DONE if result.unknown else _BAD if result.bad else 0)


def _nodes_to_test(hosts: str | None, hosts_file: str | None) -> tuple[str, ...]:
    """Returns the nodes to test. Raises LogdiagError for too few, for doubles, and for what is no address of a host."""
    if (hosts is None) == (hosts_file is None):
        raise LogdiagError("nodecheck: no nodes were given, or twice; give --hosts A,B,C or --hosts-file FILE")
    option = f"--hosts-file {hosts_file}" if hosts_file is not None else "--hosts"
    named = nodes_in(hosts_file, "--hosts-file") if hosts_file is not None else (hosts or "").split(",")
    nodes = tuple(name for word in named if (name := word.strip()))
    if len(nodes) < 2:
        raise LogdiagError(f"{option}: names {len(nodes)} nodes; give two at least, as a node is tested with another")
    if twice := sorted({node for node in nodes if nodes.count(node) > 1}):
        raise LogdiagError(f"{option}: {', '.join(twice[:5])}: named twice; name each node once")
    if strange := [node for node in nodes if not is_name(node)]:
        raise LogdiagError(f"{option}: {strange[0]!r} is no name of a host; give names or addresses")
    return with_addresses(nodes, option)


def _document(result: Check, seconds: float) -> dict[str, Any]:
    waves = [
        [{"nodes": outcome.world, "wrong": complaint(outcome, result.usual),
          "figures": outcome.figures and asdict(outcome.figures)} for outcome in wave]
        for wave in result.waves
    ]  # fmt: skip
    bad = [{"node": node, "why": why} for node, why in result.bad.items()]
    document = {**asdict(result), "bad": bad, "waves": waves, "seconds": round(seconds, 2)}
    return {"schema": "logdiag.nodecheck/1", **document}


def _rows(result: Check, seconds: float) -> Iterator[str]:
    yield from (f"BAD   {node}  {why}" for node, why in result.bad.items())
    if result.unknown:
        yield f"not known: {', '.join(result.unknown)}"
    if result.good:
        yield f"good: {len(result.good)} of {len(result.good) + len(result.bad)} nodes"
    if usual := result.usual:
        over = next(outcome.figures.over for wave in result.waves for outcome in wave if outcome.figures)
        speed = f"{usual.bandwidth / 1e6:.3g} MB/s from each node, {usual.latency * 1e3:.3g} ms"
        yield f"usual: {speed}, over {over}, {usual.per_node:g} processes a node"
    yield from (f"Note: {note}" for note in result.notes)
    worlds = sum(len(wave) for wave in result.waves)
    rounds = "2 rounds" if len(result.waves) > 1 else "1 round"
    yield f"{worlds} world{'s' * (worlds != 1)} in {rounds}, {seconds:.1f} s"
