"""Reads labelled cases; every problem of every file is reported at once, and nothing is scored before all are gone."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictInt, ValidationError

from logdiag.errors import CaseError, SourceError
from logdiag.evaluation.logs import RawLine, encoded, file_lines, log_files, text_lines, unpacked
from logdiag.model import Action, Category, Reason

_SUFFIXES = tuple(f".jsonl{packed}" for packed in ("", ".zst", ".gz", ".xz", ".bz2"))
_FORM = "see logdiag eval --help for the form of a case"

Text = Annotated[str, Field(min_length=1)]


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
    rank: Annotated[StrictInt, Field(ge=0)] | None = None
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
    def healthy(self) -> bool:
        """Whether the label says that the log shows no failure."""
        return self.reason is Reason.NONE

    @property
    def source(self) -> bytes | str:
        """The log as `diagnose` takes it."""
        return self.log_file if self.log is None and self.log_file else encoded(self.log or "")

    def lines(self) -> Iterator[RawLine]:
        """The lines of the log as they stand in its file or files. Raises CaseError for what cannot be unpacked."""
        return file_lines(self.log_file) if self.log is None and self.log_file else text_lines(self.log or "")


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file that cases were read from, and what its bytes were."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class CaseSet:
    """Cases in the order of their files, and those files."""

    cases: tuple[Case, ...]
    files: tuple[CaseFile, ...]


def load_cases(paths: Iterable[str | os.PathLike[str]], split: str | None = None) -> CaseSet:
    """The cases of all files and folders, or those of one split. Raises CaseError with a line for each problem of each
    file: file, line, field, problem and remedy."""
    names = [os.fspath(path) for path in paths]
    problems: list[str] = []
    cases: list[Case] = []
    files: list[CaseFile] = []
    places: dict[str, str] = {}
    for path in _case_files(names, problems):
        try:
            data = b"".join(unpacked(path))
            with open(path, "rb") as file:
                files.append(CaseFile(os.path.basename(path), hashlib.sha256(file.read()).hexdigest()))
        except CaseError as error:
            problems.append(str(error))
            continue
        except OSError as error:
            problems.append(f"{path}: cannot be read ({error.strerror}); check its permissions")
            continue
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


def _case_files(paths: Iterable[str], problems: list[str]) -> Iterator[str]:
    for path in paths:
        if not os.path.isdir(path):
            if os.path.exists(path):
                yield path
            else:
                problems.append(f"{path}: no such file or folder; check the path")
            continue
        try:
            names = sorted(name for name in os.listdir(path) if name.endswith(_SUFFIXES))
        except OSError as error:
            problems.append(f"{path}: cannot be read ({error.strerror}); check its permissions")
            continue
        if not names:
            problems.append(f"{path}: holds no case file (*.jsonl, *.jsonl.zst, *.jsonl.gz, *.jsonl.xz); name the file")
        yield from (os.path.join(path, name) for name in names)


def _cases_in(path: str, data: bytes, places: dict[str, str], problems: list[str]) -> Iterator[Case]:
    """The cases of one file; where one is broken, only its problems."""
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        where, found = f"{path}:{number}", list[str]()
        try:
            document = json.loads(line, object_pairs_hook=_object)
            identity = document.get("id")
            before = places.setdefault(identity, where) if isinstance(identity, str) else where
            if before != where:
                found.append(f"id: {identity!r} is that of {before} already; give each case its own")
            if isinstance(document.get("log_file"), str):
                document["log_file"] = os.path.join(os.path.dirname(path), document["log_file"])
            case = Case.model_validate(document)
            found += _contradictions(case)
        except ValidationError as error:
            found += [_complaint(item) for item in error.errors()]
        except (AttributeError, ValueError, RecursionError) as error:
            found = [f"case: is no JSON object ({error}); write one a line, in UTF-8"]
        problems += [f"{where}: {problem}" for problem in found]
        if not found:
            yield case


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of two labels under one key nobody knows which is meant."""
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key is given twice")
    return document


def _complaint(item: Mapping[str, Any]) -> str:
    """missing -> is missing; Input should be 'restart' or ... -> input should be 'restart' or ..."""
    said = "is missing" if item["type"] == "missing" else item["msg"][:1].lower() + item["msg"][1:]
    given = f", not {json.dumps(item['input'], ensure_ascii=False)}" if item["type"] == "enum" else ""
    return f"{'.'.join(map(str, item['loc']))}: {said}{given}; {_FORM}"


def _contradictions(case: Case) -> Iterator[str]:
    """What is wrong with labels that are each well formed."""
    if case.category is not case.reason.category:
        yield f"category: {case.category.value} is not that of {case.reason.value}; write {case.reason.category.value}"
    if case.healthy and case.root_line:
        yield "root_line: stands in a case whose reason is none; remove it, or name the reason"
    if not case.healthy and not case.root_line:
        yield "root_line: is missing; quote the line that names the cause, or a part of it"
    roots = [
        ("root_line", case.root_line or ""),
        *((f"also_root.{at}", text) for at, text in enumerate(case.also_root)),
    ]
    for name, text in roots:
        if "\n" in text:
            yield f"{name}: goes over several lines; quote a part of one line"
    yield from _log_problems(case, [(name, text) for name, text in roots if text and "\n" not in text])


def _log_problems(case: Case, roots: list[tuple[str, str]]) -> Iterator[str]:
    if case.log is None and case.log_file is None:
        yield "log: is missing; give the output in log, or the path of a file or folder in log_file"
        return
    if case.log is not None and case.log_file is not None:
        yield "log_file: stands beside log; keep one of them"
        return
    where = "log" if case.log_file is None else f"log_file: {case.log_file}"
    missing = dict(roots)
    try:
        files = log_files(case.log_file) if case.log_file else []
        filled = bool((case.log or "").strip()) or any(map(os.path.getsize, files))
        for _, _, line in case.lines() if filled and missing else ():
            missing = {name: text for name, text in missing.items() if text not in line}
    except (SourceError, CaseError) as error:
        yield f"log_file: {error}"
        return
    if not filled:
        yield f"{where}: is empty; give the job's output"
        return
    for name, text in missing.items():
        yield f"{name}: {text[:80]!r} is in no line of the log; quote it as it stands there"
