"""Recurring nodes: the numbers are those of the stated test, and only what says something counts."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from logdiag.memory.nodes import node_records, tail
from logdiag.memory.store import Store
from logdiag.model import Reason
from tests.memory_helpers import incident, letters_store

NOW = "2026-11-20T00:00:00Z"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store without the shipped incidents."""
    return letters_store(tmp_path)


def fail(
    store: Store, node: str, times: int, *, reason: Reason = Reason.ECC_ERROR, job: str = "", day: int = 10
) -> None:
    """A node fails first so many times."""
    store.add_all(
        incident(f"failure {at}", reason, node=node, seen_at=f"2026-11-{day:02}", job={"name": job} if job else {})
        for at in range(times)
    )


def suspicious(store: Store, **more: Any) -> list[str]:
    """The nodes that failed more often than chance."""
    return [one.node for one in node_records(store, 30, until=NOW, **more) if one.suspicious]


@pytest.mark.parametrize(
    ("trials", "successes", "chance"), [(10, 3, 0.2), (5, 5, 0.5), (40, 1, 0.01), (1000, 30, 0.01)]
)
def test_the_tail_is_the_binomial_one(trials: int, successes: int, chance: float) -> None:
    """As the sum over the law's terms."""
    expected = sum(
        math.comb(trials, count) * chance**count * (1 - chance) ** (trials - count)
        for count in range(successes, trials + 1)
    )
    assert tail(trials, successes, chance) == pytest.approx(expected, rel=1e-9)


def test_the_tail_has_its_ends() -> None:
    """None or more is certain; more than the trials is impossible."""
    assert tail(10, 0, 0.1) == 1
    assert tail(10, 11, 0.1) == 0
    assert tail(10, 10, 1.0) == 1


def test_a_node_that_fails_again_and_again_is_suspicious(store: Store) -> None:
    """Among ten that failed once each."""
    fail(store, "node-bad", 6)
    for number in range(10):
        fail(store, f"node-{number}", 1)
    records = node_records(store, 30, until=NOW)
    assert records[0].node == "node-bad"
    assert records[0].failures == 6
    assert records[0].probability == pytest.approx(tail(16, 6, 1 / 11))
    assert records[0].corrected == pytest.approx(11 * tail(16, 6, 1 / 11))
    assert suspicious(store) == ["node-bad"]
    assert len(records) == 11


def test_what_everyone_has_is_no_suspicion(store: Store) -> None:
    """Failures spread alike, or on one node of which nothing else is known."""
    for number in range(8):
        fail(store, f"node-{number}", 3)
    assert suspicious(store) == []


def test_a_single_node_cannot_be_compared(store: Store) -> None:
    """Unless the size of the cluster is told."""
    fail(store, "node-1", 3)
    assert suspicious(store) == []
    assert suspicious(store, nodes=64) == ["node-1"]


def test_one_failure_is_never_enough(store: Store) -> None:
    """However large the cluster."""
    fail(store, "node-1", 1)
    assert suspicious(store, nodes=100_000) == []


def test_a_jobs_own_errors_do_not_blame_the_node(store: Store) -> None:
    """The first rank of every job runs on some node: its script errors are listed, and not counted."""
    fail(store, "node-0", 9, reason=Reason.KEY_ERROR)
    for number in range(1, 6):
        fail(store, f"node-{number}", 1)
    record = next(item for item in node_records(store, 30, until=NOW) if item.node == "node-0")
    assert (record.failures, record.reasons) == (0, {"KeyError": 9})
    assert suspicious(store, nodes=100) == []


def test_a_job_counts_once_a_node(store: Store) -> None:
    """A job that is restarted into the same failure says nothing new."""
    fail(store, "node-0", 9, job="loop")
    record = node_records(store, 30, until=NOW)[0]
    assert (record.failures, record.jobs, len(record.incidents)) == (1, ("loop",), 9)


def test_only_the_last_days_count(store: Store) -> None:
    """Before `until`, and not before the days began."""
    fail(store, "node-0", 3, day=1)
    fail(store, "node-0", 2, day=15)
    assert node_records(store, 7, until=NOW)[0].failures == 2
    assert node_records(store, 7, until="2026-11-05")[0].failures == 3
    assert node_records(store, 1, until=NOW) == ()


def test_chance_alone_seldom_raises_suspicion(store: Store, tmp_path: Path) -> None:
    """Of 40 clusters of 50 alike nodes with 60 failures, at most a tenth have a suspicious node."""
    random_ = random.Random(5)
    wrong = 0
    for cluster in range(40):
        store = letters_store(tmp_path / f"cluster-{cluster}")
        store.add_all(
            incident(f"failure {at}", node=f"node-{random_.randrange(50)}", seen_at="2026-11-10") for at in range(60)
        )
        wrong += bool(suspicious(store, nodes=50))
        store.close()
    assert wrong <= 4
