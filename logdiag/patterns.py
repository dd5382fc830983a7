"""Compiled patterns of `re`, kept from one process to the next.

    _STEP = pattern_of(r"step (\\d+)")    # what re.compile gives
    keep()                             # at the end of a command

Python takes a tenth of a millisecond to compile a pattern, and a diagnosis asks for some four hundred: a fifth of the
time of a small log. What a pattern is compiled to, its program, is a list of numbers, from which it is there again at
once. That is no public interface, so a program is believed only by the very Python that made it, and whatever is
not as expected, the pattern is compiled as ever.
"""

from __future__ import annotations

import importlib
import re
import sys
from array import array
from functools import cache
from typing import Any, AnyStr

from logdiag.settings import cache as stored

_NAME = "patterns"
# As many as the rules and the program have; in those that are kept, the latest stay.
_MOST = 4096

Key = tuple[str | bytes, int]
"""A pattern and its flags."""
Program = tuple[int, bytes, int, dict[str, int], tuple[str | None, ...]]
"""All flags, those in the pattern too; the numbers; how many groups; their places by their names, and the reverse."""

_new: list[Key] = []
_UNLIKE = (ImportError, AttributeError, LookupError, TypeError, ValueError, RuntimeError, OverflowError)
"""What tells that this Python compiles patterns in another way."""


def pattern_of(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`: from the program that an earlier process kept, where there is one."""
    key = (pattern, int(flags))
    if program := _kept().get(key):
        try:
            return restored(pattern, program)
        except _UNLIKE:
            pass
    made = re.compile(pattern, flags)
    _new.append(key)
    return made


def keep() -> None:
    """Keeps the programs of what this process had to compile, beside those that were kept before."""
    if not _new:
        return
    try:
        programs = _kept() | {key: program_of(*key) for key in _new}
    except _UNLIKE:
        return
    _new.clear()
    stored.write(_NAME, _made_by(), dict(list(programs.items())[-_MOST:]))


def program_of(pattern: str | bytes, flags: int) -> Program:
    """What a pattern is compiled to. Raises one of `_UNLIKE`."""
    parser, compiler = (importlib.import_module(f"re._{part}") for part in ("parser", "compiler"))
    parsed = parser.parse(pattern, flags)
    code, state = compiler._code(parsed, flags), parsed.state
    names = {place: name for name, place in state.groupdict.items()}
    named = tuple(names.get(place) for place in range(state.groups))
    return flags | state.flags, array("I", code).tobytes(), state.groups - 1, dict(state.groupdict), named


def restored(pattern: AnyStr, program: Program) -> re.Pattern[AnyStr]:
    """The pattern that has this program. Raises one of `_UNLIKE`."""
    flags, numbers, groups, places, names = program
    code = array("I", numbers).tolist()
    made: re.Pattern[AnyStr] = _engine().compile(pattern, flags, code, groups, places, names)
    return made


@cache
def _engine() -> Any:
    return importlib.import_module("_sre")


@cache
def _kept() -> dict[Key, Program]:
    try:
        found = stored.read(_NAME, _made_by())
    except _UNLIKE:
        found = None
    return found if isinstance(found, dict) else {}


def _made_by() -> bytes:
    """Which Python: another one, even of the same version, may compile in another way."""
    return f"{sys.version} {_engine().MAGIC} {_engine().CODESIZE}".encode()
