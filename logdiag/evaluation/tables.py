"""What the baselines and the weights of the evaluation know, as data: `tables.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from logdiag.model import Reason

TABLES: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
COUNT: dict[str, float] = {Reason(name).value: float(count) for name, (count, _) in TABLES["paper"].items()}
GPU_TIME: dict[str, float] = {Reason(name).value: share for name, (_, share) in TABLES["paper"].items()}
