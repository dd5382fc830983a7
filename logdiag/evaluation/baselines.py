"""What people do today without logdiag, scored in the same way.

A baseline names a reason and, if it reads lines, the line; the action is the reason's default. It has no confidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import yaml

from logdiag.evaluation.cases import Case, RawLine, last_lines
from logdiag.evaluation.scoring import Answer
from logdiag.model import Action, Reason
from logdiag.rules import RuleBook

_KNOWN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_TAXONOMY = {reason.value: reason for reason in Reason if reason is not Reason.NONE}
_REASON_OF_CLASS = {name: Reason(reason) for reason, names in _KNOWN["classes"].items() for name in names} | _TAXONOMY
_EXIT_CODES = {code: Reason(reason) for code, reason in _KNOWN["exit_codes"].items()}
_KEYWORDS = [(re.compile(pattern, re.IGNORECASE), Reason(reason)) for pattern, reason in _KNOWN["keywords"]]
_GPUALERT = {label: Reason(reason) for label, reason in _KNOWN["gpualert"].items()}

# [rank3]: torch.OutOfMemoryError: CUDA out of memory   ValueError   (worker pid=7) requests.exceptions.HTTPError: 503
_EXCEPTION = re.compile(
    r"(?:^|[\s\])|])((?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Invalid|NotFound)|gaierror))"
    r"(?=:\s|:?\s*$)"
)
_GREP = re.compile(
    r"(?i)\b(?:errors?|exceptions?|traceback|fail(?:ed|ure|s)?|fatal|killed|abort(?:ed)?|panic|timed? ?out|oom|"
    r"segmentation fault|core dumped|denied|refused|cannot|xid)\b|(?-i:\w(?:Error|Exception)\b)"
)
# gpualert classifies the last 50 lines of standard output and of standard error; a case holds both as one.
_GPUALERT_LINES = 100

_Guess = tuple[Reason, RawLine | None]
_NO_FAILURE: _Guess = (Reason.NONE, None)


def available() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The baselines that can run here, and a note for each that cannot."""
    if find_spec("gpualert") is not None:
        return tuple(BASELINES), ()
    note = "the baseline gpualert is left out: the package is not installed; pip install gpualert adds it"
    return tuple(name for name in BASELINES if name != "gpualert"), (note,)


def guess(name: str, case: Case, book: RuleBook) -> Answer:
    """Returns the answer of one baseline for a case."""
    reason, line = BASELINES[name](case)
    return Answer(
        reason=reason,
        action=Action.NONE if reason is Reason.NONE else book.entry_of(reason).action,
        confidence=None,
        decided_by=name,
        root=line if reason is not Reason.NONE else None,
        names_lines=name != "gpualert",
        names_ranks=False,
    )


def reason_of_class(name: str) -> Reason:
    """The reason that an exception class stands for by its name alone."""
    return _REASON_OF_CLASS.get(name.rsplit(".", 1)[-1], Reason.OTHERS)


def _exit_code_or_last_line(case: Case) -> _Guess:
    """Goes by the job's exit code where it means more than "failed", else by the class that the last line names."""
    last = next(iter(last_lines(case.lines(), 1)), None)
    code = case.exit_code
    if code is not None:
        known = _EXIT_CODES.get(128 - code if code < 0 else code)
        if known is not None:
            return known, last
    named = _EXCEPTION.search(last[2]) if last else None
    if named:
        return reason_of_class(named[1]), last
    return (Reason.OTHERS, last) if code else _NO_FAILURE


def _last_exception(case: Case) -> _Guess:
    """The class of the last exception that the log prints."""
    last = _NO_FAILURE
    for line in case.lines():
        if named := _EXCEPTION.search(line[2][:2000]):
            last = reason_of_class(named[1]), line
    return last


def _keyword_grep(case: Case) -> _Guess:
    """The first line that `grep -i -m1 error` and its kind find, read by keyword."""
    for line in case.lines():
        text = line[2][:10_000]
        if _GREP.search(text):
            named = _EXCEPTION.search(text[:2000])
            by_class = reason_of_class(named[1]) if named else Reason.OTHERS
            by_word = next((reason for pattern, reason in _KEYWORDS if pattern.search(text)), by_class)
            return by_word, line
    return _NO_FAILURE


def _gpualert(case: Case) -> _Guess:
    """The gpualert package's classifier, on what that package shows it. It names no line."""
    if case.exit_code == 0:
        return _NO_FAILURE  # it looks only at jobs that failed
    tail = "\n".join(text for _, _, text in last_lines(case.lines(), _GPUALERT_LINES))
    classify = import_module("gpualert.parse_errors").parse_errors
    label = classify("", tail, case.exit_code or 0).split("\n", 1)[0]
    return (_GPUALERT.get(label, Reason.OTHERS) if label else Reason.NONE), None


BASELINES: dict[str, Callable[[Case], _Guess]] = {
    "exit code / last line": _exit_code_or_last_line,
    "last exception": _last_exception,
    "keyword grep": _keyword_grep,
    "gpualert": _gpualert,
}
