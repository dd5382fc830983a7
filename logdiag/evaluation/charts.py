"""The page's charts: inline SVG and one table of cells, coloured by classes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from logdiag.evaluation.words import value_words
from logdiag.model import Reason

__all__ = ["confusion_table", "reason_bars", "reliability_diagram"]

_STEPS = 5


def reliability_diagram(bins: Sequence[Mapping[str, Any]]) -> str:
    """Share right against mean confidence, a dot with its interval and count for each bin, and the diagonal."""
    left, top, side, strip = 46, 12, 340, 60
    parts = [
        f'<svg viewBox="0 0 {left + side + 16} {top + side + strip + 66}" role="img" aria-label="Reliability diagram">'
    ]

    def across(value: float) -> float:
        return round(left + value * side, 1)

    def down(value: float) -> float:
        return round(top + (1 - value) * side, 1)

    for tick in range(0, 11, 2):
        share = tick / 10
        parts.append(f'<path class="axis" d="M{left} {down(share)}H{left + side}"/>')
        parts.append(f'<text class="soft end" x="{left - 8}" y="{down(share) + 4}">{share:.1f}</text>')
        parts.append(f'<text class="soft middle" x="{across(share)}" y="{top + side + 18}">{share:.1f}</text>')
    parts.append(f'<path class="diagonal" d="M{across(0)} {down(0)}L{across(1)} {down(1)}"/>')
    most = max((int(item["n"]) for item in bins), default=1)
    base = top + side + 34 + strip
    for item in bins:
        x, y = across(item["confidence"]), down(item["right"])
        low, high = item["interval"]
        radius = round(4 + 5 * math.sqrt(item["n"] / most), 1)
        words = f"confidence {item['from']:.1f} to {item['to']:.1f}: {item['n']} cases, {item['right']:.1%} right"
        parts.append(f'<path class="whisker" d="M{x} {down(low)}V{down(high)}"/>')
        parts.append(f'<circle class="dot" cx="{x}" cy="{y}" r="{radius}"><title>{words}</title></circle>')
        height = round(max(1.5, (strip - 14) * item["n"] / most), 1)
        start, width = across(item["from"]) + 2, round(side / 10 - 4, 1)
        parts.append(f'<rect class="track" x="{start}" y="{base - height}" width="{width}" height="{height}" rx="2"/>')
        parts.append(f'<text class="middle" x="{start + width / 2:.1f}" y="{base - height - 4}">{item["n"]}</text>')
    parts.append(f'<path class="axis" d="M{left} {base}H{left + side}"/>')
    middle = left + side / 2
    parts.append(
        f'<text class="soft middle" x="{middle}" y="{base + 20}">confidence; below, the cases of each tenth</text>'
    )
    turned = top + side / 2
    parts.append(
        f'<text class="soft middle" x="12" y="{turned}" transform="rotate(-90 12 {turned})">share right</text></svg>'
    )
    return "".join(parts)


def reason_bars(by_reason: Mapping[str, Mapping[str, Any]]) -> str:
    """For each reason, with its number of cases, how often reason, root line and action were right."""
    names, number, width, gap, row = 160, 44, 250, 38, 22
    columns = (("Reason", None), ("Root line", "root_line_hit"), ("Action", "action_accuracy"))
    total = names + number + len(columns) * (width + gap)
    parts = [f'<svg viewBox="0 0 {total} {30 + row * len(by_reason)}" role="img" aria-label="Right answers by reason">']
    parts.append(f'<text class="soft end" x="{names + number - 14}" y="14">cases</text>')
    starts = [names + number + index * (width + gap) for index in range(len(columns))]
    parts += [
        f'<text class="soft" x="{x}" y="14">{title}</text>' for x, (title, _) in zip(starts, columns, strict=True)
    ]
    for index, (name, values) in enumerate(by_reason.items()):
        y = 24 + index * row
        parts.append(f'<text class="end" x="{names - 14}" y="{y + 14}">{escape(name)}</text>')
        parts.append(f'<text class="soft end" x="{names + number - 14}" y="{y + 14}">{values["n"]}</text>')
        for x, (_, key) in zip(starts, columns, strict=True):
            share = values["right"] / values["n"] if key is None else values[key]
            parts.append(_bar(x, y + 4, width, share))
    return "".join([*parts, "</svg>"])


def _bar(x: int, y: int, width: int, share: float | None) -> str:
    """A bar of a share on its track, with the number where it is not all."""
    if share is None:
        return f'<text class="soft" x="{x}" y="{y + 10}">{value_words("reason_accuracy", None)}</text>'
    track = f'<rect class="track" x="{x}" y="{y}" width="{width}" height="13" rx="2"/>'
    kind = "bar" if share == 1 else "bar partial"
    filled = (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{round(width * share, 1)}" height="13" rx="2"/>' if share else ""
    )
    number = "" if share == 1 else f'<text class="soft" x="{x + width + 4}" y="{y + 11}">{share:.0%}</text>'
    return track + filled + number


def confusion_table(confusion: Mapping[str, Mapping[str, int]]) -> str:
    """Truth by answer; a cell's depth is its share of the row, and only wrong cells are orange."""
    order = {reason.value: index for index, reason in enumerate(Reason)}
    truths = sorted(confusion, key=lambda name: order.get(name, len(order)))
    answered = {answer for answers in confusion.values() for answer in answers}
    answers = sorted({*truths, *answered}, key=lambda name: order.get(name, len(order)))
    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in answers)
    rows = []
    for truth in truths:
        total = sum(confusion[truth].values())
        cells = "".join(_cell(truth, name, confusion[truth].get(name, 0), total) for name in answers)
        rows.append(f'<tr><th scope="row">{escape(truth)}</th>{cells}</tr>')
    return (
        '<div class="scroll"><table class="matrix"><thead><tr><th></th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(truth: str, answer: str, count: int, total: int) -> str:
    if not count:
        return "<td></td>"
    kind = "r" if truth == answer else "w"
    title = escape(f"{truth}, answered {answer}: {count} of {total}")
    return f'<td class="{kind}{math.ceil(_STEPS * count / total)}" title="{title}">{count}</td>'
