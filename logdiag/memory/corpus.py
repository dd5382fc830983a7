"""The past incidents that ship with logdiag, below every store, never changed. Parsed incidents and their vectors are
cached; a missing or torn cache costs only time."""

from __future__ import annotations

import hashlib
import os
import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
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
# What an incident that ships says.
_TOLD = ("id", "signature", "window", "cause", "remedy", "job", "provenance")


class Corpus:
    """Incidents that cannot be changed: `told` is what the cache keeps of each, `origin` names their exact wording.

    An incident is made when it is asked for: of the hundreds that ship, an answer shows three.
    """

    def __init__(self, told: Sequence[dict[str, Any]] = (), origin: bytes = b"") -> None:
        self._raw = told
        self._origin = origin
        self._found = lru_cache(_MOST_FOUND)(self._nearest_to)
        # By the name of the embedder; None where it was asked once: what will not be asked again need not be kept.
        self._vectors: dict[str, list[tuple[float, ...]] | None] = {}

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """All of them."""
        return tuple(map(_incident, self._raw))

    def by_fingerprint(self, wanted: str) -> list[Incident]:
        """Those of exactly this failure."""
        return [_incident(told) for told in self._raw if told["fingerprint"] == wanted]

    def nearest(self, query: array[float], k: int, embedder: Embedder) -> tuple[tuple[float, Incident], ...]:
        """The `k` most similar to a vector of the embedder, with their cosine, best first. Of many jobs most fail with
        the words of others, so what was found is kept."""
        return self._found(query.tobytes(), k, embedder)

    def _nearest_to(self, packed: bytes, k: int, embedder: Embedder) -> tuple[tuple[float, Incident], ...]:
        query = array("f", packed)
        rows = self._vectors.get(embedder.name) or self._vectors_by(embedder)
        return tuple((score, _incident(self._raw[at])) for score, at in closest(query, rows, k))

    def _vectors_by(self, embedder: Embedder) -> Iterable[tuple[float, ...]]:
        """A vector for each incident. A command asks once and takes them as they come; half a million numbers that are
        kept for a second search take as long as that search."""
        origin = hashlib.sha256(self._origin + embedder.name.encode()).digest()
        texts = [told["signature"] for told in self._raw]
        made = _kept("corpus-vectors", origin, lambda: b"".join(map(bytes, embedder.embed(texts))))
        rows = struct.iter_unpack(f"{embedder.dimensions}f", made)
        self._vectors[embedder.name] = list(rows) if embedder.name in self._vectors else None
        return self._vectors[embedder.name] or rows


@lru_cache(maxsize=1)
def load_corpus() -> Corpus:
    """The incidents that ship, read once a process."""
    return corpus_in(os.path.join(os.path.dirname(shipped_folder()), "corpus"))


def corpus_in(folder: StrPath) -> Corpus:
    """The incidents of a folder of `<category>/<reason>.yaml`. Raises MemoryStoreError for one that is none."""
    files = RuleFiles([folder])
    origin = files.fingerprint()
    return Corpus(_kept("corpus", origin, lambda: _parsed(files)), origin)


def _parsed(files: RuleFiles) -> list[dict[str, Any]]:
    import yaml

    found = []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for name, file in files.contents.items():
        for given in yaml.load(file.content, Loader=loader) or []:
            read, problems = read_incident({**given, "reason": name.rpartition("/")[2]})
            if read is None:
                raise MemoryStoreError(
                    f"{file.path}: {given.get('id')}: {problems[0]}; see corpus/README.md for the form"
                )
            window = tuple(masked(line) for line in read.window)
            read = bounded(replace(read, id=f"{PREFIX}{read.id}", signature=masked(read.signature), window=window))
            told = {name: getattr(read, name) for name in (*_TOLD, "fingerprint")}
            found.append({**told, "reason": read.reason.value, "action": read.action.value})
    return found


def _incident(told: dict[str, Any]) -> Incident:
    reason, action = Reason(told["reason"]), Action(told["action"])
    return Incident(reason=reason, action=action, **{name: told[name] for name in _TOLD})


def _kept(name: str, origin: bytes, make: Callable[[], Any]) -> Any:
    """What was made from `origin`: from the cache, or made now and kept."""
    value = cache.read(name, _FORM + origin)
    if value is None:
        value = make()
        cache.write(name, _FORM + origin, value)
    return value
