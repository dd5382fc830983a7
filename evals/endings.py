"""Short logs of software that does not exist, which end as most jobs do: ordinary work, and then what broke.

Real logs of failures are few and each has its own turns; from these the ranking of suspects learns what goes without
saying. Their ordinary words are invented, the messages are those of WORDINGS.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from logdiag.model import Reason

__all__ = ["SYLLABLES", "Scene", "scenes"]

SYLLABLES = [first + second for first in "bcdfghklmnprstvz" for second in "aeiou"]
"""What invented words are made of."""

_NOUNS = ("worker", "shard", "store", "batch", "queue", "trainer", "lane", "plan")
_SAID = (
    "reading {noun}", "{noun} opened", "{noun} is ready", "{number} {noun} wanted",
    "{noun} {number} of {number} took its place", "loaded {noun} in {time} s", "{noun} {number} at {time}",
    "{noun}={time} {other}={number}", "starting {noun} {number}", "{noun} {other} started",
    "{noun} found {number} {other}", "sent {number} {noun} to {other}", "{noun} {number} done in {time} s",
    "saved {noun} as {other}-{number}", "epoch {number} of {noun}, {other} {time}", "{noun} waits for {other}",
    "checked {number} {noun}, all {other}",
)  # fmt: skip
_AFTER = (
    "stopping {noun}", "{noun} is stopped", "{noun} {number} leaves", "shutting down", "cleaning up {noun}",
    "{noun} ended early", "closing {other}", "told {number} {noun} to end", "{other} goes away", "aborting", "bye",
    "{noun} ends with code {number}", "gave up after {number} {noun}",
)  # fmt: skip
_DONE = ("all done", "finished {number} {noun}", "{noun} complete", "done, {number} {noun} kept", "exit code 0")
_LOUD = ("ERROR", "ERROR", "ERROR", "CRITICAL", "FATAL")
_QUIET = ("WARNING", "WARNING", "INFO")
_MIXED = ("ERROR", "INFO", "INFO", "CRITICAL", "WARNING")


@dataclass(frozen=True, slots=True)
class Scene:
    """A log: the level and the message of each line, the number (from 1) of the line that tells what broke, and its
    reason; None and no reason for a log without a failure."""

    lines: tuple[tuple[str, str], ...]
    root: int | None
    reason: Reason | None


def scenes(count: int, messages: Sequence[tuple[Reason, str]], rng: random.Random) -> Iterator[Scene]:
    """So many logs; a third of them without a failure. `messages` are what may break, with its reason."""
    for number in range(count):
        yield _scene(messages, rng, healthy=number % 3 == 2)


def _scene(messages: Sequence[tuple[Reason, str]], rng: random.Random, *, healthy: bool) -> Scene:
    lines: list[tuple[str, str]] = []
    work = _ordinary(lines, rng)
    work(rng.randrange(1, 12))
    if rng.random() < 0.35:  # something is survived
        lines += [(rng.choice(("WARNING", "WARNING", "ERROR")), rng.choice(messages)[1])] * rng.randrange(1, 3)
        work(rng.randrange(3, 9))
    if healthy:
        if rng.random() < 0.5:
            lines.append(("INFO", _filled(rng.choice(_DONE), _words(rng), rng)))
        return Scene(tuple(lines), None, None)
    reason, message = rng.choice(messages)
    quiet = rng.random() < 0.3
    lines.append((rng.choice(_QUIET if quiet else _LOUD), message))
    root = len(lines)
    if rng.random() < 0.3:
        work(1)
    for at in range(rng.choice((1, 2, 4) if quiet else (0, 0, 1, 2, 4))):
        level = rng.choice(_LOUD if quiet and not at else _MIXED)
        lines.append((level, _filled(rng.choice(_AFTER), _words(rng), rng)))
    return Scene(tuple(lines), root, reason)


def _ordinary(lines: list[tuple[str, str]], rng: random.Random) -> Callable[[int], None]:
    """Adds how a job begins, and gives what adds so many rounds of its work."""
    forms = [(rng.choice(_SAID), _words(rng)) for _ in range(rng.randrange(3, 14))]
    lines += [("INFO", _filled(form, words, rng)) for form, words in forms]
    rounds = forms[-rng.randrange(1, min(len(forms), 9) + 1) :] if rng.random() < 0.8 else []
    same = [("INFO", _filled(form, words, rng)) for form, words in rounds] if rng.random() < 0.3 else None

    def work(times: int) -> None:
        for _ in range(times):
            lines.extend(same or [("INFO", _filled(form, words, rng)) for form, words in rounds])

    return work


def _words(rng: random.Random) -> tuple[str, str]:
    return _word(rng), _word(rng)


def _word(rng: random.Random) -> str:
    return rng.choice(_NOUNS) if rng.random() < 0.4 else "".join(rng.choices(SYLLABLES, k=rng.choice((2, 2, 3))))


def _filled(form: str, words: tuple[str, str], rng: random.Random) -> str:
    number, time = rng.randrange(1, 400), f"{rng.random() * rng.choice((1, 10, 100)):.2f}"
    return form.format(noun=words[0], other=words[1], number=number, time=time)
