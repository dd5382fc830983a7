"""What is remembered of a failure: the line that named it, what it was, what was done, and whether that worked."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from enum import Enum

from logdiag.model import Action, Line, Reason

__all__ = ["Incident", "Outcome", "fingerprint", "masked"]


class Outcome(str, Enum):
    """Whether what was done about an incident helped."""

    WORKED = "worked"
    DID_NOT = "did_not"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Incident:
    """One past failure.

    `signature` is the masked root line (see `masked`), `window` masked lines around it, in order. `seen_at` is an ISO
    8601 time in UTC, empty for what ships with logdiag. `confirmed_by` is who said that reason and remedy are right,
    empty while nobody has; `provenance` is where it came from (a job's name, an import, the shipped corpus).
    """

    id: str
    signature: str
    reason: Reason
    action: Action
    window: tuple[str, ...] = ()
    cause: str = ""
    remedy: str = ""
    outcome: Outcome = Outcome.UNKNOWN
    job: dict[str, str] = field(default_factory=dict)
    node: str = ""
    seen_at: str = ""
    provenance: str = ""
    confirmed_by: str = ""

    @property
    def fingerprint(self) -> str:
        """The same for every occurrence of one failure."""
        return fingerprint(self.signature)


# Numbers after these words tell failures apart: Xid 48, errno 28, exit code 137, HTTP status 503, signal 9.
_TELLING = r"(?:xid|sxid|errno|error|err|code|exitcode|status|signal|http|ret|rc|version|cuda)"
_MASKS = (
    (re.compile(r"(?i)\b([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b"), "<id>"),
    # (PCI:0000:3b:00)   0000:3b:00.0
    (re.compile(r"(?i)\b(?:PCI:)?[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?"), "<pci>"),
    (re.compile(r"(?i)\b0x[0-9a-f]+\b"), "<hex>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b"), "<hex>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "<address>"),
    # node-17   gpu-b19   cn0441   ip-10-0-3-7   rank12: which one it was varies
    (
        re.compile(
            r"(?i)\b((?:node|host|gpu|cn|dgx|hgx|worker|compute|ip|rack|rank|nid|trainer)[a-z]?(?:-[a-z]{1,2})?)(?:-?\d+)+\b"
        ),
        r"\1<n>",
    ),
    (re.compile(r"(?i)\b(?:https?|s3|gs|tcp|grpc|hdfs|oss)://[^\s'\"<>)\]]+"), "<url>"),
    (re.compile(r"(?<![\w.<>])(?:~|\.{1,2})?(?:/[\w.@+%=:-]+){2,}/?"), "<path>"),
)
_NUMBER = re.compile(
    rf"(?i)(?P<kept>\b{_TELLING}\b(?: \(<pci>\))?\W{{0,12}}\d{{1,5}}\b"
    r"|(?<![\w<])[45]\d\d(?= (?:client|server) error| too many| forbidden| not found))"
    r"|(?<![\w<])\d+(?:\.\d+)?|(?<=\D)\d{3,}|(?<=[-_])\d+"
)
_LONGEST = 400


def masked(line: Line | str) -> str:
    """A line without its prefixes and without what varies between occurrences: addresses, paths, times and most
    numbers. Numbers that tell failures apart stay."""
    text = line if isinstance(line, str) else line.message
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    text = _NUMBER.sub(lambda match: match["kept"] or "<n>", text)
    return re.sub(r"\s+", " ", text).strip()[:_LONGEST]


def fingerprint(signature: str) -> str:
    """The same for equal signatures, whatever the case of their letters."""
    return hashlib.sha256(signature.lower().encode()).hexdigest()[:16]
