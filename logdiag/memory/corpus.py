"""The past incidents that ship with logdiag: the ground layer of every store, never changed.

Parsed incidents and their vectors are kept in the cache folder, beside what they were made from; a cache that is
missing or torn costs speed, never correctness.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from logdiag import cache
from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Incident, fingerprint, masked
from logdiag.memory.tokenizer import CARD, STATIC
from logdiag.model import Action, Reason

if TYPE_CHECKING:
    from logdiag.memory.embedding import Embedder
    from logdiag.memory.index import Vectors

__all__ = ["PREFIX", "Corpus", "load_corpus", "shipped_folder"]

PREFIX = "corpus/"
_PROVENANCE = "written for this project"
_FORM = b"logdiag-corpus/3\0"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Incidents that cannot be changed, with the fingerprint of each, and `origin`, which names their exact wording."""

    incidents: tuple[Incident, ...]
    fingerprints: tuple[str, ...]
    origin: bytes
    _vectors: dict[str, Vectors] = field(default_factory=dict, repr=False, compare=False)
    _light: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def by_fingerprint(self, wanted: str) -> list[Incident]:
        """Those of one fingerprint."""
        return [incident for incident, own in zip(self.incidents, self.fingerprints, strict=True) if own == wanted]

    def nearest(self, queries: Vectors, k: int, embedder: Embedder) -> list[tuple[float, Incident]]:
        """The `k` most similar to any of the queries (n, d), with their cosine, best first."""
        if not self.incidents:
            return []
        scores = (queries @ self._embedded(embedder).T).max(axis=0)
        best = scores.argsort(kind="stable")[::-1][:k].tolist()
        return [(float(scores[at]), self.incidents[at]) for at in best]

    def nearest_without_numpy(self, text: str, k: int) -> list[tuple[float, Incident]]:
        """As `nearest` for one text and the default embedder, without NumPy."""
        from logdiag.memory import static_embedding_pure as light

        if "all" not in self._light:
            stored = _kept(
                "corpus-light",
                hashlib.sha256(self.origin + (STATIC / CARD).read_bytes()).digest(),
                lambda: b"".join(light.embed(item.signature).tobytes() for item in self.incidents),
            )
            self._light["all"] = memoryview(stored).cast("f")
        table, query = self._light["all"], light.embed(text)
        width = len(query)
        scores = [light.cosine(query, table[at * width : (at + 1) * width]) for at in range(len(self.incidents))]
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:k]
        return [(scores[at], self.incidents[at]) for at in best]

    def _embedded(self, embedder: Embedder) -> Vectors:
        """One vector each, (n, d)."""
        import numpy as np

        if embedder.name not in self._vectors:
            origin = hashlib.sha256(self.origin + embedder.name.encode()).digest()
            stored = _kept(
                "corpus-vectors",
                origin,
                lambda: embedder.embed([item.signature for item in self.incidents]).astype("<f4").tobytes(),
            )
            self._vectors[embedder.name] = np.frombuffer(stored, "<f4").reshape(len(self.incidents), -1)
        return self._vectors[embedder.name]


def load_corpus(folder: str | os.PathLike[str] | None = None) -> Corpus:
    """The incidents of a folder of `<category>/<reason>.yaml`; those that ship with logdiag when none is given.

    Raises MemoryStoreError with all problems of all files.
    """
    base = os.fspath(folder or shipped_folder())
    contents = {}
    for parent, folders, names in os.walk(base):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".yaml"):
                with open(os.path.join(parent, name), "rb", buffering=0) as file:
                    contents[os.path.relpath(os.path.join(parent, name), base)] = file.read()
    source = b"\0".join(part for name, content in contents.items() for part in (os.fsencode(name), content))
    origin = hashlib.sha256(source).digest()
    rows = _kept("corpus", origin, lambda: _parsed(contents, base))
    return Corpus(tuple(_incident(row) for row in rows), tuple(row[0] for row in rows), origin)


def shipped_folder() -> str:
    """Where the incidents that come with logdiag lie: inside the package, or beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    installed = os.path.join(package, "data", "corpus")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), "corpus")


def _incident(row: tuple[Any, ...]) -> Incident:
    _, name, signature, reason, action, window, cause, remedy, provenance, job = row
    return Incident(
        id=name,
        signature=signature,
        reason=Reason(reason),
        action=Action(action),
        window=window,
        cause=cause,
        remedy=remedy,
        job=dict(job),
        provenance=provenance,
    )


def _parsed(contents: dict[str, bytes], base: str) -> list[tuple[Any, ...]]:
    """What the files say, as plain rows; see `_incident` for their order."""
    import yaml

    rows: list[tuple[Any, ...]] = []
    problems: list[str] = []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for name, content in contents.items():
        path = os.path.join(base, name)
        category, stem = os.path.basename(os.path.dirname(path)), os.path.basename(path).removesuffix(".yaml")
        if stem not in {reason.value for reason in Reason} or Reason(stem).category.value != category:
            problems.append(f"{path}: not <category>/<reason>.yaml; name the file after its reason")
            continue
        try:
            documents = yaml.load(content, Loader=loader)
        except yaml.YAMLError as error:
            problems.append(f"{path}: not valid YAML ({' '.join(str(error).split())}); correct it")
            continue
        for document in documents or ():
            try:
                rows.append(_row(document, stem))
            except (KeyError, ValueError, TypeError, AttributeError) as error:
                identity = document.get("id") if isinstance(document, dict) else document
                problems.append(f"{path}: {identity}: wrong or missing: {error}; see corpus/README.md for the form")
    names = [row[1] for row in rows]
    problems += [f"{base}: {name}: given twice; rename one" for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        raise MemoryStoreError("\n".join(problems))
    return rows


def _row(document: dict[str, Any], reason: str) -> tuple[Any, ...]:
    signature = masked(document["signature"])
    return (
        fingerprint(signature),
        f"{PREFIX}{document['id']}",
        signature,
        reason,
        Action(document["action"]).value,
        tuple(masked(line) for line in document.get("window") or ()),
        document.get("cause", "").strip(),
        document.get("remedy", "").strip(),
        document.get("provenance", "").strip() or _PROVENANCE,
        tuple((str(key), str(value)) for key, value in (document.get("job") or {}).items()),
    )


def _kept(name: str, origin: bytes, make: Callable[[], Any]) -> Any:
    """What was made from `origin`: from the cache, or made now and kept."""
    value = cache.read(name, _FORM + origin)
    if value is None:
        value = make()
        cache.write(name, _FORM + origin, value)
    return value
