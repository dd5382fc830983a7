"""Which process of which machine broke, in the ways in which public software names its processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from logdiag.rules import RuleBook
from tests.helpers import diagnosed, traceback_of

_FORMS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "data/ranks.yaml").read_text())
_PROCESSES, _ON_A_NODE, _BROKEN = range(8), 4, 5


def _filled(form: dict[str, Any], field: str, rank: int, level: str = "INFO") -> str:
    """A field of a form for a process."""
    node, local = divmod(rank, _ON_A_NODE)
    text: str = form.get(field, "")
    return text.format(rank=rank, node=node, local=local, level=level, letter=level[0])


def _log_of(form: dict[str, Any]) -> list[str]:
    """A log in which all processes make steps, one breaks, and the launcher has the last word."""
    log = [line for rank in _PROCESSES if (line := _filled(form, "first", rank))]
    for step in range(1, 6):
        log += [f"{_filled(form, 'head', rank)}step {step}/90 loss {3 - step / 10:.2f}" for rank in _PROCESSES]
    if form.get("recorded"):
        log.append(f"{_filled(form, 'head', _BROKEN, 'ERROR')}the step failed")
    broken = traceback_of("KeyError: 'a caption of the loom'", prefix=_filled(form, "raw", _BROKEN))
    return [*log, *broken[:-1], broken[-1] + _filled(form, "tail", _BROKEN), *form.get("last", ())]


@pytest.mark.parametrize("form", _FORMS, ids=lambda form: form["of"])
def test_the_process_that_broke_is_named_as_its_software_names_it(form: dict[str, Any], book: RuleBook) -> None:
    """By its head, by a listing, or by its launcher; what names none is not taken for one."""
    answer = diagnosed(book, *_log_of(form))
    assert answer.root_cause is not None
    assert (answer.reason.value, answer.root_cause.rank) == ("KeyError", form["rank"])
    if "node" in form:
        assert answer.root_cause.node == form["node"]


@pytest.mark.parametrize(
    ("lines", "rank", "node"),
    [
        # The launcher says of the lost node's daemon no rank, and below which process that ends.
        (
            ["PRTE has lost communication with a remote daemon.",
             "  HNP daemon   : [prterun-elm-1-19@0,0] on node elm-1",
             "  Remote daemon: [prterun-elm-1-19@0,1] on node elm-2",
             "prterun has exited due to process rank 2 with PID 1705 on node elm-2 exiting"],
            2, "elm-2",
        ),
        # The rank that reports is not the one that it waited for.
        (
            traceback_of("RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while "
                         "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank."),
            0, None,
        ),
        # The name of a rank is no host's.
        (
            ["[rank4]: RuntimeError: [Rank:4] the cloth is torn", "[rank4]: [Rank:4] raised at cloth.cpp:59",
             "[rank2]: Traceback (most recent call last):"],
            4, None,
        ),
    ],
)  # fmt: skip
def test_of_several_processes_in_sight_the_one_that_broke_is_named(
    lines: list[str], rank: int, node: str | None, book: RuleBook
) -> None:
    root = diagnosed(book, *lines).root_cause
    assert root is not None
    assert (root.rank, root.node) == (rank, node)
