"""Compiled rules kept between runs, beside every byte of the files they came from.

A cache that is missing, torn, unwritable or of another version costs speed, never correctness: it is used only when
the rule files and the versions of what compiled them are, byte for byte, what it was made from.
"""

from __future__ import annotations

import marshal
import os
import sys
import zlib
from typing import Any

from logdiag._version import __version__

__all__ = ["folder", "read", "write"]

_FORM = "logdiag-rules/4"
_KEEP = 8
_CHECK_SUM = 4


def folder() -> str:
    """`LOGDIAG_CACHE`, or the user's cache folder."""
    if named := os.environ.get("LOGDIAG_CACHE"):
        return named
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "logdiag")


def read(source: bytes) -> tuple[dict[str, Any], list[bytes]] | None:
    """The rules and the databases that were made from `source`, or None."""
    origin = _made_by() + source
    try:
        with open(_file(origin), "rb") as file:
            content = file.read()
        check_sum, body = content[:_CHECK_SUM], memoryview(content)[_CHECK_SUM:]
        if zlib.crc32(body).to_bytes(_CHECK_SUM, "big") != check_sum:
            return None
        stored, plain, databases = marshal.loads(body)
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return (plain, databases) if stored == origin else None


def write(source: bytes, plain: dict[str, Any], databases: list[bytes]) -> None:
    """Stores compiled rules whole or not at all; a folder that cannot be written is left alone."""
    import tempfile
    from pathlib import Path

    origin = _made_by() + source
    body = marshal.dumps((origin, plain, databases))
    target = Path(_file(origin))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as out:
            out.write(zlib.crc32(body).to_bytes(_CHECK_SUM, "big") + body)
        os.replace(out.name, target)
        for old in sorted(target.parent.glob("rules-*"), key=os.path.getmtime)[:-_KEEP]:
            old.unlink()
    except OSError:
        return


def _made_by() -> bytes:
    try:
        import hyperscan

        engine = str(getattr(hyperscan, "__version__", "unknown"))
    except ImportError:
        engine = "none"
    machine = os.uname().machine if hasattr(os, "uname") else sys.platform
    return f"{_FORM} {__version__} {engine} {sys.version_info[:2]} {machine}\0".encode()


def _file(origin: bytes) -> str:
    return os.path.join(folder(), f"rules-{zlib.crc32(origin):08x}")
