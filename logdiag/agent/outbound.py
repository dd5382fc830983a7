"""The only way out to the model: texts are hidden, fenced and counted here, and every line shown is remembered. First
`learn_names` takes in all names that the case knows."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from logdiag.agent.redaction import Redactor
from logdiag.model import Diagnosis, Line, LineInFile
from logdiag.report.words import clean

# A JSON record names the exception at its end: of a long line the beginning and the end are shown.
_BEGINNING, _END = 250, 150
_LONGEST = _BEGINNING + _END
# Text is hidden before it is cut to `_LONGEST`, so that no secret is cut in two; beyond this it is not looked at.
_LONGEST_READ = 4000
# What marks where log text begins and ends, and what chat templates of open models take for turns and calls.
_MARKS = re.compile(
    r"(?i)<(?=\s{0,3}/?\s{0,3}log\b)|<(?=\|)|(?<=\|)>|<(?=\s{0,3}/?\s{0,3}(?:s|think|tool_call|tool_response|function|start_of_turn|"
    r"end_of_turn|system|assistant|user|im_start|im_end|eot_id|bos|eos)\b)|<<(?=/?SYS)|\[(?=/?INST\])"
)
# What is learnt from before anything leaves, the beginning and the end of the kept lines; about a second.
_MOST_LEARNT = 300_000
_NONCE_BYTES = 8


def learn_names(redactor: Redactor, diagnosis: Diagnosis, sources: Iterable[str], job: Mapping[str, str]) -> None:
    """Teaches a redactor the hosts, users, projects and secrets of a case; `sources` are the logs' names."""
    for name in (*sources, diagnosis.source):
        redactor.know_words(name)
    root = [diagnosis.root_cause.node] if diagnosis.root_cause else []
    for node in (*root, *diagnosis.recovery.exclude_nodes, *(past.node for past in diagnosis.similar)):
        redactor.know("host", node)
    learn_words(redactor, job, diagnosis.digest.lines)


def learn_words(redactor: Redactor, job: Mapping[str, str], lines: Sequence[Line]) -> None:
    """Teaches a redactor the names in a job's metadata and in its lines."""
    redactor.know("user", job.get("user"))
    for key, value in job.items():
        if key != "user":
            redactor.know_words(value)
    for node in {line.node for line in lines}:
        redactor.know("host", node)
    text = "\n".join([*job.values(), *(line.text[:_LONGEST_READ] for line in lines)])
    redactor.hide(text if len(text) <= _MOST_LEARNT else f"{text[: _MOST_LEARNT // 2]}\n{text[-_MOST_LEARNT // 2 :]}")


def neutral(text: str) -> str:
    """The text with every mark broken that a model could take for our fence or for a turn of a chat."""
    return _MARKS.sub("(", text)


class Shown(NamedTuple):
    """A line, and its text as the model saw it."""

    line: Line
    text: str


class Channel:
    """All text that goes to a model in one conversation; `sent` counts its bytes."""

    def __init__(self, redactor: Redactor, nonce: str = "") -> None:
        self.redactor = redactor
        self.nonce = nonce or secrets.token_hex(_NONCE_BYTES)
        self.sent = 0
        self._shown: dict[tuple[int, int], list[Shown]] = {}

    def fork(self) -> Channel:
        """Another conversation, with the lines shown so far and the same pseudonyms."""
        other = Channel(self.redactor, self.nonce)
        other._shown = {key: list(lines) for key, lines in self._shown.items()}
        return other

    def text(self, text: str) -> str:
        """Text of ours with names from the log in it, ready to leave."""
        return self._out("\n".join(self._hidden([clean(neutral(line), 2000) for line in text.split("\n")])))

    def lines(self, texts: Sequence[str]) -> str:
        """Lines without numbers, each cut as in `rows` after all were hidden as one."""
        return self._out("\n".join(map(_cut, self._hidden([_readable(text) for text in texts]))))

    def rows(self, lines: Sequence[Line], counts: Mapping[LineInFile, int] | None = None) -> str:
        """Lines as rows, numbered as in their files; `counts` says how many lines some of them stand for."""
        texts = self._hidden([_readable(line.text) for line in lines])
        rows: list[str] = []
        before: Line | None = None
        for line, text in zip(lines, texts, strict=True):
            shown = _cut(text)
            self._shown.setdefault((line.stream + 1, line.number), []).append(Shown(line, shown))
            if before and (line.stream != before.stream or line.number > before.number + 1):
                rows.append("...")
            count = (counts or {}).get(line.in_file)
            many = f" ({count} like this)" if count else ""
            rows.append(f"s{line.stream + 1}:{line.number}{many} | {shown}")
            before = line
        return self._out("\n".join(rows))

    def fenced(self, text: str) -> str:
        """Text that has gone through `text` or `rows`, marked as data."""
        return f"<log-{self.nonce}>\n{text}\n</log-{self.nonce}>"

    def shown(self, source: int, number: int) -> Sequence[Shown]:
        """What was shown of the lines with this number; empty when none was."""
        return self._shown.get((source, number), ())

    def _out(self, text: str) -> str:
        self.sent += len(text.encode(errors="replace"))
        return text

    def _hidden(self, texts: list[str]) -> list[str]:
        """The texts without secrets and names; hidden as one, for some secrets run over lines."""
        return self.redactor.hide("\n".join(texts)).split("\n") if texts else []


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_BEGINNING]}\u2026{text[-_END:]}"


def _readable(text: str) -> str:
    """A line as it can be shown, cut between words when it is very long."""
    if len(text) > _LONGEST_READ:
        text = text[:_LONGEST_READ].rpartition(" ")[0] or text[:_LONGEST]
    return clean(neutral(text), _LONGEST_READ * 2)
