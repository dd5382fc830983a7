"""Reads labelled cases; every problem of every file is reported at once, and nothing is scored before all are gone.

A label may quote a line as it stands in its file, only decompressed, or as the pipeline reads it (without envelope and
colours).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictInt, ValidationError

from logdiag.errors import CaseError, SourceError
from logdiag.model import Action, Category, Reason
from logdiag.read.decompression import broken_stream_errors, decompressed
from logdiag.read.sources import open_sources
from logdiag.settings.places import StrPath

_SUFFIXES = tuple(f".jsonl{packed}" for packed in ("", ".zst", ".gz", ".xz", ".bz2"))
_FORM = "see logdiag eval --help for the form of a case"

Text = Annotated[str, Field(min_length=1)]
_Rank = Annotated[StrictInt, Field(ge=0)]
RawLine = tuple[str, int, str]
"""The source as a diagnosis names it, the line's number, its text."""


class Case(BaseModel, frozen=True):
    """One job's log and what is true of it: one line of a case file, whose further keys are left alone.

    Of `log` (the text) and `log_file` (a file or a folder) exactly one is there. A rank that is labelled as none is
    not one that is not labelled (see `rank_known`); a `node` of None is not labelled.
    """

    id: Text
    log: str | None = None
    log_file: Text | None = None
    category: Category
    reason: Reason
    also_ok: tuple[Reason, ...] = ()
    root_line: str | None = None
    also_root: tuple[Text, ...] = ()
    action: Action
    also_action: tuple[Action, ...] = ()
    tags: tuple[str, ...] = ()
    rank: _Rank | None = None
    rank_also: tuple[_Rank | None, ...] | None = None
    node: Text | None = None
    split: Text | None = None
    fault: Text | None = None
    exit_code: StrictInt | None = None

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Every accepted reason, the first one first."""
        return tuple(dict.fromkeys([self.reason, *self.also_ok]))

    @property
    def actions(self) -> tuple[Action, ...]:
        """Every accepted action, the first one first."""
        return tuple(dict.fromkeys([self.action, *self.also_action]))

    @property
    def roots(self) -> tuple[str, ...]:
        """Every accepted root line, the first one first; empty for a healthy job."""
        return tuple(dict.fromkeys([self.root_line, *self.also_root])) if self.root_line else ()

    @property
    def rank_known(self) -> bool:
        """Whether the rank is labelled."""
        return "rank" in self.model_fields_set

    @property
    def ranks(self) -> tuple[int | None, ...]:
        """Every accepted rank, the first one first."""
        return self.rank, *(self.rank_also or ())

    @property
    def healthy(self) -> bool:
        """Whether the label says that the log shows no failure."""
        return self.reason is Reason.NONE

    @property
    def source(self) -> bytes | str:
        """The log as `diagnose` takes it."""
        return self.log_file if self.log is None and self.log_file else (self.log or "").encode("utf-8", "replace")

    def lines(self) -> Iterator[RawLine]:
        """The lines of the log as they stand in its file, or in all files of the job one after the other. Raises
        CaseError for what cannot be unpacked, SourceError where there is nothing to read."""
        if isinstance(self.source, bytes):
            logs = iter([("<bytes>", self.source)])
        else:
            logs = ((stream.name, _unpacked(stream.name)) for stream in open_sources((self.source,)))
        for name, data in logs:
            for number, line in enumerate(data.decode("utf-8", "replace").removesuffix("\n").split("\n"), 1):
                yield name, number, line


def last_lines(lines: Iterable[RawLine], count: int) -> list[RawLine]:
    """The last lines that are not blank."""
    return list(deque((line for line in lines if line[2].strip()), maxlen=count))


def _unpacked(path: str) -> bytes:
    """A file's bytes, decompressed by what its first bytes say. Raises CaseError when it is torn or mislabelled."""
    try:
        with open(path, "rb") as raw:
            return b"".join(decompressed(raw))
    except Exception as error:
        if not isinstance(error, broken_stream_errors()):
            raise
        raise CaseError(f"{path}: cannot be read ({error}); check that it is whole and readable") from error


@dataclass(frozen=True, slots=True)
class CaseSet:
    """Cases in the order of their files, and those files, each with its `name` and its bytes' `sha256`."""

    cases: tuple[Case, ...]
    files: tuple[dict[str, str], ...]


