"""The past incidents that ship with logdiag: the ground layer of every store, never changed.

Parsed incidents and their vectors are kept in the cache folder, beside what they were made from; a cache that is
missing or torn costs speed, never correctness.
"""

from __future__ import annotations

import hashlib
import math
import os
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from logdiag import cache
from logdiag.errors import MemoryStoreError
from logdiag.memory.documents import read_incident
from logdiag.memory.incident import PREFIX, Incident, fingerprint, masked
from logdiag.model import Action, Reason

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder

__all__ = ["Corpus", "load_corpus"]

_PROVENANCE = "written for this project"
_FORM = b"logdiag-corpus/5\0"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Incidents that cannot be changed, with the fingerprint of each, and `origin`, which names their exact wording."""

    incidents: tuple[Incident, ...] = ()
    fingerprints: tuple[str, ...] = ()
    origin: bytes = b""
    _vectors: dict[str, list[tuple[tuple[float, ...], float]]] = field(default_factory=dict, repr=False, compare=False)

    def by_fingerprint(self, wanted: str) -> list[Incident]:
        """Those of one fingerprint."""
        return [incident for incident, own in zip(self.incidents, self.fingerprints, strict=True) if own == wanted]

    def nearest(self, query: array[float], k: int, embedder: Embedder) -> list[tuple[float, Incident]]:
        """The `k` most similar to a vector of the embedder, with their cosine, best first."""
        # The fastest product of two vectors that Python has without NumPy: |a - b|**2 = |a|**2 + |b|**2 - 2ab.
        asked = tuple(query)
        own = math.hypot(*asked) ** 2
        scores = [(own + square - math.dist(asked, row) ** 2) / 2 for row, square in self._embedded(embedder)]
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:k]
        return [(scores[at], self.incidents[at]) for at in best]

    def _embedded(self, embedder: Embedder) -> list[tuple[tuple[float, ...], float]]:
        """All vectors, each with the square of its length."""

        def made() -> bytes:
            return b"".join(vector.tobytes() for vector in embedder.embed([item.signature for item in self.incidents]))

        if embedder.name not in self._vectors:
            origin = hashlib.sha256(self.origin + embedder.name.encode()).digest()
            table, width = memoryview(_kept("corpus-vectors", origin, made)).cast("f"), embedder.dimensions
            rows = [tuple(table[start : start + width]) for start in range(0, len(table), width)]
            self._vectors[embedder.name] = [(row, math.hypot(*row) ** 2) for row in rows]
        return self._vectors[embedder.name]


def load_corpus(folder: str | os.PathLike[str] | None = None) -> Corpus:
    """The incidents of a folder of `<category>/<reason>.yaml`; with none given those that ship, read once a process.

    Raises MemoryStoreError with all problems of all files.
    """
    return _shipped() if folder is None else _of_folder(os.fspath(folder))


@lru_cache(maxsize=1)
def _shipped() -> Corpus:
    return _of_folder(_shipped_folder())


def _of_folder(base: str) -> Corpus:
    contents = {}
    for parent, folders, names in os.walk(base):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".yaml"):
                with open(os.path.join(parent, name), "rb", buffering=0) as file:
                    contents[os.path.relpath(os.path.join(parent, name), base)] = file.read()
    source = b"\0".join(part for name, content in contents.items() for part in (os.fsencode(name), content))
    origin = hashlib.sha256(source).digest()
    documents = _kept("corpus", origin, lambda: _parsed(contents, base))
    return Corpus(tuple(map(_incident, documents)), tuple(item["fingerprint"] for item in documents), origin)


def _incident(kept: dict[str, Any]) -> Incident:
    texts = {name: kept[name] for name in ("id", "signature", "cause", "remedy", "provenance", "job")}
    return Incident(reason=Reason(kept["reason"]), action=Action(kept["action"]), window=kept["window"], **texts)


def _shipped_folder() -> str:
    """Where the incidents that come with logdiag lie: inside the package, or beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    installed = os.path.join(package, "data", "corpus")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), "corpus")


def _parsed(contents: dict[str, bytes], base: str) -> list[dict[str, Any]]:
    """What the files say, in the form in which incidents are kept, each with its fingerprint."""
    import yaml

    found: list[dict[str, Any]] = []
    problems: list[str] = []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file, content in contents.items():
        path = os.path.join(base, file)
        category, stem = os.path.basename(os.path.dirname(path)), os.path.basename(path).removesuffix(".yaml")
        if stem not in {reason.value for reason in Reason} or Reason(stem).category.value != category:
            problems.append(f"{path}: not <category>/<reason>.yaml; name the file after its reason")
            continue
        try:
            documents = yaml.load(content, Loader=loader) or []
        except yaml.YAMLError as error:
            problems.append(f"{path}: not valid YAML ({' '.join(str(error).split())}); correct it")
            continue
        for given in documents:
            document = {**given, "reason": stem} if isinstance(given, dict) else {}
            name = document.get("id")
            wrong = read_incident(document)[1] if name else ["id: missing; see corpus/README.md for the form"]
            problems += [f"{path}: {name or given}: {said}" for said in wrong]
            found += [] if wrong else [_as_kept(document)]
    names = [document["id"] for document in found]
    problems += [f"{base}: {name}: given twice; rename one" for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        raise MemoryStoreError("\n".join(problems))
    return found


def _as_kept(document: dict[str, Any]) -> dict[str, Any]:
    signature = masked(document["signature"])
    return {
        "fingerprint": fingerprint(signature),
        "id": f"{PREFIX}{document['id']}",
        "signature": signature,
        "reason": document["reason"],
        "action": document["action"],
        "window": tuple(masked(line) for line in document.get("window", ())),
        "cause": document.get("cause", "").strip(),
        "remedy": document.get("remedy", "").strip(),
        "provenance": document.get("provenance", "").strip() or _PROVENANCE,
        "job": document.get("job", {}),
    }


def _kept(name: str, origin: bytes, make: Callable[[], Any]) -> Any:
    """What was made from `origin`: from the cache, or made now and kept."""
    value = cache.read(name, _FORM + origin)
    if value is None:
        value = make()
        cache.write(name, _FORM + origin, value)
    return value
