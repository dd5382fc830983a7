"""The past incidents that ship with logdiag, below every store, never changed. Parsed incidents and their vectors are
cached; a missing or torn cache costs only time."""

from __future__ import annotations

import hashlib
import os
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

from logdiag.errors import MemoryStoreError
from logdiag.memory.documents import bounded, read_incident
from logdiag.memory.embedding import Embedder, closest
from logdiag.memory.incident import PREFIX, Incident, masked
from logdiag.model import Action, Reason
from logdiag.rules.folders import RuleFiles, shipped_folder
from logdiag.settings import cache
from logdiag.settings.places import StrPath

_FORM = b"logdiag-corpus/6\0"
_MOST_FOUND = 128
# The fields that the file of a shipped incident may fill, beside reason and action.
_FIELDS = ("id", "signature", "window", "cause", "remedy", "job", "provenance")


class Corpus:
    """Incidents that cannot be changed: their fields as plain values, and a fingerprint of the files they came from.
    An `Incident` is made only when it is asked for: of the hundreds that ship, an answer shows three."""

    def __init__(self, records: Sequence[dict[str, Any]] = (), origin: bytes = b"") -> None:
        self._records = records
        self._origin = origin
        self._cached_nearest = lru_cache(_MOST_FOUND)(self._nearest_to)
        # Most commands search once, and making lists of half a million numbers takes as long as a search: the vectors
        # of an embedder, by its name, are kept from the second search on.
        self._searched = False
        self._vectors: dict[str, list[tuple[float, ...]]] = {}

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """All incidents of the corpus."""
        return tuple(map(_incident, self._records))

    def by_fingerprint(self, wanted: str) -> list[Incident]:
        """The incidents with this fingerprint."""
        return [_incident(record) for record in self._records if record["fingerprint"] == wanted]

    def nearest(self, query: array[float], k: int, embedder: Embedder) -> tuple[tuple[float, Incident], ...]:
        """The `k` most similar to a vector, with their cosine, best first; cached, as jobs fail with the same words."""
        return self._cached_nearest(query.tobytes(), k, embedder)

    def _nearest_to(self, packed: bytes, k: int, embedder: Embedder) -> tuple[tuple[float, Incident], ...]:
        rows: Iterable[tuple[float, ...]] = self._vectors.get(embedder.name) or self._read_vectors(embedder)
        if self._searched and embedder.name not in self._vectors:
            rows = self._vectors[embedder.name] = list(rows)
        self._searched = True
        found = closest(array("f", packed), rows, k)
        return tuple((score, _incident(self._records[index])) for score, index in found)

    def _read_vectors(self, embedder: Embedder) -> Iterator[tuple[float, ...]]:
        origin = hashlib.sha256(self._origin + embedder.name.encode()).digest()
        texts = [record["signature"] for record in self._records]
        packed = _cached("corpus-vectors", origin, lambda: b"".join(map(bytes, embedder.embed(texts))))
        return struct.iter_unpack(f"{embedder.dimensions}f", packed)


@lru_cache(maxsize=1)
def load_corpus() -> Corpus:
    """The incidents that ship, read once a process."""
    return corpus_in(os.path.join(os.path.dirname(shipped_folder()), "corpus"))


def corpus_in(folder: StrPath) -> Corpus:
    """The incidents of a folder of `<category>/<reason>.yaml` files. Raises MemoryStoreError for a wrong one."""
    files = RuleFiles([folder])
    origin = files.fingerprint()
    return Corpus(_cached("corpus", origin, lambda: _parsed(files)), origin)


def _parsed(files: RuleFiles) -> list[dict[str, Any]]:
    """The fields of each incident in the files, as plain values, with masked texts."""
    import yaml

    records = []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for name, file in files.contents.items():
        for entry in yaml.load(file.content, Loader=loader) or []:
            incident, problems = read_incident({**entry, "reason": name.rpartition("/")[2]})
            if incident is None:
                raise MemoryStoreError(f"{file.path}: {entry.get('id')}: {problems[0]}; see corpus/README.md")
            signature, window = masked(incident.signature), tuple(map(masked, incident.window))
            incident = bounded(replace(incident, id=f"{PREFIX}{incident.id}", signature=signature, window=window))
            record = {name: getattr(incident, name) for name in (*_FIELDS, "fingerprint")}
            records.append({**record, "reason": incident.reason.value, "action": incident.action.value})
    return records


def _incident(record: dict[str, Any]) -> Incident:
    reason, action = Reason(record["reason"]), Action(record["action"])
    return Incident(reason=reason, action=action, **{name: record[name] for name in _FIELDS})


def _cached(name: str, origin: bytes, make: Callable[[], Any]) -> Any:
    """The value made from `origin`: from the cache, else made now and cached."""
    value = cache.read(name, _FORM + origin)
    if value is None:
        value = make()
        cache.write(name, _FORM + origin, value)
    return value
