"""The past incidents that ship with logdiag, below every store, never changed. Parsed incidents and their vectors are
cached; a missing or torn cache costs only time."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from logdiag.errors import MemoryStoreError
from logdiag.memory.documents import bounded, read_incident
from logdiag.memory.embedding import Embedder, closest
from logdiag.memory.incident import PREFIX, Incident, masked
from logdiag.model import Action, Reason
from logdiag.rules.folders import shipped_folder
from logdiag.settings import cache

_FORM = b"logdiag-corpus/5\0"
# What an incident that ships says.
_TOLD = ("id", "signature", "window", "cause", "remedy", "job", "provenance")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Incidents that cannot be changed; `origin` names their exact wording."""

    incidents: tuple[Incident, ...] = ()
    origin: bytes = b""
    _vectors: dict[str, list[tuple[float, ...]]] = field(default_factory=dict, repr=False, compare=False)

    def nearest(self, query: array[float], k: int, embedder: Embedder) -> list[tuple[float, Incident]]:
        """The `k` most similar to a vector of the embedder, with their cosine, best first."""
        if embedder.name not in self._vectors:
            origin = hashlib.sha256(self.origin + embedder.name.encode()).digest()
            texts = [item.signature for item in self.incidents]
            made = _kept("corpus-vectors", origin, lambda: b"".join(map(bytes, embedder.embed(texts))))
            table, width = memoryview(made).cast("f"), embedder.dimensions
            rows = [tuple(table[start : start + width]) for start in range(0, len(table), width)]
            self._vectors[embedder.name] = rows
        return [(score, self.incidents[at]) for score, at in closest(query, self._vectors[embedder.name], k)]


@lru_cache(maxsize=1)
def load_corpus() -> Corpus:
    """The incidents that ship, read once a process."""
    return corpus_in(Path(shipped_folder()).parent / "corpus")


def corpus_in(folder: Path) -> Corpus:
    """The incidents of a folder of `<category>/<reason>.yaml`. Raises MemoryStoreError for one that is none."""
    contents = {path: path.read_bytes() for path in sorted(folder.rglob("*.yaml"))}
    source = b"\0".join(part for path, content in contents.items() for part in (os.fsencode(path.name), content))
    origin = hashlib.sha256(source).digest()
    return Corpus(tuple(map(_incident, _kept("corpus", origin, lambda: _parsed(contents)))), origin)


def _parsed(contents: dict[Path, bytes]) -> list[dict[str, Any]]:
    import yaml

    found = []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path, content in contents.items():
        for given in yaml.load(content, Loader=loader) or []:
            read, problems = read_incident({**given, "reason": path.stem})
            if read is None:
                raise MemoryStoreError(f"{path}: {given.get('id')}: {problems[0]}; see corpus/README.md for the form")
            window = tuple(masked(line) for line in read.window)
            read = replace(read, id=f"{PREFIX}{read.id}", signature=masked(read.signature), window=window)
            told = {name: getattr(bounded(read), name) for name in _TOLD}
            found.append({**told, "reason": read.reason.value, "action": read.action.value})
    return found


def _incident(kept: dict[str, Any]) -> Incident:
    return Incident(**{**kept, "reason": Reason(kept["reason"]), "action": Action(kept["action"])})


def _kept(name: str, origin: bytes, make: Callable[[], Any]) -> Any:
    """What was made from `origin`: from the cache, or made now and kept."""
    value = cache.read(name, _FORM + origin)
    if value is None:
        value = make()
        cache.write(name, _FORM + origin, value)
    return value
