"""How a job is started: placeholders, and which nodes may be left out."""

from __future__ import annotations

import pytest

from logdiag.recovery.launch import Launcher
from logdiag.recovery.ledger import Course

NODES = ("n1.cluster", "n2.cluster", "n3.cluster")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("run", "--host", "{nodes}"), ["run", "--host", "n1.cluster,n3.cluster"]),
        (("run", "{nodes:1}", "-n{count}"), ["run", "n1.cluster", "-n2"]),
        (("srun", "--exclude={exclude}", "x"), ["srun", "--exclude=n2.cluster", "x"]),
        (("run", "--resume={checkpoint}", "try-{attempt}"), ["run", "try-4"]),
        (("awk", "{print $1}", "{other}"), ["awk", "{print $1}", "{other}"]),
    ],
)
def test_placeholders_are_filled_and_empty_words_left_out(command: tuple[str, ...], words: list[str]) -> None:
    """Other braces are the command's own."""
    course = Course(excluded=["n2.cluster"])
    assert Launcher(command, NODES).words(course, 4, "") == words


@pytest.mark.parametrize(
    ("command", "node", "excluded", "name"),
    [
        (("run", "{nodes:2}"), "n2", (), "n2.cluster"),
        (("run", "{nodes:2}"), "N2.other", (), "n2.cluster"),
        (("run", "{nodes:3}"), "n2", (), ""),
        (("run", "{nodes:2}"), "n2", ("n1.cluster",), ""),
        (("run", "{nodes}"), "n9", (), ""),
    ],
)
def test_a_node_is_left_out_where_it_is_known_and_enough_are_left(
    command: tuple[str, ...], node: str, excluded: tuple[str, ...], name: str
) -> None:
    """By the name in the file, whatever domain the log gives it."""
    assert Launcher(command, NODES).can_exclude(node, excluded) == name


@pytest.mark.parametrize("node", ["n1;reboot", "$(reboot)", "a b", "-x", ""])
def test_no_words_of_a_log_reach_a_shell(node: str) -> None:
    """What a scheduler is told to leave out looks like a node's name."""
    launcher = Launcher(("sh", "-c", "srun --exclude={exclude} train"))
    assert launcher.can_exclude(node, ()) == ""
    assert launcher.can_exclude("gpu-017", ()) == "gpu-017"
    assert launcher.can_exclude("gpu-017", ("gpu-017",)) == ""
