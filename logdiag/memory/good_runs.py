"""The latest good run of each job, kept beside the incidents: hashes of its lines, and how often each was printed.

FOLDER/good-runs/HASH-OF-THE-JOBS-NAME        a few kilobytes, overwritten by the next good run
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

# A line's hash, and how often it was printed.
_ROW = struct.Struct(f">{HASH_BYTES}sI")
_MOST_BYTES = 16_384
_MOST_TIMES = (1 << 32) - 1


def kept_good_run(memory: StoreOrPlace, name: str) -> tuple[GoodRun, str] | None:
    """The latest good run of the job `name`, and the day in UTC when it was stored; None if there is none."""
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
    """Stores the good run of the job `name`; returns the answer with a note that it is kept, or why not."""
    note = f"kept as the latest good run of {name}"
    rows = b"".join(_ROW.pack(line, min(count, _MOST_TIMES)) for line, count in sorted(good.counts.items()))
    # Against a part of a run every other line would seem new.
    if len(rows) > _MOST_BYTES:
        kinds = f"{len(good.counts):,} kinds of lines and at most {_MOST_BYTES // _ROW.size:,} are kept"
        note = f"not kept as a good run: {name}: its log has {kinds}; give the log with --baseline"
        return replace(answer, notes=(*answer.notes, note))
    try:
        path = _path(memory, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, rows)
    except MemoryStoreError as error:
        note = f"not kept as a good run: {error}"
    except OSError as error:
        note = f"not kept as a good run: {path}: cannot be written ({error.strerror}); name another place with --memory"
    return replace(answer, notes=(*answer.notes, note))


def _path(memory: StoreOrPlace, name: str) -> str:
    """The path of a job's latest good run. Raises MemoryStoreError if the memory is no folder."""
    folder = memory.place if isinstance(memory, Store) else os.fspath(memory)
    if "://" in folder:
        raise MemoryStoreError(f"{name}: good runs are kept only where --memory names a folder")
    return os.path.join(folder, "good-runs", blake2b(name.encode(errors="replace"), digest_size=8).hexdigest())
