"""Reads a pickle that holds plain values only. Nothing in it can run: the reader knows the opcodes of plain values and
of names, and refuses each name.

It is the one of Python's readers that is written in Python: seven bytes make the memo of the other, which is an array,
take gigabytes.
"""

from __future__ import annotations

import io
import pickle
from pickletools import opcodes
from typing import Any

from logdiag.errors import SourceError

_KNOWN = {
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1",
    "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET",
    "GLOBAL", "STACK_GLOBAL",
}  # fmt: skip
_LONGEST_NAME = 160


class _Reader(pickle._Unpickler):
    dispatch = {  # noqa: RUF012
        ord(opcode.code): pickle._Unpickler.dispatch[ord(opcode.code)] for opcode in opcodes if opcode.name in _KNOWN
    }

    def find_class(self, module: str, name: str) -> Any:
        """Is asked for whatever could be called. Raises ImportError."""
        raise ImportError(f"{module}.{name}"[:_LONGEST_NAME])


def plain_pickle(data: bytes, name: str) -> Any:
    """The value of a pickle. Raises SourceError for one that would run anything, that breaks off, or is none."""
    file = io.BytesIO(data)
    refused = "refused, for a dump holds plain values"
    try:
        return _Reader(file, encoding="latin-1").load()
    except ImportError as error:
        dotted = str(error) if str(error).isprintable() else "of a name"
        raise SourceError(f"{name}: a pickle that would run code (GLOBAL {dotted}); {refused}") from error
    except KeyError as error:  # an opcode that is not known here
        raise SourceError(f"{name}: a pickle of other values (before byte {file.tell():,}); {refused}") from error
    except Exception as error:  # whatever a broken pickle leads its reader to
        where = f"before byte {file.tell():,} of {len(data):,}"
        raise SourceError(f"{name}: a pickle that is broken or breaks off ({where}); copy the whole file") from error
