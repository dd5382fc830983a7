"""The latest good run of each job, kept beside the incidents: hashes of its lines and how often each came.

PLACE/good-runs/HASH-OF-THE-JOBS-NAME        a few kilobytes, overwritten by the next good run
"""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from datetime import datetime, timezone
from hashlib import blake2b

from logdiag.errors import MemoryStoreError
from logdiag.memory.store import Store, StoreOrPlace
from logdiag.model import Diagnosis
from logdiag.scan.good_run import HASH_BYTES, GoodRun
from logdiag.settings.cache import replace_file

# A line's hash, and how often it came.
_ROW = struct.Struct(f">{HASH_BYTES}sI")
_MOST_BYTES = 16_384
_MOST_ROWS = _MOST_BYTES // _ROW.size
_MOST_TIMES = (1 << 32) - 1


def kept_good_run(memory: StoreOrPlace, name: str) -> tuple[GoodRun, str] | None:
    """The latest good run of the job `name`, and the day in UTC when it was kept; None where there is none."""
    try:
        with open(_path(memory, name), "rb") as file:
            rows = file.read(_MOST_BYTES + 1)
            kept = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, timezone.utc)
    except (OSError, MemoryStoreError):
        return None
    if not rows or len(rows) % _ROW.size or len(rows) > _MOST_BYTES:
        return None
    counts = dict(_ROW.iter_unpack(rows))
    return GoodRun(counts, sum(counts.values())), f"{kept:%Y-%m-%d}"


def kept_as_good(memory: StoreOrPlace, name: str, good: GoodRun, answer: Diagnosis) -> Diagnosis:
    """The answer of the job `name` that came to its end, with a note that its run is kept, or why not."""
    try:
        _keep(memory, name, good)
    except MemoryStoreError as error:
        return replace(answer, notes=(*answer.notes, f"not kept as a good run: {error}"))
    return replace(answer, notes=(*answer.notes, f"kept as the latest good run of {name}"))


def _keep(memory: StoreOrPlace, name: str, good: GoodRun) -> None:
    """Keeps a good run in place of the one before. Raises MemoryStoreError where that cannot be done, or there are more
    kinds of lines than are kept: of a part every other line would seem new."""
    if len(good.counts) > _MOST_ROWS:
        raise MemoryStoreError(
            f"{name}: its log has {len(good.counts):,} kinds of lines and at most {_MOST_ROWS:,} are kept; "
            "give the log with --baseline"
        )
    path = _path(memory, name)
    rows = b"".join(_ROW.pack(line, min(count, _MOST_TIMES)) for line, count in sorted(good.counts.items()))
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, rows)
    except OSError as error:
        why = f"{path}: cannot be written ({error.strerror}); name another place with --memory"
        raise MemoryStoreError(why) from error


def _path(memory: StoreOrPlace, name: str) -> str:
    """Where the latest good run of a job lies. Raises MemoryStoreError where the memory is no folder."""
    place = memory.place if isinstance(memory, Store) else os.fspath(memory)
    if "://" in place:
        raise MemoryStoreError(f"{name}: good runs are kept only where --memory names a folder")
    return os.path.join(place, "good-runs", blake2b(name.encode(errors="replace"), digest_size=8).hexdigest())