def load_cases(paths: Iterable[StrPath], split: str | None = None) -> CaseSet:
    """The cases of all files and folders, or those of one split. Raises CaseError with a line for each problem of each
    file: file, line, field, problem and remedy."""
    names = [os.fspath(path) for path in paths]
    problems: list[str] = []
    cases: list[Case] = []
    files: list[dict[str, str]] = []
    places: dict[str, str] = {}
    for path in (file for name in names for file in _case_files(name, problems)):
        try:
            data = _unpacked(path)
        except CaseError as error:
            problems.append(str(error))
            continue
        sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        files.append({"name": os.path.basename(path), "sha256": sha256})
        cases.extend(_cases_in(path, data, places, problems))
    if not problems and not cases:
        problems.append(f"{', '.join(names)}: holds no case; {_FORM}")
    if problems:
        raise CaseError("\n".join(problems))
    chosen = tuple(case for case in cases if split is None or case.split == split)
    if not chosen:
        known = ", ".join(sorted({case.split for case in cases if case.split})) or "none"
        raise CaseError(f"--split {split}: no case is of this split; the cases have {known}")
    return CaseSet(chosen, tuple(files))


def _case_files(path: str, problems: list[str]) -> list[str]:
    """Returns the case files of a folder; for a file, the file itself."""
    if not (os.path.isdir(path) and os.access(path, os.R_OK)):
        return [path]
    files = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(_SUFFIXES)]
    if not files:
        problems.append(f"{path}: holds no case file (*.jsonl, *.jsonl.zst, *.jsonl.gz, *.jsonl.xz); name the file")
    return files


def _cases_in(path: str, data: bytes, places: dict[str, str], problems: list[str]) -> Iterator[Case]:
    """The valid cases of a file; `problems` gets what is wrong with others, `places` where each id stands."""
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        where, problems_here = f"{path}:{number}", list[str]()
        try:
            document = json.loads(line, object_pairs_hook=_object)
            identity = document.get("id")
            before = places.setdefault(identity, where) if isinstance(identity, str) else where
            if before != where:
                problems_here.append(f"id: {identity!r} is that of {before} already; give each case its own")
            if isinstance(document.get("log_file"), str):
                document["log_file"] = os.path.join(os.path.dirname(path), document["log_file"])
            case = Case.model_validate(document)
            problems_here += _contradictions(case)
        except ValidationError as error:
            problems_here += [_complaint(item) for item in error.errors()]
        except (AttributeError, ValueError, RecursionError) as error:
            problems_here = [f"case: is no JSON object ({error}); write one a line, in UTF-8"]
        problems += [f"{where}: {problem}" for problem in problems_here]
        if not problems_here:
            yield case


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object. Raises ValueError for a key that stands twice: which label is meant is not known."""
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key is given twice")
    return document


def _complaint(item: Mapping[str, Any]) -> str:
    """missing -> is missing; Input should be 'restart' or ... -> input should be 'restart' or ..."""
    problem = "is missing" if item["type"] == "missing" else item["msg"][:1].lower() + item["msg"][1:]
    value = f", not {json.dumps(item['input'], ensure_ascii=False)}" if item["type"] == "enum" else ""
    return f"{'.'.join(map(str, item['loc']))}: {problem}{value}; {_FORM}"


def _contradictions(case: Case) -> Iterator[str]:
    """What is wrong with labels that are each well formed."""
    if case.category is not case.reason.category:
        yield f"category: {case.category.value} is not that of {case.reason.value}; write {case.reason.category.value}"
    if case.healthy and case.root_line:
        yield "root_line: stands in a case whose reason is none; remove it, or name the reason"
    if not case.healthy and not case.root_line:
        yield "root_line: is missing; quote the line that names the cause, or a part of it"
    roots = {"root_line": case.root_line or "", **{f"also_root.{at}": text for at, text in enumerate(case.also_root)}}
    for name, text in roots.items():
        if "\n" in text:
            yield f"{name}: goes over several lines; quote a part of one line"
    yield from _log_problems(case, {name: text for name, text in roots.items() if text and "\n" not in text})


def _log_problems(case: Case, missing: dict[str, str]) -> Iterator[str]:
    """What is wrong with the log, and which of these parts of lines are missing in it."""
    if case.log is None and case.log_file is None:
        yield "log: is missing; give the output in log, or the path of a file or folder in log_file"
        return
    if case.log is not None and case.log_file is not None:
        yield "log_file: stands beside log; keep one of them"
        return
    where = "log" if case.log_file is None else f"log_file: {case.log_file}"
    try:
        filled = False
        for _, _, line in case.lines():
            filled = filled or bool(line.strip())
            missing = {name: text for name, text in missing.items() if text not in line}
            if filled and not missing:
                return
    except (SourceError, CaseError) as error:
        yield f"log_file: {error}"
        return
    if not filled:
        yield f"{where}: is empty; give the job's output"
        return
    for name, text in missing.items():
        yield f"{name}: {text[:80]!r} is in no line of the log; quote it as it stands there"
