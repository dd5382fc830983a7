"""Logs of many kinds to measure speed with, of any size, from the templates in `bench_kinds.yaml`.

Each log ends with the traceback of one rank's KeyError. The same kind and size always give the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path

__all__ = ["Kind", "kinds", "write_kind"]

START = datetime(2026, 3, 2, 8, 0, 0)
RANKS = 16
WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "knoll")
FAILURE = (
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 212, in <module>',
    "    main()",
    '  File "/workspace/data.py", line 88, in __getitem__',
    "    return self.index[key]",
    "KeyError: 'shard-00417'",
)


@dataclass(frozen=True)
class Kind:
    """What a kind of log prints; `wrap` is what stands around the lines of the last traceback."""

    lines: tuple[str, ...]
    wrap: str = "[rank5]: {line}"


def kinds() -> dict[str, Kind]:
    """The kinds by their names."""
    import yaml

    table = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {name: Kind(**{**told, "lines": tuple(told["lines"])}) for name, told in table.items()}


def write_kind(path: Path, kind: Kind, megabytes: int) -> None:
    """Writes a log of one kind: its templates in turn, and a failure at the end."""
    size = 0
    with path.open("w", encoding="utf-8", newline="") as out:
        for part in _parts(kind):
            out.write(part)
            size += len(part)
            if size >= megabytes * 1_000_000:
                break
        clocks = _clocks(10_000_000)
        out.writelines(kind.wrap.format(line=line, **clocks) + "\n" for line in FAILURE)


def _parts(kind: Kind) -> Iterator[str]:
    """Rounds of all templates, some at once."""
    source = random.Random(7)
    templates = [template if template.endswith("\r") else template + "\n" for template in kind.lines]
    # One number of lines a line-feed: a carriage return alone would make one endless line.
    for n, template in enumerate(cycle(templates)):
        if n % 100 == 0:
            clocks = _clocks(n)
        line = template.format(
            n=n,
            step=n // len(templates) // RANKS,
            rank=source.randrange(RANKS),
            node=n % 8,
            x=source.random(),
            y=source.random(),
            i=source.randrange(100_000),
            hex=f"{source.randrange(1 << 32):08x}",
            word=WORDS[n % len(WORDS)],
            new="".join(source.choices("abcdefghijklmnop", k=7)) if "{new}" in template else "",
            **clocks,
        )
        yield line if not line.endswith("\r") or n % 50 else line[:-1] + "\n"


def _clocks(n: int) -> dict[str, str]:
    """Clocks at a line: a thousand lines are a second."""
    now = START + timedelta(milliseconds=n)
    return {
        "time": f"{now:%Y-%m-%d %H:%M:%S}",
        "iso": f"{now:%Y-%m-%dT%H:%M:%S}",
        "syslog": f"{now:%b %d %H:%M:%S}",
        "micros": str(int(now.timestamp() * 1e6)),
    }
