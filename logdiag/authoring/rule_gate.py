"""What every proposed rule must pass: it fires on its incidents, on none of another reason, on no healthy log, and
leaves the examples of all other rules to them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from logdiag.authoring.rule_file import Proposal, in_a_folder
from logdiag.memory.incident import Incident, masked
from logdiag.read.prefixes import parse_line
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.rules.book import example_line
from logdiag.rules.check import check
from logdiag.rules.files import parse
from logdiag.rules.folders import RuleFiles

MASKS = {
    "<n>": (r"\d{1,20}(?:\.\d{1,20})?", "7", "1204481"),
    "<hex>": (r"(?:0x)?[0-9a-fA-F]{1,64}", "0x7f3a12c0", "0x55d01e80f2"),
    "<id>": (r"[0-9a-fA-F-]{36}", "3f2b8c1e-5a7d-4e90-b1c2-9d8e7f6a5b4c", "c81d4e2e-bcf2-11e6-869b-7df92533d2db"),
    "<pci>": (r"(?:PCI:)?[0-9a-fA-F:.]{7,20}", "0000:3b:00", "0000:c1:00"),
    "<time>": (r"[0-9TZ:., -]{8,40}", "2026-01-05 09:10:11", "2026-10-25 23:59:01"),
    "<address>": (r"\d{1,3}(?:\.\d{1,3}){3}", "192.0.2.17", "198.51.100.203"),
    "<url>": (
        r"[A-Za-z0-9]{2,6}://[^\s'\"<>)\]]{1,400}", "https://example.org/a/b", "https://example.net/other/place"
    ),
    "<path>": (r"[~.]{0,2}/[\w.@+%=:/-]{1,400}", "/data/run/part", "/srv/jobs/other/place"),
}  # fmt: skip
"""For each mask what it can stand for, and what stands there in examples: after some words a short number would be
taken for a telling one."""
_VARIANTS = (1, 2)
MASK = re.compile("|".join(MASKS))
"""What stands in a signature where its line had a number, a name or a place."""


@dataclass(frozen=True, slots=True)
class Group:
    """Incidents of one reason whose lines have `shape` in common: words, and gaps between them; empty where it is not
    known."""

    shape: tuple[str, ...]
    incidents: tuple[Incident, ...]

    @property
    def signatures(self) -> list[str]:
        """Their masked lines, each once."""
        return list(dict.fromkeys(item.signature for item in self.incidents))


def example_of(signature: str, variant: int = 0) -> str:
    """A line whose masked form is the signature, with made-up values."""
    filled = [_filled(signature, at) for at in (*_VARIANTS[variant:], *_VARIANTS[:variant])]
    return next((text for text in filled if masked(text) == signature), filled[0])


def _filled(signature: str, variant: int) -> str:
    return MASK.sub(lambda match: MASKS[match[0]][variant], signature)


def judged_drafts(
    drafts: Sequence[Proposal],
    groups: Sequence[Group],
    others: Sequence[Incident],
    folders: Sequence[str | os.PathLike[str]],
    healthy: Sequence[str | os.PathLike[str]],
) -> list[Proposal]:
    """The drafts with what is wrong with each."""
    if not drafts:
        return []
    with in_a_folder(drafts) as folder:
        alone = RuleBook(parse(RuleFiles([folder])).rules)
        book = RuleBook.load([*folders, folder], proof=True)
    names = {draft.id for draft in drafts}
    found = [(item.rule, f"{item.what}; {item.remedy}") for item in check(book, names)]
    found += [*_regular(book, names), *_against_logs(alone, healthy)]
    for draft, group in zip(drafts, groups, strict=True):
        found += [(draft.id, what) for what in _against_incidents(alone, draft.id, group, others)]
    return [replace(draft, problems=tuple(what for name, what in found if name == draft.id)) for draft in drafts]


def _regular(book: RuleBook, names: set[str]) -> Iterator[tuple[str, str]]:
    """The new rules whose own examples healthy jobs print, and what is wrong."""
    for owner, example in ((rule.id, example) for rule in book.rules if rule.id in names for example in rule.fires):
        line, _ = example_line(example, book.forms)
        if book.is_progress(line) or book.filters_of(line):
            yield owner, f"its example {line.text!r} is what healthy jobs print"


def _against_incidents(book: RuleBook, name: str, group: Group, others: Iterable[Incident]) -> list[str]:
    """What a rule does wrong on the incidents that are remembered."""
    index = next(at for at, rule in enumerate(book.rules) if rule.id == name)

    def fires(signature: str) -> list[bool]:
        return [book.claims(index, parse_line(example_of(signature, variant)), "") for variant in range(len(_VARIANTS))]

    missed = [item for item in group.incidents if not all(fires(item.signature))]
    wrong = [item for item in others if item.reason is not group.incidents[0].reason and any(fires(item.signature))]
    return [f"does not fire on its incident {item.id}" for item in missed] + [
        f"fires on incident {item.id}, which is {item.reason.value}" for item in wrong
    ]


def _against_logs(book: RuleBook, logs: Sequence[str | os.PathLike[str]]) -> list[tuple[str, str]]:
    """The first line of each healthy log that a rule fires on: the rule's id and what is wrong."""
    found: dict[tuple[str, str], str] = {}
    for stream in open_sources(tuple(logs), forms=book.forms) if logs else ():
        for block in stream.blocks():
            for start, end, _ in book.scan(block.data):
                line = parse_line(block.data[start:end].decode(errors="replace"), prefix=block.prefix)
                finding = book.confirm_all(line)
                if finding is not None:
                    number = block.number_of(block.data.count(b"\n", 0, start))
                    found.setdefault(
                        (finding.rule, stream.name),
                        f"fires on the healthy log {stream.name}:{number}: {line.text[:160]!r}",
                    )
    return [(name, what) for (name, _), what in found.items()]
