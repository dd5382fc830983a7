"""What `--job KEY=VALUE` says of a job."""

from __future__ import annotations

from collections.abc import Iterable

from logdiag.errors import LogdiagError

__all__ = ["metadata_of"]

_KEYS = ("name", "framework", "image", "user")


def metadata_of(pairs: Iterable[str]) -> dict[str, str]:
    """The job's metadata by key, the last of equal keys. Raises LogdiagError for what is no KEY=VALUE."""
    metadata = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or key not in _KEYS:
            raise LogdiagError(f"--job {pair}: not KEY=VALUE with a KEY of {', '.join(_KEYS)}")
        metadata[key] = value
    return metadata
