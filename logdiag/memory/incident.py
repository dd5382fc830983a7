"""An incident: a past failure with the line that named it, its cause, what was done, and whether that helped."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from logdiag.memory.embedding import MASK
from logdiag.model import Action, Line, Reason
from logdiag.patterns import pattern_of

PREFIX = "corpus/"
"""The ids of incidents that ship with logdiag begin with this."""


class Helped(str, Enum):
    """Whether what was done about an incident helped."""

    WORKED = "worked"
    DID_NOT = "did_not"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One entry of an incident's history: when (ISO 8601, UTC), who (empty for logdiag itself), and what was done."""

    at: str
    by: str
    what: str


@dataclass(frozen=True, slots=True)
class Frame:
    """Where an exception was raised: the file's name without its folders, the function, and the masked source line,
    empty where the traceback does not print it."""

    file: str
    function: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """One past failure.

    `signature` is the masked root line (see `masked`), `window` masked lines around it, in order, `frames` the
    innermost frames of its traceback, the innermost first. `action` is `none` where it is the one that the reason's
    table gives. `seen_at` is an ISO 8601 time in UTC, empty for what ships with logdiag, and `times_seen` how often it
    was remembered. `confirmed_by` is who confirmed reason and remedy here, empty while nobody has;
    `provenance` is where it came from (a log's name; for a shipped one the kind of source). `content` is a digest of
    the log around the root line, which tells one failure from another with the same words. `imported` names the file
    it came in with and who had confirmed it there, empty for one's own. `history` is in the order of time, and
    `changed_at` when it was last changed in its store (ISO 8601, UTC).
    """

    id: str
    signature: str
    reason: Reason
    action: Action
    window: tuple[str, ...] = ()
    cause: str = ""
    remedy: str = ""
    outcome: Helped = Helped.UNKNOWN
    job: dict[str, str] = field(default_factory=dict)
    node: str = ""
    seen_at: str = ""
    provenance: str = ""
    confirmed_by: str = ""
    frames: tuple[Frame, ...] = ()
    content: str = ""
    times_seen: int = 1
    imported: str = ""
    history: tuple[HistoryEntry, ...] = ()
    changed_at: str = field(default="", compare=False)

    @property
    def fingerprint(self) -> str:
        """The same for every occurrence of one failure."""
        return fingerprint(self.signature)

    @property
    def job_name(self) -> str:
        """The job's id, else its name; empty if neither is known."""
        return self.job.get("id") or self.job.get("name") or ""


