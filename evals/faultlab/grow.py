"""Makes a job's log as long as wanted: its own healthy output again and again, with times and counters going on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

__all__ = ["grow"]

# 2026-11-21 21:07:49,123 or with T, a point, or no fraction
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
# E1121 21:25:18.658000   (glog: month and day only)
_SHORT_TIME = re.compile(rb"(?<=\b[IWEF])\d{4} \d\d:\d\d:\d\d")
# step 12/60   iteration       12/      60   "step": 12   step=12   consumed samples:   4800
_COUNTER = re.compile(
    rb"(?i)((?:step|iteration|global_step|consumed samples)[\"' ]*[ =:]\s*)(\d+)(?!\.?\d)(?:(/\s*)(\d+))?"
)
_STEP = re.compile(rb"(?i)\b(?:step|iteration)[\"' ]*[ =:]\s*\d+")
_SECONDS_A_STEP = 2


def grow(log: bytes, root: str, size: int) -> Iterator[bytes]:
    """The log with at least `size` bytes of healthy output before its first line with `root` (its last line for a
    healthy log), in pieces. A log without two steps before that place is given back as it is."""
    lines = log.splitlines(keepends=True)
    end = next((at for at, line in enumerate(lines) if root and root.encode() in line), len(lines))
    steps = [at for at, line in enumerate(lines[:end]) if _STEP.search(line)]
    if len(steps) < 2:
        yield log
        return
    first, last = steps[0], steps[-1] + 1
    block = b"".join(lines[first:last])
    spans = _spans(block)
    times = -(-size // len(block))
    template = _template(block)
    yield b"".join(lines[:first])
    for turn in range(times):
        yield _render(template, turn, spans, times)
    yield _render(_template(b"".join(lines[first:])), times, spans, times)


def _spans(block: bytes) -> dict[bytes, int]:
    """By how much a repetition advances each kind of counter."""
    seen: dict[bytes, set[int]] = {}
    for match in _COUNTER.finditer(block):
        seen.setdefault(_kind(match), set()).add(int(match[2]))
    return {
        kind: (max(values) - min(values)) * len(values) // max(1, len(values) - 1) or 1 for kind, values in seen.items()
    }


def _kind(match: re.Match[bytes]) -> bytes:
    return match[1].split()[0].strip(b"\"'=: ").lower()


@dataclass(frozen=True, slots=True)
class _Counter:
    """A number that goes on from repetition to repetition; `total` for the one that it counts up to."""

    value: int
    width: int
    kind: bytes
    total: bool


@dataclass(frozen=True, slots=True)
class _Clock:
    """A time, and the form it is printed in."""

    time: datetime
    form: str


_Part = bytes | _Clock | _Counter


def _template(block: bytes) -> list[_Part]:
    """The block cut at its times and counters."""
    marks: list[tuple[int, int, _Clock | _Counter]] = []
    for pattern, form in ((_TIME, "%Y-%m-%d{}%H:%M:%S"), (_SHORT_TIME, "%m%d{}%H:%M:%S")):
        for match in pattern.finditer(block):
            form_here = form.format("T" if b"T" in match[0] else " ")
            clock = _Clock(datetime.strptime(match[0].decode(), form_here), form_here)
            marks.append((match.start(), match.end(), clock))
    for match in _COUNTER.finditer(block):
        for group in (2, 4) if match[4] else (2,):
            start, end = match.span(group)
            marks.append((start, end, _Counter(int(match[group]), end - start, _kind(match), group == 4)))
    parts: list[_Part] = []
    at = 0
    for start, end, part in sorted(marks, key=lambda mark: mark[0]):
        if start >= at:
            parts += [block[at:start], part]
            at = end
    return [*parts, block[at:]]


def _render(template: list[_Part], turn: int, spans: dict[bytes, int], times: int) -> bytes:
    """One repetition, the numbers moved on by `turn` spans and totals by all of them."""
    later = timedelta(seconds=turn * max(spans.values()) * _SECONDS_A_STEP)
    said: list[bytes] = []
    for part in template:
        if isinstance(part, bytes):
            said.append(part)
        elif isinstance(part, _Clock):
            said.append((part.time + later).strftime(part.form).encode())
        else:
            value = part.value + (times if part.total else turn) * spans.get(part.kind, 1)
            said.append(str(value).rjust(part.width).encode())
    return b"".join(said)
