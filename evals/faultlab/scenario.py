"""A scenario: one fault (or one healthy job), how to bring it about, and the truth that follows from that.

Each is a YAML file, `scenarios/<split>/<name>.yaml`; README.md explains every field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from logdiag.errors import LogdiagError
from logdiag.model import Action, Reason

__all__ = ["SCENARIOS", "Scenario", "load_scenarios"]

SCENARIOS = Path(__file__).parent / "scenarios"


class Scenario(BaseModel):
    """What a scenario file says. `name` and `split` come from its place."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    split: str
    # The truth, as in the format of labelled cases.
    reason: Reason
    also_ok: list[Reason] = []
    action: Action
    also_action: list[Action] = []
    root: str = ""
    also_root: list[str] = []
    rank: Literal["culprit", "unknown"] | int = "culprit"
    why: str
    tags: list[str] = []
    # How it is brought about.
    job: str = "train"
    ranks: list[int] = Field(default=[1, 2, 4, 8], min_length=1)
    culprit: int | None = None
    phase: Literal["start", "step", "end"] = "step"
    steps: int = 60
    arguments: str = ""
    environment: dict[str, str] = {}
    callbacks: str = ""
    record: dict[str, Any] = {}
    record_text: str | None = None
    files: dict[str, str] = {}
    setup: str = ""
    during: str = ""
    launch: str = ""
    after: str = ""
    collect: list[str] = []
    memory_megabytes: int | None = None
    recovered: bool = True
    second: bool = True
    layouts: bool = True
    long: bool = True
    reconstructed: bool = False
    needs: list[str] = []
    seconds: int = 90

    @model_validator(mode="after")
    def _is_whole(self) -> Scenario:
        if (self.reason is Reason.NONE) != (self.root == ""):
            raise ValueError("a fault needs a root, a healthy job has none")
        if (self.reason is Reason.NONE) != (self.action is Action.NONE and not self.also_action) and self.root == "":
            raise ValueError("a healthy job's action is none")
        return self


def load_scenarios(folder: Path = SCENARIOS) -> list[Scenario]:
    """All scenarios below a folder, by split and name. Raises LogdiagError with a line for each broken file."""
    found: list[Scenario] = []
    problems: list[str] = []
    for path in sorted(folder.glob("*/*.yaml")):
        try:
            fields = yaml.safe_load(path.read_text(encoding="utf-8"))
            found.append(Scenario(name=path.stem, split=path.parent.name, **fields))
        except (yaml.YAMLError, ValidationError, TypeError) as error:
            problems.append(f"{path}: {error}")
    if problems:
        raise LogdiagError("\n".join(problems))
    return found
