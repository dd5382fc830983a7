"""A proposed rule or filter as a file: its words, its id, and how it gets into a rule folder."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from logdiag.agent.forms import data_of
from logdiag.errors import RuleError
from logdiag.memory.documents import printable
from logdiag.memory.embedding import MASK
from logdiag.memory.incident import Helped, Incident, masked
from logdiag.model import Action
from logdiag.settings.places import StrPath

_LONGEST_TITLE = 90
_MOST_STEPS = 3
MOST_EXAMPLES = 6
"""Of each kind, in a drafted rule."""
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed rule or filter: its file's `text`, and `problems` that forbid its use. A rule is made of `incidents`;
    a filter was proposed by `votes` samples."""

    id: str
    text: str
    problems: tuple[str, ...] = ()
    incidents: tuple[str, ...] = ()
    votes: int = 0


MASKS: dict[str, list[str]] = data_of("masks.yaml", __file__)
"""For each mask a pattern of what it stands for, and two made-up values for examples."""
_PARTS = re.compile(f"({MASK.pattern})")


def example_of(signature: str, variant: int = 0) -> str:
    """A line whose masked form is the signature, with made-up values, of which there are two variants (0 and 1)."""
    order = (1 + variant, 2 - variant)
    filled = ["".join(MASKS.get(part, [part] * 3)[index] for part in _PARTS.split(signature)) for index in order]
    return next((text for text in filled if masked(text) == signature), filled[0])


def examples_of(incidents: Iterable[Incident]) -> list[str]:
    """An example line for each wording of the incidents."""
    return list(dict.fromkeys(example_of(item.signature) for item in incidents))


def rule_draft(
    incidents: Sequence[Incident],
    pattern: str,
    *,
    title: str,
    why: str,
    quiet: Iterable[str],
    taken: set[str],
    explains: Iterable[str] = (),
    references: Sequence[str] = (),
) -> Proposal:
    """The rule file for incidents of one reason, with a new id, which is added to `taken`. Action and steps come from
    the incidents, remedies that worked first, those that failed left out."""
    ordered = sorted(incidents, key=lambda item: (item.outcome is not Helped.WORKED, item.id))
    not_failed = [item for item in ordered if item.outcome is not Helped.DID_NOT]
    actions = Counter(item.action.value for item in not_failed if item.action is not Action.NONE)
    steps = dict.fromkeys(_without_braces(item.remedy) for item in not_failed if item.remedy)
    ids = tuple(item.id for item in incidents)
    document = {
        "reason": incidents[0].reason.value,
        "title": as_title(title),
        "why": _without_braces(why),
        "action": actions.most_common(1)[0][0] if actions else None,
        "steps": list(steps)[:_MOST_STEPS],
        "match": [pattern],
        "explains": list(dict.fromkeys(explains)),
        "references": [f"Incidents {', '.join(ids[:_MOST_NAMED])}", *references],
    }
    known = {key: value for key, value in document.items() if value}
    fires = examples_of(incidents)
    others = [line for line in dict.fromkeys(quiet) if line not in fires]
    examples = {"fires": fires[:MOST_EXAMPLES], "quiet": others[:MOST_EXAMPLES]}
    text = as_yaml({**known, "examples": examples})
    return Proposal(free_id(title, taken), text, incidents=ids)


def as_yaml(document: dict[str, Any]) -> str:
    """A rule or filter as YAML, without signs that cannot be printed."""

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shown(item) for key, item in value.items()}
        if isinstance(value, list):
            return [shown(item) for item in value]
        return printable(value) if isinstance(value, str) else value

    return yaml.safe_dump(shown(document), sort_keys=False, allow_unicode=True, width=10_000)


def accept(proposal: Proposal, folder: StrPath) -> Path:
    """Writes a proposal without problems into a rule folder as a new file; returns its path. Raises RuleError."""
    path = Path(folder, f"{proposal.id}.yaml")
    if proposal.problems:
        raise RuleError(f"{path}: did not pass: {proposal.problems[0]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(proposal.text)
    except FileExistsError as error:
        raise RuleError(f"{path}: is there already; move it away") from error
    except OSError as error:
        raise RuleError(f"{path}: cannot be written ({error.strerror}); name another folder with --rules") from error
    return path


@contextmanager
def in_a_folder(proposals: Iterable[Proposal]) -> Iterator[str]:
    """Yields a temporary rule folder that holds the proposals."""
    with tempfile.TemporaryDirectory(prefix="logdiag-rules-") as folder:
        for proposal in proposals:
            accept(replace(proposal, problems=()), folder)
        yield folder


def free_id(title: str, taken: set[str]) -> str:
    """A new id made from a title; it is added to `taken`."""
    words = re.findall(r"[a-z0-9]+", title.lower())[:6] or ["known", "failure"]
    base = f"own/{'-'.join(words)}"
    name = next(name for name in (base, *(f"{base}-{number}" for number in range(2, 10_000))) if name not in taken)
    taken.add(name)
    return name


def as_title(text: str) -> str:
    """A text of at most a title's length, cut between words."""
    text = _without_braces(text)
    return text if len(text) <= _LONGEST_TITLE else text[:_LONGEST_TITLE].rsplit(" ", 1)[0] + " ..."


def _without_braces(text: str) -> str:
    """The text on one line, with round brackets for braces, which would be filled in as fields of a rule."""
    return " ".join(text.replace("{", "(").replace("}", ")").split())
