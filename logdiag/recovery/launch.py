"""How the job is started: the command's placeholders, the nodes, and the environment of an attempt."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from logdiag.errors import LogdiagError
from logdiag.recovery.child import MARK
from logdiag.recovery.ledger import Course, same_node

# {checkpoint}   {attempt}   {exclude}   {nodes}   {nodes:4}   {count}
_PLACEHOLDER = re.compile(r"\{(checkpoint|attempt|exclude|nodes|count)(?::(\d+))?\}")
# gpu-017.cluster   fe80::1   10.0.0.7
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}")


@dataclass(frozen=True, slots=True)
class Launcher:
    """A command with placeholders, and the nodes it may run on, empty where a scheduler knows them."""

    command: tuple[str, ...]
    nodes: tuple[str, ...] = ()

    def can_exclude(self, node: str, excluded: Sequence[str]) -> str:
        """Returns the name by which a node can be left out; empty where it cannot: the command has no placeholder for
        it, the node is not known, or too few would be left."""
        if not self.nodes:
            # It comes from a log, and may go through a shell.
            known = any("{exclude}" in word for word in self.command) and is_name(node)
            return node if known and node not in excluded else ""
        left = [name for name in self.nodes if name not in excluded]
        name = same_node(node, left)
        needed = max((int(most or 1) for word in self.command for _, most in _PLACEHOLDER.findall(word)), default=1)
        return name if name and len(left) > needed else ""

    def words(self, course: Course, attempt: int, checkpoint: str) -> list[str]:
        """The command of an attempt. A word whose placeholder is empty is left out."""
        left = [name for name in self.nodes if name not in course.excluded]
        values = {
            "checkpoint": checkpoint,
            "attempt": str(attempt),
            "exclude": ",".join(course.excluded),
            "count": str(len(left)),
        }

        def value(match: re.Match[str]) -> str:
            return ",".join(left[: int(match[2] or len(left))]) if match[1] == "nodes" else values[match[1]]

        words = []
        for word in self.command:
            empty = any(not value(match) for match in _PLACEHOLDER.finditer(word))
            words += [] if empty else [_PLACEHOLDER.sub(value, word)]
        return words

    def environ(self, course: Course, attempt: int, checkpoint: str, mark: str) -> dict[str, str]:
        """The environment of an attempt, which `logdiag.recovery.hook` reads."""
        return {
            **os.environ,
            MARK: mark,
            f"{MARK}_ATTEMPT": str(attempt),
            f"{MARK}_CHECKPOINT": checkpoint,
            f"{MARK}_SKIP": ",".join(f"{first}-{last}" for first, last in course.skipped),
            f"{MARK}_EXCLUDE": ",".join(course.excluded),
        }


def launcher_of(command: Sequence[str], nodes_file: str | None, checkpoint_dir: str | None) -> Launcher:
    """The launcher that a command line describes. Raises LogdiagError for placeholders without what they stand for,
    nodes without a placeholder, nodes that have no address, and a command that is not there."""
    if shutil.which(command[0]) is None:
        raise LogdiagError(f"{command[0]}: no such command; give one that can be run after --")
    named = {name for word in command for name, _ in _PLACEHOLDER.findall(word)}
    if named & {"nodes", "count"} and not nodes_file:
        raise LogdiagError("COMMAND: {nodes} and {count} stand for the nodes of a file; give --nodes FILE")
    if nodes_file and not named & {"nodes", "exclude"}:
        raise LogdiagError(
            f"--nodes {nodes_file}: COMMAND says nowhere which nodes to use; write {{nodes}} or {{exclude}}"
        )
    if "checkpoint" in named and not checkpoint_dir:
        raise LogdiagError("COMMAND: {checkpoint} stands for a checkpoint of a folder; give --checkpoint-dir DIR")
    nodes = tuple(dict.fromkeys(nodes_in(nodes_file, "--nodes"))) if nodes_file else ()
    return Launcher(tuple(command), with_addresses(nodes, f"--nodes {nodes_file}"))


def is_name(node: str) -> bool:
    """Whether it can be a host's name or address; such are harmless to a shell."""
    return _NAME.fullmatch(node) is not None


def nodes_in(path: str, option: str) -> list[str]:
    """Returns the first word of each line of the hostfile of an option. Raises LogdiagError."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = [row.split("#")[0].split() for row in file]
    except (OSError, UnicodeDecodeError) as error:
        raise LogdiagError(f"{option} {path}: cannot be read; give a file with a node's name on each line") from error
    if not any(rows):
        raise LogdiagError(f"{option} {path}: names no node; write one on each line")
    return [row[0] for row in rows if row]


def with_addresses(nodes: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Returns the nodes. Raises LogdiagError, naming the `option` they came from, where one has no address."""
    for node in nodes:
        try:
            socket.getaddrinfo(node, None)
        except (OSError, UnicodeError) as error:
            raise LogdiagError(f"{option}: {node}: no such host; correct the name or take it out") from error
    return nodes
