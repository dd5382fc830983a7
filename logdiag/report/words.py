"""Words and numbers that all readable forms share, and the cleaning of log text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from logdiag.judge.verdict import SURE
from logdiag.model import Diagnosis, Recovery

__all__ = ["action_words", "amount", "clean", "headline", "rank_ranges", "where"]

# Control, format (hidden or direction-turning), surrogate and unassigned characters, and separators of lines.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_LONGEST = 400


def clean(text: str, longest: int = _LONGEST) -> str:
    """Log text that cannot steer a terminal: controls made visible, tabs as spaces, cut at `longest` characters."""
    expanded = text[: longest * 2].replace("\t", "    ")
    shown = expanded if expanded.isascii() and expanded.isprintable() else "".join(map(_visible, expanded))
    return shown if len(shown) <= longest else shown[: longest - 1] + "\u2026"


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _UNSAFE_CATEGORIES:
        return character
    return f"\\x{ord(character):02x}"


def rank_ranges(ranks: Iterable[int]) -> str:
    """Ranks as ranges: `0-4, 6-63`."""
    parts: list[str] = []
    first = last = None
    for rank in [*sorted(set(ranks)), None]:
        if last is not None and rank == last + 1:
            last = rank
            continue
        if first is not None:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = rank
    return ", ".join(parts)


def headline(diagnosis: Diagnosis) -> str:
    """Failed or not, the reason, and how sure."""
    sure = f"confidence {diagnosis.confidence:.0%}"
    if not diagnosis.failed:
        return f"NO FAILURE{'' if diagnosis.confidence >= SURE else ' KNOWN, NOT SURE'}  {sure}"
    return f"FAILED  {diagnosis.category.value} / {diagnosis.reason.value}  {sure}"


def where(diagnosis: Diagnosis) -> str:
    """`file:line` of the root cause."""
    root = diagnosis.root_cause
    return f"{clean(root.source)}:{root.line}" if root else ""


def action_words(recovery: Recovery) -> str:
    """The action, who may carry it out, and which nodes to leave out."""
    by = "no person needed" if recovery.automatic else "needs a person"
    without = f", without {', '.join(clean(node) for node in recovery.exclude_nodes)}" if recovery.exclude_nodes else ""
    return f"{recovery.action.value} ({by}){without}"


def amount(diagnosis: Diagnosis) -> str:
    """How much was read, how fast, and how much of it was kept."""
    stats = diagnosis.stats
    size = float(stats["bytes"])
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    shown = f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
    kept = f"{stats['kept_lines']:,} lines worth reading"
    return f"{stats['lines']:,} lines, {shown} read in {stats['seconds']:.2f} s; {kept}"
