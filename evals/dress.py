"""Does an answer depend on what others add to a log? Labelled cases in other dress: evals/results/dress.json.

    python -m evals.dress [CASES...] [--most N]

Of each file of cases N failing ones and a quarter as many healthy ones, short ones, always the same, are diagnosed as
they are and in every dress: with another logger's head in place of each line's own, with what a recorder, a viewer or a
mail puts around every line, and with the lines of other programs between and after them. Counted are the failures whose
root line is found, those that are not answered as failed, and the healthy logs that are called failed.
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing import Pool
from pathlib import Path

from logdiag import diagnose
from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case, load_cases
from logdiag.model import Line
from logdiag.read.prefixes import parse_line

RESULTS = Path("evals/results/dress.json")
CASES = ("evals/inhouse/dev.jsonl.zst", "evals/cases/dev.jsonl.zst")
# Characters; longer logs take longer, and tell no more.
_LONGEST = 40_000
_LEVELS = {"DEBUG": 7, "WARNING": 4, "WARN": 4, "ERROR": 3, "CRITICAL": 2, "FATAL": 2}
_BUNYAN = {7: 20, 6: 30, 4: 40, 3: 50, 2: 60}

Dress = Callable[[Sequence[str]], list[str]]


def _time(at: int, form: str) -> str:
    return f"{datetime(2026, 11, 22, 6, 33, 8) + timedelta(seconds=3 * at):{form}}"


def _level(line: Line) -> str:
    return (line.level or "INFO").upper()


def _severity(line: Line) -> int:
    return _LEVELS.get(_level(line), 6)


def _row(*fields: object) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="").writerow(fields)
    return text.getvalue()


def _record(**fields: object) -> str:
    return json.dumps(fields, ensure_ascii=False)


# Each makes a line of its number, what was read of it, and its message.
HEADS: dict[str, Callable[[int, Line, str], str]] = {
    "syslog": lambda at, line, said: f"{_time(at, '%b %d %H:%M:%S')} host-3 loom[812]: {said}",
    "rfc 5424": lambda at, line, said: f"<{8 + _severity(line)}>1 {_time(at, '%FT%TZ')} host-3 loom 812 - - {said}",
    "clock in brackets": lambda at, line, said: f"[{_time(at, '%a %b %d %H:%M:%S %Y')}] {said}",
    "the kernel's clock": lambda at, line, said: f"[{3 * at + 0.123456:12.6f}] {said}",
    "apache": lambda at, line, said: f"[{_time(at, '%a %b %d %H:%M:%S.%f %Y')}] [error] [pid 812] {said}",
    "glog": lambda at, line, said: f"{_level(line)[0]}{_time(at, '%m%d %H:%M:%S.%f')}     812 shed.cc:{at}] {said}",
    "logcat": lambda at, line, said: f"{_time(at, '%m-%d %H:%M:%S')}.123   812   814 {_level(line)[0]} loom: {said}",
    "seconds": lambda at, line, said: f"{1795329188.25 + 3 * at:.3f} {said}",
    "log4j": lambda at, line, said: f"{_time(at, '%F %T')},123 [main] {_level(line):5} c.a.Shed - {said}",
    "tabs": lambda at, line, said: f"{_time(at, '%F %T')}\t{_level(line)}\tloom\t{said}",
    "csv": lambda at, line, said: _row(at, _time(at, "%F %T"), _level(line), "loom", said),
    "logfmt": lambda at, line, said: (
        f"ts={_time(at, '%FT%TZ')} lvl={_level(line).lower()} msg={json.dumps(said, ensure_ascii=False)}"
    ),
    "bunyan": lambda at, line, said: _record(
        name="loom", pid=812, level=_BUNYAN[_severity(line)], msg=said, time=_time(at, "%FT%T.000Z"), v=0
    ),
    "elastic": lambda at, line, said: _record(
        **{"@timestamp": _time(at, "%FT%T.000Z"), "log.level": _level(line), "message": said}
    ),
}

AROUND: dict[str, Callable[[int, str], str]] = {
    "indented": lambda at, text: "    " + text,
    "quoted mail": lambda at, text: "> " + text,
    "cat -n": lambda at, text: f"{at:6}\t{text}",
    "grep -n": lambda at, text: f"logs/train.log:{at}:{text}",
    "html": lambda at, text: html.escape(text),
    "colours": lambda at, text: f"\x1b[36m{text}\x1b[0m",
    "compose": lambda at, text: f"trainer-1  | {text}",
    "airflow": lambda at, text: f"[{_time(at, '%F, %T')} UTC] {{subprocess.py:106}} INFO - {text}",
    "prefect": lambda at, text: f"{_time(at, '%T')}.123 | INFO    | Task run 'train-0' - {text}",
    "actions": lambda at, text: f"{_time(at, '%FT%T')}.1234567Z {text}",
    "all on stderr": lambda at, text: _record(
        jsonPayload={"message": text, "levelname": "ERROR"}, severity="ERROR", timestamp=_time(at, "%FT%T.1Z")
    ),
    "fluentd": lambda at, text: f"{_time(at, '%FT%T')}+00:00\tkube.train\t{_record(log=text, stream='stderr')}",
}


def _scrape(at: int) -> str:
    return f"exporter: scrape {at} ok, {1200 + at % 7} series in 0.{200 + at % 90} s"


def _sidecar(lines: Sequence[str], alone: int) -> list[str]:
    """The lines, an exporter's behind every third, and so many of its lines alone."""
    between = [line for at, text in enumerate(lines) for line in ((text, _scrape(at)) if at % 3 == 0 else (text,))]
    return [*between, *(_scrape(len(lines) + at) for at in range(alone))]


