"""A second reading of harvested messages, blind to the rules: what a reader of the source says, and what the rules say.

    python -m evals.second_reading COMPONENT CHECKOUT            # the 100 messages to label
    python -m evals.second_reading COMPONENT CHECKOUT LABELS     # compares, and keeps both in results/catalogues.json

A line of LABELS is `HASH REASON|REASON ROLE|ROLE`, the first of each the reader's own, the others accepted. What no
rule knows is taken as harmless. The rules of the reading are in docs/catalogues.md.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.harvest import Component, Message, components, judged, keep, kept, messages, printed_line
from logdiag.rules import RuleBook

_SAMPLED = 100
_DIGITS = 8


def name_of(message: Message) -> str:
    """The name under which a message is labelled."""
    return hashlib.sha256(message.text.encode()).hexdigest()[:_DIGITS]


def sample(book: RuleBook, component: Component, found: Sequence[Message]) -> list[Message]:
    """The messages to label: those not left out whose names are the smallest."""
    asked = [message for message in found if not judged(book, component, message).startswith("left out")]
    return sorted(asked, key=name_of)[:_SAMPLED]


def compared(
    book: RuleBook, component: Component, found: Sequence[Message], labels: Mapping[str, str]
) -> dict[str, Any]:
    """How far the rules and a reader agree on the messages that are labelled, and where they do not."""
    counts = {
        "messages": 0,
        "known": 0,
        "reason": 0,
        "role": 0,
        "reason_of_known": 0,
        "role_of_known": 0,
        "own_reason": 0,
    }
    apart = []
    for message in found:
        label = labels.get(name_of(message))
        if label is None:
            continue
        finding = book.confirm_all(printed_line(component, message))
        reason, role = (finding.reason.value, finding.role.value) if finding else ("none", "harmless")
        reasons, roles = (accepted.split("|") for accepted in label.split())
        known = judged(book, component, message) not in ("open", "general")
        right = {"reason": reason in reasons, "role": role in roles, "own_reason": reason == reasons[0]}
        counts["messages"] += 1
        counts["known"] += known
        for what, is_right in right.items():
            counts[what] += is_right
            if f"{what}_of_known" in counts:
                counts[f"{what}_of_known"] += known and is_right
        if not (right["reason"] and right["role"]):
            apart.append(f"{name_of(message)} {reason} {role}{'' if known else ' by speaker' if finding else ' open'}")
    return {**counts, "apart": apart}


def main(arguments: Sequence[str]) -> None:
    """Prints the messages to label, or compares the labels."""
    name, checkout = arguments[:2]
    component, book = components()[name], RuleBook.load()
    found = messages(component, Path(checkout))
    if len(arguments) == 2:
        for message in sample(book, component, found):
            print(name_of(message), message.file, message.text, sep="\t")
        return
    lines = Path(arguments[2]).read_text(encoding="utf-8").splitlines()
    row = compared(book, component, found, dict(line.split(" ", 1) for line in lines))
    keep("second_reading", kept().get("second_reading", {}) | {name: {**row, "labels": lines}})
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
