"""Takes the part of the lab's cases that is small enough for the repository.

    python -m evals.faultlab.sample evals/faultlab/out [CASES...]

Writes evals/cases/<split>.jsonl.zst: every case whose log is one text of at most 64 KB, in the order of their names. A
case in which a root line of the other labelled CASES stands word for word is left out, so that the sets measure apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logdiag.evaluation.cases import load_cases

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["take"]

CASES = Path(__file__).parent.parent / "cases"
_LONGEST = 64_000
_LEVEL = 19
_SHORTEST_WORDING = 30


def take(made: Path, kept: Path = CASES, others: Sequence[str] = ()) -> dict[str, int]:
    """Copies the small cases of each split; how many there are of each. `others` are files of further labelled
    cases. Raises CaseError for those."""
    roots = {case.roots[0] for case in load_cases(others).cases if case.roots} if others else set()
    # A mere name of an exception is no wording.
    said = {root for root in roots if len(root) >= _SHORTEST_WORDING}
    counts: dict[str, int] = {}
    for path in sorted(made.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        small = sorted(
            (row for row in rows if _is_small(row) and not any(root in row["log"] for root in said)), key=_id
        )
        if small:
            text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in small)
            (kept / f"{path.stem}.jsonl.zst").write_bytes(zstd.compress(text.encode(), level=_LEVEL))
            counts[path.stem] = len(small)
    return counts


def _is_small(row: dict[str, Any]) -> bool:
    return 0 < len(row.get("log", "")) <= _LONGEST


def _id(row: dict[str, Any]) -> str:
    return str(row["id"])


if __name__ == "__main__":
    print(take(Path(sys.argv[1]), others=sys.argv[2:]))