BESIDE: dict[str, Dress] = {
    "a sidecar, 8 lines alone": lambda lines: _sidecar(lines, 8),
    "a sidecar, 60 lines alone": lambda lines: _sidecar(lines, 60),
    "a sidecar that speaks only afterwards": lambda lines: [*lines, *map(_scrape, range(60))],
    "a batch script's last line": lambda lines: [*lines, "Job finished at Sun Nov 22 06:33:08 UTC 2026"],
    "a shell's exit 0": lambda lines: [*lines, "+ echo finished", "finished", "+ exit 0"],
    "the job's next start": lambda lines: [*lines, *lines[: min(25, len(lines) // 3)]],
    "every line twice": lambda lines: [twice for line in lines for twice in (line, line)],
    "wrapped at 120 columns": lambda lines: [
        line[at : at + 120] for line in lines for at in range(0, max(len(line), 1), 120)
    ],
}


def _headed(lines: Sequence[str], head: Callable[[int, Line, str], str]) -> list[str]:
    parsed = [parse_line(line) for line in lines]
    return [head(at, line, line.message) if line.text.strip() else line.text for at, line in enumerate(parsed)]


def dressed(name: str, lines: Sequence[str]) -> list[str]:
    """The lines of a log in a dress; as they are for the empty name."""
    if name in HEADS:
        return _headed(lines, HEADS[name])
    if name in AROUND:
        return [AROUND[name](at, line) for at, line in enumerate(lines, 1)]
    return BESIDE[name](lines) if name else list(lines)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said of one case in one dress."""

    dress: str
    healthy: bool
    failed: bool
    root_right: bool


def _answer(work: tuple[str, Case]) -> Answer:
    name, case = work
    lines = (case.log or "").split("\n")
    answer = diagnose("\n".join(dressed(name, lines)).encode(), memory=False)
    found = _letters(answer.root_cause.text) if answer.root_cause else ""
    right = any(found and (root in found or found in root) for root in _roots(case, lines))
    return Answer(name, case.healthy, answer.failed is True, right)


def _roots(case: Case, lines: Sequence[str]) -> list[str]:
    """What the labelled lines say, without their own heads."""
    of_roots = [(root, next(line for line in lines if root in line)) for root in case.roots]
    return [_letters(min(root, parse_line(line).message, key=len)) for root, line in of_roots]


def _letters(text: str) -> str:
    """The letters and digits of a text, which no dress changes."""
    return re.sub(r"\W+|(?<=&)\w{2,5};", "", html.unescape(text))


def measured(cases: Sequence[Case], most: int) -> dict[str, dict[str, int]]:
    """The counts by dress, those of the logs as they are under `as they are`."""
    short = [case for case in cases if case.log and len(case.log) < _LONGEST]
    rng = random.Random(8)
    failing, healthy = ([case for case in short if case.healthy is is_healthy] for is_healthy in (False, True))
    chosen = rng.sample(failing, min(most, len(failing))) + rng.sample(healthy, min(most // 4, len(healthy)))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    with Pool() as pool:
        work = [(name, case) for name in ("", *HEADS, *AROUND, *BESIDE) for case in chosen]
        for answer in pool.imap(_answer, work, chunksize=8):
            of_dress = counts[answer.dress or "as they are"]
            of_dress["failures"] += not answer.healthy
            of_dress["root_right"] += not answer.healthy and answer.root_right
            of_dress["not_failed"] += not answer.healthy and not answer.failed
            of_dress["healthy"] += answer.healthy
            of_dress["false_alarms"] += answer.healthy and answer.failed
    return {name: dict(of_dress) for name, of_dress in counts.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints and writes; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m evals.dress", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--most", type=int, default=40, metavar="N")
    given = parser.parse_args(arguments)
    try:
        results = {
            "/".join(Path(path).parts[-2:]): measured(load_cases([path]).cases, given.most) for path in given.cases
        }
    except LogdiagError as error:
        print(error, file=sys.stderr)
        return 2
    for path, by_dress in results.items():
        print(path)
        for name, counts in by_dress.items():
            print(f"  {name:40} {counts}")
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
