"""Reads a pickle that holds plain values only. Nothing in it can run: opcodes that load or call anything are refused by
name, and there is no code here that could do it.

`pickle.Unpickler` is not used, though it can be made to load no class: seven bytes make its memo, which is an array,
take gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from logdiag.errors import SourceError

_MARK = object()
_BINGET, _LONG_BINGET, _BININT1, _MEMOIZE, _STOP = b"hjK\x94."
# What loads, makes or calls something, by its opcode.
_RUNS = {
    b"c": "GLOBAL", b"\x93": "STACK_GLOBAL", b"R": "REDUCE", b"i": "INST", b"o": "OBJ", b"\x81": "NEWOBJ",
    b"\x92": "NEWOBJ_EX", b"b": "BUILD", b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4", b"P": "PERSID",
    b"Q": "BINPERSID",
}  # fmt: skip
_CONSTANTS: dict[bytes, Callable[[], Any]] = {
    b"N": lambda: None, b"\x88": lambda: True, b"\x89": lambda: False, b"}": dict, b"]": list, b")": tuple,
    b"(": lambda: _MARK,
}  # fmt: skip
# Numbers of a fixed size.
_NUMBERS = {b"M": "<H", b"J": "<i", b"G": ">d"}
# Texts and bytes behind their length.
_COUNTED = {b"X": "<I", b"\x8c": "<B", b"\x8d": "<Q", b"U": "<B", b"T": "<I", b"C": "<B", b"B": "<I"}
_TEXTS = frozenset({b"X", b"\x8c", b"\x8d"})
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}


class _Reader:
    """A stack machine for the opcodes that make plain values."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name, self.at = data, name, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The value. The commonest opcodes are told apart here: a dump holds 100,000 and more of them."""
        data, stack, memo, at = self.data, self.stack, self.memo, self.at
        while at < len(data):
            code = data[at]
            if code == _BINGET:
                stack.append(memo[data[at + 1]])
                at += 2
            elif code == _LONG_BINGET:
                stack.append(memo[int.from_bytes(data[at + 1 : at + 5], "little")])
                at += 5
            elif code == _BININT1:
                stack.append(data[at + 1])
                at += 2
            elif code == _MEMOIZE:
                memo[len(memo)] = stack[-1]
                at += 1
            elif code == _STOP:
                return stack.pop()
            else:
                self.at = at + 1
                self.obey(data[at : at + 1])
                at = self.at
        raise EOFError

    def obey(self, code: bytes) -> None:
        if code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code]())
        elif code in _NUMBERS:
            self.stack.append(self.number(_NUMBERS[code]))
        elif code in _COUNTED:
            value = self.take(int(self.number(_COUNTED[code])))
            self.stack.append(value.decode("utf-8", "replace") if code in _TEXTS else value)
        elif code == b"\x8a":
            self.stack.append(int.from_bytes(self.take(self.take(1)[0]), "little", signed=True))
        elif code in (b"q", b"r"):
            self.memo[int(self.number("<B" if code == b"q" else "<I"))] = self.stack[-1]
        elif code in (b"\x80", b"\x95"):  # the protocol, a frame's length
            self.take(1 if code == b"\x80" else 8)
        else:
            self.gather(code)

    def gather(self, code: bytes) -> None:
        """Puts what is on the stack into a tuple, a list or a mapping."""
        if code in _TUPLES:
            items = [self.stack.pop() for _ in range(_TUPLES[code])]
            self.stack.append(tuple(reversed(items)))
        elif code == b"t":
            self.stack.append(tuple(self.marked()))
        elif code in (b"a", b"e"):
            items = [self.stack.pop()] if code == b"a" else self.marked()
            self.stack[-1].extend(items)
        elif code in (b"s", b"u"):
            items = [self.stack.pop() for _ in range(2)][::-1] if code == b"s" else self.marked()
            self.stack[-1].update(zip(items[::2], items[1::2], strict=True))
        else:
            opcode = _RUNS.get(code)
            problem = (
                f"a pickle that would run code ({opcode}{self.refused_name(code)})"
                if opcode
                else f"a pickle with {code!r}"
            )
            at = self.at - 1
            raise SourceError(
                f"{self.name}: {problem} at byte {at:,}; refused, for a flight recorder's dump holds plain values"
            )

    def refused_name(self, code: bytes) -> str:
        """The dotted name that a refused opcode would load, with a space before it; empty where none is found."""
        in_opcode = self.data[self.at : self.at + 200].split(b"\n")[:2]
        parts: list[Any] = in_opcode if code in (b"c", b"i") else self.stack[-2:]
        names = [item.decode("ascii", "replace") if isinstance(item, bytes) else item for item in parts]
        dotted = ".".join(item[:80] for item in names if isinstance(item, str) and item.isprintable())
        return f" {dotted}" if dotted else ""

    def marked(self) -> list[Any]:
        at = next(at for at in range(len(self.stack) - 1, -1, -1) if self.stack[at] is _MARK)
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise EOFError
        self.at += size
        return taken


def plain_pickle(data: bytes, name: str) -> Any:
    """The value of a pickle. Raises SourceError for one that would load or call anything, and for one that breaks off
    or is none."""
    reader = _Reader(data, name)
    try:
        return reader.load()
    except (EOFError, LookupError, AttributeError, TypeError, ValueError, StopIteration, struct.error) as error:
        where = f"at byte {reader.at:,} of {len(data):,}"
        raise SourceError(f"{name}: a pickle that is broken or breaks off ({where}); copy the whole file") from error
