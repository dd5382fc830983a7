"""From a job's output to a labelled case, and the checks that it is one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from evals.faultlab.sandbox import Output
from evals.faultlab.scenario import Scenario
from evals.faultlab.shapes import Shape
from logdiag.model import Action, Reason

__all__ = ["Problem", "label_of", "leaks_of", "problems_of", "wording"]

# What no job prints, and a label would be readable from.
_NAMES_OF_OURS = ("faultlab", "logdiag", "inject", "heldback", "culprit")
_ONLY_TAXONOMY = [
    "NVLinkError",
    "NodeFailure",
    "ECCError",
    "S3StorageError",
    "NCCLTimeoutError",
    "DataloaderKilled",
    "ModelLoadingError",
    "DatasetLoadingError",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a run is no case."""

    case: str
    what: str

    def __str__(self) -> str:
        return f"{self.case}: {self.what}"


def label_of(scenario: Scenario, shape: Shape) -> dict[str, Any]:
    """The label of a run, known before it runs; the fields of a labelled case without its log."""

    def said(text: str) -> str:
        return text.replace("{rank}", str(shape.culprit)).replace("{host}", shape.host)

    label: dict[str, Any] = {
        "id": f"{scenario.split}/{scenario.name}/{shape.index}",
        "source": "fault lab",
        "split": scenario.split,
        "fault": scenario.name,
        "category": scenario.reason.category.value,
        "reason": scenario.reason.value,
        "also_ok": [reason.value for reason in scenario.also_ok],
        "root_line": said(scenario.root),
        "also_root": [said(text) for text in scenario.also_root],
        "action": scenario.action.value,
        "also_action": [action.value for action in scenario.also_action],
        "tags": [*scenario.tags, *shape.tags, *_more_tags(scenario, shape)],
        "why": scenario.why,
        "sure": 1.0,
    }
    if shape.ranks > 1 and scenario.root and scenario.rank != "unknown":
        label["rank"] = shape.culprit if scenario.rank == "culprit" else scenario.rank
    return label


def _more_tags(scenario: Scenario, shape: Shape) -> list[str]:
    cascade = ["cascade"] if scenario.root and shape.ranks > 1 else []
    return [*cascade, *(["reconstructed"] if scenario.reconstructed else [])]


def problems_of(scenario: Scenario, label: dict[str, Any], output: Output) -> list[Problem]:
    """Why a run shows not what it was meant to show; none for a good case."""
    case = label["id"]
    if output.trouble:
        return [Problem(case, output.trouble)]
    text = b"\n".join(output.files.values()).decode("utf-8", "replace")
    found = [Problem(case, f"the log gives its label away: {leak}") for leak in leaks_of(scenario.name, text)]
    if not text.strip():
        found.append(Problem(case, "the log is empty"))
    elif scenario.reason is Reason.NONE and output.status:
        found.append(Problem(case, f"a healthy job ended with {output.status}"))
    elif scenario.reason is not Reason.NONE and not output.status and scenario.action is not Action.NONE:
        found.append(Problem(case, "the job ended well"))
    if label["root_line"] and not any(label["root_line"] in line for line in text.splitlines()):
        found.append(Problem(case, f"the root line is not in the log: {label['root_line']}"))
    return found


def leaks_of(name: str, text: str) -> list[str]:
    """Words in a log by which its label could be read and that no real job prints."""
    low = text.lower()
    ours = [word for word in _NAMES_OF_OURS if word in low]
    if "-" in name and name in low:
        ours.append(name)
    return ours + [word for word in _ONLY_TAXONOMY if word in text]


def wording(line: str) -> str:
    """A root line without what varies: two splits must not share it."""
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+|\d+", "#", line)).strip()
