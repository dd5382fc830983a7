"""Takes the part of the lab's cases that is small enough for the repository.

    python -m evals.faultlab.sample evals/faultlab/out

Writes evals/cases/<split>.jsonl.zst: every case whose log is one text of at most 64 KB, in the order of their names.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["take"]

CASES = Path(__file__).parent.parent / "cases"
_LONGEST = 64_000
_LEVEL = 19


def take(made: Path, kept: Path = CASES) -> dict[str, int]:
    """Copies the small cases of each split; how many there are of each."""
    counts: dict[str, int] = {}
    for path in sorted(made.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        small = sorted((row for row in rows if 0 < len(row.get("log", "")) <= _LONGEST), key=lambda row: str(row["id"]))
        if small:
            text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in small)
            (kept / f"{path.stem}.jsonl.zst").write_bytes(zstd.compress(text.encode(), level=_LEVEL))
            counts[path.stem] = len(small)
    return counts


if __name__ == "__main__":
    print(take(Path(sys.argv[1])))
