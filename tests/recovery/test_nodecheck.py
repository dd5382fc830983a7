"""Finding the bad node: the planning and judging of the two rounds, and the command on real processes and hosts."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.namespaces import LAUNCHER, hosts, why_not
from logdiag.recovery import world
from logdiag.recovery.nodecheck import (
    Figures,
    World,
    WorldResult,
    check,
    complaint,
    first_round,
    second_round,
    usual_of,
)
from tests.helpers import environment, run_logdiag

GOOD = Figures("tcp", 2, 10e9, 50e-6, 0.0)
LOOPBACK = [f"127.0.0.{number}" for number in range(1, 6)]
# Without site-packages there is no torch: over plain TCP.
HERE = f"{sys.executable} -S - {{member}}"
ON_LOOPBACK = f"sh -c ': {{host}}; exec {HERE}'"


# Braces are a template's placeholders, so that this has none of a template's names.
JSON = json.dumps({"over": "tcp", "processes": 2, "bandwidth": float("inf"), "latency": 0, "resent": None})


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


@given(st.integers(2, 200))
def test_round_one_has_each_node_in_one_world(count: int) -> None:
    """Worlds of two, and one of three where the number is odd."""
    worlds = first_round(names(count))
    assert [node for world in worlds for node in world] == names(count)
    assert [len(world) for world in worlds] == [2] * (count // 2 - count % 2) + [3] * (count % 2)


@given(st.integers(0, 40), st.integers(1, 40))
def test_round_two_pairs_each_suspect_with_a_node_that_passed(suspected: int, passed: int) -> None:
    """Each suspect once, no node twice in a wave, and no more waves than it takes."""
    suspects, good = [f"s{number}" for number in range(suspected)], names(passed)
    waves = second_round(suspects, good)
    assert [world[1] for wave in waves for world in wave] == suspects
    for wave in waves:
        assert {world[0] for world in wave} <= set(good)
        assert len({node for world in wave for node in world}) == 2 * len(wave)
    assert len(waves) == -(-suspected // passed)


def simulated(bad: dict[str, Figures | None], worlds: Sequence[World]) -> list[WorldResult]:
    """Worlds that are as bad as the worst of their nodes."""
    outcomes = []
    for nodes in worlds:
        worst = next(
            (bad[node] for node in sorted(nodes, key=lambda node: bad.get(node) is not None) if node in bad), GOOD
        )
        outcomes.append(
            WorldResult(nodes, replace(worst, processes=len(nodes))) if worst else WorldResult(nodes, None, "no answer")
        )
    return outcomes


FAULTS = (None, replace(GOOD, bandwidth=4e9), replace(GOOD, latency=2e-3), replace(GOOD, resent=0.05))


@given(st.integers(4, 33), st.dictionaries(st.integers(0, 32), st.sampled_from(FAULTS), max_size=10))
def test_the_bad_nodes_are_named_and_no_others(count: int, faults: dict[int, Figures | None]) -> None:
    """Wherever two worlds of round one or more are good: dead, slow, late and lossy nodes, also two in one world."""
    nodes = names(count)
    bad = {f"n{number}": fault for number, fault in faults.items() if number < count}
    whole = [world for world in first_round(nodes) if not bad.keys() & set(world)]
    measured = [each for each in simulated(bad, first_round(nodes)) if each.figures]
    found = check(nodes, lambda worlds: simulated(bad, worlds))
    if len(whole) * 2 >= len(measured) and len(whole) > 1:
        assert found.bad.keys() == bad.keys()
        assert set(found.good) == set(nodes) - bad.keys()
        assert not found.unknown


def test_nothing_is_told_where_nothing_passed() -> None:
    """No node is accused, and it is said what to look at first."""
    found = check(names(4), lambda worlds: simulated({"n0": None, "n3": None}, worlds))
    assert (found.good, found.bad, found.unknown) == ((), {}, ("n0", "n1", "n2", "n3"))
    assert "check the launcher and the ports first (no answer)" in found.notes[0]
    assert len(found.waves) == 1


def test_one_measured_world_has_nothing_to_be_held_against() -> None:
    """Only dead nodes can be found then, and that is said."""
    slow = Figures("tcp", 2, 1.0, 9.0, 0.9)
    found = check(names(4), lambda worlds: simulated({"n0": None, "n2": slow}, worlds))
    assert (found.good, found.bad) == (("n1", "n2", "n3"), {"n0": "no answer"})
    assert "nothing to compare its speed with" in found.notes[0]


def test_a_complaint_says_how_far_from_the_usual() -> None:
    """Each of the three, with both figures; what is just within bounds passes."""
    pair = ("n1", "n2")
    usual = usual_of([WorldResult(pair, GOOD)] * 3)
    assert complaint(WorldResult(pair, Figures("tcp", 2, 5e9, 700e-6, 0.01)), usual) == ""
    assert complaint(WorldResult(pair, Figures("tcp", 2, 4.9e9, 701e-6, 0.02)), usual) == (
        "slow: 4.9e+03 MB/s, usual are 1e+04; late: 0.701 ms, usual are 0.05; "
        "lossy: 2.0% of its segments were sent again, usual are 0.0%"
    )
    assert complaint(WorldResult(pair, Figures("nccl", 2, 10e9, 50e-6, None)), usual) == ""


def test_a_node_that_lacks_a_gpu_is_bad() -> None:
    """Seven of eight, or one: fast as its collective may be, the job would not start there. Worlds of three are held
    against worlds of two."""

    def run(worlds: Sequence[World]) -> list[WorldResult]:
        gpus = [sum({"n1": 7, "n6": 1}.get(node, 8) for node in nodes) for nodes in worlds]
        return [
            WorldResult(nodes, replace(GOOD, over="nccl", processes=count))
            for nodes, count in zip(worlds, gpus, strict=True)
        ]

    found = check(names(9), run)
    assert found.bad == {
        "n1": "few GPUs: 15 on 2 nodes, usual are 8 a node", "n6": "few GPUs: 9 on 2 nodes, usual are 8 a node"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("best", "per_node", "kind", "counts"),
    [
        ([(2, 8), (2, 8)], 0, "nccl", [8, 8]),
        ([(2, 8), (2, 7)], 0, "nccl", [8, 7]),
        ([(2, 8), (2, 8)], 4, "nccl", [4, 4]),
        ([(2, 8), (1, 0)], 0, "gloo", [1, 1]),
        ([(2, 8), (0, 0), (1, 0)], 0, "tcp", [1, 1, 1]),
        ([(1, 0), (1, 0)], 3, "gloo", [3, 3]),
    ],
)
def test_all_gpus_of_a_node_take_part(best: list[tuple[int, int]], per_node: int, kind: str, counts: list[int]) -> None:
    """A process for each unless a number is given; where a member has none, all do what the least of them can."""
    assert world.shares(best, per_node) == (kind, counts)


def checked(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit status and answer of a check with real processes."""
    done = run_logdiag("nodecheck", *arguments, "--format", "json", "--megabytes", "2")
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def test_good_nodes_pass(tmp_path: Path) -> None:
    """Three of them, in a file with comments, in one round; figures are measured."""
    (tmp_path / "hosts").write_text("# rack 1\n" + "".join(f"{node} slots=8\n" for node in LOOPBACK[:3]))
    status, answer = checked("--hosts-file", str(tmp_path / "hosts"), "--port", "21400", "--launcher", ON_LOOPBACK)
    assert (status, answer["good"], answer["bad"], len(answer["waves"])) == (0, LOOPBACK[:3], [], 1)
    figures = answer["waves"][0][0]["figures"]
    assert figures["over"] == "tcp"
    assert figures["bandwidth"] > 1e6
    assert 0 < figures["latency"] < 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("exit 7", "127.0.0.2: its command ended with status 7"),
        ("echo no route >&2; exit 255", "127.0.0.2: no route"),
        ("sleep 300", "connecting to 127.0.0.2"),
        (f"echo '{world.MARK}[[['; echo '{world.MARK}{JSON}'", "connecting to 127.0.0.2"),
    ],
)
def test_a_node_whose_member_fails_is_named(fault: str, said: str) -> None:
    """Its launcher fails, says why, hangs, or what answers there prints nonsense: the others pass, status 1."""
    port = str(21800 + 400 * len(fault) % 6000)
    template = f"sh -c {shlex.quote(f'if [ {{host}} = 127.0.0.2 ]; then {fault}; else exec {HERE}; fi')}"
    started = time.monotonic()
    status, answer = checked("--hosts", ",".join(LOOPBACK[:4]), "--port", port, "--seconds", "6",
                             "--launcher", template)  # fmt: skip
    assert (status, [row["node"] for row in answer["bad"]]) == (1, ["127.0.0.2"])
    assert said in answer["bad"][0]["why"]
    assert answer["good"] == [LOOPBACK[0], *LOOPBACK[2:4]]
    assert time.monotonic() - started < 100  # the member that hangs would take 300


