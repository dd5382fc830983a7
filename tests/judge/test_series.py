"""Where steps became slow, or a number that they tell became bad, is said in one sentence; nothing else is."""

from __future__ import annotations

import random
import re
from datetime import datetime, timedelta

import pytest

from logdiag.rules import RuleBook
from tests.helpers import diagnosed

BEGAN = datetime(2026, 11, 4, 3, 0)


def run(
    *levels: tuple[int, float],
    loss: float = 2.0,
    norm: float = 0.5,
    noise: float = 0.05,
    bad: tuple[int, dict[str, float]] = (0, {}),
    first: int = 0,
    seed: int = 1,
) -> list[str]:
    """Steps of so many seconds, so many of each, with their loss, grad norm and tokens a second; from a step on these
    are multiplied as `bad` says."""
    rng, now, lines, at = random.Random(seed), 0.0, [], first
    for count, seconds in levels:
        for _ in range(count):
            now += seconds * (1 + noise * rng.random())
            said = {"loss": loss - at / 10_000, "grad_norm": norm, "tok": 48_000 / seconds}
            if bad[1] and at >= bad[0]:
                said |= {name: said[name] * by for name, by in bad[1].items()}
            said = {name: value * (1 + noise * rng.random()) for name, value in said.items()}
            clock = BEGAN + timedelta(seconds=now)
            lines.append(
                f"{clock:%Y-%m-%d %H:%M:%S},{clock.microsecond // 1000:03} INFO step {at} | loss: {said['loss']:.4f}"
                f" | grad_norm: {said['grad_norm']:.3f} | {said['tok']:,.0f} tokens/s"
            )
            at += 1
    return lines


def told(book: RuleBook, *lines: str) -> list[str]:
    words = ("iteration time", "loss rose", "grad norm", "throughput")
    return [note for note in diagnosed(book, *lines).notes if note.startswith(words)]


@pytest.mark.parametrize("ends", [[], ["RuntimeError: CUDA error: misaligned address"]])
def test_where_steps_became_slow_is_said(ends: list[str], book: RuleBook) -> None:
    """By the clock and by the tokens a second, in a job that works on and in one that then dies."""
    (note,) = told(book, *run((310, 1.2), (90, 3.9), first=3900), *ends)
    slow, fewer = note.split("; ")
    assert re.fullmatch(
        r"iteration time rose from 1.2\d* s to (3.9|4)[.\d]* s at about step 4,21\d \(<bytes>:31\d\)", slow
    )
    assert re.fullmatch(
        r"throughput fell from 4\d,\d+ a second to 12,\d+ a second at about step 4,210 \(<bytes>:311\)", fewer
    )


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"loss": 2.0}, "loss rose from 2.0"),
        ({"grad_norm": 9.0}, "grad norm rose from 0.51"),
        ({"tok": 0.4}, "throughput fell"),
    ],
)
def test_a_number_that_became_bad_is_said(bad: dict[str, float], words: str, book: RuleBook) -> None:
    (note,) = told(book, *run((120, 1.0), bad=(80, bad)))
    assert note.startswith(words)
    assert note.endswith("at step 80 (<bytes>:81)")


def test_of_a_long_log_the_step_is_about_right(book: RuleBook) -> None:
    """Of 30,000 steps some hundreds are kept."""
    (note,) = told(book, *run((21_000, 0.5), (9_000, 1.5), loss=9.0))
    step = int(note.partition(" at about step ")[2].partition(" ")[0].replace(",", ""))
    assert 21_000 <= step < 21_300


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "levels",
    [
        pytest.param([(200, 1.0)], id="nothing changes"),
        pytest.param([(20, 5.0), (180, 1.0)], id="slow at first"),
        pytest.param([(100, 1.0), (20, 4.0), (100, 1.0)], id="slow for a while"),
        pytest.param([(49, 1.0), (1, 20.0)] * 4, id="a checkpoint now and then"),
        pytest.param([(100, 1.0), (100, 1.3)], id="a little slower"),
        pytest.param([(10, 1 + at / 10) for at in range(20)], id="ever slower"),
        pytest.param([(8, 1.0), (6, 4.0)], id="too few to tell"),
    ],
)
def test_nothing_is_said_of_what_is_no_change_for_the_worse(
    levels: list[tuple[int, float]], seed: int, book: RuleBook
) -> None:
    assert told(book, *run(*levels, seed=seed, noise=0.3)) == []