# A number after one of these words tells failures apart: Xid 48, errno 28, exit code 137, HTTP status 503, signal 9.
_TELLING = r"(?:xid|sxid|errno|error|err|code|exitcode|status|signal|http|ret|rc|version|cuda)"
_MASKS = (
    (pattern_of(r"(?i)\b([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b"), "<id>"),
    # (PCI:0000:3b:00)   0000:3b:00.0
    (pattern_of(r"(?i)\b(?:PCI:)?[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?"), "<pci>"),
    (pattern_of(r"(?i)\b0x[0-9a-f]+\b"), "<hex>"),
    (pattern_of(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b"), "<hex>"),
    (pattern_of(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?"), "<time>"),
    (pattern_of(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (pattern_of(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "<address>"),
    # node-17   gpu-b19   cn0441   ip-10-0-3-7   rank12: which one it was varies
    (
        pattern_of(
            r"(?i)\b((?:node|host|gpu|cn|dgx|hgx|worker|compute|ip|rack|rank|nid|trainer)[a-z]?(?:-[a-z]{1,2})?)(?:-?\d+)+\b"
        ),
        r"\1<n>",
    ),
    (pattern_of(r"(?i)\b(?:https?|s3|gs|tcp|grpc|hdfs|oss)://[^\s'\"<>)\]]+"), "<url>"),
    (pattern_of(r"(?<![\w.<>])(?:~|\.{1,2})?(?:/[\w.@+%=:-]+){2,}/?"), "<path>"),
)
_NUMBER = pattern_of(
    rf"(?i)(?P<kept>\b{_TELLING}\b(?: \(<pci>\))?\W{{0,12}}\d{{1,5}}\b"
    r"|(?<![\w<])[45]\d\d(?= (?:client|server) error| too many| forbidden| not found))"
    r"|(?<![\w<])\d+(?:\.\d+)?|(?<=\D)\d{3,}|(?<=[-_])\d+"
)
_LONGEST = 400


def masked(line: Line | str) -> str:
    """A line without its prefixes and what varies between occurrences; numbers that tell failures apart stay."""
    text = line if isinstance(line, str) else line.message
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    text = _NUMBER.sub(lambda match: match["kept"] or "<n>", text)
    return re.sub(r"\s+", " ", text).strip()[:_LONGEST]


def fingerprint(signature: str) -> str:
    """The same for equal signatures, whatever the case of their letters."""
    return hashlib.sha256(signature.lower().encode()).hexdigest()[:16]


# One line of a telling code in a signature: errno 28   exit code 137   Xid (<pci>): 48
_CODE = pattern_of(rf"\b{_TELLING}\b(?: \(<pci>\))?\W{{0,12}}\d{{1,5}}\b", re.IGNORECASE)
_VARIES = (
    # host=frodo   node: frodo   pod=trainer-abc
    (
        pattern_of(r"(?i)\b(host|hostname|node|nodename|peer|worker|pod|addr|address|server)([=:] ?)[\w.:-]*\w"),
        r"\1\2<n>",
    ),
    # mixer@frodo   on host frodo   on node frodo
    (pattern_of(r"(?i)(?<=@)[\w.-]*\w|(?<=on host )[\w.-]*\w|(?<=on node )[\w.-]*\w"), "<n>"),
    # frodo.cluster.example.com, and no exception's class
    (pattern_of(r"\b[a-z][a-z0-9-]*(?:\.[a-z0-9-]+){2,}\b(?![.:]?\w|:)"), "<n>"),
    # data/shard_7.bin   w3   fp16   shard-a17
    (pattern_of(r"[^\s\[\](){}<>,;:='\"|]*(?:/|(?<=\w)\d|\d(?=\w)|<n>)[^\s\[\](){}<>,;:='\"|]*"), "<n>"),
    (MASK, "<n>"),
    (pattern_of(r"<n>(?:[\W_]*<n>)+"), "<n>"),
)


def skeleton(signature: str) -> str:
    """A signature in lower case without possible names (words with digits, hosts, paths), but with telling codes."""
    codes = " ".join(re.sub(r"\W+", " ", code) for code in _CODE.findall(signature))
    text = _CODE.sub(" ", signature)
    for pattern, name in _VARIES:
        text = pattern.sub(name, text)
    return re.sub(r"\s+", " ", f"{text} {codes}").strip().lower()


# File "/srv/a/collate.py", line 12, in __call__
_FRAME = pattern_of(r'File "(?:[^"]*[/\\])?([^"/\\]+)", line \d+, in (\S+)')
_MOST_FRAMES = 3
_LONGEST_TRACEBACK = 60
# A message of so few words is raised in many programs: only the same frames make two of them one failure.
_FEW_WORDS = 4
_EXCEPTION = pattern_of(r"^(?:[\w.]*\.)?\w*(?:Error|Exception|Interrupt|Exit|Fault)\b:?")


def frames_before(lines: Sequence[Line], line: Line) -> tuple[Frame, ...]:
    """Up to three frames of the traceback that ends with `line`, the innermost first. `lines` are the kept lines of the
    log; only those of the same process count."""
    process = (line.source, line.rank, line.speaker)
    above = [
        candidate
        for candidate in lines
        if line.number - _LONGEST_TRACEBACK <= candidate.number < line.number
        and (candidate.source, candidate.rank, candidate.speaker) == process
    ]
    frames: list[Frame] = []
    code = ""
    for line_above in reversed(above):
        message = line_above.message.strip()
        if match := _FRAME.search(message):
            frames.append(Frame(match[1], match[2], code))
            code = ""
            if len(frames) == _MOST_FRAMES:
                break
        elif message.startswith("Traceback (most recent call last)"):
            break
        elif not set(message) <= set("^~ "):
            code = masked(line_above)
    return tuple(frames)


def same_frames(signature: str, frames: Sequence[Frame], other_frames: Sequence[Frame]) -> bool:
    """Whether two exceptions of one signature can be the same failure: by many words, or by their frames."""
    words = re.findall(r"[^\W\d_]{3,}", _EXCEPTION.sub("", signature))
    if not frames or not other_frames or len(words) > _FEW_WORDS or not _EXCEPTION.match(signature):
        return True
    first, second = frames[0], other_frames[0]
    equal = (first.file == second.file, first.function == second.function)
    return first.code == second.code and any(equal) if first.code and second.code else all(equal)
