"""Reads labelled cases; every problem of every file is reported at once, and nothing is scored before all are gone."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictInt, ValidationError

from logdiag.errors import CaseError, SourceError
from logdiag.evaluation.logs import Piece, encoded, file_pieces, log_files, missing_texts, text_pieces, unpacked
from logdiag.model import Action, Category, Reason

_SUFFIXES = tuple(f".jsonl{packed}" for packed in ("", ".zst", ".gz", ".xz", ".bz2"))
_FORM = "see logdiag eval --help for the form of a case"

Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Case:
    """One job's log and what is true of it.

    Of `log` (the text) and `log_file` (a file or a folder) exactly one is there. `reasons`, `roots` and `actions` hold
    every accepted reading, the first one first; `roots` is empty for a healthy job. `rank_known` tells a rank that is
    labelled as none from one that is not labelled; a `node` of None is not labelled.
    """

    id: str
    reasons: tuple[Reason, ...]
    actions: tuple[Action, ...]
    roots: tuple[str, ...]
    log: str | None = None
    log_file: str | None = None
    rank: int | None = None
    rank_known: bool = False
    node: str | None = None
    split: str | None = None
    fault: str | None = None
    exit_code: int | None = None
    tags: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether the label says that the log shows no failure."""
        return self.reasons[0] is Reason.NONE

    @property
    def source(self) -> bytes | str:
        """The log as `diagnose` takes it."""
        return self.log_file if self.log is None and self.log_file else encoded(self.log or "")

    def pieces(self) -> Iterator[Piece]:
        """The log as it stands in its file or files, for the functions of `logs`."""
        return file_pieces(self.log_file) if self.log is None and self.log_file else text_pieces(self.log or "")


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


class _Labels(BaseModel):
    """One line of a case file; keys that are not named here are left alone."""

    id: Text
    log: str | None = None
    log_file: Text | None = None
    category: Category
    reason: Reason
    also_ok: list[Reason] = []
    root_line: str | None = None
    also_root: list[Text] = []
    action: Action
    also_action: list[Action] = []
    tags: list[str] = []
    rank: Annotated[StrictInt, Field(ge=0)] | None = None
    node: Text | None = None
    split: Text | None = None
    fault: Text | None = None
    exit_code: StrictInt | None = None


def load_cases(paths: Iterable[str | os.PathLike[str]], split: str | None = None) -> CaseSet:
    """The cases of all files and folders, or those of one split.

    Raises CaseError with a line for each problem of each file: the file, the line, the field, what is wrong with it
    and the remedy.
    """
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
        where = f"{path}:{number}"
        try:
            document = json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            problems.append(f"{where}: case: is not JSON ({error}); write one JSON object a line, in UTF-8")
            continue
        if not isinstance(document, dict):
            problems.append(f"{where}: case: is not a JSON object; {_FORM}")
            continue
        before = len(problems)
        labels = _labels(where, document, problems)
        _check_id(where, document.get("id"), places, problems)
        if labels is not None:
            problems.extend(f"{where}: {problem}" for problem in _contradictions(labels, os.path.dirname(path)))
            if len(problems) == before:
                yield _case(labels, os.path.dirname(path))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of two labels under one key nobody knows which is meant."""
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key is given twice")
    return document


def _labels(where: str, document: dict[str, Any], problems: list[str]) -> _Labels | None:
    try:
        return _Labels.model_validate(document)
    except ValidationError as error:
        for item in error.errors():
            name = ".".join(str(part) for part in item["loc"])
            problems.append(f"{where}: {name}: {_complaint(item['type'], item['msg'], item['input'], name)}")
        return None


_LISTS: dict[str, type[Reason] | type[Action] | type[Category]] = {
    "reason": Reason, "also_ok": Reason, "action": Action, "also_action": Action, "category": Category,
}  # fmt: skip


def _complaint(kind: str, message: str, value: object, name: str) -> str:
    if kind == "missing":
        return f"is missing; {_FORM}"
    if kind == "enum":
        allowed = ", ".join(member.value for member in _LISTS[name.split(".")[0]])
        return f"{json.dumps(value, ensure_ascii=False)} is unknown; use one of {allowed}"
    return f"{message[0].lower()}{message[1:]}; {_FORM}"


def _check_id(where: str, identity: object, places: dict[str, str], problems: list[str]) -> None:
    if not isinstance(identity, str):
        return
    if identity in places:
        problems.append(f"{where}: id: {identity!r} is that of {places[identity]} already; give each case its own")
    places.setdefault(identity, where)


def _contradictions(labels: _Labels, folder: str) -> Iterator[str]:
    """What is wrong with labels that are each well formed."""
    if labels.category is not labels.reason.category:
        yield (
            f"category: {labels.category.value} is not that of {labels.reason.value}; "
            f"write {labels.reason.category.value}"
        )
    if labels.reason is Reason.NONE and labels.root_line:
        yield "root_line: stands in a case whose reason is none; remove it, or name the reason"
    if labels.reason is not Reason.NONE and not labels.root_line:
        yield "root_line: is missing; quote the line that names the cause, or a part of it"
    roots = [(name, text) for name, text in _named_roots(labels) if text]
    for name, text in roots:
        if "\n" in text:
            yield f"{name}: goes over several lines; quote a part of one line"
    yield from _log_problems(labels, folder, [(name, text) for name, text in roots if "\n" not in text])


def _named_roots(labels: _Labels) -> Iterator[tuple[str, str]]:
    yield "root_line", labels.root_line or ""
    for index, text in enumerate(labels.also_root):
        yield f"also_root.{index}", text


def _log_problems(labels: _Labels, folder: str, roots: list[tuple[str, str]]) -> Iterator[str]:
    if labels.log is None and labels.log_file is None:
        yield "log: is missing; give the output in log, or the path of a file or folder in log_file"
        return
    if labels.log is not None and labels.log_file is not None:
        yield "log_file: stands beside log; keep one of them"
        return
    texts = [text for _, text in roots]
    if labels.log is not None:
        if not labels.log.strip():
            yield "log: is empty; give the job's output"
            return
        missing = [text for text in texts if text not in labels.log]
    else:
        path = os.path.join(folder, labels.log_file or "")
        try:
            if not any(os.path.getsize(name) for name in log_files(path)):
                yield f"log_file: {path} is empty; give the job's output"
                return
            missing = missing_texts(path, texts)
        except (SourceError, CaseError) as error:
            yield f"log_file: {error}"
            return
    for name, text in roots:
        if text in missing:
            yield f"{name}: {text[:80]!r} is in no line of the log; quote it as it stands there"


def _case(labels: _Labels, folder: str) -> Case:
    return Case(
        id=labels.id,
        reasons=tuple(dict.fromkeys([labels.reason, *labels.also_ok])),
        actions=tuple(dict.fromkeys([labels.action, *labels.also_action])),
        roots=tuple(dict.fromkeys([labels.root_line, *labels.also_root])) if labels.root_line else (),
        log=labels.log,
        log_file=None if labels.log_file is None else os.path.join(folder, labels.log_file),
        rank=labels.rank,
        rank_known="rank" in labels.model_fields_set,
        node=labels.node,
        split=labels.split,
        fault=labels.fault,
        exit_code=labels.exit_code,
        tags=tuple(labels.tags),
    )
