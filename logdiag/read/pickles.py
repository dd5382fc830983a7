"""Reads a pickle that holds plain values only. Nothing in it can run: opcodes that load or call anything are refused by
name, and there is no code here that could do it.

`pickle.Unpickler` is not used, though it can be made to load no class: seven bytes make its memo, which is an array,
take gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pickletools import genops
from typing import Any

from logdiag.errors import SourceError

_MARK = object()
# The opcodes whose argument is a value.
_VALUES = {
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT",
}  # fmt: skip
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "MARK": lambda: _MARK,
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple,
}  # fmt: skip
# Those that put what is on the stack into a container: how many items, 0 for all behind a mark.
_GATHERED = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2, "TUPLE": 0, "APPENDS": 0, "SETITEMS": 0}
# Those that load, make or call something.
_RUNNING = {
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD", "EXT1", "EXT2", "EXT4", "PERSID",
    "BINPERSID",
}  # fmt: skip


def plain_pickle(data: bytes, name: str) -> Any:
    """The value of a pickle. Raises SourceError for one that would run anything, that breaks off, or is none."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    argument: Any
    at: int | None = 0
    try:
        # The commonest are told apart first: a dump holds 100,000 and more of them.
        for opcode, argument, at in genops(data):
            if opcode.name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            elif opcode.name in _VALUES:
                stack.append(argument)
            elif opcode.name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
                memo[len(memo) if argument is None else argument] = stack[-1]
            elif opcode.name in _CONSTANTS:
                stack.append(_CONSTANTS[opcode.name]())
            elif opcode.name in _GATHERED:
                _gather(opcode.name, stack)
            elif opcode.name == "STOP":
                return stack.pop()
            elif opcode.name not in ("PROTO", "FRAME"):
                problem = "a pickle that would run code" if opcode.name in _RUNNING else "a pickle of other values"
                where = f"({opcode.name}{_refused_name(argument, stack)}) at byte {at:,}"
                raise SourceError(f"{name}: {problem} {where}; refused, for a dump holds plain values")
    except (LookupError, AttributeError, TypeError, ValueError, StopIteration) as error:
        where = f"at byte {at or 0:,} of {len(data):,}"
        raise SourceError(f"{name}: a pickle that is broken or breaks off ({where}); copy the whole file") from error


def _gather(opcode: str, stack: list[Any]) -> None:
    if count := _GATHERED[opcode]:
        items = [stack.pop() for _ in range(count)][::-1]
    else:
        mark = next(at for at in range(len(stack) - 1, -1, -1) if stack[at] is _MARK)
        items = stack[mark + 1 :]
        del stack[mark:]
    if opcode.startswith("TUPLE"):
        stack.append(tuple(items))
    elif opcode.startswith("APPEND"):
        stack[-1].extend(items)
    else:
        stack[-1].update(zip(items[::2], items[1::2], strict=True))


def _refused_name(argument: Any, stack: list[Any]) -> str:
    """The dotted name that a refused opcode would load, with a space before it; empty where none is found."""
    parts = argument.split() if isinstance(argument, str) else stack[-2:]
    dotted = ".".join(item[:80] for item in parts if isinstance(item, str) and item.isprintable())
    return f" {dotted}" if dotted else ""
