"""Ordinary journals of machines: logs in which nothing is wrong that would end a job, though much of it sounds so.

    python -m evals.journals [CASES...] [--every N] [--show]

Each labelled case is diagnosed alone and with the journal of a stranger's machine beside it, one kind after the other.
Counted are the answers that change: failed, reason, root line, rank, node, action. All lines are made here, in the
style of services that everybody runs; names, addresses and numbers are invented.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from logdiag import Diagnosis, diagnose
from logdiag.evaluation.cases import Case, load_cases
from logdiag.rules import RuleBook

__all__ = ["KINDS", "answer", "changed", "journal"]

_LINES = 400
_BEGAN = datetime(2026, 11, 21, 22, 0, 0)


def _syslog(time: datetime, program: str, message: str, host: str) -> str:
    return f"{time:%b} {time.day:>2} {time:%H:%M:%S} {host} {program}: {message}"


def _iso(time: datetime, program: str, message: str, host: str) -> str:
    return f"{time.isoformat(timespec='microseconds')}+00:00 {host} {program}: {message}"


def _record(time: datetime, program: str, message: str, host: str) -> str:
    micros = f"{int(time.timestamp())}000000"
    name, level = program.partition("[")[0], "3" if "ail" in message or "rror" in message else "6"
    entry = {"__REALTIME_TIMESTAMP": micros, "_HOSTNAME": host, "SYSLOG_IDENTIFIER": name, "PRIORITY": level}
    return json.dumps({**entry, "MESSAGE": message})


def _collected(time: datetime, program: str, message: str, host: str) -> str:
    clock = f"{time:%b} {time.day} {time:%H:%M:%S}"
    return f"- {int(time.timestamp())} {time:%Y.%m.%d} {host} {clock} {host}/{host} {program}: {message}"


def _uptime(time: datetime, _program: str, message: str, _host: str) -> str:
    return f"[{(time - _BEGAN).total_seconds() + 4.2:12.6f}] {message}"


def _dated(time: datetime, _program: str, message: str, _host: str) -> str:
    return f"[{time:%a %b} {time.day:>2} {time:%H:%M:%S %Y}] {message}"


def _slurm(time: datetime, _program: str, message: str, _host: str) -> str:
    return f"[{time.isoformat(timespec='milliseconds')}] {message}"


def _bare(_time: datetime, _program: str, message: str, _host: str) -> str:
    return message


_FORMS: Mapping[str, Callable[[datetime, str, str, str], str]] = {
    "syslog": _syslog,
    "iso": _iso,
    "record": _record,
    "collected": _collected,
    "uptime": _uptime,
    "dated": _dated,
    "slurm": _slurm,
    "bare": _bare,
}
_SENTENCES: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())

KINDS = tuple(f"{kind}/{form}" for kind, entry in _SENTENCES.items() for form in entry["forms"])
"""Each kind of journal, and how its lines are written."""


def journal(kind: str, *, lines: int = _LINES, seed: int = 1, began: datetime = _BEGAN, host: str = "") -> str:
    """An ordinary journal of a kind, the same for the same arguments."""
    draw = random.Random(f"{kind} {seed}")
    name, _, form = kind.partition("/")
    host = host or f"box-{draw.randrange(100, 999)}"
    told = [line.split("|", 1) for line in _SENTENCES[name]["lines"].strip().split("\n")]
    written = []
    time = began
    for _ in range(lines):
        time += timedelta(seconds=draw.expovariate(1 / 60))
        program, message = (_filled(part, draw) for part in draw.choice(told))
        written.append(_FORMS[form](time, program, message, host))
    return "\n".join(written) + "\n"


def _filled(text: str, draw: random.Random) -> str:
    """A sentence with its numbers, addresses and names."""
    makers: dict[str, Callable[[], str]] = {
        "{n}": lambda: str(draw.randrange(1, 9)),
        "{p}": lambda: str(draw.randrange(10000, 65000)),
        "{ip}": lambda: ".".join(str(draw.randrange(1, 250)) for _ in range(4)),
        "{u}": lambda: draw.choice(("anna", "oracle", "test", "admin", "mei")),
        "{x}": lambda: f"{draw.randrange(16**8):08x}",
    }
    for mark, make in makers.items():
        while mark in text:
            text = text.replace(mark, make(), 1)
    return text


def answer(diagnosis: Diagnosis) -> tuple[object, ...]:
    """What of an answer may not change."""
    root = diagnosis.root_cause
    place = (root.line, root.text, root.rank, root.node) if root else None
    return diagnosis.failed, diagnosis.reason, place, diagnosis.recovery.action


def changed(
    cases: Sequence[Case], kinds: Sequence[str], book: RuleBook
) -> Iterator[tuple[Case, str, Diagnosis, Diagnosis]]:
    """The cases whose answer is another with an ordinary journal beside it: the case, the kind, both answers."""
    for number, case in enumerate(cases):
        alone = diagnose(case.source, rules=book, memory=False)
        for kind in kinds:
            beside = diagnose(case.source, journal(kind, seed=number).encode(), rules=book, memory=False)
            if answer(beside) != answer(alone):
                yield case, kind, alone, beside


def main() -> int:
    """Prints how many answers change; ends with 1 where more than one in a hundred do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["evals/cases"])
    parser.add_argument("--every", type=int, default=1, help="take every Nth case")
    parser.add_argument("--show", action="store_true", help="print each answer that changes")
    options = parser.parse_args()
    cases = load_cases(options.cases).cases[:: options.every]
    found = list(changed(cases, KINDS, RuleBook.load()))
    for case, kind, alone, beside in found if options.show else ():
        print(case.id, kind, answer(alone), answer(beside), sep="\n    ")
    for kind in KINDS:
        print(f"{kind:>12}  {sum(item[1] == kind for item in found):>4} of {len(cases)} answers change")
    return int(len(found) > 0.01 * len(cases) * len(KINDS))


if __name__ == "__main__":
    sys.exit(main())
