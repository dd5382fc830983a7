"""Compiled rules kept between runs, by the fingerprint of the files they came from.

A cache that is missing, torn, unwritable or of another version costs speed, never correctness: the key holds every
byte of every rule file and the versions of what compiled them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["folder", "read", "write"]

_FORM = "logdiag-rules/1"
_KEEP = 8
_DIGEST, _SIZE = 32, 8


def folder() -> Path:
    """`LOGDIAG_CACHE`, or the user's cache folder."""
    if named := os.environ.get("LOGDIAG_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "logdiag")


def read(key: str) -> tuple[dict[str, Any], list[bytes]] | None:
    """The rules and the databases that were written under this key, or None."""
    try:
        content = _file(key).read_bytes()
        digest, body = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(body).digest() != digest:
            return None
        parts = []
        while body:
            size = int.from_bytes(body[:_SIZE], "big")
            parts.append(body[_SIZE : _SIZE + size])
            body = body[_SIZE + size :]
        return json.loads(parts[0]), parts[1:]
    except (OSError, ValueError, IndexError):
        return None


def write(key: str, plain: dict[str, Any], databases: list[bytes]) -> None:
    """Stores compiled rules whole or not at all; a folder that cannot be written is left alone."""
    parts = [json.dumps(plain, separators=(",", ":")).encode(), *databases]
    body = b"".join(len(part).to_bytes(_SIZE, "big") + part for part in parts)
    target = _file(key)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as out:
            out.write(hashlib.sha256(body).digest() + body)
        os.replace(out.name, target)
        for old in sorted(target.parent.glob("rules-*"), key=os.path.getmtime)[:-_KEEP]:
            old.unlink()
    except OSError:
        return


def _file(key: str) -> Path:
    from logdiag import __version__

    try:
        import hyperscan

        engine = str(getattr(hyperscan, "__version__", "unknown"))
    except ImportError:
        engine = "none"
    made_by = f"{_FORM} {__version__} {engine} {sys.version_info[:2]} {platform.machine()} {key}"
    return folder() / f"rules-{hashlib.sha256(made_by.encode()).hexdigest()[:32]}"
