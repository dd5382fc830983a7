"""The report as Markdown, for an issue or a chat: the rows of the text report, log text inside code fences that it
cannot close."""

from __future__ import annotations

import re
from itertools import groupby

from logdiag.model import Diagnosis
from logdiag.patterns import pattern_of
from logdiag.report.as_text import Row, report_rows
from logdiag.report.words import clean

_SPECIAL = pattern_of(r"([\\`*_{}\[\]()<>#+!|~&$@-])")
# https://token.example/x   www.example.org   mira@example.org   which would be made links
_LINK = pattern_of(r"(?i)(?:\b[a-z][a-z0-9+.-]{0,30}://|\bwww\.|\b(?:mailto|xmpp):)[^\s|`]+|[^\s|`]+@[^\s|`]+")


def document(diagnosis: Diagnosis) -> str:
    """The report as one Markdown document."""
    headline, *rows = report_rows(diagnosis, verbose=True)
    blocks = [f"## {_safe(str(headline))}"]
    for kind, group in groupby(filter(str, rows), key=_kind_of_row):
        if kind == "log":
            blocks.append(_fenced("\n".join(map(str, group))))
        elif kind == "item":
            blocks.append("\n".join(map(_item, group)))
        else:
            blocks += map(_paragraph, group)
    return "\n\n".join(blocks)


def _kind_of_row(row: Row) -> str:
    """`log` for a line of a log, `item` for what stands indented below a title, `words` for all else."""
    return "log" if row.of_log else "item" if str(row).startswith("  ") else "words"


def _paragraph(row: Row) -> str:
    label, words = row.label[0].strip(), "".join(text for text, _ in row.spans).strip()
    return f"**{_safe(label)}** {_safe(words)}".rstrip() if label else _safe(words)


def _item(row: Row) -> str:
    words = _safe(str(row).strip())
    return words if re.match(r"\d+\. ", words) else f"- {words}"


def _safe(text: str) -> str:
    """Words without markup; what would be made a link is shown as code."""
    plain, parts, after = clean(text), [], 0
    for link in _LINK.finditer(plain):
        parts += [_SPECIAL.sub(r"\\\1", plain[after : link.start()]), f"`{link[0]}`"]
        after = link.end()
    return "".join([*parts, _SPECIAL.sub(r"\\\1", plain[after:])])


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
