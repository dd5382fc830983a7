"""What `--job KEY=VALUE` says of a job."""

from __future__ import annotations

from collections.abc import Iterable

from logdiag.errors import LogdiagError

__all__ = ["metadata_of"]

_KEYS = ("name", "framework", "image", "user")


def metadata_of(pairs: Iterable[str], *, any_key: bool = False) -> dict[str, str]:
    """The job's metadata by key, the last of equal keys. Raises LogdiagError for what is no KEY=VALUE, or where not
    `any_key` will do for one of another key."""
    metadata = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or not (any_key or key in _KEYS):
            example = "; give for instance name=pretrain" if any_key else f" with a KEY of {', '.join(_KEYS)}"
            raise LogdiagError(f"--job {pair}: not KEY=VALUE{example}")
        metadata[key] = value
    return metadata
