"""What several test modules share: where things lie, how to run the command, and small logs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from logdiag import Diagnosis, diagnose
from logdiag.model import Line
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook, loading
from logdiag.rules.files import parse
from logdiag.rules.folders import RuleFiles

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
LOGS = DATA / "logs"
SHARED = ROOT.parent / "shared"

SAMPLES = sorted(path for path in LOGS.glob("*") if path.suffix == ".log")


def run_logdiag(
    *arguments: str | os.PathLike[str],
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Runs `python -m logdiag` in a process of its own, its input empty unless given."""
    return subprocess.run(
        [sys.executable, "-m", "logdiag", *(os.fspath(argument) for argument in arguments)],
        input=b"" if stdin is None else stdin,
        capture_output=True,
        env=environment(env),
        cwd=cwd,
        timeout=300,
        check=False,
    )


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment, with the checkout on the module path."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **(extra or {})}


def log_of(*lines: str) -> bytes:
    """A log of these lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def diagnosed(book: RuleBook, *lines: str, exit_code: int | None = None) -> Diagnosis:
    """The diagnosis of a log of these lines."""
    return diagnose(log_of(*lines), rules=book, exit_code=exit_code)


def parsed(lines: Iterable[str]) -> list[Line]:
    """Lines as the survey hands them on, numbered from 1."""
    return [parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate(lines)]


def steps(first: int, count: int, prefix: str = "") -> list[str]:
    """Lines of training steps."""
    return [f"{prefix}step: {number} loss: {3 - number / 1000:.4f} lr: 1e-04" for number in range(first, first + count)]


def write_rule(folder: Path, identity: str, text: str) -> Path:
    """Writes one rule file below a rule folder."""
    path = folder / f"{identity}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def rule_text(
    reason: str | None = "RuntimeError",
    match: Sequence[str] = ("widget jammed",),
    fires: Sequence[str] = ("error: widget jammed",),
    **more: str,
) -> str:
    """A rule file; `more` are further keys with their YAML values, `quiet` goes below the examples."""
    quiet = more.pop("quiet", "[]")
    lines = [f"reason: {reason}"] if reason else []
    lines += [f"{name}: {value}" for name, value in {"title": "A made-up failure", "why": "It broke.", **more}.items()]
    lines += ["match:", *(f"  - {quoted(text)}" for text in match)]
    lines += ["examples:", "  fires:", *(f"    - {quoted(text)}" for text in fires), f"  quiet: {quiet}"]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A text as a single-quoted YAML value."""
    return "'" + text.replace("'", "''") + "'"


def book_of(folder: Path) -> RuleBook:
    """The rules of one folder alone, without the shipped ones."""
    return RuleBook(*parse(RuleFiles([folder])))


PYTHON_ERROR = (
    "Traceback (most recent call last):",
    '  File "/srv/job/train.py", line 88, in <module>',
    "    main()",
    '  File "/srv/job/train.py", line 71, in main',
    '    batch = row["caption"]',
)
"""The head of a traceback, to be followed by the line that names the exception."""


def traceback_of(final: str, *, prefix: str = "") -> list[str]:
    """A plain traceback that ends in `final`, each line after `prefix`."""
    return [f"{prefix}{line}" for line in (*PYTHON_ERROR, final)]


def watchdog(rank: int, *, clock: str = "18:04:11") -> str:
    """What a rank's watchdog says when a collective timed out."""
    return (
        f"[rank{rank}]:[E311 {clock}.104213000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum=4412, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, "
        f"Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
    )


def loaded_anew(*folders: Path) -> RuleBook:
    """The rules as a process that has loaded none yet gets them."""
    loading._book_with.cache_clear()
    return RuleBook.load(folders)