def test_what_could_not_be_done_has_a_status_of_its_own() -> None:
    """Where all fail it is the launcher, not the nodes."""
    done = run_logdiag("nodecheck", "--hosts", "127.0.0.1,127.0.0.2", "--launcher", "sh -c 'exit 3' {host} {member}")
    assert done.returncode == 2
    assert b"not known: 127.0.0.1, 127.0.0.2" in done.stdout
    assert b"its command ended with status 3" in done.stdout


TOUCH = "touch started {host} {member}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no nodes were given"),
        (("--hosts", "127.0.0.1,127.0.0.2", "--hosts-file", "hosts"), "or twice"),
        (("--hosts", ""), "names 0 nodes"),
        (("--hosts", "127.0.0.1"), "names 1 nodes; give two at least"),
        (("--hosts", "127.0.0.1,127.0.0.2,127.0.0.1"), "127.0.0.1: named twice"),
        (("--hosts", "127.0.0.1,no-such.invalid"), "no-such.invalid: no such host"),
        (("--hosts", "127.0.0.1,-oProxyCommand=x"), "is no name of a host"),
        (("--hosts-file", "nowhere"), "--hosts-file nowhere: cannot be read"),
        (("--hosts-file", "/dev/null"), "--hosts-file /dev/null: names no node"),
        (("--hosts", "127.0.0.1,127.0.0.2", "--launcher", "touch started {member}"), "has no {host}"),
        (("--hosts", "127.0.0.1,127.0.0.2", "--launcher", "touch started {host}"), "has no {member}"),
        (("--hosts", "127.0.0.1,127.0.0.2", "--launcher", ""), "has no {host} and {member}"),
        (("--hosts", "127.0.0.1,127.0.0.2", "--launcher", f"{TOUCH} 'x"), "close its quotes"),
        (("--hosts", "127.0.0.1,127.0.0.2", "--launcher", "no-such-command {host} {member}"), "no such command"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_started(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """With the remedy, and exit status 2."""
    launcher = () if "--launcher" in arguments else ("--launcher", TOUCH)
    done = run_logdiag("nodecheck", *arguments, *launcher, cwd=tmp_path)
    text = done.stderr.decode()
    assert (done.returncode, done.stdout, text.count("\n")) == (2, b"", 1)
    assert said in text
    assert not (tmp_path / "started").exists()


def test_who_ends_the_check_ends_its_launchers(tmp_path: Path) -> None:
    """Nothing that was started is left running."""
    launcher = "sh -c 'echo $$ >{host}; exec sleep 300' {member}"
    command = [sys.executable, "-m", "logdiag", "nodecheck", "--hosts", "127.0.0.1,127.0.0.2", "--launcher", launcher]
    job = subprocess.Popen(command, cwd=tmp_path, env=environment())
    places = [tmp_path / "127.0.0.1", tmp_path / "127.0.0.2"]
    until = time.monotonic() + 100
    while not all(place.exists() and place.read_text() for place in places):
        assert time.monotonic() < until
        time.sleep(0.02)
    job.terminate()
    assert job.wait(timeout=100) == 128 + signal.SIGTERM
    for place in places:
        with pytest.raises(ProcessLookupError):
            os.kill(int(place.read_text()), 0)


def test_bad_links_of_real_hosts_are_found() -> None:
    """Thirteen hosts in network namespaces: one is cut off, one slow, one late, and one loses a frame in twenty."""
    if reason := why_not():
        pytest.skip(reason)
    with hosts(13) as made:
        cut, slow, late, lossy = (made.names[at] for at in (0, 3, 5, 12))
        made.cut(cut)
        # Far from the usual of a busy machine, too.
        made.slow(slow, 4)
        made.disturb(late, late=0.05)
        made.disturb(lossy, lost=0.05)
        status, answer = checked("--hosts", ",".join(made.names), "--launcher", LAUNCHER, "--seconds", "10")
    assert status == 1
    found = {row["node"]: row["why"] for row in answer["bad"]}
    assert found.keys() == {cut, slow, late, lossy}
    assert f"connecting to {cut}" in found[cut]
    assert "slow" in found[slow]
    assert "late" in found[late]
    assert "lossy" in found[lossy]
    assert len(answer["good"]) == 9


@pytest.fixture
def torch() -> str:
    """A Python that has torch: this one, or the one that PYTHON_WITH_TORCH names."""
    interpreter = os.environ.get("PYTHON_WITH_TORCH", sys.executable)
    if subprocess.run([interpreter, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip("torch is not installed")
    return interpreter


def test_worlds_of_torch_run_its_collectives(torch: str) -> None:
    """Over gloo, by two processes on each of two nodes, which the member starts."""
    launcher = f"sh -c ': {{host}}; exec env GLOO_SOCKET_IFNAME=lo {torch} - {{member}}'"
    status, answer = checked("--hosts", ",".join(LOOPBACK[:2]), "--port", "28800", "--seconds", "250", "--per-node",
                             "2", "--launcher", launcher)  # fmt: skip
    assert status == 0, answer
    figures = answer["waves"][0][0]["figures"]
    assert (figures["over"], figures["processes"]) == ("gloo", 4)
    assert figures["bandwidth"] > 1e5


def test_a_process_that_fails_fails_its_node_and_says_which_it_was(torch: str) -> None:
    """One node cannot use the network of its collective; the other process of it is ended, not waited for."""
    link = "if [ {host} = 127.0.0.3 ]; then export GLOO_SOCKET_IFNAME=none; else export GLOO_SOCKET_IFNAME=lo; fi"
    started = time.monotonic()
    status, answer = checked("--hosts", ",".join(LOOPBACK[:4]), "--port", "29000", "--seconds", "250", "--per-node",
                             "2", "--launcher", f"sh -c '{link}; exec {torch} - {{member}}'")  # fmt: skip
    assert (status, [row["node"] for row in answer["bad"]]) == (1, ["127.0.0.3"])
    assert re.match(r"127\.0\.0\.3: process [01]: starting gloo: .*none", answer["bad"][0]["why"])
    assert time.monotonic() - started < 200
