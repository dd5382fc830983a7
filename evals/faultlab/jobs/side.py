"""Tells the lab how far a process is, beside its output."""

from __future__ import annotations

import os
import time
from pathlib import Path

_FOLDER = Path(os.environ.get("SIDE_FOLDER", "/mnt/side"))
# From the step at which something happens, a step may take so many seconds longer: time for it to happen.
_SLOW, _STEP = float(os.environ.get("SLOW", "0")), int(os.environ.get("STEP", "0"))


def mark(rank: int, step: int) -> None:
    """A rank has made a step."""
    if step == 0:
        _write(f"pid.{rank}", os.getpid())
    _write(f"step.{rank}", step)
    if _SLOW and step >= _STEP:
        time.sleep(_SLOW)


def _write(name: str, value: int) -> None:
    # A rename, so that nobody reads an empty file.
    half = _FOLDER / f"{name}.{os.getpid()}"
    half.write_text(str(value))
    half.rename(_FOLDER / name)
